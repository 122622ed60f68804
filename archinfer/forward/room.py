"""How many users a deployment holds, and how long a context: exact whole numbers.

Memory grows with users and with context, so the largest number that fits is the end of a monotone
predicate on whole numbers: the very one that decides whether a model fits. One more does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import WHOLE_MOST
from archinfer.forward.evaluation import every_mapping
from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import memory_fraction
from archinfer.physics.workload import Traffic, Workload
from archinfer.record import Record

Predicate = Callable[[FloatArray], NDArray[np.bool_]]


def most(holds: Predicate, shape: tuple[int, ...], high: float = WHOLE_MOST) -> FloatArray:
    """Largest whole number up to `high` at which each of `shape` holds; 0: not even 1.

    Args:
        holds: from numbers of that shape, true up to some number and false beyond it.
        shape: of what is asked.
        high: largest number that is asked for.
    """
    low, beyond = np.zeros(shape), np.full(shape, high + 1.0)
    while np.any(beyond - low > 1.0):
        # Small answers are usual: doubling until one fails keeps them quick.
        middle = np.floor(np.where(beyond > high, np.maximum(2.0 * low, 1.0), (low + beyond) / 2.0))
        middle = np.clip(middle, np.minimum(low + 1.0, high), np.maximum(beyond - 1.0, 1.0))
        held = np.asarray(holds(middle))
        low, beyond = np.where(held, middle, low), np.where(held, beyond, middle)
        beyond = np.where(low >= high, low + 1.0, beyond)
    return low


def _held(
    hardware: Hardware,
    workload: Workload,
    mapping: Placement,
    traffic: Callable[[FloatArray], Traffic],
) -> FloatArray:
    """The largest number whose traffic fits on each mapping."""

    def holds(number: FloatArray) -> NDArray[np.bool_]:
        memory = Workload(workload.shape, traffic(number)).memory
        return np.asarray(memory_fraction(hardware, memory, mapping)) <= 1.0

    return most(holds, np.broadcast(mapping.layers_per_stage, mapping.tensor_parallel).shape)


def users_held(hardware: Hardware, workload: Workload, mapping: Placement) -> FloatArray:
    """Most users whose caches fit on each mapping at the workload's context; 0: none."""
    traffic = workload.traffic
    return _held(hardware, workload, mapping, lambda n: replace(traffic, concurrency=n))


def context_held(hardware: Hardware, workload: Workload, mapping: Placement) -> FloatArray:
    """Longest context in tokens that fits on each mapping for the workload's users.

    0: none; `WHOLE_MOST`: memory sets no limit (windows and recurrent states do not grow).
    """
    traffic = replace(workload.traffic, held_context_tokens=None)
    return _held(hardware, workload, mapping, lambda n: replace(traffic, context_tokens=n))


@dataclass(frozen=True, slots=True)
class Room(Record):
    """What the memory of the nodes that are there has room for, on the best mapping for it."""

    users: int
    """most users that fit at this context"""
    context_tokens: int | None
    """longest context that fits for these users; null: memory sets no limit"""


def room(hardware: Hardware, workload: Workload, nodes: int, forced: Placement | None) -> Room:
    """Users and context that fit on at most `nodes` nodes.

    Args:
        hardware, workload: as asked.
        nodes: nodes that are there.
        forced: the only mapping that is allowed; None: any.
    """
    mapping = forced
    if mapping is None:
        mapping = every_mapping(hardware, workload, nodes)
    users = float(np.max(users_held(hardware, workload, mapping)))
    tokens = float(np.max(context_held(hardware, workload, mapping)))
    return Room(int(users), int(tokens) if tokens < WHOLE_MOST else None)
