"""What a cost model answers (`TokenTime`), and the terms that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, TypeAlias

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import Number
from archinfer.physics.workload import ACTIVATION_BYTES
from archinfer.record import As, Record

TERMS = (
    "weights", "kv", "compute", "reductions", "fixed", "links", "head", "queue", "draft", "prompts",
)  # fmt: skip

Seconds: TypeAlias = Annotated[Number, As(float | None)]

Ledger: TypeAlias = Callable[[], Mapping[str, Number]]
"""Seconds by constant, added up when they are asked for."""

Switches: TypeAlias = Callable[[], tuple[Sequence[Number], Sequence[Number]]]
"""Numbers whose sign says which of two branches a ledger follows: it jumps where one is 0. First
those that move with the bytes of experts, each of them monotone, then those that do not."""


_LEAST = 1e-300


def contrast(one: Number, other: Number) -> Number:
    """(a - b) / (a + b) of two numbers that are not negative: which is the larger; 0 of zeros."""
    return np.subtract(one, other) / np.maximum(np.add(one, other), _LEAST)


def no_switches() -> tuple[Sequence[Number], Sequence[Number]]:
    """Of a ledger that is not looked at, or does not jump."""
    return (), ()


@dataclass(frozen=True)
class TokenTime(Record):
    """Seconds of one decode pass by term; null where the model does not fit."""

    KEYS = (*TERMS, "total")

    weights: Seconds
    """Reading (and multiplying) the weights of the layers."""
    kv: Seconds
    """Reading the KV cache and multiplying with it; recurrent state likewise, and writing it where
    reads and writes share the bandwidth (temporal)."""
    compute: Seconds
    """What arithmetic takes beyond the memory time of the same layer."""
    reductions: Seconds
    """All-reduces among the cores or nodes that share a layer."""
    fixed: Seconds
    """Time of a layer that depends on neither bytes nor region."""
    links: Seconds
    """Node to node."""
    head: Seconds
    """LM head and choice of the token."""
    queue: Seconds
    """Waiting for the other users' tokens (a pipeline with more users than stages)."""
    draft: Seconds
    """Drafting tokens for speculative decoding."""
    prompts: Seconds
    """Waiting while the prompts of other users are read (temporal)."""
    side: Number
    """Side in cores of a layer's region (spatial; the first group's), else nan."""
    ledger: Ledger = field(repr=False, compare=False)
    """dT / d log(constant) by constant, as the terms left it."""
    switches: Switches = field(repr=False, compare=False)
    """Where the ledger jumps, though the time does not."""

    @cached_property
    def total(self) -> Seconds:
        """Seconds of one pass."""
        terms = (getattr(self, term) for term in TERMS)
        # Adding a zero to an array costs as much as adding another array.
        return sum((t for t in terms if not (isinstance(t, float) and t == 0.0)), start=0.0)

    @cached_property
    def scaling(self) -> Mapping[str, Number]:
        """dT / d log(constant) in seconds for each uncertain constant of the profile.

        The region's side does not contribute, since it stands at the minimum. On a wafer a queue
        and drafts are taken to scale as the rest of the pass.
        """
        return self.ledger()


def links_s(hardware: Hardware, stages: Number, numbers: Number) -> tuple[Number, Number]:
    """Crossings from node to node, and the part of them that is latency.

    Pipeline stages form a ring: the sampled token goes back to the stage that embeds it.
    """
    crossings = np.where(np.asarray(stages) > 1, stages, 0.0)
    latency = crossings * hardware.link_latency_s
    payload_bytes = numbers * ACTIVATION_BYTES
    return latency + crossings * payload_bytes / hardware.link_bandwidth_bytes_per_s, latency
