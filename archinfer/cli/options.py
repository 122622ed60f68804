"""Options of commands, made from the table of what can be asked."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Annotated, Any, get_type_hints

import typer

from archinfer.asking import Ask, Use
from archinfer.cli.output import (
    Answer,
    Format,
    FormatOption,
    PlotOption,
    ReportOption,
    check_targets,
    show,
)
from archinfer.errors import FileError, InputError
from archinfer.question import ASKS, options

_MANY = list[str] | None
TYPES: dict[str, Any] = {"flag": bool, "switch": bool, "pairs": _MANY, "several": _MANY}
"""Types of options that are not texts."""

SHOWN: dict[str, tuple[Any, Any]] = {
    "plot": (PlotOption, None),
    "report": (ReportOption, None),
    "form": (FormatOption, Format.table),
}
"""Options of every command that returns an answer, with their defaults."""


def with_options(command: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with every option that it takes in the table; one without `asked` as it is.

    The function gets the texts of those options as its first argument, by name, and its own
    parameters after it; the answer that it returns goes where --plot, --report and --format say.
    Messages that begin with the name of an entry name the option instead.
    """
    if "asked" not in inspect.signature(function).parameters:
        return function
    table = options(command)
    hints = get_type_hints(function, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    parameters = [_parameter(name, ask, use) for name, (ask, use) in table.items()]
    parameters += [p.replace(annotation=hints[p.name], kind=p.KEYWORD_ONLY) for p in own]
    if hints["return"] is Answer:
        parameters += [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
            for name, (kind, default) in SHOWN.items()
        ]

    def called(**given: Any) -> None:
        asked = {name: given.pop(name) for name in table}
        form, plot, report = (given.pop(name, None) for name in ("form", "plot", "report"))
        files = asked | {"emit": given.get("emit"), "plot": plot, "report": report}
        try:
            for name, (ask, _) in table.items():
                if asked[name] is not None:
                    asked[name] = ask.early(name, asked[name])
            check_targets(plot, report)
            answer = function(asked, **given)
            if answer is not None:
                show(answer, form, plot, report)
        except FileError as error:
            named = [_flag(name) for name, value in files.items() if _names(value, error.path)]
            if error.line is not None or not named:
                raise
            raise InputError(f"{named[0]}: {error}") from None
        except InputError as error:
            raise InputError(_as_options(str(error))) from None

    called.__doc__ = function.__doc__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called


def _names(value: Any, path: str) -> bool:
    """Whether an option names a file, or the folder that it is in."""
    paths = (path, *map(str, PurePath(path).parents))
    return isinstance(value, str) and any(one in paths for one in value.split(","))


def _parameter(name: str, ask: Ask, use: Use) -> inspect.Parameter:
    """One option as typer reads it from a signature."""
    kind, default = TYPES.get(ask.form, str), use.default
    if ask.form == "integer" and default is not None:
        default = str(default)
    if default is None and ask.form not in TYPES:
        kind |= None
    flags = map(_flag, (name, *ask.also))
    option = typer.Option(
        *(f"{flag}/--no{flag[1:]}" if ask.form == "switch" else flag for flag in flags),
        metavar="INTEGER" if ask.form == "integer" else ask.metavar,
        help=use.help,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _as_options(message: str) -> str:
    """A message about arguments as one about options."""
    first = re.match(r"\w+(?=[: ])", message)
    if first is None or first[0] not in ASKS:
        return message
    rest = re.sub(
        r"\b[a-z]+(_[a-z]+)+\b",
        lambda m: _flag(m[0]) if m[0] in ASKS else m[0],
        message[first.end() :],
    )
    return f"{_written(first[0])}{rest}"


def _written(name: str) -> str:
    """The option by which an entry was given on the command line, by its usual name if by none."""
    flags = [_flag(n) for n in (name, *ASKS[name].also)]
    words = {word.partition("=")[0] for word in sys.argv[1:]}
    return next((flag for flag in flags if flag in words), flags[0])
