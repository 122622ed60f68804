"""`archinfer predict`: against the cost model, closed forms and real runs of the command."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archinfer import catalogue
from archinfer import predict as named
from archinfer.cli import main as cli
from archinfer.forward.depths import plausible_layers, predict_depths
from archinfer.forward.predict import even_mapping, predict
from archinfer.hardware.profile import Hardware
from archinfer.models.solver_family import FamilyRules, family_shape
from archinfer.physics.decode import decode_time
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import fewest_nodes, memory_fraction
from archinfer.physics.speed import speed_range
from archinfer.physics.terms import TERMS
from archinfer.physics.workload import Traffic, Workload
from tests.cli import call

WAFER = Hardware.load("wse-3")
GPU = Hardware.load("b200")

ROWS = [
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "gpt-oss-120b",
    "glm-5",
    "minimax-m2.5",
    "hy3",
    "kimi-k2",
    "deepseek-v3",
]


def results(*arguments: str, stdin: str = "") -> list[dict[str, Any]]:
    done = call("predict", *arguments, "--format", "json", stdin=stdin)
    assert done.code == 0, done.err
    found = json.loads(done.out)["results"]
    assert isinstance(found, list)
    return found


# The prediction against the cost model


@pytest.mark.parametrize("hardware", [WAFER, GPU], ids=["spatial", "temporal"])
@pytest.mark.parametrize("name", ["llama-3.1-70b", "deepseek-v3", "gpt-oss-120b"])
def test_is_the_cost_model_at_the_fastest_mapping(name: str, hardware: Hardware) -> None:
    model = catalogue.load(name)
    nodes = 24
    found = predict(model, hardware, Deployment(nodes=nodes, accepted_high=3.0))
    shape = model.shape(model.weight_format)
    bits = model.component_bits()
    own = found.weight_bits
    traffic = Traffic(8000, 1, own, bits["embedding"], 16.0)
    stored = Workload(shape, Traffic(8000, 1, own, bits["embedding"], 16.0)).memory
    best = np.inf
    groups = [1] if hardware.spatial else [1, 2, 3, 4, 6, 8, 12, 16]
    for group in groups:
        if model.uneven_heads(3) and group % 3 == 0:
            continue
        for held in range(1, model.layers + 1):
            mapping = Placement(float(held), float(group))
            if mapping.nodes(model.layers) > nodes:
                continue
            if memory_fraction(hardware, stored, mapping) > 1.0:
                continue
            time = decode_time(hardware, Workload(shape, traffic), mapping)
            best = min(best, float(time.total))
    assert found.fits
    assert float(found.time.total) == pytest.approx(best, rel=1e-12)
    at = decode_time(hardware, Workload(shape, traffic), found.mapping)
    assert found.speed == pytest.approx(speed_range(hardware, at, 1.0, 3.0), rel=1e-12)
    assert found.plain_speed[1] == pytest.approx(1.0 / float(at.total), rel=1e-12)


@pytest.mark.parametrize("hardware", [WAFER, GPU], ids=["spatial", "temporal"])
@pytest.mark.parametrize("name", ROWS)
def test_fewest_nodes_hold_it_and_one_less_do_not(name: str, hardware: Hardware) -> None:
    model = catalogue.load(name)
    least = int(predict(model, hardware, changes=False).min_nodes)
    there = predict(model, hardware, Deployment(nodes=least), changes=False)
    assert there.fits and there.memory_fraction <= 1.0
    if least > 1:
        less = predict(model, hardware, Deployment(nodes=least - 1), changes=False)
        assert not less.fits
        assert less.memory_fraction > 1.0
        assert less.bottleneck == "capacity"
        assert np.isnan(less.speed[1])


def test_fewest_nodes_by_hand() -> None:
    # Llama 3.1 70B in 16 bits: 141.1 GB of weights and 2.6 GB of KV cache; a wafer has 40 GB.
    # 80 layers on 4 wafers are 20 each, a quarter of it: 35.9 GB. On 3 they are 27: 48.5 GB.
    found = predict(catalogue.load("llama-3.1-70b"), WAFER, changes=False)
    assert found.min_nodes == 4
    assert found.memory.weights == 2.0 * 70_553_706_496
    assert found.memory.kv == 8000 * 2 * 80 * 8 * 128 * 2
    assert found.mapping == Placement(20.0, 1.0)


def test_weights_in_the_models_own_format() -> None:
    found = predict(catalogue.load("gpt-oss-120b"), WAFER, changes=False)
    model = catalogue.load("gpt-oss-120b")
    assert found.weights == "mxfp4"
    assert found.memory.weights == pytest.approx(model.weight_bytes(), rel=1e-12)
    # `total_size` of the released tensors.
    assert found.memory.weights == pytest.approx(65_248_815_744, rel=1e-12)


def test_another_format_leaves_embedding_head_and_norms_at_16_bits() -> None:
    model = catalogue.load("llama-3.1-8b")
    found = predict(model, WAFER, Deployment(weights="fp8"), changes=False)
    kept = 2 * 128_256 * 4096 + 65 * 4096
    assert found.memory.weights == 8_030_261_248 + kept


@pytest.mark.parametrize("hardware", ["wse-3", "b200", "h100-sxm"])
@pytest.mark.parametrize("name", ROWS)
def test_open_models_are_never_faster_than_reading_them(name: str, hardware: str) -> None:
    found = predict(catalogue.load(name), Hardware.load(hardware), changes=False)
    # No component has fewer bits than the format; the embedding is a look-up.
    read = (found.shape.active_params - found.shape.lookup_params) * found.weight_bits / 8.0
    bandwidth = found.hardware.bandwidth_bytes_per_s * found.mapping.tensor_parallel
    assert found.time.total >= read / bandwidth


@settings(max_examples=60, deadline=None)
@given(
    total=st.floats(1e9, 5e12),
    sparsity=st.floats(1.0, 30.0),
    layers=st.integers(8, 160),
    weights=st.sampled_from(["bf16", "fp8", "nvfp4"]),
    context=st.integers(1, 200_000),
    users=st.integers(1, 64),
    hardware=st.sampled_from([WAFER, GPU]),
)
def test_never_faster_than_reading_the_active_weights(
    total: float,
    sparsity: float,
    layers: int,
    weights: str,
    context: int,
    users: int,
    hardware: Hardware,
) -> None:
    shape = family_shape(total, total / sparsity, float(layers), FamilyRules())
    asked = Deployment(context_tokens=context, concurrency=users, weights=weights)
    found = predict(shape, hardware, asked, changes=False)
    # The embedding is a look-up; everything else active is read once a pass.
    read_bytes = (shape.active_params - shape.lookup_params) * found.weight_bits / 8.0
    # A token is on one node of a wafer pipeline at a time, on the whole group of a GPU one.
    bandwidth = hardware.bandwidth_bytes_per_s * found.mapping.tensor_parallel
    assert found.time.total >= read_bytes / bandwidth
    assert found.time.total == pytest.approx(sum(float(getattr(found.time, t)) for t in TERMS))
    assert found.time.total == pytest.approx(
        float(
            decode_time(
                hardware,
                Workload(
                    shape,
                    Traffic(
                        context,
                        users,
                        found.weight_bits,
                        found.workload.traffic.outside_bits,
                        16.0,
                        prompt_tokens=asked.prompt,
                    ),
                ),
                found.mapping,
            ).total
        )
    )
    fits = found.min_nodes < np.inf
    assert found.fits == fits
    if fits:
        low, middle, high = found.speed
        assert 0.0 < low < middle < high
    else:
        assert found.bottleneck in ("capacity", "kv cache")


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(ROWS),
    contexts=st.tuples(st.integers(1, 128_000), st.integers(1, 128_000)),
    hardware=st.sampled_from([WAFER, GPU]),
)
def test_longer_context_is_never_faster_nor_smaller(
    name: str, contexts: tuple[int, int], hardware: Hardware
) -> None:
    short, long = sorted(contexts)
    model = catalogue.load(name)
    before, after = (
        predict(model, hardware, Deployment(nodes=60, context_tokens=c), changes=False)
        for c in (short, long)
    )
    assert after.memory.total >= before.memory.total
    assert after.min_nodes >= before.min_nodes
    assert before.fits or not after.fits
    if after.fits:
        # 1e-8: the side of a region is at its optimum to that much only.
        assert float(after.time.total) >= float(before.time.total) * (1.0 - 1e-8)


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(ROWS), nodes=st.integers(1, 100))
def test_more_nodes_are_never_slower(name: str, nodes: int) -> None:
    model = catalogue.load(name)
    few, more = (
        predict(model, WAFER, Deployment(nodes=n), changes=False) for n in (nodes, nodes + 1)
    )
    assert more.fits or not few.fits
    if few.fits:
        assert more.time.total <= few.time.total


def test_a_forced_mapping_is_used() -> None:
    model = catalogue.load("llama-3.1-70b")
    forced = Placement(10.0)
    found = predict(model, WAFER, Deployment(nodes=8, mapping=forced), changes=False)
    assert found.fits and found.mapping == forced and found.nodes_used == 8
    short = predict(model, WAFER, Deployment(nodes=7, mapping=forced), changes=False)
    assert not short.fits
    assert short.bottleneck == "nodes"
    assert "takes 8 wafers" in short.limit


def test_kv_cache_alone_is_named() -> None:
    found = predict(
        catalogue.load("llama-3.1-70b"), WAFER, Deployment(nodes=4, concurrency=1000), changes=False
    )
    assert not found.fits
    assert found.bottleneck == "kv cache"
    kv_and_buffers = (found.memory.kv + found.memory.other) / 4 / WAFER.usable_bytes
    assert found.taken_of_limit == pytest.approx(float(kv_and_buffers))
    assert found.limit.startswith("KV cache and buffers alone take")


# What would help


def test_each_change_is_a_prediction_of_its_own() -> None:
    model = catalogue.load("kimi-k2")
    found = predict(model, WAFER, Deployment(nodes=40))
    changes = {c.name: c for c in found.changes}
    base = 1.0 / found.time.total

    def speed(hardware: Hardware = WAFER, **asked: Any) -> float:
        then = predict(model, hardware, Deployment(nodes=40).with_(**asked), changes=False)
        return float(1.0 / then.time.total)

    faster = replace(WAFER, link_latency_s=0.5 * float(WAFER.link_latency_s))
    clocked = replace(WAFER, clock_hz=1.1 * float(WAFER.clock_hz))
    expected = {
        "link latency": speed(faster),
        "clock": speed(clocked),
        "nvfp4": speed(weights="nvfp4"),
        "context": speed(context_tokens=4000),
        "kv": speed(kv="fp8"),
        "speculation": 2.0 * speed(draft_tokens=2),
    }
    for name, value in expected.items():
        assert changes[name].tokens_per_s == pytest.approx(value, rel=1e-9), name
        assert changes[name].gain == pytest.approx(value / base - 1.0, rel=1e-6, abs=1e-9)
    gains = [c.gain for c in found.changes if c.fits]
    assert gains == sorted(gains, reverse=True)
    # Two layers a wafer are the fastest: with 80 wafers there is nothing to gain from more.
    assert found.nodes_used == 31
    assert "nodes" not in changes
    assert speed(nodes=80) == pytest.approx(base, rel=1e-12)


def test_more_nodes_among_the_changes() -> None:
    model = catalogue.load("llama-3.1-70b")
    found = predict(model, WAFER)
    for nodes, held in ((5, 16), (8, 10)):
        (change,) = [c for c in found.changes if c.nodes == nodes]
        assert change.text == f"{nodes} wafers ({held} layers each)"
        then = predict(model, WAFER, Deployment(nodes=nodes), changes=False)
        assert change.tokens_per_s == pytest.approx(1.0 / float(then.time.total), rel=1e-12)


def test_changes_of_a_model_that_does_not_fit_say_what_makes_it_fit() -> None:
    found = predict(catalogue.load("llama-3.1-405b"), WAFER, Deployment(nodes=12))
    assert not found.fits
    ok = [c for c in found.changes if c.fits]
    assert found.changes[: len(ok)] == tuple(ok)
    assert {"nodes", "fp8"} <= {c.name for c in ok} | {"fp8"}
    assert any(c.nodes == 21 for c in ok)
    assert all(np.isnan(c.gain) for c in found.changes)


# Arrays


@pytest.mark.parametrize("hardware", [WAFER, GPU], ids=["spatial", "temporal"])
@pytest.mark.parametrize("nodes", [None, 64])
def test_arrays_equal_one_by_one(hardware: Hardware, nodes: int | None) -> None:
    rng = np.random.default_rng(5)
    layers = rng.integers(10, 130, 200).astype(float)
    total = 10.0 ** rng.uniform(10.0, 12.8, 200)
    active = total / rng.uniform(1.0, 30.0, 200)
    many = predict(
        family_shape(total, active, layers, FamilyRules()),
        hardware,
        Deployment(nodes=nodes, weights="fp8"),
    )
    assert many.speed[1].shape == many.bottleneck.shape == (200,)  # type: ignore[union-attr]
    for i in range(0, 200, 7):
        shape = family_shape(total[i], active[i], layers[i], FamilyRules())
        held = float(np.broadcast_to(many.mapping.layers_per_stage, 200)[i])
        group = float(np.broadcast_to(many.mapping.tensor_parallel, 200)[i])
        one = predict(
            shape,
            hardware,
            Deployment(nodes=nodes, weights="fp8", mapping=Placement(held, group)),
            changes=False,
        )
        assert one.time.total == pytest.approx(many.time.total[i], rel=1e-12)  # type: ignore[index]
        assert one.min_nodes == many.min_nodes[i]  # type: ignore[index]
        assert one.bottleneck == many.bottleneck[i]
        assert one.fits == many.fits[i]
        assert one.speed[1] == pytest.approx(many.speed[1][i], rel=1e-12, nan_ok=True)  # type: ignore[index]


def test_a_million_models_in_one_call() -> None:
    layers = np.resize(np.arange(20.0, 120.0), 1_000_000)
    shape = family_shape(8e9 * layers, 4e8 * layers, layers, FamilyRules())
    found = predict(shape, WAFER, Deployment(nodes=128, mapping=Placement(1.0)))
    assert np.shape(found.time.total) == (1_000_000,)
    # One layer each: the same layers make the same time, wherever they stand.
    assert np.array_equal(found.time.total[:100], found.time.total[-100:])  # type: ignore[index]


def test_even_mapping() -> None:
    layers = np.array([1.0, 80.0, 88.0, 89.0])
    assert np.array_equal(even_mapping(WAFER, layers, 88).layers_per_stage, [1, 1, 1, 2])
    on_gpus = even_mapping(GPU, layers, 24)
    assert np.all(on_gpus.tensor_parallel == 8)
    assert np.array_equal(on_gpus.layers_per_stage, [1, 27, 30, 30])


@settings(max_examples=100, deadline=None)
@given(
    layers=st.integers(1, 130),
    total=st.floats(1e9, 4e12),
    hardware=st.sampled_from([WAFER, GPU]),
    kind=st.sampled_from(["gqa", "mla"]),
    users=st.sampled_from([1, 50]),
)
def test_fewest_nodes_against_counting_up(
    layers: int, total: float, hardware: Hardware, kind: str, users: int
) -> None:
    shape = family_shape(total, total / 8.0, float(layers), FamilyRules(kind))
    stored = Workload(shape, Traffic(8000, users, 8, None, 16)).memory
    least = fewest_nodes(hardware, stored)
    groups = [1.0] if hardware.spatial else [m * 2.0**i for m in (1, 3) for i in range(7)]
    by_hand = [
        int(mapping.nodes(layers))
        for group in groups
        for held in range(1, layers + 1)
        for own in ((False, True) if users > 1 else (False,))
        for mapping in [Placement(float(held), group, None, own)]
        if memory_fraction(hardware, stored, mapping) <= 1.0 and group <= 8 * hardware.scale_up_size
    ]
    assert least == (min(by_hand) if by_hand else None)


# Known by totals only


def test_totals_over_a_range_of_layers() -> None:
    found = predict_depths(
        "x", 1.6e12, 48e9, np.arange(40.0, 91.0), WAFER, Deployment(weights="fp8")
    )
    assert [p.shape.layers for p in found.predictions] == list(range(40, 91))
    assert found.middle.shape.layers == 60.0
    speeds = [float(p.speed[1]) for p in found.predictions]
    assert found.central_speed == (min(speeds), max(speeds))
    assert found.speed[0] == min(float(p.speed[0]) for p in found.predictions)
    assert found.speed[2] == max(float(p.speed[2]) for p in found.predictions)
    assert found.middle.shape.total_params == pytest.approx(1.6e12, rel=1e-12)
    assert found.middle.shape.active_params == pytest.approx(48e9, rel=1e-12)


def test_the_layers_of_open_models_are_plausible() -> None:
    # Kimi K2 has 61, DeepSeek V3 61, GLM-5 78, HY3 80, Llama 3.1 405B 126.
    for name in ("kimi-k2", "deepseek-v3", "glm-5", "hy3", "llama-3.1-405b"):
        model = catalogue.load(name)
        depths = plausible_layers(model.parameters().active, FamilyRules())
        assert model.layers in depths, name


# The command


def test_rows_that_must_work() -> None:
    found = {r["model"]: r for r in results(*ROWS)}
    assert list(found) == ROWS
    for name, row in found.items():
        assert row["fits"] and row["nodes"] == row["min_nodes"] == row["nodes_used"]
        counts = catalogue.load(name).parameters()
        assert row["parameters"] == {"total": counts.total, "active": counts.active}
        speed = row["tokens_per_s"]
        assert 0.0 < speed["p05"] < speed["p50"] < speed["p95"]
    assert found["llama-3.1-70b"]["parameters"]["total"] == 70_553_706_496
    assert found["hy3"]["parameters"]["total"] == 295_033_528_320
    assert any("298.8B with them" in note for note in found["hy3"]["notes"])


def test_the_default_is_the_law_of_the_profile_where_one_is_fitted() -> None:
    (row,) = results("llama-3.1-8b")
    machine = Hardware.load("wse-3")
    assert row["speculation_by_law"] and row["speculation"] == [1.0, machine.accepted_high]
    (row,) = results("llama-3.1-8b", "--speculation", "1:3")
    assert not row["speculation_by_law"] and row["speculation"] == [1.0, 3.0]
    (row,) = results("llama-3.1-8b", "--hardware", "h100-sxm")
    assert not row["speculation_by_law"] and row["speculation"] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ("memory.bandwidth=42 PB/s", True),
        ("memory.bandwidth=400 TB/s", False),
        ("link.latency=2 us", False),
        ("power=20 kW", False),
    ],
)
def test_a_figure_set_by_hand_that_changes_no_speed_is_named(change: str, warned: bool) -> None:
    done = call("predict", "llama-3.3-70b", "--set", change)
    assert done.code == 0
    assert ("no speed changes" in done.err) == warned


def test_json_keys() -> None:
    (row,) = results("llama-3.1-8b")
    assert {"model", "parameters", "nodes", "min_nodes", "tokens_per_s", "time_s"} <= set(row)
    assert {"memory_bytes", "bottleneck", "what_would_help", "fits", "limit"} <= set(row)
    assert set(row["parameters"]) == {"total", "active"}
    assert set(row["tokens_per_s"]) == {"p05", "p50", "p95"}
    assert set(row["time_s"]) == {*TERMS, "total"}
    assert set(row["memory_bytes"]) == {"weights", "kv", "other", "total"}
    assert row["kv_held_bytes"] >= row["memory_bytes"]["kv"]
    assert sum(row["time_s"][t] for t in TERMS) == pytest.approx(row["time_s"]["total"])
    memory_bytes = row["memory_bytes"]
    parts = memory_bytes["weights"] + memory_bytes["kv"] + memory_bytes["other"]
    assert parts == pytest.approx(memory_bytes["total"])
    assert row["bottleneck"] == max(TERMS, key=lambda t: row["time_s"][t])


def test_longcat_by_its_totals() -> None:
    (row,) = results("--total", "1.6T", "--active", "48B", "--weights", "fp8")
    assert row["parameters"] == {"total": 1_600_000_000_000, "active": 48_000_000_000}
    low, high = row["range"]["layers"]["low"], row["range"]["layers"]["high"]
    assert low < row["layers"] < high
    assert [r["layers"] for r in row["by_layers"]] == list(range(int(low), int(high) + 1))
    (narrow,) = results("--total", "1.6T", "--active", "48B", "--weights", "fp8",
                        "--layers", "60")  # fmt: skip
    assert narrow["layers"] == 60 and "range" not in narrow
    one = next(r for r in row["by_layers"] if r["layers"] == 60)
    assert narrow["tokens_per_s"] == one["tokens_per_s"]
    page = call("predict", "--total", "1.6T", "--active", "48B", "--layers", "40:90")
    assert page.code == 0 and "40 to 90 layers" in page.out


def test_config_by_path_folder_and_standard_input(tmp_path: Path) -> None:
    config = catalogue.entry("deepseek-v3").config
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    (named,) = results("deepseek-v3")
    for found in (
        results(str(file)),
        results(str(tmp_path)),
        results("-", stdin=json.dumps(config)),
    ):
        assert found[0]["tokens_per_s"] == named["tokens_per_s"]
        assert found[0]["time_s"] == named["time_s"]
        assert found[0]["parameters"] == named["parameters"]


def test_too_few_nodes_is_an_answer() -> None:
    (row,) = results("llama-3.1-405b", "--nodes", "5")
    assert not row["fits"]
    assert row["min_nodes"] == 21 and row["nodes"] == 5
    assert row["tokens_per_s"] == {"p05": None, "p50": None, "p95": None}
    assert row["time_s"]["total"] is None
    assert row["bottleneck"] == "capacity"
    assert row["memory_fraction"] > 1.0
    page = call("predict", "llama-3.1-405b", "--nodes", "5")
    assert page.code == 0
    text = " ".join(page.out.split())
    assert re.search(r"Does not fit: weights, KV cache and buffers take 4\.(19|20)\d? times", text)
    assert "at least 21 wafers hold it" in text


def test_options_reach_the_prediction() -> None:
    (plain,) = results("hy3", "--nodes", "40")
    (row,) = results(
        "hy3", "--nodes", "40", "--weights", "fp8", "--context", "128k", "--concurrency", "4",
        "--kv", "fp8", "--speculation", "2", "--set", "link.latency=0 s",
    )  # fmt: skip
    asked = Deployment(40, 128_000, 4, "fp8", "fp8", 0, 2.0, 2.0)
    hardware = WAFER.with_value("link.latency", "0 s")
    expected = predict(catalogue.load("hy3"), hardware, asked).to_dict()
    assert row["tokens_per_s"] == pytest.approx(expected["tokens_per_s"])
    assert row["memory_bytes"] == expected["memory_bytes"]
    assert row["weights"] == "fp8" != plain["weights"]
    assert row["time_s"]["links"] < plain["time_s"]["links"]


def test_several_formats() -> None:
    names = ["llama-3.1-8b", "kimi-k2"]
    rows = list(csv.DictReader(io.StringIO(call("predict", *names, "--format", "csv").out)))
    assert [r["model"] for r in rows] == names
    assert int(rows[0]["total_params"]) == 8_030_261_248
    markdown = call("predict", *names, "--format", "markdown").out.splitlines()
    assert markdown[2].startswith("| model |") and len(markdown) == 6
    table = call("predict", *names, env={"COLUMNS": "120"}).out
    assert all(name in table for name in names)


@pytest.mark.parametrize("width", ["40", "100"])
def test_pages_fit_the_terminal(width: str) -> None:
    for arguments in (["hy3", "--explain"], ["hy3", "llama-3.1-8b"]):
        done = call("predict", *arguments, env={"COLUMNS": width, "NO_COLOR": "1"})
        assert done.code == 0, done.err
        assert "\x1b" not in done.out
        assert max(len(line) for line in done.out.splitlines()) <= int(width)


def test_explain_shows_bars_and_figures() -> None:
    done = call("predict", "hy3", "--explain", env={"COLUMNS": "120"})
    assert "█" in done.out and "fixed_time_per_layer" in done.out
    plain = call("predict", "hy3", "--explain", env={"COLUMNS": "120"}, encoding="ascii")
    assert plain.code == 0 and "####" in plain.out


def test_a_context_beyond_the_models_is_said() -> None:
    done = call("predict", "llama-3.1-8b", "--context", "1M", "--format", "json")
    assert done.code == 0
    assert "131,072" in done.err
    json.loads(done.out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a model"),
        (["lama-3.1-8b"], "llama-3.1-8b"),
        (["nowhere.json"], "no such file"),
        ([str(Path(__file__).parent)], "tests: is a folder without a config.json"),
        (["llama-3.1-8b", "--nodes", "0"], "--nodes"),
        (["llama-3.1-8b", "--nodes", "1.5"], "--nodes"),
        (["llama-3.1-8b", "--nodes", "many"], "--nodes"),
        (["llama-3.1-8b", "--weights", "fp9"], "fp9"),
        (["llama-3.1-8b", "--kv", "fp9"], "fp9"),
        (["llama-3.1-8b", "--context", "-4"], "--context"),
        (["llama-3.1-8b", "--concurrency", "0"], "--concurrency"),
        (["llama-3.1-8b", "--speculation", "0"], "--speculation"),
        (["llama-3.1-8b", "--speculation", "0.5"], "--speculation: expected accepted tokens"),
        (["llama-3.1-8b", "--speculation", "0.1:100"], "to 17 (16 drafts and the pass's own)"),
        (["llama-3.1-8b", "--speculation", "3", "--draft-tokens", "1"], "to 2 (1 draft and"),
        (["llama-3.1-8b", "--hardware", "wse-4"], "wse-3"),
        (["llama-3.1-8b", "--set", "clock"], "KEY=VALUE"),
        (["llama-3.1-8b", "--total", "8B"], "not both"),
        (["llama-3.1-8b", "--tensor-parallel", "2"], "--layers-per-node"),
        (["llama-3.1-8b", "--layers-per-node", "4", "--tensor-parallel", "2"], "wafer"),
        (["-", "-"], "standard input"),
        (["--active", "8B"], "--total"),
        (["--total", "8B", "--active", "9B"], "--active"),
        (["--total", "0"], "--total: expected more than 0, found '0'"),
        (["a" * 5000], "aaa...' (archinfer models list has all"),
        (["a" * 5000 + ".json"], "...aaa"),
        ([""], "expected the name of a model or a config.json, found ''"),
        (["gpt-oss"], "did you mean 'gpt-oss-120b' or 'gpt-oss-20b'?"),
        (["llama-3.1-8b", "--nodes", "many"], "is not a whole number; expected for example '8'"),
        (["llama-3.1-8b", "--draft-tokens", "x"], "is not a whole number; expected for example"),
        (["llama-3.1-8b", "--speculation", "x"], "accepted tokens a pass; expected for example"),
        (["llama-3.1-8b", "--speculation", ""], "--speculation: ''"),
        (["llama-3.1-8b", "--mapping", "tp"], "error: --mapping: "),
        (["llama-3.1-8b", "--context", "1e30"], "between 1 and 1,000,000,000,000,000"),
        (
            ["llama-3.1-8b", "--set", "model_error=1", "--set", "constants.model_error=2"],
            "--set: model_error is set twice, to '1' and to '2'",
        ),
        (["--total", "8B", "--layers", "0"], "--layers"),
        (["--total", "1B", "--active", "1k"], "--active: no habit of design"),
        (["--total", "1"], "--total: no habit of design"),
        (["--total", "8B", "--attention", "mlq"], "mla"),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["archinfer", "predict", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert printed.out == ""
    assert len(printed.err.strip().splitlines()) == 1
    assert len(printed.err) < 600
    assert words in printed.err


@pytest.mark.parametrize("text", ["", "[]", '{"model_type": "llama"}'])
def test_broken_config_on_standard_input(text: str) -> None:
    done = call("predict", "-", stdin=text)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1
    assert "standard input" in done.err


@pytest.mark.parametrize(("machine", "layout"), [("h100-sxm", "tp=4"), ("b200", "tp=8,pp=2")])
def test_advice_keeps_a_mapping_that_was_asked_for(machine: str, layout: str) -> None:
    found = named("kimi-k2", machine, mapping=layout)
    (half,) = (c for c in found.changes if c.name == "context")
    asked = {"mapping": layout, "nodes": int(found.nodes), "context": 4000, "changes": False}
    again = named("kimi-k2", machine, **asked)
    assert half.fits == again.fits
    if again.fits:
        assert half.tokens_per_s == pytest.approx(1.0 / float(again.time.total))


@pytest.mark.parametrize(
    ("machine", "formats"),
    [("amd-epyc-9754", {"int8", "int4"}), ("a100-80gb", {"int8", "int4"}),
     ("h100-sxm", {"fp8", "int4"}), ("b200", {"fp8", "nvfp4"})],
)  # fmt: skip
def test_advice_names_formats_that_the_machine_computes_or_widens(
    machine: str, formats: set[str]
) -> None:
    found = named("llama-3.1-8b", machine)
    assert {c.name for c in found.changes} & {"fp8", "int8", "int4", "nvfp4"} == formats
    (cache,) = (c.text for c in found.changes if c.name == "kv")
    assert cache.split()[0] in formats


@pytest.mark.parametrize(("drafts", "accepted"), [(2, 2.58), (3, 2.82), (5, 3.01)])
def test_a_number_of_drafts_gains_what_the_law_says(drafts: int, accepted: float) -> None:
    """Accepted tokens a pass of DeepSeek-R1 on eight B200, as TensorRT-LLM published them."""
    served = named("deepseek-r1", "b200", nodes=8, draft_tokens=drafts).deployment
    assert 1.0 < served.accepted_low <= accepted <= served.accepted_high < 1 + drafts
