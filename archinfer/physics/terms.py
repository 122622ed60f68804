"""What a cost model answers (`TokenTime`), and the terms that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archinfer.models.shape import Number
from archinfer.physics.mapping import Placement
from archinfer.physics.workload import ACTIVATION_BYTES, Memory

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware


@dataclass(frozen=True, slots=True)
class TokenTime:
    """Seconds of one decode pass by term; `total` is their sum.

    Attributes:
        weights: reading (and multiplying) the weights of the layers.
        kv: reading the KV cache and multiplying with it; recurrent state likewise, and writing it
            where reads and writes share the bandwidth (temporal).
        compute: what arithmetic takes beyond the memory time of the same layer.
        reductions: all-reduces among the cores or nodes that share a layer.
        fixed: time of a layer that depends on neither bytes nor region.
        links: node to node.
        head: LM head and choice of the token.
        queue: waiting for the other users' tokens (a pipeline with more users than stages).
        draft: drafting tokens for speculative decoding.
        side: side in cores of a layer's region (spatial; the first group's), else nan.
        scaling: dT / d log(constant) in seconds for each uncertain constant of the profile;
            the region's side does not contribute, since it stands at the minimum. On a wafer a
            queue and drafts are taken to scale as the rest of the pass.
    """

    weights: Number
    kv: Number
    compute: Number
    reductions: Number
    fixed: Number
    links: Number
    head: Number
    queue: Number
    draft: Number
    side: Number
    scaling: Mapping[str, Number]

    @property
    def total(self) -> Number:
        """Seconds of one pass."""
        return sum((getattr(self, term) for term in TERMS), start=0.0)


TERMS = ("weights", "kv", "compute", "reductions", "fixed", "links", "head", "queue", "draft")


def memory_fraction(hardware: Hardware, memory: Memory, mapping: Placement) -> Number:
    """Share of the fullest node's usable memory that is taken (above 1: does not fit).

    Bytes are spread evenly over the layers, and a stage holds `layers_per_stage` whole ones:
    m (held / L) / (g * usable), with the copies of the cache that a group of g holds.
    """
    held = memory.held(mapping.tensor_parallel)
    stage_bytes = held / memory.layers * mapping.layers_per_stage
    return stage_bytes / (mapping.tensor_parallel * hardware.usable_bytes)


def links_s(hardware: Hardware, stages: Number, numbers: Number) -> tuple[Number, Number]:
    """Crossings from node to node, and the part of them that is latency.

    Pipeline stages form a ring: the sampled token goes back to the stage that embeds it.
    """
    crossings = np.where(np.asarray(stages) > 1, stages, 0.0)
    latency = crossings * hardware.link_latency_s
    payload_bytes = numbers * ACTIVATION_BYTES
    return latency + crossings * payload_bytes / hardware.link_bandwidth_bytes_per_s, latency
