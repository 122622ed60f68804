"""Strict YAML: plain data with exact line numbers, or one line that says what is wrong and where.

The accepted language is small on purpose: one UTF-8 document of mappings, lists and scalars.
Anchors, aliases, tags and merge keys are refused; only `true` and `false` are booleans (`on` and
`yes` stay text), `1:30` and dates stay text, and no number is infinite or NaN. Limits on size,
depth and number of values are checked while the file is read, so that a hostile file costs no
more than an honest one.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import yaml

from archinfer.errors import FileError, InputError

Location: TypeAlias = tuple[str | int, ...]

_MAX_DEPTH: Final = 40
_MAX_VALUES: Final = 50_000
_MAX_DIGITS: Final = 300
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.?(nan|inf|infinity)", re.IGNORECASE)
_LEADING_TAB: Final = re.compile(rb"^[ ]*\t", re.MULTILINE)
# U+0085, U+2028 and U+2029 end a line for YAML but for no editor: line numbers would be wrong.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Document:
    """One YAML document."""

    path: str
    """the file, as the user named it"""
    data: Any
    """dicts, lists, str, int, float, bool and None"""
    lines: dict[Location, int]
    """1-based line of each key and list item, by its location in `data`"""

    def line_of(self, location: Location) -> int:
        """1-based line of the key or item at `location`, or of its nearest known parent."""
        for end in range(len(location), 0, -1):
            if location[:end] in self.lines:
                return self.lines[location[:end]]
        return self.lines.get((), 1)

    def error(self, location: Location, message: str) -> FileError:
        """A FileError at `location`, ready to raise."""
        return FileError(self.path, message, self.line_of(location))


class Faults(list[FileError]):
    """Faults of one document, to be told all at once."""

    @contextmanager
    def at(self, document: Document, location: Location) -> Iterator[None]:
        """Takes up what goes wrong within, at the location unless it names another."""
        try:
            yield
        except InputError as error:
            if not isinstance(error, FileError) or error.path != document.path:
                error = document.error(location, str(error))
            self.append(error)

    @property
    def together(self) -> FileError:
        """The first, with all further ones."""
        self[0].further = tuple(self[1:])
        return self[0]

    def tell(self) -> None:
        """Raises them where there are any."""
        if self:
            raise self.together


def load(path: str | os.PathLike[str], max_bytes: int = 1_000_000) -> Document:
    """Reads one YAML file.

    Raises:
        FileError: anything that is not one plain document of at most `max_bytes`; `line` is set
            wherever there is one.
    """
    name = os.fspath(path)
    given = text(name, max_bytes)
    try:
        return _Builder(name).build(yaml.parse(given, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or error.context or "not YAML"
        raise FileError(name, f"not YAML: {message}", mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        first = (str(error).splitlines() or ["unreadable"])[0]
        raise FileError(name, f"not YAML: {first}") from None


def text(path: str | os.PathLike[str], max_bytes: int = 1_000_000) -> str:
    """The text of one UTF-8 file; raises FileError as `load`."""
    name = os.fspath(path)
    return _decode(name, _read(name, max_bytes))


def show(found: object) -> str:
    """What was found, on one line and not longer than a message can bear."""
    if isinstance(found, dict):
        return "a mapping"
    if isinstance(found, list):
        return "a list"
    if found is None:
        return "nothing"
    if isinstance(found, bool):
        return "true" if found else "false"
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"


def _read(name: str, max_bytes: int) -> bytes:
    try:
        info = os.stat(name)
        if stat.S_ISDIR(info.st_mode):
            raise FileError(name, "is a directory; expected a YAML file")
        if not stat.S_ISREG(info.st_mode):
            raise FileError(name, "is not a regular file; expected a YAML file")
        if info.st_size > max_bytes:
            raise FileError(name, f"has {info.st_size} bytes; expected at most {max_bytes}")
        with open(name, "rb") as file:
            raw = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise FileError(name, "no such file") from None
    except OSError as error:
        raise FileError(name, f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise FileError(repr(name), "is not a file name") from None
    if len(raw) > max_bytes:
        raise FileError(name, f"has more than {max_bytes} bytes")
    return raw


def _decode(name: str, raw: bytes) -> str:
    if not raw.strip():
        raise FileError(name, "is empty; expected a YAML document")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(name, "is UTF-16 or UTF-32; expected UTF-8 (iconv converts it)", 1)
    if raw.startswith(b"\xef\xbb\xbf"):
        raise FileError(name, "starts with a byte-order mark; expected plain UTF-8", 1)

    def line_at(offset: int) -> int:
        return raw.count(b"\n", 0, offset) + 1

    if b"\0" in raw:
        found = "contains a NUL byte: binary, or UTF-16 without its mark; expected UTF-8 text"
        raise FileError(name, found, line_at(raw.index(b"\0")))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} is not UTF-8; expected UTF-8 text"
        raise FileError(name, found, line_at(error.start)) from None
    if name.endswith(".csv"):
        # What spreadsheets write, and RFC 4180 says.
        text = text.replace("\r\n", "\n")
    if "\r" in text:
        found = "has CRLF line ends; expected LF (`sed -i 's/\\r$//' FILE` or dos2unix converts it)"
        raise FileError(name, found, line_at(raw.index(b"\r")))
    control = _CONTROL.search(text)
    if control:
        found = f"{show(control.group())}: a control character; expected printable text"
        raise FileError(name, found, text.count("\n", 0, control.start()) + 1)
    tab = _LEADING_TAB.search(raw)
    if tab:
        raise FileError(name, "a tab in the indentation; expected spaces", line_at(tab.start()))
    return text


@dataclass
class _Open:
    """A collection whose end has not come yet."""

    location: Location
    value: dict[str | int, Any] | list[Any]
    key: str | int | None = None


class _Builder:
    """Builds data from parser events, without recursion."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: dict[Location, int] = {}
        self.stack: list[_Open] = []
        self.root: Any = None
        self.documents = 0
        self.values = 0

    def build(self, events: Iterator[yaml.Event]) -> Document:
        for event in events:
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.DocumentStartEvent):
                self.documents += 1
                if self.documents > 1:
                    self.refuse(line, "a second document starts here; expected one")
            elif isinstance(event, yaml.AliasEvent):
                self.refuse(line, f"alias {show(f'*{event.anchor}')}; aliases are not supported")
            elif isinstance(event, yaml.NodeEvent):
                self.node(event, line)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.stack.pop()
        if not self.documents:
            raise FileError(self.path, "is empty; expected a YAML document")
        return Document(self.path, self.root, self.lines)

    def node(self, event: yaml.NodeEvent, line: int) -> None:
        self.values += 1
        if self.values > _MAX_VALUES:
            self.refuse(line, f"more than {_MAX_VALUES} values")
        if event.anchor is not None:
            self.refuse(line, f"anchor {show(f'&{event.anchor}')}; anchors are not supported")
        tag = getattr(event, "tag", None)
        if tag is not None:
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            self.refuse(line, f"tag {show(shown)}; tags are not supported")
        if isinstance(event, yaml.ScalarEvent):
            if self.wants_key():
                self.add_key(event, line)
            else:
                self.add(self.scalar(event, line), line)
            return
        if self.wants_key():
            self.refuse(line, "a mapping or list as a key; expected a name")
        if len(self.stack) >= _MAX_DEPTH:
            self.refuse(line, f"nested deeper than {_MAX_DEPTH} levels")
        value: dict[str | int, Any] | list[Any]
        value = {} if isinstance(event, yaml.MappingStartEvent) else []
        location = self.add(value, line)
        self.stack.append(_Open(location, value))

    def wants_key(self) -> bool:
        return bool(
            self.stack and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None
        )

    def add_key(self, event: yaml.ScalarEvent, line: int) -> None:
        top = self.stack[-1]
        if event.value == "<<" and not event.style:
            self.refuse(line, "merge key '<<'; merge keys are not supported")
        key = self.scalar(event, line)
        if isinstance(key, bool) or not isinstance(key, str | int) or key == "":
            self.refuse(line, f"key {show(key)}; expected a name")
        location = (*top.location, key)
        if location in self.lines:
            first = self.lines[location]
            self.refuse(line, f"duplicate key {show(key)} (first on line {first})")
        self.lines[location] = line
        top.key = key

    def add(self, value: Any, line: int) -> Location:
        if not self.stack:
            self.root = value
            self.lines[()] = line
            return ()
        top = self.stack[-1]
        if isinstance(top.value, list):
            location = (*top.location, len(top.value))
            top.value.append(value)
            self.lines[location] = line
            return location
        assert top.key is not None
        location = (*top.location, top.key)
        top.value[top.key] = value
        top.key = None
        return location

    def scalar(self, event: yaml.ScalarEvent, line: int) -> str | int | float | bool | None:
        text: str = event.value
        if _CONTROL.search(text):
            self.refuse(line, f"{show(text)}: a control character; expected printable text")
        if event.style:  # quoted or block: text, whatever it looks like
            return text
        if text in ("", "~", "null"):
            return None
        if text in ("true", "false"):
            return text == "true"
        if _NOT_FINITE.fullmatch(text):
            self.refuse(line, f"{show(text)}: expected a finite number (or quoted text)")
        if _FLOAT.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                self.refuse(line, f"a number of {len(text)} characters")
            if _INTEGER.fullmatch(text):
                return int(text)
            if not math.isfinite(float(text)):
                self.refuse(line, f"{show(text)}: expected a finite number")
            # A leading zero is octal to some readers and decimal to others: leave it as text.
            return text if re.match(r"[-+]?0[0-9]", text) else float(text)
        return text

    def refuse(self, line: int, message: str) -> NoReturn:
        raise FileError(self.path, message, line)
