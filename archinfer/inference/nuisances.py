"""What an operator and a service leave unsaid, drawn: nodes in use, software, speculation.

`archinfer.inference.infer` says what is assumed.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from archinfer import special
from archinfer.asking import Range
from archinfer.hardware.profile import Hardware
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.importance import Index
from archinfer.inference.statistics import DEGREES
from archinfer.models.shape import FloatArray
from archinfer.physics.decode import decode_time, log_sd
from archinfer.physics.mapping import Placement, group_sizes
from archinfer.physics.memory import Memory, fewest, memory_fraction
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload

SCALE_UNCERTAINTY = 1.2
"""Factor on the variance of the noise for the uncertainty of its own scale: exp(2 s^2) with
s = 0.3, what a fit to some twenty speeds leaves of the scale's logarithm."""

IDLE_LOG_MEAN = 0.1
IDLE_MOST = 4.0
NO_SPECULATION = 0.5

NODES_CAP = 4096
"""Most nodes considered before their number is known."""


def spatial_nodes(
    hardware: Hardware,
    stored: Memory,
    layers: FloatArray,
    z: FloatArray,
    limits: tuple[int, int],
    utilisation: Range,
) -> tuple[Placement, FloatArray]:
    """Nodes in use of a wafer: mapping of each draw, and log-probability of what is asked.

    Args:
        hardware: the profile.
        stored: what the models store, fields of shape (n,).
        layers: of each.
        z: standard normal, shape (n,): the share of the nodes that is needed.
        limits: least and most nodes that are there.
        utilisation: least and most share of the nodes meant for it that a model needs.
    """
    low, high = limits
    least = fewest(hardware, stored)[0]
    fits = np.isfinite(least)
    needed = np.where(fits, least, layers)
    # Those in use are ceil(L / m), m = ceil(L / bought): no more than `high` where m is at
    # least ceil(L / high), whatever else is bought.
    deepest = np.ceil(layers / high)
    with np.errstate(divide="ignore"):
        bought_end = np.ceil(layers / (deepest - 1.0))
    most = np.minimum(needed * (utilisation[1] / utilisation[0]), bought_end)
    room = most / needed
    possible = fits & (room > 1.0)
    room = np.where(possible, room, 2.0)
    # Just below the end: the number of nodes is the whole part.
    bought = np.floor(needed * room ** (special.ndtr(z) * (1.0 - 1e-9)))
    per_stage = np.ceil(layers / bought)
    used = np.ceil(layers / per_stage)
    power = 1.0 / IDLE_LOG_MEAN
    there = (used / np.maximum(low, used)) ** power - (used / (high + 1.0)) ** power
    there = np.where(used * IDLE_MOST < low, 0.0, there)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p = np.log(np.log(room) / np.log(utilisation[1] / utilisation[0])) + np.log(
            np.maximum(there, 0.0)
        )
    return Placement(per_stage), np.where(possible, log_p, -np.inf)


def temporal_nodes(
    hardware: Hardware,
    workload: Workload,
    layers: FloatArray,
    z: FloatArray,
    limits: tuple[int, int],
    speed: bool,
) -> tuple[Placement, FloatArray, TokenTime | None]:
    """The same of nodes that share each layer: the fastest mapping, and with `speed` its time."""
    low, high = limits
    least = np.maximum(fewest(hardware, workload.memory)[0], low)
    possible = least <= high
    room = np.where(possible, (high + 1.0) / np.minimum(least, high), 2.0)
    there = np.floor(np.minimum(least, high) * room ** (special.ndtr(z) * (1.0 - 1e-9)))
    best_s = np.full(len(layers), np.inf)
    mapping = Placement(layers.copy(), np.ones(len(layers)))
    routed = workload.memory.routed
    own = np.any(routed) and np.any(np.asarray(workload.traffic.concurrency) > 1.0)
    for size, replicas in product(group_sizes(hardware, high), (False, True) if own else (False,)):
        stages = np.clip(np.floor(there / size), 1.0, layers)
        tried = Placement(np.ceil(layers / stages), size, None, replicas)
        taken = np.asarray(memory_fraction(hardware, workload.memory, tried))
        fits = (size <= there) & (taken <= 1.0) & (routed | (not replicas))
        if np.any(fits):
            seconds = decode_time(hardware, workload, tried).total
            better = fits & (np.asarray(seconds) < best_s)
            best_s = np.where(better, seconds, best_s)
            mapping = mapping.where(~better, tried)
    log_p = np.where(possible & np.isfinite(best_s), 0.0, -np.inf)
    time = decode_time(hardware, workload, mapping) if speed else None
    return mapping, log_p, time


def noise_scale(hardware: Hardware, time: TokenTime) -> FloatArray:
    """Scale of Student's t around the logarithm of a predicted speed.

    Constants add to the scale of the model error, which as a standard deviation is
    sqrt(v / (v - 2)) times its scale.
    """
    error = hardware.model_error_log_sd**2
    constants = np.asarray(log_sd(hardware, time)) ** 2 - error
    scale = error * (DEGREES - 2.0) / DEGREES
    return np.asarray(np.sqrt(SCALE_UNCERTAINTY * (constants + scale)))


def drawn_software(
    factors: FloatArray, log_sds: FloatArray, z: FloatArray
) -> tuple[Index, FloatArray]:
    """Which software runs, each as likely, and its fixed times as a factor of the usual one's.

    Args:
        factors, log_sds: centre and spread of the logarithm of each, shape (k,). Descending
            factors make the speed grow with z, which the sampler follows most easily.
        z: standard normal, shape (n,).
    """
    place = special.ndtr(z) * len(factors)
    which = np.minimum(place.astype(np.intp), len(factors) - 1)
    within = np.clip(place - which, 1e-9, 1.0 - 1e-9)
    return which, factors[which] * np.exp(-log_sds[which] * special.ndtri(within))


def drawn_speculation(
    law: SpeculationLaw, asked: Range, z_use: FloatArray, z_draft: FloatArray
) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
    """Whether speculation is used, chance of acceptance and time of a draft, from normals.

    Args:
        law: what is known.
        asked: range of tokens per pass; with a low end above 1 speculation is certain.
        z_use, z_draft: standard normal, shape (n,).
    """
    probability = 1.0 if asked[0] > 1.0 else law.probability
    u = special.ndtr(z_use)
    used = u >= 1.0 - probability
    within = np.clip((u - (1.0 - probability)) / max(probability, 1e-12), 1e-9, 1.0 - 1e-9)
    return used, law.acceptances(special.ndtri(within)), law.draft_times_s(z_draft)
