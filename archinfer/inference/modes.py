"""The humps of a posterior, and the likeliest architecture of the highest.

On spatial hardware a number of layers in the fullest node is a hump of its own: one more layer a
node is a jump in the nodes that a model needs. Medians over several humps may lie where hardly any
architecture does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archinfer.inference.batch import QUANTITIES, Batch
from archinfer.inference.importance import Index
from archinfer.inference.statistics import quantiles, settled
from archinfer.models.shape import FloatArray
from archinfer.record import Record

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

LEAST = 0.01
"""Probability below which a hump is left out."""


@dataclass(frozen=True, slots=True, repr=False)
class Levels(Record):
    """Five quantiles, from 5 % to 95 %."""

    p05: float
    p25: float
    p50: float
    p75: float
    p95: float


@dataclass(frozen=True, slots=True, repr=False)
class Mode(Record):
    """One hump of the posterior."""

    layers_per_node: str
    """layers in the fullest node: 1, 2, 3 or more"""
    probability: float
    total_params: Levels
    active_params: Levels
    layers: Levels
    nodes: Levels


@dataclass(frozen=True, slots=True, repr=False)
class Likeliest(Record):
    """One architecture with its deployment, from the middle of the likeliest hump."""

    total_params: float
    active_params: float
    layers: int
    hidden_size: float
    nodes: int
    """in use"""
    mixture_of_experts: bool
    weights: str
    attention: str
    accepted_tokens: float
    """gained a pass, net of drafting"""
    concurrency: int
    """users at once"""
    held_context_tokens: float
    """that each of them holds"""
    tokens_per_s: float
    """predicted at central constants"""


@dataclass(frozen=True, slots=True, repr=False)
class Alternative(Record):
    """The answer under another assumption, by the same draws."""

    assumption: str
    """what is assumed instead"""
    total_params: Levels | None
    """null where nothing is possible"""
    active_params: Levels | None
    layers: Levels | None


def levels(values: FloatArray, weights: FloatArray) -> Levels:
    """Five quantiles of weighted values."""
    return Levels(*map(float, settled(values, weights / weights.sum(), LEVELS)))


def modes_of(
    draws: Batch, weights: FloatArray, group: Index, names: Sequence[str]
) -> tuple[Mode, ...]:
    """The humps, likeliest first.

    Args:
        draws, weights: of a posterior, shape (n,), weights of sum 1.
        group: position in `names` of each draw.
    """
    found = []
    for k, name in enumerate(names):
        index = np.flatnonzero((group == k) & (weights > 0.0))
        probability = float(weights[index].sum())
        if probability >= LEAST:
            own = weights[index]
            ranges = {q: levels(getattr(draws, q)[index], own) for q in QUANTITIES}
            found.append(Mode(name, probability, **ranges))
    return tuple(sorted(found, key=lambda mode: -mode.probability))


Placed = Callable[[FloatArray, int], Batch | None]
"""Weights of draws, and the draw whose discrete choices count -> the mean of their coordinates,
deployed, as one draw; None where that is outside of the hump."""


def _nearest(draws: Batch, weights: FloatArray, held: NDArray[np.bool_]) -> int:
    """The held draw nearest to the medians of total, active and layers, over their spreads."""
    apart = np.where(held, 0.0, np.inf)
    for name in ("total_params", "active_params", "layers"):
        values = np.log(getattr(draws, name))
        low, middle, high = quantiles(values, weights, (0.25, 0.5, 0.75))
        apart += ((values - middle) / max(float(high - low), 1e-6)) ** 2
    return int(np.argmin(apart))


def _first_likely(shares: FloatArray, weights: FloatArray) -> int:
    """The likeliest of some choices; of those that draws do not tell apart the first: less likely
    by no more than twice the standard error of the difference."""
    top = shares.max()
    least = top - 2.0 * np.sqrt(2.0 * top * (weights @ weights))
    return int(np.argmax((shares >= least) & (shares > 0.0)))


def likeliest(
    draws: Batch, weights: FloatArray, formats: Sequence[str], kinds: Sequence[str], placed: Placed
) -> Likeliest:
    """An architecture in the middle of a hump, of its likeliest class, format and attention.

    Its coordinates under the prior are the means of the draws of that class and format, deployed
    as any draw is, so that its numbers belong together; they move much less from seed to seed than
    the densest place does. Where the middle of the coordinates is outside of the hump, the draw
    nearest to the medians.
    """
    held = weights > 0.0
    for column in (draws.moe, draws.weights, draws.attention):
        within = held
        place = column.astype(np.intp)
        shares = np.asarray(np.bincount(place, weights=weights * held), dtype=float)
        held = held & (place == _first_likely(shares, weights))
    mass = np.where(within, weights, 0.0)
    nearest = _nearest(draws, mass / mass.sum(), held)
    one = placed(mass / mass.sum(), nearest) or draws.take(np.array([nearest]))
    values: dict[str, Any] = {f.name: float(getattr(one, f.name)[0]) for f in fields(one)}
    values |= {name: int(values[name]) for name in ("layers", "nodes", "concurrency")}
    values["mixture_of_experts"] = bool(values["moe"])
    values["weights"] = formats[int(values["weights"])]
    values["attention"] = kinds[int(values["attention"])]
    return Likeliest(**{f.name: values[f.name] for f in fields(Likeliest)})
