"""Configs in: exact counts, wrong readings that other tools shipped, hostile files."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archinfer import catalogue
from archinfer.errors import ArchinferError, FileError, InputError
from archinfer.models.architecture import Architecture
from archinfer.models.checkpoint import load_architecture
from archinfer.models.configkeys import MAX_CONFIG_BYTES, read_json_object
from archinfer.models.huggingface import from_config, known_families
from archinfer.models.quantmethods import algorithm_names
from tests.test_architecture import held_bytes


def config(name: str, **changes: Any) -> dict[str, Any]:
    """A catalogue config with some keys changed; None leaves a key out."""
    found = copy.deepcopy(catalogue.entry(name).config)
    for key, value in changes.items():
        found.pop(key, None)
        if value is not None:
            found[key] = value
    return found


def read(name: str, **changes: Any) -> Architecture:
    return from_config(config(name, **changes), name)


# Readings that other tools got wrong


def test_head_dim_is_not_hidden_over_heads() -> None:
    # Qwen3-32B: 5120 / 64 = 80, but head_dim says 128.
    model = catalogue.load("qwen3-32b")
    assert model.parameters().by_component["attention"] == 64 * 5120 * 128 * (2 * 64 + 2 * 8)
    assert model.kv_bytes_per_token() == 64 * 2 * 8 * 128 * 2


def test_hidden_size_need_not_be_a_multiple_of_intermediate_size() -> None:
    counts = catalogue.load("llama-3.1-70b").parameters()
    assert counts.by_component["dense_mlp"] == 80 * 3 * 8192 * 28672


def test_key_value_heads_are_not_query_heads() -> None:
    model = catalogue.load("llama-3.1-70b")
    assert model.kv_bytes_per_token() * 8 == 80 * 2 * 64 * 128 * 2


def test_latent_cache_is_not_full_heads_nor_doubled() -> None:
    model = catalogue.load("deepseek-v3")
    assert model.kv_bytes_per_token() == 61 * (512 + 64) * 2
    full_heads = 61 * 128 * (192 + 128) * 2
    assert full_heads / model.kv_bytes_per_token() > 50


def test_shared_experts_once_in_each_moe_layer() -> None:
    counts = catalogue.load("deepseek-v3").parameters()
    assert counts.by_component["shared"] == 58 * 3 * 7168 * 2048
    # The count multiplies the width.
    assert catalogue.load("deepseek-v2-lite").parameters().by_component["shared"] == (
        26 * 3 * 2048 * 2 * 1408
    )


def test_leading_dense_layers_are_dense() -> None:
    counts = catalogue.load("deepseek-v3").parameters()
    assert counts.by_component["dense_mlp"] == 3 * 3 * 7168 * 18432
    all_moe = read("deepseek-v3", first_k_dense_replace=0).parameters()
    assert all_moe.total > counts.total + 3e10


def test_tied_embedding_is_stored_once_and_still_a_head() -> None:
    model = catalogue.load("gemma-3-27b")
    assert "lm_head" not in model.parameters().by_component
    shape = model.shape()
    assert shape.tied
    assert shape.head_params == 262208 * 5376
    untied = read("llama-3.2-1b", tie_word_embeddings=False).parameters().total
    assert untied - catalogue.load("llama-3.2-1b").parameters().total == 128256 * 2048


def test_untied_head_is_not_left_out() -> None:
    counts = catalogue.load("llama-3.1-70b").parameters()
    assert counts.total == 70_553_706_496
    assert counts.by_component["lm_head"] == 1_050_673_152


def test_experts_are_as_wide_as_moe_intermediate_size() -> None:
    counts = catalogue.load("deepseek-v3").parameters()
    assert counts.by_component["experts"] == 58 * 256 * 3 * 7168 * 2048
    # Eight bits are 671 GB and not the 6,197 GB of experts with intermediate_size.
    assert counts.total == pytest.approx(671e9, rel=1e-3)


def test_experts_of_mixtral_are_as_wide_as_intermediate_size() -> None:
    assert catalogue.load("mixtral-8x7b").parameters().by_component["experts"] == (
        32 * 8 * 3 * 4096 * 14336
    )


def test_llama4_dense_width_is_its_own_key() -> None:
    counts = catalogue.load("llama-4-maverick").parameters().by_component
    assert counts["dense_mlp"] == 24 * 3 * 5120 * 16384
    assert counts["shared"] == 24 * 3 * 5120 * 8192


def test_router_and_norms_are_counted() -> None:
    counts = catalogue.load("qwen3-235b-a22b").parameters().by_component
    assert counts["router"] == 94 * 128 * 4096
    assert counts["norm"] == 94 * (2 * 4096 + 2 * 128) + 4096


def test_interleaved_experts_are_in_every_second_layer() -> None:
    total = catalogue.load("llama-4-maverick").parameters().total
    assert total == 400_711_848_960
    everywhere = from_config(
        {**config("llama-4-maverick"), "text_config": {
            **config("llama-4-maverick")["text_config"], "interleave_moe_layer_step": 1}},
        "maverick",
    )  # fmt: skip
    assert everywhere.parameters().total == pytest.approx(784e9, rel=0.01)


def test_windowed_layers_do_not_keep_everything() -> None:
    model = catalogue.load("gpt-oss-120b")
    assert model.kv_bytes_per_token_past_windows() == 36_864
    tokens = 100_000
    assert held_bytes(model, tokens) == 36_864 * tokens + 36_864 * 128
    mistral = catalogue.load("mistral-7b-v0.1")
    assert held_bytes(mistral, 1_000_000) == mistral.kv_window_bytes_max() == 536_870_912


def test_unused_window_keys_stay_unused() -> None:
    assert catalogue.load("qwq-32b").kv_window_bytes_max() == 0


def test_four_bits_come_with_scales_and_a_wider_head() -> None:
    model = catalogue.load("llama-3.1-70b")
    norms = (2 * 80 + 1) * 8192
    outside = 2 * 1_050_673_152 + norms
    layers = model.parameters().total - outside
    assert model.weight_bytes("mxfp4") == layers * 4.25 / 8 + outside * 2
    assert model.weight_bytes("nvfp4") == layers * 4.5 / 8 + outside * 2
    assert model.weight_bytes("bf16") == model.parameters().total * 2


def test_gigabytes_are_decimal() -> None:
    # 131,072 tokens of Llama-3.1-70B: 42.9 GB, which is 40 GiB.
    stored = held_bytes(catalogue.load("llama-3.1-70b"), 131_072)
    assert stored == 40 * 2**30
    assert stored / 1e9 == pytest.approx(42.95, abs=0.01)


def test_top_k_under_its_other_names() -> None:
    assert catalogue.load("gemma-4-26b-a4b").parameters().active == 3_822_530_560
    assert catalogue.load("hunyuan-a13b").moe.experts_per_token == 8  # type: ignore[union-attr]


def test_experts_under_any_key_are_not_read_as_dense() -> None:
    plain = config("mixtral-8x7b")
    renamed = {k: v for k, v in plain.items() if k != "num_local_experts"}
    for key in ("num_experts", "n_routed_experts"):
        model = from_config({**renamed, key: 8}, "renamed")
        assert model.parameters() == catalogue.load("mixtral-8x7b").parameters()


def test_zero_experts_have_no_weights() -> None:
    model = catalogue.load("longcat-flash")
    assert model.moe is not None
    assert model.moe.experts_per_token == 8
    assert model.parameters().by_component["router"] == 28 * 768 * 6144


def test_latent_experts_are_not_as_wide_as_the_model() -> None:
    counts = catalogue.load("nemotron-3-super-120b-a12b").parameters().by_component
    assert counts["experts"] == 40 * 512 * 2 * 1024 * 2688
    wrong = read("nemotron-3-super-120b-a12b", moe_latent_size=None).parameters().by_component
    assert wrong["experts"] == 4 * counts["experts"]


def test_blocks_of_nemotron_are_counted_one_by_one() -> None:
    kinds = catalogue.load("nemotron-3-super-120b-a12b").attention_kinds
    assert sorted(kinds.values()) == [8, 40, 40]


def test_compressed_past_grows_by_a_fraction_of_an_entry() -> None:
    model = catalogue.load("deepseek-v4-flash")
    assert model.kv_bytes_per_token_past_windows() == 21 * 512 / 4 * 2 + 20 * 512 / 128 * 2


# Families beyond the catalogue. Totals: the transformers 5.24 class built on the meta device;
# where there is none (DBRX, DeepSeek-V4-Pro, GLM-5.2 and what equals a model of the catalogue)
# the count on record. KV bytes: by hand.


BEYOND: dict[str, tuple[int, float, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "fixtures/configs/beyond.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", BEYOND)
def test_families_beyond_the_catalogue(name: str) -> None:
    total, kv_bytes, found = BEYOND[name]
    model = from_config(found, name)
    assert model.parameters().total == total
    assert model.kv_bytes_per_token() == kv_bytes
    shape = model.shape()
    assert shape.total_params == total


CHANGED = Path(__file__).parent / "fixtures/configs/changed.json"
FAMILIES: dict[str, tuple[int, float, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "fixtures/configs/families.json").read_text(encoding="utf-8")
)
"""Totals: classes of transformers 5.24 on the meta device (tests/tools/transformers_counts.py)."""


@pytest.mark.parametrize("name", FAMILIES)
def test_families_agree_with_their_classes_to_the_unit(name: str) -> None:
    total, kv_bytes, found = FAMILIES[name]
    model = from_config(found, name)
    assert model.parameters().total == total
    assert model.kv_bytes_per_token() == kv_bytes
    assert model.shape(model.weight_format).total_params == total
    assert model.weight_bytes() == 2 * total
    assert model.warnings == ()


def test_each_key_changed_alone_counts_as_in_its_class() -> None:
    """Or is refused, or told: what the classes count (`transformers_counts.py --changed`)."""
    equal = refused = 0
    for family, entry in json.loads(CHANGED.read_text()).items():
        assert from_config(entry["config"], family).parameters().total == entry["total"], family
        for other, total in entry["changes"].values():
            try:
                model = from_config(entry["config"] | other, family)
            except InputError:
                refused += 1
                continue
            assert model.warnings or model.parameters().total == total, (family, other)
            equal += model.parameters().total == total
    assert equal > 900 and refused < 150


def test_figures_of_families_by_hand() -> None:
    def figures(name: str) -> Architecture:
        return from_config(FAMILIES[name][2], name)

    # Keys and values of 24 layers, 16 heads of 128.
    assert figures("jetmoe-8b").kv_bytes_per_token() == 24 * 2 * 16 * 128 * 2
    # One key-value head; eight in the larger one.
    assert figures("falcon-7b").kv_bytes_per_token() == 32 * 2 * 64 * 2
    assert figures("falcon-180b").kv_bytes_per_token() == 80 * 2 * 8 * 64 * 2
    # Four layers of attention among forty; 36 with a state of 128 numbers a channel.
    granite = figures("granite-4-h-small")
    assert granite.kv_bytes_per_token() == 4 * 2 * 8 * 128 * 2
    channels = 128 * 64 + 2 * 128
    assert granite.state_bytes() == 36 * (128 * 64 * 128 * 4 + channels * 3 * 2)
    assert granite.parameters().active == pytest.approx(9e9, rel=0.05)
    assert figures("mamba-2.8b").kv_bytes_per_token() == 0
    # Of 35 layers the last 15 borrow their cache.
    assert figures("gemma-3n-e4b").kv_bytes_per_token() == 20 * 2 * 2 * 256 * 2
    assert figures("recurrentgemma-9b").kv_bytes_per_token_past_windows() == 0
    # Cross-attention keeps nothing of the text.
    assert figures("mllama").kv_bytes_per_token() == 4 * 2 * 2 * 32 * 2


# Formats


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("deepseek-v3", "fp8-block"),
        ("gpt-oss-120b", "mxfp4"),
        ("kimi-k3", "mxfp4"),
        ("minimax-m2.5", "fp8-block"),
        ("llama-3.1-8b", "bf16"),
    ],
)
def test_quantization_config_sets_the_format(name: str, weights: str) -> None:
    assert catalogue.load(name).weight_format == weights


def test_mxfp4_of_gpt_oss_covers_the_experts_only() -> None:
    model = catalogue.load("gpt-oss-120b")
    counts = model.parameters()
    biases = 36 * 128 * 3 * 2880
    experts = counts.by_component["experts"] - biases
    assert model.weight_bytes() == experts * 4.25 / 8 + (counts.total - experts) * 2
    group = model.shape("mxfp4").groups[0]
    mean = (2880 * 4.25 + 16) / 2881
    assert (group.shared_bits, group.routed_bits) == (16, pytest.approx(mean, rel=1e-14))
    assert model.shape().groups[0].shared_bits is None


@pytest.mark.parametrize(
    ("name", "stored"), [("gpt-oss-20b", 13_761_264_768), ("gpt-oss-120b", 65_248_815_744)]
)
def test_bytes_are_those_of_the_released_tensors(name: str, stored: int) -> None:
    """`total_size` in model.safetensors.index.json of openai/gpt-oss-20b and -120b."""
    assert catalogue.load(name).weight_bytes() == stored


def test_bytes_of_deepseek_v3_are_those_of_its_files() -> None:
    """688,586,727,753 bytes of safetensors files, their headers (about 130 bytes a tensor) too.

    Beside what is counted they hold the multi-token-prediction layer, with a projection of two
    hidden vectors, three norms and copies of embedding and head at 16 bits; and a 32-bit score
    correction of each router.
    """
    model = catalogue.load("deepseek-v3")
    h, vocab = 7168, 129_280
    latent_attention = h * 1536 + 1536 * 128 * 192 + h * 576 + 512 * 128 * 256 + 128 * 128 * h
    matrices = latent_attention + 257 * 3 * h * 2048
    block_bytes = 1 + 4 / 128**2
    predicted = matrices * block_bytes + 2 * (256 * h + 1536 + 512 + 2 * h)
    predicted += 2 * (2 * h * h + 3 * h) + 2 * 2 * vocab * h
    headers = 92_000 * 130
    released = 688_586_727_753
    assert model.weight_bytes() + predicted + 59 * 256 * 4 + headers == pytest.approx(
        released, rel=1e-6
    )


def test_routers_and_vectors_stay_at_16_bits_in_every_narrow_format() -> None:
    model = catalogue.load("qwen3-235b-a22b")
    counts = model.parameters().by_component
    whole = sum(counts[c] for c in ("embedding", "lm_head", "norm", "router"))
    narrow = model.parameters().total - whole
    assert model.weight_bytes("fp8") == narrow + 2 * whole


ALGORITHMS = ", ".join(algorithm_names("algorithms"))


@pytest.mark.parametrize(
    ("section", "weights"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4-g128-zp"),
        ({"quant_method": "awq", "bits": 4, "group_size": 32}, "int4-g32-zp"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "FP8", "exclude_modules": ["lm_head"]}, "fp8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "int4-row"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "int3-g128-zp"),
        ({"quant_method": "fp8", "weight_block_size": None, "ignored_layers": None}, "fp8"),
    ],
)
def test_other_quantizations(section: dict[str, Any], weights: str) -> None:
    model = read("llama-3.1-8b", quantization_config=section)
    assert model.weight_format == weights
    assert model.warnings == ()


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        *(
            ({"quant_method": name}, f"quant_method {name!r} is not known")
            for name in ("mystery", "exl2", "exl3", "hqq", "torchao", "aqlm", "quanto", "higgs",
                         "spqr", "bitnet")
        ),
        ({"quant_method": "vptq"}, "quant_method 'vptq' is not known (did you mean 'gptq'?)"),
        ({"quant_method": "gtpq"}, "quant_method 'gtpq' is not known (did you mean 'gptq'?)"),
        ({"quant_method": "gptq", "bits": 9},
         "quantization 'gptq' with bits = 9 is not known (known: 2, 3, 4, 5, 6, 7, 8)"),
        ({"quant_method": "awq", "w_bit": 2},
         "quantization 'awq' with w_bit = 2 is not known (known: 4, 8)"),
        ({"quant_method": "quark"}, "quantization 'quark' has no weight with a dtype"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}},
         "Quark's dtype 'fp4' with group_size = None is not known"),
        ({"quant_method": "gptq"},
         "quantization 'gptq' has no bits (known: 2, 3, 4, 5, 6, 7, 8)"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
         "quant_algo 'MIXED_PRECISION' has no quantized_layers"),
        ({"quant_method": "bitsandbytes"},
         "quantization 'bitsandbytes' must have load_in_4bit or load_in_8bit"),
        ({"quant_method": "compressed-tensors"},
         "quantization 'compressed-tensors' has no config_groups with weights"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 6, "type": "float"}}}},
         "quantization 'compressed-tensors' with num_bits = 6 is not known (known: 4, 8)"),
        ({"quant_method": "modelopt"},
         f"quantization 'modelopt' has no quant_algo (known: {ALGORITHMS})"),
        ({"quant_algo": "W3"},
         f"quant_algo 'W3' is not known (known: {ALGORITHMS})"),
        ({}, "quantization_config has no quant_method"),
    ],
)  # fmt: skip
def test_unknown_quantization_has_counts_but_no_bytes(section: dict[str, Any], reason: str) -> None:
    model = read("llama-3.1-8b", quantization_config=section)
    whole = catalogue.load("llama-3.1-8b")
    assert model.parameters() == whole.parameters()
    expected = f"llama-3.1-8b: quantization_config: {reason}; state the format with --weights"
    for asked in (model.weight_bytes, lambda: model.weight_format, model.component_bits):
        with pytest.raises(InputError) as caught:
            asked()
        assert str(caught.value) == expected
    assert model.weight_bytes("int4") == whole.weight_bytes("int4")
    assert model.weight_bytes("bf16") == whole.weight_bytes()


_WEIGHTS = {"num_bits": 4, "group_size": 32}


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"quant_method": 5}, "quant_method must be a string, found 5"),
        ({"quant_method": "gptq", "bits": "four"}, "bits must be a whole number, found 'four'"),
        ({"quant_method": "gptq", "bits": 0}, "bits must be at least 1, found 0"),
        ({"quant_method": "gptq", "bits": True}, "bits must be a whole number, found true"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0},
         "group_size must be a positive whole number or -1, found 0"),
        ({"quant_method": "awq", "bits": 4, "q_group_size": "x"},
         "q_group_size must be a positive whole number or -1, found 'x'"),
        ({"quant_method": "fp8", "weight_block_size": "x"},
         "weight_block_size must be two positive whole numbers, found 'x'"),
        ({"quant_method": "fp8", "weight_block_size": [128]},
         "weight_block_size must be two positive whole numbers, found [128]"),
        ({"quant_method": "fp8", "weight_block_size": [128, 0]},
         "weight_block_size must be two positive whole numbers, found [128, 0]"),
        ({"quant_method": "fp8", "modules_to_not_convert": 5},
         "modules_to_not_convert must be a list of strings, found 5"),
        ({"quant_method": "mxfp4", "ignore": [1]}, "ignore must be a list of strings, found [1]"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": "no"},
         "load_in_4bit must be true or false, found 'no'"),
        ({"quant_method": "modelopt", "quant_algo": 4}, "quant_algo must be a string, found 4"),
        ({"quant_method": "compressed-tensors", "config_groups": []},
         "config_groups must be a mapping, found []"),
        ({"quant_method": "compressed-tensors", "config_groups": {"a\nb": {"weights": 4}}},
         "config_groups: 'a\\nb': weights must be a mapping, found 4"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": _WEIGHTS | {"num_bits": "4"}}}},
         "config_groups: group_0: weights: num_bits must be a whole number, found '4'"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": _WEIGHTS | {"group_size": 0}}}},
         "weights: group_size must be a positive whole number or -1, found 0"),
    ],
)  # fmt: skip
def test_wrong_values_of_a_quantization_are_refused_by_name(
    section: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        read("llama-3.1-8b", quantization_config=section)
    assert str(caught.value).startswith("llama-3.1-8b: quantization_config: ")
    assert str(caught.value).endswith(words)
    assert "\n" not in str(caught.value)


# What is not known


def test_unknown_family_with_generic_keys_warns() -> None:
    model = read("llama-3.1-8b", model_type="brand_new", architectures=["BrandNewForCausalLM"])
    assert model.parameters().total == 8_030_261_248
    assert any("brand_new" in w for w in model.warnings)


def test_the_nearest_family_is_named() -> None:
    model = read("llama-3.1-8b", model_type="lama", architectures=None)
    assert model.warnings[0] == (
        "model_type 'lama' is not known (did you mean 'llama', 'mllama' or 'llama4'?); "
        "counted by its generic keys"
    )
    long = read("llama-3.1-8b", model_type="x" * 5000, architectures=None)
    assert len(long.warnings[0]) < 200


def test_unknown_family_without_generic_keys_is_refused_in_one_short_line() -> None:
    with pytest.raises(
        InputError, match=r"brand_new.*intermediate_size.*archinfer models families"
    ):
        read("llama-3.1-8b", model_type="brand_new", architectures=None, intermediate_size=None)
    assert "deepseek_v3" in known_families()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama-3.1-8b", {"moe_latent_size": 512}),
        ("mixtral-8x7b", {"n_shared_experts_extra": 2}),
        ("qwen3-8b", {"hc_mult": 4}),
        ("llama-3.1-8b", {"cross_attention_layers": [3, 8]}),
        ("qwen3-235b-a22b", {"zero_expert_num": 64}),
        ("llama-2-7b", {"hidden_size_per_layer_input": 256}),
        ("minimax-m2", {"shared_intermediate_size": 1536}),
    ],
)
def test_size_keys_that_are_not_used_are_refused_by_name(
    name: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=next(iter(changes))):
        read(name, **changes)


SIDE_KEYS = {
    "attention_dropout": 0.1, "bos_token_id": 1, "eos_token_id": [1, 2], "initializer_range": 0.02,
    "use_cache": True, "router_aux_loss_coef": 0.001, "pretraining_tp": 1, "aux_loss_alpha": 0.1,
    "seq_aux": True, "ep_size": 1, "resid_pdrop": 0.1, "auto_map": {"AutoConfig": "x"},
    "original_max_position_embeddings": 4096, "num_logits_to_keep": 1, "top_k": 50, "num_beams": 1,
    "moe_token_drop_policy": "probs", "num_media_embeds": 257, "vit_token": 64,
    "rope_scaling": {"type": "yarn", "factor": 4}, "partial_rotary_factor": 0.5,
    "id2label": {"0": "a"}, "chunk_size_feed_forward": 0, "attn_implementation": "eager",
    "residual_multiplier": 0.2, "attention_multiplier": 0.1, "embedding_multiplier": 12.0,
}  # fmt: skip


@pytest.mark.parametrize("name", catalogue.names())
def test_keys_beside_the_size_are_no_obstacle(name: str) -> None:
    found = config(name)
    inner = found.get("text_config", found)
    for key, value in SIDE_KEYS.items():
        inner.setdefault(key, value)
    assert from_config(found, name).parameters() == catalogue.load(name).parameters()


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("llama-3.1-8b", {"hidden_size": -4096}, "hidden_size must be at least 1"),
        ("llama-3.1-8b", {"hidden_size": 0}, "hidden_size"),
        ("llama-3.1-8b", {"hidden_size": 10**40}, "absurdly large"),
        ("llama-3.1-8b", {"hidden_size": 4096.5}, "whole number"),
        ("llama-3.1-8b", {"hidden_size": "4096"}, "whole number"),
        ("llama-3.1-8b", {"hidden_size": True}, "whole number"),
        ("llama-3.1-8b", {"hidden_size": [4096]}, "whole number"),
        ("llama-3.1-8b", {"num_hidden_layers": 10**9}, "layers"),
        ("llama-3.1-8b", {"vocab_size": None}, "vocab_size"),
        ("llama-3.1-8b", {"num_key_value_heads": 7}, "do not divide"),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "cannot use 9 experts of 8"),
        ("mixtral-8x7b", {"num_experts_per_tok": 0}, "per token"),
        ("mixtral-8x7b", {"num_experts": 16}, "num_local_experts is 8 but num_experts is 16"),
        ("gpt-oss-20b", {"layer_types": ["full_attention"]}, "1 entries for 24 layers"),
        ("gpt-oss-20b", {"layer_types": ["odd"] * 24}, "'odd'"),
        ("deepseek-v3", {"kv_lora_rank": None}, "kv_lora_rank"),
        ("llama-3.1-8b", {"tie_word_embeddings": "yes"}, "true or false"),
        ("llama-3.1-8b", {"quantization_config": 7}, "quantization_config must be a mapping"),
        ("llama-3.1-8b", {"tie_word_embeddings": [True]}, "true or false"),
        (
            "llama-3.1-8b",
            {"model_type": "lama", "architectures": None, "vocab_size": None},
            "'lama' is not known .did you mean 'llama', 'mllama' or 'llama4'.. and key vocab_size",
        ),
        (
            "llama-3.1-8b",
            {"model_type": None, "architectures": None, "vocab_size": None},
            "no model_type is given and key vocab_size is missing",
        ),
        ("llama-4-scout", {"text_config": "x"}, "text_config must be a mapping, found 'x'"),
        ("llama-4-scout", {"text_config": []}, "text_config must be a mapping, found .."),
        ("llama-4-scout", {"text_config": True}, "text_config must be a mapping, found true"),
        ("llama-3.1-8b", {"hidden_size": float("inf")}, "hidden_size"),
    ],
)
def test_bad_values_are_named_in_one_line(name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(name, **changes)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(name)


def test_multimodal_wrapper_says_what_is_left_out() -> None:
    model = catalogue.load("llama-4-scout")
    assert any("no vision" in n for n in model.notes)


def test_a_text_config_of_null_is_named_where_keys_are_missing() -> None:
    with pytest.raises(InputError, match=r"hidden_size.* is missing; text_config is null"):
        from_config({"model_type": "llama4", "text_config": None}, "config.json")
    with pytest.raises(InputError, match=r"no model_type is given.* text_config is null"):
        from_config({"text_config": None}, "config.json")
    whole = from_config({**config("llama-3.1-8b"), "text_config": None}, "config.json")
    assert whole.parameters() == catalogue.load("llama-3.1-8b").parameters()


def test_git_of_microsoft_is_not_grok() -> None:
    assert catalogue.load("grok-2").parameters().total == 269_515_497_472
    with pytest.raises(InputError, match="git"):
        read("grok-2", architectures=["GitForCausalLM"])


@given(
    key=st.sampled_from(sorted(catalogue.entry("deepseek-v3").config)),
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.lists(st.integers(), max_size=3),
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    ),
)
def test_any_value_under_any_key_is_read_or_refused(key: str, value: Any) -> None:
    changed = {**config("deepseek-v3"), key: value}
    try:
        model = from_config(changed, "config")
    except ArchinferError as error:
        assert "\n" not in str(error)
    else:
        assert model.parameters().total > 0


# Hostile files


def write(path: Path, data: bytes) -> str:
    file = path / "config.json"
    file.write_bytes(data)
    return str(file)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (b"[1, 2]", "holds a list; expected a mapping"),
        (b"3", "holds a number; expected a mapping"),
        (b"null", "holds null; expected a mapping"),
        (b"true", "holds true; expected a mapping"),
        (b'"llama"', "holds a string; expected a mapping"),
        (b'{"hidden_size": 4096', "not valid JSON"),
        (b'{"hidden_size": 4096,\n "a": }', ":2: is not valid JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (b'{"a": [1, 1%s]}' % (b"0" * 400), "a: expected a number of a model, found one of 401"),
        (b"\xff\xfe\x00", ":1: is not UTF-8"),
        (b'{"a":\n\n "\xff"}', ":3: is not UTF-8"),
        (b"\x00" * 100, "not valid JSON"),
        (b'{"a":' + b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 5_000, "nested deeper"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "not usable JSON"),
        (b'{"a": "' + b"x" * MAX_CONFIG_BYTES + b'"}', "larger than"),
    ],
)
def test_hostile_files_get_one_line(tmp_path: Path, data: bytes, words: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(FileError, match=words) as caught:
        load_architecture(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(path)


def test_fifty_megabytes_are_refused_without_reading_them(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as out:
        out.truncate(50_000_000)
    with pytest.raises(FileError, match="larger than 4 MB"):
        read_json_object(str(file))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_json_object(str(tmp_path / "none.json"))
    with pytest.raises(FileError, match="folder"):
        read_json_object(str(tmp_path))


def test_infinity_is_accepted_where_it_changes_nothing(tmp_path: Path) -> None:
    text = json.dumps({**config("nemotron-h-56b"), "time_step_limit": [0.0, float("inf")]})
    assert "Infinity" in text
    model = load_architecture(write(tmp_path, text.encode()))
    assert model.parameters() == catalogue.load("nemotron-h-56b").parameters()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(json.dumps(config("llama-3.1-8b")).encode())

    monkeypatch.setattr("sys.stdin", Input())
    model = load_architecture("-")
    assert model.name == "standard input"
    assert model.parameters().total == 8_030_261_248


def test_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + json.dumps(config("llama-3.1-8b")).encode()
    assert load_architecture(write(tmp_path, data)).parameters().total == 8_030_261_248


@pytest.mark.parametrize(
    "key",
    ["ffn_dim_multiplier", "ffn_expansion_factor", "d_ff", "ff_mult", "expansion_ratio",
     "num_streams", "adapter_size", "hash_buckets", "num_mem_tokens", "intermediate_sizes"],
)  # fmt: skip
def test_a_size_by_an_unusual_name_is_refused_by_name(key: str) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        key: 3,
    }
    with pytest.raises(InputError, match=key):
        from_config(config, "config.json")


@pytest.mark.parametrize(
    ("written", "format_name"),
    [("bfloat16", "bf16"), ("torch.float16", "fp16"), ("float8_e4m3fn", "fp8")],
)
@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_a_dtype_is_the_format(written: str, format_name: str, key: str) -> None:
    found = from_config({**_without_dtype(), key: written})
    assert found.weight_format == format_name
    assert not found.warnings


def _without_dtype() -> dict[str, Any]:
    return {k: v for k, v in config("qwen3-32b").items() if not k.endswith("dtype")}


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("bfloat17", "'bfloat17' is not known (did you mean 'bfloat16'?)"),
        ("quark", "'quark' is not known"),
        (16, "16 is not known"),
    ],
)
@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_a_dtype_that_is_not_known_asks_for_weights(written: object, words: str, key: str) -> None:
    found = from_config({**_without_dtype(), key: written}, "file")
    assert found.parameters() == from_config(_without_dtype()).parameters()
    with pytest.raises(InputError) as caught:
        found.weight_bytes()
    assert str(caught.value) == f"file: {key} {words}; state the format with --weights"
    assert found.weight_bytes("int4") == from_config(_without_dtype()).weight_bytes("int4")


def test_two_dtypes_that_disagree_are_told() -> None:
    found = from_config({**_without_dtype(), "dtype": "float16", "torch_dtype": "float32"})
    assert found.weight_format == "fp16"
    assert found.warnings == ("dtype is fp16 but torch_dtype fp32: dtype is taken",)


UNKNOWN = {
    "model_type": "unheard_of", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
    "vocab_size": 100, "rms_norm_eps": 1e-6,
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_channels", 32), ("multi_query", True), ("use_glu", False),
        ("norm_type", "layer_norm"), ("position_embedding_type", "learned"),
        ("post_norm", True), ("attention_pattern", "LLG"), ("lambda_std_dev", 0.1),
    ],
)  # fmt: skip
def test_keys_that_change_counts_stop_an_unknown_family(key: str, value: object) -> None:
    assert from_config(UNKNOWN).parameters().total == 86_848
    with pytest.raises(InputError, match=f"key {key} = .* changes the count"):
        from_config(UNKNOWN | {key: value})


@pytest.mark.parametrize("name", ["axk1", "beam"])
def test_a_class_that_counts_otherwise_than_its_keys_say_is_not_guessed(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}' is not known.* counts otherwise than its keys"):
        from_config(UNKNOWN | {"model_type": name})


@pytest.mark.parametrize(("name", "key"), [("glm-5", "mlp_bias"), ("deepseek-v3.2", "mlp_bias")])
def test_a_key_that_the_class_never_reads_is_no_obstacle(name: str, key: str) -> None:
    assert read(name, **{key: True}).parameters() == read(name).parameters()


@pytest.mark.parametrize("value", ["8", [8], {"a": 1}, True, 1.5])
def test_experts_of_the_wrong_type_are_refused(value: object) -> None:
    experts = {"model_type": "olmoe", "num_experts": value, "num_experts_per_tok": 2}
    with pytest.raises(InputError, match="num_experts"):
        from_config(UNKNOWN | experts)


def test_a_missing_tie_follows_the_library_that_wrote_the_file() -> None:
    tied = from_config(UNKNOWN | {"transformers_version": "4.51.0"})
    assert tied.parameters().total == 86_848 - 6_400
    assert "tied head" in tied.warnings[-1]
    assert not from_config(UNKNOWN | {"transformers_version": "5.2.0"}).tied
    assert (
        from_config(UNKNOWN | {"model_type": "llama", "transformers_version": "4.5.0"}).tied
        is False
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("kimi-k3", ("text_config", "linear_attn_config", "kda_layers")),
        ("kimi-k3", ("text_config", "linear_attn_config", "full_attn_layers")),
        ("qwen3-235b-a22b", ("mlp_only_layers",)),
    ],
)
@pytest.mark.parametrize("value", [[[1]], ["1"], [None], {"a": 1}, "x", [1.5], [True]])
def test_lists_hold_what_they_should_or_are_refused_by_name(
    name: str, path: tuple[str, ...], value: object
) -> None:
    found = config(name)
    at = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(InputError, match=path[-1]) as caught:
        from_config(found, name)
    assert "\n" not in str(caught.value)


def test_mutated_configs_are_read_or_refused_in_one_line() -> None:
    spec = importlib.util.spec_from_file_location(
        "mutated_configs", Path(__file__).parent / "tools" / "mutated_configs.py"
    )
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    rng, configs = random.Random(18), tool.sources()
    names = sorted(configs)
    for _ in range(200):
        name = rng.choice(names)
        new, _ = tool.mutate(configs[name], rng)
        tool.read(new, name)


@pytest.mark.parametrize(
    ("name", "key", "told"),
    [
        ("qwen3-32b", "head_dim", "head_dim = 128"),
        ("deepseek-v3", "q_lora_rank", "q_lora_rank = 1536"),
        ("deepseek-v3.2", "first_k_dense_replace", "first_k_dense_replace = 3"),
        ("ernie-4.5-300b-a47b", "moe_layer_start_index", "moe_layer_start_index = 1"),
        ("qwen3-next-80b-a3b", "shared_expert_intermediate_size", "intermediate_size = 512"),
    ],
)
def test_what_a_class_takes_where_a_file_says_nothing_is_told(
    name: str, key: str, told: str
) -> None:
    """Counts of the classes on the meta device: tests/tools/mutated_configs.py."""
    found = from_config({k: v for k, v in config(name).items() if k != key})
    (warning,) = found.warnings
    assert "taken from the class default" in warning and told in warning
    counted = {
        "qwen3-32b": 32_762_123_264, "deepseek-v3": 671_026_404_352,
        "deepseek-v3.2": 671_877_929_216, "ernie-4.5-300b-a47b": 309_350_214_976,
        "qwen3-next-80b-a3b": 79_674_391_296,
    }  # fmt: skip
    assert found.parameters().total == counted[name]


def test_block_types_that_are_no_texts_are_refused() -> None:
    griffin = FAMILIES["recurrentgemma-9b"][2]
    with pytest.raises(InputError, match="block_types must be a list"):
        from_config({**griffin, "block_types": [["recurrent"]]})
