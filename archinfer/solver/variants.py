"""What else could be: a design with other sizes, and a target with other means than assumed."""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.models.formats import weight_format
from archinfer.phrases import NOTES
from archinfer.physics.decode import Z90
from archinfer.physics.speed import tokens_per_s
from archinfer.record import As, Ends, Nullable, Record, keyed
from archinfer.solver.constraints import Candidate
from archinfer.solver.designs import Design
from archinfer.solver.question import Question
from archinfer.solver.region import Region, solve
from archinfer.units import plain_number

Size: TypeAlias = Annotated[str, As(Literal["total_params", "active_params", "layers"])]


@keyed
class ThreeSpeeds(NamedTuple):
    """Tokens/s of one user with one quantity halved, unchanged and doubled."""

    halved: Nullable
    same: float
    doubled: Nullable


@dataclass(frozen=True)
class Sensitivity(Record):
    """What a speed tells of one quantity, all else equal."""

    quantity: str
    """total_params, active_params or layers"""
    tokens_per_s: ThreeSpeeds
    """without speculation, with the quantity halved, as it is, doubled; null: no model (more active
    parameters than there are)"""

    @property
    def elasticity(self) -> float:
        """Relative change of the speed when the quantity doubles."""
        return float(self.tokens_per_s.doubled / self.tokens_per_s.same - 1.0)


def sensitivity(question: Question, design: Design) -> tuple[Sensitivity, ...]:
    """Speed of a design, and how it would change with one of total, active and layers.

    The changes are those of the family's member with the design's numbers. Layers change with the
    layers per node kept, so that the nodes change with them. Whether the changed model still
    fits is not asked: this is about what a speed tells, not about what may be built.
    """
    factors = np.array([0.5, 1.0, 2.0])
    found = []
    for name in ("total_params", "active_params", "layers"):
        scale = dict.fromkeys(("total_params", "active_params", "layers"), np.ones(3))
        scale[name] = factors
        total = design.total_params * scale["total_params"]
        active = design.active_params * scale["active_params"]
        form = weight_format(design.weights)
        candidate = Candidate.of(
            question,
            total,
            active,
            np.maximum(np.round(design.architecture.layers * scale["layers"]), 1.0),
            design.mapping,
            question.traffic(form.bits, form.weights_only),
            dense=(total == active) & (design.total_params == design.active_params),
            form=question.weights.index(design.weights),
        )
        family = np.asarray(tokens_per_s(candidate.time))
        speeds = np.where(active <= total, family / family[1] / design.time_s["total"], np.nan)
        found.append(Sensitivity(name, ThreeSpeeds(*map(float, speeds))))
    return tuple(found)


FASTER = 0.9
"""Fixed times over those of the usual software, at 95 %, from which another one is told of."""


@dataclass(frozen=True)
class Variant(Record):
    """The question again with other speculation or software than those assumed."""

    KEYS = ("name", "text", "feasible", "ranges=known_ranges")

    name: str
    """no speculation, or the name of a software"""
    text: str
    """the means, in words"""
    ranges: dict[Size, Ends]
    """empty where nothing is feasible"""

    @property
    def feasible(self) -> bool:
        """Whether any model is possible."""
        return bool(self.ranges)

    @property
    def known_ranges(self) -> dict[Size, Ends] | None:
        """null where nothing is feasible"""
        return self.ranges or None


def variants(question: Question) -> tuple[Variant, ...]:
    """What a target allows without speculation, and with faster software that the profile knows.

    Empty for an observed speed.
    """
    if question.observed:
        return ()
    asked: list[tuple[str, str, Question]] = []
    low, high = question.speculation
    if low <= 1.0 < high:
        alone = question.with_(speculation=(1.0, 1.0))
        asked.append(("no speculation", NOTES["no speculation"], alone))
    hardware = question.hardware
    for name, factor, log_sd, _ in hardware.software:
        if factor * np.exp(Z90 * log_sd) >= FASTER:
            continue
        usual = hardware.usual_software
        place = NOTES["in place of"].format(usual=usual) if usual else ""
        text = NOTES["software"].format(name=name, place=place, factor=plain_number(factor))
        asked.append((name, text, question.with_(hardware=hardware.with_software(name))))
    return tuple(Variant(name, text, spans(solve(other))) for name, text, other in asked)


def spans(region: Region, mine: NDArray[np.bool_] | EllipsisType = ...) -> dict[Size, Ends]:
    """What is feasible, over all formats or in the slices `mine`; empty where nothing is."""
    if not region.feasible:
        return {}
    layers = region.slices.layers[mine]
    return {
        "total_params": Ends(
            float(region.total_low[mine].min()), float(region.total_high[mine].max())
        ),
        "active_params": Ends(
            float(region.active_low[mine].min()), float(region.active_high[mine].max())
        ),
        "layers": Ends(float(layers.min()), float(layers.max())),
    }
