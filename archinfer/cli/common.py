"""What several commands share: output formats, JSON, reading of options."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.cli.output import plain_value, print_json, warn
from archinfer.question import NODES_MOST, WHOLE_MOST

if TYPE_CHECKING:
    from archinfer.forward.prediction import Prediction
    from archinfer.hardware.profile import Hardware
    from archinfer.models.architecture import Architecture
    from archinfer.physics.mapping import Layout

__all__ = [
    "DEFAULT_SPECULATION",
    "NODES_MOST",
    "Concurrency",
    "Context",
    "Format",
    "FormatOption",
    "KvFormat",
    "MappingOption",
    "ModelWeights",
    "SetFigures",
    "hardware_with",
    "print_csv",
    "print_json",
    "print_markdown",
    "read_count",
    "read_mapping",
    "read_range",
    "read_speculation",
    "read_totals",
    "read_whole",
    "read_whole_range",
    "uneven_groups",
    "unfilled_stages",
    "warn",
]


class Format(StrEnum):
    """Output formats."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


DEFAULT_SPECULATION = "1:3"
"""Accepted tokens a pass where nobody says them."""

Context = Annotated[str, typer.Option(help="Tokens of context (128k = 128,000).")]
Concurrency = Annotated[str, typer.Option(help="Users served at once.")]
KvFormat = Annotated[str, typer.Option(help="KV-cache format.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]
ModelWeights = Annotated[
    str | None,
    typer.Option(help="Weight format. Default: the one the model comes in (bf16 for --total)."),
]
MappingOption = Annotated[
    str | None,
    typer.Option(
        help="Nodes that share a layer and pipeline stages, as tp=8,pp=2. Default: the "
        "fastest that fits."
    ),
]
SetFigures = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a figure of the profile, as link.latency='2 us'.",
    ),
]


def print_csv(headings: list[str], rows: list[list[Any]]) -> None:
    """A table as CSV on standard output; unknown values are empty."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([["" if plain_value(v) is None else v for v in row] for row in rows])


def print_markdown(headings: list[str], rows: list[list[Any]]) -> None:
    """A table as Markdown on standard output."""

    def line(cells: list[Any]) -> str:
        return "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"

    typer.echo(line(headings))
    typer.echo(line(["---"] * len(headings)))
    for row in rows:
        typer.echo(line(row))


def read_count(option: str, text: str, dimension: str = "count") -> float:
    """The number that an option holds; UnitError names the option."""
    from archinfer.errors import UnitError
    from archinfer.units import parse

    try:
        return parse(text, dimension)
    except UnitError as error:
        raise UnitError(f"{option}: {error}") from None


def read_whole(option: str, text: str, dimension: str, most: int = WHOLE_MOST) -> int:
    """A whole number from 1 to `most`; InputError names the option."""
    from archinfer.errors import InputError

    value = read_count(option, text, dimension)
    if value != int(value) or not 1 <= value <= most:
        unlimited = most == WHOLE_MOST and value <= most
        limit = "of at least 1" if unlimited else f"between 1 and {most:,}"
        raise InputError(f"{option}: expected a whole number {limit}, found {text!r}")
    return int(value)


def read_range(
    option: str, text: str | None, dimension: str = "count", lowest: float = 0.0
) -> tuple[float, float]:
    """The range that an option holds, open (0, inf) where it was not given."""
    from archinfer.errors import UnitError
    from archinfer.units import parse_range

    if text is None:
        return (0.0, math.inf)
    try:
        return parse_range(text, dimension, lowest)
    except UnitError as error:
        raise UnitError(f"{option}: {error}") from None


def read_speculation(text: str, drafts: int = 0) -> tuple[float, float]:
    """The accepted tokens a pass that --speculation holds; InputError names the option."""
    from archinfer.errors import InputError
    from archinfer.question import check_accepted

    low, high = read_range("--speculation", text, "accepted", lowest=1.0)
    try:
        check_accepted(low, high, drafts)
    except InputError as error:
        raise InputError(f"--{error}") from None
    return low, high


def read_whole_range(option: str, text: str, most: int) -> tuple[int, int]:
    """A range of whole numbers >= 1; an open end is `most`."""
    from archinfer.errors import InputError

    low, high = read_range(option, text, "whole", lowest=1.0)
    high = float(most) if math.isinf(high) else high
    if low != int(low) or high != int(high):
        raise InputError(f"{option}: expected whole numbers such as 88 or 70:100, found {text!r}")
    if not 1 <= low <= high:
        raise InputError(f"{option}: expected at least 1, found {text!r}")
    if high > most:
        raise InputError(f"{option}: expected at most {most:,}, found {text!r}")
    return int(low), int(high)


def read_totals(total: str, active: str | None) -> tuple[float, float]:
    """The total and active parameters that --total and --active hold; no --active: all of them.

    Raises:
        InputError: nothing, or more active than there are; names the option.
    """
    from archinfer.errors import InputError
    from archinfer.words import compact

    size = read_count("--total", total)
    if size <= 0.0:
        raise InputError(f"--total: expected more than 0, found {total!r}")
    used = size if active is None else read_count("--active", active)
    if not 0.0 < used <= size:
        raise InputError(
            f"--active: expected more than 0 and at most the total ({compact(size)}), "
            f"found {active!r}"
        )
    return size, used


def read_mapping(text: str, spatial: bool) -> Layout:
    """The mapping that --mapping holds; InputError names the option."""
    from archinfer.errors import InputError
    from archinfer.physics.mapping import read_layout

    try:
        return read_layout(text, spatial)
    except InputError as error:
        raise InputError(f"--{error}") from None


def uneven_groups(placed: Iterable[tuple[Architecture, float]]) -> list[str]:
    """What to say of groups of nodes that cannot share the heads of their model evenly.

    Args:
        placed: models, and how many nodes share each of their layers.

    Returns:
        One text for each size of such a group.
    """
    heads: dict[int, set[int]] = {}
    for architecture, group in placed:
        heads.setdefault(round(group), set()).update(architecture.uneven_heads(round(group)))
    return [
        f"{' or '.join(map(str, sorted(found)))} heads do not divide by tp={group}, which vLLM and "
        "TensorRT-LLM refuse: the figures are those of an even split"
        for group, found in sorted(heads.items())
        if found
    ]


def unfilled_stages(result: Prediction) -> list[str]:
    """What to say of a mapping with more stages than its model's whole layers fill."""
    layout, layers = result.deployment.layout, float(result.shape.layers)
    if layout is None:
        return []
    filled = int(result.mapping.stages(layers))
    if filled >= layout.stages:
        return []
    return [
        f"{layers:.0f} whole layers, spread evenly, fill {filled:,} of the {layout.stages:,} "
        f"stages of {layout.text}"
    ]


def hardware_with(name: str, changes: list[str]) -> tuple[Hardware, tuple[str, ...]]:
    """A profile with figures set by hand.

    Args:
        name: of a shipped profile, or a path.
        changes: "key=value" each.

    Returns:
        The profile, and the changes as they were understood.

    Raises:
        InputError: not of the form key=value, or a value that does not fit.
        UnknownNameError: no such profile or figure.
    """
    from archinfer.errors import InputError
    from archinfer.hardware.profile import Hardware

    hardware = Hardware.load(name)
    made: dict[str, str] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InputError(
                f"--set: expected KEY=VALUE such as 'link.latency=2 us', found {change!r}"
            )
        key, value = key.strip().removeprefix("constants."), value.strip()
        if key in made:
            raise InputError(f"--set: {key} is set twice, to {made[key]!r} and to {value!r}")
        hardware = hardware.with_value(key, value)
        made[key] = value
    return hardware, tuple(f"{key} = {value}" for key, value in made.items())
