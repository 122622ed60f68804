"""Write docs/json.md: every key of every JSON output, from what `archinfer schema` prints.

Run without arguments to rewrite the file, with --check to fail where it is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from archinfer.schemas import OUTPUTS, json_schema

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


NAMES = {"integer": "whole number", "number": "number", "string": "text", "null": "null",
         "boolean": "true or false"}  # fmt: skip


def kind(schema: dict[str, Any]) -> str:
    """The type of a key; records link to their table."""
    if "$ref" in schema:
        name = title(schema["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(kind(choice) for choice in schema["anyOf"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "prefixItems" in schema:
        return f"[{', '.join(kind(item) for item in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}"
    if schema.get("type") == "object":
        keys = kind(schema["propertyNames"]) if "propertyNames" in schema else "name"
        return f"mapping of {keys} to {kind(schema['additionalProperties'])}"
    return NAMES[schema["type"]]


def title(name: str) -> str:
    """Name of a record in the page."""
    return name.removesuffix("Output")


def table(schema: dict[str, Any]) -> str:
    """The keys of one record."""
    lines = ["| key | type | meaning |", "| --- | --- | --- |"]
    for name, key in schema["properties"].items():
        lines.append(f"| `{name}` | {kind(key)} | {key.get('description', '')} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    parts = [INTRO]
    shared: dict[str, dict[str, Any]] = {}
    for name, output in OUTPUTS.items():
        schema = json_schema(name)
        for record, keys in schema.get("$defs", {}).items():
            if shared.setdefault(record, keys) != keys:
                raise ValueError(f"two records are called {record}: one would hide the other")
        parts.append(f"## {name}\n\n`archinfer {output.command} --format json`.\n")
        parts.append(table(schema) if "properties" in schema else f"A {kind(schema)}.\n")
    parts.append("## Parts\n")
    for name in sorted(shared, key=title):
        text = shared[name].get("description", "")
        said = f"{text}\n\n" if text else ""
        parts.append(f"### {title(name)}\n\n{said}{table(shared[name])}")
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
