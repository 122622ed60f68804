"""`archinfer compare`: known models on several machines, and how fast each machine could go."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from archinfer.cli.options import takes
from archinfer.cli.output import Format, FormatOption


@takes("compare")
def compare(
    asked: dict[str, Any],
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Names (archinfer models list) or config.json files; none with --total.",
            show_default=False,
        ),
    ] = None,
    output: FormatOption = Format.table,
) -> None:
    """Compare hardware: speed for one user, nodes, what binds, power, and the speed ceiling.

    The ceiling is the fastest that any number of such nodes could go, and the term of a token's
    time that sets it. A model known only by its totals: --total 3T --active 150B --layers 88.

    JSON: question{context_tokens, concurrency, kv, speculation[low, high]}, results[] of every
    model on every profile: model, hardware, node, weights, fits, nodes (in use), min_nodes
    (null: no number is enough), mapping{tensor_parallel, stages, layers_per_stage},
    tokens_per_s{p05, p50, p95} (null where it does not fit), bottleneck, bandwidth_tokens_per_s
    (what reading at the peak bandwidth of the nodes that share a layer would allow), power_w
    (null where unknown), memory_bytes, memory_fraction (of the fullest node), usual_software
    (whose speeds the profile describes), overlaps[] (hardware whose interval overlaps: the order
    is not known), ceiling (null where no number of nodes holds it){tokens_per_s{p05, p50, p95},
    nodes, mapping{...}, bottleneck, latency_share (the part of the time that no bandwidth
    shortens), power_w}.
    """
    from archinfer.api.serving import compare as compare_models
    from archinfer.api.serving import models_of
    from archinfer.cli.common import uneven_groups, unfilled_stages
    from archinfer.cli.output import Answer, show, warn
    from archinfer.forward.compare import HardwareComparison
    from archinfer.models.architecture import Architecture
    from archinfer.report import compare as report

    wanted = models_of(models, asked)
    known = {model.name: model for model in wanted if isinstance(model, Architecture)}
    for name, model in known.items():
        for warning in model.warnings:
            warn(f"{name}: {warning}")
    entries = compare_models(wanted, **(asked | dict.fromkeys(("total", "active", "layers"))))
    for entry in entries:
        messages = unfilled_stages(entry.prediction)
        if entry.model in known:
            group = float(entry.prediction.mapping.tensor_parallel)
            messages = uneven_groups([(known[entry.model], group)]) + messages
        for message in messages:
            warn(f"{entry.model} on {entry.hardware.name}: {message}")
    answer = Answer(
        lambda: report.document(entries),
        lambda: HardwareComparison(tuple(entries)),
        lambda: report.csv_rows(entries),
    )
    show(answer, output)
