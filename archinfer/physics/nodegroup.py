"""A tensor-parallel group of nodes: what it takes to read, compute, wait and launch on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import DENSE_CHAIN, FloatArray, LayerGroup, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.terms import contrast
from archinfer.physics.workload import Traffic, Workload, experts_hit

UNPACK_INSTRUCTIONS = 2.0
"""Vector instructions for one weight that is narrower than its product: one takes the bits out of
their word, one scales. Llama 2 70B in int4 on one A100 (gpt-fast, 25.25 tokens/s) leaves about as
many beside its reads."""


def sync_latency_s(hardware: Hardware, group: Number) -> FloatArray:
    """Latency of one small all-reduce over `group` nodes, in seconds.

    The profile's table of group sizes, linear in log(group) between entries and flat beyond.
    A group larger than the scale-up domain crosses links as well: once up and once down for
    each doubling of the domains. A table that goes beyond the domain includes these crossings,
    which then count from its last entry on.
    """
    group = np.asarray(group, dtype=float)
    sizes = np.log2(np.asarray(hardware.sync_group_sizes, dtype=float))
    inside = np.interp(np.log2(group), sizes, np.asarray(hardware.sync_latency_s, dtype=float))
    return np.asarray(inside + _doublings(hardware, group) * 2.0 * hardware.link_latency_s)


def _doublings(hardware: Hardware, group: Number) -> FloatArray:
    known = max(hardware.scale_up_size, *hardware.sync_group_sizes)
    return np.asarray(np.ceil(np.log2(np.maximum(np.asarray(group, dtype=float) / known, 1.0))))


ONE_STEP = 8.0
"""Nodes among which engines reduce in one step: a server's."""


def payload_parts_s(
    hardware: Hardware, group: Number, payload_bytes: Number, in_rings: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Time that the payload of an all-reduce adds to its latency: within domains, and between.

    Each node sends 2 (g - 1) / g of the payload within its domain; between D domains the nodes
    of a domain share 2 (D - 1) / D of it over their links. Bandwidths that the profile does not
    have count as without limit. With a `network_efficiency`, up to `ONE_STEP` nodes of a domain
    send the whole payload to each of the others in one step, which takes fewer steps than rings
    and more bytes; more nodes as many bytes as these (not where `in_rings`: long payloads).
    """
    group = np.asarray(group, dtype=float)
    size = hardware.scale_up_size
    inside = np.minimum(group, size)
    domains = np.maximum(group / size, 1.0)
    fast = np.nan_to_num(1.0 / np.asarray(hardware.scale_up_bandwidth_bytes_per_s), nan=0.0)
    slow = 1.0 / (hardware.link_bandwidth_bytes_per_s * inside)
    within = 2.0 * (1.0 - 1.0 / inside) * fast
    reached = np.asarray(hardware.network_efficiency)
    if not in_rings and not np.all(np.isnan(reached)):
        within = (inside - 1.0) * np.minimum(ONE_STEP / inside, 1.0) * fast / reached
    across = 2.0 * (1.0 - 1.0 / domains) * slow
    return np.asarray(payload_bytes * within), np.asarray(payload_bytes * across)


def payload_s(
    hardware: Hardware, group: Number, payload_bytes: Number, in_rings: bool = False
) -> FloatArray:
    """`payload_parts_s` together, in seconds."""
    within, across = payload_parts_s(hardware, group, payload_bytes, in_rings)
    return np.asarray(within + across)


Flags: TypeAlias = bool | NDArray[np.bool_]


def _native(
    hardware: Hardware, weight_bits: Number, weights_only: Flags
) -> tuple[FloatArray, FloatArray]:
    """Peak in FLOP/s at the products' number format, and whether weights are unpacked (0, 1).

    By bits: 16 and more run at the 16-bit peak, 8 at fp8, fewer at fp4. Where the hardware has no
    such peak, and of formats that hold weights only, they are widened to 16 bits.
    """
    one = isinstance(weight_bits, float | int) and isinstance(weights_only, bool)
    of: Callable[..., tuple[FloatArray, FloatArray]] = _native_of_one if one else _native_of
    return of(hardware.peaks_flops, hardware.peak_flops("bf16"), weight_bits, weights_only)


def _native_of(
    peaks_flops: Iterable[tuple[str, float]], wide: float, bits: Number, weights_only: Flags
) -> tuple[FloatArray, FloatArray]:
    bits, has = np.asarray(bits, dtype=float), dict(peaks_flops)
    eight, four = has.get("fp8", wide), has.get("fp4", wide)
    peak = np.where((bits >= 15.0) | weights_only, wide, np.where(bits >= 7.0, eight, four))
    narrow = np.where(bits >= 7.0, "fp8" not in has, "fp4" not in has) | weights_only
    packed = np.where(bits >= 15.0, False, narrow)
    return peak, packed.astype(float)


_native_of_one = lru_cache(_native_of)


def peak_flops_for(
    hardware: Hardware, weight_bits: Number, weights_only: Flags = False
) -> FloatArray:
    """Peak of one node in FLOP/s for products with weights of `weight_bits`."""
    return _native(hardware, weight_bits, weights_only)[0]


def unpack_s_per_weight(
    hardware: Hardware, weight_bits: Number, weights_only: Flags = False
) -> FloatArray:
    """Seconds that one node spends to unpack one weight; 0 where the product takes it as it is.

    UNPACK_INSTRUCTIONS on the vector units, whose rate is half the fp32 peak (which counts a
    multiply-add as two). A profile without an fp32 peak unpacks for free.
    """
    vector_flops = dict(hardware.peaks_flops).get("fp32", np.inf)
    packed = _native(hardware, weight_bits, weights_only)[1]
    return packed * (UNPACK_INSTRUCTIONS * 2.0 / vector_flops)


def four_bits(hardware: Hardware, weight_bits: Number, weights_only: Flags) -> FloatArray:
    """1 where products take 4-bit weights as they are, else 0."""
    packed = _native(hardware, weight_bits, weights_only)[1]
    return np.where(np.asarray(weight_bits, dtype=float) < 7.0, 1.0 - packed, 0.0)


DISTINCT_TOKENS = 0.86
"""Tokens of a batch route alike: B of them hit as many distinct experts as B ** 0.86 that have
nothing to do with each other. Engines' speeds over their batches (archinfer/data/serving.csv)
leave 0.80 to 0.93, less the slower experts are taken to be read."""

FUSED_KERNELS = 0.1
"""Part of `routed_kernels` that is left where experts are multiplied in 4 bits: their routing,
products and sums are one kernel then (gpt-oss and DeepSeek-R1 on B200 in
archinfer/data/serving.csv)."""

QUANTISING_KERNELS = 1.0
"""Kernels of a layer that bring activations to 4 bits for its products."""


KERNEL_WIDTH = 6000.0
"""Hidden size at which half of the time of a kernel beside its reads goes with the vector of a
token (the loop of a product over it, the reduction of a norm) and half does not (launch and drain).
Estimate: with each model left out, fits err by 1.114 in the median without it and 1.100 with it
(archinfer/data/serving.csv, single_user.csv)."""

SPLIT_WIDTH = 0.25
"""Part of that time which the nodes that share a dense layer split: products after the first of a
block loop over a g-th of the vector, norms over all of it. Layers with routed experts show no such
gain. Estimate: with each model left out, nine rows of ten stay within 1.27 with it and 1.29
without, single users of B200 within 1.28 and 1.39 in the median."""


def busiest_experts(hit: Number, group: Number) -> FloatArray:
    """Experts that the busiest of `group` nodes has to read when `hit` distinct ones are used.

    The mean load h/g, at most h and, where any is used, at least 1. No fluctuation is added:
    engines with whole experts are as fast as the mean says (archinfer/data/serving.csv), since
    they spread popular experts.
    """
    hit, group = np.asarray(hit, dtype=float), np.asarray(group, dtype=float)
    return np.asarray(np.minimum(np.maximum(hit / group, 1.0), hit))


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """One tensor-parallel group of nodes, and the batch that it works on."""

    hardware: Hardware
    nodes: Number
    batch: Number
    traffic: Traffic
    read_bytes_per_s: Number
    routed_bytes_per_s: Number
    kv_bytes_per_s: Number
    latency_s: Number
    """Of one small all-reduce."""
    crossing: Number
    """The part of it that crosses links."""
    width: Number = KERNEL_WIDTH
    """Hidden size of the model."""
    copies: Number = 1.0
    """Of what every token reads: nodes with users of their own have one each."""

    @property
    def tokens(self) -> Number:
        """Tokens of a pass, drafted ones included."""
        return self.batch * (1.0 + self.traffic.draft_tokens)

    @property
    def own_tokens(self) -> Number:
        """Tokens for which what every token reads is computed: as many on each node as on the
        busiest."""
        return np.maximum(self.tokens, self.copies)

    @property
    def counts_kernels(self) -> bool:
        """Whether the fixed time of a layer is that of counted kernels, as on GPUs."""
        return not bool(np.all(np.isnan(self.hardware.routed_kernels)))

    def experts_hit(self, group: LayerGroup) -> Number:
        """Distinct experts of a layer that a pass uses."""
        tokens = self.tokens**DISTINCT_TOKENS if self.counts_kernels else self.tokens
        return experts_hit(group.even_experts, group.experts_per_token, tokens)

    def read_s(self, params: Number, bits: Number) -> Number:
        """Reading weights at the group's bandwidth."""
        return params * (bits / 8.0) / (self.read_bytes_per_s * self.nodes)

    def read_routed_s(self, params: Number, bits: Number) -> Number:
        """Reading weights of experts at the group's bandwidth."""
        return params * (bits / 8.0) / (self.routed_bytes_per_s * self.nodes)

    def unpack_s(self, params: Number, bits: Number) -> Number:
        """Widening weights that are narrower than their products."""
        each_s = unpack_s_per_weight(self.hardware, bits, self.traffic.weights_only)
        return params * each_s / self.nodes

    def kernels_s(self, group: LayerGroup, routed: NDArray[np.bool_]) -> tuple[Number, Number]:
        """Fixed time of a layer, and the part of it that routed experts bring.

        Where kernels are counted: those of a dense layer, one for each step of a longer chain
        (latent and sparse attention, routing), what experts add, and what brings activations to
        4 bits; each takes (1 + d / KERNEL_WIDTH) / 2 of its time at that hidden size, where dense
        layers split `SPLIT_WIDTH` of d over their nodes. Elsewhere in proportion to the chain,
        times `routed_layer_factor`.
        """
        hardware = self.hardware
        each_s = hardware.fixed_time_per_layer_s / DENSE_CHAIN
        if not self.counts_kernels:
            plain = each_s * group.reductions
            routed_s = plain * np.where(routed, hardware.routed_layer_factor, 1.0)
            return routed_s, np.where(routed, routed_s, 0.0)
        own = SPLIT_WIDTH * (1.0 - self.copies / np.asarray(self.nodes))
        left = np.where(routed, 1.0, 1.0 - own)
        each_s = each_s * (1.0 + left * self.width / KERNEL_WIDTH) / 2.0
        shared, fused = (
            four_bits(hardware, bits, self.traffic.weights_only)
            for bits in self.traffic.layer_bits(group)
        )
        count = group.reductions - group.fused_steps + QUANTISING_KERNELS * shared
        added = hardware.routed_kernels * np.where(fused > 0.0, FUSED_KERNELS, 1.0)
        added_s = np.where(routed, each_s * added, 0.0)
        return each_s * count + added_s, added_s

    def compute_s(self, flops: Number, bits: Number) -> Number:
        """Arithmetic at the peak of the weights' format."""
        return flops / (self.peak(bits) * self.hardware.compute_efficiency * self.nodes)

    def peak(self, bits: Number) -> Number:
        """Peak of one node in FLOP/s for products with weights of `bits`."""
        return peak_flops_for(self.hardware, bits, self.traffic.weights_only)

    def beyond_s(self, compute: Number, memory_s: Number) -> Number:
        """What the memory time does not hide of `compute` seconds of arithmetic."""
        return np.maximum(compute - self.hardware.compute_overlap * memory_s, 0.0)

    def shown(self, compute: Number, memory_s: Number) -> Number:
        """Positive where `beyond_s` is."""
        return contrast(compute, self.hardware.compute_overlap * memory_s)

    def small_s(self, group: LayerGroup, hit: Number) -> tuple[Number, Number]:
        """Seconds of reading and of arithmetic that a layer's small matrices take on one core.

        Args:
            group: the layer.
            hit: distinct experts that are read.
        """
        hardware, traffic = self.hardware, self.traffic
        if not np.any(hardware.small_matrix_params):
            return 0.0, 0.0
        shared, share = group.small_params(hardware.small_matrix_params * self.nodes)
        read = [shared, group.routed_params * (hit / group.experts) * share]
        read_s = sum(
            self.read_s(n, bits) for n, bits in zip(read, traffic.layer_bits(group), strict=True)
        )
        multiplied = 2.0 * self.tokens * (shared + group.routed_active_params * share)
        speed = np.asarray(hardware.small_matrix_speed)
        return read_s / speed, self.compute_s(multiplied, traffic.weight_bits) / speed

    def small_switches(self, group: LayerGroup) -> list[Number]:
        """Which matrices of a layer are small: the time itself jumps where one of them grows."""
        most = self.hardware.small_matrix_params * np.asarray(self.nodes)
        if not np.any(most):
            return []
        return [contrast(m, most) for m in (*group.matrices, *group.expert_matrices)]

    def memory_ledger(
        self,
        read: Number,
        kv: Number,
        compute: Number,
        beyond: Number,
        small: tuple[Number, Number] = (0.0, 0.0),
        routed: Number = 0.0,
    ) -> dict[str, Number]:
        """Seconds by efficiency.

        Compute beyond the memory time moves with its own efficiency and, through the part that
        hides it, against that of the memory. `small`: of `small_s`, reading and arithmetic;
        `routed`: the part of `read` that is of experts.
        """
        busy = beyond > 0.0
        seen = np.where(busy, 1.0 - self.hardware.compute_overlap, 1.0)
        own_routed = not np.all(np.isnan(self.hardware.routed_bandwidth_efficiency))
        routed_s = routed * seen if own_routed else 0.0 * read
        read_s, kv_s = read * seen - routed_s, kv * seen
        own_kv = not np.all(np.isnan(self.hardware.kv_bandwidth_efficiency))
        return {
            "bandwidth_efficiency": -(read_s if own_kv else read_s + kv_s),
            "routed_bandwidth_efficiency": -routed_s,
            "kv_bandwidth_efficiency": -kv_s if own_kv else 0.0 * kv_s,
            "compute_efficiency": -np.where(busy, compute, 0.0),
            "compute_overlap": beyond - np.where(busy, compute, 0.0),
            "small_matrix_speed": -(small[0] * seen + np.where(busy, small[1], 0.0)),
        }


def node_group(hardware: Hardware, workload: Workload, mapping: Placement) -> NodeGroup:
    """The group of nodes of one stage; users are spread over the stages, which work on different
    ones at a time."""
    traffic, g = workload.traffic, mapping.tensor_parallel
    peak_bytes_per_s = hardware.bandwidth_bytes_per_s * hardware.read_fraction
    latency_s = sync_latency_s(hardware, g)
    crossing_s = 2.0 * _doublings(hardware, g) * hardware.link_latency_s
    return NodeGroup(
        hardware,
        g,
        np.maximum(traffic.concurrency / mapping.stages(workload.shape.layers), 1.0),
        traffic,
        peak_bytes_per_s * hardware.bandwidth_efficiency,
        peak_bytes_per_s * _own(hardware.routed_bandwidth_efficiency, hardware),
        peak_bytes_per_s * _own(hardware.kv_bandwidth_efficiency, hardware),
        latency_s,
        crossing_s / np.maximum(latency_s, 1e-30),
        workload.shape.hidden_size,
        mapping.copies,
    )


def _own(efficiency: Number, hardware: Hardware) -> Number:
    """Part of the bandwidth that a kind of reads reaches: as of weights unless it is given."""
    return np.where(np.isnan(efficiency), hardware.bandwidth_efficiency, efficiency)
