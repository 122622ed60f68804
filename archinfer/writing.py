"""Writing result files: whole or not at all, and never in place of what is no file."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence

from archinfer.errors import FileError, InputError


def check_folder(option: str, path: str) -> None:
    """Refuse a folder that is not there and cannot be made in one that is.

    Raises:
        InputError: no name, the folder above is missing, or the path is a file.
    """
    if not path.strip():
        raise InputError(f"{option}: expected a folder, found {path!r}")
    if os.path.lexists(path) and not os.path.isdir(path):
        raise InputError(f"{option}: {path!r} cannot be written: it is a file, expected a folder")
    above = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(above):
        raise InputError(f"{option}: there is no folder {above!r} to make {path!r} in")


def check_target(option: str, path: str) -> None:
    """Refuse a path that no file can be written to.

    Raises:
        InputError: no name, the folder is missing, or there is something that takes no text.
    """
    if not path.strip():
        raise InputError(f"{option}: expected a file, found {path!r}")
    kind = _kind(path)
    if stat.S_ISDIR(kind):
        raise InputError(f"{option}: {path!r} is a folder, expected a file")
    if stat.S_ISBLK(kind) or stat.S_ISSOCK(kind):
        raise InputError(f"{option}: {path!r} is a disk or a socket, expected a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise InputError(f"{option}: there is no folder {folder!r} to write {path!r} in")


def write(path: str, content: bytes, replace: bool = True) -> None:
    """Write `content` to `path`, replacing a file that is there; on failure it stays.

    A character device or a pipe is written through.

    Args:
        path: the file.
        content: all of it.
        replace: whether a file that is there may go.

    Raises:
        FileError: the system refuses, or there is a file that must stay.
    """
    write_all([(path, content)], replace)


def write_all(files: Sequence[tuple[str, bytes]], replace: bool = True) -> None:
    """As `write` of several files; folders that are missing are made.

    Each goes to a temporary file first; then all are renamed into place.
    """
    waiting: list[tuple[str, str]] = []
    made: list[str] = []
    path = ""
    try:
        for path, content in files:
            if stat.S_ISCHR(_kind(path)) or stat.S_ISFIFO(_kind(path)):
                _through(path, content)
                continue
            # A link keeps pointing: its target is what gets replaced.
            target = os.path.realpath(path)
            made += _made_folders(os.path.dirname(target))
            handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".archinfer-")
            waiting.append((temporary, target))
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, _mode(target))
        while waiting:
            path = waiting[0][1]
            if replace:
                os.replace(*waiting[0])
                waiting.pop(0)
            else:
                os.link(*waiting[0])
                os.unlink(waiting.pop(0)[0])
        made.clear()
    except OSError as error:
        if waiting and not replace and isinstance(error, FileExistsError):
            raise FileError(path, "exists already and is not overwritten") from None
        raise FileError(path, f"cannot be written: {error.strerror or error}") from None
    finally:
        # An interruption, too, leaves nothing behind.
        for temporary, _ in waiting:
            os.unlink(temporary)
        for folder in reversed(made):
            if not os.listdir(folder):
                os.rmdir(folder)


def _kind(path: str) -> int:
    """Mode of what is at `path`; that of a file where nothing is."""
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return stat.S_IFREG


def _through(path: str, content: bytes) -> None:
    # Without waiting for someone to read a pipe.
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _made_folders(folder: str) -> list[str]:
    """Make a folder and those above it; returns the new ones, outermost first."""
    missing = []
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        missing.append(folder)
        folder = os.path.dirname(folder)
    for name in reversed(missing):
        os.mkdir(name)
    return missing[::-1]


def _mode(target: str) -> int:
    try:
        return os.stat(target).st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
