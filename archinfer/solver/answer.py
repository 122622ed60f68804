"""The solver's answer to a question: ranges and what draws them, architectures, conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np

from archinfer.arrays import distinct
from archinfer.asking import Range
from archinfer.models.shape import FloatArray
from archinfer.phrases import NOTES
from archinfer.record import As, Ends, Record
from archinfer.solver.conflict import Conflict, conflict
from archinfer.solver.constraints import Constraint, constraints
from archinfer.solver.designs import Design, designs
from archinfer.solver.question import Question
from archinfer.solver.region import Bound, Interval, Region, feasible, solve
from archinfer.solver.slices import LAYERS_MAX
from archinfer.solver.variants import Sensitivity, Variant, sensitivity, spans, variants
from archinfer.words import SIZES, compact

SEARCHED = "end of the search"
"""What ends the nodes where nobody asked for a number of them."""
Quantity: TypeAlias = Annotated[
    str, As(Literal["total_params", "active_params", "layers", "nodes"])
]
OpenRange: TypeAlias = Annotated[Range, As(tuple[float, float | None])]

QUANTITIES: tuple[Quantity, ...] = ("total_params", "active_params", "layers", "nodes")


@dataclass(frozen=True)
class Asked(Record):
    """The question as it was understood."""

    KEYS = (
        "hardware=question.hardware.name", "nodes=question.nodes",
        "nodes_known=question.nodes_known", "tokens_per_s=question.tokens_per_s", "mode",
        "context_tokens=question.context_tokens", "prompt_tokens=question.prompt_tokens",
        "output_tokens=question.output_tokens", "concurrency=question.concurrency",
        "weights=question.weights", "kv=question.kv", "attention=question.rules.attention",
        "vocabulary=question.rules.vocab_size", "tied=question.rules.tied",
        "speculation=question.speculation", "posterior_speculation",
        "software=question.software", "software_factor", "physics_only", "total", "active",
        "layers", "sparsity", "confidence",
        "throughput_tokens_per_s=question.throughput_tokens_per_s",
        "max_dollars_per_million_output_tokens=question.max_token_dollars",
        "max_power_w=question.power_w", "max_price_per_hour=question.price_per_hour", "mapping",
        "overrides=question.overrides", "calibration=question.calibration",
    )  # fmt: skip

    question: Question
    posterior_speculation: Literal["law", "range"] | None
    """accepted tokens a pass of the posterior: by the profile's fitted law of speculation, or the
    same range; null without a posterior"""

    @property
    def mode(self) -> Literal["target", "observed", "ceiling"]:
        """whether the speed is to be reached, was measured, or is announced as the most"""
        if self.question.ceiling:
            return "ceiling"
        return "observed" if self.question.observed else "target"

    @property
    def software_factor(self) -> tuple[float, float]:
        """fixed times of the slowest and fastest software that comes into question over those of
        the usual; both 1 for a target"""
        softwares = self.question.softwares
        return softwares[0][1], softwares[-1][1]

    @property
    def physics_only(self) -> bool:
        """habits of design left out"""
        return self.question.habits is None

    @property
    def total(self) -> OpenRange | None:
        """[low, high] known of all parameters; high null: open; null: nothing known"""
        return _known(self.question.total)

    @property
    def active(self) -> OpenRange | None:
        """the same of active parameters"""
        return _known(self.question.active)

    @property
    def layers(self) -> OpenRange | None:
        """the same of layers"""
        return _known(self.question.layers)

    @property
    def sparsity(self) -> OpenRange | None:
        """[low, high] of total over active; high null: open; null: physics_only"""
        return None if self.question.habits is None else self.question.habits.sparsity

    @property
    def confidence(self) -> float | None:
        """probability with which a target must hold; null where observed"""
        return None if self.question.observed else self.question.confidence

    @property
    def mapping(self) -> str | None:
        """forced, as tp=8,pp=2; null: the fastest that fits"""
        return None if self.question.layout is None else self.question.layout.text


DESIGNS: Final = 8
"""Designs that are looked for at least."""


def _known(limits: Range) -> Range | None:
    return None if limits == (0.0, np.inf) else limits


@dataclass(frozen=True)
class Answer(Record):
    """Everything that `archinfer solve` says."""

    KEYS = (
        "question=asked", "feasible", "ranges=every_range", "by_weights", "architectures",
        "sensitivity", "posterior", "evidence", "what_would_narrow",
        "comparisons", "claim", "variants", "conflict",
        "constraints", "notes", "beyond_habits",
        "provenance=question.hardware.provenance",
    )  # fmt: skip

    question: Question
    region: Region
    """the exact region"""
    ranges: dict[Quantity, Interval]
    """empty where nothing is feasible"""
    by_weights: dict[str, dict[Quantity, Ends]]
    """the ranges of each weight format"""
    architectures: tuple[Design, ...]
    """concrete designs inside"""
    conflict: Conflict | None
    """why nothing is feasible; null where something is"""
    example: Design | None = None
    """the first of all designs found, however many were asked for: the largest, or of an observed
    speed the one that comes nearest to it"""
    sensitivity: tuple[Sensitivity, ...] = ()
    """what the speed reads of each quantity, around the example"""
    architectures_wanted: int = 0
    """how many were asked for"""
    posterior: Any = None
    """what an observed speed says; null without --observed"""
    evidence: tuple[Any, ...] = ()
    """each piece of evidence, and what it taught; empty where one speed is all"""
    comparisons: tuple[Any, ...] = ()
    """why the observed speed differs from those of known models, one for each --compare"""
    claim: Any = None
    """a claim put to the test; null without --claim"""
    variants: tuple[Variant, ...] = ()
    """what a target allows without speculation, and with faster software that the profile knows;
    empty with --observed"""
    notes: tuple[str, ...] = field(default=())
    beyond_habits: bool = False
    """habits of design hold no model of the observed speed, though the posterior does: ranges are
    those of physics alone, with the vocabulary and head that are usual in the posterior"""

    def __repr__(self) -> str:
        """The question and the ranges."""
        asked, ends = self.question, {n: self.ranges[n] for n in SIZES if n in self.ranges}
        found = (
            f"{SIZES[n]} {compact(i.low.value)} to {compact(i.high.value)}" for n, i in ends.items()
        )
        told = ", ".join(found) or "nothing is feasible"
        return f"Answer({asked.tokens_per_s:g} tokens/s on {asked.hardware.name}: {told})"

    @property
    def what_would_narrow(self) -> Any:
        """by how much further facts would narrow each quantity; empty without an observed speed"""
        return () if self.posterior is None else self.posterior.what_would_narrow

    @property
    def feasible(self) -> bool:
        """whether any model is possible"""
        return self.region.feasible

    @property
    def asked(self) -> Asked:
        """the question as it was understood"""
        law = None if self.posterior is None else self.posterior.law
        kind: Literal["law", "range"] = "range" if law is None else "law"
        return Asked(self.question, None if self.posterior is None else kind)

    @property
    def every_range(self) -> dict[Quantity, Interval | None]:
        """null where nothing is feasible"""
        return {name: self.ranges.get(name) for name in QUANTITIES}

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """those that were applied"""
        return constraints(self.question)

    @cached_property
    def without_habits(self) -> dict[Quantity, Ends]:
        """The ranges of the same question by physics alone, as (low, high)."""
        if self.question.habits is None:
            return {n: Ends(i.low.value, i.high.value) for n, i in self.ranges.items()}
        free = solve(self.question.with_(habits=None))
        fewest, most = self.question.nodes
        needed = float(max(free.slices.nodes.min(), fewest)) if free.feasible else np.nan
        return {**spans(free), "nodes": Ends(needed, float(most))}


def answer(question: Question, architectures: int = DESIGNS) -> Answer:
    """Solve `question` and say what draws each edge.

    Args:
        question: what is asked.
        architectures: how many concrete designs to give.
    """
    region = solve(question)
    if not region.feasible:
        return Answer(question, region, {}, {}, (), conflict(question), variants=variants(question))
    found = designs(region, max(architectures, DESIGNS))
    example = found[0] if found else None
    most = int(region.slices.nodes.max())
    node, fewest, last = question.hardware.node, *question.nodes
    note = "nodes unknown" if not question.nodes_known else "nodes idle" if most < last else ""
    notes = [NOTES[note].format(node=node, fewest=fewest, most=most, last=last)] if note else []
    return Answer(
        question,
        region,
        _ranges(region),
        _by_weights(region),
        tuple(found[:architectures]),
        None,
        example,
        sensitivity(question, example) if example else (),
        architectures,
        variants=variants(question),
        notes=tuple(notes),
    )


def answer_of_any(questions: Sequence[Question], architectures: int) -> Answer | None:
    """The answer to the first question that has one, its ranges as wide as those of any other.

    Args:
        questions: alike but for vocabulary and head.
        architectures: as of `answer`.

    Returns:
        None where nothing is feasible.
    """
    feasible = [q for q in questions if solve(q).feasible]
    if not feasible:
        return None
    found = answer(feasible[0], architectures)
    every = [found.ranges, *(_ranges(solve(q)) for q in feasible[1:])]

    def widest(name: Quantity) -> Interval:
        ends = [ranges[name] for ranges in every]
        return Interval(
            min((e.low for e in ends), key=lambda b: b.value),
            max((e.high for e in ends), key=lambda b: b.value),
        )

    return replace(found, ranges={name: widest(name) for name in found.ranges})


def _ranges(region: Region) -> dict[Quantity, Interval]:
    def interval(name: str) -> Interval:
        low, high = getattr(region, f"{name}_low"), getattr(region, f"{name}_high")
        first, last = int(np.argmin(low)), int(np.argmax(high))
        return Interval(
            Bound(float(low[first]), str(getattr(region, f"{name}_low_by")[first])),
            Bound(float(high[last]), str(getattr(region, f"{name}_high_by")[last])),
        )

    return {
        "total_params": interval("total"),
        "active_params": interval("active"),
        "layers": _layers(region),
        "nodes": _nodes(region),
    }


def _layers(region: Region) -> Interval:
    question = region.question
    low, high = float(region.slices.layers.min()), float(region.slices.layers.max())

    def stopped_by(layers: float) -> str:
        return _blocking(question, np.array([layers]))

    asked_low, asked_high = np.ceil(question.layers[0]), np.floor(question.layers[1])
    if low == max(asked_low, 1.0):
        below = "one layer" if low == 1.0 else "layers asked"
    else:
        below = stopped_by(low - 1.0)
    unlimited = question.habits is None and question.layers[1] == np.inf
    if high == asked_high:
        above = "layers asked"
    elif unlimited and high == LAYERS_MAX:
        above = NOTES["search limit"].format(layers=LAYERS_MAX)
    else:
        above = stopped_by(high + 1.0)
    return Interval(Bound(low, below), Bound(high, above))


def _nodes(region: Region) -> Interval:
    question = region.question
    asked_low, asked_high = question.nodes
    needed = int(region.slices.nodes.min())
    asked = "nodes asked" if question.nodes_known else SEARCHED
    high = Bound(float(asked_high), asked)
    if needed <= asked_low:
        return Interval(Bound(float(asked_low), asked), high)
    fewer = question.with_(nodes=(1, needed - 1))
    depths = distinct(region.slices.layers[region.slices.nodes == needed])
    return Interval(Bound(float(needed), _blocking(fewer, depths)), high)


def _blocking(question: Question, layers: FloatArray) -> str:
    """The constraint (or constraints together) without which models of some depth are possible."""
    names = [c.name for c in constraints(question) if c.name not in ("definition", "search floor")]
    for size in (1, 2):
        found = [
            " and ".join(pair)
            for pair in combinations(names, size)
            if feasible(question.without(*pair), layers)
        ]
        if found:
            return (" with " if size == 1 else ", or ").join(found)
    return "several constraints together"


def _by_weights(region: Region) -> dict[str, dict[Quantity, Ends]]:
    rows: dict[str, dict[Quantity, Ends]] = {}
    fewest, most = region.question.nodes
    for position, name in enumerate(region.question.weights):
        mine = region.slices.weights == position
        if mine.any():
            used = float(max(region.slices.nodes[mine].min(), fewest))
            rows[name] = {**spans(region, mine), "nodes": Ends(used, float(most))}
    return rows
