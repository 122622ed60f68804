"""Adaptive importance sampling over standard normal coordinates and a few discrete cells.

A model is written so that its prior is a standard normal vector z (each physical quantity is a
function of it) and a cell (a combination of discrete choices). Evidence multiplies the prior.
Stage by stage a mixture of one normal a group of cells and the prior itself is fitted to the
weighted draws of the stage before (population Monte Carlo, Cappe et al., 2008), with evidence
raised to a power below one as long as too few draws would count (annealing). Only the last
stage is kept; its weights are exact, so the adaptation costs accuracy of none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from archinfer import special
from archinfer.models.shape import FloatArray

Index = NDArray[np.intp]
Payload = TypeVar("Payload")

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
_DEFENSIVE = 0.15
"""Share of the draws that come from the prior, so that no weight exceeds evidence / 0.15."""
_INFLATION = 1.2
_ANNEAL_ESS = 400.0
_STAGES_MAX = 10
_ENOUGH = 2.0 / 3.0
_PATIENCE = 4
"""Stages after which more draws, up to 8 times as many, make up for a poor proposal."""


def kronecker(count: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
    """Shape (count, dimensions): frac(shift + i sqrt(p_j)), equidistributed in the unit cube.

    Richtmyer's sequence with the square roots of the first primes and a random shift.
    """
    steps = np.sqrt(np.asarray(_PRIMES[:dimensions], dtype=float))
    points = (rng.random(dimensions) + np.arange(1.0, count + 1.0)[:, None] * steps) % 1.0
    return np.asarray(np.clip(points, 1e-12, 1.0 - 1e-12))


def normal_points(count: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
    """Equidistributed standard normal points, shape (count, dimensions)."""
    return np.asarray(special.ndtri(kronecker(count, dimensions, rng)))


def effective_size(log_weights: FloatArray) -> float:
    """Kish's effective sample size (sum w)^2 / sum w^2; 0 where no weight is positive."""
    top = log_weights.max(initial=-np.inf)
    if not np.isfinite(top):
        return 0.0
    w = np.exp(log_weights - top)
    # Plain sums: threads of a BLAS dot product cost more than they save here.
    return float(w.sum() ** 2 / (w * w).sum())


@dataclass(frozen=True)
class Space:
    """The prior: `dimensions` standard normal coordinates and the cells.

    Attributes:
        dimensions: length of z.
        cell_probability: prior probability of each cell, shape (cells,).
        group: group of each cell, 0 to groups - 1; the cells of one share a proposal.
        explore: factor by which half of the first stage's draws are spread in each coordinate.
    """

    dimensions: int
    cell_probability: FloatArray
    group: Index
    explore: FloatArray


@dataclass(frozen=True)
class Proposal:
    """A mixture: `_DEFENSIVE` of the prior, the rest one normal a group."""

    cell_probability: FloatArray
    means: FloatArray
    factors: FloatArray
    """Cholesky factors, shape (groups, dimensions, dimensions)."""


@dataclass(frozen=True)
class Draws(Generic[Payload]):
    """Weighted draws of the last stage.

    Attributes:
        log_weights: shape (n,), of prior x evidence over proposal; -inf where impossible.
        ess: effective sample size.
        stages: stages run.
        proposal: fitted to these draws, a start for a question with more evidence.
        payload: what the model computed for the draws.
    """

    log_weights: FloatArray
    ess: float
    stages: int
    proposal: Proposal | None
    payload: Payload

    @property
    def weights(self) -> FloatArray:
        """Normalised weights, shape (n,)."""
        w = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(w / w.sum())

    @property
    def log_evidence(self) -> float:
        """Logarithm of the mean evidence under the prior; -inf where there is none."""
        top = float(self.log_weights.max())
        if not np.isfinite(top):
            return -np.inf
        return top + float(np.log(np.exp(self.log_weights - top).mean()))


def _log_normal_density(z: FloatArray, mean: FloatArray, factor: FloatArray) -> FloatArray:
    """log N(z; mean, factor factor') without the constant (2 pi)^(-d/2)."""
    inverse = np.linalg.inv(factor)
    white = (z - mean) @ inverse.T
    return np.asarray(
        -0.5 * np.einsum("ij,ij->i", white, white) - np.log(np.diagonal(factor)).sum()
    )


def _cells(probability: FloatArray, count: int, rng: np.random.Generator) -> Index:
    """Cells in proportion to `probability`, systematic and shuffled."""
    points = (np.arange(count) + rng.random()) / count
    edges = np.cumsum(probability / probability.sum())
    cells = np.minimum(np.searchsorted(edges, points), len(probability) - 1)
    return np.asarray(rng.permutation(cells))


def _first(
    space: Space, count: int, rng: np.random.Generator
) -> tuple[FloatArray, Index, FloatArray]:
    """Draws of the prior, half of them spread by `explore`, and log(prior / proposal)."""
    z = normal_points(count, space.dimensions, rng)
    wide = rng.permutation(count) < count // 2
    z[wide] *= space.explore
    cell = _cells(space.cell_probability, count, rng)
    plain = -0.5 * np.einsum("ij,ij->i", z, z)
    scaled = z / space.explore
    spread = -0.5 * np.einsum("ij,ij->i", scaled, scaled) - np.log(space.explore).sum()
    return z, cell, plain - (np.logaddexp(plain, spread) - np.log(2.0))


def _next(
    space: Space, proposal: Proposal, count: int, rng: np.random.Generator
) -> tuple[FloatArray, Index, FloatArray]:
    """Draws of the mixture and log(prior / proposal)."""
    z = normal_points(count, space.dimensions, rng)
    plain = rng.permutation(count) < int(_DEFENSIVE * count)
    cell = np.empty(count, dtype=np.intp)
    cell[plain] = _cells(space.cell_probability, int(plain.sum()), rng)
    cell[~plain] = _cells(proposal.cell_probability, int((~plain).sum()), rng)
    group = space.group[cell]
    fitted = np.empty(count)
    for g in range(len(proposal.means)):
        mean, factor = proposal.means[g], proposal.factors[g]
        mine = np.flatnonzero(group == g)
        moved = mine[~plain[mine]]
        z[moved] = mean + z[moved] @ factor.T
        fitted[mine] = _log_normal_density(z[mine], mean, factor)
    with np.errstate(divide="ignore"):
        log_prior = np.log(space.cell_probability)[cell] - 0.5 * np.einsum("ij,ij->i", z, z)
        fitted = fitted + np.log(proposal.cell_probability)[cell]
    mixture = np.logaddexp(np.log(_DEFENSIVE) + log_prior, np.log(1.0 - _DEFENSIVE) + fitted)
    return z, cell, log_prior - mixture


def _fit(space: Space, z: FloatArray, cell: Index, log_weights: FloatArray) -> Proposal:
    """The mixture nearest to weighted draws; small groups borrow the spread of all."""
    w = np.exp(log_weights - log_weights.max())
    w /= w.sum()
    d = space.dimensions
    groups = int(space.group.max()) + 1
    mean_all = w @ z
    centred = z - mean_all
    cov_all = (w[:, None] * centred).T @ centred
    prior_strength = 5.0 * d
    means = np.empty((groups, d))
    factors = np.empty((groups, d, d))
    group = space.group[cell]
    for g in range(groups):
        mine = np.flatnonzero((group == g) & (w > 0.0))
        mass = w[mine].sum()
        size = mass**2 / (w[mine] * w[mine]).sum() if mass > 0.0 else 0.0
        keep = size / (size + prior_strength)
        mean, cov = mean_all, cov_all
        if mass > 0.0:
            own = w[mine] / mass
            mean = size / (size + d) * (own @ z[mine]) + d / (size + d) * mean_all
            centred = z[mine] - mean
            cov = keep * ((own[:, None] * centred).T @ centred) + (1.0 - keep) * cov_all
        means[g] = mean
        factors[g] = np.linalg.cholesky(_INFLATION * cov + 1e-3 * np.eye(d))
    shares = np.bincount(cell, weights=w, minlength=len(space.cell_probability))
    return Proposal(0.9 * shares + 0.1 * space.cell_probability, means, factors)


def _annealed(log_ratio: FloatArray, log_evidence: FloatArray) -> tuple[FloatArray, float]:
    """Weights with evidence to the largest power that leaves `_ANNEAL_ESS` draws that count."""
    possible = np.isfinite(log_evidence)
    safe = np.where(possible, log_evidence, 0.0)

    def weights(power: float) -> FloatArray:
        return np.where(possible, log_ratio + power * safe, -np.inf)

    if effective_size(weights(1.0)) >= _ANNEAL_ESS:
        return weights(1.0), 1.0
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = 0.5 * (low + high)
        if effective_size(weights(middle)) >= _ANNEAL_ESS:
            low = middle
        else:
            high = middle
    return weights(low), low


def adapt(
    space: Space,
    evaluate: Callable[[FloatArray, Index], tuple[FloatArray, Payload]],
    count: int,
    target_ess: float,
    rng: np.random.Generator,
    start: Proposal | None = None,
) -> Draws[Payload]:
    """Sample prior x evidence until the effective sample size reaches `target_ess`.

    Args:
        space: the prior.
        evaluate: (z (n, d), cell (n,)) -> log evidence (n,), -inf where impossible, and
            anything else worth keeping.
        count: draws of one stage; late ones may take up to 8 times as many.
        target_ess: wanted effective sample size; reached or not, `Draws.ess` tells.
        rng: random generator.
        start: proposal to begin with.

    Returns:
        The best stage. `ess` 0: no draw has any evidence.
    """
    best: Draws[Payload] | None = None
    proposal = start
    most = 8 * count
    for stage in range(1, _STAGES_MAX + 1):
        if proposal is None:
            z, cell, log_ratio = _first(space, count, rng)
        else:
            z, cell, log_ratio = _next(space, proposal, count, rng)
        log_evidence, payload = evaluate(z, cell)
        log_weights = log_ratio + log_evidence
        ess = effective_size(log_weights)
        power = 0.0
        if ess > 0.0:
            annealed, power = _annealed(log_ratio, log_evidence)
            proposal = _fit(space, z, cell, annealed)
        # A mixture of normals may have no better fit than it has: two thirds are kept then.
        settled = best is not None and _ENOUGH * target_ess <= ess < 1.1 * best.ess
        if best is None or (ess > best.ess and power > 0.0):
            best = Draws(log_weights, ess, stage, proposal, payload)
        if ess >= target_ess or settled or (ess == 0.0 and stage >= 2):
            break
        if stage >= _PATIENCE and ess < _ENOUGH * target_ess:
            count = min(2 * count, most)
    assert best is not None
    return best
