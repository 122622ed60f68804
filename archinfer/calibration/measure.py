"""One run: shapes timed in turns, the cost model fitted to some and held against others.

Each round takes one step of every shape, in a new order, so that a slow minute hits all of them
and no weight is in the caches when its turn comes; of the times of a shape the 5 % quantile
counts. Where held-out shapes are predicted badly, the run goes on once; then it is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from archinfer.calibration.bench import Bench, low
from archinfer.calibration.design import Plan, Point
from archinfer.calibration.fit import MachineFit, Timing, fit_machine, predictions
from archinfer.calibration.host import Host, profile_data, profile_hardware
from archinfer.errors import InputError, MeasurementError
from archinfer.hardware.profile import Hardware
from archinfer.record import Record

Progress = Callable[[str, float], None]
"""Called with the phase and the part of it that is done, 0 to 1."""

BUILDING = "building models"
TIMING = "timing decode steps"
ROUTING = "counting experts"
BANDWIDTH = "decode against read bandwidth"
PREFILL = "reading prompts"
BLIND = "blind test"

HELDOUT_MEDIAN = 0.10
"""Largest median error of held-out speeds with which a fit is worth printing."""
HELDOUT_WORST = 0.30
"""Largest error of any held-out speed."""
NOISY_SHARE = 0.5
"""Timings that differ by more than this part of the median error are the reason for it."""
NOISY_JITTER = 0.5
"""So do median steps that take so much more than the fastest ones: 27 % more on a quiet machine."""
ROUNDS_LEAST = 6
PATIENCE = 2.5
"""Most time that the least number of rounds may take, in budgets."""
ATTEMPTS = 2
FIT_LEAST = 7
HELDOUT_LEAST = 2
READ_EVERY = 3
READ_BYTES = 64e6
"""Read between timings: a step's worth, from a buffer several times as large as any cache."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to spend."""

    quick: bool = False
    """The smaller design and shorter rounds."""
    memory_bytes: float = 4e9
    """Most memory that anything takes."""
    seed: int = 0
    """Of weights and of the order of timings."""
    command: str = "archinfer calibrate"
    """How it was called, for provenance."""
    seconds: tuple[float, float, float] | None = None
    """For rounds of shapes, the decode-bandwidth model, and prompts; None: as quick or full."""
    points: tuple[Point, ...] | None = None
    """Another design."""

    @property
    def times_s(self) -> tuple[float, float, float]:
        """Seconds for rounds, for the decode-bandwidth model and for prompts."""
        return self.seconds or ((9.0, 4.0, 4.0) if self.quick else (75.0, 20.0, 15.0))


@dataclass(frozen=True, slots=True, repr=False)
class Shapes(Record):
    """Shapes that were timed, with what the constants predict: those fitted to, or held out."""

    KEYS = ("points", "median_error", "worst_error", "spread")

    points: tuple[Timing, ...]
    spread: float
    """standard deviation of log(time) that the constants do not explain"""

    @property
    def median_error(self) -> float:
        """median absolute error of their speeds"""
        return float(np.median([abs(p.error) for p in self.points]))

    @property
    def worst_error(self) -> float:
        """largest absolute error of any"""
        return max(abs(p.error) for p in self.points)

    @classmethod
    def unseen(cls, points: tuple[Timing, ...]) -> Shapes:
        """Held-out shapes, with the root of their mean squared error as the spread."""
        errors = np.log([1.0 + p.error for p in points])
        return cls(points, float(np.sqrt(np.mean(errors**2))))


@dataclass(frozen=True)
class Run:
    """What was timed and fitted."""

    host: Host
    """The machine with its ceilings."""
    seconds: Mapping[Point, float]
    """Of one step, by shape."""
    fit: MachineFit
    """The constants."""
    fitted: Shapes
    heldout: Shapes
    spread: float
    """Standard deviation of log(time) about the fit, held-out shapes included."""
    rounds: int
    """Rounds of timings."""
    jitter: float
    """median over 5 % quantile of repeated steps, minus 1; median over shapes"""
    data: Mapping[str, Any]
    """The profile as YAML data."""
    hardware: Hardware
    """The profile read back from it."""


@dataclass(slots=True)
class _Timings:
    times: dict[Point, list[float]]
    reads: dict[str, list[float]] = field(default_factory=dict)
    products: list[float] = field(default_factory=list)
    rounds: int = 0


def silent(_: str, __: float) -> None:
    """Progress that nobody follows."""


def enough(design: Plan, budget: str, needed: str) -> None:
    """Refuse a design that is too small to fit and to check.

    Args:
        design: what the memory budget holds.
        budget: option and value, for the message.
        needed: a budget that is enough.

    Raises:
        InputError: fewer than FIT_LEAST shapes to fit or HELDOUT_LEAST held-out ones.
    """
    held = sum(p.heldout for p in design.points)
    if held >= HELDOUT_LEAST and len(design.points) - held >= FIT_LEAST:
        return
    raise InputError(
        f"{budget}: room for {len(design.points)} of "
        f"{len(design.points) + len(design.skipped)} shapes; at least {FIT_LEAST} to fit and "
        f"{HELDOUT_LEAST} to check are needed ({needed} is enough)"
    )


def run_shapes(
    bench: Bench,
    design: Sequence[Point],
    others: Sequence[Point],
    settings: Settings,
    budget_s: float,
    tell: Progress,
) -> Run:
    """Time `design` and `others` in turns; fit and check the constants on `design` alone.

    Raises:
        MeasurementError: held-out speeds are predicted worse than HELDOUT_MEDIAN and
            HELDOUT_WORST allow.
    """
    points = tuple(dict.fromkeys((*design, *others)))
    for done, _ in enumerate(bench.build(points, settings.seed), start=1):
        tell(BUILDING, done / len(points))
    timings = _Timings({point: [] for point in points})
    shuffled = random.Random(settings.seed)
    try:
        for _ in range(ATTEMPTS - 1):
            _rounds(bench, timings, shuffled, budget_s, tell)
            with suppress(MeasurementError):
                return _fitted(timings, design, settings)
        _rounds(bench, timings, shuffled, budget_s, tell)
        return _fitted(timings, design, settings)
    finally:
        bench.free()


def _rounds(
    bench: Bench, timings: _Timings, shuffled: random.Random, budget_s: float, tell: Progress
) -> None:
    start, rounds = bench.now(), 0
    while _goes_on(bench.now() - start, budget_s, rounds):
        order = list(timings.times)
        shuffled.shuffle(order)
        for i, point in enumerate(order):
            timings.times[point] += bench.decode_s(point, 1)
            spent = (bench.now() - start) / budget_s if budget_s > 0 else 1.0
            least = (rounds + i / len(order)) / ROUNDS_LEAST
            tell(TIMING, min(spent, least, 1.0))
            if i % READ_EVERY == 0:
                for name, speed in bench.read_bytes_per_s(READ_BYTES).items():
                    timings.reads.setdefault(name, []).append(1.0 / speed)
        timings.products.append(1.0 / bench.matmul_flops_per_s())
        rounds += 1
    timings.rounds += rounds


def _goes_on(spent_s: float, budget_s: float, rounds: int) -> bool:
    """Whether another round follows: enough of them, but not for ever on a busy machine."""
    if rounds < ROUNDS_LEAST:
        return rounds < 1 or spent_s < PATIENCE * budget_s
    return spent_s < budget_s


def _fitted(timings: _Timings, design: Sequence[Point], settings: Settings) -> Run:
    """Constants from the shapes of the fit, checked on the others."""
    seconds = {point: low(times) for point, times in timings.times.items()}
    jitter = float(np.median([np.median(t) / seconds[p] - 1.0 for p, t in timings.times.items()]))
    host = Host.here(
        settings.command,
        max(1.0 / low(inverse) for inverse in timings.reads.values()),
        1.0 / low(timings.products),
    )
    fit_points = [p for p in design if not p.heldout]
    held_points = [p for p in design if p.heldout]
    fit_s, held_s = ([seconds[p] for p in points] for points in (fit_points, held_points))
    fit = fit_machine(profile_hardware(profile_data(host)), fit_points, fit_s)
    heldout = Shapes.unseen(predictions(fit.hardware, held_points, held_s))
    check(heldout, _repeatability(timings), jitter)
    # What the constants do not explain, of shapes seen and unseen together.
    counts = [len(fit_points), len(held_points)]
    spread = float(np.sqrt(np.average([fit.spread**2, heldout.spread**2], weights=counts)))
    note = {
        "command": settings.command,
        "observations": len(fit_points),
        "residual": f"rms {fit.spread:.3f} in natural logarithm; {len(held_points)} held-out "
        f"shapes: median error {heldout.median_error:.1%}, worst {heldout.worst_error:.1%}",
        "note": f"{timings.rounds} rounds, seed {settings.seed}, 5 % quantile of times.",
    }
    data = profile_data(host, fit.constants, spread, fit.log_covariance, note)
    hardware = profile_hardware(data)
    return Run(
        host,
        seconds,
        fit,
        Shapes(predictions(hardware, fit_points, fit_s), fit.spread),
        Shapes.unseen(predictions(hardware, held_points, held_s)),
        spread,
        timings.rounds,
        jitter,
        data,
        hardware,
    )


def _repeatability(timings: _Timings) -> float:
    """How far the times of a shape in every second round are from those in the others; median."""
    halves = [(low(t[::2]), low(t[1::2])) for t in timings.times.values() if len(t) > 1]
    if not halves:
        return float("inf")
    return float(np.expm1(np.median([abs(np.log(one / other)) for one, other in halves])))


def check(heldout: Shapes, repeatability: float, jitter: float) -> None:
    """Refuse a fit that does not predict.

    Args:
        heldout: shapes that the fit has not seen.
        repeatability: by how much timings of one shape differ between halves of the rounds.
        jitter: how far its median step is from its fastest ones.

    Raises:
        MeasurementError: median or worst error too large; says whether the timings were noisy or
            the cost model is wrong.
    """
    median, worst = heldout.median_error, heldout.worst_error
    if median <= HELDOUT_MEDIAN and worst <= HELDOUT_WORST:
        return
    off = (
        f"held-out speeds are off by {median:.0%} in the median and {worst:.0%} at worst (allowed: "
        f"{HELDOUT_MEDIAN:.0%} and {HELDOUT_WORST:.0%})"
    )
    if repeatability > NOISY_SHARE * median or jitter > NOISY_JITTER:
        raise MeasurementError(
            f"the machine was too noisy to calibrate: timings of one shape differ by "
            f"{repeatability:.0%} from one half of the rounds to the other, its median step by "
            f"{jitter:.0%} from its fastest, and {off}; try again when nothing else runs"
        )
    most = max(heldout.points, key=lambda p: abs(p.error))
    raise MeasurementError(
        f"the cost model does not describe this machine: {off}, most of all {most.point.name}, "
        f"though timings of one shape repeat within {repeatability:.1%}"
    )
