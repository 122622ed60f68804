"""Counts parameters with the classes of Hugging Face transformers, on the meta device.

Not part of the tests, which read what this wrote: for each family the config that its class
writes by itself, and how many parameters the class makes of it. Needs torch and transformers
(written for torch 2.13.0 and transformers 5.24.0), in an environment of their own:

    python3.11 -m venv reference
    reference/bin/pip install torch==2.13.0 transformers==5.24.0
    reference/bin/python tests/tools/transformers_counts.py families.json llama falcon ...
    reference/bin/python tests/tools/transformers_counts.py counts.json --configs configs.json

The second form counts configs of a file {name: config}; `--changed` counts each family with each
key of its class changed alone, at four layers (tests/fixtures/configs/changed.json).
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING


def count(config: Any) -> int:
    """Parameters of the decoder with a language-model head, tied ones once."""
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        headless = type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING
        model = (AutoModel if headless else AutoModelForCausalLM).from_config(config)
    body = sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())
    # The decoder of a multimodal class alone has no head.
    own_head = headless and not getattr(config, "tie_word_embeddings", False)
    return body + (config.vocab_size * config.hidden_size if own_head else 0)


def read(config: dict[str, Any]) -> Any:
    """A config as the library reads it, the text part of a multimodal one."""
    found = AutoConfig.for_model(**config)
    text = found.get_text_config(decoder=True)
    inside = text is not found and type(text) in MODEL_FOR_CAUSAL_LM_MAPPING
    if inside and "tie_word_embeddings" in config:
        # The class of the whole ties the head.
        text.tie_word_embeddings = config["tie_word_embeddings"]
    return text if inside or type(found) not in MODEL_FOR_CAUSAL_LM_MAPPING else found


VALUES: dict[type, Any] = {
    bool: lambda v: (not v,),
    int: lambda v: (2 * v or 4, v + 1, max(v // 2, 1), 4 * v),
    float: lambda v: (2 * v or 0.5, v / 2),
    type(None): lambda v: (64, True, 4),
}


def one_key_changed(name: str) -> dict[str, Any]:
    """A class's own config at four layers, and what it counts with each key changed alone."""
    cls = CONFIG_MAPPING[name]
    usual = json.loads(cls().to_json_string(use_diff=False))
    depth = next(n for n in ("num_hidden_layers", "n_layer", "n_layers") if n in usual)
    base = json.loads(cls(**{depth: 4}).to_json_string(use_diff=False))
    total, changes = count(cls(**{depth: 4})), {}
    for key, value in base.items():
        if key == depth or key not in cls.__init__.__code__.co_varnames:
            continue
        for new in VALUES.get(type(value), lambda v: ())(value):
            try:
                config = cls(**{depth: 4, key: new})
                counted = count(config)
            except Exception:
                continue
            written = json.loads(config.to_json_string(use_diff=False))
            other = {k: v for k, v in written.items() if v != base.get(k)}
            if key not in changes or changes[key][1] == total:
                changes[key] = [other, counted]
    return {"config": base, "total": total, "changes": changes}


def main() -> None:
    """Write {name: {config, total}} or {name: {error}}."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--configs", type=Path)
    parser.add_argument("--changed", action="store_true")
    asked = parser.parse_args()
    configs = json.loads(asked.configs.read_text()) if asked.configs else {}
    found: dict[str, Any] = {}
    for name in [*asked.families, *configs]:
        try:
            if asked.changed:
                found[name] = one_key_changed(name)
                continue
            config = read(configs[name]) if name in configs else CONFIG_MAPPING[name]()
            if name not in configs:
                config = config.get_text_config(decoder=True)
            written = configs.get(name) or json.loads(config.to_json_string(use_diff=False))
            found[name] = {"config": written, "total": count(config)}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(name, found[name].get("total", found[name].get("error")), flush=True)
    asked.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
