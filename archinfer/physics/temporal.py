"""Decode on temporal hardware: layers run one after another on a tensor-parallel group of nodes.

    T = sum over layers( bytes / (g B e) + unpacking + fixed + 2 t_sync(g) ) + crossings + head

- Every node of a group of g reads a g-th of each layer's weights. A KV cache splits by whole
  heads (`memory.node_share`); a latent cache is on each node.
- Each layer waits for two all-reduces: their latency grows with the group, and more once the
  group leaves its scale-up domain; their payload counts for large batches.
- The fixed time of a layer is that of its kernels, whatever their bytes: in proportion to the
  chain of dependent steps, and more where routed experts bring kernels of their own.
- Beside the engine's loop, a pass of B users takes sqrt(B) times what one takes to schedule and to
  sample: both go in batches, partly beside the layers.
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
- With data-parallel attention nodes share nothing but the experts, whole ones: each reads all else
  itself and the caches of its own users, and waits only for tokens to go out and come back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import LayerGroup, ModelShape, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import node_share
from archinfer.physics.nodegroup import (
    NodeGroup,
    busiest_experts,
    node_group,
    payload_parts_s,
    unpack_s_per_weight,
)
from archinfer.physics.prefill import PROMPT_CONSTANTS, others_prompts
from archinfer.physics.terms import Ledger, Switches, TokenTime, contrast, links_s, no_switches
from archinfer.physics.workload import (
    ACTIVATION_BYTES,
    Workload,
    attention_macs,
    cache_read_bytes,
    flops,
)


@dataclass(frozen=True, slots=True)
class _Part:
    """Seconds of one layer, or of the head."""

    weights: Number
    kv: Number
    compute: Number
    reductions: Number
    fixed: Number
    ledger: Ledger
    switches: Switches

    @property
    def total(self) -> Number:
        return self.weights + self.kv + self.compute + self.reductions + self.fixed


def _layer(on: NodeGroup, group: LayerGroup, hidden_size: Number, mapping: Placement) -> _Part:
    """Seconds of one layer of `group` on one tensor-parallel group."""
    hardware, g, traffic = on.hardware, on.nodes, on.traffic
    hit = on.experts_hit(group)
    shared_bits, routed_bits = traffic.layer_bits(group)
    routed_read = group.routed_params * (hit / group.experts)
    # Experts are many small matrices, which reach less of the bandwidth than a whole one.
    experts_s = hardware.routed_weight_factor * on.read_routed_s(routed_read, routed_bits)
    shared_params = group.shared_params * on.copies
    read = on.read_s(shared_params, shared_bits) + experts_s
    unpack = on.unpack_s(shared_params, shared_bits) + on.unpack_s(routed_read, routed_bits)
    within_s, across_s = payload_parts_s(hardware, g, on.tokens * hidden_size * ACTIVATION_BYTES)
    once_s = within_s + across_s
    sync = hardware.reductions_per_layer * on.latency_s
    by_steps = reductions = sync + hardware.reductions_per_layer * once_s
    routed = np.asarray(np.asarray(group.routed_params) > 0.0)
    cut_gains: Number = 0.0
    if (some := bool(np.any(routed))) and np.any(np.asarray(g) > 1.0):
        extra_s, whole_reductions = _whole_experts(on, group, hit, once_s, by_steps)
        cut_gains = contrast(by_steps, whole_reductions + extra_s)
        chosen = cut_gains > 0.0 if mapping.whole_experts is None else mapping.whole_experts
        chosen = (chosen | mapping.data_parallel) & routed
        read, experts_s = (s + np.where(chosen, extra_s, 0.0) for s in (read, experts_s))
        sync = np.where(chosen, sync + on.latency_s, sync)
        reductions = np.where(chosen, whole_reductions, reductions)
    own = mapping.data_parallel
    if own is not False:
        # Only tokens on their way to experts and back are left.
        away = reductions - by_steps + on.latency_s + once_s
        reductions = np.where(own, np.where(routed, away, 0.0), reductions)
        sync = np.where(own, np.where(routed, 2.0 * on.latency_s, 0.0), sync)
        by_steps = np.where(own, 0.0, by_steps)
    kv = _kv_bytes(on, group, mapping) / on.kv_bytes_per_s
    scores = 2.0 * on.own_tokens * attention_macs(group, traffic.context_tokens)
    routed_flops = 2.0 * group.routed_active_params * (on.own_tokens - on.tokens)
    products = on.own_tokens * flops(group, traffic) - scores - routed_flops
    compute = on.compute_s(products, traffic.weight_bits) + on.compute_s(scores, 16.0)
    small = on.small_s(group, hit)
    slower = 1.0 - np.asarray(hardware.small_matrix_speed)
    read, compute = read + slower * small[0], compute + slower * small[1]
    beyond = on.beyond_s(compute, read + unpack + kv)
    kernels, by_experts = on.kernels_s(group, routed)
    calls = np.where(routed, hit * hardware.fixed_time_per_expert_s, 0.0) if some else 0.0
    added = "routed_kernels" if on.counts_kernels else "routed_layer_factor"

    def ledger() -> dict[str, Number]:
        return on.memory_ledger(read, kv, compute, beyond, small, experts_s) | {
            "reductions_per_layer": by_steps,
            "network_efficiency": -_network_s(hardware, reductions - sync, within_s, once_s),
            "fixed_time_per_layer": kernels,
            added: by_experts,
            "routed_weight_factor": experts_s,
            "fixed_time_per_expert": calls,
            "link.latency": on.crossing * sync,
        }

    return _Part(
        read + unpack, kv, beyond, reductions, kernels + calls, ledger,
        lambda: ([on.shown(compute, read + unpack + kv), cut_gains], on.small_switches(group)),
    )  # fmt: skip


def _network_s(hardware: Hardware, payload: Number, within: Number, once: Number) -> Number:
    """The part of the payloads' time that goes with `network_efficiency`."""
    if np.all(np.isnan(hardware.network_efficiency)):
        return 0.0 * payload
    return payload * within / np.maximum(once, 1e-30)


def _whole_experts(
    on: NodeGroup, group: LayerGroup, hit: Number, once_s: Number, by_steps: Number
) -> tuple[Number, Number]:
    """Seconds that experts which stay whole add to reading, and all-reduces with them.

    The busiest node reads its own, and tokens go out and come back in place of one of the
    all-reduces. A node sends (g - 1) / g of the k copies of its g-th of the tokens out, and as
    much comes back: k / g of what that all-reduce carries.
    """
    g, bits = on.nodes, on.traffic.layer_bits(group)[1]
    unpack = unpack_s_per_weight(on.hardware, bits, on.traffic.weights_only)
    byte_s = on.hardware.routed_weight_factor / on.routed_bytes_per_s
    expert_s = group.routed_params / group.experts * (bits / 8.0 * byte_s + unpack)
    share = np.minimum(group.experts_per_token / g, 1.0)
    extra_s = (busiest_experts(hit, g) - hit / g) * expert_s
    return extra_s, by_steps + on.latency_s + (share - 1.0) * once_s


def _head(on: NodeGroup, shape: ModelShape) -> _Part:
    """Seconds of the LM head, whose weights are read whole."""
    params, bits = shape.head_params, on.traffic.table_bits(shape)[1]
    read, unpack = (of(params * on.copies, bits) for of in (on.read_s, on.unpack_s))
    compute = on.compute_s(2.0 * on.own_tokens * params, bits)
    beyond = on.beyond_s(compute, read + unpack)
    return _Part(
        read + unpack, 0.0, beyond, 0.0, 0.0,
        lambda: on.memory_ledger(read, 0.0, compute, beyond), no_switches,
    )  # fmt: skip


def temporal_time(hardware: Hardware, workload: Workload, mapping: Placement) -> TokenTime:
    """Time of one decode pass by term; arguments as `archinfer.physics.decode.decode_time`."""
    shape, drafts = workload.shape, workload.traffic.draft_tokens
    on = node_group(hardware, workload, mapping)
    layers = [
        (group.count, _layer(on, group, shape.hidden_size, mapping)) for group in shape.groups
    ]
    head = _head(on, shape)
    links, latency = links_s(hardware, mapping.stages(shape.layers), on.tokens * shape.hidden_size)
    each_token_s, sequences_s = (
        hardware.fixed_time_per_token_s,
        hardware.fixed_time_per_sequence_s * np.sqrt(on.batch),
    )
    per_token = each_token_s + sequences_s
    prompts, prompts_ledger = others_prompts(on, workload)
    # A drafted token is one more layer of the last kind, one more head and its sampling, one after
    # the other (multi-token-prediction modules); the engine's loop runs once a pass.
    last = layers[-1][1]
    draft = drafts * (last.total + head.total + sequences_s) if np.any(drafts) else 0.0

    def over(name: str) -> Number:
        return sum((count * getattr(one, name) for count, one in layers), start=0.0)

    def ledger() -> dict[str, Number]:
        sums = dict.fromkeys(PROMPT_CONSTANTS, 0.0 * each_token_s) | {
            "fixed_time_per_token": each_token_s + 0.0 * drafts,
            "fixed_time_per_sequence": sequences_s * (1.0 + drafts),
            "link.latency": latency,
        }
        for constant, seconds in prompts_ledger().items():
            sums[constant] = sums.get(constant, 0.0) + seconds
        for count, part in (*layers, (drafts, last), (1.0 + drafts, head)):
            for constant, seconds in part.ledger().items():
                sums[constant] = sums.get(constant, 0.0) + count * seconds
        return sums

    def switches() -> tuple[list[Number], list[Number]]:
        each = [part.switches() for _, part in layers]
        return [s for moving, _ in each for s in moving], [s for _, still in each for s in still]

    return TokenTime(
        over("weights"), over("kv"), over("compute"), over("reductions"),
        over("fixed") + per_token, links, head.total, 0.0, draft, prompts, np.nan, ledger,
        switches,
    )  # fmt: skip


def _kv_bytes(on: NodeGroup, group: LayerGroup, mapping: Placement) -> Number:
    """Bytes of cache and state that the busiest node of a tensor-parallel group moves.

    A state is read and written whole; of a cache one token is written, which is left out. Where
    each node has users of its own it moves theirs.
    """

    def share(shards: Number) -> Number:
        split = node_share(shards, on.nodes)
        own = np.maximum(1.0 / np.asarray(on.nodes), 1.0 / on.batch)
        return np.where(mapping.data_parallel, own, split)

    read: Number = 0.0
    for cache in group.caches:
        whole = on.batch * cache_read_bytes(cache, on.traffic)
        read = read + whole * share(cache.shards)
    state_bytes = 2.0 * on.batch * group.state_bytes  # read, and written back
    return read + state_bytes * share(group.state_shards)
