"""`archinfer compare`, the speed ceiling, and profiles of users through every command."""

import csv
import io
import json
import math
from pathlib import Path

import pytest

from archinfer import solve
from archinfer.forward.compare import compare_hardware, speed_ceiling
from archinfer.forward.predict import predict
from archinfer.hardware.profile import Hardware
from archinfer.models.catalogue import load
from archinfer.physics.deployment import Deployment
from archinfer.report.warned import beyond
from archinfer.solver.question import nodes_unknown
from archinfer.words import compact
from tests.cli import run

pytestmark = pytest.mark.usefixtures("few_draws")

LLAMA = load("llama-3.1-70b")
PLAIN = Deployment(accepted_low=1.0, accepted_high=1.0)


@pytest.mark.parametrize("name", ["a100-80gb", "b200", "wse-3"])
def test_the_ceiling_is_the_best_of_all_node_counts(name: str) -> None:
    hardware = Hardware.load(name)
    ceiling = speed_ceiling(predict(LLAMA, hardware, PLAIN, changes=False))
    assert ceiling is not None
    counts = [*range(1, 40), 64, 80, 128, 160, 640]
    found = {n: predict(LLAMA, hardware, PLAIN.with_(nodes=n), changes=False) for n in counts}
    speeds = {n: float(p.speed[1]) for n, p in found.items() if p.fits}
    assert max(speeds.values()) == pytest.approx(ceiling.tokens_per_s[1])
    assert (
        min(n for n, v in speeds.items() if v >= 0.999999 * max(speeds.values())) == ceiling.nodes
    )
    parts = {t: float(getattr(ceiling.time, t)) for t in ("weights", "reductions", "fixed")}
    assert ceiling.bottleneck in parts
    assert 0.0 < ceiling.latency_share < 1.0


def test_entries_say_what_the_nodes_are() -> None:
    machines = [Hardware.load(n) for n in ("b200", "tpu-v5p", "groq-lpu-v1")]
    entries = compare_hardware([("70B", LLAMA)], machines, [PLAIN] * 3)
    b200, tpu, lpu = (e.to_dict() for e in entries)
    assert b200["nodes"] == b200["min_nodes"] == 1
    assert b200["power_w"] == 1788.0
    assert tpu["power_w"] is None
    # One GPU reads 2 bytes of each parameter, the KV cache of 8,000 tokens and no embedding row
    # to speak of, with all of its bandwidth.
    read = 2 * (70.55e9 - 128256 * 8192) + 8000 * 80 * 2 * 8 * 128 * 2
    assert b200["bandwidth_tokens_per_s"] == pytest.approx(8e12 / read, rel=1e-3)
    assert lpu["min_nodes"] > 600
    for entry in (b200, tpu, lpu):
        assert entry["tokens_per_s"]["p50"] < entry["bandwidth_tokens_per_s"]
        assert entry["tokens_per_s"]["p50"] <= entry["ceiling"]["tokens_per_s"]["p50"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "group"), [("dgx-spark", 8), ("rtx-5090", 8), ("l40s", 8), ("h100-sxm", 8)]
)
def test_pipelines_only_across_servers(name: str, group: int) -> None:
    found = predict(load("deepseek-v3"), Hardware.load(name), PLAIN, changes=False)
    assert found.fits and found.nodes % group == 0
    assert found.mapping.tensor_parallel == group
    small = predict(load("llama-3.1-8b"), Hardware.load(name), PLAIN, changes=False)
    assert small.nodes == small.mapping.tensor_parallel == 1
    remarks = [text for text in beyond(found) if "no one sells" in text]
    assert bool(remarks) == (name == "rtx-5090")


def test_a_model_too_large_for_any_number_of_nodes() -> None:
    tiny = Hardware.load("groq-lpu-v1").with_value("memory.capacity", "1 MB")
    entry = compare_hardware([("k2", load("kimi-k2"))], [tiny], [PLAIN])[0]
    assert not entry.prediction.fits
    assert entry.ceiling is None
    assert entry.to_dict()["ceiling"] is None


def test_json_csv_markdown_and_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "llama-3.1-8b", "gpt-oss-120b", "--hardware", "b200,tpu-v5p,wse-3"]
    document = json.loads(run(capsys, *words, "--format", "json").out)
    results = document["results"]
    assert [r["speculation_by_law"] for r in results[:3]] == [True, False, True]
    assert results[1]["speculation"] == [1.0, 1.0] and results[1]["software"] == []
    assert "tilert" in results[0]["software"]
    assert [r["hardware"] for r in results] == ["b200", "tpu-v5p", "wse-3"] * 2
    assert {r["model"] for r in results[:3]} == {"llama-3.1-8b"}
    assert results[1]["power_w"] is None
    rows = list(csv.DictReader(io.StringIO(run(capsys, *words, "--format", "csv").out)))
    assert len(rows) == 6
    assert float(rows[0]["tokens_per_s_p50"]) == results[0]["tokens_per_s"]["p50"]
    assert rows[1]["power_w"] == ""
    table = run(capsys, *words, "--format", "markdown").out.splitlines()
    assert len(table) == 8
    text = run(capsys, *words)
    assert text.code == 0
    assert "tpu-v5p" in text.out
    assert text.err == ""


def test_software_and_overlapping_intervals_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """WSE-2 and WSE-3 are fitted to software of different kinds, and their order is not known."""
    words = ["compare", "llama-3.1-8b", "--hardware", "wse-2,wse-3,b200"]
    results = json.loads(run(capsys, *words, "--format", "json").out)["results"]
    assert [r["overlaps"] for r in results] == [["wse-3"], ["wse-2"], []]
    ends = [(r["tokens_per_s"]["p05"], r["tokens_per_s"]["p95"]) for r in results]
    assert ends[0][0] < ends[1][1] and ends[1][0] < ends[0][1] and ends[2][1] < ends[1][0]
    assert "WaferLLM" in results[0]["usual_software"]
    text = " ".join(run(capsys, *words).out.split())
    assert "which is faster is not known: wse-2 and wse-3." in text
    assert "WaferLLM" in text and "Cerebras' own service" in text
    assert "(fitted law)" in text and "Several copies" not in text
    users = " ".join(run(capsys, *words, "--users", "4", "--speculation", "1").out.split())
    assert "Several copies, each with some of the users, can be faster" in users
    assert "(fitted law)" not in users
    alone = " ".join(run(capsys, "compare", "llama-3.1-8b", "--hardware", "wse-2").out.split())
    assert "is not known" not in alone
    # What does not fit has no interval.
    few = ["compare", "kimi-k2", "--hardware", "wse-2,wse-3", "--nodes", "1", "--format", "json"]
    assert [r["overlaps"] for r in json.loads(run(capsys, *few).out)["results"]] == [[], []]
    many = " ".join(run(capsys, "compare", "llama-3.1-8b").out.split())
    assert "Where two intervals overlap, which of the two is faster is not known." in many


def test_a_model_known_by_its_totals(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--total", "3T", "--active", "150B", "--layers", "88", "--weights", "fp8",
             "--hardware", "b200,wse-3", "--nodes", "72,88", "--format", "json"]  # fmt: skip
    b200, wse3 = json.loads(run(capsys, *words).out)["results"]
    assert wse3["nodes"] == 88
    # No number of B200 reaches the founding speed without drafts; it is latency that stops them.
    assert b200["ceiling"]["tokens_per_s"]["p95"] < 750
    assert b200["ceiling"]["bottleneck"] == "fixed"
    assert wse3["tokens_per_s"]["p50"] > 3 * b200["ceiling"]["tokens_per_s"]["p50"]


@pytest.mark.parametrize(
    "words",
    [
        ["compare"],
        ["compare", "llama-3.1-8b", "--hardware", "b200,h2000"],
        ["compare", "llama-3.1-8b", "--hardware", "b200,wse-3", "--nodes", "1,2,3"],
        ["compare", "llama-3.1-8b", "--hardware", "wse-3", "--mapping", "tp=8"],
        ["compare", "llama-3.1-8b", "--total", "3T"],
        ["compare", "--total", "3T", "--active", "4T", "--layers", "88"],
        ["compare", "--total", "3T", "--active", "150B"],
        ["compare", "llama-3.1-8b", "--nodes", "0"],
        ["compare", "llama-3.1-8b", "--speculation", "0"],
        ["solve", "--hardware", "b200", "--nodes", "8", "--mapping", "tp=8,pp=2"],
        ["predict", "llama-3.1-8b", "--hardware", "b200", "--mapping", "tp=8", "--layers-per-node",
         "4"],
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    done = run(capsys, *words)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words", [["predict", "llama-3.1-8b"], ["solve"], ["fit"], ["validate"]], ids=lambda w: w[0]
)
def test_several_profiles_lead_to_compare(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    done = run(capsys, *words, "--hardware", "b200,h100-sxm")
    assert (done.code, done.out) == (2, "")
    assert "archinfer compare MODEL --hardware b200,h100-sxm" in done.err
    assert len(done.err.strip().splitlines()) == 1


COMMON = """\
schema_version: 1
name: {name}
title: made up
node: {node}
execution: {execution}
memory:
  capacity: {{value: {capacity}, source: made up}}
  usable_fraction: {{value: 90 %, source: made up}}
  bandwidth: {{value: {bandwidth}, source: made up}}
  read_fraction: {{value: 100 %, source: made up}}
link:
  bandwidth: {{value: 50 GB/s, source: made up}}
  latency: {{value: 3 us, log_sd: 0.3, source: made up}}
"""

TEMPORAL = (
    COMMON.format(
        name="abacus", node="card", execution="temporal", capacity="64 GB", bandwidth="3 TB/s"
    )
    + """\
compute:
  peak:
    bf16: {value: 400 TFLOP/s, source: made up}
scale_up:
  size: {value: 16, source: made up}
  sync_latency: {value: {1: 0 s, 16: 4 us}, source: made up}
constants:
  reductions_per_layer: {value: 2, log_sd: 0.3, source: made up}
  fixed_time_per_layer: {value: 8 us, log_sd: 0.4, source: made up}
  bandwidth_efficiency: {value: 80 %, log_sd: 0.1, source: made up}
  compute_efficiency: {value: 70 %, log_sd: 0.1, source: made up}
  model_error: {value: 0.2, source: made up}
  accepted_tokens_per_pass: {low: 1, high: 2, source: made up}
"""
)

SPATIAL = (
    COMMON.format(
        name="quilt", node="tile", execution="spatial", capacity="30 GB", bandwidth="10 PB/s"
    )
    + """\
compute:
  cores: {value: 500000, source: made up}
  clock: {value: 1 GHz, log_sd: 0.1, source: made up}
  peak:
    bf16: {value: 8 PFLOP/s, source: made up}
fabric:
  hop_cycles: {value: 1, source: made up}
  step_cycles: {value: 5, source: made up}
constants:
  reductions_per_layer: {value: 10, log_sd: 0.05, source: made up}
  cycles_per_weight: {value: 1, log_sd: 0.3, source: made up}
  fixed_time_per_layer: {value: 5 us, log_sd: 0.3, source: made up}
  bandwidth_efficiency: {value: 100 %, source: made up}
  compute_efficiency: {value: 100 %, source: made up}
  model_error: {value: 0.2, source: made up}
  accepted_tokens_per_pass: {low: 1, high: 2, source: made up}
"""
)

ROWS = """\
- id: one
  model: Llama 3.1 8B
  architecture: llama-3.1-8b
  profile: {name}
  nodes: {nodes}
  batch: 1
  tokens_per_s: 600
  speculative: false
  weight_bits: 16
- id: two
  model: Llama 3.1 70B
  architecture: llama-3.1-70b
  profile: {name}
  nodes: {more}
  batch: 1
  tokens_per_s: 180
  speculative: false
  weight_bits: 16
"""

CHECKS = """\
schema_version: 1
checks:
  - name: the profile is valid
    lint: {path}
  - name: it holds and answers
    model: llama-3.1-8b
    hardware: {path}
    nodes: 8
    expect:
      feasible: true
      tokens_per_s: {{at_least: 100}}
"""


@pytest.mark.parametrize(
    ("text", "name", "nodes"), [(TEMPORAL, "abacus", (4, 16)), (SPATIAL, "quilt", (1, 6))]
)
def test_made_up_hardware_through_every_command(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    text: str,
    name: str,
    nodes: tuple[int, int],
) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    on = ["--hardware", str(path)]
    rows = tmp_path / "rows.yaml"
    rows.write_text(ROWS.format(name=name, nodes=nodes[0], more=nodes[1]), encoding="utf-8")
    checks = tmp_path / "checks.yaml"
    checks.write_text(CHECKS.format(path=path), encoding="utf-8")
    fitted = tmp_path / "fitted.yaml"
    commands = [
        ["hardware", "show", str(path)],
        ["hardware", "lint", str(path)],
        ["check", str(checks)],
        ["validate", *on, "--observations", str(rows), "--no-inverse", "--floor", "0"],
        ["validate", *on, "--test", str(rows), "--no-inverse", "--floor", "0"],
        ["predict", "llama-3.1-70b", "gpt-oss-120b", *on],
        ["predict", "llama-3.1-70b", *on, "--nodes", str(nodes[1]), "--explain"],
        ["predict", "--total", "400B", "--active", "20B", *on],
        ["compare", "llama-3.1-70b", "--hardware", f"{path},b200,wse-3"],
        ["solve", *on, "--nodes", "16", "--tokens-per-second", "200", "--explain"],
        ["solve", *on, "--nodes", "1:4", "--observed", "300"],
        ["fit", *on, "--observations", str(rows), "--save", str(fitted)],
        ["predict", "llama-3.1-8b", "--hardware", str(fitted)],
        ["hardware", "lint", str(fitted)],
        ["compare", "kimi-k2", "llama-3.1-8b", "--hardware", f"{path},{fitted}", "--nodes", "64"],
        ["solve", "--hardware", str(fitted), "--nodes", "4", "--observed", "300"],
        ["solve", *on, "--nodes", "4", "--report", str(tmp_path / "a.html")],
        ["predict", "llama-3.1-8b", *on, "--report", str(tmp_path / "a.html")],
        ["solve", *on, "--nodes", "16", "--emit", str(tmp_path / "emitted")],
        ["predict", "llama-3.1-8b", *on, "--set", "memory.bandwidth=1 PB/s"],
    ]
    for words in commands:
        done = run(capsys, *words)
        assert done.code == 0, (words, done.err)
        assert done.out.strip(), words
    document = json.loads(run(capsys, "predict", "llama-3.1-70b", *on, "--format", "json").out)
    assert document["results"][0]["fits"]
    emitted = sorted((tmp_path / "emitted").iterdir())
    assert emitted and run(capsys, "predict", str(emitted[0] / "config.json"), *on).code == 0
    shown = json.loads(run(capsys, "hardware", "show", str(path), "--format", "json").out)
    assert (shown["usual_software"], shown["software"]) == (None, [])
    compared = run(capsys, "compare", "llama-3.1-70b", *on, "--format", "json").out
    assert json.loads(compared)["results"][0]["power_w"] is None


def test_a_target_on_gpus_says_with_what(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["solve", "--hardware", "b200", "--tokens-per-second", "750"]
    text = " ".join(run(capsys, *words).out.split())
    assert "With tilert in place of serving engines" in text
    document = json.loads(run(capsys, *words, "--format", "json").out)
    # Software whose fixed times are within a tenth of the usual ones is no variant of its own.
    assert [v["name"] for v in document["variants"]] == ["no speculation", "tilert"]
    assert all(v["feasible"] for v in document["variants"])
    most = document["variants"][0]["ranges"]["total_params"]["high"]
    assert most < 1e11
    assert f"Without speculation (1 accepted token a pass): up to {compact(most)} total, or" in text
    founding = ["--total", "3T", "--active", "150B", "--layers", "88", "--weights", "fp8"]
    done = run(capsys, *words, *founding, "--nodes", "1:576")
    assert "Nothing is feasible" in done.out
    assert "of its): nothing." in " ".join(done.out.split())
    assert not solve("b200", 8, observed=300, architectures=0).variants


def test_as_many_unknown_nodes_as_have_the_memory_of_88_wafers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # 88 wafers have 3.872 TB; a chip has 207 MB of use.
    assert nodes_unknown(Hardware.load("groq-lpu-v1")) == (1, math.ceil(3.872e12 / 0.207e9))
    assert nodes_unknown(Hardware.load("b200")) == nodes_unknown(Hardware.load("wse-3")) == (1, 128)
    lpu = json.loads(run(capsys, "solve", "--hardware", "groq-lpu-v1", "--format", "json").out)
    assert lpu["question"]["nodes"] == [1, 18_706] and not lpu["question"]["nodes_known"]
    assert any("1 to 18,706 were tried" in note for note in lpu["notes"])
