"""What fits: bytes that a deployment stores against the memory of its nodes, and the fewest nodes.

Bytes are spread evenly over the layers, layers over stages, and a stage over the nodes that share
it; a cache splits by whole heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.mapping import Placement, group_sizes
from archinfer.record import Record

RESERVE_LOG_SD = 1.0
"""Of the logarithm of the reserve: engines report 0.6 GB (vLLM pull request 14447), 3.3 and 5.2 GB
(10511, one and two GPUs), and about 8 GB (issue 21348) on one GPU."""


def node_share(shards: Number, group: Number) -> Number:
    """Part of a cache that the fullest of `group` nodes holds and reads: ceil(s / g) / s.

    Tensor parallelism splits a cache by heads, and heads are whole: g nodes share s heads, and
    where there are more nodes than heads each head has copies. A latent cache (s = 1) is on
    every node; a cache without heads (s = inf) splits evenly.

    Args:
        shards: whole number of ways in which the cache can be split, or inf.
        group: nodes that share a layer.
    """
    with np.errstate(invalid="ignore"):
        heads = np.ceil(np.asarray(shards, dtype=float) / group) / shards
    return np.where(np.isinf(shards), 1.0 / np.asarray(group, dtype=float), heads)


@dataclass(frozen=True, slots=True)
class CacheBytes:
    """KV cache or state of all layers and sequences that splits in one way."""

    whole_bytes: Number
    """Its bytes, each counted once."""
    shards: Number
    """Ways in which tensor parallelism can split it."""


@dataclass(frozen=True, slots=True)
class Memory(Record):
    """Bytes that a deployment stores over all nodes, by what they hold."""

    KEYS = ("weights", "kv", "other", "total")

    weights: Number
    """Bytes of all parameters."""
    caches: tuple[CacheBytes, ...]
    """KV cache and recurrent state by the ways in which they split"""
    other: Number
    """activations in flight"""
    layers: Number
    """layers, over which all of it is spread evenly"""
    shared: Number
    """bytes of the parameters that every token reads, a part of `weights`"""
    users: Number
    """whose caches these are"""
    heads: int = 0
    """of the model, as `ModelShape.heads`"""

    @property
    def kv(self) -> Number:
        """KV cache and recurrent state, each byte once"""
        return sum((c.whole_bytes for c in self.caches), start=0.0)

    @property
    def total(self) -> Number:
        """each byte once"""
        return self.weights + self.kv + self.other

    @property
    def routed(self) -> NDArray[np.bool_]:
        """Whether there are routed experts."""
        return np.asarray(self.shared) < np.asarray(self.weights)

    @property
    def without_weights(self) -> Memory:
        """The same of a model without parameters."""
        return replace(self, weights=0.0, shared=0.0)

    def kv_held(self, mapping: Placement) -> Number:
        """KV cache and state that groups of nodes hold, copies included.

        Every node counts as much as the fullest one of its group: g * `node_share` of each cache;
        where each node has users of its own, of the users.
        """
        group, own = mapping.tensor_parallel, mapping.data_parallel

        def share(shards: Number) -> Number:
            split = node_share(shards, group)
            return split if own is False else np.where(own, node_share(self.users, group), split)

        return sum((c.whole_bytes * (group * share(c.shards)) for c in self.caches), start=0.0)

    def more_weights(self, mapping: Placement) -> Number:
        """Bytes of further copies of the parameters that every token reads."""
        return (mapping.copies - 1.0) * self.shared

    def held(self, mapping: Placement) -> Number:
        """Everything, with the copies that the groups of a mapping hold."""
        return self.weights + self.more_weights(mapping) + self.kv_held(mapping) + self.other


def group_bytes(hardware: Hardware, memory: Memory, mapping: Placement) -> Number:
    """Usable memory of one group for the whole model if every stage were as full as the fullest.

    Bytes are spread evenly over the layers, and a stage holds `layers_per_stage` whole ones:
    g * usable * L / m.
    """
    usable_bytes = hardware.usable_bytes * mapping.tensor_parallel
    return usable_bytes * memory.layers / mapping.layers_per_stage


def memory_fraction(hardware: Hardware, memory: Memory, mapping: Placement) -> Number:
    """Share of the fullest node's usable memory that is taken (above 1: does not fit).

    What is held, with the copies that a group of g holds, over `group_bytes`.
    """
    return memory.held(mapping) / group_bytes(hardware, memory, mapping)


def fit_chance(hardware: Hardware, memory: Memory, mapping: Placement) -> FloatArray:
    """Probability that a model fits, the reserve being lognormal about the profile's figure.

    NaN: the profile states no reserve, so nothing is known of its spread.
    """
    group = np.asarray(mapping.tensor_parallel * memory.layers / mapping.layers_per_stage)
    most = hardware.memory_capacity_bytes * hardware.usable_fraction
    room = np.asarray(most - memory.held(mapping) / group, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.log(np.maximum(room, 0.0) / hardware.reserve_bytes) / RESERVE_LOG_SD
    chance = np.vectorize(NormalDist().cdf, otypes=[float])(np.where(np.isnan(off), 0.0, off))
    return np.where(np.asarray(hardware.reserve_bytes) > 0.0, chance, np.nan)


def room_bytes(hardware: Hardware, memory: Memory, mapping: Placement) -> Number:
    """What `group_bytes` leaves for weights, each once, beside cache, activations and further
    copies (may be negative)."""
    taken_bytes = memory.kv_held(mapping) + memory.other + memory.more_weights(mapping)
    return group_bytes(hardware, memory, mapping) - taken_bytes


def fewest_nodes(hardware: Hardware, stored: Memory) -> int | None:
    """Fewest nodes whose usable memory holds one model; None where no number does.

    Layers are whole, so a stage holds ceil(L / stages) of them; on temporal hardware the nodes
    of one tensor-parallel group share each layer.
    """
    nodes, _ = fewest(hardware, stored)
    return int(nodes) if np.isfinite(nodes) else None


def fewest(hardware: Hardware, stored: Memory) -> tuple[FloatArray, Placement]:
    """Fewest nodes that hold each model, and its layers spread evenly over them.

    Args:
        hardware: profile.
        stored: numbers or arrays that broadcast together.

    Returns:
        Nodes (inf where no number is enough; there the mapping has one layer a stage), mapping.
    """
    layers = np.asarray(stored.layers, dtype=float)
    kinds = [(group, False) for group in group_sizes(hardware, heads=stored.heads)]
    if np.any(stored.routed) and np.any(np.asarray(stored.users) > 1.0):
        # Nodes with users of their own hold no copies of caches.
        kinds = sorted(kinds + [(group, True) for group in group_sizes(hardware)[1:]])
    nodes, best = np.asarray(np.inf), Placement(np.ones(()), np.full((), kinds[-1][0]))
    for group, own in kinds:
        if group >= np.max(nodes):
            break

        def on(held: Number, group: float = group, own: bool = own) -> Placement:
            return Placement(held, group, None, own)

        one = memory_fraction(hardware, stored, on(1.0))
        held = np.clip(np.floor(1.0 / np.asarray(one, dtype=float) * (1.0 + 1e-12)), 1.0, layers)
        # Rounding may have let one layer too many in.
        over = (memory_fraction(hardware, stored, on(held)) > 1.0) & (held > 1.0)
        tried = on(np.where(over, held - 1.0, held))
        possible = (np.asarray(one) <= 1.0) & (stored.routed | (not own))
        used = np.where(possible, tried.nodes(layers), np.inf)
        better = used < nodes
        even = replace(tried, layers_per_stage=np.ceil(layers / tried.stages(layers)))
        best = best.where(~better, even)
        nodes = np.where(better, used, nodes)
    if hardware.alone:
        best = replace(best, layers_per_stage=np.broadcast_to(layers, np.shape(nodes)))
        nodes = np.where(nodes > 1.0, np.inf, nodes)
    return nodes, best
