"""Writes archinfer/models/tables.json from the config classes of Hugging Face transformers.

    reference/bin/python tests/tools/make_model_tables.py SCAN FOLDER...

The environment is that of transformers_counts.py; each FOLDER holds an older release
(`pip install --no-deps --target FOLDER transformers==4.57.6`), whose generation defaults stand in
files that people still have. SCAN is a file that keeps which key of which class changes its count:
it takes ten minutes to make, and is read where it is there.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import warnings
from collections import Counter
from inspect import signature
from pathlib import Path
from typing import Any

import transformers
from transformers import GenerationConfig, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)
from transformers_counts import count

SIZES = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "vocab_size", "moe_intermediate_size", "num_experts", "num_local_experts",
    "n_routed_experts", "num_experts_per_tok", "shared_expert_intermediate_size",
    "tie_word_embeddings", "sliding_window", "attention_bias", "num_kv_shared_layers",
    "hidden_size_per_layer_input", "vocab_size_per_layer_input", "altup_num_inputs",
    "laurel_rank", "first_k_dense_replace", "shared_intermediate_size", "n_shared_experts",
    "num_shared_experts", "decoder_sparse_step", "moe_layer_freq", "num_dense_layers",
    "interleave_moe_layer_step", "q_lora_rank", "moe_num_shared_experts", "num_shared_expert",
    "moe_layer_start_index", "moe_shared_expert_intermediate_size",
)  # fmt: skip

NOT_HARMLESS = {"tie_word_embeddings", "add_cross_attention", "cross_attention_hidden_size",
                "is_encoder_decoder", "pruned_heads", "self", "kwargs"}  # fmt: skip


PACKAGE = Path(__file__).parents[2] / "archinfer" / "models"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "configs"

DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
VALUES: dict[type, tuple[Any, ...]] = {
    bool: (True, False), int: (64, 96), float: (0.5,), type(None): (64, True), str: (), list: (),
    dict: (),
}  # fmt: skip
"""What a key is set to, to see whether a class counts otherwise."""


def harmless(folders: list[Path]) -> list[str]:
    """Keys that every config may have and that change no size."""
    names = set(GenerationConfig().to_dict()) | set(signature(PretrainedConfig).parameters)
    for folder in folders:
        for name in ("configuration_utils.py", "generation/configuration_utils.py"):
            path = folder / "transformers" / name
            if path.exists():
                names |= set(re.findall(r'kwargs\.pop\("([a-z_0-9]+)"', path.read_text()))
    return sorted(names - NOT_HARMLESS)


def key_changes(cls: Any) -> dict[str, bool]:
    """Whether each number or flag of a decoder's class changes what it counts, alone."""
    usual = json.loads(cls().to_json_string(use_diff=False))
    first: dict[str, Any] = next(({n: 4} for n in DEPTHS if n in usual), {})
    total, found = count(cls(**first)), {}
    for key, value in usual.items():
        if key in first or key in ("model_type", "dtype") or isinstance(value, str | list | dict):
            continue
        for new in VALUES_OF[type(value)](value):
            with contextlib.suppress(Exception):
                found[key] = found.get(key, False) or count(cls(**first | {key: new})) != total
    return found


VALUES_OF: dict[type, Any] = {
    bool: lambda v: (not v,), int: lambda v: (2 * v or 4, v + 1), float: lambda v: (2 * v or 0.5,),
    type(None): lambda v: (64, True),
}  # fmt: skip


def scan(path: Path, others: set[str]) -> dict[str, dict[str, bool]]:
    """`key_changes` of every decoder's class, from the file where it is there."""
    if not path.exists():
        found: dict[str, dict[str, bool]] = {}
        for cls in {type(CONFIG_MAPPING[n]()) for n in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}:
            with contextlib.suppress(Exception):
                found[cls.model_type] = key_changes(cls)
        path.write_text(json.dumps(found))
    return {n: keys for n, keys in json.loads(path.read_text()).items() if n not in others}


def names_that_are_read() -> set[str]:
    """Keys that the readers read."""
    folder = PACKAGE / "readers"
    files = [*folder.glob("*.py"), PACKAGE / "defaults.py"]
    names = {n for f in files for n in re.findall(r'"([a-zA-Z_0-9]+)"', f.read_text())}
    for row in json.loads((folder / "families.json").read_text())["styles"].values():
        for key, value in row.items():
            if key not in ("decoys", "only") and not isinstance(value, bool | int):
                names |= {value} if isinstance(value, str) else set(value)
    return names


def words(key: str) -> set[str]:
    """The words of a key."""
    return {word for word in re.split(r"[_\d]+", key.lower()) if len(word) > 1}


def harmless_names(
    scanned: dict[str, dict[str, bool]], general: list[str]
) -> tuple[list[str], list[str]]:
    """Keys, and words in keys, that change no count of any class and that no reader reads.

    A key is taken where two classes have it, a word where two keys have it.
    """
    from archinfer.models.tables import names_a_size

    seen: dict[str, list[bool]] = {}
    for keys in scanned.values():
        for key, changes in keys.items():
            seen.setdefault(key, []).append(changes)
    read = names_that_are_read()
    sizes = {k for k, found in seen.items() if any(found)} | read
    idle = {k for k in seen if k not in sizes}
    known = {k for k in idle if len(seen[k]) > 1} | set(general)
    telling = {w for k in sizes for w in words(k)}
    kept = Counter(w for k in idle | set(general) for w in words(k))
    found = (w for w, n in kept.items() if n > 1 and w not in telling and not names_a_size(w))
    return sorted(known), sorted(found)


def released() -> list[str]:
    """Keys of released configs that are named like sizes, and whose counts are exact without."""
    from archinfer import catalogue
    from archinfer.models.configkeys import ConfigKeys
    from archinfer.models.huggingface import from_config

    files = (FIXTURES / "beyond.json", FIXTURES / "families.json")
    configs = [catalogue.entry(name).config for name in catalogue.names()]
    configs += [e[2] for f in files for e in json.loads(f.read_text()).values()]
    found: set[str] = set()
    usual = ConfigKeys.leftovers

    def collect(keys: ConfigKeys) -> list[str]:
        found.update(usual(keys))
        return []

    ConfigKeys.leftovers = collect  # type: ignore[method-assign]
    for config in configs:
        from_config(config)
    ConfigKeys.leftovers = usual  # type: ignore[method-assign]
    return sorted(found)


def defaults() -> dict[str, Any]:
    """What the class of each family takes for sizes that a file leaves out."""
    found = {}
    for name in sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *CONFIG_MAPPING.keys()}):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                config = CONFIG_MAPPING[name]()
                text = config.get_text_config(decoder=True)
        except Exception:
            continue
        if text is not config:
            continue
        values = json.loads(config.to_json_string(use_diff=False))
        found[name] = {k: values[k] for k in SIZES if values.get(k) is not None}
    return found


def unused(name: str, scanned: dict[str, bool]) -> list[str]:
    """Keys of a class that change no count, and that its code or every reader here never reads."""
    from archinfer.models.tables import harmless_keys, may_be_size

    def sized(key: str) -> bool:
        return may_be_size(key) and key not in harmless_keys()

    cls = CONFIG_MAPPING[name]
    module = sys.modules[MODEL_FOR_CAUSAL_LM_MAPPING[cls].__module__]
    text = Path(str(module.__file__)).read_text()
    values = json.loads(cls().to_json_string(use_diff=False))
    keys = [k for k in values if sized(k) and not re.search(rf"config\.{k}\b", text)]
    first = next(({n: 4} for n in DEPTHS if n in values), {})
    read = names_that_are_read()
    found = [
        k for k, changes in scanned.items() if not changes and k not in read and may_be_size(k)
    ]
    for key in keys:
        counts = set()
        for value in VALUES[type(values[key])]:
            with contextlib.suppress(Exception):
                counts |= {count(cls(**first)), count(cls(**first | {key: value}))}
        if len(counts) == 1 and key not in DEPTHS:
            found.append(key)
    return sorted({*found})


def unlike() -> list[str]:
    """Families that archinfer does not know and whose classes the generic keys do not count."""
    from archinfer.errors import InputError
    from archinfer.models.huggingface import from_config, known_families

    names = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES}
    found = set()
    for name in names - {*known_families()}:
        with contextlib.suppress(Exception):
            text = CONFIG_MAPPING[name]().get_text_config(decoder=True)
            written = json.loads(text.to_json_string(use_diff=False))
            total = count(text)
            with contextlib.suppress(InputError):
                if from_config(written).parameters().total != total:
                    found.add(written["model_type"])
    return sorted(found - {*known_families()})


def constants(name: str, found: dict[str, Any]) -> dict[str, int]:
    """Heads that a class takes whatever the width is, and how many of its layers are dense."""
    cls = CONFIG_MAPPING[name]
    usual = cls().get_text_config(decoder=True)
    heads, hidden = found.get("num_attention_heads"), found.get("hidden_size")
    kept = {}
    # Latent attention and JetMoE have other widths; what they state of these is a decoy.
    decoys = hasattr(usual, "kv_lora_rank") or hasattr(usual, "kv_channels")
    if isinstance(heads, int) and isinstance(hidden, int) and not decoys:
        other = cls(hidden_size=2 * hidden, num_attention_heads=4 * heads)
        for key in ("head_dim", "num_key_value_heads"):
            value = getattr(usual, key, None)
            if isinstance(value, int) and value == getattr(other, key, None):
                kept[key] = value
    kinds = getattr(usual, "mlp_layer_types", None) or []
    dense = kinds.index("sparse") if "sparse" in kinds else 0
    if dense and not {*kinds[dense:]} - {"sparse"} and not found.get("first_k_dense_replace"):
        kept["first_k_dense_replace"] = dense
    return kept


def write(tables: dict[str, Any]) -> None:
    """The tables, the defaults of each family on a line of their own."""
    from archinfer.models import tables as module

    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in tables["defaults"].items()]
    others = {k: v for k, v in tables.items() if k != "defaults"}
    text = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in others.items())
    path = PACKAGE / "tables.json"
    path.write_text("{\n" + text + ',\n"defaults": {\n' + ",\n".join(lines) + "\n}\n}\n")
    for cached in (module.table, module.harmless_keys, module.harmless_words):
        cached.cache_clear()


def main() -> None:
    """Write the tables of the families that archinfer reads."""
    from archinfer.models.huggingface import known_families

    encoders = {
        n
        for n in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        if n not in ("bart", "mbart", "mvp", "plbart", "git", "reformer")
    }
    both = {n for n in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES if "encoder" not in n}
    both |= {"bart", "mbart", "mvp", "plbart", "whisper"}
    folders = [Path(p) for p in sys.argv[2:]]
    older = [next(p.glob("transformers-*.dist-info")).name.split("-")[1][:-5] for p in folders]
    scanned = scan(Path(sys.argv[1]), encoders | both)
    keys, telling = harmless_names(scanned, harmless(folders))
    tables: dict[str, Any] = {
        "transformers": [transformers.__version__, *older],
        "harmless": keys,
        "harmless_words": telling,
        "released": [],
        "encoders": sorted(encoders - both),
        "encoder_decoders": sorted(both),
        "defaults": {k: v for k, v in defaults().items() if k in known_families()},
        "constants": {},
        "unused": {},
    }
    write(tables | {"unlike": []})
    for name, found in tables["defaults"].items():
        with contextlib.suppress(Exception):
            if kept := constants(name, found):
                tables["constants"][name] = kept
        with contextlib.suppress(Exception):
            if found := unused(name, scanned.get(name, {})):
                tables["unused"][name] = found
    write(tables | {"unlike": []})
    tables["released"] = released()
    write(tables | {"unlike": []})
    write(tables | {"unlike": unlike()})


if __name__ == "__main__":
    main()
