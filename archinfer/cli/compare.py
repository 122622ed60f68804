"""`archinfer compare`: known models on several machines, and how fast each machine could go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.cli.output import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archinfer.api.serving import Model
    from archinfer.forward.compare import Entry
    from archinfer.forward.deployments import Pareto


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
) -> Answer:
    """Compare hardware: speed for one user, nodes, what binds, power, and the speed ceiling.

    The ceiling is the fastest that one copy on any number of such nodes could go, and the term of a
    token's time that sets it. A model known by its totals: --total 3T --active 150B --layers 88.
    With --target also the fewest nodes and the cheapest deployment that meet it (archinfer pareto).
    --plot draws tokens/s of a user against tokens/s of a node. JSON: archinfer schema compare.
    """
    from archinfer.api.planning import pareto
    from archinfer.api.serving import compare as compare_models
    from archinfer.api.serving import models_of
    from archinfer.cli.output import warn
    from archinfer.forward.compare import HardwareComparison
    from archinfer.question import options
    from archinfer.report import compare as report
    from archinfer.report.pareto import pareto_chart

    wanted = models_of(models, asked)
    given = asked | dict.fromkeys(("total", "active", "layers"))
    target = given.pop("target")
    entries = compare_models(wanted, **given)

    def planned(model: Any) -> Pareto:
        shared = {name: given[name] for name in given.keys() & options("pareto").keys()}
        return pareto(model, **(shared | {"nodes": None, "target": target}))

    plans = tuple(map(planned, wanted)) if target is not None else ()
    for message in _warnings(wanted, entries):
        warn(message)

    def drawn() -> Pareto:
        return (plans or (planned(wanted[0]),))[0]

    return Answer(
        HardwareComparison(tuple(entries), plans),
        lambda _: report.document(entries, plans, drawn),
        lambda _: report.csv_rows(entries),
        lambda _: pareto_chart(drawn()),
    )


def _warnings(wanted: Sequence[Model], entries: Sequence[Entry]) -> Iterator[str]:
    """What was assumed of the models, and what their mappings leave idle."""
    from archinfer.models.architecture import Architecture
    from archinfer.report.warned import uneven_groups, unfilled_stages

    known = {model.name: model for model in wanted if isinstance(model, Architecture)}
    for name, model in known.items():
        yield from (f"{name}: {warning}" for warning in model.warnings)
    for entry in entries:
        messages = unfilled_stages(entry.prediction)
        if entry.model in known:
            group = float(entry.prediction.mapping.heads_split)
            messages = uneven_groups([(known[entry.model], group)]) + messages
        yield from (f"{entry.model} on {entry.hardware.name}: {message}" for message in messages)
