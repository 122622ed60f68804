"""A model by its name in the catalogue or by the path of its config."""

from __future__ import annotations

import os

from archinfer.errors import FileError, InputError, UnknownNameError
from archinfer.models import catalogue
from archinfer.models.architecture import Architecture
from archinfer.models.catalogue import Entry
from archinfer.models.checkpoint import is_model, load_architecture


def read_model(name: str) -> tuple[Architecture, Entry | None]:
    """A model by catalogue name, or from a file or folder that `load_architecture` reads.

    `-` is standard input. A folder without a model may still be named like one.

    Raises:
        UnknownNameError: neither a file nor a name of the catalogue.
        FileError, InputError: a folder without a model, a config that cannot be used.
    """
    # A file may be called anything, a model of the catalogue may not.
    if not name.strip() or not (name.isprintable() or os.path.exists(name)):
        raise InputError(f"expected the name of a model or a config.json, found {name!r}")
    # These say no, where pathlib raises, to a name that is too long for a file.
    folder = name != "-" and os.path.isdir(name)
    looks_like_path = name == "-" or name.endswith((".json", ".gguf", ".safetensors"))
    if name.endswith((".yaml", ".yml")) and os.path.isfile(name):
        raise FileError(
            name, "is YAML, as profiles are (--hardware); expected the name or config of a model"
        )
    there = os.path.exists(name) and not folder
    if looks_like_path or there or (folder and is_model(name)):
        return load_architecture(name), None
    try:
        return catalogue.load(name), catalogue.entry(name)
    except UnknownNameError:
        if not folder:
            raise
        raise FileError(name, "is a folder without a config.json; expected that file") from None
