"""Measures this machine with the forward pass of `archinfer.moe` and makes a profile of it.

All shapes are timed in turns, round after round, so that a slow minute hits each of them; of the
times of a shape the 10 % quantile counts. The cost model is fitted to one part of the shapes and
must predict the others; where it does not, there is no result but a `MeasurementError`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from archinfer.bench import Bench, HostBench, low, opened
from archinfer.calibration_design import (
    Plan,
    Point,
    even_hit,
    plan,
    routing_config,
)
from archinfer.calibration_fit import (
    HELDOUT_MEDIAN,
    HELDOUT_WORST,
    Coefficient,
    MachineFit,
    Prediction,
    fit_machine,
    predictions,
)
from archinfer.calibration_transfer import Transferable
from archinfer.decode_bandwidth import Bandwidth
from archinfer.errors import InputError, MeasurementError
from archinfer.host import Host, profile_data, profile_hardware, profile_text
from archinfer.moe import Counters, Decoder, MoEConfig, Weights
from archinfer.work import experts_hit

if TYPE_CHECKING:
    from archinfer.blind import BlindTest
    from archinfer.hardware import Hardware

__all__ = ["Calibration", "Routing", "Settings", "calibrate", "counted_chain", "evenness"]

Progress = Callable[[str, float], None]
"""Called with what is being done and the part of it that is done, 0 to 1."""

ROUNDS_LEAST = 6
PATIENCE = 2.5
"""Most time that the least number of rounds may take, in budgets."""
VISIT_S = 0.03
"""Time spent on a shape in one round, within STEPS steps."""
STEPS = (2, 8)
READ_EVERY = 3
READ_BYTES = 64e6
"""Read between timings: a step's worth, from a buffer several times as large as any cache."""
FIT_LEAST = 7
HELDOUT_LEAST = 2
ROUTING_BATCHES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Settings:
    """What to spend.

    Attributes:
        quick: the smaller design and shorter rounds.
        memory_bytes: most memory that anything takes.
        seed: of weights and of the order of timings.
        command: how it was called, for provenance.
        threads: that matrix products use; the caller saw to it (`archinfer.threads`).
        rounds_s, bandwidth_s: seconds for the rounds of shapes and for the decode-bandwidth
            model; None: as quick or full.
        points: another design.
    """

    quick: bool = False
    memory_bytes: float = 4e9
    seed: int = 0
    command: str = "archinfer calibrate"
    threads: int = 1
    rounds_s: float | None = None
    bandwidth_s: float | None = None
    points: tuple[Point, ...] | None = None

    @property
    def times_s(self) -> tuple[float, float]:
        """Seconds for rounds and for the decode-bandwidth model."""
        default = (9.0, 4.0) if self.quick else (75.0, 20.0)
        return (
            default[0] if self.rounds_s is None else self.rounds_s,
            default[1] if self.bandwidth_s is None else self.bandwidth_s,
        )


@dataclass(frozen=True, slots=True)
class Routing:
    """Distinct experts that batches hit, counted, beside the formula of even routing."""

    experts: int
    experts_per_token: int
    batches: tuple[tuple[int, float, float], ...]
    """(batch, counted, even) each."""
    evenness: float

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `routing`."""
        return {
            "experts": self.experts,
            "experts_per_token": self.experts_per_token,
            "evenness": self.evenness,
            "batches": [
                {"batch": b, "experts_hit": hit, "even": even} for b, hit, even in self.batches
            ],
        }


@dataclass(frozen=True)
class Calibration:
    """What was measured and fitted.

    Attributes:
        host: the machine with its ceilings.
        fit: the constants.
        fitted, heldout: predicted and measured speeds of both parts of the design.
        bandwidth, routing, transferable: see there.
        skipped: names of shapes that the memory budget left out.
        rounds: rounds of timings.
        unrest: how much slower the median of repeated steps is than their 10 % quantile, median
            over shapes.
        settings: what was asked.
        data: the profile as YAML data.
        hardware: the profile read back from its YAML.
        blind: the blind test, where it was run.
    """

    host: Host
    fit: MachineFit
    fitted: tuple[Prediction, ...]
    heldout: tuple[Prediction, ...]
    bandwidth: Bandwidth
    routing: Routing
    transferable: Transferable
    skipped: tuple[str, ...]
    rounds: int
    unrest: float
    settings: Settings
    data: Mapping[str, Any]
    hardware: Hardware
    blind: BlindTest | None = None

    @property
    def median_error(self) -> float:
        """Median absolute error of held-out speeds."""
        return _median_error(self.heldout)

    @property
    def worst_error(self) -> float:
        """Largest absolute error of held-out speeds."""
        return max(abs(p.error) for p in self.heldout)

    @property
    def coefficients(self) -> dict[str, Coefficient]:
        """See `MachineFit.coefficients`."""
        return self.fit.coefficients()

    @property
    def reference(self) -> Prediction:
        """The fitted shape of median time: what a later measurement can hold the machine to."""
        ordered = sorted(self.fitted, key=lambda p: p.measured_tokens_per_s)
        return ordered[len(ordered) // 2]

    @property
    def profile(self) -> str:
        """The profile as YAML text."""
        return profile_text(self.data)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `archinfer calibrate`."""
        return {
            "host": {
                "cpu": self.host.cpu,
                "cores": self.host.cores,
                "memory_bytes": self.host.memory_bytes,
                "date": self.host.date,
            },
            "quick": self.settings.quick,
            "seed": self.settings.seed,
            "memory_budget_bytes": self.settings.memory_bytes,
            "rounds": self.rounds,
            "unrest": self.unrest,
            "ceilings": {
                "read_bytes_per_s": self.host.read_bytes_per_s,
                "matmul_flops_per_s": self.host.matmul_flops_per_s,
            },
            "coefficients": {n: c.to_dict() for n, c in self.coefficients.items()},
            "fit": {
                "points": [_point_dict(p) for p in self.fitted],
                "median_error": _median_error(self.fitted),
                "spread": self.fit.spread,
            },
            "heldout": {
                "median_error": self.median_error,
                "worst_error": self.worst_error,
                "points": [_point_dict(p) for p in self.heldout],
            },
            "decode_bandwidth_fraction": self.bandwidth.fraction,
            "decode_bandwidth": {
                "active_weight_bytes": self.bandwidth.active_weight_bytes,
                "decode_bytes_per_s": self.bandwidth.decode_bytes_per_s,
                "read_bytes_per_s": self.bandwidth.read_bytes_per_s,
            },
            "routing": self.routing.to_dict(),
            "transferable": [row.to_dict() for row in self.transferable.rows()],
            "skipped": list(self.skipped),
            "blind": None if self.blind is None else self.blind.to_dict(),
        }


def _point_dict(p: Prediction) -> dict[str, Any]:
    c = p.point.config
    return {
        "name": p.point.name,
        "layers": c.layers,
        "hidden_size": c.hidden_size,
        "experts": c.experts,
        "experts_per_token": c.experts_per_token,
        "context_tokens": p.point.context_tokens,
        "batch": p.point.batch,
        "measured_tokens_per_s": p.measured_tokens_per_s,
        "predicted_tokens_per_s": p.predicted_tokens_per_s,
        "error": p.error,
    }


def _median_error(found: Sequence[Prediction]) -> float:
    return float(np.median([abs(p.error) for p in found]))


@dataclass(frozen=True, slots=True)
class _Timings:
    seconds: dict[Point, float]
    unrest: float
    read_bytes_per_s: float
    matmul_flops_per_s: float
    rounds: int


def calibrate(
    settings: Settings, bench: Bench | None = None, progress: Progress | None = None
) -> Calibration:
    """Measure, fit, and hold the fit against shapes that it has not seen.

    Args:
        settings: what to spend.
        bench: what is measured; None: this machine.
        progress: told what is going on.

    Raises:
        InputError: the memory budget holds too few shapes.
        MeasurementError: held-out speeds are predicted worse than HELDOUT_MEDIAN and
            HELDOUT_WORST allow.
    """
    tell = progress if progress is not None else _silent
    wanted = plan(settings.memory_bytes, settings.quick, settings.points)
    held = sum(p.heldout for p in wanted.points)
    if held < HELDOUT_LEAST or len(wanted.points) - held < FIT_LEAST:
        raise InputError(
            f"--memory: {settings.memory_bytes / 1e9:.3g} GB hold {len(wanted.points)} of "
            f"{len(wanted.points) + len(wanted.skipped)} shapes; at least {FIT_LEAST} to fit and "
            f"{HELDOUT_LEAST} to check are needed (2GB is enough)"
        )
    with opened(
        HostBench(settings.threads) if bench is None else bench, wanted.buffer_bytes
    ) as machine:
        timings = _timings(machine, wanted, settings, tell)
        tell("routing", 0.0)
        routing = _routing(machine, settings)
    tell("decode against read bandwidth", 0.0)
    bandwidth = machine.bandwidth(
        settings.memory_bytes, settings.quick, settings.times_s[1], settings.seed
    )
    tell("fit", 0.0)
    host = Host.here(
        settings.command, settings.threads, timings.read_bytes_per_s, timings.matmul_flops_per_s
    )
    return _result(host, timings, bandwidth, routing, wanted, settings)


def _silent(_: str, __: float) -> None:
    pass


def _timings(bench: Bench, wanted: Plan, settings: Settings, tell: Progress) -> _Timings:
    for done, _ in enumerate(bench.build(wanted.points, settings.seed), start=1):
        tell("building models", done / len(wanted.points))
    shuffled = random.Random(settings.seed)
    times: dict[Point, list[float]] = {point: [] for point in wanted.points}
    reads: dict[str, list[float]] = {}
    products: list[float] = []
    budget_s = settings.times_s[0]
    start, rounds = bench.now(), 0
    while _goes_on(bench.now() - start, budget_s, rounds):
        order = list(wanted.points)
        shuffled.shuffle(order)
        for i, point in enumerate(order):
            before = times[point]
            steps = VISIT_S / min(before) if before else 0.0
            before += bench.decode_s(point, int(np.clip(steps, *STEPS)))
            spent = (bench.now() - start) / budget_s if budget_s > 0 else 1.0
            least = (rounds + i / len(order)) / ROUNDS_LEAST
            tell("timing decode steps", min(spent, least, 1.0))
            if i % READ_EVERY == 0:
                _read_once(bench, reads, READ_BYTES)
        products.append(1.0 / bench.matmul_flops_per_s())
        rounds += 1
    bench.free()
    seconds = {point: low(found) for point, found in times.items()}
    unrest = float(np.median([np.median(times[p]) / seconds[p] - 1.0 for p in times]))
    return _Timings(seconds, unrest, _ceiling(reads), 1.0 / low(products), rounds)


def _goes_on(spent_s: float, budget_s: float, rounds: int) -> bool:
    """Whether another round follows: enough of them, but not for ever on a busy machine."""
    if rounds < ROUNDS_LEAST:
        return rounds < 1 or spent_s < PATIENCE * budget_s
    return spent_s < budget_s


def _read_once(bench: Bench, reads: dict[str, list[float]], size_bytes: float) -> None:
    for name, speed in bench.read_bytes_per_s(size_bytes).items():
        reads.setdefault(name, []).append(1.0 / speed)


def _ceiling(reads: Mapping[str, Sequence[float]]) -> float:
    """Bytes per second of the fastest kernel."""
    return max(1.0 / low(inverse) for inverse in reads.values())


def _routing(bench: Bench, settings: Settings) -> Routing:
    config = routing_config()
    steps = 4 if settings.quick else 16
    batches = tuple(
        (b, bench.experts_hit(config, b, steps, settings.seed), even_hit(config, b))
        for b in ROUTING_BATCHES
    )
    return Routing(
        config.experts,
        config.experts_per_token,
        batches,
        evenness(config.experts, config.experts_per_token, [(b, hit) for b, hit, _ in batches]),
    )


def evenness(experts: int, experts_per_token: int, found: Sequence[tuple[int, float]]) -> float:
    """The share s of the experts that, evenly used, would be hit as often as was counted.

    Least squares of log(counted) against log of E(1 - (1 - k/E)^B) with E = s * experts.

    Args:
        experts, experts_per_token: of the model.
        found: batch and distinct experts hit, each.
    """
    from scipy.optimize import minimize_scalar

    batches = np.array([b for b, _ in found], dtype=float)
    counted = np.log([hit for _, hit in found])

    def loss(share: float) -> float:
        even = np.log(experts_hit(share * experts, experts_per_token, batches))
        return float(np.sum((even - counted) ** 2))

    least = experts_per_token / experts
    best = minimize_scalar(loss, bounds=(least, 1.0), method="bounded", options={"xatol": 1e-6})
    return float(best.x)


def counted_chain(moe: bool) -> int:
    """Longest chain of dependent reductions in a layer, counted while a tiny model decodes."""
    config = MoEConfig(
        vocab_size=64,
        hidden_size=32,
        layers=1,
        heads=2,
        kv_heads=1,
        head_dim=16,
        intermediate_size=64,
        moe_intermediate_size=32 if moe else 0,
        experts=4 if moe else 0,
        experts_per_token=2 if moe else 0,
    )
    count = Counters()
    Decoder(Weights.random(config), max_tokens=2).decode([0], count)
    return count.chain_length


def _result(
    host: Host,
    timings: _Timings,
    bandwidth: Bandwidth,
    routing: Routing,
    wanted: Plan,
    settings: Settings,
) -> Calibration:
    hardware = profile_hardware(profile_data(host))
    fit_points = [p for p in wanted.points if not p.heldout]
    held_points = [p for p in wanted.points if p.heldout]
    fit_s = [timings.seconds[p] for p in fit_points]
    held_s = [timings.seconds[p] for p in held_points]
    fit = fit_machine(hardware, fit_points, fit_s)
    check(predictions(fit.hardware, held_points, held_s), timings.unrest)
    # What the constants do not explain, of shapes seen and unseen together.
    errors = np.log([1.0 + p.error for p in predictions(fit.hardware, held_points, held_s)])
    variance = fit.spread**2 * len(fit_points) + float(errors @ errors)
    spread = float(np.sqrt(variance / (len(fit_points) + len(held_points))))
    transferable = Transferable(
        evenness=routing.evenness,
        chain_dense=counted_chain(False),
        chain_moe=counted_chain(True),
        bandwidth_fraction=bandwidth.fraction,
        model_error=spread,
        source=f"{settings.command}, {host.date}, {host.cores} cores of {host.cpu}",
    )
    sds = fit.log_sd
    values = dict(zip(fit.names, (float(v) for v in np.exp(fit.log_values)), strict=True))
    median = float(np.median(np.abs(np.exp(errors) - 1.0)))
    data = profile_data(
        host,
        {name: (values[name], sds[name]) for name in fit.names},
        spread,
        (fit.names, fit.log_covariance.tolist()),
        {
            "command": settings.command,
            "observations": len(fit_points),
            "residual": f"rms {fit.spread:.3f} in natural logarithm; {len(held_points)} held-out "
            f"shapes: median error {median:.1%}, "
            f"worst {float(np.max(np.abs(np.exp(errors) - 1.0))):.1%}",
            "note": f"{timings.rounds} rounds, seed {settings.seed}, 10 % quantile of times.",
        },
        transferable.to_data(),
    )
    final = profile_hardware(data)
    return Calibration(
        host,
        fit,
        tuple(predictions(final, fit_points, fit_s)),
        tuple(predictions(final, held_points, held_s)),
        bandwidth,
        routing,
        transferable,
        tuple(p.name for p in wanted.skipped),
        timings.rounds,
        timings.unrest,
        settings,
        data,
        final,
    )


def check(heldout: Sequence[Prediction], unrest: float) -> None:
    """Refuse a fit that does not predict.

    Raises:
        MeasurementError: median or worst error too large.
    """
    errors = [abs(p.error) for p in heldout]
    median, worst = float(np.median(errors)), max(errors)
    if median <= HELDOUT_MEDIAN and worst <= HELDOUT_WORST:
        return
    raise MeasurementError(
        "the machine was too noisy to calibrate: held-out speeds are off by "
        f"{median:.0%} in the median and {worst:.0%} at worst (allowed: {HELDOUT_MEDIAN:.0%} and "
        f"{HELDOUT_WORST:.0%}), and repeated steps by {unrest:.0%}; "
        "try again when nothing else runs"
    )
