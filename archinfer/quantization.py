"""What a config's `quantization_config` says about how the weights are stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from archinfer.configkeys import ConfigKeys
from archinfer.errors import nearest
from archinfer.layers.pieces import COMPONENTS, KEPT_COMPONENTS

__all__ = ["StoredFormat", "stored_format"]


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


def _kept(modules: Any) -> frozenset[str]:
    """Components that a list of module names or patterns leaves unquantised, as a whole.

    A pattern that names single layers ("model.layers.0.self_attn") is no statement about a
    component and is passed over.
    """
    found: set[str] = set()
    names: Iterable[Any] = modules if isinstance(modules, list) else []
    for name in names:
        text = str(name).removeprefix("re:")
        if re.search(r"layers?\.\d+\.", text):
            continue
        for pattern, component in _KEPT_NAMES:
            if re.search(pattern, text):
                found.add(component)
                break
    return frozenset(found) | KEPT_COMPONENTS


def _integer(bits: Any, group: Any) -> str | None:
    if bits == 8:
        return "int8"
    if bits == 4:
        return "int4" if isinstance(group, int) and 0 < group <= 64 else "int4-g128"
    return None


def _compressed_tensors(section: ConfigKeys) -> str | None:
    groups = section.raw("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) and groups else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        return None
    bits, kind, group = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if kind == "float" and bits == 8:
        if weights.get("strategy") == "block":
            return "fp8-block"
        return "mxfp8" if group == 32 else "fp8"
    if kind == "float" and bits == 4:
        return "nvfp4" if group == 16 else "mxfp4"
    return _integer(bits, group)


def _named(method: str, section: ConfigKeys) -> str | None:
    if method in ("fp8", "fbgemm_fp8", "finegrained_fp8"):
        return "fp8-block" if section.has("weight_block_size") else "fp8"
    if method in ("gptq", "awq", "auto-round", "gptq_marlin", "awq_marlin"):
        return _integer(section.raw("bits", "w_bit"), section.raw("group_size", "q_group_size"))
    if method == "bitsandbytes":
        return "int4" if section.raw("load_in_4bit") else "int8"
    if method in ("modelopt", "modelopt_fp4"):
        algorithm = str(section.raw("quant_algo", default="")).upper()
        named = {"FP8": "fp8", "NVFP4": "nvfp4", "MXFP8": "mxfp8", "W4A16_AWQ": "int4-g128"}
        return named.get(algorithm, "nvfp4" if method == "modelopt_fp4" else None)
    if method == "compressed-tensors":
        return _compressed_tensors(section)
    return {"mxfp4": "mxfp4", "mxfp8": "mxfp8", "nvfp4": "nvfp4", "experts_int8": "int8"}.get(
        method
    )


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
    name = _named(method, section)
    if name is None:
        keys.warnings.append(f"quantization {method!r} is not known; weights taken as {base}")
        return StoredFormat(base)
    if narrow_experts:
        keys.notes.append(f"experts are stored in mxfp4, the rest of the layers in {name}")
        return StoredFormat("mxfp4", _ALL - {"experts"}, name)
    if method in ("mxfp4", "experts_int8"):
        return StoredFormat(name, _ALL - {"experts"})
    modules = section.raw("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
    kept = _kept(modules)
    if section.flag("include_input_output_embeddings"):
        kept = frozenset({"ngram_table"}) if modules == [] else kept - {"embedding", "lm_head"}
    return StoredFormat(name, kept)
