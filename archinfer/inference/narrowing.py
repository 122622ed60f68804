"""What one more observation would be, and by how much it would narrow what is left open.

Of each draw of a posterior the next piece follows Student's t given all pieces before
(`observing.conditional`). So its values can be drawn, and for each value the draws weighed again:
the mean logarithm of the width of the 90 % interval then is what asking leaves, without any
assumption on how the two depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from archinfer import special
from archinfer.inference.batch import QUANTITIES, Batch
from archinfer.inference.evidence import KINDS, Conditions, Piece
from archinfer.inference.generative import GenerativeModel
from archinfer.inference.importance import Index
from archinfer.inference.observing import conditional, noise, predict, unknown
from archinfer.inference.statistics import DEGREES, quantiles
from archinfer.models.shape import FloatArray
from archinfer.record import Record

VALUES = 32
"""Drawn of each further fact."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Equally weighted draws of a posterior."""

    model: GenerativeModel
    z: FloatArray
    cell: Index
    batch: Batch
    pieces: tuple[Piece, ...]
    """What they were held against."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The logarithm of one more piece: Student's t of each draw, fields of shape (n,)."""

    centre: FloatArray
    scale: FloatArray
    degrees: float

    def drawn(self, index: Index, rng: np.random.Generator) -> FloatArray:
        """One value of each draw at `index`."""
        noise = rng.standard_t(self.degrees, len(index))
        return self.centre[index] + self.scale[index] * noise

    def log_density(self, values: FloatArray) -> FloatArray:
        """Of each value (k,) under each draw, shape (k, n), up to a constant."""
        t = (values[:, None] - self.centre) / self.scale
        power = -0.5 * (self.degrees + 1.0)
        return np.asarray(power * np.log1p(t * t / self.degrees) - np.log(self.scale))

    def expected(self, piece: Piece) -> tuple[FloatArray, float]:
        """The value to expect at 5, 50 and 95 %, and the probability of one as extreme."""
        alive = np.flatnonzero(np.isfinite(self.centre))
        if not len(alive):
            return np.full(3, np.nan), 0.0
        t = (np.log(piece.value) - self.centre[alive]) / self.scale[alive]
        below = float(special.stdtr(self.degrees, t).mean())
        drawn = self.drawn(alive, np.random.default_rng(0))
        ends = np.exp(np.quantile(drawn, (0.05, 0.5, 0.95)))
        both = min(1.0, 2.0 * min(below, 1.0 - below))
        return ends, {"at most": below, "at least": 1.0 - below}.get(piece.stated, both)


def outlooks(draw: Draw, candidates: Sequence[Piece]) -> list[Outlook]:
    """What the draws expect of each candidate; all of one deployment."""
    where = candidates[0].deployment
    told = [p for p in draw.pieces if p.deployment == where]
    count, known = len(draw.z), len(told)
    centre = np.full((count, len(candidates)), np.nan)
    scale = np.ones((count, len(candidates)))
    values = [i for i, p in enumerate(told) if not p.is_bound]
    every = (*told, *(replace(c, value=1.0) for c in candidates))
    for index, scene in draw.model.scenes(draw.z, draw.cell, where):
        at = noise(scene.hardware, every, predict(scene, every))
        places = list(range(known, len(every)))
        given = conditional(at.scale, at.residual, values, places)
        centre[index] = given.mean - at.residual[:, places]
        scale[index] = np.sqrt(given.variance)
    degrees = DEGREES + len(values)
    return [Outlook(centre[:, c], scale[:, c], degrees) for c in range(len(candidates))]


@dataclass(frozen=True, slots=True, repr=False)
class Narrowing(Record):
    """What one further fact is expected to leave of one quantity."""

    fact: str
    how: str
    """how one would learn it"""
    quantity: str
    width_now: float
    """p95 / p05, as the posterior says it"""
    width_after: float
    """the same to expect once the fact is known, as the exponential of the mean logarithm"""


def candidates(draw: Draw) -> Iterator[Piece]:
    """Observations that one could add, with the spread that a careful measurement leaves."""
    told = (p for p in draw.pieces if not p.deployment)
    seen = {(p.kind, p.conditions.context, p.conditions.prompt) for p in told}
    for piece in (
        Piece("speed", 1.0, 0.03, conditions=Conditions(context=1000.0)),
        Piece("speed", 1.0, 0.03, conditions=Conditions(context=128_000.0)),
        Piece("prefill", 1.0, 0.05, conditions=Conditions(prompt=30_000.0)),
        Piece("ttft", 1.0, 0.05, conditions=Conditions(prompt=30_000.0)),
        Piece("tokens_per_pass", 1.0, 0.05),
        Piece("throughput", 1.0, 0.1),
        Piece("power", 1.0, 0.1),
        Piece("output_price", 1.0),
        Piece("input_price", 1.0),
        Piece("nodes", 1.0, 0.003),
        Piece("layers", 1.0, 0.003),
        Piece("active", 1.0, 0.03),
        Piece("total", 1.0, 0.03),
        Piece("hidden_size", 1.0, 0.23),
    ):
        at = piece.kind, piece.conditions.context, piece.conditions.prompt
        if at not in seen and not unknown(draw.model.question.hardware, piece):
            yield piece


_CLASSES = {
    "weight format": "weights",
    "attention kind": "attention",
    "software": "software",
    "whether it speculates": "speculates",
}
"""Discrete facts, by the column of a batch that holds them."""

SAME = {"total": "total_params", "active": "active_params", "layers": "layers", "nodes": "nodes"}
"""Facts that are quantities themselves."""


def what_would_narrow(draw: Draw, now: Mapping[str, float]) -> tuple[Narrowing, ...]:
    """For each quantity what would narrow it, most narrowing first.

    Args:
        draw: of the posterior.
        now: p95 / p05 of each quantity, as the posterior says it.
    """
    rng = np.random.default_rng(0)
    pieces = list(candidates(draw))
    weighed = {}
    for piece, outlook in zip(pieces, outlooks(draw, pieces), strict=True):
        kind, at = KINDS[piece.kind], piece.conditions
        how = kind.how.format(f"{at.context or at.prompt or 0.0:,.0f} tokens")
        fact = f"{kind.noun} {at.text}".strip()
        weighed[fact] = how, SAME.get(piece.kind), _weights(outlook, rng)
    for name, column in _CLASSES.items():
        weighed[name] = ("release notes", None, _classes(getattr(draw.batch, column)))
    found = []
    for quantity in QUANTITIES:
        values = np.log(getattr(draw.batch, quantity))
        after = [
            Narrowing(fact, how, quantity, now[quantity], float(np.exp(shares @ widths)))
            for fact, (how, same, (shares, weights)) in weighed.items()
            if same != quantity and len(shares) > 1
            for widths in (_widths(values, weights),)
        ]
        found += sorted(after, key=lambda n: n.width_after)
    return tuple(found)


_Weighed = tuple[FloatArray, FloatArray]
"""Probability of each case, shape (k,), and the weights of the draws in it, (k, n)."""


def _weights(outlook: Outlook, rng: np.random.Generator) -> _Weighed:
    """Draws weighed by values of one more piece that they would give."""
    alive = np.flatnonzero(np.isfinite(outlook.centre))
    if not len(alive):
        return np.ones(0), np.ones((0, 0))
    chosen = alive[(np.arange(VALUES) * len(alive)) // VALUES]
    log_w = outlook.log_density(outlook.drawn(chosen, rng))
    log_w = np.where(np.isfinite(log_w), log_w, -np.inf)
    w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
    return np.full(VALUES, 1.0 / VALUES), w / w.sum(axis=1, keepdims=True)


def _classes(values: FloatArray) -> _Weighed:
    """Draws of each value of a discrete fact."""
    names = np.unique(values)
    w = (values == names[:, None]).astype(float)
    return w.mean(axis=1), w / w.sum(axis=1, keepdims=True)


def _widths(values: FloatArray, weights: FloatArray) -> FloatArray:
    """p95 - p05 of `values` (n,) under each row of `weights` (k, n)."""
    ends = np.array([quantiles(values, w, (0.05, 0.95)) for w in weights])
    return np.asarray(ends[:, 1] - ends[:, 0])
