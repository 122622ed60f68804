"""Measures this machine with the forward pass of `moe` and makes a profile of it.

All shapes are timed in turns, one step each, round after round, so that a slow minute hits each
of them and no weight is in the caches when its turn comes; of the times of a shape the 5 %
quantile counts. The cost model is fitted to one part of the shapes and
must predict the others; where it does not, there is no result but a `MeasurementError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from archinfer.calibration.bench import Bench, HostBench, opened
from archinfer.calibration.decode_bandwidth import Bandwidth
from archinfer.calibration.design import Plan, even_hit, plan, routing_config
from archinfer.calibration.fit import Coefficient, MachineFit, Prediction
from archinfer.calibration.host import Host, profile_hardware, profile_text
from archinfer.calibration.moe import Counters, Decoder, MoEConfig, Weights
from archinfer.calibration.run import Progress, Run, Settings, enough, run_shapes
from archinfer.calibration.transfer import Transferable
from archinfer.physics.workload import experts_hit

if TYPE_CHECKING:
    from archinfer.calibration.blind import BlindTest
    from archinfer.hardware.profile import Hardware

__all__ = ["Calibration", "Routing", "Settings", "calibrate", "counted_chain", "evenness"]

ROUTING_BATCHES = (2, 4, 8, 16, 32)


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
        unrest: how much slower the median of repeated steps is than their 5 % quantile, median
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
    enough(wanted, f"--memory {settings.memory_bytes / 1e9:.3g}GB", "1.5GB")
    with opened(
        HostBench(settings.threads) if bench is None else bench, wanted.buffer_bytes
    ) as machine:
        found = run_shapes(machine, wanted.points, (), settings, settings.times_s[0], tell)
        tell("routing", 0.0)
        routing = _routing(machine, settings)
    tell("decode against read bandwidth", 0.0)
    bandwidth = machine.bandwidth(
        settings.memory_bytes, settings.quick, settings.times_s[1], settings.seed
    )
    return _result(found, bandwidth, routing, wanted, settings)


def _silent(_: str, __: float) -> None:
    pass


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
    found: Run,
    bandwidth: Bandwidth,
    routing: Routing,
    wanted: Plan,
    settings: Settings,
) -> Calibration:
    host = found.host
    transferable = Transferable(
        evenness=routing.evenness,
        chain_dense=counted_chain(False),
        chain_moe=counted_chain(True),
        bandwidth_fraction=bandwidth.fraction,
        model_error=found.spread,
        source=f"{settings.command}, {host.date}, {host.cores} cores of {host.cpu}",
    )
    data = dict(found.data) | {"calibration": transferable.to_data()}
    hardware = profile_hardware(data)
    return Calibration(
        host,
        found.fit,
        found.fitted,
        found.heldout,
        bandwidth,
        routing,
        transferable,
        tuple(p.name for p in wanted.skipped),
        found.rounds,
        found.unrest,
        settings,
        data,
        hardware,
    )
