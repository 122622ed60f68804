"""Adaptive importance sampling over standard normal coordinates and a few discrete cells.

A model is written so that its prior is a standard normal vector z (each physical quantity is a
function of it) and a cell (a combination of discrete choices). Evidence multiplies the prior.
Stage by stage a mixture of one normal a group of cells and the prior itself is fitted to the
weighted draws of the stage before (population Monte Carlo, Cappe et al., 2008), with evidence
raised to a power below one as long as too few draws would count (annealing). The weights of every
stage are exact, so all stages count, each by its effective sample size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from archinfer import special
from archinfer.models.shape import FloatArray

Index = NDArray[np.intp]
Payload = TypeVar("Payload")

_PRIMES = (
    2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97,
    101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193,
)  # fmt: skip
_DEFENSIVE = 0.15
"""Share of the draws that come from the prior, so that no weight exceeds evidence / 0.15."""
_INFLATION = 1.2
_ANNEAL_ESS = 400.0
_STAGES_MAX = 10
_KEPT = 3.0
"""Draws of less weight than one of so many times the effective sample size stand for each other."""
_PATIENCE = 4
"""Stages after which more draws, up to 8 times as many, make up for a poor proposal."""


def kronecker(count: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
    """Shape (count, dimensions): frac(shift + i sqrt(p_j)), equidistributed in the unit cube.

    Richtmyer's sequence with the square roots of the first primes and a random shift.
    """
    steps = np.sqrt(np.asarray(_PRIMES[:dimensions], dtype=float))
    points = rng.random(dimensions) + np.arange(1.0, count + 1.0)[:, None] * steps
    points -= np.floor(points)
    return np.asarray(np.clip(points, 1e-12, 1.0 - 1e-12, out=points))


def normal_points(count: int, dimensions: int, rng: np.random.Generator) -> FloatArray:
    """Equidistributed standard normal points, shape (count, dimensions)."""
    return np.asarray(special.ndtri(kronecker(count, dimensions, rng)))


def effective_size(log_weights: FloatArray) -> float:
    """Kish's effective sample size (sum w)^2 / sum w^2; 0 where no weight is positive."""
    top = log_weights.max(initial=-np.inf)
    if not np.isfinite(top):
        return 0.0
    w = np.exp(log_weights - top)
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
    """Weighted draws of all stages.

    Attributes:
        log_weights: shape (n,), of prior x evidence over proposal; -inf where impossible.
        ess: effective sample size.
        stages: stages run.
        drawn: draws of all stages, of which some of small weight stand for others.
        proposal: fitted to the last stage, a start for a question with more evidence.
        payload: what the model computed for the draws.
    """

    log_weights: FloatArray
    ess: float
    stages: int
    drawn: int
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


def _times(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """rows @ matrix.T; threads of a BLAS product cost more than they save on so small a matrix."""
    return np.asarray(np.einsum("ij,kj->ik", rows, matrix))


def _covariance(rows: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ni,nj->ij", weights[:, None] * rows, rows))


def _log_normal_density(z: FloatArray, mean: FloatArray, factor: FloatArray) -> FloatArray:
    """log N(z; mean, factor factor') without the constant (2 pi)^(-d/2)."""
    inverse = np.asarray(np.linalg.inv(factor), dtype=float)
    white = _times(z - mean, inverse)
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
    fitted = -0.5 * np.einsum("ij,ij->i", z, z)
    for g in range(len(proposal.means)):
        mean, factor = proposal.means[g], proposal.factors[g]
        mine = group == g
        moved, stay = np.flatnonzero(mine & ~plain), np.flatnonzero(mine & plain)
        z[moved] = mean + _times(z[moved], factor)
        fitted[moved] -= np.log(np.diagonal(factor)).sum()
        fitted[stay] = _log_normal_density(z[stay], mean, factor)
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
    cov_all = _covariance(z - mean_all, w)
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
            cov = keep * _covariance(z[mine] - mean, own) + (1.0 - keep) * cov_all
        means[g] = mean
        factors[g] = np.linalg.cholesky(_INFLATION * cov + 1e-3 * np.eye(d))
    shares = np.bincount(cell, weights=w, minlength=len(space.cell_probability))
    return Proposal(0.9 * shares + 0.1 * space.cell_probability, means, factors)


def _annealed(log_ratio: FloatArray, log_evidence: FloatArray) -> FloatArray:
    """Weights with evidence to the largest power that leaves `_ANNEAL_ESS` draws that count."""
    possible = np.isfinite(log_evidence)
    safe = np.where(possible, log_evidence, 0.0)

    def weights(power: float) -> FloatArray:
        return np.where(possible, log_ratio + power * safe, -np.inf)

    if effective_size(weights(1.0)) >= _ANNEAL_ESS:
        return weights(1.0)
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = 0.5 * (low + high)
        if effective_size(weights(middle)) >= _ANNEAL_ESS:
            low = middle
        else:
            high = middle
    return weights(low)


@dataclass(frozen=True)
class _Stage(Generic[Payload]):
    log_weights: FloatArray
    ess: float
    payload: Payload


def _pooled(stages: Sequence[_Stage[Payload]]) -> FloatArray:
    """Weights of all stages as one sample, whose evidence is the mean of theirs by their ESS."""
    ess = sum(s.ess for s in stages)
    count = sum(len(s.log_weights) for s in stages)
    if ess == 0.0:
        return stages[-1].log_weights
    with np.errstate(divide="ignore"):
        shares = [np.log(s.ess / ess * count / len(s.log_weights)) for s in stages]
    return np.concatenate([s.log_weights + share for s, share in zip(stages, shares, strict=True)])


def _arrays(parts: Sequence[Any], places: Sequence[Index]) -> Any:
    return np.concatenate([part[at] for part, at in zip(parts, places, strict=True)])


def adapt(
    space: Space,
    evaluate: Callable[[FloatArray, Index], tuple[FloatArray, Payload]],
    count: int,
    target_ess: float,
    rng: np.random.Generator,
    start: Proposal | None = None,
    join: Callable[[Sequence[Payload], Sequence[Index]], Payload] = _arrays,
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
        join: what is worth keeping of some draws of each stage, put together.

    Returns:
        All stages together. `ess` 0: no draw has any evidence.
    """
    stages: list[_Stage[Payload]] = []
    proposal, ess = start, 0.0
    least, most = count, 8 * count
    for stage in range(1, _STAGES_MAX + 1):
        if proposal is None:
            z, cell, log_ratio = _first(space, count, rng)
        else:
            z, cell, log_ratio = _next(space, proposal, count, rng)
        log_evidence, payload = evaluate(z, cell)
        log_weights = log_ratio + log_evidence
        stages.append(_Stage(log_weights, effective_size(log_weights), payload))
        if stages[-1].ess > 0.0:
            proposal = _fit(space, z, cell, _annealed(log_ratio, log_evidence))
        pooled = _pooled(stages)
        ess = effective_size(pooled)
        if ess >= target_ess or (ess == 0.0 and stage >= 2):
            break
        if stage >= _PATIENCE:
            # As many as are missing, at the efficiency of the last stage.
            missing = (target_ess - ess) / max(stages[-1].ess, 1.0) * len(log_weights)
            count = int(np.clip(1.1 * missing, least, min(2 * count, most)))
    if ess == 0.0:
        return Draws(pooled, ess, stage, len(pooled), proposal, stages[-1].payload)
    return _joined(stages, pooled, ess, proposal, join)


def _joined(
    stages: Sequence[_Stage[Payload]],
    log_weights: FloatArray,
    ess: float,
    proposal: Proposal | None,
    join: Callable[[Sequence[Payload], Sequence[Index]], Payload],
) -> Draws[Payload]:
    """All draws; of those of small weight some that stand for all of them, of equal weight."""
    weights = np.exp(log_weights - log_weights.max())
    least = weights.sum() / (_KEPT * ess)
    small = np.flatnonzero(weights < least)
    steps = np.floor(np.cumsum(weights[small]) / least + 0.5)
    weights[small] = least * np.diff(steps, prepend=0.0)
    counts = weights > 0.0
    ends = np.cumsum([len(s.log_weights) for s in stages])
    places = [np.flatnonzero(part) for part in np.split(counts, ends[:-1])]
    payload = join([s.payload for s in stages], places)
    # The evidence stays the mean over all draws.
    kept = np.log(weights[counts]) + log_weights.max() + np.log(counts.mean())
    return Draws(kept, ess, len(stages), len(log_weights), proposal, payload)
