"""A claim about a model held against what is known: how likely, and what carries or refutes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import Range
from archinfer.inference.batch import Batch
from archinfer.inference.posterior import Posterior
from archinfer.inference.statistics import settled
from archinfer.models import catalogue
from archinfer.models.shape import FloatArray
from archinfer.question import ASKS
from archinfer.record import As, Ends, Record
from archinfer.solver.question import Question
from archinfer.solver.region import feasible
from archinfer.words import compact

KEYS = {"total": "total_params", "active": "active_params", "layers": "layers"}
"""Quantities that a claim may name, and what draws call them."""

ABOUT = 1.25
"""Factor either way for which one figure of total or active parameters stands."""

TELLING = 2.0
"""Factor by which evidence raises or lowers a probability from which on it carries or refutes."""

NEAREST = 3
"""Real models that are named."""

By: TypeAlias = Annotated[
    str, As(Literal["physics", "habits", "nodes", "speed", "evidence", "nothing"])
]


@dataclass(frozen=True, slots=True)
class Part(Record):
    """One statement, or all of them together."""

    text: str
    """what is claimed, a single size as the range for which it stands"""
    probability: float
    """given the evidence"""
    carried_by: By
    """what makes it so: physics or habits of design (nothing else is feasible), or the evidence
    that made it at least twice as likely"""
    refuted_by: By
    """what speaks against it: physics or habits (nothing like it is feasible), or the evidence that
    made it at most half as likely"""


@dataclass(frozen=True, slots=True)
class Needs(Record):
    """What else is likely to be true where the whole claim is."""

    accepted_tokens: Ends
    """gained a pass: 5 % and 95 %"""
    weights: dict[str, float]
    """probability by format"""
    layers_per_node: Ends
    """in the fullest node: 5 % and 95 %"""


@dataclass(frozen=True, slots=True)
class NearModel(Record):
    """A real model, and how far it is from the claim."""

    model: str
    total_params: float
    active_params: float
    layers: int
    distance: float
    """root of the summed squares of the logarithms by which it misses what is claimed; 0: it does
    not"""


@dataclass(frozen=True, slots=True)
class Claim(Record):
    """A claim put to the test."""

    KEYS = ("all", "parts", "needs", "nearest")

    all: Part
    parts: tuple[Part, ...]
    needs: Needs | None
    """null where no draw agrees with the whole claim"""
    nearest: tuple[NearModel, ...]
    """real models, nearest first"""
    law: bool = False
    """whether the probabilities take the profile's law of speculation"""

    def __repr__(self) -> str:
        """The whole claim with its probability."""
        return f"Claim({self.all.text}: {self.all.probability:.2g})"


def limits_of(claimed: Mapping[str, Range]) -> dict[str, Range]:
    """The ranges for which what is claimed stands: one size for all within `ABOUT`."""
    found = {}
    for name, (low, high) in claimed.items():
        around = low == high and name != "layers"
        found[name] = (low / ABOUT, high * ABOUT) if around else (low, high)
    return found


def examine(posterior: Posterior, claimed: Mapping[str, Range]) -> Claim:
    """Hold a claim against the posterior, what is feasible and the models of the catalogue.

    Args:
        posterior: of the question, with an observed speed.
        claimed: of total, active, layers what is claimed, as (low, high).
    """
    limits = limits_of(claimed)
    alone = [_part(posterior, {name: ends}) for name, ends in limits.items()]
    whole = alone[0] if len(alone) == 1 else _part(posterior, limits)
    if whole.refuted_by == "nothing":
        least = min(alone, key=lambda part: part.probability)
        whole = replace(whole, refuted_by=least.refuted_by)
    needs, law = _needs(posterior, limits), posterior.law is not None
    return Claim(whole, tuple(alone), needs, _nearest(limits), law)


def _text(limits: Mapping[str, Range]) -> str:
    """What is claimed, in words: total 2T to 4T, at least 70 layers."""
    parts = []
    for name, (low, high) in limits.items():
        ends = f"{compact(low)} to {compact(high)}" if low < high else compact(low)
        if high == np.inf or low <= ASKS[name].least:
            ends = f"at least {compact(low)}" if high == np.inf else f"at most {compact(high)}"
        parts.append(f"{name} {ends}")
    return ", ".join(parts)


def _inside(draws: Batch, limits: Mapping[str, Range]) -> NDArray[np.bool_]:
    inside = np.ones(len(draws.layers), dtype=bool)
    for name, (low, high) in limits.items():
        values = getattr(draws, KEYS[name])
        inside &= (values >= low) & (values <= high)
    return inside


def _part(posterior: Posterior, limits: Mapping[str, Range]) -> Part:
    hard = _hard(posterior.question, limits)
    if not posterior.possible:
        carried, refuted = hard
        return Part(_text(limits), 0.0, carried or "nothing", refuted or "nothing")
    assert posterior.prior is not None and posterior.with_nodes is not None
    levels = (posterior.prior, posterior.with_nodes, (posterior.draws, posterior.weights))
    before, with_nodes, now = (float(w @ _inside(draws, limits)) for draws, w in levels)
    gains: dict[By, tuple[float, float]] = {
        "nodes": (before, with_nodes),
        posterior.told_by: (with_nodes, now),
    }
    carried = hard[0] or _strongest({by: (new, old) for by, (old, new) in gains.items()})
    refuted = hard[1] or _strongest(gains)
    return Part(_text(limits), now, carried, refuted)


def _strongest(gains: Mapping[str, tuple[float, float]]) -> By:
    """The evidence with the largest ratio, where that is telling."""
    ratio = {by: high / max(low, 1e-12) for by, (high, low) in gains.items()}
    by = max(ratio, key=lambda name: ratio[name])
    return by if ratio[by] >= TELLING else "nothing"


def _hard(question: Question, limits: Mapping[str, Range]) -> tuple[By | None, By | None]:
    """What of physics and habits leaves nothing else, and what leaves nothing of it."""
    carried: By | None = None
    refuted: By | None = None
    inside, outside = {}, []
    for name, (low, high) in limits.items():
        least, most = getattr(question, name)
        inside[name] = max(low, least), min(high, most)
        below, above = np.nextafter(low, 0.0), np.nextafter(high, np.inf)
        if name == "layers":
            below, above = np.ceil(low) - 1.0, np.floor(high) + 1.0
        outside += [
            {name: (least, float(min(below, most)))},
            {name: (float(max(above, least)), most)},
        ]
    if any(low > high for low, high in inside.values()):
        return None, "habits"

    def possible(one: Question, ranges: Mapping[str, Range]) -> bool:
        real = all(low <= high > 0.0 and low < np.inf for low, high in ranges.values())
        return real and feasible(one.with_(**ranges))

    held: tuple[tuple[By, Question], ...] = (
        ("habits", question),
        ("physics", question.with_(habits=None)),
    )
    for by, one in held:
        if not possible(one, inside):
            refuted = by
        elif not any(possible(one, ranges) for ranges in outside):
            carried = by
    return carried, refuted


def _needs(posterior: Posterior, limits: Mapping[str, Range]) -> Needs | None:
    if not posterior.possible:
        return None
    draws = posterior.draws
    weights = posterior.weights * _inside(draws, limits)
    total = float(weights.sum())
    if total <= 0.0:
        return None
    weights = weights / total

    def ends(values: FloatArray) -> Ends:
        return Ends(*map(float, settled(values, weights, (0.05, 0.95))))

    formats = posterior.question.weights
    shares = np.bincount(draws.weights.astype(np.intp), weights=weights, minlength=len(formats))
    return Needs(
        ends(draws.accepted_tokens),
        {name: float(share) for name, share in zip(formats, shares, strict=True)},
        ends(np.ceil(draws.layers / np.maximum(draws.nodes, 1.0))),
    )


@cache
def _models() -> tuple[tuple[str, float, float, int], ...]:
    """Name, total and active parameters and layers of every model of the catalogue."""
    found = []
    for name in catalogue.names():
        counts, layers = (model := catalogue.load(name)).parameters(), model.layers
        found.append((name, float(counts.total), float(counts.active), layers))
    return tuple(found)


def _nearest(limits: Mapping[str, Range]) -> tuple[NearModel, ...]:
    def missed(value: float, low: float, high: float) -> float:
        return float(np.log(max(value / high, low / value, 1.0)))

    found = []
    for name, total, active, layers in _models():
        has = {"total": total, "active": active, "layers": float(layers)}
        parts = [missed(has[n], *ends) for n, ends in limits.items()]
        found.append(NearModel(name, total, active, layers, float(np.hypot.reduce(parts))))
    return tuple(sorted(found, key=lambda m: m.distance)[:NEAREST])
