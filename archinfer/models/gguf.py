"""GGUF files (llama.cpp): a header of metadata and tensors becomes an `Architecture`.

Only the header is read (the specification: ggml/docs/gguf.md): version 2 and 3, little-endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from archinfer.errors import FileError, nearest, shorten
from archinfer.models.formats import weight_format
from archinfer.models.tensors import Tensor, component_of, tensor_table

MAGIC = b"GGUF"

_MOST_KEYS = 10_000
_MOST_TENSORS = 200_000
_MOST_ITEMS = 5_000_000
_MOST_TEXT = 50_000_000

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
            12: "d"}  # fmt: skip
_TEXT, _ARRAY = 8, 9


class _Reader:
    """Little-endian values one after another; every length is held against a bound."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path

    def bytes(self, size: int) -> bytes:
        found = self.file.read(size)
        if len(found) < size:
            raise FileError(self.path, "is cut off: its header says more than it holds")
        return found

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.bytes(struct.calcsize("<" + code)))[0]

    def length(self, most: int, what: str) -> int:
        found = int(self.number("Q"))
        if found > most:
            raise FileError(self.path, f"states {found} {what}; expected at most {most}")
        return found

    def text(self) -> str:
        size = self.length(_MOST_TEXT, "bytes of a text")
        return self.bytes(size).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        """A value; of an array of texts only how many there are."""
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY or depth > 2:
            raise FileError(self.path, f"holds metadata of a type {kind} that is not known")
        inner, count = int(self.number("I")), self.length(_MOST_ITEMS, "items of a list")
        if inner in _SCALARS:
            code = f"<{count}{_SCALARS[inner]}"
            return list(struct.unpack(code, self.bytes(struct.calcsize(code))))
        for _ in range(count):
            self.value(inner, depth + 1)
        return range(count)


def _read_one(path: Path) -> tuple[dict[str, Any], list[tuple[str, list[int], int]]]:
    """Metadata, and name, shape and type of each tensor."""
    try:
        with path.open("rb") as file:
            reader = _Reader(file, path)
            if reader.bytes(4) != MAGIC:
                raise FileError(path, "is no GGUF file: it does not begin with GGUF")
            version = reader.number("I")
            if version not in (2, 3):
                raise FileError(path, f"is GGUF version {version}; known are 2 and 3")
            count = reader.length(_MOST_TENSORS, "tensors")
            keys = reader.length(_MOST_KEYS, "keys")
            metadata = {}
            for _ in range(keys):
                name = reader.text()
                metadata[name] = reader.value(int(reader.number("I")))
            tensors = []
            for _ in range(count):
                name, rank = reader.text(), int(reader.number("I"))
                if rank > 8:
                    raise FileError(path, f"tensor {shorten(name)} has {rank} dimensions")
                shape = [int(reader.number("Q")) for _ in range(rank)]
                kind, _ = int(reader.number("I")), reader.number("Q")
                tensors.append((name, shape, kind))
            return metadata, tensors
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None


def read_header(path: Path) -> tuple[dict[str, Any], dict[str, list[int]], list[Tensor]]:
    """Metadata, the shape of every tensor, and every tensor; of all parts of a split file.

    Raises:
        FileError: not a GGUF file, a part that is missing, a type that is not known.
    """
    metadata, listed = _read_one(path)
    parts = metadata.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        named = re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.gguf", path.name)
        if named is None or parts > 1000:
            raise FileError(path, f"is one of {parts} parts, and not named like one")
        listed = []
        for number in range(1, parts + 1):
            part = path.with_name(f"{named[1]}-{number:05d}-of-{named[2]}.gguf")
            if not part.is_file():
                raise FileError(path, f"is one of {parts} parts; {part.name} is not beside it")
            own, more = _read_one(part)
            metadata = own if number == 1 else metadata
            listed += more
    shapes = {name: shape for name, shape, _ in listed}
    tensors = []
    for name, shape, kind in listed:
        form = tensor_table("ggml").get(str(kind))
        if form is None:
            raise FileError(path, f"tensor {shorten(name)} has type {kind}, which is not known")
        count = prod(shape)
        tensors.append(Tensor(name, count * weight_format(form).bits / 8, count, form))
    return metadata, shapes, tensors


def config_of(metadata: dict[str, Any], shapes: dict[str, list[int]], path: Path) -> dict[str, Any]:
    """The metadata in the keys of a Hugging Face config.

    Raises:
        FileError: an architecture that is not known.
    """
    arch = metadata.get("general.architecture")
    if arch is None:
        raise FileError(path, "its metadata has no general.architecture")
    family = tensor_table("architectures").get(arch) if isinstance(arch, str) else None
    if family is None:
        close = nearest(str(arch)[:60], tensor_table("architectures"))
        hint = f" (did you mean {close!r}?)" if close else ""
        raise FileError(path, f"general.architecture {shorten(str(arch))} is not known{hint}")
    config: dict[str, Any] = {"model_type": family, "dtype": "float32"}
    for name, key in tensor_table("keys").items():
        value = metadata.get(f"{arch}.{name}")
        if isinstance(value, list):
            value = value[0] if len(set(value)) == 1 else value
        if value not in (None, 0):
            config[key] = value
    has: Callable[[str], bool] = shapes.__contains__
    table_shape = shapes.get("token_embd.weight", [])
    if len(table_shape) == 2:
        config["vocab_size"] = table_shape[1]
    config["tie_word_embeddings"] = not has("output.weight")
    _fit_recurrent(config, metadata, str(arch), shapes)
    _fit(config, metadata, str(arch), shapes)
    return config


def _fit_recurrent(
    config: dict[str, Any], metadata: dict[str, Any], arch: str, shapes: dict[str, list[int]]
) -> None:
    """State spaces and hybrids: their sizes, and which layers have attention, experts or neither.

    A list has an entry a layer; a layer without key-value heads has no attention.
    """
    family = config["model_type"]
    known = tensor_table("ssm").get("qwen" if family.startswith("qwen3") else family, {})
    for key, said in known.items():
        name, _, by = said.partition("/")
        value = metadata.get(f"{arch}.ssm.{name}")
        divisor = config.get(by, metadata.get(f"{arch}.ssm.{by}")) if by else 1
        if isinstance(value, int) and isinstance(divisor, int) and divisor > 0:
            config[key] = value // divisor
    kv, wide = (config.get(k) for k in ("num_key_value_heads", "intermediate_size"))
    if not isinstance(kv, list) or not all(isinstance(n, int) for n in kv):
        return
    config["num_key_value_heads"] = max(kv)
    attended = [n > 0 for n in kv]
    routed = [f"blk.{i}.ffn_gate_inp.weight" in shapes for i in range(len(kv))]
    if family == "nemotron_h":
        widths = wide if isinstance(wide, list) else [wide or 0] * len(kv)
        fed = ["moe" if r else "mlp" if w else "mamba" for r, w in zip(routed, widths, strict=True)]
        kinds = ["attention" if a else f for a, f in zip(attended, fed, strict=True)]
        config |= {"layers_block_type": kinds, "intermediate_size": max(widths),
                   "moe_latent_size": metadata.get(f"{arch}.moe_latent_size"),
                   "moe_shared_expert_intermediate_size":
                       config.pop("shared_expert_intermediate_size", None)}  # fmt: skip
    elif family == "jamba":
        for name, flags in (("attn", attended), ("expert", routed)):
            at = [i for i, flag in enumerate(flags) if flag] or [0]
            period = at[1] - at[0] if len(at) > 1 else len(kv)
            config |= {f"{name}_layer_offset": at[0], f"{name}_layer_period": period}
    elif family.startswith("lfm2"):
        config["conv_L_cache"] = metadata.get(f"{arch}.shortconv.l_cache")
        config["layer_types"] = ["full_attention" if a else "conv" for a in attended]
        config["block_auto_adjust_ff_dim"] = False
    else:
        config["layer_types"] = ["attention" if a else "mamba" for a in attended]


def _fit(
    config: dict[str, Any], metadata: dict[str, Any], arch: str, shapes: dict[str, list[int]]
) -> None:
    """What families say in keys of their own, in the config's words."""
    family = config["model_type"]
    later = config.get("num_nextn_predict_layers", 0)
    if isinstance(config.get("num_hidden_layers"), int):
        config["num_hidden_layers"] -= later
    if family == "llama" and "num_experts" in config:
        config["model_type"] = family = "mixtral"
    if "kv_lora_rank" in config:
        rope = metadata.get(f"{arch}.rope.dimension_count", 0)
        key = metadata.get(f"{arch}.attention.key_length_mla", config.get("head_dim", 0))
        value = metadata.get(f"{arch}.attention.value_length_mla")
        value = metadata.get(f"{arch}.attention.value_length") if value is None else value
        config |= {"qk_rope_head_dim": rope, "qk_nope_head_dim": key - rope, "v_head_dim": value}
        config.pop("head_dim", None)
    if config.get("num_shared_experts"):
        config.pop("shared_expert_intermediate_size", None)
    if family.startswith(("qwen2", "starcoder2")):
        config.pop("head_dim", None)
    elif "blk.0.attn_q.bias" in shapes:
        config["attention_bias"] = True
    if family in ("glm4_moe", "bailing_moe_v2", "cohere"):
        config["use_qk_norm"] = "blk.0.attn_q_norm.weight" in shapes
    if family == "granitemoehybrid":
        config["num_local_experts"] = config.pop("num_experts", 0)
        wide = config.pop("shared_expert_intermediate_size", config.get("intermediate_size"))
        config["shared_intermediate_size"] = wide
    if family == "falcon_h1":
        config["mamba_rms_norm"] = "blk.0.ssm_norm.weight" in shapes
    if family == "gpt_oss":
        config["intermediate_size"] = config.pop(
            "moe_intermediate_size", config.get("intermediate_size")
        )
    if family == "mixtral":
        config.pop("moe_intermediate_size", None)


def counted(tensors: list[Tensor], layers: int) -> int:
    """Numbers of all tensors that belong to the language model."""
    return sum(t.params for t in tensors if component_of(t.name, layers)[0])
