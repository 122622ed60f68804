"""`archinfer predict`: how fast a known model is, on how many nodes, and what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from archinfer.cli.common import (
    DEFAULT_SPECULATION,
    NODES_MOST,
    Concurrency,
    Context,
    Format,
    FormatOption,
    KvFormat,
    MappingOption,
    ModelWeights,
    SetFigures,
    read_whole,
)
from archinfer.cli.pictures import PLOT_HELP, REPORT_HELP

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware
    from archinfer.physics.deployment import Deployment
    from archinfer.physics.mapping import Placement
    from archinfer.report.predict import Row

__all__ = ["predict"]


NO_TIME = ("memory.capacity", "memory.usable_fraction", "power", "price")
"""Figures that are not set for the sake of a speed."""


def predict(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Names (archinfer models list), config.json files, or - for standard input; "
            "none with --total and --active.",
            show_default=False,
        ),
    ] = None,
    total: Annotated[
        str | None, typer.Option(help="Total parameters of a model without a config, as 1.6T.")
    ] = None,
    active: Annotated[
        str | None, typer.Option(help="Its active parameters, as 48B. Default: all (dense).")
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(help="Its layers, as 60 or 40:90. Default: what habits of design allow."),
    ] = None,
    attention: Annotated[str, typer.Option(help="Its attention: gqa, mqa, mla.")] = "gqa",
    hardware: Annotated[
        str, typer.Option(help="Profile: a name (archinfer hardware list) or a YAML file.")
    ] = "wse-3",
    nodes: Annotated[
        str | None, typer.Option(help="Nodes that are there. Default: the fewest that hold it.")
    ] = None,
    layers_per_node: Annotated[
        str | None,
        typer.Option(help="Layers of a node (of a pipeline stage). Default: the fastest."),
    ] = None,
    tensor_parallel: Annotated[
        str | None,
        typer.Option(help="Nodes that share each layer (with --layers-per-node; not on wafers)."),
    ] = None,
    mapping: MappingOption = None,
    context: Context = "8k",
    concurrency: Concurrency = "1",
    weights: ModelWeights = None,
    kv: KvFormat = "bf16",
    speculation: Annotated[
        str | None,
        typer.Option(
            help="Accepted tokens a pass, as 1 (none) or 1:3. Default: 1:3 (1:2 with one draft)."
        ),
    ] = None,
    draft_tokens: Annotated[
        str,
        typer.Option(
            help="Drafted tokens that each pass verifies; their time is then in the pass. "
            "Default: 0 (--speculation net of drafting)."
        ),
    ] = "0",
    set_: SetFigures = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show bars, and the figures behind the answer.")
    ] = False,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help=PLOT_HELP)] = None,
    report_file: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help=REPORT_HELP)
    ] = None,
    output: FormatOption = Format.table,
) -> None:
    """Predict the speed of known models for one user, and say what limits it.

    One model gives a page, several a comparison. A model known only by its totals:
    --total 1.6T --active 48B, perhaps with --layers.
    """
    from dataclasses import replace

    from archinfer.cli.common import (
        hardware_with,
        read_mapping,
        read_speculation,
    )
    from archinfer.cli.output import Answer, check_targets, show, warn
    from archinfer.errors import InputError
    from archinfer.models.formats import kv_format, weight_format
    from archinfer.physics.deployment import Deployment
    from archinfer.report import predict as report
    from archinfer.report.predict_chart import predict_chart

    check_targets(plot, report_file)
    profile, overrides = hardware_with(hardware, set_ or [])
    if mapping is not None and (layers_per_node is not None or tensor_parallel is not None):
        raise InputError("--mapping says what --layers-per-node and --tensor-parallel say: give "
                         "one")  # fmt: skip
    drafts = _drafts(draft_tokens)
    gained = speculation
    if gained is None:
        gained = DEFAULT_SPECULATION if drafts != 1 else "1:2"
    low, high = read_speculation(gained, drafts)
    deployment = Deployment(
        nodes=None if nodes is None else read_whole("--nodes", nodes, "whole", NODES_MOST),
        context_tokens=read_whole("--context", context, "tokens"),
        concurrency=read_whole("--concurrency", concurrency, "whole"),
        weights=None if weights is None else weight_format(weights).name,
        kv=kv_format(kv).name,
        accepted_low=low,
        accepted_high=high,
        draft_tokens=drafts,
        mapping=_mapping(profile, layers_per_node, tensor_parallel),
        layout=None if mapping is None else read_mapping(mapping, profile.spatial),
    )
    if models and (total is not None or active is not None or layers is not None):
        raise InputError("--total, --active and --layers describe a model without a config: "
                         "give them, or models by name or file, not both")  # fmt: skip
    rows: list[Row] = []
    if models:
        if models.count("-") > 1:
            raise InputError("standard input (-) holds one config: name it once")
        rows = [_known(name, profile, deployment) for name in models]
        timed = [change for change in overrides if not change.startswith(NO_TIME)]
        if timed and _changes_nothing(rows, hardware):
            warn(f"{'; '.join(timed)}: no speed changes, something else sets the time")
    elif total is not None:
        rows = [_totals(total, active, layers, attention, profile, deployment)]
    else:
        raise InputError("name a model (archinfer models list), a config.json, or give --total")
    if speculation is None and not drafts and profile.speculation is not None:
        fitted = (
            f"{low:g} to {high:g} accepted tokens a pass are the default of this command; speeds "
            f"published for {profile.name} fit {profile.accepted_low:g} to "
            f"{profile.accepted_high:g}, more the slower a model is without (archinfer validate): "
            "--speculation sets them"
        )
        rows = [replace(row, notes=(*row.notes, fitted)) for row in rows]
    for row in rows:
        for warning in row.warnings:
            warn(f"{row.name}: {warning}")
    answer = Answer(
        lambda: report.document(rows, overrides),
        lambda: report.record(rows, profile, overrides),
        lambda: report.csv_rows(rows),
        (lambda: predict_chart(rows)) if any(row.result.fits for row in rows) else None,
    )
    show(answer, output, explain=explain, plot=plot, report=report_file)


def _drafts(text: str) -> int:
    return 0 if text.strip() == "0" else read_whole("--draft-tokens", text, "whole", 1000)


def _mapping(
    profile: Hardware, layers_per_node: str | None, tensor_parallel: str | None
) -> Placement | None:
    from archinfer.errors import InputError
    from archinfer.physics.mapping import Placement

    if layers_per_node is None:
        if tensor_parallel is not None:
            raise InputError("--tensor-parallel needs --layers-per-node as well")
        return None
    held = read_whole("--layers-per-node", layers_per_node, "whole", NODES_MOST)
    group = 1
    if tensor_parallel is not None:
        group = read_whole("--tensor-parallel", tensor_parallel, "whole", NODES_MOST)
    if profile.spatial and group > 1:
        raise InputError(
            f"--tensor-parallel: the cores of one {profile.node} share a layer, found {group}"
        )
    return Placement(float(held), float(group))


def _changes_nothing(rows: list[Row], hardware: str) -> bool:
    """Whether the profile as it is shipped or written gives all rows the same speeds."""
    from archinfer.forward.prediction import predict as predicted
    from archinfer.hardware.profile import Hardware

    before = Hardware.load(hardware)
    return all(
        row.result.fits
        and row.architecture is not None
        and row.speed
        == predicted(row.architecture, before, row.result.deployment, changes=False).speed
        for row in rows
    )


def _known(name: str, profile: Hardware, deployment: Deployment) -> Row:
    """A model with a config."""
    from archinfer.cli.common import uneven_groups, unfilled_stages
    from archinfer.forward.prediction import predict as predicted
    from archinfer.models.named import read_model
    from archinfer.report.predict import Row

    architecture, record = read_model(name)
    warnings = list(architecture.warnings)
    longest = architecture.max_context_tokens
    if longest is not None and deployment.context_tokens > longest:
        warnings.append(
            f"a context of {deployment.context_tokens:,} tokens is longer than the "
            f"{longest:,} it is made for"
        )
    notes = list(architecture.notes)
    counts = architecture.parameters()
    if architecture.mtp_layers:
        notes = [note for note in notes if "multi-token-prediction" not in note]
        with_them = (counts.total + architecture.mtp_parameters()) / 1e9
        notes.append(
            f"{counts.total / 1e9:,.1f}B leave out {architecture.mtp_layers} "
            f"multi-token-prediction layer(s), which a decode pass does not run; about "
            f"{with_them:,.1f}B with them"
        )
    if record is not None:
        why = record.difference(architecture)
        announced = f"announced: {record.announced_total or 'no figure'}"
        if record.announced_active:
            announced += f", {record.announced_active} active"
        notes.append(f"{announced}; {why}" if why else announced)
    result = predicted(architecture, profile, deployment)
    warnings += uneven_groups([(architecture, float(result.mapping.tensor_parallel))])
    warnings += unfilled_stages(result)
    return Row(
        name=architecture.name,
        result=result,
        architecture=architecture,
        warnings=tuple(warnings),
        notes=tuple(notes),
    )


def _totals(
    total: str,
    active: str | None,
    layers: str | None,
    attention: str,
    profile: Hardware,
    deployment: Deployment,
) -> Row:
    """A model known by its totals."""
    import numpy as np

    from archinfer.cli.common import read_totals, read_whole_range, unfilled_stages
    from archinfer.errors import InputError
    from archinfer.forward.prediction import plausible_layers, predict_depths
    from archinfer.models.family import FamilyRules, attention_rule
    from archinfer.report.predict import Row
    from archinfer.solver.region import LAYERS_MAX
    from archinfer.words import compact

    size, used = read_totals(total, active)
    rules = FamilyRules(attention=attention)
    kind = attention_rule(attention)
    if layers is None:
        depths = plausible_layers(used, profile, rules)
        if not len(depths):
            raise InputError(
                f"no habit of design says how many layers a model with {compact(used)} active "
                "parameters has: give --layers"
            )
        origin = "habits of design (--layers narrows them)"
    else:
        low, high = read_whole_range("--layers", layers, LAYERS_MAX)
        if high > 10_000:
            raise InputError(f"--layers: expected at most 10,000, found {layers!r}")
        depths = np.arange(low, high + 1.0)
        origin = "--layers"
    name = f"{compact(size)} total, {compact(used)} active"
    found = predict_depths(name, size, used, depths, profile, deployment, rules)
    notes = [
        f"no config: hidden size and experts by the rules of the family, {kind.text}",
        *([] if len(depths) == 1 else [f"layers from {origin}"]),
        *([] if deployment.weights else ["weights taken as bf16 (--weights sets the format)"]),
    ]
    return Row(
        name=name,
        result=found.middle,
        depths=None if len(depths) == 1 else found,
        warnings=tuple(unfilled_stages(found.predictions[-1])),
        notes=tuple(notes),
    )
