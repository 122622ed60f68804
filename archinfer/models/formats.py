"""Number formats of weights and of the KV cache: how many bits one stored number really takes.

Bits include the scales that a block format stores beside its numbers. What is too small to
matter (one scale a tensor or a channel) is left out, and the format's note says so.

Sources: OCP Microscaling Formats (MX) v1.0, section 5 (MXFP8, MXFP4: blocks of 32 with an 8-bit
E8M0 scale); NVIDIA's NVFP4 (blocks of 16 with an 8-bit E4M3 scale, and one 32-bit scale a
tensor); DeepSeek-V3 report, section 3.3 (128 x 128 blocks with a 32-bit scale); GPTQ and AWQ
(groups of 128 with a 16-bit scale, zero point left out); llama.cpp's Q4_0 (groups of 32 with a
16-bit scale).
"""

from __future__ import annotations

from dataclasses import dataclass

from archinfer.errors import UnknownNameError

__all__ = [
    "KV_FORMATS",
    "WEIGHT_FORMATS",
    "KvFormat",
    "WeightFormat",
    "kv_format",
    "weight_format",
    "weight_format_names",
]


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored.

    Attributes:
        name: the name a user types.
        bits: mean bits of one weight, scales included.
        note: what the bits are made of.
        weights_only: no product takes such numbers: they are widened to 16 bits first. Integers,
            which kernels for decoding (GPTQ, AWQ, gpt-fast) do not multiply.
    """

    name: str
    bits: float
    note: str
    weights_only: bool = False


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
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "fp4": "nvfp4",
    "int4-g32": "int4",
}
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


def weight_format_names() -> tuple[str, ...]:
    """Names of the weight formats, widest first."""
    return tuple(WEIGHT_FORMATS)


def weight_format(name: str) -> WeightFormat:
    """The weight format called `name` (any case).

    Raises:
        UnknownNameError: no such format.
    """
    key = name.strip().lower()
    key = _ALIASES.get(key, key)
    if key not in WEIGHT_FORMATS:
        raise UnknownNameError("weight format", name, WEIGHT_FORMATS)
    return WEIGHT_FORMATS[key]


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
