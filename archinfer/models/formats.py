"""Number formats of weights and of the KV cache: how many bits one stored number really takes.

Bits include the scales that a block format stores beside its numbers. What is too small to
matter (one scale a tensor or a channel) is left out, and the format's note says so.

Sources: OCP Microscaling Formats (MX) v1.0, section 5 (MXFP8, MXFP4: blocks of 32 with an 8-bit
E8M0 scale); NVIDIA's NVFP4 (blocks of 16 with an 8-bit E4M3 scale, and one 32-bit scale a
tensor); DeepSeek-V3 report, section 3.3 (128 x 128 blocks with a 32-bit scale); GPTQ and AWQ
(groups of 128 with a 16-bit scale and a zero point as wide as a weight); MLX (a 16-bit scale and
bias a group); bitsandbytes (a 32-bit scale per 64 weights; quantised doubly, 8 bits and a 32-bit
scale per 256 of those); llama.cpp's blocks (`ggml-common.h`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from archinfer.errors import InputError, UnknownNameError
from archinfer.models.layers.pieces import COMPONENTS


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored."""

    name: str
    """The name a user types."""
    bits: float
    """Mean bits of one weight, scales included."""
    note: str
    """What the bits are made of."""
    weights_only: bool = False
    """No product takes such numbers: they are widened to 16 bits first. Integers, which kernels
    for decoding (GPTQ, AWQ, gpt-fast) do not multiply."""
    components: tuple[tuple[str, str], ...] = ()
    """Components that have another format, and that format's name."""


@dataclass(frozen=True, slots=True)
class KvFormat:
    """How the numbers of the KV cache are stored: `bits` of one number, scales included."""

    name: str
    bits: float
    note: str


_WEIGHTS = (
    WeightFormat("fp32", 32.0, "32 bits"),
    WeightFormat("bf16", 16.0, "16 bits"),
    WeightFormat("fp16", 16.0, "16 bits"),
    WeightFormat("fp8", 8.0, "8 bits; one scale a tensor or channel, negligible"),
    WeightFormat("fp8-block", 8.0 + 32 / (128 * 128), "8 bits, a 32-bit scale per 128 x 128 block"),
    WeightFormat("int8", 8.0, "8 bits; one scale a channel, negligible", True),
    WeightFormat("mxfp8", 8.0 + 8 / 32, "8 bits, an 8-bit scale per 32 weights"),
    WeightFormat("mxfp4", 4.0 + 8 / 32, "4 bits, an 8-bit scale per 32 weights"),
    WeightFormat("nvfp4", 4.0 + 8 / 16, "4 bits, an 8-bit scale per 16 weights"),
    WeightFormat("int4", 4.0 + 16 / 32, "4 bits, a 16-bit scale per 32 weights", True),
    WeightFormat("int4-g128", 4.0 + 16 / 128, "4 bits, a 16-bit scale per 128 weights", True),
)

_ALIASES = {
    "float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "fp4": "nvfp4", "int4-g32": "int4",
}  # fmt: skip
"""`fp4` alone is read as NVFP4, the native 4-bit format with the larger scale overhead."""

_KV = (
    KvFormat("fp32", 32.0, "32 bits"),
    KvFormat("bf16", 16.0, "16 bits"),
    KvFormat("fp16", 16.0, "16 bits"),
    KvFormat("fp8", 8.0, "8 bits; one scale a tensor or head, negligible"),
    KvFormat("int8", 8.0, "8 bits; one scale a tensor or head, negligible"),
    KvFormat("fp4", 4.0 + 8 / 16, "4 bits, an 8-bit scale per 16 numbers (NVFP4)"),
    KvFormat("int4", 4.0 + 16 / 32, "4 bits, a 16-bit scale per 32 numbers"),
)

WEIGHT_FORMATS: dict[str, WeightFormat] = {f.name: f for f in _WEIGHTS}
KV_FORMATS: dict[str, KvFormat] = {f.name: f for f in _KV}


_GGML = {
    "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34),
    "q1_0": (128, 18), "q2_k": (256, 84), "q3_k": (256, 110), "q4_k": (256, 144),
    "q5_k": (256, 176), "q6_k": (256, 210), "q8_k": (256, 292), "iq2_xxs": (256, 66),
    "iq2_xs": (256, 74), "iq3_xxs": (256, 98), "iq1_s": (256, 50), "iq4_nl": (32, 18),
    "iq3_s": (256, 110), "iq2_s": (256, 82), "iq4_xs": (256, 136), "iq1_m": (256, 56),
    "tq1_0": (256, 54), "tq2_0": (256, 66),
}  # fmt: skip
"""llama.cpp's types: weights of a block and its bytes."""

_STORED = {
    f.name: f
    for f in (
        WeightFormat("nf4", 4.0 + 32 / 64, "4 bits, a 32-bit scale per 64 weights", True),
        WeightFormat(
            "nf4-dq",
            4.0 + 8 / 64 + 32 / (64 * 256),
            "4 bits, an 8-bit scale per 64 weights, a 32-bit scale per 256 of those",
            True,
        ),
        *(
            WeightFormat(name, 8.0 * size / block, f"{size} bytes per {block} weights", True)
            for name, (block, size) in _GGML.items()
        ),
    )
}
"""Formats of files that nobody would choose a deployment by; read like the others."""

_GROUPED = re.compile(r"(int|affine)([1-8])-(?:(row)|g([1-9]\d{0,5})(-zp)?)")
_MEAN = re.compile(r"stored-(\d{1,2}(?:\.\d{1,20})?)")
_BLOCKS = re.compile(r"fp8-b([1-9]\d{0,5})x([1-9]\d{0,5})")


def _by_pattern(name: str) -> WeightFormat | None:
    """Formats with a number of their own: `int3-g128-zp`, `affine6-g64`, `stored-4.2`."""
    if mean := _MEAN.fullmatch(name):
        bits = float(mean[1])
        return WeightFormat(name, bits, "mean bits of what a checkpoint stores", bits < 15.0)
    if block := _BLOCKS.fullmatch(name):
        high, wide = int(block[1]), int(block[2])
        note = f"8 bits, a 32-bit scale per {high} x {wide} block"
        return WeightFormat(name, 8.0 + 32 / (high * wide), note)
    found = _GROUPED.fullmatch(name)
    if found is None or (found[1] == "affine" and (found[3] or found[5])):
        return None
    bits = int(found[2])
    if found[3]:
        note = f"{bits} bits; one scale a channel, negligible"
        return WeightFormat(name, float(bits), note, True)
    group, zero = int(found[4]), bool(found[5])
    if found[1] == "affine":
        note = f"{bits} bits, a 16-bit scale and a 16-bit bias per {group} weights"
        return WeightFormat(name, bits + 32 / group, note, True)
    own = f" and a {bits}-bit zero point" if zero else ""
    note = f"{bits} bits, a 16-bit scale{own} per {group} weights"
    return WeightFormat(name, bits + (16 + bits * zero) / group, note, True)


def split_formats(weights: str | Iterable[str]) -> tuple[str, ...]:
    """Weight formats, each once; a part's own (`int4,head=bf16`) belongs to the one before.

    Args:
        weights: one text with commas, or several.
    """
    found: list[str] = []
    for part in weights.split(",") if isinstance(weights, str) else weights:
        if found and "=" in part.split(",")[0]:
            found[-1] = f"{found[-1]},{part.strip()}"
        else:
            found.append(part.strip())
    return tuple(dict.fromkeys(found))


def weight_formats(weights: str | Iterable[str]) -> tuple[str, ...]:
    """Names of known weight formats, each once; arguments as `split_formats`."""
    return tuple(dict.fromkeys(weight_format(name).name for name in split_formats(weights)))


_COMPONENT_ALIASES = {
    "head": ("lm_head",),
    "mlp": ("dense_mlp", "shared"),
    "norms": ("norm",),
    "tables": ("ngram_table",),
}


def weight_format(name: str) -> WeightFormat:
    """The weight format called `name` (any case).

    `int4,embedding=int8,head=bf16` is int4 with other formats for some components.

    Raises:
        UnknownNameError: no such format, no such component.
        InputError: a component without a format, or twice.
    """
    first, *others = name.split(",")
    found = _plain_format(first)
    if not others:
        return found
    own: dict[str, str] = {}
    for item in others:
        component, equals, form = item.partition("=")
        component = component.strip().lower()
        if not equals:
            raise InputError(f"expected COMPONENT=FORMAT as embedding=int8, found {item.strip()!r}")
        targets = _COMPONENT_ALIASES.get(component, (component,))
        if not set(targets) <= set(COMPONENTS):
            raise UnknownNameError("component", component, (*COMPONENTS, *_COMPONENT_ALIASES))
        if own.keys() & set(targets):
            raise InputError(f"{component} has two formats in {name!r}")
        own |= dict.fromkeys(targets, _plain_format(form).name)
    pairs = tuple((c, own[c]) for c in COMPONENTS if c in own)
    full = ",".join((found.name, *(f"{c}={f}" for c, f in pairs)))
    return replace(found, name=full, components=pairs)


@lru_cache(maxsize=1024)
def _plain_format(name: str) -> WeightFormat:
    key = name.strip().lower()
    key = _ALIASES.get(key, key)
    found = WEIGHT_FORMATS.get(key) or _STORED.get(key) or _by_pattern(key)
    if found is None:
        raise UnknownNameError("weight format", name, WEIGHT_FORMATS)
    return found


def kv_format(name: str) -> KvFormat:
    """The KV-cache format called `name` (any case).

    Raises:
        UnknownNameError: no such format.
    """
    key = name.strip().lower()
    key = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "nvfp4": "fp4"}.get(key, key)
    if key not in KV_FORMATS:
        raise UnknownNameError("KV-cache format", name, KV_FORMATS)
    return KV_FORMATS[key]
