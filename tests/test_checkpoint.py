"""Files and folders in which models are kept: sidecars, indexes, headers, GGUF, other forms."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from archinfer import catalogue
from archinfer.errors import FileError, InputError
from archinfer.forward.predict import predict
from archinfer.hardware.profile import Hardware
from archinfer.models.checkpoint import is_model, load_architecture, read_model
from archinfer.models.huggingface import from_config
from archinfer.physics.deployment import Deployment
from tests.gguf import gguf_header

CASES = Path(__file__).parent / "fixtures" / "cases"
BASE = json.loads((CASES / "22-sidecar" / "config.json").read_text())


def write(folder: Path, **files: Any) -> Path:
    """JSON files in a folder, by name with `_` for the dot before json."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / f"{name}.json").write_text(json.dumps(data))
    return folder


def test_hf_quant_config_beside_a_config() -> None:
    model = load_architecture(str(CASES / "22-sidecar"))
    assert model.weight_bytes() == 103_040
    assert model.stored.kv == "fp8"
    assert model.weight_format == "nvfp4"
    again, _ = read_model(str(CASES / "22-sidecar" / "config.json"))
    assert again.weight_bytes() == 103_040


def test_a_config_of_its_own_goes_before_the_sidecar(tmp_path: Path) -> None:
    side = json.loads((CASES / "22-sidecar" / "hf_quant_config.json").read_text())
    folder = write(tmp_path, config=BASE | {"quantization_config": {"quant_method": "fp8"}},
                   hf_quant_config=side)  # fmt: skip
    assert load_architecture(str(folder)).weight_format == "fp8"


@pytest.mark.parametrize("ref", [True, False])
def test_a_folder_of_the_cache(tmp_path: Path, ref: bool) -> None:
    folder = tmp_path / "models--maker--name"
    old = write(folder / "snapshots" / "aaa", config=BASE)
    write(folder / "snapshots" / "bbb", config=BASE | {"vocab_size": 200})
    if ref:
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("aaa")
    else:
        shutil.rmtree(old)
    expected = 100 if ref else 200
    for path in (folder, folder / "snapshots"):
        assert load_architecture(str(path)).vocab_size == expected
    assert read_model(str(folder))[0].vocab_size == expected


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
          "n_kv_heads": 8, "norm_eps": 1e-05, "vocab_size": 32000, "sliding_window": 4096},
         "mistral-7b-v0.1"),
        ({"dim": 4096, "ffn_dim_multiplier": 1.3, "multiple_of": 1024, "n_heads": 32,
          "n_kv_heads": 8, "n_layers": 32, "norm_eps": 1e-05, "rope_theta": 500000.0,
          "use_scaled_rope": True, "vocab_size": 128256}, "llama-3.1-8b"),
        ({"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-05,
          "vocab_size": 32000}, "llama-2-7b"),
        ({"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
          "n_kv_heads": 8, "norm_eps": 1e-05, "vocab_size": 32000,
          "moe": {"num_experts_per_tok": 2, "num_experts": 8}}, "mixtral-8x7b"),
    ],
)  # fmt: skip
def test_params_json(params: dict[str, Any], name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, params=params)
    known = catalogue.load(name).parameters()
    assert load_architecture(str(folder)).parameters().total == known.total
    assert load_architecture(str(folder / "params.json")).parameters().active == known.active


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("adapter_config", {"peft_type": "LORA", "r": 8}, "is an adapter (PEFT)"),
        ("hf_quant_config", {"producer": {}, "quantization": {"quant_algo": "FP8"}},
         "says how weights are quantised, not what the model is"),
        ("tokenizer_config", {"chat_template": "x"}, "is a tokenizer's configuration"),
        ("model.safetensors.index", {"metadata": {}, "weight_map": {}},
         "expected config.json beside it"),
        ("config", {"model_type": "modernbert", "hidden_size": 768},
         "is no decoder-only model: it is an encoder, which generates no text"),
        ("config", {"model_type": "t5", "d_model": 512},
         "is no decoder-only model: it is an encoder-decoder"),
        ("params", {"dim": 8, "n_layers": 2, "n_heads": 2, "vocab_size": 9, "q_lora_rank": 4},
         "key q_lora_rank may change the size"),
    ],
)  # fmt: skip
def test_other_files_are_refused_for_the_true_reason(
    name: str, data: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write(tmp_path, **{name: data})
    with pytest.raises((FileError, InputError)) as caught:
        load_architecture(str(tmp_path / f"{name}.json"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("m.gguf", b"", "is cut off"),
        ("m.gguf", b"GGUF\x01\0\0\0", "is GGUF version 1; known are 2 and 3"),
        ("m.gguf", b"\x80\x81\x82\x83\x84", "is no GGUF file"),
        ("m.gguf", b"GGUF\x03\0\0\0" + b"\xff" * 16, "tensors; expected at most"),
        ("m.safetensors", b"\xff\xfe\xfd" * 9, "expected config.json beside it"),
        ("m.bin", b"PK\x03\x04" + b"\xff" * 40, "PyTorch's own form"),
    ],
)
def test_weights_never_answer_that_they_are_no_text(
    name: str, data: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FileError) as caught:
        read_model(str(tmp_path / name))
    assert words in str(caught.value)
    assert "UTF-8" not in str(caught.value)


# Safetensors


def tensors_of(bits: str, head: str = "BF16") -> dict[str, Any]:
    """The header of BASE with its matrices in one dtype."""
    found: dict[str, Any] = {}

    def add(name: str, dtype: str, *shape: int) -> None:
        found[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [0, 0]}

    add("model.embed_tokens.weight", "BF16", 100, 64)
    add("lm_head.weight", head, 100, 64)
    add("model.norm.weight", "BF16", 64)
    for i in range(2):
        at = f"model.layers.{i}."
        for name, rows in (("q", 64), ("k", 32), ("v", 32)):
            add(f"{at}self_attn.{name}_proj.weight", bits, rows, 64)
        add(f"{at}self_attn.o_proj.weight", bits, 64, 64)
        for name in ("gate", "up"):
            add(f"{at}mlp.{name}_proj.weight", bits, 128, 64)
        add(f"{at}mlp.down_proj.weight", bits, 64, 128)
        add(f"{at}input_layernorm.weight", "BF16", 64)
        add(f"{at}post_attention_layernorm.weight", "BF16", 64)
    return found


def safetensors(path: Path, header: dict[str, Any]) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def test_headers_beside_a_config_settle_the_bytes(tmp_path: Path) -> None:
    folder = write(tmp_path, config=BASE)
    safetensors(folder / "model.safetensors", tensors_of("BF16"))
    model = load_architecture(str(folder))
    assert (model.weight_bytes(), model.warnings) == (173_696, ())
    header = tensors_of("F8_E4M3")
    header["visual.blocks.0.attn.qkv.weight"] = {"dtype": "BF16", "shape": [999, 9]}
    safetensors(folder / "model.safetensors", header)
    found = load_architecture(str(folder / "model.safetensors"))
    assert found.weight_bytes() == 173_696 - 73_728
    assert found.weight_formats()["attention"] == "fp8"
    assert "the checkpoint's tensors take" in found.warnings[0]
    assert "42.4 % less" in found.warnings[0]
    assert found.assumed[-1] == found.warnings[0]


def test_an_index_settles_what_a_config_cannot_say(tmp_path: Path) -> None:
    section = {"quant_method": "exl2", "bits": 4.0}
    index = {"metadata": {"total_size": 66_000}, "weight_map": {"a": "model-1.safetensors"}}
    folder = write(tmp_path, config=BASE | {"quantization_config": section},
                   **{"model.safetensors.index": index})  # fmt: skip
    for path in (folder, folder / "model.safetensors.index.json"):
        model = load_architecture(str(path))
        assert model.weight_bytes() == pytest.approx(66_000, rel=1e-12)
        assert model.weight_formats()["embedding"] == "bf16"
    write(folder, config=BASE)
    told = load_architecture(str(folder))
    assert told.weight_bytes() == pytest.approx(66_000, rel=1e-12)
    assert "less than" in told.warnings[0]


# GGUF


def gguf(path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[list[int], int]]) -> None:
    """A GGUF file's header, version 3."""
    path.write_bytes(gguf_header(metadata, tensors))


def llama_8b(path: Path) -> None:
    """Llama 3.1 8B as llama.cpp's Q4_K_M holds it: Q6_K for the head, and for values and the last
    matrix of the feed-forward in half of the layers."""
    metadata = {
        "general.architecture": "llama", "llama.block_count": 32, "llama.context_length": 131072,
        "llama.embedding_length": 4096, "llama.feed_forward_length": 14336,
        "llama.attention.head_count": 32, "llama.attention.head_count_kv": 8,
        "llama.rope.freq_base": 500000.0, "tokenizer.ggml.tokens": ["a", "b", "c"],
    }  # fmt: skip
    tensors: dict[str, tuple[list[int], int]] = {
        "token_embd.weight": ([4096, 128256], 12),
        "output.weight": ([4096, 128256], 14),
        "output_norm.weight": ([4096], 0),
        "rope_freqs.weight": ([64], 0),
    }
    for i in range(32):
        more = 14 if i < 4 or i >= 28 or (i - 4) % 3 == 2 else 12
        at = f"blk.{i}."
        tensors |= {
            f"{at}attn_q.weight": ([4096, 4096], 12), f"{at}attn_k.weight": ([4096, 1024], 12),
            f"{at}attn_v.weight": ([4096, 1024], more),
            f"{at}attn_output.weight": ([4096, 4096], 12),
            f"{at}ffn_gate.weight": ([4096, 14336], 12), f"{at}ffn_up.weight": ([4096, 14336], 12),
            f"{at}ffn_down.weight": ([14336, 4096], more),
            f"{at}attn_norm.weight": ([4096], 0), f"{at}ffn_norm.weight": ([4096], 0),
        }  # fmt: skip
    gguf(path, metadata, tensors)


def test_gguf_of_an_8b(tmp_path: Path) -> None:
    path = tmp_path / "Llama-3.1-8B-Q4_K_M.gguf"
    llama_8b(path)
    model = load_architecture(str(path))
    known = catalogue.load("llama-3.1-8b")
    assert model.parameters() == known.parameters()
    assert model.kv_bytes_per_token() == known.kv_bytes_per_token()
    # A file of that name is 4.92 GB, its vocabulary included.
    assert model.weight_bytes() == pytest.approx(4.913e9, rel=1e-3)
    assert model.warnings == ()
    assert model.weight_format == "q4_k"
    formats = model.weight_formats()
    assert (formats["lm_head"], formats["embedding"], formats["norm"]) == ("q6_k", "q4_k", "fp32")
    assert read_model(str(tmp_path))[0].weight_bytes() == model.weight_bytes()


def test_gguf_of_gpt_oss_holds_attention_and_head_in_8_bits(tmp_path: Path) -> None:
    known = catalogue.load("gpt-oss-20b")
    a = "gpt-oss."
    metadata = {
        "general.architecture": "gpt-oss", a + "block_count": 24, a + "embedding_length": 2880,
        a + "feed_forward_length": 2880, a + "attention.head_count": 64,
        a + "attention.head_count_kv": 8, a + "attention.key_length": 64,
        a + "attention.sliding_window": 128, a + "expert_count": 32, a + "expert_used_count": 4,
        a + "expert_feed_forward_length": 2880,
    }  # fmt: skip
    tensors: dict[str, tuple[list[int], int]] = {
        "token_embd.weight": ([2880, 201088], 8), "output.weight": ([2880, 201088], 8),
        "output_norm.weight": ([2880], 0),
    }  # fmt: skip
    for i in range(24):
        at = f"blk.{i}."
        tensors |= {
            f"{at}attn_q.weight": ([2880, 4096], 8), f"{at}attn_q.bias": ([4096], 0),
            f"{at}attn_k.weight": ([2880, 512], 8), f"{at}attn_k.bias": ([512], 0),
            f"{at}attn_v.weight": ([2880, 512], 8), f"{at}attn_v.bias": ([512], 0),
            f"{at}attn_output.weight": ([4096, 2880], 8), f"{at}attn_output.bias": ([2880], 0),
            f"{at}attn_sinks.weight": ([64], 0), f"{at}attn_norm.weight": ([2880], 0),
            f"{at}post_attention_norm.weight": ([2880], 0),
            f"{at}ffn_gate_inp.weight": ([2880, 32], 0), f"{at}ffn_gate_inp.bias": ([32], 0),
            **{f"{at}ffn_{n}_exps.weight": ([2880, 2880, 32], 39) for n in ("gate", "up", "down")},
            **{f"{at}ffn_{n}_exps.bias": ([2880, 32], 0) for n in ("gate", "up", "down")},
        }  # fmt: skip
    gguf(tmp_path / "gpt-oss-20b.gguf", metadata, tensors)
    model = load_architecture(str(tmp_path / "gpt-oss-20b.gguf"))
    assert model.parameters() == known.parameters()
    assert model.kv_window_bytes_max() == known.kv_window_bytes_max()
    assert model.warnings == ()
    formats = model.weight_formats()
    assert (formats["lm_head"], formats["embedding"]) == ("q8_0", "q8_0")
    own = model.weight_bytes_by_component()
    assert own["lm_head"] == known.parameters().by_component["lm_head"] * 8.5 / 8
    assert own["attention"] == pytest.approx(0.54 * known.weight_bytes_by_component()["attention"],
                                             rel=0.02)  # fmt: skip


def _ssm(conv: int, inner: int, state: int, rank: int, groups: int | None) -> dict[str, Any]:
    found = {"conv_kernel": conv, "inner_size": inner, "state_size": state, "time_step_rank": rank}
    return {f"ssm.{k}": v for k, v in (found | {"group_count": groups}).items() if v is not None}


def _each(layers: int, value: int, at: Any) -> list[int]:
    return [value if i in at else 0 for i in range(layers)]


HYBRIDS: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "granite-4-h-tiny": ("granitehybrid", {
        "block_count": 40, "embedding_length": 1536, "feed_forward_length": 512,
        "attention.head_count": 12, "attention.head_count_kv": _each(40, 4, (5, 15, 25, 35)),
        "expert_count": 64, "expert_used_count": 6, "expert_shared_feed_forward_length": 1024,
        **_ssm(4, 3072, 128, 48, 1)}, set()),
    "falcon-h1-34b": ("falcon-h1", {
        "block_count": 72, "embedding_length": 5120, "feed_forward_length": 21504,
        "attention.head_count": 20, "attention.head_count_kv": 4, "attention.key_length": 128,
        **_ssm(4, 4096, 256, 32, 2)}, {"output"}),
    "codestral-mamba": ("mamba2", {
        "block_count": 64, "embedding_length": 4096, **_ssm(4, 8192, 128, 128, 8)}, {"output"}),
    "mamba-2.8b": ("mamba", {
        "block_count": 64, "embedding_length": 2560, **_ssm(4, 5120, 16, 160, None)}, set()),
    "jamba-v0.1": ("jamba", {
        "block_count": 32, "embedding_length": 4096, "feed_forward_length": 14336,
        "attention.head_count": 32, "attention.head_count_kv": _each(32, 8, range(4, 32, 8)),
        "expert_count": 16, "expert_used_count": 2, **_ssm(4, 8192, 16, 256, None)},
        {"output", *(f"blk.{i}.ffn_gate_inp" for i in range(1, 32, 2))}),
    "qwen3-next-80b-a3b": ("qwen3next", {
        "block_count": 48, "embedding_length": 2048, "feed_forward_length": 5120,
        "attention.head_count": 16, "attention.head_count_kv": 2, "attention.key_length": 256,
        "expert_count": 512, "expert_used_count": 10, "expert_feed_forward_length": 512,
        "expert_shared_feed_forward_length": 512, **_ssm(4, 4096, 128, 32, 16)}, {"output"}),
    "nemotron-h-56b": ("nemotron_h", {
        "block_count": 118, "embedding_length": 8192, "attention.head_count": 64,
        "attention.key_length": 128, **_ssm(4, 16384, 256, 256, 8)}, {"output"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HYBRIDS)
def test_gguf_of_hybrids(name: str, tmp_path: Path) -> None:
    """Metadata as llama.cpp's converter writes them; the counts are those of the configs."""
    arch, sizes, more = HYBRIDS[name]
    families = json.loads((CASES.parent / "configs" / "families.json").read_text())
    known = from_config(families[name][2] if name in families else catalogue.entry(name).config)
    if arch == "nemotron_h":
        pattern = catalogue.entry(name).config["hybrid_override_pattern"]
        sizes = sizes | {
            "attention.head_count_kv": [8 if c == "*" else 0 for c in pattern],
            "feed_forward_length": [32768 if c == "-" else 0 for c in pattern],
        }
    metadata = {"general.architecture": arch} | {f"{arch}.{k}": v for k, v in sizes.items()}
    shape = ([known.hidden_size, known.vocab_size], 1)
    gguf(tmp_path / "x.gguf", metadata,
         {f"{n}.weight": shape for n in ("token_embd", *sorted(more))})  # fmt: skip
    model = load_architecture(str(tmp_path / "x.gguf"))
    assert model.parameters() == known.parameters()
    assert model.state_bytes() == known.state_bytes()
    assert model.kv_bytes_per_token() == known.kv_bytes_per_token()


def test_gguf_of_an_architecture_that_is_not_known(tmp_path: Path) -> None:
    gguf(tmp_path / "x.gguf", {"general.name": "llama"}, {})
    with pytest.raises(FileError, match=r"has no general\.architecture"):
        load_architecture(str(tmp_path / "x.gguf"))
    gguf(tmp_path / "x.gguf", {"general.architecture": "lama"}, {})
    with pytest.raises(FileError, match="did you mean 'llama'"):
        load_architecture(str(tmp_path / "x.gguf"))


def test_parts_of_a_gguf(tmp_path: Path) -> None:
    gguf(tmp_path / "x-00001-of-00002.gguf",
         {"general.architecture": "llama", "split.count": 2}, {})  # fmt: skip
    with pytest.raises(FileError, match=r"x-00002-of-00002\.gguf is not beside it"):
        load_architecture(str(tmp_path))


def test_predict_takes_the_cache_format_that_the_file_states() -> None:
    model = load_architecture(str(CASES / "22-sidecar"))
    hardware = Hardware.load("h100-sxm")
    found = predict(model, hardware, changes=False)
    assert found.deployment.kv == "fp8"
    assert float(found.memory.kv) == 8000 * model.kv_bytes_per_token() / 2
    wide = predict(model, hardware, Deployment(kv="bf16"), changes=False)
    assert float(wide.memory.kv) == 2 * float(found.memory.kv)
    plain = predict(catalogue.load("llama-3.1-8b"), hardware, changes=False)
    assert plain.deployment.kv == "bf16"


def test_a_name_that_is_too_long_for_a_file_is_none() -> None:
    assert not is_model("m" * 300) and not is_model("a\0b")
