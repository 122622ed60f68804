"""How quantisers' configs say what they did: one reader a method."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from archinfer.errors import nearest, shorten
from archinfer.models.configkeys import ConfigKeys
from archinfer.models.formats import weight_format
from archinfer.models.layers.pieces import COMPONENTS, KEPT_COMPONENTS
from archinfer.models.modules import Rules
from archinfer.models.tables import table


class NotKnown(Exception):
    """A well-formed quantization without a weight format of ours; says which and why."""


ALL = frozenset(COMPONENTS)

_LINEAR = ALL - KEPT_COMPONENTS
"""What quantisers convert unless a file says otherwise: the matrices of the layers."""

Listed = list[tuple[list[str], str | None]]
"""Patterns of modules and their format; None: left alone."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a config says that its weights are stored."""

    base: str = "bf16"
    """Format of what is not quantised: that of the dtype."""
    main: str | None = None
    """Format of the matrices of `covers` that no rule names; None: they are left alone."""
    covers: frozenset[str] = _LINEAR
    rules: Rules = field(default_factory=lambda: Rules((), ""))
    """Modules by name, left alone or in a format of their own."""
    components: Mapping[str, str] = field(default_factory=dict)
    """Components with a format of their own."""
    whole: bool = False
    """Vectors are in the main format as well."""
    kv: str | None = None
    """Format of the KV cache that the file states."""
    refused: str = ""
    """Why the format is not known; counts are, bytes are not."""
    notes: tuple[str, ...] = ()
    """What was assumed."""


def algorithm_names(name: str) -> dict[str, str | None]:
    """NVIDIA Model Optimizer's names of formats (`algorithms`) and of caches (`kv`)."""
    found: dict[str, str | None] = table("algorithms.json", name)
    return found


# Single keys


def is_whole(value: Any) -> bool:
    """Whether it is an integer, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def read_group(keys: ConfigKeys, *names: str) -> int | None:
    """The number of weights that share a scale; None for a whole row (-1) or an absent key."""
    value = keys.raw(*names)
    if value is None or (is_whole(value) and value == -1):
        return None
    if not is_whole(value) or not 1 <= value < 1_000_000:
        name = next(n for n in names if keys.has(n))
        raise keys.must_be(name, "a positive whole number or -1", value)
    return int(value)


def read_block(section: ConfigKeys, name: str = "weight_block_size") -> str | None:
    """The format of 8-bit floats with a scale a block, None where there is no block."""
    block = section.raw(name)
    if block is None:
        return None
    if isinstance(block, str) and name == "block_structure":
        block = [int(n) if n.isdecimal() else 0 for n in block.split("x")]
    pair = isinstance(block, list) and len(block) == 2
    if not pair or not all(is_whole(size) and 0 < size < 1_000_000 for size in block):
        raise section.must_be(name, "two positive whole numbers", section.data[name])
    return "fp8-block" if block == [128, 128] else f"fp8-b{block[0]}x{block[1]}"


_LEFT_ALONE = (
    "modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules",
    "llm_int8_skip_modules", "exclude",
)  # fmt: skip


def read_modules(section: ConfigKeys) -> list[str] | None:
    """Modules that are left unquantised, by name or pattern; every list that is there."""
    # Beside an algorithm of the experts' own, `ignore` is what that pass left as it was.
    apart = {"ignore"} if section.has("moe_quant_algo") else set()
    lists = [n for n in _LEFT_ALONE if section.has(n) and n not in apart]
    for name in lists:
        found = section.raw(name)
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise section.must_be(name, "a list of strings", found)
    return [item for n in lists for item in section.data[n]] if lists else None


def read_bits(method: str, keys: ConfigKeys, *names: str, known: tuple[int, ...] = (4, 8)) -> int:
    """The width of a weight."""
    shown = ", ".join(str(n) for n in known)
    bits = keys.optional(*names)
    if bits is None:
        raise NotKnown(f"quantization {method!r} has no {names[0]} (known: {shown})")
    if bits not in known:
        name = next(n for n in names if keys.has(n))
        raise NotKnown(
            f"quantization {method!r} with {name} = {bits} is not known (known: {shown})"
        )
    return bits


def _integer(bits: int, group: int | None, zero: bool = False) -> str:
    """Integers with a 16-bit scale a group, perhaps with a zero point as wide as a weight."""
    if group is None:
        return "int8" if bits == 8 else f"int{bits}-row"
    return weight_format(f"int{bits}-g{group}{'-zp' if zero else ''}").name


# Methods


def _scheme(method: str, weights: ConfigKeys) -> str:
    """The format of one group of compressed-tensors."""
    group = read_group(weights, "group_size")
    kind, strategy = weights.text("type", "int"), weights.text("strategy")
    if kind != "float":
        bits = read_bits(method, weights, "num_bits", known=(2, 4, 8))
        return _integer(bits, group, not weights.flag("symmetric", default=True))
    bits = read_bits(method, weights, "num_bits")
    if bits == 8:
        if strategy == "block":
            return read_block(weights, "block_structure") or "fp8-block"
        return "mxfp8" if group == 32 else "fp8"
    if group not in (16, 32):
        raise NotKnown(f"{weights.where}: 4-bit floats with group_size = {group} are not known")
    return "nvfp4" if group == 16 else "mxfp4"


def _targets(group: ConfigKeys) -> list[str]:
    found = group.raw("targets", default=["Linear"])
    if not isinstance(found, list) or not all(isinstance(t, str) for t in found):
        raise group.must_be("targets", "a list of strings", found)
    return found


def _groups(method: str, section: ConfigKeys) -> tuple[str | None, Listed]:
    """Format of all linear layers, and of those that the groups name; a name goes before a
    pattern, and a pattern before a class."""
    groups = section.section("config_groups")
    main: str | None = None
    names: Listed = []
    patterns: Listed = []
    any_weights = False
    for key in groups.data if groups else ():
        group = groups.section(key) if groups else None
        weights = group.section("weights") if group else None
        if group is None or weights is None:
            continue
        any_weights = True
        form = (
            read_algorithm(weights.text("quant_algo"), read_group(weights, "group_size"))
            if weights.has("quant_algo")
            else _scheme(method, weights)
        )
        for target in _targets(group):
            if target in ("Linear", "Embedding", "LinearBase", "FusedMoE"):
                main = main or form
            elif re.fullmatch("[A-Z][a-z]+[A-Z][A-Za-z0-9]*", target):
                raise NotKnown(f"targets {shorten(target)}, a class whose matrices are not known")
            else:
                (patterns if target.startswith("re:") else names).append(([target], form))
    if not any_weights:
        raise NotKnown(f"quantization {method!r} has no config_groups with weights")
    return main, names + patterns


def _compressed_tensors(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    sparsity = section.section("sparsity_config")
    packed = sparsity.text("format", "dense") if sparsity else "dense"
    if packed != "dense":
        raise NotKnown(f"sparsity_config with format {shorten(packed)} is not known")
    main, listed = _groups(method, section)
    return replace(recipe, main=main), listed


def read_algorithm(name: str, group: int | None = None, missing: str = "") -> str | None:
    """The format of an algorithm of NVIDIA's Model Optimizer; None: not quantised."""
    known = algorithm_names("algorithms")
    if not name:
        raise NotKnown(missing or "quant_algo is missing")
    found = known.get(name.upper())
    if found is None:
        raise NotKnown(f"quant_algo {shorten(name)} is not known (known: {', '.join(known)})")
    if found == "nvfp4" and group not in (None, 16):
        if group != 32:
            raise NotKnown(f"quant_algo {name} with group_size = {group} is not known")
        return "mxfp4"
    if found.startswith("int4-g128") and group not in (None, 128):
        return _integer(4, group, found.endswith("-zp"))
    return found or None


def _optimizer(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    """NVIDIA's Model Optimizer: one algorithm, or one a layer."""
    name = section.text("quant_algo")
    if not name and method == "modelopt_fp4":
        return replace(recipe, main="nvfp4"), []
    if name.upper() != "MIXED_PRECISION":
        known = ", ".join(algorithm_names("algorithms"))
        missing = f"quantization {method!r} has no quant_algo (known: {known})"
        if not name and section.has("kv_cache_quant_algo"):
            return recipe, []
        group = read_group(section, "group_size")
        return replace(recipe, main=read_algorithm(name, group, missing)), []
    layers = section.section("quantized_layers")
    if layers is None:
        if section.has("config_groups"):
            main, listed = _groups(method, section)
            return replace(recipe, main=main), listed
        if section.has("moe_quant_algo"):
            return recipe, []
        raise NotKnown("quant_algo 'MIXED_PRECISION' has no quantized_layers")
    by_format: dict[str | None, list[str]] = {}
    for module in layers.data:
        one = layers.section(module)
        if one is None:
            continue
        form = read_algorithm(one.text("quant_algo"), read_group(one, "group_size"))
        by_format.setdefault(form, []).append(module)
    return recipe, [(names, form) for form, names in by_format.items()]


_GPTQ_BITS = (2, 3, 4, 5, 6, 7, 8)


def _gptq(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    """GPTQ and what is packed like it: zero points are stored, symmetric or not."""
    bits = read_bits(method, section, "bits", "w_bit", known=_GPTQ_BITS)
    group = read_group(section, "group_size", "q_group_size")
    listed: Listed = []
    for name in ("dynamic", "extra_config"):
        overrides = section.section(name)
        for pattern in overrides.data if overrides else ():
            change = None if overrides is None else overrides.raw(pattern)
            sign, text = (pattern[0], pattern[2:]) if pattern[1:2] == ":" else ("+", pattern)
            found = f"re:{text}" if name == "dynamic" else text
            if sign == "-" or change is False:
                listed.append(([found], None))
            elif isinstance(change, Mapping):
                own = ConfigKeys(change, f"{section.where}: {name}")
                if own.optional("bits") in range(16, 33):
                    listed.append(([found], None))
                    continue
                own_bits = (
                    read_bits(method, own, "bits", known=_GPTQ_BITS) if own.has("bits") else bits
                )
                own_group = read_group(own, "group_size") if "group_size" in change else group
                listed.append(([found], _integer(own_bits, own_group, True)))
    covers = recipe.covers | ({"lm_head"} if section.flag("lm_head") else set())
    return replace(recipe, main=_integer(bits, group, True), covers=frozenset(covers)), listed


def _auto_round(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    kind = section.text("data_type", "int")
    if kind != "int":
        floats = {("mx_fp", 4): "mxfp4", ("mx_fp", 8): "mxfp8", ("nv_fp", 4): "nvfp4"}
        main = floats.get((kind, read_bits(method, section, "bits")))
        if main is None:
            raise NotKnown(f"quantization {method!r} with data_type {shorten(kind)} is not known")
        return replace(recipe, main=main), []
    return _gptq(method, section, recipe)


def _awq(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    group = read_group(section, "group_size", "q_group_size")
    bits = read_bits(method, section, "bits", "w_bit")
    return replace(recipe, main=_integer(bits, group, True)), []


def _bitsandbytes(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    four, eight = section.flag("load_in_4bit"), section.flag("load_in_8bit")
    if four == eight:
        raise NotKnown(f"quantization {method!r} must have load_in_4bit or load_in_8bit")
    double = "nf4-dq" if section.flag("bnb_4bit_use_double_quant") else "nf4"
    return replace(recipe, main=double if four else "int8"), []


def _fp8(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    return replace(recipe, main=read_block(section) or "fp8"), []


def _quark_form(spec: ConfigKeys) -> str | None:
    """The format of one of Quark's specifications; of several stages, the last is stored."""
    stages = spec.raw("weight")
    weight = (
        ConfigKeys({"weight": stages[-1]}, spec.where)
        if isinstance(stages, list) and stages
        else spec
    )
    keys = weight.section("weight")
    if keys is None:
        return None
    name, group = keys.text("dtype"), read_group(keys, "group_size")
    if name == "fp4" and group == 32:
        return "mxfp4"
    if name.startswith("fp8") and group is None:
        return "fp8"
    if name in ("int4", "uint4", "int8", "uint8"):
        return _integer(int(name[-1]), group, name[0] == "u")
    raise NotKnown(f"Quark's dtype {shorten(name)} with group_size = {group} is not known")


def _quark(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    """AMD's Quark: one specification for all layers, others by pattern."""
    general, layers = section.section("global_quant_config"), section.section("layer_quant_config")
    main = _quark_form(general) if general else None
    named = ((n, layers.section(n)) for n in layers.data) if layers else ()
    listed: Listed = [([n], _quark_form(spec)) for n, spec in named if spec is not None]
    if main is None and not listed:
        raise NotKnown("quantization 'quark' has no weight with a dtype")
    return replace(recipe, main=main), listed


def _one(name: str, covers: frozenset[str] = _LINEAR) -> _Method:
    def read(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
        return replace(recipe, main=name, covers=covers), []

    return read


_Method = Callable[[str, ConfigKeys, Recipe], tuple[Recipe, Listed]]

_EXPERTS = frozenset({"experts"})

_METHODS: dict[str, _Method] = {
    "auto-round": _auto_round,
    "awq": _awq,
    "awq_marlin": _awq,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    # OpenAI's mxfp4 and vLLM's experts_int8 are of the routed experts only.
    "experts_int8": _one("int8", _EXPERTS),
    "fbgemm_fp8": _fp8,
    "finegrained_fp8": _fp8,
    "fp8": _fp8,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "modelopt": _optimizer,
    "modelopt_fp4": _optimizer,
    "modelopt_mxfp8": _optimizer,
    "mxfp4": _one("mxfp4", _EXPERTS),
    "mxfp8": _one("mxfp8"),
    "nvfp4": _one("nvfp4"),
    "quark": _quark,
    # vLLM's and SGLang's, which keep one scale a channel.
    **dict.fromkeys(("eetq", "tpu_int8", "w8a8_int8"), _one("int8")),
    **dict.fromkeys(("ptpc_fp8", "w8a8_fp8"), _one("fp8")),
}
"""Readers by `quant_method`."""

_GPTQ_SIGNS = ("desc_act", "damp_percent", "true_sequential")


def read_method(method: str, section: ConfigKeys, recipe: Recipe) -> tuple[Recipe, Listed]:
    """What a quantization_config says.

    Raises:
        NotKnown: the method has no format of ours, or not at this width.
        InputError: a key of the wrong type.
    """
    # Files of Model Optimizer's own kind state the algorithm only.
    if not method and section.has("quant_algo"):
        return _optimizer(method, section, recipe)
    if not method and section.has("bits") and section.has(*_GPTQ_SIGNS):
        said = "quantization_config has no quant_method; read as GPTQ, whose keys it has"
        return _gptq("gptq", section, replace(recipe, notes=(*recipe.notes, said)))
    if not method:
        raise NotKnown("quantization_config has no quant_method")
    if method not in _METHODS:
        close = nearest(method, _METHODS) if len(method) <= 100 else None
        hint = f" (did you mean {close!r}?)" if close else ""
        raise NotKnown(f"quant_method {shorten(method)} is not known{hint}")
    return _METHODS[method](method, section, recipe)
