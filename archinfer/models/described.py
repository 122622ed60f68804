"""What is known of a model, as records: its exact counts, cache and layers, and its listing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from archinfer.models import catalogue
from archinfer.models.architecture import Architecture
from archinfer.models.catalogue import Entry
from archinfer.models.formats import kv_format
from archinfer.models.layers.pieces import Component
from archinfer.record import Record

CONVENTIONS = {
    "total": "language model: embedding and head (once if tied) and all layers; no vision tower, "
    "no multi-token-prediction layers, no score-correction buffers of routers",
    "active": "total minus the routed experts that a token does not use; embedding and head are "
    "in; n-gram tables count by the rows a token reads",
    "kv_bytes_per_token": "keys and values of every layer that has a cache at 16 bits, windowed "
    "layers included; indexer keys and recurrent state are apart",
    "state_bytes": "per sequence at any context: recurrent part at 32 bits, convolution at 16",
}

KV_FORMATS_SHOWN = ("bf16", "fp8", "fp4")


@dataclass(frozen=True, slots=True)
class ModelParameters(Record):
    """Exact counts of parameters."""

    total: int
    active: int
    by_component: dict[Component, int]
    """those that it has; `shared`: experts that every token uses"""
    active_without_input_embedding: int
    active_without_embedding_and_head: int
    multi_token_prediction_not_counted: int


@dataclass(frozen=True, slots=True)
class Reductions(Record):
    """The chain of dependent reductions of layers of one kind."""

    layers: int
    reductions: int
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Announced(Record):
    """What the maker says of the size, as written."""

    total: str | None
    active: str | None
    source: str | None
    difference: str | None


@dataclass(frozen=True, slots=True)
class DescribedModel(Record):
    """A model's exact counts, its cache and its layers."""

    name: str
    family: str
    hugging_face: str | None
    parameters: ModelParameters
    kv_bytes_per_token: float
    """16-bit cache, every layer that has one"""
    kv_bytes_per_token_by_format: dict[str, float]
    kv_bytes_per_token_past_windows: float
    kv_window_bytes_max: float
    indexer_bytes_per_token: float
    state_bytes: float
    """recurrent state of a sequence"""
    layers: int
    hidden_size: int
    vocab_size: int
    tied_head: bool
    attention: dict[str, int]
    """layers by kind"""
    experts: int | None
    experts_per_token: float | None
    weight_format: str
    weight_bytes: float
    weight_formats: dict[Component, str]
    """by component; several joined by ' + '"""
    weight_bytes_by_component: dict[Component, float]
    kv_format: str | None
    """of the KV cache, where the model's file states one"""
    assumed: tuple[str, ...]
    """what the model's file does not say"""
    reductions_per_layer: tuple[Reductions, ...]
    max_context_tokens: int | None
    announced: Announced | None
    source: str | None
    counted_by: str | None
    confidence: str | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    conventions: dict[str, str]


@dataclass(frozen=True, slots=True)
class ListedModel(Record):
    """One model of the catalogue."""

    name: str
    total_params: int
    active_params: int
    layers: int
    hidden_size: int
    experts: int | None
    experts_per_token: float | None
    kv_bytes_per_token: float
    weight_format: str
    announced_total: str | None
    announced_active: str | None
    hugging_face: str | None
    confidence: str | None


def _common(architecture: Architecture, entry: Entry | None) -> dict[str, Any]:
    """What both records say of a model."""
    moe = architecture.moe
    return {
        "layers": architecture.layers,
        "hidden_size": architecture.hidden_size,
        "experts": moe and moe.experts,
        "experts_per_token": moe and float(moe.experts_per_token),
        "kv_bytes_per_token": architecture.kv_bytes_per_token(),
        "hugging_face": entry and entry.hugging_face,
        "confidence": entry and entry.confidence,
    }


def described(
    architecture: Architecture, entry: Entry | None, weights: str | None = None
) -> DescribedModel:
    """Everything that is known of a model.

    Args:
        architecture: the model.
        entry: what the catalogue says of it.
        weights: weight format; None: the one the model comes in.
    """
    a, counts = architecture, asdict(architecture.parameters())
    said = (
        None
        if entry is None
        else Announced(
            entry.announced_total,
            entry.announced_active,
            entry.announced_source,
            entry.difference(a) or None,
        )
    )
    return DescribedModel(
        name=a.name,
        family=a.family,
        parameters=ModelParameters(**counts, multi_token_prediction_not_counted=a.mtp_parameters()),
        kv_bytes_per_token_by_format={
            name: a.kv_bytes_per_token(kv_format(name).bits) for name in KV_FORMATS_SHOWN
        },
        kv_bytes_per_token_past_windows=a.kv_bytes_per_token_past_windows(),
        kv_window_bytes_max=a.kv_window_bytes_max(),
        indexer_bytes_per_token=a.indexer_bytes_per_token(),
        state_bytes=a.state_bytes(),
        vocab_size=a.vocab_size,
        tied_head=a.tied,
        attention=a.attention_kinds,
        weight_format=weights or a.weight_format,
        weight_bytes=a.weight_bytes(weights),
        weight_formats=a.weight_formats(weights),
        weight_bytes_by_component=a.weight_bytes_by_component(weights),
        kv_format=a.stored.kv,
        assumed=a.assumed,
        reductions_per_layer=tuple(Reductions(b.count, b.reductions, b.steps) for b in a.blocks),
        max_context_tokens=a.max_context_tokens,
        announced=said,
        source=getattr(entry, "source", None),
        counted_by=getattr(entry, "counted_by", None),
        notes=a.notes,
        warnings=a.warnings,
        conventions=CONVENTIONS,
        **_common(a, entry),
    )


def listed(name: str) -> ListedModel:
    """The model of the catalogue called `name`."""
    architecture, entry = catalogue.load(name), catalogue.entry(name)
    counts = architecture.parameters()
    return ListedModel(
        name=name,
        total_params=counts.total,
        active_params=counts.active,
        weight_format=architecture.weight_format,
        announced_total=entry.announced_total,
        announced_active=entry.announced_active,
        **_common(architecture, entry),
    )
