"""Decode on temporal hardware: layers run one after another on a tensor-parallel group of nodes.

    T = sum over layers( bytes / (g B e) + unpacking + fixed + 2 t_sync(g) ) + crossings + head

- Every node of a group of g reads a g-th of each layer's weights. A KV cache splits by whole
  heads (`workload.node_share`); a latent cache is on each node.
- Each layer waits for two all-reduces: their latency grows with the group, and more once the
  group leaves its scale-up domain; their payload counts for large batches.
- The fixed time of a layer is that of its kernels, whatever their bytes: in proportion to the
  chain of dependent steps, and more where routed experts bring kernels of their own.
- Arithmetic runs at the peak of the weights' own number format where there is one. Narrower
  weights than that are unpacked first, which vector units do beside the reads.
- Matrices of fewer parameters than `small_matrix_params` run on one core of the node, at
  `small_matrix_speed` of the speed of all (processors: a product that small is not shared out).
- Where arithmetic does not run beside the reads (`compute_overlap` below 1), the part of it that
  nothing hides is added.
- Routed experts are either cut over the nodes of the group like everything else, or stay whole on
  one node each (expert parallelism): then the busiest node sets the time and tokens are sent out
  and collected, once each. For one user a cut expert is read g times as fast as a whole one, so
  whole experts can only pay for large batches, whose all-reduces have much to carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import DENSE_CHAIN, FloatArray, LayerGroup, ModelShape, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.terms import Ledger, TokenTime, links_s
from archinfer.physics.workload import (
    ACTIVATION_BYTES,
    Traffic,
    Workload,
    cache_read_bytes,
    experts_hit,
    flops,
    node_share,
)

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


def payload_s(hardware: Hardware, group: Number, payload_bytes: Number) -> FloatArray:
    """Time that the payload of an all-reduce adds to its latency, in seconds.

    Each node sends 2 (g - 1) / g of the payload within its domain; between D domains the nodes
    of a domain share 2 (D - 1) / D of it over their links. Bandwidths that the profile does not
    have count as without limit.
    """
    group = np.asarray(group, dtype=float)
    size = hardware.scale_up_size
    inside = np.minimum(group, size)
    domains = np.maximum(group / size, 1.0)
    fast = np.nan_to_num(1.0 / np.asarray(hardware.scale_up_bandwidth_bytes_per_s), nan=0.0)
    slow = 1.0 / (hardware.link_bandwidth_bytes_per_s * inside)
    within = 2.0 * (1.0 - 1.0 / inside) * fast
    across = 2.0 * (1.0 - 1.0 / domains) * slow
    return np.asarray(payload_bytes * (within + across))


Flags: TypeAlias = bool | NDArray[np.bool_]


def _native(
    hardware: Hardware, weight_bits: Number, weights_only: Flags
) -> tuple[FloatArray, FloatArray]:
    """Peak in FLOP/s at the products' number format, and whether weights are unpacked (0, 1).

    By bits: 16 and more run at the 16-bit peak, 8 at fp8, fewer at fp4. Where the hardware has no
    such peak, and of formats that hold weights only, they are widened to 16 bits.
    """
    bits = np.asarray(weight_bits, dtype=float)
    has = dict(hardware.peaks_flops)
    wide = hardware.peak_flops("bf16")
    eight, four = has.get("fp8", wide), has.get("fp4", wide)
    peak = np.where((bits >= 15.0) | weights_only, wide, np.where(bits >= 7.0, eight, four))
    narrow = np.where(bits >= 7.0, "fp8" not in has, "fp4" not in has) | weights_only
    packed = np.where(bits >= 15.0, False, narrow)
    return peak, packed.astype(float)


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


def busiest_experts(hit: Number, group: Number) -> FloatArray:
    """Experts that the busiest of `group` nodes has to read when `hit` distinct ones are used.

    Mean load plus its fluctuation, h/g + sqrt(2 (h/g) ln g), at most h and, where any is used, at
    least 1 (leading order of the largest of g Poisson loads).
    """
    hit, group = np.asarray(hit, dtype=float), np.asarray(group, dtype=float)
    mean = hit / group
    most = mean + np.sqrt(2.0 * mean * np.log(group))
    return np.asarray(np.minimum(np.maximum(most, 1.0), hit))


@dataclass(frozen=True, slots=True)
class _Part:
    """Seconds of one layer, or of the head."""

    weights: Number
    kv: Number
    compute: Number
    reductions: Number
    fixed: Number
    ledger: Ledger

    @property
    def total(self) -> Number:
        return self.weights + self.kv + self.compute + self.reductions + self.fixed


@dataclass(frozen=True, slots=True)
class _Group:
    """One tensor-parallel group of nodes, and the batch that it works on."""

    hardware: Hardware
    nodes: Number
    batch: Number
    traffic: Traffic
    read_bytes_per_s: Number
    kv_bytes_per_s: Number
    latency_s: Number
    """Of one small all-reduce."""
    crossing: Number
    """The part of it that crosses links."""

    @property
    def tokens(self) -> Number:
        """Tokens of a pass, drafted ones included."""
        return self.batch * (1.0 + self.traffic.draft_tokens)

    def read_s(self, params: Number, bits: Number) -> Number:
        """Reading weights at the group's bandwidth."""
        return params * (bits / 8.0) / (self.read_bytes_per_s * self.nodes)

    def unpack_s(self, params: Number, bits: Number) -> Number:
        """Widening weights that are narrower than their products."""
        each_s = unpack_s_per_weight(self.hardware, bits, self.traffic.weights_only)
        return params * each_s / self.nodes

    def compute_s(self, flops: Number, bits: Number) -> Number:
        """Arithmetic at the peak of the weights' format."""
        peak = peak_flops_for(self.hardware, bits, self.traffic.weights_only)
        return flops / (peak * self.hardware.compute_efficiency * self.nodes)

    def beyond_s(self, compute: Number, memory_s: Number) -> Number:
        """What the memory time does not hide of `compute` seconds of arithmetic."""
        return np.maximum(compute - self.hardware.compute_overlap * memory_s, 0.0)

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

    def memory_ledger(
        self,
        read: Number,
        kv: Number,
        compute: Number,
        beyond: Number,
        small: tuple[Number, Number] = (0.0, 0.0),
    ) -> dict[str, Number]:
        """Seconds by efficiency.

        Compute beyond the memory time moves with its own efficiency and, through the part that
        hides it, against that of the memory. `small`: of `small_s`, reading and arithmetic.
        """
        busy = beyond > 0.0
        seen = np.where(busy, 1.0 - self.hardware.compute_overlap, 1.0)
        read_s, kv_s = read * seen, kv * seen
        own_kv = not np.all(np.isnan(self.hardware.kv_bandwidth_efficiency))
        return {
            "bandwidth_efficiency": -(read_s if own_kv else read_s + kv_s),
            "kv_bandwidth_efficiency": -kv_s if own_kv else 0.0 * kv_s,
            "compute_efficiency": -np.where(busy, compute, 0.0),
            "small_matrix_speed": -(small[0] * seen + np.where(busy, small[1], 0.0)),
        }


def _group(hardware: Hardware, workload: Workload, mapping: Placement) -> _Group:
    """The group of nodes of one stage; users are spread over the stages, which work on different
    ones at a time."""
    traffic, g = workload.traffic, mapping.tensor_parallel
    peak_bytes_per_s = hardware.bandwidth_bytes_per_s * hardware.read_fraction
    latency_s = sync_latency_s(hardware, g)
    crossing_s = 2.0 * _doublings(hardware, g) * hardware.link_latency_s
    return _Group(
        hardware,
        g,
        np.maximum(traffic.concurrency / mapping.stages(workload.shape.layers), 1.0),
        traffic,
        peak_bytes_per_s * hardware.bandwidth_efficiency,
        peak_bytes_per_s * _kv_efficiency(hardware),
        latency_s,
        crossing_s / np.maximum(latency_s, 1e-30),
    )


def _layer(on: _Group, group: LayerGroup, hidden_size: Number, whole_experts: bool | None) -> _Part:
    """Seconds of one layer of `group` on one tensor-parallel group."""
    hardware, g, traffic = on.hardware, on.nodes, on.traffic
    hit = experts_hit(group.even_experts, group.experts_per_token, on.tokens)
    shared_bits, routed_bits = traffic.layer_bits(group)
    routed_read = group.routed_params * (hit / group.experts)
    # Experts are many small matrices, which reach less of the bandwidth than a whole one.
    routed_s = hardware.routed_weight_factor * on.read_s(routed_read, routed_bits)
    read = on.read_s(group.shared_params, shared_bits) + routed_s
    unpack = on.unpack_s(group.shared_params, shared_bits) + on.unpack_s(routed_read, routed_bits)
    once_s = payload_s(hardware, g, on.tokens * hidden_size * ACTIVATION_BYTES)
    steps = hardware.reductions_per_layer
    by_steps = steps * on.latency_s + steps * once_s
    sync, reductions = steps * on.latency_s, by_steps
    routed = np.asarray(np.asarray(group.routed_params) > 0.0)
    some = bool(np.any(routed))
    if some and np.any(np.asarray(g) > 1.0):
        extra_s, whole_reductions = _whole_experts(on, group, hit, once_s, by_steps)
        chosen = by_steps - (whole_reductions + extra_s) > 0.0
        if whole_experts is not None:
            chosen = np.broadcast_to(whole_experts, np.shape(chosen))
        chosen = chosen & routed
        read = read + np.where(chosen, extra_s, 0.0)
        sync = np.where(chosen, sync + on.latency_s, sync)
        reductions = np.where(chosen, whole_reductions, reductions)
    kv = _kv_bytes(group, traffic, on.batch, g) / on.kv_bytes_per_s
    compute = on.compute_s(on.tokens * flops(group, traffic), traffic.weight_bits)
    small = on.small_s(group, hit)
    slower = 1.0 - np.asarray(hardware.small_matrix_speed)
    read, compute = read + slower * small[0], compute + slower * small[1]
    beyond = on.beyond_s(compute, read + unpack + kv)
    kernels = hardware.fixed_time_per_layer_s * (group.reductions / DENSE_CHAIN)
    calls: Number = 0.0
    if some:
        kernels = kernels * np.where(routed, hardware.routed_layer_factor, 1.0)
        calls = np.where(routed, hit * hardware.fixed_time_per_expert_s, 0.0)

    def ledger() -> dict[str, Number]:
        return on.memory_ledger(read, kv, compute, beyond, small) | {
            "reductions_per_layer": by_steps,
            "fixed_time_per_layer": kernels,
            "routed_layer_factor": np.where(routed, kernels, 0.0),
            "routed_weight_factor": routed_s,
            "fixed_time_per_expert": calls,
            "link.latency": on.crossing * sync,
        }

    return _Part(read + unpack, kv, beyond, reductions, kernels + calls, ledger)


def _whole_experts(
    on: _Group, group: LayerGroup, hit: Number, once_s: Number, by_steps: Number
) -> tuple[Number, Number]:
    """Seconds that experts which stay whole add to reading, and all-reduces with them.

    The busiest node reads its own, and tokens go out and come back in place of one of the
    all-reduces. A node sends (g - 1) / g of the k copies of its g-th of the tokens out, and as
    much comes back: k / g of what that all-reduce carries.
    """
    g, bits = on.nodes, on.traffic.layer_bits(group)[1]
    unpack = unpack_s_per_weight(on.hardware, bits, on.traffic.weights_only)
    byte_s = on.hardware.routed_weight_factor / on.read_bytes_per_s
    expert_s = group.routed_params / group.experts * (bits / 8.0 * byte_s + unpack)
    share = np.minimum(group.experts_per_token / g, 1.0)
    extra_s = (busiest_experts(hit, g) - hit / g) * expert_s
    return extra_s, by_steps + on.latency_s + (share - 1.0) * once_s


def _head(on: _Group, shape: ModelShape) -> _Part:
    """Seconds of the LM head, whose weights are read whole."""
    params, bits = shape.head_params, on.traffic.table_bits(shape)[1]
    read, unpack = on.read_s(params, bits), on.unpack_s(params, bits)
    compute = on.compute_s(2.0 * on.tokens * params, bits)
    beyond = on.beyond_s(compute, read + unpack)
    return _Part(
        read + unpack, 0.0, beyond, 0.0, 0.0,
        lambda: on.memory_ledger(read, 0.0, compute, beyond),
    )  # fmt: skip


def temporal_time(hardware: Hardware, workload: Workload, mapping: Placement) -> TokenTime:
    """Time of one decode pass by term; arguments as `archinfer.physics.decode.decode_time`."""
    shape, drafts = workload.shape, workload.traffic.draft_tokens
    on = _group(hardware, workload, mapping)
    layers = [
        (group.count, _layer(on, group, shape.hidden_size, mapping.whole_experts))
        for group in shape.groups
    ]
    head = _head(on, shape)
    links, latency = links_s(hardware, mapping.stages(shape.layers), on.tokens * shape.hidden_size)
    per_token = hardware.fixed_time_per_token_s
    # A drafted token is one more layer of the last kind, one more head and the time that a pass
    # takes whatever its size, one after the other (multi-token-prediction modules).
    last = layers[-1][1]
    draft = drafts * (last.total + head.total + per_token) if np.any(drafts) else 0.0

    def over(name: str) -> Number:
        return sum((count * getattr(one, name) for count, one in layers), start=0.0)

    def ledger() -> dict[str, Number]:
        sums = {"fixed_time_per_token": per_token * (1.0 + drafts), "link.latency": latency}
        for count, part in (*layers, (drafts, last), (1.0 + drafts, head)):
            for constant, seconds in part.ledger().items():
                sums[constant] = sums.get(constant, 0.0) + count * seconds
        return sums

    return TokenTime(
        over("weights"), over("kv"), over("compute"), over("reductions"),
        over("fixed") + per_token, links, head.total, 0.0, draft, np.nan, ledger,
    )  # fmt: skip


def _kv_efficiency(hardware: Hardware) -> Number:
    """Part of the bandwidth that reading keys and values reaches: as weights unless it is given."""
    own = hardware.kv_bandwidth_efficiency
    return np.where(np.isnan(own), hardware.bandwidth_efficiency, own)


def _kv_bytes(group: LayerGroup, traffic: Traffic, batch: Number, group_size: Number) -> Number:
    """Bytes of cache and state that the busiest node of a tensor-parallel group moves.

    A state is read and written whole; of a cache one token is written, which is left out.
    """
    read: Number = 0.0
    for cache in group.caches:
        whole = batch * cache_read_bytes(cache, traffic)
        read = read + whole * node_share(cache.shards, group_size)
    state_bytes = 2.0 * batch * group.state_bytes  # read, and written back
    return read + state_bytes * node_share(group.state_shards, group_size)
