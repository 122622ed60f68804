"""`archinfer pareto`: what users get, nodes make and tokens cost, and the cheapest deployment."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from archinfer.cli.output import Answer


def pareto(
    asked: dict[str, Any],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="A name (archinfer models list) or a config.json file; none with --total.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every deployment of the fronts.")
    ] = False,
) -> Answer:
    """Find the cheapest deployment that meets a target, and draw speed against throughput.

    For each machine the deployments that no other beats in both tokens/s of one user and tokens/s
    of one node, over mappings, users and weight formats, with cost and energy of a token:

    archinfer pareto deepseek-v3 --hardware b200,wse-3 --target 100 --context 32k --users 16
    """
    from archinfer.api.planning import pareto as plan
    from archinfer.api.serving import models_of
    from archinfer.cli.output import warn
    from archinfer.models.architecture import Architecture
    from archinfer.report import pareto as report

    (wanted,) = models_of(model, asked)
    for warning in wanted.warnings if isinstance(wanted, Architecture) else ():
        warn(f"{wanted.name}: {warning}")
    given = asked if model is None else asked | dict.fromkeys(("total", "active", "layers"))
    found = plan(wanted if model is not None else None, **given)
    chart = report.pareto_chart if found.deployments else None
    return Answer(found, report.document, report.csv_rows, chart, explain)
