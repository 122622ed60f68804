"""Writing result files: whole or not at all."""

from __future__ import annotations

import os
import tempfile

from archinfer.errors import FileError, InputError


def check_folder(option: str, path: str) -> None:
    """Refuse a folder that is not there and cannot be made in one that is.

    Raises:
        InputError: no name, the folder above is missing, or the path is a file.
    """
    if not path.strip():
        raise InputError(f"{option}: expected a folder, found {path!r}")
    if os.path.exists(path) and not os.path.isdir(path):
        raise InputError(f"{option}: {path!r} cannot be written: it is a file, expected a folder")
    above = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(above):
        raise InputError(f"{option}: there is no folder {above!r} to make {path!r} in")


def check_target(option: str, path: str) -> None:
    """Refuse a path that no file can be written to.

    Raises:
        InputError: no name, the folder is missing, or the path is a folder.
    """
    if not path.strip():
        raise InputError(f"{option}: expected a file, found {path!r}")
    if os.path.isdir(path):
        raise InputError(f"{option}: {path!r} is a folder, expected a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise InputError(f"{option}: there is no folder {folder!r} to write {path!r} in")


def write_atomic(path: str, content: bytes) -> None:
    """Write `content` to `path`, replacing what is there; on failure what was there stays.

    Raises:
        FileError: the system refuses.
    """
    made = ""
    try:
        # A link keeps pointing: its target is what gets replaced.
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        handle, made = tempfile.mkstemp(dir=folder, prefix=".archinfer-")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(made, _mode(target))
        os.replace(made, target)
    except BaseException as error:
        # An interruption, too, leaves nothing behind.
        if made and os.path.exists(made):
            os.unlink(made)
        if isinstance(error, OSError):
            raise FileError(path, f"cannot be written: {error.strerror or error}") from None
        raise


def _mode(target: str) -> int:
    try:
        return os.stat(target).st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
