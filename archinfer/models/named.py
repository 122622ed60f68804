"""A model by its name in the catalogue or by the path of its config."""

from __future__ import annotations

import os

from archinfer.errors import FileError, InputError, UnknownNameError
from archinfer.models import catalogue
from archinfer.models.architecture import Architecture
from archinfer.models.catalogue import Entry
from archinfer.models.huggingface import load_architecture


def read_model(name: str) -> tuple[Architecture, Entry | None]:
    """A model by catalogue name, or from a config.json by its path or that of its folder.

    `-` is standard input. A folder without the file may still be named like a model.

    Raises:
        UnknownNameError: neither a file nor a name of the catalogue.
        FileError, InputError: a folder without config.json, a config that cannot be used.
    """
    if not name.strip():
        raise InputError(f"expected the name of a model or a config.json, found {name!r}")
    # These say no, where pathlib raises, to a name that is too long for a file.
    folder = name != "-" and os.path.isdir(name)
    inside = os.path.join(name, "config.json")
    if folder and os.path.isfile(inside):
        name = inside
    looks_like_path = name == "-" or name.endswith(".json") or os.path.isfile(name)
    if looks_like_path:
        return load_architecture(name), None
    try:
        return catalogue.load(name), catalogue.entry(name)
    except UnknownNameError:
        if not folder:
            raise
        raise FileError(name, "is a folder without a config.json; expected that file") from None
