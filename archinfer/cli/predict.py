"""`archinfer predict`: how fast a known model is, on how many nodes, and what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.cli.output import Answer

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware
    from archinfer.physics.deployment import Deployment
    from archinfer.report.predict_model import Row

NO_TIME = ("memory.capacity", "memory.usable_fraction", "power", "price")
"""Figures that are not set for the sake of a speed."""


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
) -> Answer:
    """Predict the speed of known models for one user, and say what limits it.

    One model gives a page, several a comparison. A model known only by its totals:
    --total 1.6T --active 48B, perhaps with --layers. Several contexts or numbers of users, as
    --context 8k,32k --users 1,8,32, give a table with what fits at most.
    """
    from archinfer.api.serving import loads, served
    from archinfer.api.solving import machine
    from archinfer.cli.output import warn
    from archinfer.forward.prediction import Predictions
    from archinfer.report import predict as report
    from archinfer.report import sweep
    from archinfer.report.predict_chart import predict_chart

    profile, overrides = machine(asked["hardware"], asked["set"])
    swept = [(load, served(profile, asked["nodes"], load)) for load in loads(asked)]
    _check_models(models, asked, len(swept))
    rows = [_known(name, profile, one) for name in models or () for _, one in swept]
    if profile.note:
        warn(f"{profile.name}: {profile.note}")
    timed = [change for change in overrides if not change.startswith(NO_TIME)]
    if rows and timed and _changes_nothing(rows, asked["hardware"]):
        warn(f"{'; '.join(timed)}: no speed changes, something else sets the time")
    rows = rows or [_totals(load, profile, one) for load, one in swept]
    for message in dict.fromkeys(f"{r.name}: {warning}" for r in rows for warning in r.warnings):
        warn(message)
    told, chart = (sweep, sweep.sweep_chart) if len(swept) > 1 else (report, predict_chart)
    return Answer(
        Predictions(tuple(row.record for row in rows), overrides, profile.provenance),
        lambda _: told.document(rows, overrides),
        lambda _: told.csv_rows(rows),
        (lambda _: chart(rows)) if any(row.result.fits for row in rows) else None,
        explain,
    )


def _check_models(models: list[str] | None, asked: dict[str, Any], loads: int) -> None:
    """Refuse no model at all, one that is said twice, and one that can be read only once."""
    from archinfer.api.serving import check_subject
    from archinfer.errors import InputError

    check_subject(models, asked)
    for name in models or ():
        if (models or []).count(name) > 1:
            raise InputError(
                "standard input (-) holds one config: name it once"
                if name == "-"
                else f"{name} is named twice"
            )
    if models and loads > 1 and "-" in models:
        raise InputError("standard input (-) is read once: give a file for a sweep")
    if not models and asked["total"] is None:
        raise InputError("name a model (archinfer models list), a config.json, or give --total")


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
    from archinfer.forward.predict import predict as predicted
    from archinfer.models.checkpoint import read_model
    from archinfer.report import predict_model as told
    from archinfer.report.warned import beyond, uneven_groups, unfilled_stages

    architecture, record = read_model(name)
    result = predicted(architecture, profile, deployment)
    warnings = (
        *told.warnings(architecture, deployment),
        *uneven_groups([(architecture, float(result.mapping.heads_split))]),
        *unfilled_stages(result),
    )
    notes = (*told.config_notes(architecture, record), *beyond(result))
    return told.Row(architecture.name, result, None, architecture, warnings, notes)


def _totals(asked: dict[str, Any], profile: Hardware, deployment: Deployment) -> Row:
    """A model known by its totals."""
    from archinfer.api.serving import predict_totals
    from archinfer.api.solving import family_rules
    from archinfer.report import predict_model as told
    from archinfer.report.warned import beyond, unfilled_stages

    found = predict_totals(asked, profile, deployment)
    known, rules = len(found.predictions) == 1, told.family_text(family_rules(asked))
    said = told.totals_notes(rules, deployment, None if known else bool(asked["layers"]))
    warnings = tuple(unfilled_stages(found.predictions[-1]))
    notes = (*said, *beyond(found.middle))
    return told.Row(
        found.middle.shape.name, found.middle, None if known else found, None, warnings, notes
    )
