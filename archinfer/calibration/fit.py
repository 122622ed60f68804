"""Fits a machine's constants to timed decode steps, and says how well they predict others.

What is fitted is the cost model itself: its time of a pass, in logarithms, to the measured times,
as `archinfer.fitting.logfit` does. Constants have wide priors, so that each stays possible where
the design says little about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from archinfer.calibration.design import Point
from archinfer.fitting.logfit import Scale, fit_logs
from archinfer.hardware.figures import KEYS
from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray
from archinfer.physics.decode import Z90, decode_time
from archinfer.physics.mapping import Placement
from archinfer.physics.terms import TokenTime
from archinfer.record import Record

CONSTANTS: Final[dict[str, tuple[float, float]]] = {
    "bandwidth_efficiency": (0.5, 1.5),
    "kv_bandwidth_efficiency": (0.3, 1.5),
    "compute_efficiency": (0.1, 1.5),
    "compute_overlap": (0.3, 0.7),
    "fixed_time_per_layer": (60e-6, 1.5),
    "fixed_time_per_expert": (15e-6, 1.5),
    "fixed_time_per_token": (50e-6, 1.5),
    "small_matrix_speed": (0.7, 0.7),
}
"""Constants that are fitted: centre and log-standard deviation of what is believed before. The last
one only where several threads share large matrices."""

SMALL = "small_matrix_speed"

SPREAD_FLOOR = 0.01
"""Smallest spread of timings that is believed, natural logarithm."""

FIRST_SCALE = 0.1
"""Where the search for their spread begins."""


@dataclass(frozen=True, slots=True, repr=False)
class Coefficient(Record):
    """A fitted figure with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class Timing(Record):
    """Speed of one sequence of a shape, as measured and as the fitted constants predict it."""

    KEYS = (
        "name=point.name",
        "layers=point.config.layers",
        "hidden_size=point.config.hidden_size",
        "experts=point.config.experts",
        "experts_per_token=point.config.experts_per_token",
        "context_tokens=point.context_tokens",
        "batch=point.batch",
        "measured_tokens_per_s",
        "predicted_tokens_per_s",
        "error",
    )

    point: Point
    measured_tokens_per_s: float
    predicted_tokens_per_s: float

    @property
    def error(self) -> float:
        """predicted over measured, minus 1"""
        return self.predicted_tokens_per_s / self.measured_tokens_per_s - 1.0

    @property
    def flops_per_byte(self) -> float:
        """arithmetic intensity of a step"""
        work = self.point.workload.work(self.point.batch)
        moved = work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes
        return float(work.flops) / float(moved)

    @property
    def measured_flops_per_s(self) -> float:
        """FLOPs of a step times the steps a second"""
        work = self.point.workload.work(self.point.batch)
        return float(work.flops) * self.measured_tokens_per_s


@dataclass(frozen=True)
class MachineFit:
    """Fitted constants."""

    names: tuple[str, ...]
    """In the order of CONSTANTS."""
    log_values: FloatArray
    """Their logarithms, shape (k,)."""
    log_covariance: FloatArray
    """Of these, shape (k, k)."""
    spread: float
    """Standard deviation of log(time) that the constants do not explain."""
    hardware: Hardware
    """The profile with the fitted constants."""

    @property
    def log_sd(self) -> dict[str, float]:
        """Standard deviation of each constant's logarithm."""
        sd = np.sqrt(np.diag(self.log_covariance))
        return dict(zip(self.names, (float(v) for v in sd), strict=True))

    @property
    def constants(self) -> dict[str, tuple[float, float]]:
        """Value in SI units and log-standard deviation of each."""
        values, sd = np.exp(self.log_values), self.log_sd
        return {n: (float(v), sd[n]) for n, v in zip(self.names, values, strict=True)}

    @property
    def coefficients(self) -> dict[str, Coefficient]:
        """seconds by what they are paid for, and the efficiencies behind"""
        h = self.hardware
        peak = float(h.bandwidth_bytes_per_s * h.read_fraction)

        def interval(name: str, seconds_at_1: float | None = None) -> Coefficient:
            """Of a constant, or of the seconds that go as its inverse; no share is above 1."""
            value, sd = self.constants[name]
            factor = float(np.exp(Z90 * sd))
            low, high = value / factor, min(value * factor, KEYS[name].most)
            if seconds_at_1 is None:
                return Coefficient(value, low, high)
            return Coefficient(seconds_at_1 / value, seconds_at_1 / high, seconds_at_1 / low)

        shares = [n for n in self.names if not n.startswith("fixed_time")]
        return {
            "seconds_per_weight_byte": interval("bandwidth_efficiency", 1.0 / peak),
            "seconds_per_kv_byte": interval("kv_bandwidth_efficiency", 1.0 / peak),
            "seconds_per_flop": interval("compute_efficiency", 1.0 / h.peak_flops("fp32")),
            "seconds_per_layer": interval("fixed_time_per_layer"),
            "seconds_per_expert_call": interval("fixed_time_per_expert"),
            "seconds_per_token": interval("fixed_time_per_token"),
        } | {name: interval(name) for name in shares}


def pass_time(hardware: Hardware, point: Point) -> TokenTime:
    """Time of one decode pass of a point on one node."""
    workload = point.workload
    return decode_time(hardware, workload, Placement(float(workload.shape.layers)))


def predictions(
    hardware: Hardware, points: Sequence[Point], seconds: Sequence[float]
) -> tuple[Timing, ...]:
    """Measured and predicted speed of every point."""
    return tuple(
        Timing(point, 1.0 / s, 1.0 / float(pass_time(hardware, point).total))
        for point, s in zip(points, seconds, strict=True)
    )


def fit_machine(
    hardware: Hardware, points: Sequence[Point], seconds: Sequence[float]
) -> MachineFit:
    """Constants of `hardware` from measured times.

    Args:
        hardware: the machine with its ceilings; its fitted constants are starting points only.
        points: what was timed.
        seconds: of one decode step of each.
    """
    names = tuple(n for n in CONSTANTS if n != SMALL or hardware.small_matrix_params)
    mean = np.log([CONSTANTS[n][0] for n in names])
    prior_sd = np.array([CONSTANTS[n][1] for n in names])
    measured = np.log(np.asarray(seconds, dtype=float))
    upper = np.array([0.0 if KEYS[n].most == 1.0 else np.inf for n in names])

    def at(logs: FloatArray) -> Hardware:
        return hardware.with_constants(dict(zip(names, np.exp(logs), strict=True)))

    def model(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        changed = at(logs)
        times = [pass_time(changed, point) for point in points]
        total = np.array([float(t.total) for t in times])
        slopes = np.array([[float(t.scaling[n]) for n in names] for t in times])
        return np.log(total), slopes / total[:, None]

    noise = Scale(FIRST_SCALE, 0.0, SPREAD_FLOOR)
    found = fit_logs(model, measured, mean, np.diag(prior_sd**2), noise, upper=upper)
    freedom = max(len(points) - len(names), 1)
    spread = float(np.sqrt(found.difference @ found.difference / freedom))
    return MachineFit(
        names, found.theta, found.covariance, max(spread, SPREAD_FLOOR), at(found.theta)
    )
