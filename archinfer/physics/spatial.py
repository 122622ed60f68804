"""Decode on spatial hardware: a wafer whose layers are all resident, side by side.

Each layer owns a square region of cores. Only one region works on a given token, so a layer sees
its own region's bandwidth alone, and a chain of dependent all-reduces crosses the region for
every layer. The other users' tokens fill the rest of the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import DENSE_CHAIN, FloatArray, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import memory_fraction
from archinfer.physics.terms import TokenTime, contrast, links_s
from archinfer.physics.workload import (
    Workload,
    attention_macs,
    experts_hit,
    kv_read_bytes,
    values_read,
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
    nearly straight (its slope runs from 2.5 to 3): two steps reach 1e-8. Huge where R = 0.
    """
    target = 2.0 * np.maximum(work_cycles, 1e-30) / np.maximum(reductions, 1e-30)
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


@dataclass(frozen=True)
class _Cycles:
    """Cycles of one core by what sets them; the largest counts."""

    reads: Number
    """Of numbers that are brought up and used, at the profile's cycles per weight."""
    products: Number
    """Of multiply-accumulates at the reached part of the peak."""
    ports: Number
    """Of bytes at the reached part of the bandwidth."""

    @cached_property
    def total(self) -> Number:
        return np.maximum(np.maximum(self.reads, self.products), self.ports)

    @property
    def switches(self) -> tuple[Number, Number, Number]:
        """Which of each two is the larger."""
        return (
            contrast(self.reads, self.products),
            contrast(self.reads, self.ports),
            contrast(self.products, self.ports),
        )

    @cached_property
    def by_reads(self) -> Number:
        """Cycles that scale with the profile's cycles per weight."""
        return np.where(self.reads >= self.total, self.reads, 0.0)

    @cached_property
    def by_products(self) -> Number:
        """Cycles that scale with the peak."""
        found = (self.products >= self.total) & (self.reads < self.total)
        return np.where(found, self.products, 0.0)


def _cycles(hardware: Hardware, numbers: Number, products: Number, read_bytes: Number) -> _Cycles:
    """Work of one core on `numbers` stored ones, of `read_bytes`, with so many `products`.

    What is read once serves every product it goes into, of drafted tokens and of query heads that
    share a key or value alike, until the products reach the peak.
    """
    cycle_s = 1.0 / hardware.clock_hz
    bytes_per_s = (
        hardware.bandwidth_bytes_per_s * hardware.read_fraction * hardware.bandwidth_efficiency
    )
    macs_per_s = hardware.peak_flops("bf16") * hardware.compute_efficiency / 2.0
    return _Cycles(
        numbers * hardware.cycles_per_weight,
        products / (macs_per_s * cycle_s / hardware.cores),
        read_bytes / (bytes_per_s * cycle_s / hardware.cores),
    )


@dataclass(frozen=True)
class _Stage:
    """The layers of one kind, or the head: how many, one's region, and what it works on."""

    count: Number
    region: _Region
    weights: _Cycles
    kv: _Cycles | None
    routed_reads: Number
    """Cycles of reading the weights of routed experts."""
    fixed_s: Number

    @property
    def switches(self) -> tuple[Number, ...]:
        """Of `_Cycles`, weights and cache."""
        return (*self.weights.switches, *(() if self.kv is None else self.kv.switches))

    @cached_property
    def weights_s(self) -> Number:
        """Of one: its weights."""
        return self.weights.total * self.region.per_cycle

    @cached_property
    def kv_s(self) -> Number:
        """Of one: its cache."""
        return 0.0 if self.kv is None else self.kv.total * self.region.per_cycle

    @cached_property
    def total_s(self) -> Number:
        """Of one, everything."""
        return self.weights_s + self.kv_s + self.region.reductions + self.fixed_s

    def work_s(self, cycles: Callable[[_Cycles], Number]) -> Number:
        """Of one: some cycles of its weights and its cache."""
        both = cycles(self.weights) + (0.0 if self.kv is None else cycles(self.kv))
        return both * self.region.per_cycle

    @cached_property
    def reads_s(self) -> Number:
        """Of one: what scales with the profile's cycles per weight."""
        return self.work_s(lambda cycles: cycles.by_reads)

    @property
    def routed_s(self) -> Number:
        """Of one: what scales with how unevenly experts load the cores."""
        reads = np.where(self.weights.by_reads > 0.0, self.routed_reads, 0.0)
        return reads * self.region.per_cycle


def _layers(
    hardware: Hardware, workload: Workload, mapping: Placement, side: Number | None
) -> list[_Stage]:
    """The layers of each kind."""
    shape, traffic = workload.shape, workload.traffic
    side_high = np.sqrt(hardware.cores / mapping.layers_per_stage)
    # The layer's bytes fill this share of the region that it may have.
    filled = memory_fraction(hardware, workload.memory, mapping)
    side_low = np.maximum(side_high * np.sqrt(np.minimum(filled, 1.0)), 1.0)
    tokens = 1.0 + traffic.draft_tokens
    stages = []
    for group in shape.groups:
        hit = experts_hit(group.even_experts, group.experts_per_token, tokens)
        params, read_bytes = weights_read(group, traffic, hit)
        # The experts of a token do not load all cores evenly.
        routed = hardware.routed_weight_factor * (params - group.shared_params)
        weights = _cycles(
            hardware, group.shared_params + routed, tokens * group.active_params, read_bytes
        )
        kv = _cycles(
            hardware,
            values_read(group, traffic.context_tokens),
            tokens * attention_macs(group, traffic.context_tokens),
            kv_read_bytes(group, traffic),
        )
        chain = group.reductions / DENSE_CHAIN
        steps = hardware.reductions_per_layer * chain
        region = _region(hardware, steps, weights.total + kv.total, side_low, side_high, side)
        fixed_s = hardware.fixed_time_per_layer_s * chain
        routed_reads = routed * hardware.cycles_per_weight
        stages.append(_Stage(group.count, region, weights, kv, routed_reads, fixed_s))
    return stages


def _head(
    hardware: Hardware, workload: Workload, mapping: Placement, side: Number | None
) -> _Stage:
    shape, traffic = workload.shape, workload.traffic
    tokens = 1.0 + traffic.draft_tokens
    read_bytes = shape.head_params * traffic.table_bits(shape)[1] / 8.0
    work = _cycles(hardware, shape.head_params, tokens * shape.head_params, read_bytes)
    side_high = np.sqrt(hardware.cores / mapping.layers_per_stage)
    region = _region(hardware, HEAD_REDUCTIONS, work.total, 1.0, side_high, side)
    return _Stage(1.0, region, work, None, 0.0, hardware.fixed_time_per_layer_s)


def _sum(values: Iterable[Number]) -> Number:
    return sum(values, start=0.0)


def _seconds_by_constant(
    stages: Sequence[tuple[Number, _Stage]], per_token_s: Number, latency: Number
) -> dict[str, Number]:
    """d / d log(constant) of the seconds of so many of each stage, and of what comes once."""

    def over(seconds: Callable[[_Stage], Number]) -> Number:
        return _sum(count * seconds(stage) for count, stage in stages)

    return {
        "cycles_per_weight": over(lambda s: s.reads_s),
        "routed_weight_factor": over(lambda s: s.routed_s),
        "compute_efficiency": -over(lambda s: s.work_s(lambda cycles: cycles.by_products)),
        # The head's all-reduces are counted, not measured.
        "reductions_per_layer": over(lambda s: 0.0 if s.kv is None else s.region.reductions),
        "fixed_time_per_layer": over(lambda s: s.fixed_s),
        "fixed_time_per_token": per_token_s,
        "link.latency": latency,
        # Peak and bandwidth are stated in seconds, whatever the clock.
        "compute.clock": -over(lambda s: s.reads_s + s.region.reductions),
    }


def spatial_time(
    hardware: Hardware, workload: Workload, mapping: Placement, side: Number | None
) -> TokenTime:
    """Time of one decode pass by term; arguments as `archinfer.physics.decode.decode_time`."""
    shape, traffic = workload.shape, workload.traffic
    layers = _layers(hardware, workload, mapping, side)
    of_head = _head(hardware, workload, mapping, side)
    weights = _sum(s.count * s.weights_s for s in layers)
    kv = _sum(s.count * s.kv_s for s in layers)
    reductions = _sum(s.count * s.region.reductions for s in layers)
    fixed = _sum(s.count * s.fixed_s for s in layers) + hardware.fixed_time_per_token_s
    head = of_head.total_s
    stages = mapping.stages(shape.layers)
    tokens = 1.0 + traffic.draft_tokens
    links, latency = links_s(hardware, stages, tokens * shape.hidden_size)
    busy = weights + kv + reductions + fixed + links + head
    slowest: Number = 0.0
    for one in layers:
        slowest = np.maximum(slowest, one.total_s)
    # One layer (or the head) is one pipeline stage: every user's token must pass the slowest
    # of them once per round.
    queue = np.maximum(traffic.concurrency * np.maximum(slowest, head) - busy, 0.0)
    # A drafted token is taken to cost one more layer and head. They lengthen a pass; where many
    # users draft, they are taken to stand often enough that no user waits for them.
    drafts = traffic.draft_tokens
    draft = drafts * (slowest + head) if np.any(drafts) else 0.0

    def ledger() -> dict[str, Number]:
        # Of a queue the slowest stage alone counts, once for each user.
        waits = queue > 0.0
        longest = np.maximum(slowest, head)
        users = traffic.concurrency
        counts = [
            np.where(waits, users * (s.total_s >= longest), s.count)
            + drafts * (s.total_s >= slowest)
            for s in layers
        ]
        heads = np.where(waits, users * (head > slowest), 1.0) + drafts
        return _seconds_by_constant(
            [*zip(counts, layers, strict=True), (heads, of_head)],
            np.where(waits, 0.0, hardware.fixed_time_per_token_s),
            np.where(waits, 0.0, latency),
        )

    def switches() -> tuple[list[Number], list[Number]]:
        users, still = traffic.concurrency, [s for one in layers for s in one.switches]
        if not np.any(np.asarray(users) > 1.0):
            return [], still
        return [
            *(contrast(users * t, busy) for t in (slowest, head)),
            contrast(slowest, head),
        ], still

    side_of_first = layers[0].region.side
    return TokenTime(
        weights, kv, 0.0, reductions, fixed, links, head, queue, draft, 0.0, side_of_first,
        ledger, switches,
    )  # fmt: skip
