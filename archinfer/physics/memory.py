"""What fits: bytes that a deployment stores against the memory of its nodes, and the fewest nodes.

Bytes are spread evenly over the layers, layers over stages, and a stage over the nodes that share
it; a cache splits by whole heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

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

    @property
    def kv(self) -> Number:
        """KV cache and recurrent state, each byte once"""
        return sum((c.whole_bytes for c in self.caches), start=0.0)

    @property
    def total(self) -> Number:
        """each byte once"""
        return self.weights + self.kv + self.other

    def kv_held(self, group: Number) -> Number:
        """KV cache and state that groups of `group` nodes hold, copies included.

        Every node counts as much as the fullest one of its group: g * `node_share` of each cache.
        """
        return sum(
            (c.whole_bytes * (group * node_share(c.shards, group)) for c in self.caches), start=0.0
        )

    def held(self, group: Number) -> Number:
        """Everything, with the copies of the cache that groups of `group` nodes hold."""
        return self.weights + self.kv_held(group) + self.other


def group_bytes(hardware: Hardware, memory: Memory, mapping: Placement) -> Number:
    """Usable memory of one group for the whole model if every stage were as full as the fullest.

    Bytes are spread evenly over the layers, and a stage holds `layers_per_stage` whole ones:
    g * usable * L / m.
    """
    usable_bytes = hardware.usable_bytes * mapping.tensor_parallel
    return usable_bytes * memory.layers / mapping.layers_per_stage


def memory_fraction(hardware: Hardware, memory: Memory, mapping: Placement) -> Number:
    """Share of the fullest node's usable memory that is taken (above 1: does not fit).

    What is held, with the copies of the cache that a group of g holds, over `group_bytes`.
    """
    return memory.held(mapping.tensor_parallel) / group_bytes(hardware, memory, mapping)


def fit_chance(hardware: Hardware, memory: Memory, mapping: Placement) -> FloatArray:
    """Probability that a model fits, the reserve being lognormal about the profile's figure.

    NaN: the profile states no reserve, so nothing is known of its spread.
    """
    group = np.asarray(mapping.tensor_parallel * memory.layers / mapping.layers_per_stage)
    most = hardware.memory_capacity_bytes * hardware.usable_fraction
    room = np.asarray(most - memory.held(mapping.tensor_parallel) / group, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.log(np.maximum(room, 0.0) / hardware.reserve_bytes) / RESERVE_LOG_SD
    chance = np.vectorize(NormalDist().cdf, otypes=[float])(np.where(np.isnan(off), 0.0, off))
    return np.where(np.asarray(hardware.reserve_bytes) > 0.0, chance, np.nan)


def room_bytes(hardware: Hardware, memory: Memory, mapping: Placement) -> Number:
    """What `group_bytes` leaves for weights beside cache and activations (may be negative)."""
    taken_bytes = memory.kv_held(mapping.tensor_parallel) + memory.other
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
    groups = group_sizes(hardware)
    nodes = np.asarray(np.inf)
    per_stage, tensor_parallel = np.ones(()), np.full((), groups[-1])
    for group in groups:
        if group >= np.max(nodes):
            break
        one = memory_fraction(hardware, stored, Placement(1.0, group))
        held = np.clip(np.floor(1.0 / np.asarray(one, dtype=float) * (1.0 + 1e-12)), 1.0, layers)
        taken = memory_fraction(hardware, stored, Placement(held, group))
        # Rounding may have let one layer too many in.
        held = np.where((taken > 1.0) & (held > 1.0), held - 1.0, held)
        used = np.where(np.asarray(one) <= 1.0, Placement(held, group).nodes(layers), np.inf)
        better = used < nodes
        even = np.ceil(layers / Placement(held, group).stages(layers))
        per_stage = np.where(better, even, per_stage)
        tensor_parallel = np.where(better, group, tensor_parallel)
        nodes = np.where(better, used, nodes)
    if hardware.alone:
        per_stage = np.broadcast_to(layers, np.shape(nodes))
        nodes = np.where(nodes > 1.0, np.inf, nodes)
    return nodes, Placement(per_stage, tensor_parallel)
