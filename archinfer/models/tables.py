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
    """Keys that change no count of any class that has them, nor of the catalogue's models."""
    return frozenset(_of_classes("harmless")) | frozenset(_of_classes("released"))


@cache
def harmless_words() -> frozenset[str]:
    """Words of such keys, and of no key that changes a count."""
    return frozenset(_of_classes("harmless_words"))


@cache
def _named(name: str) -> re.Pattern[str]:
    return re.compile("|".join(table("keywords.json", name)))


def names_a_size(word: str) -> bool:
    """Whether makers name what changes a size by this word."""
    return bool(_named("size").search(word))


def may_be_size(key: str) -> bool:
    """Whether a key of a config is named like something that changes a model's size.

    By such a word and no harmless one (of the libraries' classes, or of makers' own code), or by
    one that is a size whatever else stands in the key.
    """
    key = key.lower()
    if _named("always_size").search(key):
        return True
    told = harmless_words().intersection(re.split(r"[_\d]+", key)) or _named("makers").search(key)
    return names_a_size(key) and not told


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
