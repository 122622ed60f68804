"""Decode time of one token, term by term: profile + model shape + mapping in, seconds out.

    T = sum over layers( max(t_memory, t_compute) + t_reductions + t_fixed ) + t_links + t_head

`spatial.py` has the wafer's model, `temporal.py` that of GPUs and the like; this module picks
one and says how sure its answer is; `speed.py` makes a speed of it. Every function is pure and
takes floats or arrays that broadcast together; the profile's constants may be arrays too (draws of
uncertain constants).
"""

from __future__ import annotations

import numpy as np

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


def log_sd(hardware: Hardware, time: TokenTime | PromptTime) -> Number:
    """Standard deviation of log(time): constants and model-form error together.

    First-order propagation: e' Sigma e + model_error^2, with e the share of the time that
    scales with each constant and Sigma the covariance of the constants' logarithms.
    """
    names, _, covariance = hardware.constants()
    total, rows = time.total, covariance.tolist()
    shares = [time.scaling.get(name) for name in names]
    variance: Number = 0.0
    for i, left in enumerate(shares):
        # Half of the row of the symmetric covariance up to its diagonal, which counts half.
        half: Number = 0.0
        for j, right in enumerate(shares[: i + 1]):
            if left is not None and right is not None and rows[i][j] != 0.0:
                half = half + (rows[i][j] if j < i else 0.5 * rows[i][i]) * right
        variance = variance if left is None else variance + half * left
    return np.sqrt(hardware.model_error_log_sd**2 + 2.0 * variance / (total * total))
