"""Users and context that fit: one more does not; sweeps as tables, JSON, CSV and pictures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archinfer import Hardware, predict
from archinfer.asking import WHOLE_MOST
from archinfer.forward.room import most, users_held
from tests.cli import run

CASES = [
    ("deepseek-v3", "b200", 8),
    ("llama-3.1-70b", "h100-sxm", 4),
    ("kimi-k2", "wse-3", 40),
    ("gpt-oss-120b", "h100-sxm", 2),
    ("nemotron-h-56b", "h100-sxm", 3),
    ("gemma-3-27b", "mi300x", 1),
]


@given(
    st.lists(st.integers(0, 10**15), min_size=1, max_size=5),
    st.sampled_from([1.0, 7.0, 1e6, float(WHOLE_MOST)]),
)
def test_most_finds_the_last_number_that_holds(ends: list[int], high: float) -> None:
    wanted = np.asarray(ends, dtype=float)
    found = most(lambda n: n <= wanted, wanted.shape, high)
    assert found.tolist() == np.minimum(wanted, high).tolist()


@pytest.mark.parametrize(("model", "hardware", "nodes"), CASES)
@settings(deadline=None, max_examples=12)
@given(context=st.integers(1, 200_000), users=st.integers(1, 64))
def test_one_more_does_not_fit(
    model: str, hardware: str, nodes: int, context: int, users: int
) -> None:
    def fits(context: int, users: int) -> bool:
        asked = {"context": context, "concurrency": users, "nodes": nodes}
        return bool(predict(model, hardware, changes=False, **asked).fits)

    found = predict(
        model, hardware, nodes=nodes, context=context, concurrency=users, changes=False
    ).room
    assert not fits(context, found.users + 1)
    assert found.users == 0 or fits(context, found.users)
    if found.context_tokens is not None:
        assert not fits(found.context_tokens + 1, users)
        assert found.context_tokens == 0 or fits(found.context_tokens, users)


def test_a_forced_mapping_alone_counts() -> None:
    free = predict("deepseek-v3", "b200", nodes=16, changes=False).room
    forced = predict("deepseek-v3", "b200", nodes=16, mapping="tp=8,pp=2", changes=False).room
    assert 0 < forced.users < free.users


def test_more_nodes_hold_more_users() -> None:
    held = [predict("kimi-k2", "b200", nodes=n, changes=False).room.users for n in range(7, 40)]
    assert held == sorted(held) and held[-1] > held[0]


def test_published_rooms() -> None:
    """Tokens of cache that engines report, which also keep buffers of their own."""
    h100 = Hardware.load("h100-sxm")
    qwen = predict("qwen3-235b-a22b", h100, nodes=4, weights="fp8", changes=False)
    # 179k to 367k on four H100, by engine.
    assert 179_000 <= qwen.room.context_tokens <= 367_000


def test_two_rtx_4090_hold_a_cache(tmp_path) -> None:
    """81,536 tokens of the cache of a 14B in 16 bits (48 layers, 8 KV heads) on 2 x 24 GB."""
    config = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 5120,
        "intermediate_size": 13824, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "vocab_size": 152064, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
    }  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    # The report's command line: --gpu_memory_utilization=0.98 (vLLM issue 13061).
    card = Hardware.load("rtx-4090").with_value("memory.usable_fraction", "98 %")
    found = predict(str(file), card, nodes=2, mapping="tp=2", context=4096, changes=False)
    assert found.room.context_tokens == pytest.approx(81_536, rel=0.08)


def test_held_users_of_arrays_are_those_of_each() -> None:
    found = predict("deepseek-v3", "b200", nodes=8, changes=False)
    mapping = replace(found.mapping, layers_per_stage=np.array([61.0, 31.0]), tensor_parallel=8.0)
    held = users_held(found.hardware, found.workload, mapping)
    one = [
        users_held(found.hardware, found.workload, replace(mapping, layers_per_stage=m))
        for m in (61.0, 31.0)
    ]
    assert held.tolist() == [float(h) for h in one]


SWEEP = (
    "predict",
    "llama-3.1-70b",
    "--hardware",
    "h100-sxm",
    "--context",
    "8k,32k",
    "--users",
    "1,8,64",
)


def test_a_sweep_is_a_table_json_csv_and_a_page(capsys, tmp_path) -> None:
    asked = (*SWEEP, "--nodes", "4")
    answer = json.loads(run(capsys, *asked, "--format", "json").out)
    got = [(r["context_tokens"], r["concurrency"], r["fits"]) for r in answer["results"]]
    assert got == [
        (8000, 1, True), (8000, 8, True), (8000, 64, False),
        (32000, 1, True), (32000, 8, True), (32000, 64, False),
    ]  # fmt: skip
    for result in answer["results"]:
        assert (result["concurrency"] <= result["room"]["users"]) == result["fits"]
    rows = run(capsys, *asked, "--format", "csv").out.splitlines()
    assert len(rows) == 7 and rows[0].startswith("model,hardware,context_tokens,concurrency")
    page = tmp_path / "sweep.html"
    table = run(capsys, *asked, "--report", str(page)).out
    assert "one more does not fit" in " ".join(table.split())
    assert "up to context" in page.read_text()
    markdown = run(capsys, *asked, "--format", "markdown").out
    assert markdown.count("\n| ") >= 7


def test_a_sweep_reads_standard_input_once(capsys) -> None:
    asked = ("predict", "-", "--users", "1,8")
    done = run(capsys, *asked)
    assert done.code == 2 and "standard input" in done.err


@pytest.mark.parametrize(
    ("model", "hardware", "asked", "fits", "word"),
    [
        # Ran out of memory, with all of it allowed (vLLM issue 14726).
        ("deepseek-v3", "l40s", {"nodes": 16, "context": 1000, "kv": "fp8"}, False, "unlikely"),
        # Ran at 18 tokens/s (gpt-fast).
        (
            "llama-3.1-70b",
            "a100-80gb",
            {"nodes": 1, "context": 1000, "weights": "int8"},
            True,
            "likely",
        ),
        ("llama-3.1-8b", "a100-80gb", {"nodes": 1, "context": 1000}, True, ""),
        ("llama-3.1-405b", "a100-80gb", {"nodes": 1, "context": 1000}, False, ""),
    ],
)
def test_known_runs_at_the_edge_of_the_memory(
    model: str, hardware: str, asked: dict[str, object], fits: bool, word: str
) -> None:
    found = predict(model, hardware, speculation=1, changes=False, **asked)
    assert found.fits is fits
    assert (f" is {word} " in found.sure_to_fit) == bool(word)
    chance = float(found.fits_chance)
    assert (chance >= 0.5) == fits and (0.05 < chance < 0.95) == bool(word)
