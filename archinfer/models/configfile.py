"""Reads one JSON object from a file that nobody vouches for: bounded, strict, one-line errors."""

from __future__ import annotations

import json
import math
import re
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from archinfer.errors import FileError
from archinfer.models.configkeys import json_kind

MAX_CONFIG_BYTES = 4_000_000
"""Real configs are below 200 kB; weights handed over by mistake are far above."""

MAX_CONFIG_NUMBER = 10**18
"""No size, count or token of a model comes near."""

MAX_CONFIG_DEPTH = 24
"""Real configs nest five or six levels."""


def _read_bytes(path: str, most: int) -> bytes:
    """At most `most` + 1 bytes of a file, or of standard input for `-`."""
    if path == "-":
        if sys.stdin is None:
            raise FileError("standard input", "is closed; expected a config.json")
        return sys.stdin.buffer.read(most + 1)
    try:
        with Path(path).open("rb") as file:
            return file.read(most + 1)
    except IsADirectoryError:
        raise FileError(path, "is a folder; expected a config.json") from None
    except FileNotFoundError:
        raise FileError(path, "no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(path, f"cannot be read: {reason}") from None


_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|([\[{])|[\]}]', re.DOTALL)
"""A string, to the end where it is not closed; a bracket that opens; one that closes."""


def _depth(text: str) -> int:
    """How deep brackets outside strings nest."""
    found = (m for m in _BRACKETS.finditer(text) if m[0][0] != '"')
    return max(accumulate(1 if m[1] else -1 for m in found), default=0)


def _read_text(path: str, shown: str, most_bytes: int) -> str:
    """The text of a file that may hold a JSON object."""
    data = _read_bytes(path, most_bytes)
    if len(data) > most_bytes:
        raise FileError(
            shown, f"is larger than {most_bytes / 1e6:g} MB; expected a model's config.json"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FileError(shown, "is not UTF-8 text; expected JSON", line) from None
    if not text.strip():
        raise FileError(shown, "is empty; expected a JSON object")
    if _depth(text) > MAX_CONFIG_DEPTH:
        raise FileError(shown, f"is nested deeper than {MAX_CONFIG_DEPTH} levels")
    return text


def read_json_object(path: str, most_bytes: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in `path` (`-`: standard input).

    `Infinity` is let through, since makers' files hold it (`time_step_limit` of Nemotron);
    whoever uses a number checks that it is finite. NaN and duplicate keys are refused.

    Raises:
        FileError: unreadable, larger than `most_bytes`, not UTF-8, not JSON, nested deeper
            than MAX_CONFIG_DEPTH, no object.
    """
    shown = "standard input" if path == "-" else path
    text = _read_text(path, shown, most_bytes)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            keys = [k for k, _ in items]
            twice = next(k for k in keys if keys.count(k) > 1)
            raise FileError(shown, f"key {twice!r} occurs twice in one object")
        for key, given in items:
            for one in given if isinstance(given, list) else (given,):
                if isinstance(one, int) and abs(one) >= MAX_CONFIG_NUMBER:
                    digits = len(str(abs(one)))
                    refuse(f"{key}: expected a number of a model, found one of {digits} digits")
        return found

    def constant(name: str) -> float:
        if name == "NaN":
            refuse("holds NaN, which is no number")
        return math.inf if name == "Infinity" else -math.inf

    def refuse(message: str, line: int | None = None) -> NoReturn:
        raise FileError(shown, message, line)

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        refuse(f"is not valid JSON: {error.msg} (column {error.colno})", error.lineno)
    except (RecursionError, ValueError) as error:
        reason = str(error).split(";", maxsplit=1)[0]
        refuse(f"is not usable JSON: {reason}")
    if not isinstance(value, dict):
        refuse(f"holds {json_kind(value)}; expected a mapping with a model's config")
    return value
