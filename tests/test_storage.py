"""Bytes of weights as files store them: by component, layer and matrix."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from archinfer import catalogue
from archinfer.errors import InputError, UnknownNameError
from archinfer.forward.predict import predict
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.checkpoint import load_architecture
from archinfer.models.formats import weight_format
from archinfer.models.huggingface import from_config
from archinfer.physics.deployment import Deployment
from tests.cli import run

CASES = Path(__file__).parent / "fixtures" / "cases"

BASE = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip
"""86,848 parameters: embedding and head 6,400 each, attention 24,576, feed-forward 49,152,
norms 320."""

ATTENTION, MLP, TABLE, NORM = 24_576, 49_152, 6_400, 320
REST = 2 * (2 * TABLE + NORM)


def small(**section: Any) -> Architecture:
    return from_config({**copy.deepcopy(BASE), "quantization_config": section})


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("10-mlx", 49_312),
        ("11-ignore-every-layer", 103_040),
        ("11b-ignore-pattern", 103_040),
        ("12-ct-two-groups", 78_464),
        ("12b-ct-reversed", 78_464),
        ("21-bnb-skip", 138_368),
    ],
)
def test_small_files_to_the_last_byte(name: str, stored: int) -> None:
    model = load_architecture(str(CASES / f"{name}.json"))
    assert model.parameters().total == 86_848
    assert model.weight_bytes() == stored
    assert sum(model.weight_bytes_by_component().values()) == stored


@pytest.mark.parametrize(
    ("ignore", "kept"),
    [
        (["model.layers.0.self_attn.q_proj"], 64 * 64),
        (["model.language_model.layers.1.self_attn.o_proj"], 64 * 64),
        (["re:model\\.layers\\.0\\.self_attn\\.(q|k)_proj"], 64 * 64 + 64 * 32),
        (["model\\.layers\\.1\\.mlp\\..*"], MLP // 2),
        (["re:.*mlp.*", "re:.*attn.*"], ATTENTION + MLP),
        (["model.layers.0*"], (ATTENTION + MLP) // 2),
        (["model.layers.1.*"], (ATTENTION + MLP) // 2),
        (["*.down_proj"], MLP // 3),
        (["gate_up_proj"], 2 * MLP // 3),
        (["self_attn"], ATTENTION),
        (["mlp.gate", "router", "model.visual*", "model.layers.10.mlp"], 0),
    ],
)
@pytest.mark.parametrize(
    "key", ["ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"]
)
def test_exclusions_in_all_their_forms(ignore: list[str], kept: int, key: str) -> None:
    model = small(quant_method="modelopt", quant_algo="FP8", **{key: ignore})
    assert model.weight_bytes() == ATTENTION + MLP + kept + REST


def test_a_layer_with_its_own_formats_is_a_kind_of_its_own() -> None:
    model = load_architecture(str(CASES / "11-ignore-every-layer.json"))
    assert [b.count for b in model.blocks] == [2]
    half = small(quant_method="fp8", ignored_layers=["model.layers.1.self_attn"])
    assert [b.count for b in half.blocks] == [1, 1]
    assert half.weight_formats()["attention"] == "bf16 + fp8"
    shape = half.shape(half.weight_format)
    first, second = shape.groups
    assert first.shared_bits is not None and second.shared_bits is not None
    assert float(second.shared_bits) > float(first.shared_bits)


@pytest.mark.parametrize(
    ("section", "attention_bits", "mlp_bits"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4 + 20 / 128, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 2, "group_size": 64}, 2 + 18 / 64, 2 + 18 / 64),
        ({"quant_method": "gptq", "bits": 4, "group_size": 64,
          "dynamic": {"-:.*mlp.*": {}, "+:.*self_attn.*": {"bits": 8, "group_size": 32}}},
         8 + 24 / 32, 16),
        ({"bits": 4, "group_size": 128, "desc_act": False}, 4 + 20 / 128, 4 + 20 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 64,
          "modules_to_not_convert": ["self_attn"]}, 16, 4 + 20 / 64),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128,
          "extra_config": {"model.layers.0.mlp": {"bits": 16}, "model.layers.1.mlp": {"bits": 8}}},
         4 + 20 / 128, (16 + 8 + 24 / 128) / 2),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
         4 + 8 / 64 + 32 / 64 / 256, 4 + 8 / 64 + 32 / 64 / 256),
        ({"quant_method": "quark", "exclude": ["lm_head", "*self_attn*"],
          "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}}, 16, 4.25),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}},
          "layer_quant_config": {"*.mlp.*": {"weight": [
              {"dtype": "fp8_e4m3"}, {"dtype": "int4", "qscheme": "per_channel"}]}}}, 8, 4),
        ({"quant_method": "w8a8_int8"}, 8, 8),
        ({"quant_method": "fp8", "weight_block_size": [1, 128]}, 8 + 32 / 128, 8 + 32 / 128),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, 8 + 32 / 128**2, 8 + 32 / 128**2),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
          "quantized_layers": {
              **{f"model.layers.{i}.mlp": {"quant_algo": "NVFP4", "group_size": 16}
                 for i in range(2)},
              **{f"model.layers.{i}.self_attn.{n}_proj": {"quant_algo": "FP8"}
                 for i in range(2) for n in "qkvo"}}}, 8, 4.5),
    ],
)  # fmt: skip
def test_formats_of_quantisers(
    section: dict[str, Any], attention_bits: float, mlp_bits: float
) -> None:
    model = small(**section)
    stored = (ATTENTION * attention_bits + MLP * mlp_bits) / 8 + REST
    assert model.weight_bytes() == pytest.approx(stored, rel=1e-15)


def test_experts_with_their_own_algorithm() -> None:
    section = {"quant_method": "fp8", "weight_block_size": [128, 128],
               "quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4"}  # fmt: skip
    config = catalogue.entry("deepseek-v4-flash").config | {"quantization_config": section}
    model = from_config(config)
    formats = model.weight_formats()
    assert (formats["experts"], formats["attention"]) == ("nvfp4", "fp8-block")
    assert model.weight_bytes() == pytest.approx(164.2e9, rel=1e-3)


RELEASED: dict[str, tuple[str | dict[str, Any], dict[str, Any], float]] = json.loads(
    (CASES.parent / "configs" / "released.json").read_text(encoding="utf-8")
)
"""The quantization of files that NVIDIA released, on models of the catalogue or configs of their
own; bytes: every tensor of the transformers 5.24 class by its name (V4 and M3: by component)."""


def named(pattern: str) -> list[str]:
    """The names that `layers.{0-2,4}.mlp` stands for."""
    head, brace, tail = pattern.partition("{")
    if not brace:
        return [pattern]
    ranges, _, rest = tail.partition("}")
    ends = [part.partition("-") for part in ranges.split(",")]
    numbers = [n for low, _, high in ends for n in range(int(low), int(high or low) + 1)]
    return [f"{head}{n}{last}" for last in named(rest) for n in numbers]


@pytest.mark.parametrize("name", RELEASED)
def test_released_files_of_nvidia_to_the_last_byte(name: str) -> None:
    base, section, stored = copy.deepcopy(RELEASED[name])
    config = copy.deepcopy(catalogue.entry(base).config) if isinstance(base, str) else base
    for key in ("ignore", "exclude_modules"):
        if key in section:
            section[key] = [name for pattern in section[key] for name in named(pattern)]
    layers = section.get("quantized_layers", {}).items()
    section["quantized_layers"] = {n: form for pattern, form in layers for n in named(pattern)}
    model = from_config(config | {"quantization_config": section})
    assert model.weight_bytes() == pytest.approx(stored, rel=1e-14)
    assert model.warnings == ()


@pytest.mark.parametrize(("name", "bits", "stored"),
                         [("llama-3.1-8b", 4, 4.52e9), ("qwq-32b", 6, 26.6e9)])  # fmt: skip
def test_released_files_of_mlx(name: str, bits: int, stored: float) -> None:
    section = {"quantization": {"bits": bits, "group_size": 64}}
    model = from_config(catalogue.entry(name).config | section)
    assert model.weight_bytes() == pytest.approx(stored, rel=5e-3)


# Chosen formats


def test_formats_by_component() -> None:
    model = from_config(BASE)
    assert weight_format("INT4, Embedding=int8,head=bf16").name == (
        "int4,embedding=int8,lm_head=bf16"
    )
    own = model.weight_bytes_by_component("int4,embedding=int8,head=bf16")
    assert own == {
        "embedding": TABLE,
        "attention": ATTENTION * 4.5 / 8,
        "dense_mlp": MLP * 4.5 / 8,
        "norm": 2 * NORM,
        "lm_head": 2 * TABLE,
    }
    gpt = catalogue.load("gpt-oss-20b")
    eight = gpt.weight_bytes_by_component("mxfp4,attention=int8")
    assert eight["experts"] == gpt.weight_bytes_by_component()["experts"]
    assert eight["attention"] < 0.51 * gpt.weight_bytes_by_component()["attention"]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("int4,embeding=int8", UnknownNameError, "did you mean 'embedding'"),
        ("int4,int8", InputError, "expected COMPONENT=FORMAT as embedding=int8, found 'int8'"),
        ("int4,head=int8,lm_head=fp8", InputError, "lm_head has two formats"),
        ("int4,head=in8", UnknownNameError, "in8"),
        ("int0-g64", UnknownNameError, "int0-g64"),
    ],
)
def test_wrong_formats_are_named(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        weight_format(text)


@pytest.mark.parametrize(
    ("pattern", "words"), [("re:(a", "is no regular expression"), ("re:(a+)+$", "nests")]
)
def test_patterns_that_cannot_be_used_are_named(pattern: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        small(quant_method="compressed-tensors", ignore=[pattern],
              config_groups={"g": {"weights": {"num_bits": 8, "type": "float"}}})  # fmt: skip


def test_bytes_and_formats_by_component_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "models", "show", "gpt-oss-20b", "--format", "json")
    assert done.code == 0
    facts = json.loads(done.out)
    assert facts["weight_formats"]["experts"] == "mxfp4"
    assert facts["weight_formats"]["attention"] == "bf16"
    assert sum(facts["weight_bytes_by_component"].values()) == facts["weight_bytes"]
    chosen = run(
        capsys, "models", "show", "gpt-oss-20b", "--weights", "int4,head=int8", "--format", "json"
    )
    facts = json.loads(chosen.out)
    assert facts["weight_format"] == "int4,lm_head=int8"
    assert facts["weight_formats"]["lm_head"] == "int8"


def test_predict_reads_the_bytes_of_each_component() -> None:
    model = catalogue.load("llama-3.1-8b")
    for profile in ("h100-sxm", "wse-3", "amd-epyc-9754"):
        hardware = Hardware.load(profile)
        text = "int4,embedding=int8,head=int4"
        found = predict(model, hardware, Deployment(weights=text), changes=False)
        whole = predict(model, hardware, Deployment(weights="int4"), changes=False)
        assert found.weights == "int4,embedding=int8,lm_head=int4"
        assert found.memory.weights == pytest.approx(model.weight_bytes(text), rel=1e-14)
        # A wafer's cores multiply no faster than they read such weights.
        least = 1.0 if hardware.spatial else 0.5
        assert float(found.time.head) <= least * float(whole.time.head)
        assert found.weight_formats is not None
        assert found.weight_formats["lm_head"] == "int4"
        assert found.to_dict()["assumed"] == []


def test_a_file_whose_format_is_not_known_needs_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BASE | {"quantization_config": {"quant_method": "exl2"}}))
    for command in (("models", "show"), ("predict",)):
        done = run(capsys, *command, str(path))
        assert done.code == 2
        assert "quant_method 'exl2' is not known; state the format with --weights" in done.err
        assert run(capsys, *command, str(path), "--weights", "int4").code == 0


# Files that were refused, or counted short


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("01-num_beam_groups", 86_848),
        ("02-dual_chunk", 86_848 + 2 * 128),
        ("03-full_attn_mod", 86_848),
        ("04-mimo", 86_848 + 2 * 128),
        ("05-minimax_m3", 407_360),
        ("06-bailing", 99_648),
        ("07-gemma4", 93_088),
        ("08-cohere2", 80_320),
        ("09-deepseek-no-mla", 99_392),
        ("14-llava", 6_738_939_904),
        ("15-pixtral", 12_247_782_400),
        ("16-qwen-omni", 86_848 + 2 * 128),
        ("17-eagle3", 86_848 - 50 * 64),
        ("18-glm4v", 86_848 + 2 * (128 + 2 * 64)),
        ("19-exaone45", 86_848 + 2 * 2 * 16),
    ],
)
def test_small_files_are_read(name: str, total: int) -> None:
    assert load_architecture(str(CASES / f"{name}.json")).parameters().total == total


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        ("phi3", "full_attn_mod", 2),
        ("llama", "lm_head", False),
        ("cohere2", "use_parallel_block", False),
        ("minimax_m3", "moe_intermediate_size", 64),
    ],
)
def test_a_key_that_may_change_a_size_still_stops(family: str, key: str, value: Any) -> None:
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2} if "minimax" in family else {}
    with pytest.raises(InputError, match=key):
        from_config(BASE | experts | {"model_type": family, key: value})


def test_a_layer_left_alone_as_a_whole_is_read_in_16_bits() -> None:
    model = small(quant_method="modelopt", quant_algo="NVFP4", ignore=["model.layers.0*"])
    hardware = Hardware.load("h100-sxm")
    found = predict(model, hardware, changes=False)
    assert float(found.memory.weights) == pytest.approx(model.weight_bytes(), rel=1e-14)
    assert {g.shared_bits for g in model.shape("nvfp4").groups} >= {16.0}
