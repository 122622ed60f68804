"""Decode time of one token, term by term: profile + model shape + mapping in, seconds out.

    T = sum over layers( max(t_memory, t_compute) + t_reductions + t_fixed ) + t_links + t_head

`spatial.py` has the wafer's model, `temporal.py` that of GPUs and the like; this module picks
one and turns its answer into a speed with its uncertainty. Every function is pure and takes
floats or arrays that broadcast together; the profile's constants may be arrays too (draws of
uncertain constants).
"""

from __future__ import annotations

import numpy as np

from archinfer.hardware.figures import ROUTED_KERNELS, SOFTWARE_TIMES
from archinfer.hardware.profile import Hardware
from archinfer.models.shape import Number
from archinfer.physics.mapping import Placement
from archinfer.physics.prefill import PromptTime
from archinfer.physics.spatial import spatial_time
from archinfer.physics.temporal import temporal_time
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload

Z90 = 1.6448536269514722
"""Standard normal quantile of 0.95: 5 % of the mass lies beyond it on each side."""


def decode_time(
    hardware: Hardware,
    workload: Workload,
    mapping: Placement,
    side: Number | None = None,
) -> TokenTime:
    """Time of one decode pass of one user.

    Args:
        hardware: profile; its constants may be arrays.
        workload: the model and what is asked of it; fields may be arrays.
        mapping: layers per stage and tensor-parallel group.
        side: side of every layer's region in cores, where it is known (spatial only);
            None: the fastest side that holds the layer's bytes.

    Returns:
        Terms in seconds, of the broadcast shape of all inputs.
    """
    if hardware.execution == "spatial":
        return spatial_time(hardware, workload, mapping, side)
    return temporal_time(hardware, workload, mapping)


def software_speed(time: TokenTime, factor: Number, routed_kernels: Number = 1.0) -> Number:
    """Speed of a software over that of the usual one, whose pass takes `time`.

        T / (T + (factor - 1) F - factor (1 - routed_kernels) R)

    F: seconds of the pass that go with `SOFTWARE_TIMES`, R: those of kernels of routed experts.

    Args:
        time: of a pass with the usual software.
        factor: fixed times of the software over those of the usual one.
        routed_kernels: kernels that routed experts add, likewise.
    """
    if np.all(np.asarray(factor) == 1.0) and np.all(np.asarray(routed_kernels) == 1.0):
        return 1.0
    ledger = time.scaling
    more = (factor - 1.0) * sum((ledger.get(name, 0.0) for name in SOFTWARE_TIMES), start=0.0)
    fewer = factor * (1.0 - np.asarray(routed_kernels)) * ledger.get(ROUTED_KERNELS, 0.0)
    return 1.0 / (1.0 + (more - fewer) / time.total)


def tokens_per_s(time: TokenTime, accepted_tokens: Number = 1.0) -> Number:
    """Output tokens per second of one user: tokens gained per pass over the time of a pass."""
    return accepted_tokens / time.total


def throughput(time: TokenTime, concurrency: Number, accepted_tokens: Number = 1.0) -> Number:
    """Output tokens per second over all `concurrency` users that a pass is timed for."""
    return concurrency * tokens_per_s(time, accepted_tokens)


def log_sd(hardware: Hardware, time: TokenTime | PromptTime) -> Number:
    """Standard deviation of log(time): constants and model-form error together.

    First-order propagation: e' Sigma e + model_error^2, with e the share of the time that
    scales with each constant and Sigma the covariance of the constants' logarithms.
    """
    names, _, covariance = hardware.constants()
    total = time.total
    shares = [time.scaling.get(name) for name in names]
    variance: Number = 0.0
    for i, left in enumerate(shares):
        # Half of the row of the symmetric covariance up to its diagonal, which counts half.
        half: Number = 0.0
        for j, right in enumerate(shares[: i + 1]):
            if left is not None and right is not None and covariance[i, j] != 0.0:
                half = half + (covariance[i, j] if j < i else 0.5 * covariance[i, i]) * right
        variance = variance if left is None else variance + half * left
    return np.sqrt(hardware.model_error_log_sd**2 + 2.0 * variance / (total * total))


def speed_at(
    hardware: Hardware, time: TokenTime, accepted_high: Number, confidence_z: float
) -> Number:
    """Tokens per second of one user that are reached with a probability.

        accepted_high / T * exp(-z sd(log T))

    The probability is that of the constants and of the model-form error. How many tokens a pass
    gains is no matter of probability but of choice: where a range is given, its high end is what
    the service may gain.

    Args:
        hardware: profile.
        time: of a pass.
        accepted_high: most tokens that a pass gains.
        confidence_z: standard normal quantile of the probability (0: one half).
    """
    central = tokens_per_s(time, accepted_high)
    return central * np.exp(-confidence_z * log_sd(hardware, time)) if confidence_z else central


def speed_range(
    hardware: Hardware, time: TokenTime, accepted_low: Number, accepted_high: Number
) -> tuple[Number, Number, Number]:
    """Tokens per second of one user at 5 %, 50 % and 95 %.

    The constants' uncertainty is log-normal; the accepted tokens of a pass are a plain range,
    whose ends go to the ends of the interval and whose geometric mean to the centre.
    """
    spread = np.exp(Z90 * log_sd(hardware, time))
    return (
        tokens_per_s(time, accepted_low) / spread,
        tokens_per_s(time, np.sqrt(np.asarray(accepted_low) * accepted_high)),
        tokens_per_s(time, accepted_high) * spread,
    )
