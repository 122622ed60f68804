"""What the parser of the command line refuses, in one line."""

from __future__ import annotations

import re
from typing import Any

import typer

from archinfer.errors import nearest, shorten

# Some versions of typer carry a click of their own, so its class is found by one that typer names.
ParserError: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)
"""Every error of the parser."""

INSTEAD = {
    "--model": "archinfer predict MODEL says how fast a model is, and solve --like MODEL takes its "
    "attention, vocabulary and formats",
    "--speed": "--tokens-per-second is a target, --observed a measurement",
    "--plot": "archinfer predict MODEL --plot FILE draws it",
    **{f"--{name}": f"--format {name}" for name in ("json", "csv", "markdown")},
}
"""What does what an option that is not there was meant for."""

_CHOICE = re.compile(r"'(.*)' is not one of (.*)")
_SHOULD = re.compile(r"^Input should be (an? )?(.*?)(, unable to parse.*)?$")


def describe(error: Any) -> str:
    """One line: what was found, the nearest valid word where there is one, where all are listed.

    Args:
        error: a `ParserError`.
    """
    context = getattr(error, "ctx", None)
    text, near = _said(error, context)
    text = f"{text[:1].lower()}{text[1:]}".rstrip(".")
    if near in INSTEAD.values():
        text += f"; {near}"
    elif near is not None:
        text += f"; did you mean {near!r}?"
    return text if context is None else f"{text} (see {context.command_path} --help)"


def _said(error: Any, context: Any) -> tuple[str, str | None]:
    """The text, and the nearest valid word."""
    unknown = getattr(error, "option_name", None)
    message = " ".join(error.format_message().split())
    if message.startswith("No such option") and unknown and context is not None:
        options = [o for p in context.command.get_params(context) for o in p.opts]
        better = INSTEAD.get(unknown) or nearest(unknown, options)
        return f"no such option {shorten(unknown)}", better
    if message.startswith("Got unexpected extra") and context and context.info_name == "solve":
        return message, INSTEAD["--model"]
    parameter = getattr(error, "param", None)
    if type(error) is not typer.BadParameter or parameter is None:
        return message.replace(". Did you mean", "; did you mean"), None
    option = max(parameter.opts, key=len)
    name = option if option.startswith("-") else parameter.metavar or parameter.name
    reason = " ".join(error.message.split()).removeprefix("Value error, ")
    reason = _SHOULD.sub(lambda m: f"expected {m[1] or 'a number '}{m[2]}", reason)
    refused = _CHOICE.search(reason)
    if refused is not None:
        choices = re.findall(r"'([^']*)'", refused[2])
        found = shorten(refused[1])
        text = f"{name}: expected {', '.join(choices[:-1])} or {choices[-1]}, found {found}"
        return text, nearest(refused[1], choices)
    return f"{name}: {reason[:1].lower()}{reason[1:]}", None
