"""The discrete part of a region: layers, mapping, weight format, mixture or dense."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.errors import TooWideError
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray
from archinfer.physics.economy import knows_activity, node_dollars_per_hour
from archinfer.physics.mapping import Placement, group_sizes, mappings
from archinfer.solver.constraints import Candidate, constraints
from archinfer.solver.question import Question

LAYERS_MAX = 512
"""Deepest model searched unless the user asks for more: four times the deepest in the
catalogue."""

SLICES_MOST = 1_500_000
"""Most slices of one question: beyond them its arrays take more than a gigabyte."""

Index: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Slices:
    """Arrays of one length: the discrete part of each slice."""

    layers: FloatArray
    layers_per_stage: FloatArray
    tensor_parallel: FloatArray
    weights: Index
    """Position of the weight format in the question's list."""
    weight_bits: FloatArray
    data_parallel: NDArray[np.bool_]
    """As in `Placement`."""
    dense: NDArray[np.bool_]
    """Whether its models are dense: then N = A, and there is one slice beside that of mixtures."""

    def take(self, index: Index) -> Slices:
        """The slices at `index`."""
        return Slices(*(getattr(self, f.name)[index] for f in fields(self)))

    def candidate(self, question: Question, total: FloatArray, active: FloatArray) -> Candidate:
        """One model in each slice."""
        only = np.array([weight_format(w).weights_only for w in question.weights])
        return Candidate.of(
            question,
            total,
            active,
            self.layers,
            self.mapping,
            question.traffic(self.weight_bits, only[self.weights] if only.any() else False),
            dense=self.dense if self.dense.any() else False,
            form=self.weights,
        )

    @property
    def mapping(self) -> Placement:
        """The mapping of each slice."""
        own = self.data_parallel if self.data_parallel.any() else False
        return Placement(self.layers_per_stage, self.tensor_parallel, None, own)

    @property
    def nodes(self) -> FloatArray:
        """Nodes that each slice uses."""
        return np.asarray(self.mapping.nodes(self.layers), dtype=float)

    def __len__(self) -> int:
        return len(self.layers)


def placements(
    question: Question, layers: FloatArray, heads: int = 0, routed: bool = True
) -> tuple[FloatArray, Placement]:
    """Every way to place whole layers on the question's nodes, or the one that it forces.

    Args:
        question: what is asked.
        layers: layer counts.
        heads: as of `group_sizes`.
        routed: whether there are routed experts, which nodes with users of their own share.

    Returns:
        As `mappings`; depths with fewer layers than the forced stages are left out.
    """
    layout = question.layout
    if layout is None:
        own = routed and question.concurrency > 1
        return mappings(question.hardware, layers, question.nodes[1], heads, own)
    layers = layers[(layers >= layout.stages) & (layout.nodes <= question.nodes[1])]
    return layers, layout.mapping(layers).take(slice(None))


def slices_of(question: Question, layers: FloatArray | None = None) -> Slices:
    """Every slice that a question allows, power and price included.

    Args:
        question: what is asked.
        layers: layer counts to look at; None: those the question allows, up to LAYERS_MAX.
    """
    allowed = _layer_range(question)
    if layers is not None:
        unlimited = question.layers[1] == np.inf and question.habits is None
        within = (layers >= allowed[0]) & ((layers <= allowed[-1]) | unlimited)
        allowed = layers[within] if len(allowed) else allowed
    return _affordable(question, _every(question, allowed))


def _layer_range(question: Question) -> FloatArray:
    low, high = question.layers
    if "layers asked" in question.disabled:
        low, high = 0.0, np.inf
    if question.habits is not None and "depth" not in question.disabled:
        low, high = max(low, question.habits.layers[0]), min(high, question.habits.layers[1])
    low = max(1.0, np.ceil(low))
    high = np.floor(high) if high < np.inf else max(float(LAYERS_MAX), low)
    return np.arange(low, high + 1.0)


def _every(question: Question, layers: FloatArray) -> Slices:
    if not len(layers):
        none = np.empty(0)
        index = np.empty(0, dtype=np.intp)
        flags = np.empty(0, dtype=bool)
        return Slices(none, none, none, index, none, flags, flags)
    bits = np.array([weight_format(w).bits for w in question.weights])
    kinds = np.array([False, True] if _may_be_dense(question) else [False])
    formats = len(bits)
    copies = formats * len(kinds)
    _check_size(question, layers, copies)
    layers, mapping = placements(question, layers)
    n = len(layers)
    own = np.tile(np.broadcast_to(mapping.data_parallel, n), copies)
    dense = np.repeat(kinds, formats * n)
    every = Slices(
        np.tile(layers, copies),
        np.tile(mapping.layers_per_stage, copies),
        np.tile(mapping.tensor_parallel, copies),
        np.tile(np.repeat(np.arange(formats), n), len(kinds)),
        np.tile(np.repeat(bits, n), len(kinds)),
        own,
        dense,
    )
    # A dense model has no experts to share.
    return every.take(np.flatnonzero(~(own & dense))) if own.any() else every


def _check_size(question: Question, layers: FloatArray, copies: int) -> None:
    """Refuse more slices than can be held: L layers have at most 2 sqrt(L) depths of a stage."""
    nodes = question.nodes[1]
    kinds = 1 if question.concurrency == 1 else 2
    groups = kinds * len(group_sizes(question.hardware, nodes))
    ways = copies * (groups if question.layout is None else 1)
    count = ways * float(np.minimum(2.0 * np.sqrt(layers), nodes).sum())
    if count > SLICES_MOST:
        raise TooWideError(
            f"layers: {layers[0]:,.0f} to {layers[-1]:,.0f} on up to {nodes:,} "
            f"{question.hardware.node}s are some {count:,.0f} ways to place a model, more than the "
            f"{SLICES_MOST:,} that are looked at; expected fewer layers, nodes or weights"
        )


def _may_be_dense(question: Question) -> bool:
    habits = question.habits
    if habits is not None and "sparsity" not in question.disabled and habits.sparsity[0] > 1.0:
        return False
    totals, actives = (
        (0.0, np.inf) if f"{name} asked" in question.disabled else getattr(question, name)
        for name in ("total", "active")
    )
    return bool(totals[0] <= actives[1] and actives[0] <= totals[1])


def _affordable(question: Question, slices: Slices) -> Slices:
    """Without the slices whose nodes break a limit on power or price, busy or idle."""
    hardware, names = question.hardware, {c.name for c in constraints(question)}
    least_w = hardware.idle_power_w if knows_activity(hardware) else hardware.power_w
    keep = np.ones(len(slices), dtype=bool)
    for name, limit, each in (
        ("power", question.power_w, least_w),
        ("price", question.price_per_hour, node_dollars_per_hour(hardware, least_w)),
    ):
        if name in names and limit is not None:
            keep &= slices.nodes * each <= limit
    return slices.take(np.flatnonzero(keep))
