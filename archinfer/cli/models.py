"""`archinfer models`: the catalogue, and one model's exact counts."""

from __future__ import annotations

from typing import Annotated

import typer

from archinfer.cli.output import Answer, Format, FormatOption, warn
from archinfer.cli.output import show as show_answer

app = typer.Typer(no_args_is_help=True, help="List open models and show exact counts.")


@app.command("list")
def list_models(output: FormatOption = Format.table) -> None:
    """List the catalogue with exact counts."""
    from archinfer.models import catalogue
    from archinfer.models.described import listed
    from archinfer.report.document import flatten
    from archinfer.report.models import list_document

    rows = [listed(name).to_dict() for name in catalogue.names()]
    show_answer(Answer(rows, list_document, lambda _: flatten(rows, list(rows[0]))), output)


@app.command("families")
def list_families(output: FormatOption = Format.table) -> None:
    """List the families of configs that are read exactly, by model_type."""
    from archinfer.models.huggingface import known_families
    from archinfer.report.models import families_document

    names = list(known_families())
    rows = [("model_type",), *((name,) for name in names)]
    show_answer(Answer(names, families_document, lambda _: rows), output)


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
    from archinfer.api.arguments import naming
    from archinfer.models.checkpoint import read_model
    from archinfer.models.described import described
    from archinfer.models.formats import weight_format
    from archinfer.report.models import figures, show_document

    architecture, record = read_model(model)
    with naming("--weights"):
        form = None if weights is None else weight_format(weights).name
    facts = described(architecture, record, form).to_dict()
    for message in facts["warnings"]:
        warn(message)
    rows = [("figure", "value"), *figures(facts)]
    show_answer(Answer(facts, show_document, lambda _: rows), output)
