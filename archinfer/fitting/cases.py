"""Observations made ready for the cost model: shape, formats, and the mappings that come into
question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from archinfer.asking import NODES_MOST
from archinfer.fitting.observations import Observation
from archinfer.forward.evaluation import Evaluation
from archinfer.models.formats import weight_format
from archinfer.models.shape import Cache, FloatArray, LayerGroup, ModelShape, Number
from archinfer.physics.mapping import Placement, mappings
from archinfer.physics.memory import fewest_nodes, memory_fraction
from archinfer.physics.workload import Traffic, Workload

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware
    from archinfer.models.architecture import Architecture

ASSUMED_CONTEXT_TOKENS = 1500.0
"""Context where none is published: benchmarks use prompts and answers of about 1,000 tokens
each, so a decode step sees about 1,500."""

NODES_SPREAD = 2.0
"""Where the nodes are not published: from the fewest that fit to this many times as many (spare
memory holds other users' caches), each factor as likely as another. On temporal hardware the
fewest are at least one scale-up domain."""

NARROWER_BITS = (8.0, 4.5)
"""Bits of a weight that are tried, in this order, where the number format is not published and the
one that the weights come in does not fit the published nodes."""

_NODE_CHOICES = 6


@dataclass(frozen=True)
class Case:
    """One observation, ready to be predicted.

    Attributes:
        row: the observation.
        workload: the model as it was run, and what was asked of it.
        mapping: mappings that come into question, arrays of shape (k,).
        nodes: nodes that each uses.
        log_weight: logarithm of the chance of each.
        side: side of the region of every layer, where it is known.
        draft: the model that drafts, where it is known.
        fits: whether the model fits the nodes of the row (a known region need not hold it).
    """

    row: Observation
    workload: Workload
    mapping: Placement
    nodes: FloatArray
    log_weight: FloatArray
    side: float | None
    fits: bool
    draft: Workload | None = None

    @property
    def shape(self) -> ModelShape:
        """The model as it was run."""
        return self.workload.shape

    def draft_time_s(self, hardware: Hardware) -> Number | None:
        """Seconds to draft one token, for each mapping; None where the drafting model is unknown.

        The draft runs on one tensor-parallel group of the nodes, as one stage.

        Args:
            hardware: the profile; its constants may be arrays that broadcast with the mappings.
        """
        if self.draft is None:
            return None
        one = self.draft
        mapping = Placement(one.shape.layers, self.mapping.tensor_parallel)
        return Evaluation(hardware, one, mapping).time.total

    @property
    def served(self) -> bool:
        """Whether it is a configuration of a serving engine: all of it is known."""
        return self.row.prompt_tokens is not None and self.row.nodes is not None

    @property
    def log_speed(self) -> float:
        """Logarithm of the observed tokens per second."""
        return float(np.log(self.row.tokens_per_s))

    @property
    def model_key(self) -> tuple[float, ...]:
        """Equal for equal architectures, whatever their names."""
        s = self.shape
        own = self.side is not None
        return tuple(float(x) for x in (s.total_params, s.active_params, s.layers, own))


def prepare_all(rows: Iterable[Observation], hardware: Hardware) -> list[Case]:
    """`prepare` for each row; each architecture is read once."""
    known: dict[tuple[str, str | None], Architecture] = {}
    cases = []
    for row in rows:
        key = (row.origin, row.architecture)
        if key not in known:
            known[key] = row.architecture_model()
        cases.append(prepare(row, hardware, known[key]))
    return cases


def prepare(row: Observation, hardware: Hardware, architecture: Architecture) -> Case:
    """One case.

    Args:
        row: the observation.
        hardware: its profile, with the constants that decide which mapping is fastest.
        architecture: what the row names.

    Raises:
        FileError: the row gives the side of a region, which this hardware does not have.
    """
    if row.mesh_side is not None and not hardware.spatial:
        raise row.fault(
            "mesh_side",
            f"found {row.mesh_side:g}, expected none: profile {hardware.name!r} is temporal, and "
            "only spatial hardware has regions of cores",
        )
    bits, format_name = _weights(row.weight_bits, architecture, row.weights)
    workload = _as_run(row, architecture, bits, format_name)
    fewest = fewest_nodes(hardware, workload.memory) or NODES_MOST
    if row.weight_bits is None and row.weights is None and row.nodes is not None:
        # Nobody says in which format: not in one that these nodes cannot hold, if another fits.
        for narrower in (b for b in NARROWER_BITS if b < bits and fewest > row.nodes):
            tried = _as_run(row, architecture, narrower, None)
            least = fewest_nodes(hardware, tried.memory) or NODES_MOST
            if least <= row.nodes:
                workload, fewest, bits = tried, least, narrower
                break
    if row.mesh_side is not None:
        # One region a layer on as many wafers as there are: no crossing was measured.
        mapping = Placement(np.array([float(workload.shape.layers)]), np.array([1.0]))
        one = np.ones(1)
        return Case(row, workload, mapping, one, 0.0 * one, row.mesh_side, True)
    if row.prompt_tokens is not None and row.nodes is not None:
        # Of serving engines the mapping is told: one group, cut or whole experts.
        layers, group = np.array([float(workload.shape.layers)]), np.array([float(row.nodes)])
        whole = row.whole_experts if row.nodes > 1 else None
        mapping = Placement(layers, group, whole, row.attention_replicas > 1)
        holds = bool(np.all(memory_fraction(hardware, workload.memory, mapping) <= 1.0))
        return Case(row, workload, mapping, group, np.zeros(1), None, holds)
    if row.nodes is not None:
        asked = np.array([float(row.nodes)])
    else:
        if not hardware.spatial:
            # Nobody serves from a part of a server or rack.
            fewest = max(fewest, int(hardware.scale_up_size))
        asked = np.unique(np.round(np.geomspace(fewest, NODES_SPREAD * fewest, _NODE_CHOICES)))
    shape, most = workload.shape, int(min(asked.max(), NODES_MOST))
    depth = np.array([float(shape.layers)])
    found = Evaluation(hardware, workload, mappings(hardware, depth, most, shape.heads)[1])
    nodes_used = np.asarray(found.nodes)
    chance: dict[int, float] = {}
    fits = True
    for nodes in asked:
        pick, holds = _pick(found, nodes, row.nodes is not None and row.batch is not None)
        fits = fits and holds
        chance[pick] = chance.get(pick, 0.0) + 1.0 / float(nodes)
    index, weight = np.array(list(chance)), np.array(list(chance.values()))
    mapping, log_weight = found.mapping.take(index), np.log(weight / weight.sum())
    return Case(row, workload, mapping, nodes_used[index], log_weight, None, fits, _draft(row))


def _pick(found: Evaluation, nodes: float, one_group: bool) -> tuple[int, bool]:
    """Index of the fastest mapping on so many nodes, and whether it holds the model; where none
    does, of the one that takes the least memory.

    By one pass without drafts: chosen by the served speed, as `Evaluation.best` does, wafers left
    out are predicted neither better nor worse (log score -0.074 a row either way).
    """
    usable = np.flatnonzero(np.asarray(found.nodes) <= nodes)
    if one_group:
        # Speeds measured on so many nodes are of one tensor-parallel group, across servers
        # too (no row says otherwise), even where another mapping would have been faster.
        group = np.asarray(found.mapping.tensor_parallel)
        whole = usable[group[usable] == nodes]
        usable = whole if len(whole) else usable
    holding = usable[found.fits[usable]]
    if len(holding):
        return int(holding[np.argmin(found.passes_s[holding])]), True
    return int(usable[np.argmin(np.asarray(found.memory_fraction)[usable])]), False


def _as_run(
    row: Observation, architecture: Architecture, bits: float, format_name: str | None
) -> Workload:
    """The model with weights of `bits`; embedding and head keep 16 bits at least."""
    shape = architecture.shape(format_name)
    if row.mesh_side is not None:
        shape = multi_head(architecture)
    outside_bits = max(bits, 16.0) if bits >= 4.0 else bits
    if row.weights is not None and format_name is not None:
        outside_bits = architecture.component_bits(format_name)["lm_head"]
    output = row.output_tokens or Traffic().output_tokens
    served = row.prompt_tokens and row.prompt_tokens + output / 2.0
    traffic = Traffic(
        context_tokens=row.context_tokens or served or ASSUMED_CONTEXT_TOKENS,
        concurrency=row.batch or 1.0,
        weight_bits=bits,
        outside_bits=outside_bits,
        kv_bits=row.kv_bits or 16.0,
        prompt_tokens=row.prompt_tokens,
        output_tokens=output,
        weights_only=format_name is not None and weight_format(format_name).weights_only,
    )
    return Workload(shape, traffic)


def _draft(row: Observation) -> Workload | None:
    model = row.draft_model()
    if model is None:
        return None
    bits, format_name = _weights(row.draft_weight_bits, model)
    return _as_run(row, model, bits, format_name)


def _weights(
    asked_bits: float | None, architecture: Architecture, name: str | None = None
) -> tuple[float, str | None]:
    """Bits of a weight, and the format's name where it is told or the one the model comes in."""
    if name is not None:
        return weight_format(name).bits, name
    own = weight_format(architecture.weight_format)
    if asked_bits is None or abs(own.bits - asked_bits) < 1.0:
        return own.bits, own.name
    return asked_bits, None


def multi_head(architecture: Architecture) -> ModelShape:
    """The model as kernels without grouped queries run it: 4 d^2 + 3 d f weights a layer.

    Rows with a known region come from WaferLLM (He et al., OSDI 2025), whose decode.csl has as
    many key and value heads as query heads, whatever the model; the measurement is of layers,
    without a head.
    """
    plain = architecture.shape()
    d = float(plain.hidden_size)
    groups = []
    for block, group in zip(architecture.blocks, plain.groups, strict=True):
        attention = sum(p.count for p in block.pieces(architecture.hidden_size)
                        if p.component == "attention")  # fmt: skip
        groups.append(
            LayerGroup(
                count=group.count,
                shared_params=float(group.shared_params) - attention + 4.0 * d * d,
                vector_params=group.vector_params,
                routed_params=group.routed_params,
                experts=group.experts,
                experts_per_token=group.experts_per_token,
                caches=(Cache(values_per_token=2.0 * d, macs_per_token=2.0 * d),),
                reductions=group.reductions,
            )
        )
    return replace(
        plain, groups=tuple(groups), lookup_params=0.0, head_params=0.0, extra_params=0.0
    )
