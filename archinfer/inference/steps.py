"""What each piece of evidence taught, in the order in which they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from archinfer.inference.batch import QUANTITIES, Batch
from archinfer.inference.evidence import Piece
from archinfer.inference.statistics import settled
from archinfer.models.shape import FloatArray
from archinfer.record import Nullable, Quantiles, Record


@dataclass(frozen=True, slots=True, repr=False)
class Taught(Piece):
    """A piece of evidence, and what it taught."""

    bits: Nullable = float("nan")
    """about everything at once, beyond all pieces before it; null where nothing is possible"""


Level = tuple[Batch, FloatArray, float]
"""Draws, their weights, and the logarithm of the evidence up to there."""


@dataclass(frozen=True, slots=True, repr=False)
class Step(Record):
    """The posterior after one more piece."""

    after: str
    """the piece that was added last"""
    bits: float
    """what it taught about everything at once, beyond all before it"""
    total_params: Quantiles
    active_params: Quantiles
    layers: Quantiles
    nodes: Quantiles


ENDS = (0.05, 0.5, 0.95)


def whole_outward(quantity: str, found: FloatArray, at: tuple[float, ...]) -> list[float]:
    """Quantiles; of whole numbers the lower ones rounded down and the upper ones up."""
    if quantity in ("layers", "nodes"):
        level = np.asarray(at)
        ends = np.where(level < 0.5, np.floor(found), np.ceil(found))
        found = np.where(level == 0.5, np.round(found), ends)
    return [float(v) for v in found]


def steps(pieces: Sequence[Piece], levels: Sequence[Level]) -> tuple[Step, ...]:
    """One step for the prior, one for the nodes, and one for each piece.

    Args:
        pieces: of the evidence; none: no steps.
        levels: of the prior, with the nodes, and after each piece.
    """
    if not pieces:
        return ()
    names = ["prior", "nodes", *(p.text for p in pieces)]
    each = [0.0, 0.0, *(bits(levels[k - 1], levels[k]) for k in range(2, len(levels)))]
    found = []
    for name, taught, (batch, weights, _) in zip(names, each, levels, strict=True):
        ranges = {
            q: Quantiles(*whole_outward(q, settled(getattr(batch, q), weights, ENDS), ENDS))
            for q in QUANTITIES
        }
        found.append(Step(name, taught, **ranges))
    return tuple(found)


def bits(before: Level, after: Level, everything: bool = False) -> float:
    """Divergence of one posterior from that before, which had one piece less, or had none:
    E log(p(pieces | draw, before) / p(pieces | before))."""
    batch, w, evidence = after
    held = w > 0.0
    told = batch.log_speed[held] - (0.0 if everything else batch.log_before[held])
    return max(0.0, float(w[held] @ told) - evidence + before[2]) / float(np.log(2.0))


def taught(pieces: Sequence[Piece], found: Sequence[Step]) -> tuple[Taught, ...]:
    """Each piece with what its step taught."""
    each = [step.bits for step in found[2:]] or [float("nan")] * len(pieces)
    names = [f.name for f in fields(Piece)]
    told = zip(pieces, each, strict=True)
    return tuple(Taught(**{n: getattr(p, n) for n in names}, bits=b) for p, b in told)
