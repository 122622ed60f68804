"""The catalogue against counts made elsewhere (transformers classes, released code)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from archinfer import catalogue
from archinfer.cli import models
from archinfer.errors import UnknownNameError

EXPECTED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "fixtures/configs/expected.json").read_text(encoding="utf-8")
)


def test_the_catalogue_holds_the_expected_models() -> None:
    assert sorted(EXPECTED) == list(catalogue.names())
    assert len(EXPECTED) == 62


@pytest.mark.parametrize("name", EXPECTED)
def test_counts_equal_to_the_last_digit(name: str) -> None:
    want = EXPECTED[name]
    counts = catalogue.load(name).parameters()
    assert counts.total == want["total"]
    assert counts.active == want["active"]
    assert counts.by_component == want["components"]
    assert sum(counts.by_component.values()) == counts.total
    if want["active_without_input_embedding"] is not None:
        assert counts.active_without_input_embedding == want["active_without_input_embedding"]
        assert counts.active_without_embedding_and_head == want["active_without_embedding_and_head"]


@pytest.mark.parametrize("name", EXPECTED)
def test_caches_equal_to_the_last_byte(name: str) -> None:
    want, model = EXPECTED[name], catalogue.load(name)
    assert model.layers == want["layers"]
    assert model.kv_bytes_per_token() == want["kv_bytes_per_token"]
    if want["kv_past_windows"] is None:
        assert name == "qwen2-72b"
        return
    assert model.kv_bytes_per_token_past_windows() == want["kv_past_windows"]
    assert model.kv_window_bytes_max() == want["kv_window_bytes"]
    assert model.state_bytes() == want["state_bytes"]
    assert model.indexer_bytes_per_token() == want["indexer_bytes_per_token"]


@pytest.mark.parametrize("name", [n for n in EXPECTED if EXPECTED[n]["mtp"]])
def test_prediction_layers_left_out(name: str) -> None:
    assert catalogue.load(name).mtp_parameters() == EXPECTED[name]["mtp"]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_cost_models_shape_has_the_same_totals(name: str) -> None:
    model = catalogue.load(name)
    shape, counts = model.shape(), model.parameters()
    assert shape.total_params == counts.total
    assert shape.active_params == counts.active
    assert shape.layers == model.layers


@pytest.mark.parametrize("name", EXPECTED)
def test_records_agree_with_the_code(name: str) -> None:
    record, counts = catalogue.entry(name), catalogue.load(name).parameters()
    assert (record.total_params, record.active_params) == (counts.total, counts.active)
    assert record.source
    assert record.confidence in ("high", "medium")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Llama 3.1 70B", "llama-3.1-70b"),
        ("Kimi-K2", "kimi-k2"),
        ("moonshotai/Kimi-K2-Instruct", "kimi-k2"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("DeepSeek-V3-0324", "deepseek-v3"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax-m2.5"),
        ("qwen3-next", "qwen3-next-80b-a3b"),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    assert catalogue.resolve(spelling) == name
    assert catalogue.load(spelling).name == name


def test_no_two_models_share_a_spelling() -> None:
    seen: dict[str, str] = {}
    for name in catalogue.names():
        record = catalogue.entry(name)
        for spelling in (name, *record.aliases, record.hugging_face or name):
            key = spelling.lower().rsplit("/", 1)[-1]
            assert seen.setdefault(key, name) == name


@pytest.mark.parametrize("name", ["gpt-oss", "mixtral", "Mistral-7B-Instruct", "mistral large"])
def test_what_several_names_begin_with_is_none_of_them(name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        catalogue.resolve(name)
    begin = name.lower().replace(" ", "-").removesuffix("-instruct")
    several = [n for n in catalogue.names() if n.startswith(f"{begin}-")]
    assert len(several) == 2
    if not name.endswith("Instruct"):
        assert all(repr(n) in str(caught.value) for n in several)


def test_suggestions_begin_with_what_was_asked_for() -> None:
    with pytest.raises(
        UnknownNameError, match=r"'llama-3\.1-405b', 'llama-3\.1-70b' or 'llama-3\.1-8b'"
    ) as caught:
        catalogue.resolve("llama-3.1")
    assert len(str(caught.value)) < 160


def test_unknown_name_carries_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'gpt-oss-120b'") as caught:
        catalogue.load("gpt-oss-102b")
    assert caught.value.nearest == "gpt-oss-120b"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("deepseek-v3", "multi-token-prediction"),
        ("llama-4-maverick", "vision"),
        ("gpt-oss-120b", "without the input embedding"),
        ("mixtral-8x7b", "with embedding and head"),
        ("glm-4.5", "without embedding and head"),
        ("longcat-flash-lite", "n-gram"),
    ],
)
def test_why_an_announced_figure_differs(name: str, words: str) -> None:
    assert words in catalogue.entry(name).difference(catalogue.load(name))


# The command


def run(*arguments: str, text: str | None = None) -> Any:
    return CliRunner().invoke(models.app, list(arguments), input=text)


def test_show_prints_json_with_the_stable_keys() -> None:
    result = run("show", "deepseek-ai/DeepSeek-V3", "--format", "json")
    shown = json.loads(result.stdout)
    assert shown["name"] == "deepseek-v3"
    assert shown["parameters"]["total"] == 671_026_404_352
    assert shown["parameters"]["active"] == 37_552_282_624
    assert shown["parameters"]["by_component"] == EXPECTED["deepseek-v3"]["components"]
    assert shown["kv_bytes_per_token"] == 70_272
    assert shown["kv_bytes_per_token_by_format"]["fp8"] == 35_136


def test_show_reads_a_config_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    text = json.dumps(catalogue.entry("gemma-3-27b").config)
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    from_file = run("show", str(file), "--format", "json")
    from_stdin = run("show", "-", "--format", "json", text=text)
    for result in (from_file, from_stdin):
        assert json.loads(result.stdout)["parameters"]["total"] == 27_009_346_304
        assert "warning: not in the file" in result.stderr


@pytest.mark.parametrize("output", ["table", "csv", "markdown"])
@pytest.mark.parametrize("width", ["40", "200"])
def test_other_formats_name_every_component(
    output: str, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    result = run("show", "gpt-oss-120b", "--format", output)
    assert result.exit_code == 0
    for words in ("routed experts", "router", "norms", "head", "KV bytes a token"):
        assert words in result.stdout


def test_list_holds_every_model_in_every_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = {row["name"]: row for row in json.loads(run("list", "--format", "json").stdout)}
    assert {name: row["total_params"] for name, row in shown.items()} == {
        name: want["total"] for name, want in EXPECTED.items()
    }
    for output in ("table", "csv", "markdown"):
        text = run("list", "--format", output).stdout
        assert all(name in text for name in EXPECTED)
