"""The family of models that the solver searches: four numbers first, the rest by stated rules.

(total, active, layers) -> hidden size, KV cache, experts. The rules are typical of open models
(each names the figure of the catalogue it comes from); they place the small terms of the cost
(head, links, attention), while total, active, layers and nodes carry the large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from archinfer.errors import UnknownNameError
from archinfer.models.formats import weight_format
from archinfer.models.shape import Cache, LayerGroup, ModelShape, Number

_ROUTING_STEPS = 2.0
"""Dependent all-reduces that routing adds to a layer: router scores, and their top-k or softmax."""


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """How a family's layers attend.

    Attributes:
        values_per_token: numbers cached per token and layer.
        macs_per_token: multiply-accumulates per cached token, in units of hidden_size.
        reductions: dependent all-reduces of one MoE layer.
        shards: ways in which tensor parallelism can split the cache.
    """

    values_per_token: float
    macs_per_token: float
    reductions: float
    shards: float


ATTENTION_KINDS = {
    # Query heads of 128 that add up to hidden_size: 2 * hidden_size MACs a cached token.
    "gqa": AttentionRule(2 * 8 * 128, 2.0, 12.0, 8),
    "mqa": AttentionRule(2 * 128, 2.0, 12.0, 1),
    # Absorbed MLA as in DeepSeek-V3: each head of 128 works on a latent of 512 + 64.
    "mla": AttentionRule(576, (576 + 512) / 128, 16.0, 1),
}


USUAL_VOCABULARY = 131_072.0
"""Median of the catalogue."""

COUNTED_KINDS = ("gqa", "mqa")
"""Kinds of attention that `calibration.moe` runs, and whose chain of all-reduces it counts."""


def attention_rule(kind: str) -> AttentionRule:
    """The rule called `kind`; UnknownNameError where there is none."""
    if kind not in ATTENTION_KINDS:
        raise UnknownNameError("attention kind", kind, ATTENTION_KINDS)
    return ATTENTION_KINDS[kind]


@dataclass(frozen=True, slots=True)
class FamilyRules:
    """Shape rules of the family.

    Attributes:
        attention: key of ATTENTION_KINDS.
        params_per_layer: active parameters of a layer in units of hidden_size^2 (median of the
            catalogue, embedding and head left out).
        vocab_size: rows of the embedding and of the head (median of the catalogue).
        tied: the head is the embedding, stored and counted once.
        routed_share: share of a layer's active parameters in routed experts (median over the
            catalogue's MoE models).
        experts_per_token: top-k (mode of the catalogue's MoE models).
        evenness: of routing, see `LayerGroup.evenness`.
        chain: dependent all-reduces of one MoE layer with grouped or multi-query attention,
            where they were counted; None: as ATTENTION_KINDS has them.
    """

    attention: str = "gqa"
    params_per_layer: float = 13.3
    vocab_size: float = USUAL_VOCABULARY
    tied: bool = False
    routed_share: float = 0.54
    experts_per_token: float = 8.0
    evenness: float = 1.0
    chain: float | None = None

    @property
    def reductions(self) -> float:
        """Dependent all-reduces of one MoE layer."""
        if self.chain is not None and self.attention in COUNTED_KINDS:
            return self.chain
        return attention_rule(self.attention).reductions

    @property
    def table_rows(self) -> float:
        """Rows of embedding and head together, a tied one counted once."""
        return self.vocab_size * (2.0 - self.tied)

    def hidden_size(self, active_params: Number, layers: Number) -> Number:
        """Width d at which A = c L d^2 + 2 V d (layers, embedding and head; V d where tied)."""
        per_width = self.params_per_layer * layers
        half = 0.5 * self.table_rows
        return (np.sqrt(half * half + per_width * active_params) - half) / per_width

    def active_params(self, hidden_size: Number, layers: Number) -> Number:
        """Inverse of `hidden_size`."""
        return hidden_size * (self.params_per_layer * layers * hidden_size + self.table_rows)


@dataclass(frozen=True, slots=True)
class Habits:
    """What is built today: ranges that no physics forces.

    The defaults come from the shipped catalogue (the tests recompute them): 5 % and 95 %
    quantiles for aspect and parameters per layer, the extremes for sparsity and depth.

    Attributes:
        sparsity: total over active parameters.
        aspect: hidden_size over layers.
        params_per_layer: active parameters of a layer over hidden_size^2.
        layers: decoder layers.
    """

    sparsity: tuple[float, float] = (1.0, 32.0)
    aspect: tuple[float, float] = (50.0, 171.0)
    params_per_layer: tuple[float, float] = (8.9, 26.0)
    layers: tuple[float, float] = (14.0, 126.0)

    def active_params(self, layers: Number, rules: FamilyRules) -> tuple[Number, Number]:
        """Fewest and most active parameters that the shape allows at `layers` layers.

        Some hidden size d with d / L in `aspect` and A = c L d^2 + 2 V d with c in
        `params_per_layer` exists exactly between these two.
        """
        layers = np.asarray(layers, dtype=float)
        low, high = (
            replace(rules, params_per_layer=per_layer).active_params(aspect * layers, layers)
            for aspect, per_layer in zip(self.aspect, self.params_per_layer, strict=True)
        )
        return low, high


def family_shape(
    total_params: Number,
    active_params: Number,
    layers: Number,
    rules: FamilyRules,
    dense: bool | NDArray[np.bool_] = False,
) -> ModelShape:
    """The family's member with these totals; real-valued sizes, exact totals.

    Args:
        total_params, active_params: parameters; floats or arrays that broadcast together.
        layers: decoder layers, likewise.
        rules: what the rest follows from.
        dense: which are dense, likewise: nothing is routed, and a layer waits for fewer
            all-reduces. They have as many active parameters as parameters.

    Returns:
        A shape whose fields have the broadcast shape of the arguments.

    Every layer is alike. N - A = R (1 - k/E), where R are all routed parameters and
    r = k R / E the active ones: E / k = R / r follows from the sparsity. At N = A that is a
    mixture of k experts that are all used; a dense model is another member there. A model that is
    narrower than its kind's cached heads caches as many numbers as all its query heads have.
    """
    kind = attention_rule(rules.attention)
    hidden = rules.hidden_size(active_params, layers)
    table = rules.vocab_size * hidden
    layer_active = (active_params - rules.table_rows * hidden) / layers
    routed_active = rules.routed_share * layer_active
    # A total below the active parameters is no model (the definition excludes it).
    idle = np.maximum(total_params - active_params, 0.0) / layers
    shared, routed = layer_active - routed_active, routed_active + idle
    experts: Number = rules.experts_per_token * routed / routed_active
    top_k: Number = rules.experts_per_token
    expert = routed_active / rules.experts_per_token
    reductions: Number = rules.reductions
    if np.any(dense):
        expert = np.where(dense, 0.0, expert)
        shared = np.where(dense, shared + routed, shared)
        routed = np.where(dense, 0.0, routed)
        experts, top_k = np.where(dense, 1.0, experts), np.where(dense, 1.0, top_k)
        reductions = np.where(dense, reductions - _ROUTING_STEPS, reductions)
    macs = kind.macs_per_token * hidden
    values = np.minimum(kind.values_per_token, 2.0 * hidden)
    cache = Cache(values, macs_per_token=macs, shards=kind.shards)
    group = LayerGroup(
        count=layers,
        shared_params=shared,
        routed_params=routed,
        experts=experts,
        experts_per_token=top_k,
        caches=(cache,),
        reductions=reductions,
        evenness=rules.evenness,
        matrices=_shared_matrices(hidden, shared, values),
        expert_matrices=(2.0 / 3.0 * expert, expert / 3.0),
    )
    return ModelShape((group,), hidden, lookup_params=table, head_params=table, tied=rules.tied)


def in_formats(
    shape: ModelShape, names: Sequence[str], which: NDArray[np.intp] | int
) -> ModelShape:
    """The family's member with bits of its own for components that a format names.

    Args:
        shape: of `family_shape`.
        names: weight formats; those without components leave their models to the traffic's bits.
        which: position of each model's format in `names`.

    The family has no routers, norms or biases apart: what a format says of them changes nothing.
    """
    if not any("=" in name for name in names):
        return shape
    forms = [weight_format(name) for name in names]

    def bits(component: str) -> Number:
        own = [dict(f.components).get(component, f.name.split(",")[0]) for f in forms]
        return np.array([weight_format(name).bits for name in own])[which]

    (group,) = shape.groups
    attention = np.minimum(group.matrices[0] + group.matrices[1], group.shared_params)
    fed = np.where(np.equal(group.routed_params, 0.0), bits("dense_mlp"), bits("shared"))
    stored = attention * bits("attention") + (group.shared_params - attention) * fed
    group = replace(group, shared_bits=stored / group.shared_params, routed_bits=bits("experts"))
    head = np.where(shape.tied, bits("embedding"), bits("lm_head"))
    return replace(shape, groups=(group,), lookup_bits=bits("embedding"), head_bits=head)


def _shared_matrices(
    hidden: Number, shared_params: Number, values_per_token: Number
) -> tuple[Number, ...]:
    """What every token reads of a layer, by matrix: QKV, O, and a SwiGLU block of the rest."""
    output = hidden * hidden
    qkv = output + values_per_token * hidden
    rest = np.maximum(shared_params - qkv - output, 0.0)
    return qkv, output, 2.0 / 3.0 * rest, rest / 3.0
