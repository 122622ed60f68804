"""The blind test: models of unknown size are timed here, and their speed alone must give them away.

The family is that of the solver, scaled down (SCALED): the same share of routed experts and
number of experts a token, multi-query attention with heads of 128, a vocabulary of 2,048, and
sizes of which one decode step takes milliseconds. A model is drawn from the prior, made of whole
sizes, built with random weights and timed; `solve` and `infer` see the speed, the context and the
host's profile, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from archinfer.calibration.bench import Bench, HostBench, opened
from archinfer.calibration.design import Point, model_bytes, plan, point_bytes
from archinfer.calibration.moe.config import MoEConfig
from archinfer.calibration.run import Progress, Settings, enough, run_shapes
from archinfer.inference.infer import infer
from archinfer.inference.prior import ClassPrior, Regression, ShapePrior
from archinfer.models.family import FamilyRules
from archinfer.models.shape import FloatArray
from archinfer.solver.question import Habits, Question
from archinfer.solver.region import solve

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware

__all__ = ["SCALED", "BlindCase", "BlindTest", "Scaled", "blind_test", "question_for"]

QUANTITIES = ("total_params", "active_params", "layers")
PINNED = 2.0
"""A quantity is pinned where its 90 % interval spans less than this factor."""

HEAD = 128
DESIGN_SHARE = 0.6
"""Most of the memory budget that the shapes timed beside a group of models take."""
QUICK_S, FULL_S = 12.0, 45.0
"""Seconds of timing a group."""


def _line(*coefficients: float, sd: float) -> Regression:
    size = len(coefficients)
    return Regression(coefficients, sd, tuple((0.0,) * size for _ in range(size)))


@dataclass(frozen=True, slots=True)
class Scaled:
    """The scaled-down family. Logarithms are natural.

    Attributes:
        rules: shape rules, as the solver takes them.
        habits: ranges of what is built, as the solver takes them.
        active_median, active_log_sd: of the active parameters.
        layers_median, layers_exponent, layers_log_sd: layers grow with this power of A.
        per_layer_log_sd: of active parameters a layer in units of hidden_size^2.
        sparsity_median, sparsity_log_sd: of total over active parameters, at least 1.
        context_tokens: context at which decode is timed.
    """

    rules: FamilyRules
    habits: Habits
    active_median: float
    active_log_sd: float
    layers_median: float
    layers_exponent: float
    layers_log_sd: float
    per_layer_log_sd: float
    sparsity_median: float
    sparsity_log_sd: float
    context_tokens: int

    @property
    def prior(self) -> ShapePrior:
        """The same as `infer` takes it."""
        size_mean = float(np.log(self.active_median))
        moe = ClassPrior(
            share=1.0,
            size_mean=size_mean,
            size_sd=self.active_log_sd,
            depth=_line(
                float(np.log(self.layers_median)) - self.layers_exponent * size_mean,
                self.layers_exponent,
                sd=self.layers_log_sd,
            ),
            per_layer=_line(
                float(np.log(self.rules.params_per_layer)), 0.0, 0.0, sd=self.per_layer_log_sd
            ),
            sparsity=_line(float(np.log(self.sparsity_median)), 0.0, 0.0, sd=self.sparsity_log_sd),
        )
        # No model is dense: the class is there because a prior has two.
        dense = ClassPrior(0.0, moe.size_mean, moe.size_sd, moe.depth, moe.per_layer)
        return ShapePrior(dense, moe, ((self.rules.attention, 1.0),))

    def text(self) -> str:
        """The rules in words."""
        h = self.habits
        return (
            f"multi-query attention with heads of {HEAD}, vocabulary "
            f"{self.rules.vocab_size:,.0f}, {self.rules.routed_share:.0%} of a layer's active "
            f"parameters in {self.rules.experts_per_token:.0f} routed experts a token; active "
            f"about {self.active_median / 1e6:.0f}M (log sd {self.active_log_sd:g}), layers "
            f"about {self.layers_median:g} (log sd {self.layers_log_sd:g}), total / active about "
            f"{self.sparsity_median:g} (log sd {self.sparsity_log_sd:g}); habits: "
            f"{h.layers[0]:g} to {h.layers[1]:g} layers, hidden size / layers "
            f"{h.aspect[0]:g} to {h.aspect[1]:g}, total / active {h.sparsity[0]:g} to "
            f"{h.sparsity[1]:g}; float32, context {self.context_tokens}"
        )


SCALED: Final = Scaled(
    rules=FamilyRules(attention="mqa", vocab_size=2048.0),
    habits=Habits(
        sparsity=(1.0, 8.0), aspect=(12.0, 200.0), params_per_layer=(6.0, 30.0), layers=(2.0, 30.0)
    ),
    active_median=14e6,
    active_log_sd=0.6,
    layers_median=6.0,
    layers_exponent=0.33,
    layers_log_sd=0.34,
    per_layer_log_sd=0.25,
    sparsity_median=2.2,
    sparsity_log_sd=0.35,
    context_tokens=256,
)
"""Spreads and exponent are about those of the catalogue's mixture-of-experts models; sizes are
scaled so that a step spends most of its time reading and a visible part on its layers."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What was said of one quantity of one model.

    Attributes:
        truth: what it is.
        p05, p50, p95: posterior.
        prior_p05, prior_p95: before the speed was seen.
        information_bits: what the speed taught.
        low, high: range of the solver's region.
    """

    truth: float
    p05: float
    p50: float
    p95: float
    prior_p05: float
    prior_p95: float
    information_bits: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the truth lies in the 90 % interval."""
        return self.p05 <= self.truth <= self.p95

    @property
    def inside_region(self) -> bool:
        """Whether the truth lies in the region's range."""
        return self.low <= self.truth <= self.high

    @property
    def width(self) -> float:
        """p95 / p05."""
        return self.p95 / self.p05


@dataclass(frozen=True, slots=True)
class BlindCase:
    """One model.

    Attributes:
        config: the model.
        tokens_per_s: as measured.
        in_region: whether the region contains it, all quantities together.
        quantities: what was said, by quantity.
        warnings: of the posterior.
    """

    config: MoEConfig
    tokens_per_s: float
    in_region: bool
    quantities: dict[str, Answered]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `blind.models[]`."""
        return {
            "tokens_per_s": self.tokens_per_s,
            "hidden_size": self.config.hidden_size,
            "experts": self.config.experts,
            "in_region": self.in_region,
            **{
                name: {
                    "truth": a.truth,
                    "p05": a.p05,
                    "p50": a.p50,
                    "p95": a.p95,
                    "inside": a.inside,
                    "region": [a.low, a.high],
                }
                for name, a in self.quantities.items()
            },
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """One quantity over all cases.

    Attributes:
        coverage90: part of the cases whose truth lies in the posterior's 90 % interval.
        coverage_region: in the range of the solver's region.
        median_width: median p95 / p05.
        prior_width: the same before the speed was seen.
        region_width: median high / low of the region.
        information_bits: median of what the speed taught.
    """

    coverage90: float
    coverage_region: float
    median_width: float
    prior_width: float
    region_width: float
    information_bits: float

    @property
    def pinned(self) -> bool:
        """Within a factor of PINNED, and by the speed rather than the prior."""
        return self.median_width <= PINNED and self.information_bits >= 1.0

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `blind.quantities.NAME`."""
        return {
            "coverage90": self.coverage90,
            "coverage_region": self.coverage_region,
            "median_width": self.median_width,
            "prior_width": self.prior_width,
            "region_width": self.region_width,
            "information_bits": self.information_bits,
            "pinned": self.pinned,
        }


@dataclass(frozen=True)
class BlindTest:
    """All cases.

    Attributes:
        cases: the models.
        skipped: models drawn that the memory budget does not hold, in words.
        scaled: the family.
    """

    cases: tuple[BlindCase, ...]
    skipped: tuple[str, ...]
    scaled: Scaled

    def summary(self, quantity: str) -> Summary:
        """One quantity over all cases."""
        found = [c.quantities[quantity] for c in self.cases]

        def median(values: list[float]) -> float:
            return float(np.median(values))

        return Summary(
            float(np.mean([a.inside for a in found])),
            float(np.mean([a.inside_region for a in found])),
            median([a.width for a in found]),
            median([a.prior_p95 / a.prior_p05 for a in found]),
            median([a.high / a.low for a in found]),
            median([a.information_bits for a in found]),
        )

    @property
    def coverage_region(self) -> float:
        """Part of the models that the region contains, all quantities together."""
        return float(np.mean([c.in_region for c in self.cases]))

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `blind`: `coverage90` is the lowest of the three quantities,
        `median_width` that of the active parameters."""
        found = {name: self.summary(name) for name in QUANTITIES}
        return {
            "cases": len(self.cases),
            "coverage90": min(s.coverage90 for s in found.values()),
            "coverage_region": self.coverage_region,
            "median_width": found["active_params"].median_width,
            "quantities": {name: s.to_dict() for name, s in found.items()},
            "rules": self.scaled.text(),
            "models": [c.to_dict() for c in self.cases],
            "skipped": list(self.skipped),
        }


def draw(scaled: Scaled, rng: np.random.Generator) -> MoEConfig:
    """A model of the family with whole sizes, near a draw of its prior."""
    own = scaled.prior.moe
    size = own.size_mean + own.size_sd * rng.standard_normal()
    one = np.array([size])

    def sample(line: Regression, *x: FloatArray) -> float:
        mean, sd = line.predict(*x)
        return float(mean[0] + sd[0] * rng.standard_normal())

    layers = max(round(float(np.exp(sample(own.depth, one)))), 1)
    log_layers = np.log([float(layers)])
    per_layer = float(np.exp(sample(own.per_layer, one, log_layers)))
    assert own.sparsity is not None
    extra = -1.0
    while extra < 0.0:
        extra = sample(own.sparsity, one, log_layers)
    active = float(np.exp(size))
    return _whole(active, active * float(np.exp(extra)), layers, per_layer, scaled.rules)


def _whole(
    active: float, total: float, layers: int, per_layer: float, rules: FamilyRules
) -> MoEConfig:
    """The nearest model of whole heads, experts and widths."""
    vocab, top = int(rules.vocab_size), int(rules.experts_per_token)
    unit = per_layer * layers
    exact = (np.sqrt(vocab**2 + unit * active) - vocab) / unit
    hidden = max(round(exact / HEAD), 2) * HEAD
    layer = max((active - 2.0 * vocab * hidden) / layers, hidden * hidden)
    routed = rules.routed_share * layer
    experts = max(round(top * (routed + (total - active) / layers) / routed), top)
    attention = 2.0 * hidden * hidden + 2.0 * hidden * HEAD + hidden * experts
    width = max(routed / (top * 3.0 * hidden), 8.0)
    shared = max(round((layer - routed - attention) / (3.0 * hidden * width)), 0)
    # The width takes up what whole numbers of heads and shared experts leave.
    width = max(round((layer - attention) / (3.0 * hidden * (top + shared))), 8)
    return MoEConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        layers=layers,
        heads=hidden // HEAD,
        kv_heads=1,
        head_dim=HEAD,
        moe_intermediate_size=width,
        experts=experts,
        experts_per_token=top,
        shared_experts=shared,
    )


def question_for(hardware: Hardware, tokens_per_s: float, scaled: Scaled) -> Question:
    """What is asked: only the machine, its speed, the context and the family."""
    return Question(
        hardware=hardware,
        nodes=(1, 1),
        tokens_per_s=tokens_per_s,
        observed=True,
        context_tokens=scaled.context_tokens,
        weights=("fp32",),
        kv="fp32",
        rules=scaled.rules,
        speculation=(1.0, 1.0),
        habits=scaled.habits,
    )


def blind_test(
    settings: Settings,
    cases: int = 20,
    bench: Bench | None = None,
    progress: Progress | None = None,
    scaled: Scaled = SCALED,
) -> BlindTest:
    """Time models drawn at random and ask the solver what they are.

    What else runs on a machine changes within minutes, so each group of models (as many as the
    memory budget holds) is timed in turns with the shapes of a quick calibration, and judged by
    the profile that those give.

    Args:
        settings: memory budget, time and seed.
        cases: models.
        bench: what is timed; None: this machine.
        progress: told what is going on.
        scaled: the family.

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
    while len(points) < cases and len(skipped) <= 10 * cases:
        point = Point(draw(scaled, rng), scaled.context_tokens)
        if taken_bytes(point) > room:
            skipped.append(point.name)
        else:
            points.append(point)
    found: list[BlindCase] = []
    with opened(
        HostBench(settings.threads) if bench is None else bench, design.buffer_bytes
    ) as machine:
        for group in _groups(points, room):

            def tell(_: str, part: float, done: int = len(found), size: int = len(group)) -> None:
                if progress is not None:
                    progress("blind test", (done + part * size) / len(points))

            budget_s = QUICK_S if settings.quick else FULL_S
            timed = run_shapes(machine, design.points, group, settings, budget_s, tell)
            found += [
                ask(timed.hardware, point.config, 1.0 / timed.seconds[point], scaled)
                for point in group
            ]
    return BlindTest(tuple(found), tuple(skipped), scaled)


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


def ask(
    hardware: Hardware, config: MoEConfig, tokens_per_s: float, scaled: Scaled = SCALED
) -> BlindCase:
    """Hand a speed to the solver and to the posterior, and hold the truth beside the answers."""
    question = question_for(hardware, tokens_per_s, scaled)
    region = solve(question)
    posterior = infer(
        question,
        4096,
        target_ess=1000.0,
        prior=scaled.prior,
        attention=(scaled.rules.attention,),
        concurrency=(1.0, 1.0),
        read_context=(float(scaled.context_tokens),) * 2,
    )
    shape = config.shape()
    truth = {
        "total_params": float(shape.total_params),
        "active_params": float(shape.active_params),
        "layers": float(shape.layers),
    }
    nothing = np.array([np.nan])
    ends = {
        "total_params": (region.total_low, region.total_high),
        "active_params": (region.active_low, region.active_high),
        "layers": (region.slices.layers, region.slices.layers),
    }
    quantities = {}
    for name, value in truth.items():
        lows, highs = ends[name] if region.feasible else (nothing, nothing)
        p05 = p50 = p95 = before05 = before95 = bits = float("nan")
        if posterior.possible:
            m = posterior.marginals[name]
            p05, p50, p95, bits = m.p05, m.p50, m.p95, m.speed_bits
            assert posterior.with_nodes is not None
            draws, weights = posterior.with_nodes
            before05, before95 = _ends(getattr(draws, name), weights)
        quantities[name] = Answered(
            value, p05, p50, p95, before05, before95, bits, float(lows.min()), float(highs.max())
        )
    inside = region.contains(
        np.array([truth["total_params"]]),
        np.array([truth["active_params"]]),
        np.array([truth["layers"]]),
        np.array([1.0]),
        question.weights[0],
    )
    return BlindCase(
        config,
        tokens_per_s,
        bool(inside[0]),
        quantities,
        posterior.warnings if posterior.possible else (posterior.reason,),
    )


def _ends(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    from archinfer.inference.statistics import quantiles

    p05, p95 = quantiles(values, weights, (0.05, 0.95))
    return float(p05), float(p95)
