"""Every exception that archinfer raises on purpose.

ArchinferError
├── InputError          something the user wrote is wrong: one line, exit code 2
│   ├── UnitError       a quantity or range that cannot be read
│   ├── TooWideError    a question with more cases than are looked at
│   ├── FileError       a file: carries path and line, and what else is wrong with it
│   └── UnknownNameError  a name that is not known: carries the nearest valid ones
└── MeasurementError    this machine could not be measured well enough to trust the result
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence


class ArchinferError(Exception):
    """Base of all archinfer exceptions; `str()` is one line fit for a terminal."""

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(ArchinferError):
    """Something the user wrote is wrong."""

    further: tuple[FileError, ...] = ()
    """Other faults of the same file."""


class TooWideError(InputError):
    """A question with more cases than are looked at."""


class UnitError(InputError):
    """A quantity, unit or range that cannot be read; `why`: what is wrong with it, if it is one."""

    why = ""


_PATH_MOST = 400
"""Characters of a path up to which a message shows all of it."""


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
        shown = self.path
        if len(shown) > _PATH_MOST:
            shown = f"{shown[: _PATH_MOST // 2]}...{shown[-_PATH_MOST // 4 :]}"
        where = shown if line is None else f"{shown}:{line}"
        super().__init__(f"{where}: {message}")


class UnknownNameError(InputError):
    """A name that is not in the list of those that are known.

    Args:
        kind: of thing.
        name: what was asked for.
        known: every valid name.
        listing: the command that lists them, where they are too many for a line.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str], listing: str | None = None
    ) -> None:
        self.name = name
        self.known = sorted(known)
        close = closest(name, self.known, 1 if listing is None else 3)
        self.nearest = close[0] if close else None
        hint = f"; did you mean {either(close)}?" if close else ""
        all_of_them = (
            f"known: {', '.join(self.known)}"
            if listing is None
            else f"{listing} has all {len(self.known)}"
        )
        super().__init__(f"unknown {kind} {shorten(name)}{hint} ({all_of_them})")


class MeasurementError(ArchinferError):
    """This machine was too noisy, or too small, for a measurement worth printing."""


def printable(text: str) -> str:
    """The text in one line: control characters and breaks of lines as Python would write them."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, or None where none is close."""
    found = closest(name, known, 1)
    return found[0] if found else None


def closest(name: str, known: Iterable[str], most: int) -> Sequence[str]:
    """Up to `most` known names close to `name`; those that begin with it go before others."""
    lowered = {k.lower(): k for k in known}
    wanted = re.sub(r"[\s_]+", "-", name.strip().lower())
    begun = [k for k in lowered if most > 1 and wanted and k.startswith(wanted)]
    found = begun[:most] or difflib.get_close_matches(name.lower(), lowered, n=most, cutoff=0.6)
    return [lowered[k] for k in found]


def foreign_digit(text: object) -> str:
    """What to say of the first digit in `text` that is none of 0 to 9; "" where there is none.

    >>> foreign_digit("8\uff18"), foreign_digit("88")
    ("; '\uff18' is no digit from 0 to 9", '')
    """
    found = next((c for c in str(text) if c.isdigit() and not c.isascii()), None)
    return "" if found is None else f"; {found!r} is no digit from 0 to 9"


def either(names: Sequence[str]) -> str:
    """'a', 'b' or 'c'."""
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last


def shorten(found: object, most: int = 60) -> str:
    """`repr` of what the user wrote, on one line and cut to `most` characters."""
    text = " ".join(repr(found).split())
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"
