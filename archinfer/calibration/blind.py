"""The blind test: models of unknown size are timed here, and their speed alone must give them away.

Models are drawn as the solver's own prior has them at a speed, with any vocabulary and head, built
with random weights and timed; `solve` and `infer` see the speed, the context, the format and the
host's profile, and of every second model that it is a mixture of experts.
A speed is drawn first, since a limit on the size would be known to the draws alone: the prior
rises with the size, and most models would lie at the limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from archinfer.calibration.bench import Bench, opened
from archinfer.calibration.design import Point, model_bytes, plan, point_bytes
from archinfer.calibration.host import Host, profile_data, profile_hardware
from archinfer.calibration.measure import (
    BLIND,
    BUILDING,
    TIMING,
    Progress,
    Settings,
    enough,
    run_shapes,
    silent,
)
from archinfer.calibration.moe.config import MoEConfig
from archinfer.hardware.profile import Hardware
from archinfer.inference.batch import Batch
from archinfer.inference.infer import infer
from archinfer.inference.posterior import Posterior
from archinfer.inference.statistics import quantiles
from archinfer.models.solver_family import COUNTED_KINDS, FamilyRules, Habits
from archinfer.record import As, Nullable, Record
from archinfer.solver.question import Question
from archinfer.solver.region import Region, solve
from archinfer.solver.variants import spans

QUANTITIES = ("total_params", "active_params", "layers")
CEILINGS = 20e9, 100e9
"""Bytes/s and FLOP/s of a host before it is measured, by which speeds are drawn."""
SPEEDS = 25.0, 100.0
"""Tokens/s there: models of some 10M to 90M active parameters."""
MIXTURES: dict[str, Any] = {"habits": Habits(sparsity=(1.5, 32.0)), "total": (5e6, 200e6)}
"""What is known of every second model: a mixture, of not more parameters than a moment builds."""
VOCABULARIES = 2048.0, 262_144.0
"""Rows of their heads, from those of toys to the largest of the catalogue."""
HEAD = 128
CONTEXT = 256
"""Tokens of context at which decode is timed."""
PINNED = 2.0
"""A quantity is pinned where its 90 % interval spans less than this factor."""
DESIGN_SHARE = 0.6
"""Most of the memory budget that the shapes timed beside a group of models take."""
BUILD_SHARE = 0.2
"""Of a group's time, about, that building its models takes."""
QUICK_S, FULL_S = 12.0, 45.0
"""Seconds of timing a group."""


@dataclass(frozen=True, slots=True, repr=False)
class Inferred(Record):
    """What a speed says of one quantity of a model, beside the truth."""

    KEYS = ("truth", "p05", "p50", "p95", "inside", "region")

    truth: float
    p05: Nullable
    p50: Nullable
    p95: Nullable
    prior_p05: float
    """Before the speed was seen."""
    prior_p95: float
    information_bits: float
    """What the speed taught."""
    region: Annotated[tuple[float, float], As(tuple[float | None, float | None])]
    """range that the solver tells"""

    @property
    def inside(self) -> bool:
        """whether the truth lies in the 90 % interval"""
        return self.p05 <= self.truth <= self.p95

    @property
    def inside_region(self) -> bool:
        """Whether the truth lies in the region's range."""
        return self.region[0] <= self.truth <= self.region[1]


@dataclass(frozen=True, slots=True, repr=False)
class BlindModel(Record):
    """One model that was timed here and inferred from its speed alone."""

    KEYS = (
        "tokens_per_s",
        "hidden_size=config.hidden_size",
        "experts=config.experts",
        "in_region",
        *QUANTITIES,
        "warnings",
    )

    config: MoEConfig
    tokens_per_s: float
    """as measured"""
    in_region: bool
    """whether the region of its vocabulary and head contains it, all quantities together"""
    total_params: Inferred
    active_params: Inferred
    layers: Inferred
    warnings: tuple[str, ...] = ()
    """of the posterior"""


@dataclass(frozen=True, slots=True, repr=False)
class Summary(Record):
    """How one quantity was inferred over all models of the blind test."""

    coverage90: float
    """part of the models whose truth lies in the posterior's 90 % interval"""
    coverage_region: float
    """in the range of the solver's region"""
    median_width: Nullable
    """median p95 / p05"""
    prior_width: Nullable
    """the same before the speed was seen"""
    region_width: Nullable
    """median high / low of the regions that are not empty"""
    information_bits: Nullable
    """median of what the speed taught"""
    pinned: bool
    """within a factor of 2, and by the speed rather than the prior"""

    @classmethod
    def of(cls, quantities: Sequence[Inferred]) -> Summary:
        """Of one quantity of all models."""
        widths = [q.region[1] / q.region[0] for q in quantities if q.region[0] > 0.0]
        width = float(np.median([q.p95 / q.p05 for q in quantities]))
        bits = float(np.median([q.information_bits for q in quantities]))
        return cls(
            float(np.mean([q.inside for q in quantities])),
            float(np.mean([q.inside_region for q in quantities])),
            width,
            float(np.median([q.prior_p95 / q.prior_p05 for q in quantities])),
            float(np.median(widths)) if widths else float("nan"),
            bits,
            width <= PINNED and bits >= 1.0,
        )


@dataclass(frozen=True, repr=False)
class BlindTest(Record):
    """Models timed here, and inferred from their speed alone."""

    KEYS = (
        "cases", "coverage90", "coverage_region", "median_width", "quantities", "rules", "models",
        "skipped",
    )  # fmt: skip

    models: tuple[BlindModel, ...]
    skipped: tuple[str, ...]
    """models drawn that the memory budget does not hold"""

    @property
    def cases(self) -> int:
        """number of models"""
        return len(self.models)

    @cached_property
    def quantities(self) -> dict[str, Summary]:
        """each quantity over all models"""
        return {name: Summary.of([getattr(m, name) for m in self.models]) for name in QUANTITIES}

    @property
    def rules(self) -> str:
        """what was drawn, in words"""
        vocabularies = " to ".join(f"{v:,.0f}" for v in VOCABULARIES)
        speeds = " to ".join(f"{v:g}" for v in SPEEDS)
        return (
            f"models as the solver's prior has them at {speeds} tokens/s of a host that reads "
            f"{CEILINGS[0] / 1e9:g} GB/s, every second a mixture, said to be one of at most "
            f"{MIXTURES['total'][1] / 1e6:g}M; grouped or multi-query attention with heads of "
            f"{HEAD}; vocabularies log-uniform from {vocabularies}, every second head tied; "
            f"float32, context {CONTEXT}"
        )

    @property
    def coverage90(self) -> float:
        """lowest of the quantities"""
        return min(s.coverage90 for s in self.quantities.values())

    @property
    def coverage_region(self) -> float:
        """part of the models that the region contains, all quantities together"""
        return float(np.mean([m.in_region for m in self.models]))

    @property
    def median_width(self) -> Nullable:
        """median p95 / p05 of active parameters"""
        return self.quantities["active_params"].median_width


def blind_test(
    settings: Settings, cases: int = 20, bench: Bench | None = None, progress: Progress = silent
) -> BlindTest:
    """Time models drawn at random and ask the solver what they are.

    What else runs on a machine changes within minutes, so each group of models (as many as the
    memory budget holds) is timed in turns with the shapes of a quick calibration, and judged by
    the profile that those give.

    Args:
        settings: memory budget, time and seed.
        cases: models.
        bench: what is timed; None: this machine.
        progress: told how far it is.

    Raises:
        InputError: the memory budget holds too few shapes of the calibration.
        MeasurementError: held-out shapes show that the machine was too noisy.
    """
    design = plan(DESIGN_SHARE * settings.memory_bytes, quick=True, points=settings.points)
    enough(design, f"--blind with --memory {settings.memory_bytes / 1e9:.3g}GB", "2.5GB")
    room = settings.memory_bytes - design.taken_bytes
    rng = np.random.default_rng([settings.seed, 1])
    points: list[Point] = []
    skipped: list[str] = []
    for config in drawn(rng):
        if len(points) == cases or len(skipped) > 10 * cases:
            break
        point = Point(config, CONTEXT)
        if taken_bytes(point) > room:
            skipped.append(point.name)
        else:
            points.append(point)
    budget_s = QUICK_S if settings.quick else FULL_S
    inferred: list[BlindModel] = []
    with opened(Bench() if bench is None else bench, design.buffer_bytes) as machine:
        for group in _groups(points, room):

            def tell(
                phase: str, part: float, done: int = len(inferred), n: int = len(group)
            ) -> None:
                built = BUILD_SHARE * part if phase == BUILDING else BUILD_SHARE
                timed = (1.0 - BUILD_SHARE) * part if phase == TIMING else 0.0
                progress(BLIND, (done + (built + timed) * n) / len(points))

            run = run_shapes(machine, design.points, group, settings, budget_s, tell)
            inferred += [
                ask(run.hardware, point.config, 1.0 / run.seconds[point]) for point in group
            ]
    return BlindTest(tuple(inferred), tuple(skipped))


def taken_bytes(point: Point) -> float:
    """Bytes of a model with its cache and buffers."""
    return model_bytes(point.config) + point_bytes(point)


def _groups(points: Sequence[Point], room: float) -> list[list[Point]]:
    """Points in order, as many at once as there is room for."""
    groups: list[list[Point]] = []
    left = 0.0
    for point in points:
        if taken_bytes(point) > left:
            groups.append([])
            left = room
        groups[-1].append(point)
        left -= taken_bytes(point)
    return groups


def question_for(hardware: Hardware, tokens_per_s: float, mixture: bool) -> Question:
    """What is asked: the machine, its speed, the context, the format; `MIXTURES` of a mixture."""
    return Question(
        hardware=hardware,
        nodes=(1, 1),
        tokens_per_s=tokens_per_s,
        observed=True,
        context_tokens=CONTEXT,
        context_known=True,
        weights=("fp32",),
        kv="fp32",
        speculation=(1.0, 1.0),
    ).with_(**(MIXTURES if mixture else {}))


def drawn(rng: np.random.Generator) -> Iterator[MoEConfig]:
    """Models of the prior at SPEEDS, for ever; of any vocabulary and head, every second a
    mixture."""
    host = profile_hardware(profile_data(Host.here("", *CEILINGS)))
    for tied, mixture in itertools.cycle(
        ((False, False), (True, True), (False, True), (True, False))
    ):
        vocabulary, speed = (float(np.exp(rng.uniform(*np.log(e)))) for e in (VOCABULARIES, SPEEDS))
        rules = FamilyRules(vocab_size=vocabulary, tied=tied)
        asked = question_for(host, speed, mixture).with_(
            rules=rules, tables_known=frozenset(("vocabulary", "tied"))
        )
        found = inferred_from(
            asked, 512, int(rng.integers(2**31)), target_ess=100.0, attention=tuple(COUNTED_KINDS)
        )
        one = found.draws.take(rng.choice(len(found.weights), 1, p=found.weights))
        yield whole(one, found.kinds[int(one.attention[0])], rules)


def whole(one: Batch, kind: str, rules: FamilyRules) -> MoEConfig:
    """The nearest model of whole heads, experts and widths.

    Args:
        one: a batch of one draw.
        kind: of attention, "gqa" or "mqa".
        rules: vocabulary, head and routing of it.
    """
    total, active, layers = (float(getattr(one, name)[0]) for name in QUANTITIES)
    heads = max(round(float(one.hidden_size[0]) / HEAD), 1)
    hidden = heads * HEAD
    groups = 1 if kind == "mqa" else max(k for k in range(1, 9) if heads % k == 0)
    attention = 2.0 * hidden * (hidden + groups * HEAD)
    layer = max((active - rules.table_rows * hidden) / layers, 1.5 * attention)
    common = int(rules.vocab_size), hidden, int(layers), heads, groups, HEAD
    if not one.moe[0]:
        width = max(round((layer - attention) / (3.0 * hidden)), 8)
        return MoEConfig(*common, intermediate_size=width, tie_word_embeddings=rules.tied)
    top, routed = int(rules.experts_per_token), rules.routed_share * layer
    experts = max(round(top * (routed + (total - active) / layers) / routed), top)
    attention += hidden * experts
    shared = max(round((layer - routed - attention) * top / routed), 0)
    # The width of an expert takes up what whole numbers of heads and shared experts leave.
    width = max(round((layer - attention) / (3.0 * hidden * (top + shared))), 8)
    return MoEConfig(
        *common,
        moe_intermediate_size=width,
        experts=experts,
        experts_per_token=top,
        shared_experts=shared,
        tie_word_embeddings=rules.tied,
    )


def inferred_from(question: Question, *draws: int, **options: Any) -> Posterior:
    """The posterior where one sequence decodes at CONTEXT; arguments as of `infer`."""
    one, context = (1.0, 1.0), (float(CONTEXT), float(CONTEXT))
    return infer(question, *draws, concurrency=one, read_context=context, **options)


def ask(hardware: Hardware, config: MoEConfig, tokens_per_s: float) -> BlindModel:
    """Hand a speed to the solver and to the posterior, and hold the truth beside the answers."""
    question = question_for(hardware, tokens_per_s, config.experts > 0)
    posterior = inferred_from(question)
    regions = [solve(question)]
    if not regions[0].feasible:
        regions += [solve(q) for q in posterior.without_habits]
    # The region knows one vocabulary and head: the truth is held against that of its own.
    rules = replace(question.rules, vocab_size=config.vocab_size, tied=config.tie_word_embeddings)
    own = solve(regions[-1].question.with_(rules=rules))
    shape = config.shape()
    truth = {name: float(getattr(shape, name)) for name in QUANTITIES}
    total, active, layers = (np.array([truth[name]]) for name in QUANTITIES)
    inside = own.contains(total, active, layers, np.array([1.0]), question.weights[0])
    inferred = {n: _inferred(n, value, regions, posterior) for n, value in truth.items()}
    return BlindModel(
        config,
        tokens_per_s,
        bool(inside[0]),
        **inferred,
        warnings=posterior.warnings if posterior.possible else (posterior.reason,),
    )


def _inferred(name: str, truth: float, regions: Sequence[Region], posterior: Posterior) -> Inferred:
    """One quantity: what the posterior and the regions say of it; NaN where they are empty."""
    p05 = p50 = p95 = prior_p05 = prior_p95 = bits = float("nan")
    ends = [spans(region)[name] for region in regions if region.feasible]
    low, high = min((e.low for e in ends), default=p05), max((e.high for e in ends), default=p05)
    if posterior.possible and posterior.with_nodes is not None:
        m = posterior.marginals[name]
        p05, p50, p95, bits = m.p05, m.p50, m.p95, m.speed_bits
        draws, weights = posterior.with_nodes
        prior_p05, prior_p95 = map(float, quantiles(getattr(draws, name), weights, (0.05, 0.95)))
    return Inferred(truth, p05, p50, p95, prior_p05, prior_p95, bits, (low, high))
