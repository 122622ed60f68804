"""Decode on spatial hardware: a wafer whose layers are all resident, side by side.

Each layer owns a square region of cores. Only one region works on a given token, so a layer sees
its own region's bandwidth alone, and a chain of dependent all-reduces crosses the region for
every layer. The other users' tokens fill the rest of the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import DENSE_CHAIN, FloatArray, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.terms import TokenTime, links_s, memory_fraction
from archinfer.physics.workload import (
    Workload,
    attention_macs,
    experts_hit,
    kv_read_bytes,
    weights_read,
)

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


@dataclass(frozen=True, slots=True)
class _Region:
    """One region of cores at work on one token; seconds."""

    side: Number
    per_cycle: Number
    """Of one cycle of work on one core, spread over all of them."""
    reductions: Number


def _region(
    hardware: Hardware,
    reductions: Number,
    work_cycles: Number,
    low: Number,
    high: Number,
    side: Number | None,
) -> _Region:
    """The fastest region with a side between `low` and `high`, or the one of a given `side`.

    Args:
        reductions: dependent all-reduces.
        work_cycles: cycles of all other work on one core.
        low: least side that holds the bytes; `high` where that is less.
    """
    hop, step = hardware.hop_cycles, hardware.step_cycles
    if side is None:
        best = best_side(reductions, work_cycles, hop, step)
        side = np.clip(best, np.minimum(low, high), high)
    cycle_s = 1.0 / hardware.clock_hz
    return _Region(
        side,
        cycle_s / (side * side),
        reductions * all_reduce_cycles(side, hop, step) * cycle_s,
    )


def _work_cycles(hardware: Hardware, tokens: Number) -> Callable[[Number, Number], Number]:
    """Cycles of one core for multiply-accumulates and bytes read, in a pass of `tokens` tokens.

    A core reads from its ports each cycle and multiplies at its peak at best, less what the
    profile's efficiencies take off; the measured cycles per weight are above both on every known
    wafer.
    """
    cycle_s = 1.0 / hardware.clock_hz
    bytes_per_s = (
        hardware.bandwidth_bytes_per_s * hardware.read_fraction * hardware.bandwidth_efficiency
    )
    bytes_per_cycle = bytes_per_s * cycle_s / hardware.cores
    reached_flops = hardware.peak_flops("bf16") * hardware.compute_efficiency
    macs_per_cycle = reached_flops * cycle_s / (2.0 * hardware.cores)
    mac_cycles = np.maximum(hardware.cycles_per_weight, tokens / macs_per_cycle)
    return lambda macs, read_bytes: np.maximum(macs * mac_cycles, read_bytes / bytes_per_cycle)


def spatial_time(
    hardware: Hardware, workload: Workload, mapping: Placement, side: Number | None
) -> TokenTime:
    """Time of one decode pass by term; arguments as `archinfer.physics.decode.decode_time`."""
    shape, traffic = workload.shape, workload.traffic
    side_high = np.sqrt(hardware.cores / mapping.layers_per_stage)
    # The layer's bytes fill this share of the region that it may have.
    filled = memory_fraction(hardware, workload.memory, mapping)
    side_low = np.maximum(side_high * np.sqrt(np.minimum(filled, 1.0)), 1.0)
    tokens = 1.0 + traffic.draft_tokens
    cycles = _work_cycles(hardware, tokens)
    weights: Number = 0.0
    kv: Number = 0.0
    reductions: Number = 0.0
    slowest: Number = 0.0
    sides: list[Number] = []
    for group in shape.groups:
        hit = experts_hit(group.even_experts, group.experts_per_token, tokens)
        weight_cycles = cycles(*weights_read(group, traffic, hit))
        # Drafted tokens share one read of the cache but each has its own products.
        kv_cycles = cycles(
            attention_macs(group, traffic.context_tokens), kv_read_bytes(group, traffic)
        )
        both = weight_cycles + kv_cycles
        steps = hardware.reductions_per_layer * (group.reductions / DENSE_CHAIN)
        region = _region(hardware, steps, both, side_low, side_high, side)
        weights = weights + group.count * (weight_cycles * region.per_cycle)
        kv = kv + group.count * (kv_cycles * region.per_cycle)
        reductions = reductions + group.count * region.reductions
        one_layer = region.reductions + both * region.per_cycle
        slowest = np.maximum(slowest, one_layer + hardware.fixed_time_per_layer_s)
        sides.append(region.side)
    head_cycles = cycles(shape.head_params, shape.head_params * traffic.table_bits(shape)[1] / 8.0)
    at_head = _region(hardware, HEAD_REDUCTIONS, head_cycles, 1.0, side_high, side)
    head_work = head_cycles * at_head.per_cycle
    head = head_work + at_head.reductions + hardware.fixed_time_per_layer_s
    fixed = shape.layers * hardware.fixed_time_per_layer_s + hardware.fixed_time_per_token_s
    stages = mapping.stages(shape.layers)
    links, latency = links_s(hardware, stages, tokens * shape.hidden_size)
    busy = weights + kv + reductions + fixed + links + head
    # One layer (or the head) is one pipeline stage: every user's token must pass the slowest
    # of them once per round.
    queue = np.maximum(traffic.concurrency * np.maximum(slowest, head) - busy, 0.0)
    # A drafted token is taken to cost one more layer and head. They lengthen a pass; where many
    # users draft, they are taken to stand often enough that no user waits for them.
    drafts = traffic.draft_tokens
    draft = drafts * (slowest + head) if np.any(drafts) else 0.0

    def ledger() -> dict[str, Number]:
        stretch = 1.0 + (queue + draft) / busy
        by_weights = (weights + kv + head_work) * stretch
        by_reductions = (reductions + at_head.reductions) * stretch
        return {
            "cycles_per_weight": by_weights,
            "reductions_per_layer": reductions * stretch,
            "fixed_time_per_layer": (shape.layers + 1.0)
            * hardware.fixed_time_per_layer_s
            * stretch,
            "fixed_time_per_token": hardware.fixed_time_per_token_s * stretch,
            "link.latency": latency * stretch,
            "compute.clock": -(by_weights + by_reductions),
        }

    return TokenTime(
        weights, kv, 0.0, reductions, fixed, links, head, queue, draft, sides[0], ledger
    )
