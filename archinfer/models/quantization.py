"""What a config's `quantization_config` says about how the weights are stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from archinfer.errors import nearest, shorten
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.layers.pieces import COMPONENTS, KEPT_COMPONENTS

__all__ = ["StoredFormat", "stored_format"]


class _NotKnown(Exception):
    """A well-formed quantization without a weight format of ours; says which and why."""


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """A weight format by name, the components it leaves out, and the format those have.

    Of those, `KEPT_COMPONENTS` are at 16 bits at least, whatever `kept_name` says.
    """

    name: str
    kept: frozenset[str] = KEPT_COMPONENTS
    kept_name: str = "bf16"


_DTYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float": "fp32",
    "half": "fp16",
    "fp32": "fp32",
    "fp16": "fp16",
    "bf16": "bf16",
    "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2": "fp8",
}
"""PyTorch's names of number formats, and the short ones."""

_ALL = frozenset(COMPONENTS)

_KEPT_NAMES = (
    (r"lm_head|^head", "lm_head"),
    (r"embed", "embedding"),
    (r"self_attn|attention|\.attn", "attention"),
    (r"shared_expert", "shared"),
    (r"mlp\.gate(?!_|\.)|mlp\.gate$|router|\.gate$|block_sparse_moe\.gate", "router"),
    (r"mamba|mixer|linear_attn|conv1d", "ssm"),
    (r"mlp\.(\(|gate_|up|down)", "dense_mlp"),
    (r"latent", "latent"),
    (r"indexer", "indexer"),
    (r"mlp\.experts|\.experts", "experts"),
)
"""Words in a list of modules left alone, and the component they name."""


def _dtype(keys: ConfigKeys) -> str:
    """The format that the file's dtype names; bf16 where there is none, or with a warning."""
    value = keys.raw("dtype", "torch_dtype") if _agree(keys) else keys.data.get("dtype")
    if value is None:
        return "bf16"
    name = value.strip().lower().removeprefix("torch.") if isinstance(value, str) else ""
    if name not in _DTYPES:
        shown = str(value)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        close = nearest(name, _DTYPES)
        hint = f" (did you mean {close!r}?)" if close else ""
        keys.warnings.append(f"dtype {shown!r} is not known{hint}; weights taken as bf16")
    return _DTYPES.get(name, "bf16")


def _agree(keys: ConfigKeys) -> bool:
    first, second = keys.data.get("dtype"), keys.data.get("torch_dtype")
    return first is None or second is None or first == second


def _kept(modules: Sequence[str] | None) -> frozenset[str]:
    """Components that a list of module names or patterns leaves unquantised, as a whole.

    A pattern that names single layers ("model.layers.0.self_attn") is no statement about a
    component and is passed over.
    """
    found: set[str] = set()
    for name in modules or ():
        text = name.removeprefix("re:")
        if re.search(r"layers?\.\d+\.", text):
            continue
        for pattern, component in _KEPT_NAMES:
            if re.search(pattern, text):
                found.add(component)
                break
    return frozenset(found) | KEPT_COMPONENTS


_INTEGER_METHODS = frozenset({"gptq", "awq", "auto-round", "gptq_marlin", "awq_marlin"})

_FP8_METHODS = frozenset({"fp8", "fbgemm_fp8", "finegrained_fp8"})

_ALGORITHMS = {"FP8": "fp8", "NVFP4": "nvfp4", "MXFP8": "mxfp8", "W4A16_AWQ": "int4-g128"}
"""NVIDIA Model Optimizer's names of formats."""

_FORMATS = {"mxfp4": "mxfp4", "mxfp8": "mxfp8", "nvfp4": "nvfp4", "experts_int8": "int8"}
"""Methods that are one format."""

_METHODS = sorted(
    {*_INTEGER_METHODS, *_FP8_METHODS, *_FORMATS, "bitsandbytes", "modelopt", "modelopt_fp4",
     "compressed-tensors"}
)  # fmt: skip


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _group_size(keys: ConfigKeys, *names: str) -> int | None:
    """The number of weights that share a scale; None for a whole row (-1) or an absent key."""
    value = keys.raw(*names)
    if value is None or (_whole(value) and value == -1):
        return None
    if not _whole(value) or value < 1:
        name = next(n for n in names if keys.has(n))
        raise keys.must_be(name, "a positive whole number or -1", value)
    return int(value)


def _check_block(section: ConfigKeys) -> None:
    block = section.raw("weight_block_size")
    if block is None:
        return
    pair = isinstance(block, list) and len(block) == 2
    if not pair or not all(_whole(size) and size > 0 for size in block):
        raise section.must_be("weight_block_size", "two positive whole numbers", block)


def _modules(section: ConfigKeys) -> list[str] | None:
    """Modules that are left unquantised, by name or pattern."""
    names = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
    found = section.raw(*names)
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        name = next(n for n in names if section.has(n))
        raise section.must_be(name, "a list of strings", found)
    return found


def _bits(method: str, keys: ConfigKeys, *names: str) -> int:
    """The width of a weight, 4 or 8."""
    bits = keys.optional(*names)
    if bits is None:
        raise _NotKnown(f"quantization {method!r} has no {names[0]} (known: 4, 8)")
    if bits not in (4, 8):
        name = next(n for n in names if keys.has(n))
        raise _NotKnown(f"quantization {method!r} with {name} = {bits} is not known (known: 4, 8)")
    return bits


def _integer(bits: int, group: int | None) -> str:
    if bits == 8:
        return "int8"
    return "int4" if group is not None and group <= 64 else "int4-g128"


def _compressed_tensors(method: str, section: ConfigKeys) -> str:
    groups = section.section("config_groups")
    first = groups.section(next(iter(groups.data))) if groups and groups.data else None
    weights = first.section("weights") if first else None
    if weights is None:
        raise _NotKnown(f"quantization {method!r} has no config_groups with weights")
    group = _group_size(weights, "group_size")
    bits = _bits(method, weights, "num_bits")
    if weights.text("type") != "float":
        return _integer(bits, group)
    if bits == 8:
        if weights.text("strategy") == "block":
            return "fp8-block"
        return "mxfp8" if group == 32 else "fp8"
    return "nvfp4" if group == 16 else "mxfp4"


def _optimizer(method: str, section: ConfigKeys) -> str:
    """A format of NVIDIA's Model Optimizer, by `quant_algo`."""
    algorithm = section.text("quant_algo")
    found = _ALGORITHMS.get(algorithm.upper())
    if found is None and method == "modelopt_fp4":
        return "nvfp4"
    if found is None:
        known = f"(known: {', '.join(_ALGORITHMS)})"
        if not algorithm:
            raise _NotKnown(f"quantization {method!r} has no quant_algo {known}")
        raise _NotKnown(f"quant_algo {shorten(algorithm)} is not known {known}")
    return found


def _named(method: str, section: ConfigKeys) -> str:
    """The weight format of a method.

    Raises:
        _NotKnown: the method has none, or not at this width.
        InputError: a key of the wrong type.
    """
    if method in _FP8_METHODS:
        return "fp8-block" if section.has("weight_block_size") else "fp8"
    if method in _INTEGER_METHODS:
        group = _group_size(section, "group_size", "q_group_size")
        return _integer(_bits(method, section, "bits", "w_bit"), group)
    if method == "bitsandbytes":
        return "int4" if section.flag("load_in_4bit") else "int8"
    # Files of Model Optimizer's own kind state the algorithm only.
    if method in ("modelopt", "modelopt_fp4") or (not method and section.has("quant_algo")):
        return _optimizer(method, section)
    if method == "compressed-tensors":
        return _compressed_tensors(method, section)
    if not method:
        raise _NotKnown("quantization_config has no quant_method")
    if method not in _FORMATS:
        close = nearest(method, _METHODS) if len(method) <= 100 else None
        hint = f" (did you mean {close!r}?)" if close else ""
        raise _NotKnown(f"quantization {shorten(method)} is not known{hint}")
    return _FORMATS[method]


def stored_format(keys: ConfigKeys) -> StoredFormat:
    """The weight format of a config, from `quantization_config`, else from `dtype`.

    Formats of released files leave embedding, head, routers and vectors at 16 bits, unless
    `include_input_output_embeddings` (a key of transformers' TorchAoConfig) says otherwise of the
    first two; beside an empty list of modules left alone it says that nothing is.
    OpenAI's mxfp4 and `experts_int8` cover the routed experts only; a DeepSeek file with
    `expert_dtype` fp4 holds its experts in mxfp4 and the rest in 8 bits. A method that is not
    known leaves the dtype's format and a warning: counts do not depend on it.
    """
    base = _dtype(keys)
    section = keys.section("quantization_config")
    narrow_experts = keys.raw("expert_dtype") == "fp4"
    if section is None:
        return (
            StoredFormat("mxfp4", _ALL - {"experts"}, base)
            if narrow_experts
            else StoredFormat(base)
        )
    method = section.text("quant_method").lower()
    _check_block(section)
    modules = _modules(section)
    try:
        name = _named(method, section)
    except _NotKnown as reason:
        keys.warnings.append(f"{reason}; weights taken as {base}")
        return StoredFormat(base)
    if narrow_experts:
        keys.notes.append(f"experts are stored in mxfp4, the rest of the layers in {name}")
        return StoredFormat("mxfp4", _ALL - {"experts"}, name)
    if method in ("mxfp4", "experts_int8"):
        return StoredFormat(name, _ALL - {"experts"})
    kept = _kept(modules)
    if section.flag("include_input_output_embeddings"):
        kept = frozenset({"ngram_table"}) if modules == [] else kept - {"embedding", "lm_head"}
    return StoredFormat(name, kept)
