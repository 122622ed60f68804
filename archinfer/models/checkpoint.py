"""Files and folders in which people keep models: what each is, and the architecture in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from archinfer.errors import FileError, InputError, UnknownNameError
from archinfer.models import catalogue, gguf
from archinfer.models.architecture import Architecture
from archinfer.models.catalogue import Entry
from archinfer.models.configkeys import read_json_object
from archinfer.models.huggingface import from_config
from archinfer.models.tensors import by_total, index_total, measured, read_safetensors
from archinfer.words import percent

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SIDECAR = "hf_quant_config.json"

_TOLD = 0.01
"""Relative difference between a config's bytes and the checkpoint's from which it is told."""


def load_architecture(path: str) -> Architecture:
    """The architecture in a file or folder (`-`: a config.json on standard input).

    A config.json, with what stands beside it (hf_quant_config.json, the index or the headers of
    its safetensors); params.json of Mistral or Llama; a .gguf or .safetensors; a folder of one of
    them, that of a Hugging Face cache too.

    Raises:
        FileError: the file cannot be read, or is none of these.
        InputError: the config cannot be counted exactly.
    """
    if path == "-":
        return from_config(read_json_object("-"), "standard input")
    found = Path(_inside(path))
    kind = _binary(found)
    if kind == "gguf":
        return _from_gguf(found)
    if kind == "safetensors":
        return _beside(found, "its header holds no sizes of heads")
    if found.name.endswith(".safetensors.index.json"):
        return _beside(found, "an index holds no sizes of layers")
    return _from_config_file(found, str(found))


def is_model(path: str) -> bool:
    """Whether a path is a file, or a folder that holds a model."""
    return os.path.isfile(path) or _inside(path) != path


def _inside(path: str) -> str:
    """The file that a folder stands for; the path itself where it is none."""
    folder = Path(path)
    # pathlib raises where a name is too long for a file.
    if not os.path.isdir(path):
        return path
    snapshots = folder if folder.name == "snapshots" else folder / "snapshots"
    if snapshots.is_dir() and not (folder / "config.json").exists():
        return _inside(str(_snapshot(snapshots)))
    for name in ("config.json", "params.json", INDEX, SINGLE):
        if (folder / name).is_file():
            return str(folder / name)
    files = sorted(folder.glob("*.gguf"))
    first = [f for f in files if "-of-" not in f.name or "-00001-of-" in f.name]
    models = [f for f in first if not f.name.startswith("mmproj")]
    if len(models) > 1:
        names = ", ".join(f.name for f in models[:4])
        raise FileError(path, f"holds several models: name one of {names}")
    return str(models[0]) if models else path


def _snapshot(snapshots: Path) -> Path:
    """The snapshot of a cache that `refs/main` names, else the newest."""
    ref = snapshots.parent / "refs" / "main"
    try:
        named = snapshots / ref.read_text(encoding="utf-8").strip()[:100]
        if named.is_dir() and named != snapshots:
            return named
    except (OSError, ValueError):
        pass
    found = [p for p in snapshots.iterdir() if p.is_dir()]
    if not found:
        raise FileError(snapshots, "holds no snapshot: nothing was downloaded")
    return max(found, key=lambda p: (p.stat().st_mtime, p.name))


def _binary(path: Path) -> str:
    """`gguf` or `safetensors` by name and first bytes; other weights are refused by what they are.

    Raises:
        FileError: weights of a kind that says nothing of the layers.
    """
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except OSError:
        start = b""
    if start[:4] == gguf.MAGIC or path.suffix == ".gguf":
        return "gguf"
    if path.suffix == ".safetensors" or (start[8:9] == b"{" and start[3:8] == b"\0" * 5):
        return "safetensors"
    if start[:2] in (b"PK", b"\x80\x02", b"\x80\x04"):
        raise FileError(path, "holds weights in PyTorch's own form; expected its config.json")
    return ""


def _beside(path: Path, why: str) -> Architecture:
    config = path.with_name("config.json")
    if not config.is_file():
        raise FileError(path, f"cannot be counted alone ({why}); expected config.json beside it")
    shards = None if path.name.endswith(".json") else [path]
    return _from_config_file(config, str(path), shards)


# A config and what stands beside it


def _from_config_file(path: Path, source: str, shards: list[Path] | None = None) -> Architecture:
    data = read_json_object(str(path))
    for is_this, reason in _OTHERS:
        if is_this(data):
            raise FileError(path, reason)
    if "dim" in data and "n_layers" in data:
        data = _from_params(data, path)
    side = path.with_name(SIDECAR)
    said: list[str] = []
    inner = data.get("text_config")
    parts = [data, inner if isinstance(inner, Mapping) else {}]
    own = any(part.get(n) for part in parts for n in ("quantization_config", "quantization"))
    if side.is_file() and not own:
        section = read_json_object(str(side)).get("quantization")
        if not isinstance(section, Mapping):
            raise FileError(side, "has no key quantization with a mapping")
        data = {**data, "quantization_config": {"quant_method": "modelopt", **section}}
        said.append(f"weights as {SIDECAR} beside the config says")
    model = from_config(data, source)
    return _with_tensors(replace(model, notes=(*model.notes, *said)), path.parent, shards)


def _with_tensors(model: Architecture, folder: Path, shards: list[Path] | None) -> Architecture:
    """The model with the bytes of its checkpoint, where it stands beside the config."""
    index = folder / INDEX
    if shards is None and index.is_file():
        names = read_json_object(str(index), most_bytes=100_000_000).get("weight_map")
        listed = set(names.values()) if isinstance(names, Mapping) else set()
        shards = [folder / n for n in sorted(map(str, listed)) if "/" not in n and ".." not in n]
    elif shards is None and (folder / SINGLE).is_file():
        shards = [folder / SINGLE]
    if shards and all(s.is_file() for s in shards):
        tensors = [t for shard in shards for t in read_safetensors(shard)]
        return _compared(model, measured(model, tensors))
    total = index_total(index) if index.is_file() else None
    if total is None:
        return model
    if model.stored.refused:
        return by_total(model, total)
    off = total / model.weight_bytes() - 1.0
    if abs(off) <= _TOLD:
        return by_total(model, total)
    parts = [n for n in model.notes if n.startswith("multimodal") or "prediction layer" in n]
    if parts:
        note = f"{INDEX}: {total / 1e9:,.2f} GB with what is not counted ({'; '.join(parts)})"
        return replace(model, notes=(*model.notes, note))
    return _compared(model, by_total(model, total))


def _compared(by_config: Architecture, found: Architecture) -> Architecture:
    """The model as its tensors say, with a warning where the config says otherwise."""
    stored = found.stored.tensor_bytes
    if by_config.stored.refused or stored is None:
        return found
    expected = by_config.weight_bytes()
    off = stored / expected - 1.0
    if abs(off) <= _TOLD:
        return found
    said = (
        f"the checkpoint's tensors take {stored / 1e9:,.4g} GB, {percent(abs(off), 1)} "
        f"{'more' if off > 0 else 'less'} than the {expected / 1e9:,.4g} GB of its config; the "
        "tensors are believed"
    )
    warnings, assumed = (*found.warnings, said), (*found.assumed, said)
    return replace(found, warnings=warnings, assumed=assumed)


def _from_gguf(path: Path) -> Architecture:
    metadata, shapes, tensors = gguf.read_header(path)
    config = gguf.config_of(metadata, shapes, path)
    model = from_config(config, str(path))
    found = measured(model, tensors)
    off = gguf.counted(tensors, model.layers) - model.parameters().total
    if not off:
        return found
    said = f"its tensors hold {abs(off):,} numbers {'more' if off > 0 else 'fewer'} than counted"
    return replace(found, warnings=(*found.warnings, said), assumed=(*found.assumed, said))


# Other files that people have


def _from_params(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Mistral's and Llama's params.json in the keys of a Hugging Face config."""
    if not all(isinstance(data.get(name), int) for name in ("n_heads", "dim")):
        raise FileError(path, "n_heads and dim must be whole numbers")
    for name in data:
        if name not in _PARAMS and name not in _PARAMS_OTHERS:
            raise FileError(path, f"key {name} may change the size and is not known")
    config = {"model_type": "llama", "tie_word_embeddings": False, "vocab_size": None,
              "num_key_value_heads": data["n_heads"]}  # fmt: skip
    config |= {key: data[name] for name, key in _PARAMS.items() if data.get(name) is not None}
    moe = data.get("moe")
    if isinstance(moe, Mapping):
        config |= {"model_type": "mixtral", "num_local_experts": moe.get("num_experts"),
                   "num_experts_per_tok": moe.get("num_experts_per_tok")}  # fmt: skip
    if data.get("hidden_dim") is None:
        # Llama's own: two thirds of four times the width, perhaps scaled, rounded up.
        width = int(2 * 4 * data["dim"] / 3)
        factor, unit = data.get("ffn_dim_multiplier"), data.get("multiple_of", 256)
        if isinstance(factor, int | float):
            width = int(factor * width)
        if not isinstance(unit, int) or unit < 1:
            raise FileError(path, "multiple_of must be a positive whole number")
        config["intermediate_size"] = unit * -(-width // unit)
    return config


_PARAMS = {
    "dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads", "vocab_size": "vocab_size",
    "tied_embeddings": "tie_word_embeddings", "hidden_dim": "intermediate_size",
    "head_dim": "head_dim", "sliding_window": "sliding_window",
    "max_seq_len": "max_position_embeddings", "max_position_embeddings": "max_position_embeddings",
}  # fmt: skip
_PARAMS_OTHERS = {
    "multiple_of", "ffn_dim_multiplier", "moe", "norm_eps", "rope_theta", "use_scaled_rope",
    "max_batch_size", "yarn", "rope_scaling_factor", "model_type", "llama_4_scaling", "causal",
    "vision_encoder", "use_biases", "quantization",
}  # fmt: skip


_TOKENIZER = {"added_tokens_decoder", "chat_template"}

_OTHERS: tuple[tuple[Callable[[Mapping[str, Any]], bool], str], ...] = (
    (lambda data: "peft_type" in data,
     "is an adapter (PEFT), which adds to a model and is none; expected the config.json of the "
     "model it was made for"),
    (lambda data: isinstance(data.get("quantization"), Mapping) and "model_type" not in data
     and {*data} <= {"quantization", "producer"},
     "says how weights are quantised, not what the model is; expected the config.json beside it"),
    (lambda data: "model_type" not in data and not {*data}.isdisjoint(_TOKENIZER),
     "is a tokenizer's configuration; expected the model's config.json"),
    (lambda data: isinstance(data.get("weight_map"), Mapping),
     "is an index of weights; expected the config.json beside it"),
)  # fmt: skip
"""Files that are no model: how each is told, and what it is."""


def read_model(name: str) -> tuple[Architecture, Entry | None]:
    """A model by catalogue name, or from a file or folder that `load_architecture` reads.

    `-` is standard input. A folder without a model may still be named like one.

    Raises:
        UnknownNameError: neither a file nor a name of the catalogue.
        FileError, InputError: a folder without a model, a config that cannot be used.
    """
    # A file may be called anything, a model of the catalogue may not.
    if not name.strip() or not (name.isprintable() or os.path.exists(name)):
        raise InputError(f"expected the name of a model or a config.json, found {name!r}")
    # These say no, where pathlib raises, to a name that is too long for a file.
    folder = name != "-" and os.path.isdir(name)
    looks_like_path = name == "-" or name.endswith((".json", ".gguf", ".safetensors"))
    if name.endswith((".yaml", ".yml")) and os.path.isfile(name):
        raise FileError(
            name, "is YAML, as profiles are (--hardware); expected the name or config of a model"
        )
    there = os.path.exists(name) and not folder
    if looks_like_path or there or (folder and is_model(name)):
        return load_architecture(name), None
    try:
        return catalogue.load(name), catalogue.entry(name)
    except UnknownNameError:
        if not folder:
            raise
        raise FileError(name, "is a folder without a config.json; expected that file") from None
