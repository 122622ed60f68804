"""Every exception that archinfer raises on purpose.

ArchinferError
├── InputError          something the user wrote is wrong: one line, exit code 2
│   ├── UnitError       a quantity or range that cannot be read
│   ├── FileError       a file: carries path and line
│   └── UnknownNameError  a name that is not known: carries the nearest valid ones
└── MeasurementError    this machine could not be measured well enough to trust the result
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ArchinferError",
    "FileError",
    "InputError",
    "MeasurementError",
    "UnitError",
    "UnknownNameError",
    "nearest",
    "shorten",
]


class ArchinferError(Exception):
    """Base of all archinfer exceptions; `str()` is one line fit for a terminal."""


class InputError(ArchinferError):
    """Something the user wrote is wrong."""


class UnitError(InputError):
    """A quantity, unit or range that cannot be read."""


class FileError(InputError):
    """A file that cannot be used.

    Args:
        path: the file, as the user named it.
        message: what was found and what was expected.
        line: 1-based line, or None where there is none (an unreadable file).
    """

    def __init__(self, path: object, message: str, line: int | None = None) -> None:
        self.path = str(path)
        self.line = line
        self.message = message
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {message}")


class UnknownNameError(InputError):
    """A name that is not in the list of those that are known."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        self.nearest = nearest(name, self.known)
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        super().__init__(f"unknown {kind} {name!r}{hint} (known: {', '.join(self.known)})")


class MeasurementError(ArchinferError):
    """This machine was too noisy, or too small, for a measurement worth printing."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, or None where none is close."""
    lowered = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def shorten(found: object, most: int = 60) -> str:
    """`repr` of what the user wrote, cut to `most` characters."""
    text = repr(found)
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"
