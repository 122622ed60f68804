"""`archinfer models`: the catalogue, and one model's exact counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.cli.common import Format, print_csv, print_json, print_markdown, warn

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

COMPONENT_TITLES = {
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


def describe(architecture: Architecture, record: Entry | None) -> dict[str, Any]:
    """Everything `models show` prints, as plain JSON values."""
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
        "weight_format": architecture.weight_format,
        "weight_bytes": architecture.weight_bytes(),
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


LIST_HEADINGS = [
    "name", "total", "active", "layers", "hidden", "experts", "kv bytes/token", "weights",
    "announced",
]  # fmt: skip


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

    rows = [_list_row(name) for name in catalogue.names()]
    if output is Format.json:
        print_json(rows)
        return
    if output is Format.csv:
        print_csv(list(rows[0]), [list(r.values()) for r in rows])
        return
    cells = [
        [
            r["name"],
            _count(r["total_params"]),
            _count(r["active_params"]) if r["active_params"] < r["total_params"] else "",
            f"{r['layers']}",
            f"{r['hidden_size']}",
            "" if r["experts"] is None else f"{r['experts_per_token']:g} of {r['experts']}",
            f"{r['kv_bytes_per_token']:,.0f}",
            r["weight_format"],
            r["announced_total"] or "",
        ]
        for r in rows
    ]
    if output is Format.markdown:
        print_markdown(LIST_HEADINGS, cells)
        return
    _print_list(cells)


def _print_list(cells: list[list[str]]) -> None:
    """The list as a table; a narrow terminal loses columns from the right."""
    from archinfer.report.tables import new_console, print_table

    optional = tuple(reversed(LIST_HEADINGS[2:]))
    print_table(new_console(), "", LIST_HEADINGS, cells, optional)


def _count(value: float) -> str:
    """A count of parameters with four digits: 671B, 8.03B, 2.779T."""
    from archinfer.units import format_quantity

    return format_quantity(value, "count")


@app.command()
def show(
    model: Annotated[
        str, typer.Argument(help="Name in the catalogue, or a config.json (-: standard input).")
    ],
    output: FormatOption = Format.table,
) -> None:
    """Show a model's exact parameters by component, its KV cache and its layers."""
    from archinfer.models.named import read_model

    architecture, record = read_model(model)
    facts = describe(architecture, record)
    for message in facts["warnings"]:
        warn(message)
    if output is Format.json:
        print_json(facts)
        return
    rows = _show_rows(facts)
    if output is Format.csv:
        print_csv(["figure", "value"], [list(r) for r in rows])
    elif output is Format.markdown:
        print_markdown(["figure", "value"], [[name, _shown(v)] for name, v in rows])
    else:
        _print_show(facts, rows)


def _show_rows(facts: dict[str, Any]) -> list[tuple[str, Any]]:
    counts = facts["parameters"]
    rows: list[tuple[str, Any]] = [
        ("total parameters", counts["total"]),
        ("active parameters", counts["active"]),
        ("active without input embedding", counts["active_without_input_embedding"]),
        ("active without embedding and head", counts["active_without_embedding_and_head"]),
    ]
    rows += [
        (f"  {COMPONENT_TITLES.get(name, name)}", n) for name, n in counts["by_component"].items()
    ]
    rows += [
        ("layers", facts["layers"]),
        ("hidden size", facts["hidden_size"]),
        ("vocabulary", facts["vocab_size"]),
        ("weight bytes as released, " + facts["weight_format"], facts["weight_bytes"]),
    ]
    rows += [
        (f"KV bytes a token, {k}", v) for k, v in facts["kv_bytes_per_token_by_format"].items()
    ]
    if facts["kv_window_bytes_max"]:
        rows += [
            ("KV bytes a token past the windows", facts["kv_bytes_per_token_past_windows"]),
            ("KV bytes of the windows, full", facts["kv_window_bytes_max"]),
        ]
    if facts["indexer_bytes_per_token"]:
        rows.append(("indexer bytes a token", facts["indexer_bytes_per_token"]))
    if facts["state_bytes"]:
        rows.append(("state bytes a sequence", facts["state_bytes"]))
    rows += [(f"layers of {kind}", n) for kind, n in facts["attention"].items()]
    if facts["experts"] is not None:
        rows.append(("experts", facts["experts"]))
        rows.append(("experts a token", facts["experts_per_token"]))
    return rows


def _shown(value: Any) -> str:
    if isinstance(value, float) and not value.is_integer() and abs(value) < 1e6:
        return f"{value:,.4g}"
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)


def _print_show(facts: dict[str, Any], rows: list[tuple[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from archinfer.report.tables import new_console

    console = new_console()
    title = (
        facts["name"] if not facts["hugging_face"] else f"{facts['name']} ({facts['hugging_face']})"
    )
    console.print(Text(title, style="bold"))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    for name, value in rows:
        table.add_row(Text(name), Text(_shown(value)))
    console.print(table)
    said: list[tuple[str, str]] = []
    announced = facts["announced"]
    if announced and announced["total"]:
        figures = announced["total"] + (f", {announced['active']}" if announced["active"] else "")
        difference = f"; {announced['difference']}" if announced["difference"] else ""
        said.append(("announced", figures + difference))
    said += [("note", n) for n in facts["notes"]]
    said += [
        (f"counted as {k}", v) for k, v in facts["conventions"].items() if k in ("total", "active")
    ]
    if facts["source"]:
        said.append(("source", f"{facts['source']} (confidence {facts['confidence']})"))
    console.print()
    for name, text in said:
        console.print(Text.assemble((f"{name}: ", "dim"), text))
