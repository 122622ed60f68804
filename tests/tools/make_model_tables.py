"""Writes archinfer/models/tables.json from the config classes of Hugging Face transformers.

    reference/bin/python tests/tools/make_model_tables.py FOLDER...

The environment is that of transformers_counts.py; each FOLDER holds an older release
(`pip install --no-deps --target FOLDER transformers==4.57.6`), whose generation defaults stand in
files that people still have.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import warnings
from inspect import signature
from pathlib import Path
from typing import Any

from transformers import GenerationConfig, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
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


def unused(name: str) -> list[str]:
    """Keys of a class that its code never reads, and that change no count."""
    from archinfer.models.tables import may_be_size

    cls = CONFIG_MAPPING[name]
    module = sys.modules[MODEL_FOR_CAUSAL_LM_MAPPING[cls].__module__]
    text = Path(str(module.__file__)).read_text()
    values = json.loads(cls().to_json_string(use_diff=False))
    keys = [k for k in values if may_be_size(k) and not re.search(rf"config\.{k}\b", text)]
    first = next(({n: 4} for n in DEPTHS if n in values), {})
    found = []
    for key in keys:
        counts = set()
        for value in VALUES[type(values[key])]:
            with contextlib.suppress(Exception):
                counts |= {count(cls(**first)), count(cls(**first | {key: value}))}
        if len(counts) == 1 and key not in DEPTHS:
            found.append(key)
    return found


def unlike() -> list[str]:
    """Families that archinfer does not know and whose classes the generic keys do not count."""
    from archinfer.errors import InputError
    from archinfer.models.huggingface import from_config, known_families

    found = []
    for name in sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES} - {*known_families()}):
        with contextlib.suppress(Exception):
            config = CONFIG_MAPPING[name]()
            written = json.loads(config.to_json_string(use_diff=False))
            if config.get_text_config(decoder=True) is not config or "vision_config" in written:
                continue
            total = count(config)
            with contextlib.suppress(InputError):
                if from_config(written).parameters().total != total:
                    found.append(name)
    return found


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


def main() -> None:
    """Write the tables of the families that archinfer reads."""
    from archinfer.models.huggingface import known_families

    encoders = {
        n
        for n in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        if n not in ("bart", "mbart", "mvp", "plbart", "git", "reformer")
    }
    both = {n for n in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES if "encoder" not in n}
    tables = {
        "harmless": harmless([Path(p) for p in sys.argv[1:]]),
        "encoders": sorted(encoders - both),
        "encoder_decoders": sorted(both | {"bart", "mbart", "mvp", "plbart", "whisper"}),
        "defaults": {k: v for k, v in defaults().items() if k in known_families()},
        "constants": {},
        "unused": {},
        "unlike": unlike(),
    }
    for name, found in tables["defaults"].items():
        with contextlib.suppress(Exception):
            if kept := constants(name, found):
                tables["constants"][name] = kept
        with contextlib.suppress(Exception):
            if found := unused(name):
                tables["unused"][name] = found
    path = Path(__file__).parents[2] / "archinfer" / "models" / "tables.json"
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in tables["defaults"].items()]
    others = {k: v for k, v in tables.items() if k != "defaults"}
    text = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in others.items())
    path.write_text("{\n" + text + ',\n"defaults": {\n' + ",\n".join(lines) + "\n}\n}\n")


if __name__ == "__main__":
    main()
