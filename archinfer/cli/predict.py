"""`archinfer predict`: how fast a known model is, on how many nodes, and what limits it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.cli.options import takes
from archinfer.cli.output import Format, FormatOption, PlotOption, ReportOption

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware
    from archinfer.physics.deployment import Deployment
    from archinfer.report.predict_model import Row

NO_TIME = ("memory.capacity", "memory.usable_fraction", "power", "price")
"""Figures that are not set for the sake of a speed."""


@takes("predict")
def predict(
    asked: dict[str, Any],
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Names (archinfer models list), config.json files, or - for standard input; "
            "none with --total and --active.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show bars, and the figures behind the answer.")
    ] = False,
    plot: PlotOption = None,
    report_file: ReportOption = None,
    form: FormatOption = Format.table,
) -> None:
    """Predict the speed of known models for one user, and say what limits it.

    One model gives a page, several a comparison. A model known only by its totals:
    --total 1.6T --active 48B, perhaps with --layers. Several contexts or numbers of users, as
    --context 8k,32k --users 1,8,32, give a table with what fits at most.
    """
    from archinfer.api.serving import loads, served
    from archinfer.api.solving import machine
    from archinfer.cli.output import Answer, check_targets, show, warn
    from archinfer.report import predict as report
    from archinfer.report import sweep
    from archinfer.report.predict_chart import predict_chart

    check_targets(plot, report_file)
    profile, overrides = machine(asked["hardware"], asked["set"])
    swept = [(load, served(profile, asked["nodes"], load)) for load in loads(asked)]
    deployment = swept[0][1]
    _check_models(models, asked, len(swept))
    rows = [_known(name, profile, one) for name in models or () for _, one in swept]
    timed = [change for change in overrides if not change.startswith(NO_TIME)]
    if rows and timed and _changes_nothing(rows, asked["hardware"]):
        warn(f"{'; '.join(timed)}: no speed changes, something else sets the time")
    rows = rows or [_totals(load, profile, one) for load, one in swept]
    if asked["speculation"] is None and not deployment.draft_tokens and profile.speculation:
        fitted = _fitted_speculation(profile, deployment)
        rows = [replace(row, notes=(*row.notes, fitted)) for row in rows]
    for message in dict.fromkeys(f"{r.name}: {warning}" for r in rows for warning in r.warnings):
        warn(message)
    many = len(swept) > 1
    answer = Answer(
        lambda: (sweep if many else report).document(rows, overrides),
        lambda: report.record(rows, profile, overrides),
        lambda: (sweep if many else report).csv_rows(rows),
        (lambda: (sweep.sweep_chart if many else predict_chart)(rows))
        if any(row.result.fits for row in rows)
        else None,
    )
    show(answer, form, explain=explain, plot=plot, report=report_file)


def _check_models(models: list[str] | None, asked: dict[str, Any], loads: int) -> None:
    """Refuse no model at all, one that is said twice, and one that can be read only once."""
    from archinfer.api.serving import TOTALS_OR_MODEL
    from archinfer.errors import InputError

    if models and any(asked[name] is not None for name in ("total", "active", "layers")):
        raise InputError(TOTALS_OR_MODEL)
    if models and models.count("-") > 1:
        raise InputError("standard input (-) holds one config: name it once")
    if models and loads > 1 and "-" in models:
        raise InputError("standard input (-) is read once: give a file for a sweep")
    if not models and asked["total"] is None:
        raise InputError("name a model (archinfer models list), a config.json, or give --total")


def _fitted_speculation(profile: Hardware, deployment: Deployment) -> str:
    return (
        f"{deployment.accepted_low:g} to {deployment.accepted_high:g} accepted tokens a pass are "
        f"the default of this command; speeds published for {profile.name} fit "
        f"{profile.accepted_low:g} to {profile.accepted_high:g}, more the slower a model is "
        "without (archinfer validate): --speculation sets them"
    )


def _changes_nothing(rows: list[Row], hardware: str) -> bool:
    """Whether the profile as it is shipped or written gives all rows the same speeds."""
    from archinfer.forward.predict import predict as predicted
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
    from archinfer.forward.predict import predict as predicted
    from archinfer.models.named import read_model
    from archinfer.report.predict_model import Row

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


def _totals(asked: dict[str, Any], profile: Hardware, deployment: Deployment) -> Row:
    """A model known by its totals."""
    from archinfer.api.serving import depths_of, totals_of
    from archinfer.api.solving import family_rules
    from archinfer.cli.common import unfilled_stages
    from archinfer.forward.depths import predict_depths
    from archinfer.report.predict_model import Row
    from archinfer.words import compact

    size, used = totals_of(asked)
    rules = family_rules(asked)
    depths = depths_of(asked, used, profile, rules)
    origin = "--layers" if asked["layers"] else "habits of design (--layers narrows them)"
    name = f"{compact(size)} total, {compact(used)} active"
    found = predict_depths(name, size, used, depths, profile, deployment, rules)
    notes = [
        f"no config: hidden size and experts by the rules of the family, {rules.text}",
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
