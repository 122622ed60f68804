"""Tables made from the config classes of Hugging Face transformers.

Keys that any config may have and that change no size, what the classes take for sizes that a file
leaves out, and which models are no decoders (tests/tools/make_model_tables.py writes them).
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def table(file: str, name: str) -> Any:
    """One of the tables in a JSON file beside this module."""
    return json.loads(files(__package__).joinpath(file).read_text(encoding="utf-8"))[name]


def _of_classes(name: str) -> Any:
    return table("tables.json", name)


@cache
def harmless_keys() -> frozenset[str]:
    """Keys of generation, tokens and training that the library writes into every config."""
    return frozenset(_of_classes("harmless"))


@cache
def _words(name: str) -> re.Pattern[str]:
    """Words by which makers name what changes a size (`size`), or how a model computes, trains or
    is served (`harmless`), or a size whatever else stands in the key (`always_size`)."""
    return re.compile("|".join(table("keywords.json", name)))


def may_be_size(key: str) -> bool:
    """Whether a key of a config is named like something that changes a model's size."""
    key = key.lower()
    named = _words("size").search(key) and not _words("harmless").search(key)
    return bool(named or _words("always_size").search(key))


def class_defaults(family: str) -> dict[str, Any]:
    """Sizes that the class of a family takes where a config has none."""
    found: dict[str, Any] = _of_classes("defaults").get(family, {})
    return found


def class_constants(family: str) -> dict[str, int]:
    """Heads that a class takes whatever the width is, and its leading dense layers."""
    found: dict[str, int] = _of_classes("constants").get(family, {})
    return found


def unused_keys(family: str) -> tuple[str, ...]:
    """Keys of a family's class that its code never reads."""
    return tuple(_of_classes("unused").get(family, ()))


def is_unlike(model_type: str) -> bool:
    """Whether the class of an unknown family counts otherwise than by the generic keys."""
    return model_type in _of_classes("unlike")


def not_a_decoder(model_type: str) -> str:
    """What a model is that does not decode by itself; "" where nothing says so."""
    if model_type in _of_classes("encoders"):
        return "an encoder, which generates no text"
    if model_type in _of_classes("encoder_decoders"):
        return "an encoder-decoder, which is not counted"
    return ""
