"""What a deployment draws and costs: watts from its activity, dollars from rent or purchase.

    P = idle + (bytes * energy of a byte + FLOPs * energy of a FLOP) / time, at most nameplate
    dollars/h = rent, or purchase / life + P * price of electricity

A profile without energies draws its nameplate power, whatever it does.
"""

from __future__ import annotations

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray, ModelShape, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.nodegroup import peak_flops_for
from archinfer.physics.prefill import prompt_macs
from archinfer.physics.workload import Workload

HOURS_PER_YEAR = 8766.0


def knows_activity(hardware: Hardware) -> bool:
    """Whether power follows from activity; else it is the nameplate's."""
    figures = (hardware.idle_power_w, hardware.joules_per_byte, hardware.joules_per_flop)
    return bool(np.all(np.isfinite(figures)))


def prompt_flops(shape: ModelShape, prompt_tokens: Number) -> Number:
    """FLOPs of a whole prompt: two for each active weight, and attention over half of it."""
    macs: Number = 0.0
    for group in shape.groups:
        matrices = group.shared_params - group.vector_params + group.routed_active_params
        macs = macs + group.count * (matrices + prompt_macs(group, prompt_tokens))
    return 2.0 * prompt_tokens * macs


def node_power_w(
    hardware: Hardware, workload: Workload, mapping: Placement, pass_s: Number
) -> FloatArray:
    """Mean power of one node of those in use, in watts.

    Args:
        hardware, workload, mapping: as `archinfer.physics.decode.decode_time`.
        pass_s: time of one decode pass; every stage works on users of its own meanwhile.
    """
    if not knows_activity(hardware):
        return np.full(np.shape(pass_s), hardware.power_w)
    shape, traffic = workload.shape, workload.traffic
    stages = mapping.stages(shape.layers)
    users = np.asarray(traffic.concurrency, dtype=float)
    tokens = np.maximum(users / stages, 1.0) * (1.0 + traffic.draft_tokens)
    passes = np.minimum(users, stages)
    work = workload.work(tokens)
    memory = workload.memory
    copies = memory.kv_held(mapping) / np.maximum(memory.kv, 1.0)
    weights = work.weight_bytes + memory.more_weights(mapping)
    moved_bytes = passes * (weights + copies * work.kv_read_bytes + work.kv_write_bytes)
    flops = passes * work.flops
    if traffic.prompt_tokens is not None:
        flops = flops + users * prompt_flops(shape, traffic.prompt_tokens) / traffic.output_tokens
    peak = peak_flops_for(hardware, traffic.weight_bits, traffic.weights_only)
    each = hardware.joules_per_flop * hardware.peak_flops("bf16") / peak
    joules = moved_bytes * hardware.joules_per_byte + flops * each
    power = hardware.idle_power_w + joules / (pass_s * mapping.nodes(shape.layers))
    return np.asarray(np.fmin(power, hardware.power_w))


def token_dollars(dollars_per_hour: Number, tokens_per_s: Number) -> Number:
    """Dollars for a million output tokens of nodes that cost so much an hour."""
    return 1e6 * dollars_per_hour / (3600.0 * tokens_per_s)


def node_dollars_per_hour(hardware: Hardware, power_w: Number) -> FloatArray:
    """What one node costs an hour: rent where there is one, else purchase and electricity; NaN: the
    profile states neither."""
    rent = hardware.price_dollars_per_hour
    if np.isfinite(rent):
        return np.full(np.shape(power_w), rent)
    paid = hardware.price_dollars / (hardware.life_years * HOURS_PER_YEAR)
    return np.asarray(paid + np.asarray(power_w) / 1e3 * hardware.dollars_per_kwh)
