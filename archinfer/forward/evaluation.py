"""The one forward evaluation: models on mappings, their time, memory, nodes and speed.

`predict`, `compare`, `pareto`, checks, the solver's candidates and the cases of published speeds
are all such; whatever is asked of one is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.decode import decode_time, log_sd
from archinfer.physics.deployment import Deployment
from archinfer.physics.economy import node_dollars_per_hour, node_power_w
from archinfer.physics.mapping import Placement, mappings
from archinfer.physics.memory import Memory, memory_fraction
from archinfer.physics.speed import served_speed, speed_range
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload
from archinfer.record import Quantiles


def every_mapping(hardware: Hardware, workload: Workload, nodes: int) -> Placement:
    """The ways to place one model on at most `nodes` nodes that software offers.

    Nodes with users of their own (data-parallel attention) where there are routed experts to
    share and several users.
    """
    shape = workload.shape
    several = bool(np.any(np.asarray(workload.traffic.concurrency) > 1.0))
    layers = np.array([float(shape.layers)])
    own = several and shape.routed
    return mappings(hardware, layers, nodes, shape.heads, own)[1]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Models on mappings of one machine; numbers, or arrays that broadcast together."""

    hardware: Hardware
    workload: Workload
    mapping: Placement

    @classmethod
    def everywhere(cls, hardware: Hardware, workload: Workload, nodes: int) -> Evaluation:
        """One model on every mapping of at most `nodes` nodes; arrays of shape (k,)."""
        return cls(hardware, workload, every_mapping(hardware, workload, nodes))

    @cached_property
    def time(self) -> TokenTime:
        """Of a decode pass."""
        return decode_time(self.hardware, self.workload, self.mapping)

    @property
    def memory(self) -> Memory:
        """Bytes stored over all nodes."""
        return self.workload.memory

    @cached_property
    def memory_fraction(self) -> Number:
        """Of the fullest node's usable memory (above 1: does not fit)."""
        return memory_fraction(self.hardware, self.memory, self.mapping)

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the memory holds it."""
        return np.asarray(self.memory_fraction) <= 1.0

    @property
    def nodes(self) -> Number:
        """Nodes in use."""
        return self.mapping.nodes(self.workload.shape.layers)

    @cached_property
    def node_power_w(self) -> FloatArray:
        """Mean power of one node."""
        return node_power_w(self.hardware, self.workload, self.mapping, self.time.total)

    @property
    def power_w(self) -> Number:
        """Mean power of the nodes in use."""
        return self.nodes * self.node_power_w

    @property
    def dollars_per_hour(self) -> Number:
        """Of the nodes in use."""
        return self.nodes * node_dollars_per_hour(self.hardware, self.node_power_w)

    @cached_property
    def log_sd(self) -> Number:
        """Standard deviation of the logarithm of the time of a pass."""
        return log_sd(self.hardware, self.time)

    def speed(self, accepted: tuple[Number, Number]) -> Quantiles:
        """Tokens/s of one user at 5, 50 and 95 % for a range of tokens gained a pass."""
        return Quantiles(*speed_range(self.hardware, self.time, *accepted))

    @cached_property
    def passes_s(self) -> FloatArray:
        """Seconds of a pass on each mapping; inf where the memory does not hold it."""
        return np.where(self.fits, np.asarray(self.time.total, dtype=float), np.inf)

    def served_s(self, deployment: Deployment) -> FloatArray:
        """Seconds of an output token of one user on each mapping, in the middle of what is not
        known of speculation and software; inf where the memory does not hold it."""
        served = served_speed(
            self.hardware, self.workload, self.mapping, self.time, deployment, (0.5,)
        )
        return np.where(self.fits, 1.0 / np.asarray(served[0], dtype=float), np.inf)

    def best(self, deployment: Deployment) -> Placement:
        """The mapping that fits on which a user is served fastest, of equally fast ones that with
        the fewest nodes; the least too full one where none fits."""
        if not self.fits.any():
            return self.mapping.one(int(np.argmin(np.asarray(self.memory_fraction))))
        # Rounded, since equal ones differ in the last digits.
        seconds = np.round(np.log(self.served_s(deployment)), 9)
        return self.mapping.one(int(np.lexsort((np.asarray(self.nodes), seconds))[0]))

    def on(self, mapping: Placement) -> Evaluation:
        """The same on other mappings."""
        return Evaluation(self.hardware, self.workload, mapping)
