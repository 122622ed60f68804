"""The catalogue of models, and one model's exact counts, as documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from archinfer.report import document as doc
from archinfer.units import format_quantity, plain_number

COMPONENTS = {
    "embedding": "input embedding",
    "lm_head": "head",
    "dense_mlp": "dense feed-forward",
    "experts": "routed experts",
    "shared": "shared experts",
    "ssm": "linear attention / Mamba",
    "latent": "latent projections of experts",
    "norm": "norms",
    "hyper": "hyper-connections",
    "ngram_table": "n-gram tables",
    "ngram_projection": "n-gram projection",
    "indexer": "sparse-attention indexer",
}

HEADINGS = (
    "name", "total", "active", "layers", "hidden", "experts", "kv/token", "weights",
    "announced",
)  # fmt: skip


def list_document(models: Sequence[dict[str, Any]]) -> doc.Document:
    """The catalogue; a narrow terminal loses columns from the right."""
    rows = [
        (
            m["name"],
            format_quantity(m["total_params"], "count"),
            format_quantity(m["active_params"], "count")
            if m["active_params"] < m["total_params"]
            else "",
            f"{m['layers']}",
            f"{m['hidden_size']}",
            "" if m["experts"] is None else f"{m['experts_per_token']:g} of {m['experts']}",
            format_quantity(m["kv_bytes_per_token"], "bytes"),
            m["weight_format"],
            m["announced_total"] or "",
        )
        for m in models
    ]
    drop = tuple(reversed(HEADINGS[2:]))
    return doc.Document("", [doc.Table("", HEADINGS, rows, "lrrrrrrll", doc.ALL, drop=drop)])


def figures(facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is counted of one model: name and value of each figure."""
    counts = facts["parameters"]
    yield "total parameters", counts["total"]
    yield "active parameters", counts["active"]
    yield "active without input embedding", counts["active_without_input_embedding"]
    yield "active without embedding and head", counts["active_without_embedding_and_head"]
    for name, count in counts["by_component"].items():
        yield f"  {COMPONENTS.get(name, name)}", count
    yield "layers", facts["layers"]
    yield "hidden size", facts["hidden_size"]
    yield "vocabulary", facts["vocab_size"]
    yield f"weight bytes, {facts['weight_format']}", facts["weight_bytes"]
    formats = facts["weight_formats"]
    for name, stored in facts["weight_bytes_by_component"].items():
        yield f"  bytes of {COMPONENTS.get(name, name)}, {formats.get(name, 'vectors')}", stored
    for name, value in facts["kv_bytes_per_token_by_format"].items():
        yield f"KV bytes a token, {name}", value
    if facts["kv_window_bytes_max"]:
        yield "KV bytes a token past the windows", facts["kv_bytes_per_token_past_windows"]
        yield "KV bytes of the windows, full", facts["kv_window_bytes_max"]
    if facts["indexer_bytes_per_token"]:
        yield "indexer bytes a token", facts["indexer_bytes_per_token"]
    if facts["state_bytes"]:
        yield "state bytes a sequence", facts["state_bytes"]
    for kind, count in facts["attention"].items():
        yield f"layers of {kind}", count
    if facts["experts"] is not None:
        yield "experts", facts["experts"]
        yield "experts a token", facts["experts_per_token"]


def show_document(facts: dict[str, Any]) -> doc.Document:
    """One model: its figures, what was announced of it and how it was counted."""
    title = facts["name"]
    if facts["hugging_face"]:
        title += f" ({facts['hugging_face']})"
    rows = [(name, _shown(value)) for name, value in figures(facts)]
    blocks: list[doc.Block] = [
        doc.Table("", ("figure", "value"), rows, "wr", doc.ALL),
        doc.Items(list(_told(facts)), where=doc.SCREEN, bullet=""),
    ]
    return doc.Document(title, blocks)


def families_document(names: Sequence[str]) -> doc.Document:
    """The families of configs that are read exactly."""
    return doc.Document(
        "", [doc.Table("", ("model_type",), [(name,) for name in names], "l", doc.ALL)]
    )


def _shown(value: Any) -> str:
    if isinstance(value, float) and not value.is_integer() and abs(value) < 1e6:
        return plain_number(value, 4)
    return f"{value:,.0f}"


def _told(facts: dict[str, Any]) -> Iterator[doc.Words]:
    announced = facts["announced"]
    if announced and announced["total"]:
        active = f", {announced['active']}" if announced["active"] else ""
        difference = f"; {announced['difference']}" if announced["difference"] else ""
        yield doc.Span("announced: ", "soft"), announced["total"] + active + difference
    for note in facts["notes"]:
        yield doc.Span("note: ", "soft"), note
    for name in ("total", "active"):
        yield doc.Span(f"counted as {name}: ", "soft"), facts["conventions"][name]
    if facts["source"]:
        text = f"{facts['source']} (confidence {facts['confidence']})"
        yield doc.Span("source: ", "soft"), text
