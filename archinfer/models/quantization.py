"""What a config's `quantization_config` says about how the weights are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archinfer.errors import nearest, shorten
from archinfer.models.configkeys import ConfigKeys, brief
from archinfer.models.modules import Rules
from archinfer.models.quantmethods import (
    ALL,
    Listed,
    NotKnown,
    Recipe,
    algorithm_names,
    is_whole,
    read_algorithm,
    read_bits,
    read_block,
    read_group,
    read_method,
    read_modules,
)

_DTYPES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float": "fp32", "half": "fp16",
    "fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip
"""PyTorch's names of number formats, and the short ones."""


_UNSAID = "no dtype: what is not quantised is bf16"


def _dtype(keys: ConfigKeys) -> str:
    """The format that the file's dtype names; bf16 where there is none.

    Raises:
        NotKnown: a dtype that no weights come in.
    """
    names = [n for n in ("dtype", "torch_dtype") if keys.has(n)]
    keys.ignore("dtype", "torch_dtype")
    found = []
    for key in names:
        value = keys.data[key]
        name = value.strip().lower().removeprefix("torch.") if isinstance(value, str) else ""
        if name not in _DTYPES:
            close = nearest(name, _DTYPES) if name else None
            hint = f" (did you mean {close!r}?)" if close else ""
            raise NotKnown(f"{key} {shorten(value)} is not known{hint}")
        found.append(_DTYPES[name])
    if len({*found}) > 1:
        keys.warnings.append(f"dtype is {found[0]} but torch_dtype {found[1]}: dtype is taken")
    return found[0] if found else "bf16"


def _mlx(section: ConfigKeys, recipe: Recipe) -> Recipe:
    """MLX: every matrix, embedding, routers and head too, but for modules with their own entry."""

    def form(keys: ConfigKeys) -> str:
        mode = keys.text("mode", "affine")
        if mode in ("mxfp4", "mxfp8", "nvfp4"):
            return mode
        if mode != "affine":
            raise NotKnown(f"quantization with mode {shorten(mode)} is not known")
        bits = read_bits("mlx", keys, "bits", known=(2, 3, 4, 5, 6, 8))
        return f"affine{bits}-g{read_group(keys, 'group_size') or 64}"

    main = form(section)
    listed: Listed = []
    for name, value in section.data.items():
        if isinstance(value, Mapping):
            own = section.section(name)
            listed.append(([name], main if own is None else form(own)))
        elif value is False:
            listed.append(([name], None))
    return replace(recipe, main=main, covers=ALL - {"norm"}, rules=Rules(listed, section.where))


def _kv(section: ConfigKeys, keys: ConfigKeys) -> str | None:
    """The format of the KV cache that a quantization states."""
    name = section.text("kv_cache_quant_algo")
    stated = section.raw("kv_cache_scheme")
    if not name and isinstance(stated, str):
        name = stated
    scheme = None if name else section.section("kv_cache_scheme")
    if scheme is not None:
        bits, kind = scheme.raw("num_bits"), scheme.text("type", "float")
        name = {(8, "float"): "FP8", (4, "float"): "NVFP4", (8, "int"): "INT8"}.get(
            (bits if is_whole(bits) else 0, kind), brief(bits)
        )
    if not name:
        return None
    known = algorithm_names("kv")
    if name.upper() not in known:
        keys.warnings.append(
            f"quantization_config: KV cache in {shorten(name)} is not known; taken as 16 bits"
        )
    return known.get(name.upper()) or None


def _experts(keys: ConfigKeys, section: ConfigKeys | None, main: str | None) -> str | None:
    """The format of the routed experts where they have their own."""
    if section is not None and section.has("moe_quant_algo"):
        return read_algorithm(section.text("moe_quant_algo"), read_group(section, "group_size"))
    if keys.raw("expert_dtype") != "fp4":
        return None
    if main is not None:
        keys.notes.append(f"experts are stored in mxfp4, the rest of the layers in {main}")
    return "mxfp4"


def read_recipe(keys: ConfigKeys) -> Recipe:
    """How a config's weights are stored, from `quantization_config`, else from `dtype`.

    Formats of released files leave embedding, head, routers and vectors at 16 bits, unless a file
    says otherwise: MLX's cover every matrix; `include_input_output_embeddings` (a key of
    transformers' TorchAoConfig) adds the first two, and beside an empty list of modules left
    alone it says that nothing is. A quantization that is not known leaves `refused`: counts do
    not depend on it.
    """
    section, mlx = keys.section("quantization_config"), keys.section("quantization")
    section = section or keys.section("compression_config")
    if section is not None and isinstance(section.data.get("quantization"), Mapping):
        # Model Optimizer's own file, pasted whole.
        section = section.section("quantization") or section
    unsaid = () if keys.has("dtype", "torch_dtype") else (_UNSAID,)
    try:
        recipe = Recipe(_dtype(keys), notes=unsaid)
    except NotKnown as reason:
        keys.ignore("quantization_config", "quantization")
        return Recipe(refused=str(reason))
    try:
        if mlx is not None and (section is None or not section.has("quant_method")):
            return _mlx(mlx, recipe)
        if section is None:
            own = _experts(keys, None, None)
            return replace(recipe, components={} if own is None else {"experts": own})
        method = section.text("quant_method").lower().removeprefix("intel/")
        modules, _ = read_modules(section), read_block(section)
        recipe, listed = read_method(method, section, replace(recipe, kv=_kv(section, keys)))
        own = _experts(keys, section, recipe.main)
        own_formats = {} if own is None else {"experts": own}
        rules = Rules([(modules or [], None), *listed], section.where)
        if recipe.kv is not None:
            keys.notes.append(f"the file states a KV cache in {recipe.kv} (--kv sets another)")
    except NotKnown as reason:
        return replace(recipe, refused=f"quantization_config: {reason}")
    covers, whole = recipe.covers, False
    if section.flag("include_input_output_embeddings"):
        whole = modules == []
        covers = ALL if whole else covers | {"embedding", "lm_head"}
    return replace(recipe, covers=covers, whole=whole, rules=rules, components=own_formats)
