"""Measures this machine with the forward pass of `moe` and makes a profile of it.

The shapes are timed and fitted in `measure`; beside them stand decode of one large model against
reading, and the experts that batches hit. Where held-out shapes are not predicted, there is no
result but a `MeasurementError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from archinfer.calibration.bench import Bench, low, opened, rounds
from archinfer.calibration.blind import FULL_S, QUICK_S, BlindTest
from archinfer.calibration.design import BITS, Point, bandwidth_config, plan, routing_config
from archinfer.calibration.host import profile_hardware, profile_text
from archinfer.calibration.measure import (
    BANDWIDTH,
    BLIND,
    BUILDING,
    PREFILL,
    ROUTING,
    TIMING,
    Progress,
    Run,
    Settings,
    enough,
    run_shapes,
    silent,
)
from archinfer.calibration.moe import Counters, Decoder, MoEConfig, Weights
from archinfer.calibration.prefill import Prefill, measure_prefill
from archinfer.calibration.transfer import Transferable
from archinfer.hardware.profile import Hardware
from archinfer.physics.workload import experts_hit
from archinfer.record import Record

BUILD_S = 3.0
"""Building the models of a run, about."""
GROUP_CASES = 4
"""Models of the blind test that are timed together, about."""
ROUTING_BATCHES = (2, 4, 8, 16, 32)
BANDWIDTH_CONTEXT = 64
BANDWIDTH_STEPS = 3
BANDWIDTH_ROUNDS_LEAST = 3


@dataclass(frozen=True, slots=True, repr=False)
class RoutedBatch(Record):
    """Distinct experts that the tokens of one batch hit."""

    batch: int
    experts_hit: float
    even: float
    """what even routing would hit"""


@dataclass(frozen=True, slots=True, repr=False)
class Routing(Record):
    """How evenly routing spreads tokens over experts."""

    experts: int
    experts_per_token: int
    evenness: float
    batches: tuple[RoutedBatch, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Bandwidth(Record):
    """Decode of a large model against plain reading, in turns."""

    KEYS = ("active_weight_bytes", "decode_bytes_per_s", "read_bytes_per_s")

    active_weight_bytes: float
    """that one step reads"""
    decode_bytes_per_s: float
    """weight bytes over time of a step"""
    read_bytes_per_s: float
    """of the fastest kernel that reads as many bytes, within the buffer"""
    jitter: float = 0.0
    """How much slower the median step was than the one that counts."""

    @property
    def fraction(self) -> float:
        """of the read ceiling"""
        return self.decode_bytes_per_s / self.read_bytes_per_s


@dataclass(frozen=True, repr=False)
class Calibration(Record):
    """This machine, measured and fitted."""

    KEYS = (
        "host=run.host", "quick=settings.quick", "seed=settings.seed",
        "memory_budget_bytes=settings.memory_bytes", "rounds=run.rounds", "unrest=run.jitter",
        "ceilings=run.host.ceilings", "coefficients=run.fit.coefficients", "fit=run.fitted",
        "heldout=run.heldout", "decode_bandwidth_fraction=bandwidth.fraction",
        "decode_bandwidth=bandwidth", "routing", "prefill", "transferable=transferable.rows",
        "skipped", "blind",
    )  # fmt: skip

    run: Run
    """Timed shapes and fitted constants."""
    bandwidth: Bandwidth
    routing: Routing
    prefill: Prefill
    transferable: Transferable
    skipped: tuple[str, ...]
    """shapes that the memory budget left out"""
    settings: Settings
    """What was asked."""
    data: Mapping[str, Any]
    """The profile as YAML data."""
    hardware: Hardware
    """The profile read back from it."""
    blind: BlindTest | None = None
    """null without --blind"""

    @property
    def profile(self) -> str:
        """The profile as YAML text."""
        return profile_text(self.data)


def phases(settings: Settings, blind_cases: int) -> dict[str, float]:
    """What is done and about how many seconds it takes, in order.

    Args:
        settings: what to spend.
        blind_cases: models of the blind test that follows; 0: none.
    """
    rounds_s, bandwidth_s, prompts_s = settings.times_s
    takes = {
        BUILDING: BUILD_S,
        TIMING: rounds_s,
        ROUTING: 2.0,
        PREFILL: prompts_s,
        BANDWIDTH: BUILD_S + bandwidth_s,
    }
    if blind_cases:
        group_s = QUICK_S if settings.quick else FULL_S
        takes[BLIND] = -(-blind_cases // GROUP_CASES) * (BUILD_S + group_s)
    return takes


def calibrate(
    settings: Settings, bench: Bench | None = None, progress: Progress = silent
) -> Calibration:
    """Measure, fit, and hold the fit against shapes that it has not seen.

    Args:
        settings: what to spend.
        bench: what is measured; None: this machine.
        progress: told how far it is.

    Raises:
        InputError: the memory budget holds too few shapes.
        MeasurementError: held-out speeds are not predicted, see `measure.check`.
    """
    design = plan(settings.memory_bytes, settings.quick, settings.points)
    enough(design, f"--memory {settings.memory_bytes / 1e9:.3g}GB", "1.5GB")
    with opened(Bench() if bench is None else bench, design.buffer_bytes) as machine:
        run = run_shapes(machine, design.points, (), settings, settings.times_s[0], progress)
        progress(ROUTING, 0.0)
        routing = count_routing(machine, 4 if settings.quick else 16, settings.seed)
        progress(PREFILL, 0.0)
        prefill = measure_prefill(machine, settings, progress)
        progress(BANDWIDTH, 0.0)
        bandwidth = measure_bandwidth(machine, settings, design.buffer_bytes, progress)
    transferable = Transferable(
        evenness=routing.evenness,
        chain_dense=counted_chain(False),
        chain_moe=counted_chain(True),
        bandwidth_fraction=bandwidth.fraction,
        model_error=run.spread,
        source=f"{settings.command}, {run.host.date}, {run.host.cores} cores of {run.host.cpu}",
    )
    data = dict(run.data) | {
        "constants": run.data["constants"] | prefill.constants(transferable.source),
        "calibration": transferable.to_data(),
        "prefill": prefill.to_data(transferable.source),
    }
    return Calibration(
        run,
        bandwidth,
        routing,
        prefill,
        transferable,
        tuple(p.name for p in design.skipped),
        settings,
        data,
        profile_hardware(data),
    )


def count_routing(bench: Bench, steps: int, seed: int) -> Routing:
    """Distinct experts that batches of ROUTING_BATCHES hit in `steps` steps."""
    config = routing_config()
    experts, top_k = config.experts, config.experts_per_token
    counted = [(b, bench.experts_hit(config, b, steps, seed)) for b in ROUTING_BATCHES]
    batches = tuple(
        RoutedBatch(b, hit, float(experts_hit(experts, top_k, b))) for b, hit in counted
    )
    return Routing(experts, top_k, evenness(experts, top_k, counted), batches)


def evenness(experts: int, experts_per_token: int, counted: Sequence[tuple[int, float]]) -> float:
    """The share s of the experts that, evenly used, would be hit as often as was counted.

    Least squares of log(counted) against log of E(1 - (1 - k/E)^B) with E = s * experts.

    Args:
        experts, experts_per_token: of the model.
        counted: batch and distinct experts hit, each.
    """
    batches = np.array([b for b, _ in counted], dtype=float)
    log_hit = np.log([hit for _, hit in counted])

    def loss(share: float) -> float:
        even = np.log(experts_hit(share * experts, experts_per_token, batches))
        return float(np.sum((even - log_hit) ** 2))

    least = experts_per_token / experts
    best = minimize_scalar(loss, bounds=(least, 1.0), method="bounded", options={"xatol": 1e-6})
    return float(best.x)


def measure_bandwidth(
    bench: Bench, settings: Settings, buffer_bytes: float, tell: Progress = silent
) -> Bandwidth:
    """Time decode of a large model and reading in turns.

    Args:
        bench: opened, with no models.
        settings: memory, time and seed.
        buffer_bytes: that the bench has taken.
        tell: told how far it is.
    """
    room = settings.memory_bytes - buffer_bytes
    point = Point(bandwidth_config(room, settings.quick), BANDWIDTH_CONTEXT)
    shape = point.shape
    # The embedding table is stored and looked up, not read.
    read = (float(shape.active_params) - float(shape.lookup_params)) * BITS / 8.0
    times: list[float] = []
    reads: dict[str, list[float]] = {}
    for _ in bench.build([point], settings.seed):
        pass
    budget_s = settings.times_s[1]
    for _ in rounds(bench, budget_s, BANDWIDTH_ROUNDS_LEAST, partial(tell, BANDWIDTH)):
        times += bench.decode_s(point, BANDWIDTH_STEPS)
        for name, speed in bench.read_bytes_per_s(read).items():
            reads.setdefault(name, []).append(1.0 / speed)
    bench.free()
    jitter = float(np.median(times)) / low(times) - 1.0
    return Bandwidth(read, read / low(times), max(1.0 / low(r) for r in reads.values()), jitter)


def counted_chain(moe: bool) -> int:
    """Longest chain of dependent reductions in a layer, counted while a tiny model decodes."""
    config = MoEConfig(64, 32, 1, 2, 1, 16, 64, *((32, 4, 2) if moe else ()))
    count = Counters()
    Decoder(Weights.random(config), max_tokens=2).decode([0], count)
    return count.chain_length
