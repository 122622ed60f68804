"""Decode on spatial hardware: a wafer whose layers are all resident, side by side.

Each layer owns a square region of cores. Only one region works on a given token, so a layer sees
its own region's bandwidth alone, and a chain of dependent all-reduces crosses the region for
every layer. The other users' tokens fill the rest of the pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archinfer.models.shape import DENSE_CHAIN, FloatArray, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.terms import TokenTime, links_s, memory_fraction
from archinfer.physics.workload import Workload, attention_macs, layer_work

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware

HEAD_REDUCTIONS = 3
"""Dependent all-reduces after the last layer: final norm, logits, arg-max over the vocabulary."""


def all_reduce_cycles(side: Number, hop_cycles: Number, step_cycles: Number) -> Number:
    """Cycles of one all-reduce along a row of `side` cores with a two-level tree.

    hop * N + step * sqrt(N): N hops to cross and sqrt(N) dependent software steps
    (He et al., WaferLLM, OSDI 2025, K-tree with K = 2; hop 1 cycle, step 2 T_R + 1 = 5 cycles,
    Luczynski et al., HPDC 2024). The payload, hidden_size / N numbers, adds a few cycles and is
    left to the fixed time.
    """
    return hop_cycles * side + step_cycles * np.sqrt(side)


def best_side(
    reductions: Number, work_cycles: Number, hop_cycles: Number, step_cycles: Number
) -> FloatArray:
    """Side of the square region that minimises reductions + work, in cores (unbounded).

    g(s) = R (hop s + step sqrt s) + C / s^2 has one minimum, where
    R (hop s^3 + step s^2.5 / 2) = 2 C. Newton on the logarithms, in which the left side is
    nearly straight (its slope runs from 2.5 to 3): two steps reach 1e-8.
    """
    target = 2.0 * np.maximum(work_cycles, 1e-30) / reductions
    side = np.cbrt(target / hop_cycles)
    for _ in range(2):
        half = 0.5 * step_cycles * np.sqrt(side)
        straight = hop_cycles * side
        ratio = target / (side * side * (straight + half))
        side = side * np.exp(np.log(ratio) * (straight + half) / (3.0 * straight + 2.5 * half))
    return np.asarray(side)


def region_side(
    reductions: Number,
    work_cycles: Number,
    hop_cycles: Number,
    step_cycles: Number,
    side_low: Number,
    side_high: Number,
) -> Number:
    """`best_side` within what the layer's bytes need and the share of a node allows."""
    best = best_side(reductions, work_cycles, hop_cycles, step_cycles)
    return np.clip(best, np.minimum(side_low, side_high), side_high)


def spatial_time(
    hardware: Hardware,
    workload: Workload,
    mapping: Placement,
    side: Number | None,
) -> TokenTime:
    """Time of one decode pass by term; arguments as `archinfer.physics.decode.decode_time`."""
    shape, traffic = workload.shape, workload.traffic
    cycle_s = 1.0 / hardware.clock_hz
    side_high = np.sqrt(hardware.cores / mapping.layers_per_stage)
    # The layer's bytes fill this share of the region that it may have.
    filled = memory_fraction(hardware, workload.memory, mapping)
    side_low = np.maximum(side_high * np.sqrt(np.minimum(filled, 1.0)), 1.0)
    # A core reads `read_bytes` a cycle and multiplies at its peak at best, less what the profile's
    # efficiencies take off; the measured cycles per weight are above both on every known wafer.
    read_bytes_per_s = (
        hardware.bandwidth_bytes_per_s * hardware.read_fraction * hardware.bandwidth_efficiency
    )
    read_bytes = read_bytes_per_s * cycle_s / hardware.cores
    reached_flops = hardware.peak_flops("bf16") * hardware.compute_efficiency
    macs_per_cycle = reached_flops * cycle_s / (2.0 * hardware.cores)
    tokens = 1.0 + traffic.draft_tokens
    mac_cycles = np.maximum(hardware.cycles_per_weight, tokens / macs_per_cycle)

    def work_cycles(macs: Number, read: Number) -> Number:
        return np.maximum(macs * mac_cycles, read / read_bytes)

    weights: Number = 0.0
    kv: Number = 0.0
    reductions: Number = 0.0
    slowest: Number = 0.0
    sides: list[Number] = []
    for group in shape.groups:
        done = layer_work(group, traffic, tokens)
        weight_cycles = work_cycles(done.weight_params, done.weight_bytes)
        macs = attention_macs(group, traffic.context_tokens)
        # Drafted tokens share one read of the cache but each has its own products.
        kv_read_bytes = done.kv_read_bytes / tokens
        kv_cycles = work_cycles(macs, kv_read_bytes)
        steps = hardware.reductions_per_layer * (group.reductions / DENSE_CHAIN)
        group_side = (
            region_side(
                steps,
                weight_cycles + kv_cycles,
                hardware.hop_cycles,
                hardware.step_cycles,
                side_low,
                side_high,
            )
            if side is None
            else side
        )
        area = group_side * group_side
        reduce_cycles = steps * all_reduce_cycles(
            group_side, hardware.hop_cycles, hardware.step_cycles
        )
        weights = weights + group.count * (weight_cycles / area) * cycle_s
        kv = kv + group.count * (kv_cycles / area) * cycle_s
        reductions = reductions + group.count * reduce_cycles * cycle_s
        one_layer = (reduce_cycles + (weight_cycles + kv_cycles) / area) * cycle_s
        slowest = np.maximum(slowest, one_layer + hardware.fixed_time_per_layer_s)
        sides.append(group_side)

    head_cycles = work_cycles(shape.head_params, shape.head_params * traffic.head_bits / 8.0)
    head_side = (
        region_side(
            HEAD_REDUCTIONS,
            head_cycles,
            hardware.hop_cycles,
            hardware.step_cycles,
            1.0,
            side_high,
        )
        if side is None
        else side
    )
    head_work = head_cycles / (head_side * head_side) * cycle_s
    head_reduce = (
        cycle_s
        * HEAD_REDUCTIONS
        * all_reduce_cycles(head_side, hardware.hop_cycles, hardware.step_cycles)
    )
    head = head_work + head_reduce + hardware.fixed_time_per_layer_s
    layers = shape.layers
    fixed = layers * hardware.fixed_time_per_layer_s + hardware.fixed_time_per_token_s
    links, latency = links_s(hardware, mapping.stages(layers), tokens * shape.hidden_size)
    busy = weights + kv + reductions + fixed + links + head
    # One layer (or the head) is one pipeline stage: every user's token must pass the slowest
    # of them once per round.
    queue = np.maximum(traffic.concurrency * np.maximum(slowest, head) - busy, 0.0)
    # A drafted token is taken to cost one more layer and head. They lengthen a pass; where many
    # users draft, they are taken to stand often enough that no user waits for them.
    draft = traffic.draft_tokens * (slowest + head)
    by_weights = weights + kv + head_work
    by_reductions = reductions + head_reduce
    by_fixed = (layers + 1.0) * hardware.fixed_time_per_layer_s
    stretch = 1.0 + (queue + draft) / busy
    return TokenTime(
        weights=weights,
        kv=kv,
        compute=0.0 * weights,
        reductions=reductions,
        fixed=fixed,
        links=links,
        head=head,
        queue=queue,
        draft=draft,
        side=sides[0],
        scaling={
            "cycles_per_weight": by_weights * stretch,
            "reductions_per_layer": reductions * stretch,
            "fixed_time_per_layer": by_fixed * stretch,
            "fixed_time_per_token": hardware.fixed_time_per_token_s * stretch,
            "link.latency": latency * stretch,
            "compute.clock": -(by_weights + by_reductions) * stretch,
        },
    )
