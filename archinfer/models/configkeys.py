"""A model config from a file that nobody vouches for: bounded, strict, every read recorded.

A config key may change a model's size, describe something else (rope, tokens, training), or be
a decoy: present, but unused by the maker's own code. `ConfigKeys` reads values strictly and
keeps the list; `leftovers` returns the keys that look like sizes and were neither read nor
declared as decoys.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from archinfer.errors import FileError, InputError, shorten
from archinfer.models.tables import harmless_keys, may_be_size

_MISSING: Any = object()

_SIZE_STRINGS = frozenset(
    {"moe_layers_enum", "hybrid_override_pattern", "index_topk_pattern", "layers_block_type"}
)
"""Keys that say which layer is what in a string."""

_NEUTRAL: tuple[Any, ...] = (None, False, 0, -1, "", [], {})


class ConfigKeys:
    """Strict, recorded access to one config object.

    Args:
        data: the config (or its text part).
        where: what to call it in messages.
    """

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data = data
        self.where = where
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._used: set[str] = set()

    def having(self, **values: Any) -> ConfigKeys:
        """The same with other values; what is read, told and warned of counts here too."""
        found = ConfigKeys({**self.data, **values}, self.where)
        found.warnings, found.notes, found._used = self.warnings, self.notes, self._used
        return found

    def refuse(self, message: str) -> InputError:
        """The error for something in this config."""
        return InputError(f"{self.where}: {message}")

    def must_be(self, name: str, expected: str, found: Any) -> InputError:
        """The error for a key whose value is not what is expected."""
        return self.refuse(f"{name} must be {expected}, found {brief(found)}")

    def has(self, *names: str) -> bool:
        """Whether any of the keys holds something other than null."""
        return any(self.data.get(n) is not None for n in names)

    def ignore(self, *names: str) -> None:
        """Declare decoys: keys that the maker's code does not use."""
        self._used.update(names)

    def raw(self, *names: str, default: Any = None) -> Any:
        """The value of the first key that is present; all of them count as read.

        Raises:
            InputError: two of the keys disagree.
        """
        found = [(n, self.data[n]) for n in names if self.data.get(n) is not None]
        self._used.update(names)
        if not found:
            return default
        for name, value in found[1:]:
            if value != found[0][1]:
                first, first_value = found[0]
                raise self.refuse(f"{first} is {brief(first_value)} but {name} is {brief(value)}")
        return found[0][1]

    def integer(self, *names: str, default: Any = _MISSING, low: int = 1) -> int:
        """A whole number, at least `low`, under any of these names.

        Raises:
            InputError: missing without a default, no whole number, or below `low`.
        """
        value = self.raw(*names)
        if value is None:
            if default is _MISSING:
                also = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
                raise self.refuse(f"key {names[0]}{also} is missing")
            return int(default)
        return self._whole(names, value, low)

    def _whole(self, names: tuple[str, ...], value: Any, low: int) -> int:
        name = next((n for n in names if self.data.get(n) is not None), names[0])
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(f"{name} must be a whole number, found {brief(value)}")
        if value < low:
            raise self.refuse(f"{name} must be at least {low}, found {brief(value)}")
        if value > 2**53:
            raise self.refuse(f"{name} is absurdly large: {brief(value)}")
        return value

    def optional(self, *names: str, low: int = 1) -> int | None:
        """A whole number, or None where the key is absent or null."""
        self._used.update(names)
        return self.integer(*names, low=low) if self.has(*names) else None

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self.raw(name, default=default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(f"{name} must be a number, found {brief(value)}")
        if not -1e300 < value < 1e300:
            raise self.refuse(f"{name} must be finite, found {brief(value)}")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.raw(*names, default=default)
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        name = next((n for n in names if self.has(n)), names[0])
        raise self.refuse(f"{name} must be true or false, found {brief(value)}")

    def only(self, name: str, *allowed: Any) -> None:
        """Refuse a key that holds something other than what its family's code is known for."""
        value = self.raw(name)
        if value is not None and not any(value is a or value == a for a in allowed):
            raise self.must_be(name, " or ".join(brief(a) for a in allowed), value)

    def whole_list(self, name: str, default: Any = None) -> list[int] | None:
        """A list of whole numbers, 0 or above, or None where the key is absent."""
        value = self.raw(name, default=default)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.must_be(name, "a list of whole numbers", value)
        return [self._whole((name,), item, 0) for item in value]

    def text(self, name: str, default: str = "") -> str:
        """A string."""
        value = self.raw(name, default=default)
        if not isinstance(value, str):
            raise self.refuse(f"{name} must be a string, found {brief(value)}")
        return value

    def per_layer(self, names: tuple[str, ...], layers: int, default: Any = _MISSING) -> list[int]:
        """A whole number for each layer: one number for all, or a list with one each."""
        value = self.raw(*names)
        if not isinstance(value, list):
            return [self.integer(*names, default=default, low=0)] * layers
        items = self.layer_list(names[0] if names[0] in self.data else names[-1], value, layers)
        return [self._whole(names, v, 0) for v in items]

    def layer_list(self, name: str, value: Any, layers: int, extra: int = 0) -> list[Any]:
        """A list with one entry per layer; up to `extra` more belong to other layers."""
        if not isinstance(value, list):
            raise self.refuse(f"{name} must be a list, found {brief(value)}")
        if not layers <= len(value) <= layers + extra:
            raise self.refuse(f"{name} has {len(value)} entries for {layers} layers")
        return value[:layers]

    def names_list(self, name: str, layers: int, extra: int = 0) -> list[str] | None:
        """A list of strings, one per layer, or None where the key is absent."""
        value = self.raw(name)
        if value is None:
            return None
        items = self.layer_list(name, value, layers, extra)
        for item in items:
            if not isinstance(item, str):
                raise self.refuse(f"{name} must hold strings, found {brief(item)}")
        return items

    def section(self, name: str) -> ConfigKeys | None:
        """A nested object as its own keys, or None where it is absent."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.must_be(name, "a mapping", value)
        shown = name if name.isidentifier() else shorten(name)
        return ConfigKeys(value, f"{self.where}: {shown}")

    def leftovers(self) -> list[str]:
        """Keys that look like sizes, hold something, and were neither read nor ignored."""
        return [
            name
            for name, value in self.data.items()
            if name not in self._used
            and name not in harmless_keys()
            and not name.startswith("_")
            and not any(value is n or value == n for n in _NEUTRAL)
            and (not isinstance(value, str) or name in _SIZE_STRINGS)
            and may_be_size(name)
        ]

    def check_leftovers(self, reader: str) -> None:
        """Refuse a key that looks like a size and that the code which reads this ignores."""
        names = self.leftovers()
        if names:
            shown = ", ".join(f"{n} = {str(self.data[n])[:30]}" for n in names[:4])
            raise self.refuse(
                f"key {shown} may change the size, and {reader} is not known to use it"
            )


def json_kind(value: Any) -> str:
    """What a value is, in words of JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, Mapping) else "a number"


def brief(value: Any) -> str:
    """A value for a message: at most 40 characters."""
    if value is None or isinstance(value, bool):
        return json_kind(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


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
