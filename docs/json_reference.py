"""Write docs/json.md: every key of every JSON output, from the models behind `archinfer schema`.

Run without arguments to rewrite the file, with --check to fail where it is out of date.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, RootModel

from archinfer.schemas import OUTPUTS

PAGE = Path(__file__).resolve().parent / "json.md"

INTRO = """\
# JSON outputs

Every command with a table prints the same as JSON with `--format json`: one document on standard
output, nothing else; warnings go to standard error.

* Keys stay, with their meaning and unit. New keys may be added: ignore those you do not know.
* The name of a quantity ends in its unit (`_bytes`, `_s`, `_per_s`, `_tokens`); parameters are
  counts. Numbers are not rounded.
* What is unknown, infinite or does not exist is `null`; there is no NaN.
* `p05`, `p25`, `p50`, `p75`, `p95` are quantiles.
* Counts: `active` is all parameters minus the routed experts that a token does not use (embedding
  and head are in); layers for multi-token prediction are not counted.
* Exit codes: 0 an answer (also "nothing is feasible"), 1 a check failed, 2 wrong input.

`archinfer schema NAME` prints the JSON Schema (draft 2020-12) of each; the tests hold the schemas
against what the commands print.

This page is written by `python docs/json_reference.py`.
"""


def kind(annotation: Any) -> str:
    """The type of a key, as JSON has it; models link to their table."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(kind(a) for a in arguments)
    if origin is Literal:
        return " or ".join(f"`{a}`" for a in arguments)
    if origin is list:
        return f"list of {kind(arguments[0])}"
    if origin is tuple:
        return f"[{', '.join(kind(a) for a in arguments)}]"
    if origin is dict:
        keys = "name" if arguments[0] is str else kind(arguments[0])
        return f"mapping of {keys} to {kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{title(annotation)}](#{title(annotation).lower()})"
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    return "null" if annotation is type(None) else names[annotation]


def title(model: type[BaseModel]) -> str:
    """Name of a model in the page."""
    return (
        model.__name__.removesuffix("Output") if model not in OUTPUTS.values() else model.__name__
    )


def inner(annotation: Any) -> Iterator[type[BaseModel]]:
    """Models inside an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from inner(argument)


def table(model: type[BaseModel]) -> str:
    """The keys of one model."""
    lines = ["| key | type | meaning |", "| --- | --- | --- |"]
    for name, field in model.model_fields.items():
        cells = [f"`{field.alias or name}`", kind(field.annotation), field.description or ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    parts = [INTRO]
    shared: list[type[BaseModel]] = []

    def visit(model: type[BaseModel]) -> None:
        for field in model.model_fields.values():
            for found in inner(field.annotation):
                if found not in shared:
                    shared.append(found)
                    visit(found)

    for name, model in OUTPUTS.items():
        parts.append(f"## {name}\n\n{(model.__doc__ or '').strip()}\n")
        if issubclass(model, RootModel):
            parts.append(f"A {kind(model.model_fields['root'].annotation)}.\n")
        else:
            parts.append(table(model))
        visit(model)
    parts.append("## Parts\n")
    for model in sorted(shared, key=title):
        text = (model.__doc__ or "").strip()
        said = f"{text}\n\n" if text and not text.startswith("!!!") else ""
        parts.append(f"### {title(model)}\n\n{said}{table(model)}")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or compare it."""
    new = page()
    if "--check" in sys.argv[1:]:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == new
        if not same:
            print("docs/json.md is out of date: python docs/json_reference.py", file=sys.stderr)
        return 0 if same else 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
