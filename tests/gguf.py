"""Headers of GGUF files, made by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

Tensors = Mapping[str, tuple[Sequence[int], int]]
"""Shape and number of the type of each tensor."""


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _entry(value: Any) -> bytes:
    """A value with its type: whole numbers of 32 bits without a sign, others of 64 with one."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, list) and isinstance(value[0], int):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack("<II", 4, value) if 0 <= value < 2**32 else struct.pack("<Iq", 11, value)


def gguf_header(metadata: Mapping[str, Any], tensors: Tensors, version: int = 3) -> bytes:
    """What a GGUF file holds before its weights."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    out += b"".join(_text(key) + _entry(value) for key, value in metadata.items())
    for name, (shape, kind) in tensors.items():
        out += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
    return out
