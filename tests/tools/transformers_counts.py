"""Counts parameters with the classes of Hugging Face transformers, on the meta device.

Not part of the tests, which read what this wrote: for each family the config that its class
writes by itself, and how many parameters the class makes of it. Needs torch and transformers
(written for torch 2.13.0 and transformers 5.24.0), in an environment of their own:

    python3.11 -m venv reference
    reference/bin/pip install torch==2.13.0 transformers==5.24.0
    reference/bin/python tests/tools/transformers_counts.py families.json llama falcon ...
    reference/bin/python tests/tools/transformers_counts.py counts.json --configs configs.json

The second form counts configs of a file {name: config}.
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
    return text if inside or type(found) not in MODEL_FOR_CAUSAL_LM_MAPPING else found


def main() -> None:
    """Write {name: {config, total}} or {name: {error}}."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--configs", type=Path)
    asked = parser.parse_args()
    configs = json.loads(asked.configs.read_text()) if asked.configs else {}
    found: dict[str, Any] = {}
    for name in [*asked.families, *configs]:
        try:
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
