"""`archinfer models`: the catalogue, and one model's exact counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.cli.output import Answer, Format, warn
from archinfer.cli.output import show as show_answer

if TYPE_CHECKING:
    from archinfer.models.architecture import Architecture
    from archinfer.models.catalogue import Entry

app = typer.Typer(no_args_is_help=True, help="List open models and show exact counts.")

FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]

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


def describe(
    architecture: Architecture, record: Entry | None, weights: str | None = None
) -> dict[str, Any]:
    """Everything `models show` prints, as plain JSON values.

    Args:
        architecture: the model.
        record: what the catalogue says of it.
        weights: weight format; None: the one the model comes in.
    """
    from archinfer.models.formats import kv_format

    counts = architecture.parameters()
    moe = architecture.moe
    announced = None
    if record is not None:
        announced = {
            "total": record.announced_total,
            "active": record.announced_active,
            "source": record.announced_source,
            "difference": record.difference(architecture) or None,
        }
    return {
        "name": architecture.name,
        "family": architecture.family,
        "hugging_face": None if record is None else record.hugging_face,
        "parameters": {
            "total": counts.total,
            "active": counts.active,
            "by_component": counts.by_component,
            "active_without_input_embedding": counts.active_without_input_embedding,
            "active_without_embedding_and_head": counts.active_without_embedding_and_head,
            "multi_token_prediction_not_counted": architecture.mtp_parameters(),
        },
        "kv_bytes_per_token": architecture.kv_bytes_per_token(),
        "kv_bytes_per_token_by_format": {
            name: architecture.kv_bytes_per_token(kv_format(name).bits) for name in KV_FORMATS_SHOWN
        },
        "kv_bytes_per_token_past_windows": architecture.kv_bytes_per_token_past_windows(),
        "kv_window_bytes_max": architecture.kv_window_bytes_max(),
        "indexer_bytes_per_token": architecture.indexer_bytes_per_token(),
        "state_bytes": architecture.state_bytes(),
        "layers": architecture.layers,
        "hidden_size": architecture.hidden_size,
        "vocab_size": architecture.vocab_size,
        "tied_head": architecture.tied,
        "attention": architecture.attention_kinds,
        "experts": None if moe is None else moe.experts,
        "experts_per_token": None if moe is None else float(moe.experts_per_token),
        "weight_format": weights or architecture.weight_format,
        "weight_bytes": architecture.weight_bytes(weights),
        "weight_formats": architecture.weight_formats(weights),
        "weight_bytes_by_component": architecture.weight_bytes_by_component(weights),
        "kv_format": architecture.stored.kv,
        "assumed": list(architecture.assumed),
        "reductions_per_layer": [
            {"layers": block.count, "reductions": block.reductions, "steps": list(block.steps)}
            for block in architecture.blocks
        ],
        "max_context_tokens": architecture.max_context_tokens,
        "announced": announced,
        "source": None if record is None else record.source,
        "counted_by": None if record is None else record.counted_by,
        "confidence": None if record is None else record.confidence,
        "notes": list(architecture.notes),
        "warnings": list(architecture.warnings),
        "conventions": CONVENTIONS,
    }


def _list_row(name: str) -> dict[str, Any]:
    from archinfer.models import catalogue

    architecture, record = catalogue.load(name), catalogue.entry(name)
    counts = architecture.parameters()
    moe = architecture.moe
    return {
        "name": name,
        "total_params": counts.total,
        "active_params": counts.active,
        "layers": architecture.layers,
        "hidden_size": architecture.hidden_size,
        "experts": None if moe is None else moe.experts,
        "experts_per_token": None if moe is None else float(moe.experts_per_token),
        "kv_bytes_per_token": architecture.kv_bytes_per_token(),
        "weight_format": architecture.weight_format,
        "announced_total": record.announced_total,
        "announced_active": record.announced_active,
        "hugging_face": record.hugging_face,
        "confidence": record.confidence,
    }


@app.command("list")
def list_models(output: FormatOption = Format.table) -> None:
    """List the catalogue with exact counts."""
    from archinfer.models import catalogue
    from archinfer.report.document import flatten
    from archinfer.report.models import list_document

    rows = [_list_row(name) for name in catalogue.names()]
    answer = Answer(lambda: list_document(rows), lambda: rows, lambda: flatten(rows, list(rows[0])))
    show_answer(answer, output)


@app.command("families")
def list_families(output: FormatOption = Format.table) -> None:
    """List the families of configs that are read exactly, by model_type."""
    from archinfer.models.huggingface import known_families
    from archinfer.report.models import families_document

    names = list(known_families())
    rows = [("model_type",), *((name,) for name in names)]
    show_answer(Answer(lambda: families_document(names), lambda: names, lambda: rows), output)


@app.command()
def show(
    model: Annotated[
        str,
        typer.Argument(
            help="Name in the catalogue, or a file: config.json, params.json, .gguf, .safetensors, "
            "the folder of one (-: standard input)."
        ),
    ],
    weights: Annotated[
        str | None,
        typer.Option(
            help="Weight format, as int4 or int4,embedding=int8,head=bf16. Default: the one the "
            "model comes in."
        ),
    ] = None,
    output: FormatOption = Format.table,
) -> None:
    """Show a model's exact parameters by component, its KV cache and its layers."""
    from archinfer.models.formats import weight_format
    from archinfer.models.named import read_model
    from archinfer.report.models import figures, show_document

    architecture, record = read_model(model)
    form = None if weights is None else weight_format(weights).name
    facts = describe(architecture, record, form)
    for message in facts["warnings"]:
        warn(message)
    answer = Answer(
        lambda: show_document(facts),
        lambda: facts,
        lambda: [("figure", "value"), *figures(facts)],
    )
    show_answer(answer, output)
