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
- Where arithmetic does not run beside the reads (`compute_overlap` below 1), the part of it that
  nothing hides is added.
- Routed experts are either cut over the nodes of the group like everything else, or stay whole on
  one node each (expert parallelism): then the busiest node sets the time and tokens are sent out
  and collected, once each. For one user a cut expert is read g times as fast as a whole one, so
  whole experts can only pay for large batches, whose all-reduces have much to carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.models.shape import DENSE_CHAIN, FloatArray, LayerGroup, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.terms import TokenTime, links_s
from archinfer.physics.workload import (
    ACTIVATION_BYTES,
    Traffic,
    Workload,
    cache_read_bytes,
    experts_hit,
    layer_work,
    node_share,
)

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware

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
class _Layer:
    """One layer of one kind: seconds by what sets them."""

    read: Number
    unpack: Number
    kv: Number
    compute: Number
    compute_full: Number
    sync: Number
    payload: Number
    by_steps: Number
    """The part of `sync` and `payload` that scales with the all-reduces of a layer."""
    fixed: Number
    calls: Number
    read_seen: Number
    """The part of `read` that no arithmetic hides."""
    kv_seen: Number

    @property
    def weights(self) -> Number:
        return self.read + self.unpack

    @property
    def total(self) -> Number:
        memory_s = self.weights + self.kv
        return memory_s + self.compute + self.sync + self.payload + self.fixed + self.calls


@dataclass(frozen=True, slots=True)
class _Rates:
    """Speeds and latencies of one group of nodes."""

    hardware: Hardware
    group: Number
    read_bytes_per_s: Number
    kv_bytes_per_s: Number
    latency_s: Number

    def flops_per_s(self, weight_bits: Number, weights_only: Flags) -> Number:
        peak = peak_flops_for(self.hardware, weight_bits, weights_only)
        return peak * self.hardware.compute_efficiency * self.group


def _layer(rates: _Rates, group: LayerGroup, traffic: Traffic, batch: Number, mapping: Placement,
           hidden_size: Number) -> _Layer:  # fmt: skip
    """Seconds of one layer of `group` for `batch` users on one tensor-parallel group."""
    hardware, g = rates.hardware, rates.group
    tokens = batch * (1.0 + traffic.draft_tokens)
    hit = experts_hit(group.even_experts, group.experts_per_token, tokens)
    one = layer_work(group, traffic, tokens, hit)
    shared_bits, routed_bits = traffic.layer_bits(group)
    routed_read = group.routed_params * (hit / group.experts)
    unpack = (
        group.shared_params * unpack_s_per_weight(hardware, shared_bits, traffic.weights_only)
        + routed_read * unpack_s_per_weight(hardware, routed_bits, traffic.weights_only)
    ) / g
    read = one.weight_bytes / (rates.read_bytes_per_s * g)
    payload_bytes = tokens * hidden_size * ACTIVATION_BYTES
    steps = hardware.reductions_per_layer
    once_s = payload_s(hardware, g, payload_bytes)
    sync, payload = steps * rates.latency_s, steps * once_s
    by_steps = sync + payload
    routed = _is_routed(group)
    if np.any(routed) and np.any(np.asarray(g) > 1.0):
        # Experts that stay whole: the busiest node reads its own, and tokens go out and come
        # back in place of one of the all-reduces. A node sends (g - 1) / g of the k copies of its
        # g-th of the tokens out, and as much comes back: k / g of what that all-reduce carries.
        expert_s = (
            group.routed_params
            / group.experts
            * (
                routed_bits / 8.0 / rates.read_bytes_per_s
                + unpack_s_per_weight(hardware, routed_bits, traffic.weights_only)
            )
        )
        extra_s = (busiest_experts(hit, g) - hit / g) * expert_s
        share = np.minimum(group.experts_per_token / g, 1.0)
        whole_payload = payload + (share - 1.0) * once_s
        whole_sync = sync + rates.latency_s
        gain = (sync + payload) - (whole_sync + whole_payload + extra_s)
        chosen = gain > 0.0
        if mapping.whole_experts is not None:
            chosen = np.broadcast_to(mapping.whole_experts, np.shape(gain))
        chosen = chosen & routed
        read = read + np.where(chosen, extra_s, 0.0)
        sync = np.where(chosen, whole_sync, sync)
        payload = np.where(chosen, whole_payload, payload)
    kv = _kv_bytes(group, traffic, batch, g) / rates.kv_bytes_per_s
    compute = one.flops / rates.flops_per_s(traffic.weight_bits, traffic.weights_only)
    beyond = np.maximum(compute - hardware.compute_overlap * (read + unpack + kv), 0.0)
    seen = np.where(beyond > 0.0, 1.0 - hardware.compute_overlap, 1.0)
    fixed = hardware.fixed_time_per_layer_s * (group.reductions / DENSE_CHAIN)
    calls: Number = 0.0
    if np.any(routed):
        fixed = fixed * np.where(routed, hardware.routed_layer_factor, 1.0)
        calls = np.where(routed, hit * hardware.fixed_time_per_expert_s, 0.0)
    return _Layer(
        read=read,
        unpack=unpack,
        kv=kv,
        compute=beyond,
        compute_full=compute,
        sync=sync,
        payload=payload,
        by_steps=by_steps,
        fixed=fixed,
        calls=calls,
        read_seen=read * seen,
        kv_seen=kv * seen,
    )


def _is_routed(group: LayerGroup) -> NDArray[np.bool_]:
    """Where the layers have routed experts; False: dense."""
    return np.asarray(np.asarray(group.routed_params) > 0.0)


def temporal_time(hardware: Hardware, workload: Workload, mapping: Placement) -> TokenTime:
    """Time of one decode pass by term; arguments as `archinfer.physics.decode.decode_time`."""
    shape, traffic = workload.shape, workload.traffic
    g = mapping.tensor_parallel
    stages = mapping.stages(shape.layers)
    # Users are spread over the stages, which work on different ones at a time.
    batch = np.maximum(traffic.concurrency / stages, 1.0)
    tokens = batch * (1.0 + traffic.draft_tokens)
    peak_bytes_per_s = hardware.bandwidth_bytes_per_s * hardware.read_fraction
    rates = _Rates(
        hardware,
        g,
        peak_bytes_per_s * hardware.bandwidth_efficiency,
        peak_bytes_per_s * _kv_efficiency(hardware),
        sync_latency_s(hardware, g),
    )
    layers = [
        (group, _layer(rates, group, traffic, batch, mapping, shape.hidden_size))
        for group in shape.groups
    ]

    def over(name: str) -> Number:
        return sum((group.count * getattr(one, name) for group, one in layers), start=0.0)

    weights, kv, compute = over("weights"), over("kv"), over("compute")
    sync, payload = over("sync"), over("payload")
    fixed_layers, calls = over("fixed"), over("calls")
    routed_fixed = sum(
        (group.count * np.where(_is_routed(group), one.fixed, 0.0) for group, one in layers),
        start=0.0,
    )
    outside_bits = traffic.head_bits
    head_read = shape.head_params * (outside_bits / 8.0) / (rates.read_bytes_per_s * g)
    only = traffic.weights_only
    head_unpack = shape.head_params * unpack_s_per_weight(hardware, outside_bits, only) / g
    head_compute = 2.0 * tokens * shape.head_params / rates.flops_per_s(outside_bits, only)
    head_beyond = np.maximum(
        head_compute - hardware.compute_overlap * (head_read + head_unpack), 0.0
    )
    head = head_read + head_unpack + head_beyond
    links, latency = links_s(hardware, stages, tokens * shape.hidden_size)
    # A drafted token is one more layer of the last kind, one more head and the time that a pass
    # takes whatever its size, one after the other (multi-token-prediction modules).
    _, last = layers[-1]
    draft_one = last.total + head + hardware.fixed_time_per_token_s
    draft = traffic.draft_tokens * draft_one

    # Compute beyond the memory time moves with its own efficiency and, through the part that
    # hides it, against that of the memory.
    computed = sum(
        (group.count * np.where(one.compute > 0.0, one.compute_full, 0.0)
         for group, one in layers), start=0.0,
    )  # fmt: skip
    head_seen = np.where(head_beyond > 0.0, (1.0 - hardware.compute_overlap) * head_read, head_read)
    head_busy = head_compute * (head_beyond > 0.0)
    d = traffic.draft_tokens
    read_seen = over("read_seen") + head_seen + d * (last.read_seen + head_seen)
    kv_seen = over("kv_seen") + d * last.kv_seen
    own_kv = not np.all(np.isnan(hardware.kv_bandwidth_efficiency))
    last_computed = np.where(last.compute > 0.0, last.compute_full, 0.0)
    crossing = 2.0 * _doublings(hardware, g) * hardware.link_latency_s / np.maximum(
        rates.latency_s, 1e-30
    )  # fmt: skip
    last_routed = np.where(_is_routed(shape.groups[-1]), last.fixed, 0.0)
    return TokenTime(
        weights=weights,
        kv=kv,
        compute=compute,
        reductions=sync + payload,
        fixed=fixed_layers + calls + hardware.fixed_time_per_token_s,
        links=links,
        head=head,
        queue=0.0 * weights,
        draft=draft,
        side=np.nan,
        scaling={
            "bandwidth_efficiency": -(read_seen if own_kv else read_seen + kv_seen),
            "kv_bandwidth_efficiency": -kv_seen if own_kv else 0.0 * kv_seen,
            "compute_efficiency": -(computed + head_busy + d * (last_computed + head_busy)),
            "reductions_per_layer": over("by_steps") + d * last.by_steps,
            "fixed_time_per_layer": fixed_layers + d * last.fixed,
            "routed_layer_factor": routed_fixed + d * last_routed,
            "fixed_time_per_expert": calls + d * last.calls,
            "fixed_time_per_token": hardware.fixed_time_per_token_s * (1.0 + d) + 0.0 * weights,
            "link.latency": latency + crossing * (sync + d * last.sync),
        },
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
