"""Concrete architectures as Hugging Face configs that `archinfer predict` reads back alike."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from archinfer.errors import ArchinferError, FileError, InputError
from archinfer.hardware.figures import USUAL_SOFTWARE
from archinfer.hardware.profile import Hardware, profile_folder
from archinfer.models.architecture import Architecture
from archinfer.models.configkeys import read_json_object
from archinfer.models.formats import weight_format
from archinfer.models.huggingface import from_config
from archinfer.models.layers import Attention, DenseMLP, LatentAttention, MoE
from archinfer.solver.designs import Design
from archinfer.solver.question import Question
from archinfer.words import compact, counted, size, speed
from archinfer.writing import write_all

MARK = "_archinfer"
"""Key of a config that this module wrote; only files with it are ever replaced."""

POSITIONS = 131_072
"""Fewest positions that a config states: what most open models of today have."""

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


_QUANTIZATION: dict[str, dict[str, Any]] = {
    "fp8": {"quant_method": "fp8"},
    "fp8-block": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
    "mxfp8": {"quant_method": "mxfp8"},
    "nvfp4": {"quant_method": "nvfp4"},
}
"""How a config says that weights are in a format; others as one group of compressed-tensors: GPTQ's
files hold zero points beside the scales, and `mxfp4` as a method covers routed experts only."""


_TARGETS = {
    "embedding": "re:.*embed_tokens", "attention": "re:.*self_attn\\..*_proj",
    "dense_mlp": "re:.*mlp\\.(gate|up|down)_proj", "experts": "re:.*experts\\.\\d+\\..*",
    "shared": "re:.*shared_experts\\..*", "router": "re:.*mlp\\.gate$", "lm_head": "re:.*lm_head",
}  # fmt: skip
"""Matrices of each component, by the names of the classes that are written."""

_SCHEMES: dict[str, dict[str, Any]] = {
    "fp8": {"num_bits": 8, "type": "float"},
    "fp8-block": {"num_bits": 8, "type": "float", "strategy": "block"},
    "int8": {"num_bits": 8, "type": "int"},
    "mxfp8": {"num_bits": 8, "type": "float", "group_size": 32},
    "mxfp4": {"num_bits": 4, "type": "float", "group_size": 32},
    "nvfp4": {"num_bits": 4, "type": "float", "group_size": 16},
    "int4": {"num_bits": 4, "type": "int", "group_size": 32},
    "int4-g128": {"num_bits": 4, "type": "int", "group_size": 128},
}
"""The same formats as one group of compressed-tensors."""


def _by_component(weights: str) -> dict[str, Any]:
    """Every component in its own format, in the words of compressed-tensors; vectors in 16 bits."""
    form = weight_format(weights)
    own = dict.fromkeys(_TARGETS, form.name.split(",")[0]) | dict(form.components)
    groups, ignored = {}, []
    for component, target in _TARGETS.items():
        if own[component] in _SCHEMES:
            groups[component] = {"targets": [target], "weights": _SCHEMES[own[component]]}
        else:
            ignored.append(target)
    section = {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ignored}
    return {"torch_dtype": "bfloat16", "quantization_config": section}


def _stored(weights: str) -> dict[str, Any]:
    name = weight_format(weights).name
    if "=" in name:
        return _by_component(name)
    if name in _DTYPES:
        return {"torch_dtype": _DTYPES[name]}
    # The solver holds everything in the one format: embedding, head, routers and vectors too.
    whole = {"modules_to_not_convert": [], "include_input_output_embeddings": True}
    if name in _QUANTIZATION:
        said = _QUANTIZATION[name]
    else:
        weights_args = _SCHEMES[name] | {"strategy": "group"}
        group = {"targets": ["Linear", "Embedding"], "weights": weights_args}
        said = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    return {"torch_dtype": "bfloat16", "quantization_config": said | whole}


def config_of(architecture: Architecture, weights: str) -> dict[str, Any]:
    """A Hugging Face config of an architecture whose weights are all in one format.

    Equal layers of grouped-query attention become `llama` (dense) or `glm4_moe`, of latent
    attention `deepseek_v3`.

    Args:
        architecture: the model; what its own weight format says is not used.
        weights: weight format of everything.

    Raises:
        InputError: an architecture that none of these families can say.
    """
    config = _written(architecture)
    if config is not None:
        config |= {"vocab_size": architecture.vocab_size, "hidden_act": "silu"}
        config |= {"rms_norm_eps": 1e-5, "tie_word_embeddings": architecture.tied}
        config |= _stored(weights)
        if _same(architecture, weights, config):
            return config
    raise InputError(
        f"architecture {architecture.name!r} cannot be written as a config: expected equal layers "
        "of plain grouped-query or latent attention and a gated feed-forward"
    )


def _written(architecture: Architecture) -> dict[str, Any] | None:
    """The shape's keys, None where no family has such layers."""
    if len(architecture.blocks) != 1:
        return None
    block = architecture.blocks[0]
    if len(block.mixers) != 1 or len(block.feed_forwards) != 1:
        return None
    mixer, feed_forward = block.mixers[0], block.feed_forwards[0]
    keys: dict[str, Any] = {
        "hidden_size": architecture.hidden_size,
        "num_hidden_layers": architecture.layers,
    }
    latent = isinstance(mixer, LatentAttention)
    if isinstance(mixer, LatentAttention):
        keys |= {
            "num_attention_heads": mixer.heads, "num_key_value_heads": mixer.heads,
            "q_lora_rank": mixer.query_rank, "kv_lora_rank": mixer.kv_rank,
            "qk_nope_head_dim": mixer.nope_dim, "qk_rope_head_dim": mixer.rope_dim,
            "v_head_dim": mixer.v_head_dim,
        }  # fmt: skip
    elif isinstance(mixer, Attention):
        keys |= {
            "num_attention_heads": mixer.heads,
            "num_key_value_heads": mixer.kv_heads,
            "head_dim": mixer.head_dim,
        }
    else:
        return None
    keys["attention_bias"] = False
    if isinstance(feed_forward, DenseMLP):
        family = ("deepseek_v3", "DeepseekV3ForCausalLM") if latent else _LLAMA
        keys["intermediate_size"] = feed_forward.width
    else:
        family = ("deepseek_v3", "DeepseekV3ForCausalLM") if latent else _GLM
        keys |= _experts(feed_forward)
        if not latent:
            keys["use_qk_norm"] = False
    return {"architectures": [family[1]], "model_type": family[0], **keys}


_LLAMA = ("llama", "LlamaForCausalLM")
_GLM = ("glm4_moe", "Glm4MoeForCausalLM")


def _experts(moe: MoE) -> dict[str, Any]:
    return {
        "n_routed_experts": moe.experts, "num_experts_per_tok": moe.top_k,
        "moe_intermediate_size": moe.width, "n_shared_experts": moe.shared_width // moe.width,
        "first_k_dense_replace": 0, "n_group": 1, "topk_group": 1,
    }  # fmt: skip


def _same(architecture: Architecture, weights: str, config: dict[str, Any]) -> bool:
    """Whether the config reads back as the architecture, all of it in the weight format."""
    try:
        back = from_config(config)
    except InputError:
        return False
    named = replace(
        architecture, name=back.name, family=back.family, stored=back.stored,
        max_context_tokens=back.max_context_tokens,
    )  # fmt: skip
    chosen = weight_format(weights)
    own = dict(chosen.components)
    bits = {c: weight_format(own.get(c, chosen.name.split(",")[0])).bits for c in _TARGETS}
    used = back.parameters().by_component
    if not own:
        bits["norm"] = chosen.bits
    return named == back and all(back.component_bits()[c] == bits.get(c, 16.0) for c in used)


def _profile(hardware: Hardware) -> str:
    """The name of a shipped profile, the path of another."""
    shipped = profile_folder() / f"{hardware.name}.yaml"
    own = hardware.origin in ("", str(shipped))
    return hardware.name if own else hardware.origin


def predict_arguments(design: Design, question: Question, path: str) -> list[str]:
    """Arguments of `archinfer` that predict the speed the solver gave for a design."""
    low, high = question.speculation
    arguments = [
        "predict", path,
        "--hardware", _profile(question.hardware),
        "--nodes", str(design.nodes_available),
    ]  # fmt: skip
    if question.hardware.spatial:
        arguments += ["--layers-per-node", f"{design.mapping.layers_per_stage:.0f}"]
    else:
        arguments += ["--mapping", design.mapping.text(design.architecture.layers)]
    arguments += [
        "--context", f"{question.context_tokens}",
        "--concurrency", f"{question.concurrency}",
        "--kv", question.kv,
        "--speculation", f"{low!r}:{high!r}",
        "--software", USUAL_SOFTWARE,
    ]  # fmt: skip
    # Where passes waited for nobody's prompt, one of a token for a very long answer.
    prompt, output = question.prompt_tokens, question.output_tokens
    if question.concurrency > 1 or prompt is not None:
        arguments += ["--prompt", f"{prompt or 1}", "--output", f"{output if prompt else 10**8}"]
    for change in question.overrides:
        key, _, value = change.partition("=")
        arguments += ["--set", f"{key.strip()}={value.strip()}"]
    return arguments


def _name(design: Design) -> str:
    total, active = compact(design.total_params), compact(design.active_params)
    layers = design.architecture.layers
    return f"{total}-a{active}-l{layers}-{design.weights}".lower().replace(",", "")


def _names(designs: Sequence[Design]) -> list[str]:
    """One name each; equal ones are numbered."""
    names: list[str] = []
    for design in designs:
        first = _name(design)
        name, number = first, 1
        while name in names:
            number += 1
            name = f"{first}-{number}"
        names.append(name)
    return names


def emit(designs: Sequence[Design], question: Question, folder: str) -> list[str]:
    """Write each design as FOLDER/NAME/config.json with a README.md; all of them, or none.

    NAME tells total, active, layers and weight format. An existing file is replaced only if
    this function wrote it (it has the key `_archinfer`).

    Returns:
        The paths, in the order of the designs.

    Raises:
        FileError: a file of someone else is in the way, or the folder cannot be written.
        InputError: a design that no known family of configs can say.
    """
    texts: list[tuple[Path, str]] = []
    for design, name in zip(designs, _names(designs), strict=True):
        path = Path(folder) / name / "config.json"
        _refuse_foreign(path)
        arguments = predict_arguments(design, question, str(path))
        config = config_of(design.architecture, design.weights) | {
            "max_position_embeddings": max(POSITIONS, int(question.context_tokens)),
            MARK: {
                "name": name,
                "hardware": question.hardware.name,
                "nodes": design.nodes,
                "total_params": int(design.total_params),
                "active_params": int(design.active_params),
                "tokens_per_s": dict(zip(("p05", "p50", "p95"), design.speed, strict=True)),
                "predict": shlex.join(["archinfer", *arguments]),
            },
        }
        texts.append((path, json.dumps(config, indent=2, allow_nan=False) + "\n"))
        texts.append((path.with_name("README.md"), _readme(design, question, config[MARK])))
    write_all([(str(path), text.encode()) for path, text in texts])
    return [str(path) for path, _ in texts if path.name == "config.json"]


def _readme(design: Design, question: Question, about: dict[str, Any]) -> str:
    """What a design answers, how fast and how large it is, and the command that says so again."""
    slow, middle, fast = (speed(v) for v in design.speed)
    node = f"{question.hardware.name} {question.hardware.node}"
    asked = "observed" if question.observed else "or more"
    asked = "or less" if question.ceiling else asked
    return (
        f"# {about['name']}\n\n"
        f"One model that answers one user at {speed(question.tokens_per_s)} tokens/s {asked} on "
        f"{counted(question.nodes[1], node)}, {question.context_tokens:,} tokens of context.\n\n"
        f"- Predicted: {middle} tokens/s ({slow} to {fast} with 90 %), "
        f"{design.accepted_needed:.2f} accepted tokens a pass needed.\n"
        f"- Memory: {size(design.memory_bytes)} in {design.weights}, on "
        f"{counted(design.nodes, node)}.\n\n"
        f"    {about['predict']}\n"
    )


def _refuse_foreign(path: Path) -> None:
    if not os.path.lexists(path):
        beside = path.with_name("README.md")
        if os.path.lexists(beside):
            raise FileError(beside, "exists without a config of ours, so it is not ours to replace")
        return
    try:
        ours = MARK in read_json_object(str(path))
    except ArchinferError:
        ours = False
    if not ours:
        raise FileError(path, f"exists and has no key {MARK!r}, so it is not ours to replace")
