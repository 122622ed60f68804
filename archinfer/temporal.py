"""Decode on temporal hardware: layers run one after another on a tensor-parallel group of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archinfer.deployment import Mapping
from archinfer.shape import FloatArray, LayerGroup, ModelShape, Number
from archinfer.terms import TokenTime, Traffic, links_s
from archinfer.work import layer_work

if TYPE_CHECKING:
    from archinfer.hardware import Hardware

__all__ = ["sync_latency_s", "temporal_time"]


def sync_latency_s(hardware: Hardware, group: Number) -> FloatArray:
    """Latency of one small all-reduce over `group` nodes, in seconds.

    The profile's table of group sizes, linear in log(group) between entries and flat beyond.
    A group larger than the scale-up domain crosses links as well: once up and once down for
    each doubling of the domains.
    """
    group = np.asarray(group, dtype=float)
    sizes = np.log2(np.asarray(hardware.sync_group_sizes, dtype=float))
    inside = np.interp(np.log2(group), sizes, np.asarray(hardware.sync_latency_s, dtype=float))
    domains = np.maximum(group / hardware.scale_up_size, 1.0)
    across = 2.0 * np.ceil(np.log2(domains)) * hardware.link_latency_s
    return np.asarray(inside + across)


def temporal_time(
    hardware: Hardware, shape: ModelShape, mapping: Mapping, traffic: Traffic
) -> TokenTime:
    """Time of one decode pass by term; arguments as `archinfer.cost.decode_time`."""
    group_size = mapping.tensor_parallel
    stages = mapping.stages(shape.layers)
    # Users are spread over the stages, which work on different ones at a time.
    batch = np.maximum(traffic.concurrency / stages, 1.0)
    tokens = batch * (1.0 + traffic.draft_tokens)
    read_bytes_per_s = (
        hardware.bandwidth_bytes_per_s * hardware.read_fraction * hardware.bandwidth_efficiency
    )
    flops_per_s = hardware.peak_flops("bf16") * hardware.compute_efficiency * group_size
    sync_s = hardware.reductions_per_layer * sync_latency_s(hardware, group_size)

    weights: Number = 0.0
    kv: Number = 0.0
    compute: Number = 0.0
    for group in shape.groups:
        one = layer_work(
            group, traffic.context_tokens, tokens, traffic.weight_bits, traffic.kv_bits
        )
        weight_s = one.weight_bytes / (read_bytes_per_s * group_size)
        kv_s = _kv_read_bytes(group, traffic, batch, group_size) / read_bytes_per_s
        compute_s = one.flops / flops_per_s
        weights = weights + group.count * weight_s
        kv = kv + group.count * kv_s
        compute = compute + group.count * np.maximum(compute_s - weight_s - kv_s, 0.0)
    outside_bits = traffic.weight_bits if traffic.outside_bits is None else traffic.outside_bits
    head = np.maximum(
        shape.head_params * (outside_bits / 8.0) / (read_bytes_per_s * group_size),
        2.0 * tokens * shape.head_params / flops_per_s,
    )
    layers = shape.layers
    reductions = layers * sync_s
    fixed = layers * hardware.fixed_time_per_layer_s + hardware.fixed_time_per_token_s
    links, latency = links_s(hardware, stages, tokens * shape.hidden_size)
    layer_s = (weights + kv + compute + reductions) / layers + hardware.fixed_time_per_layer_s
    draft = traffic.draft_tokens * (layer_s + head)
    busy = weights + kv + compute + reductions + fixed + links + head
    stretch = 1.0 + draft / busy
    return TokenTime(
        weights=weights,
        kv=kv,
        compute=compute,
        reductions=reductions,
        fixed=fixed,
        links=links,
        head=head,
        queue=0.0 * weights,
        draft=draft,
        side=np.nan,
        scaling={
            "bandwidth_efficiency": -(weights + kv + head) * stretch,
            "compute_efficiency": -compute * stretch,
            "reductions_per_layer": reductions * stretch,
            "fixed_time_per_layer": layers * hardware.fixed_time_per_layer_s * stretch,
            "fixed_time_per_token": hardware.fixed_time_per_token_s * stretch,
            "link.latency": latency * stretch,
        },
    )


def _kv_read_bytes(
    group: LayerGroup, traffic: Traffic, batch: Number, group_size: Number
) -> Number:
    """Bytes of cache and state that the busiest node of a tensor-parallel group reads."""
    read: Number = 0.0
    for cache in group.caches:
        alone = LayerGroup(count=1.0, shared_params=0.0, caches=(cache,))
        whole = layer_work(alone, traffic.context_tokens, batch, 0.0, traffic.kv_bits).kv_read_bytes
        read = read + whole / np.minimum(group_size, cache.shards)
    return read + batch * group.state_bytes / group_size
