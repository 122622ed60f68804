"""Calibration on timings that nobody measured: nothing here depends on the speed of a machine."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archinfer.api.solving import question
from archinfer.calibration import blind, prefill
from archinfer.calibration import calibrate as calibration
from archinfer.calibration import measure as calibration_run
from archinfer.calibration.bench import Bench, low, opened
from archinfer.calibration.blind import BlindTest
from archinfer.calibration.calibrate import (
    Calibration,
    calibrate,
    counted_chain,
    evenness,
    measure_bandwidth,
    phases,
)
from archinfer.calibration.design import (
    ROOM_TOKENS,
    Point,
    bandwidth_config,
    model_bytes,
    plan,
    point_bytes,
)
from archinfer.calibration.fit import CONSTANTS, SMALL, fit_machine, pass_time, predictions
from archinfer.calibration.host import Ceilings, Host, profile_data, profile_hardware, profile_text
from archinfer.calibration.measure import Settings, enough
from archinfer.calibration.moe import Counters, Decoder, MoEConfig, Weights
from archinfer.calibration.moe.decoder import PASS_TOKENS
from archinfer.calibration.prefill import prompt_flops
from archinfer.calibration.threads import blas_threads
from archinfer.calibration.transfer import apply, read_calibration
from archinfer.cli.progress import progress
from archinfer.errors import FileError, InputError, MeasurementError
from archinfer.hardware.figures import KEYS
from archinfer.hardware.profile import Hardware
from archinfer.hardware.reading import read_profile
from archinfer.physics.decode import decode_time
from archinfer.physics.mapping import Placement
from archinfer.physics.workload import Traffic, Workload, experts_hit
from archinfer.report.calibrate import csv_rows, document
from archinfer.report.markdown import to_markdown
from archinfer.solver.question import Question
from tests.cli import run

pytestmark = pytest.mark.usefixtures("few_draws")

TRUTH = {
    "small_matrix_speed": 0.6,
    "bandwidth_efficiency": 0.82,
    "kv_bandwidth_efficiency": 0.3,
    "compute_efficiency": 0.4,
    "compute_overlap": 0.3,
    "fixed_time_per_layer": 90e-6,
    "fixed_time_per_expert": 22e-6,
    "fixed_time_per_token": 300e-6,
}
HOST = Host(
    "a processor",
    2,
    blas_threads(),
    24e9,
    "2026-01-02",
    "archinfer calibrate",
    Ceilings(20e9, 150e9),
)
MACHINE = profile_hardware(profile_data(HOST)).with_constants(TRUTH)
READ, FLOPS = 20e9, 150e9


class FakeBench(Bench):
    """A machine whose times are those of the cost model, with noise."""

    def __init__(self, noise: float = 0.0, fail: BaseException | None = None) -> None:
        self.noise, self.fail = noise, fail
        self.rng = np.random.default_rng(0)
        self.clock = 0.0
        self.factor: dict[Point, float] = {}
        self.built_bytes: list[float] = []
        self.closed = 0

    def now(self) -> float:
        return self.clock

    def open(self, buffer_bytes: float) -> None:
        self.buffer_bytes = buffer_bytes

    def build(self, points: Sequence[Point], seed: int) -> Iterator[Point]:
        configs = {p.config for p in points}
        self.built_bytes.append(
            sum(map(model_bytes, configs)) + sum(map(point_bytes, points)) + self.buffer_bytes
        )
        for point in points:
            self.factor[point] = float(np.exp(self.noise * self.rng.standard_normal()))
            yield point

    def decode_s(self, point: Point, steps: int) -> list[float]:
        if self.fail is not None:
            raise self.fail
        seconds = float(pass_time(MACHINE, point).total) * self.factor[point]
        self.clock += seconds * steps
        return [seconds] * steps

    def read_bytes_per_s(self, size_bytes: float) -> dict[str, float]:
        self.clock += 0.02
        return {"slow": 0.5 * READ, "fast": READ}

    def matmul_flops_per_s(self) -> float:
        return FLOPS

    def prefill_s(self, config: MoEConfig, tokens: int, seed: int) -> float:
        seconds = prompt_flops(config, tokens) / (0.5 * FLOPS)
        self.clock += seconds
        return seconds

    def product_flops_per_s(self, tokens: int, outputs: int, inputs: int) -> float:
        return (0.5 if tokens == PASS_TOKENS else 0.25) * FLOPS

    def experts_hit(self, config: MoEConfig, batch: int, steps: int, seed: int) -> float:
        return float(experts_hit(0.8 * config.experts, config.experts_per_token, batch))

    def free(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    """The command line measures this instead of the machine."""
    bench = FakeBench(0.01)
    monkeypatch.setattr(calibration, "Bench", lambda: bench)
    monkeypatch.setattr(blind, "Bench", lambda: bench)
    return bench


def times(points: Sequence[Point], noise: float, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [
        float(pass_time(MACHINE, p).total) * float(np.exp(noise * rng.standard_normal()))
        for p in points
    ]


# ------------------------------------------------------------------------------------ the fit


@pytest.mark.parametrize("quick", [True, False])
def test_fit_recovers_the_constants_of_exact_timings(quick: bool) -> None:
    points = plan(4e9, quick).points
    assert len(points) >= 15
    fit = fit_machine(profile_hardware(profile_data(HOST)), points, times(points, 0.0))
    for name, value in zip(fit.names, np.exp(fit.log_values), strict=True):
        # Times of a layer and of a token are hard to tell apart, and say so.
        assert value == pytest.approx(TRUTH[name], rel=max(0.05, 1.5 * fit.log_sd[name])), name
    assert max(abs(p.error) for p in predictions(fit.hardware, points, times(points, 0.0))) < 5e-3


@pytest.mark.parametrize("seed", range(4))
def test_intervals_hold_the_constants_of_noisy_timings(seed: int) -> None:
    points = plan(4e9, quick=False).points
    fit = fit_machine(profile_hardware(profile_data(HOST)), points, times(points, 0.03, seed))
    far = [
        (value - np.log(TRUTH[name])) / fit.log_sd[name]
        for name, value in zip(fit.names, fit.log_values, strict=True)
    ]
    assert np.max(np.abs(far)) < 3.5
    assert fit.spread == pytest.approx(0.03, rel=0.5)
    # What the design is for: these three are known to a few per cent.
    for name in ("bandwidth_efficiency", "kv_bandwidth_efficiency", "fixed_time_per_expert"):
        assert fit.log_sd[name] < 0.2, name


def test_one_disturbed_timing_does_not_pull_the_fit() -> None:
    points = plan(4e9, quick=False).points
    seconds = times(points, 0.01)
    seconds[3] *= 2.5
    fit = fit_machine(profile_hardware(profile_data(HOST)), points, seconds)
    others = [p for i, p in enumerate(points) if i != 3]
    errors = [abs(p.error) for p in predictions(fit.hardware, others, times(others, 0.0))]
    assert np.median(errors) < 0.05


def test_coefficients_are_seconds_behind_the_efficiencies() -> None:
    points = plan(4e9, quick=False).points
    fit = fit_machine(profile_hardware(profile_data(HOST)), points, times(points, 0.0))
    found = fit.coefficients
    assert found["seconds_per_weight_byte"].value == pytest.approx(1 / (0.82 * 20e9), rel=0.02)
    assert found["seconds_per_kv_byte"].value == pytest.approx(1 / (0.3 * 20e9), rel=0.02)
    assert found["seconds_per_expert_call"].value == pytest.approx(22e-6, rel=0.05)
    for c in found.values():
        assert 0 < c.low < c.value < c.high


def test_what_is_wrong_with_timings_is_said_rather_than_printed() -> None:
    # Each shape repeats its time exactly, and no constants explain them all.
    with pytest.raises(MeasurementError, match=r"does not describe this machine.*layers x"):
        calibrate(Settings(quick=True), FakeBench(0.5))

    class Noisy(FakeBench):
        def decode_s(self, point: Point, steps: int) -> list[float]:
            factor = float(np.exp(self.rng.normal(0.0, 1.5)))
            return [factor * t for t in super().decode_s(point, steps)]

    with pytest.raises(MeasurementError, match=r"too noisy.*one half of the rounds"):
        calibrate(Settings(quick=True), Noisy())


def test_noise_on_the_command_line(
    fake: FakeBench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fake.noise = 0.5
    target = tmp_path / "host.yaml"
    done = run(capsys, "calibrate", "--quick", "--save", str(target))
    assert (done.code, done.out) == (1, "")
    *phases, refusal = done.err.strip().splitlines()
    assert "held-out speeds are off" in refusal
    # Without a terminal each phase is a line.
    assert [line.partition(",")[0] for line in phases] == ["building models", "timing decode steps"]
    assert list(tmp_path.iterdir()) == []


def test_a_bar_moves_through_all_phases_and_keeps_its_clock(
    monkeypatch: pytest.MonkeyPatch, configs: None
) -> None:
    import rich.console
    import rich.progress

    shown: list[tuple[str, float, bool]] = []

    class Watched(rich.progress.Progress):
        def refresh(self) -> None:
            task = self.tasks[0] if self.tasks else None
            if task is not None:
                shown.append((task.description, task.completed, task.finished))
            super().refresh()

    monkeypatch.setattr(rich.progress, "Progress", Watched)
    monkeypatch.setattr(rich.console.Console, "is_terminal", True)
    settings = Settings(quick=True)
    with progress(phases(settings, 4)) as tell:
        calibrate(settings, FakeBench(), progress=tell)
        blind.blind_test(settings, 4, FakeBench(0.05), progress=tell)
    done = [part for _, part, _ in shown]
    assert done == sorted(done) and 0.9 < done[-1] < 1.0
    assert not any(finished for _, _, finished in shown)
    named = dict.fromkeys(name for name, _, _ in shown if name != "starting")
    assert list(named) == list(phases(settings, 4))


def test_low_quantile() -> None:
    assert low([3.0, 1.0, 2.0] + [9.0] * 18) == pytest.approx(2.0)


# ---------------------------------------------------------------------- the new constants


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.95])
@pytest.mark.parametrize("own_kv", [False, True])
@pytest.mark.parametrize("efficiency", [0.5, 5e-4])
def test_scaling_of_temporal_constants_is_the_derivative(
    overlap: float, own_kv: bool, efficiency: float
) -> None:
    changes = {"compute_overlap": overlap, "compute_efficiency": efficiency}
    if not own_kv:
        changes["kv_bandwidth_efficiency"] = float("nan")
    machine = MACHINE.with_constants(changes)
    point = plan(4e9, quick=True).points[2]
    traffic = replace(point.workload.traffic, concurrency=3.0, draft_tokens=1.0)

    def total(h: Hardware) -> float:
        return float(decode_time(h, Workload(point.shape, traffic), Placement(4.0)).total)

    scaling = decode_time(machine, Workload(point.shape, traffic), Placement(4.0)).scaling
    for name in TRUTH:
        value = getattr(machine, KEYS[name].attribute)
        if np.isnan(value):
            assert scaling[name] == 0.0
            continue
        step = 1e-5
        up, down = (total(machine.with_constants({name: value * np.exp(s)})) for s in (step, -step))
        assert scaling[name] == pytest.approx((up - down) / (2 * step), rel=1e-3, abs=1e-9), name


def test_defaults_of_the_new_constants_change_nothing() -> None:
    plain = Hardware.load("amd-epyc-9754")
    stated = plain.with_constants(
        {
            "kv_bandwidth_efficiency": plain.bandwidth_efficiency,
            "fixed_time_per_expert": 0.0,
            "compute_overlap": 1.0,
        }
    )
    point = plan(4e9, quick=True).points[0]
    one, other = (
        decode_time(h, Workload(point.shape, Traffic(64, 1)), Placement(16.0))
        for h in (plain, stated)
    )
    assert float(one.total) == float(other.total)


def test_arithmetic_is_added_where_nothing_overlaps() -> None:
    point = plan(4e9, quick=True).points[0]
    time = pass_time(
        MACHINE.with_constants({"small_matrix_speed": 1.0, "compute_overlap": 0.0}), point
    )
    flops = 2 * sum(
        float(g.count * (g.active_params - g.vector_params)) for g in point.shape.groups
    )
    attention = 2 * point.config.layers * 64 * 2 * 256
    assert float(time.compute) == pytest.approx((flops + attention) / (150e9 * 0.4), rel=1e-6)


# --------------------------------------------------------------------------- memory budget


@settings(max_examples=60, deadline=None)
@given(st.floats(2e8, 8e9), st.booleans())
def test_plan_stays_within_its_memory(budget: float, quick: bool) -> None:
    found = plan(budget, quick)
    everything = plan(1e15, quick).points
    assert sorted(p.name for p in (*found.points, *found.skipped)) == sorted(
        p.name for p in everything
    )
    taken = found.buffer_bytes + sum(model_bytes(c) for c in {p.config for p in found.points})
    taken += sum(map(point_bytes, found.points))
    assert not found.points or taken <= budget
    assert model_bytes(bandwidth_config(budget, quick)) <= max(0.75 * budget, 1e8)


def test_point_bytes_bound_what_a_decoder_takes() -> None:
    for point in plan(4e9, quick=False).points[:4]:
        decoder = Decoder(
            Weights.empty(point.config),
            point.batch,
            max_tokens=point.context_tokens + ROOM_TOKENS,
            pass_tokens=point.batch,
        )
        arrays = [a for a in vars(decoder).values() if isinstance(a, np.ndarray)]
        owned = {id(a if a.base is None else a.base): a.nbytes for a in arrays}
        caches = sum(a.nbytes for a in (*decoder.keys, *decoder.values))
        assert caches + sum(owned.values()) <= point_bytes(point)
        assert point.config.shape().total_params * 4 == model_bytes(point.config)


def test_a_run_takes_no_more_than_its_budget_and_names_what_it_left_out(
    fake: FakeBench, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "calibrate", "--quick", "--memory", "1.5GB", "--format", "json")
    assert done.code == 0
    assert max(fake.built_bytes) <= 1.5e9
    skipped = json.loads(done.out)["skipped"]
    assert skipped
    for name in skipped:
        assert name in done.err


def test_too_little_memory_says_how_much_is_enough(
    fake: FakeBench, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "calibrate", "--memory", "300MB")
    assert done.code == 2 and "1.5GB is enough" in done.err and fake.built_bytes == []
    with pytest.raises(InputError):
        calibrate(Settings(quick=True, memory_bytes=3e8), FakeBench())
    for quick in (True, False):
        design = plan(1.5e9, quick)
        enough(design, "", "")
        assert design.skipped
    assert run(capsys, "calibrate", "--memory", "much").code == 2
    assert run(capsys, "calibrate", "--memory", "0 GB").code == 2


# ------------------------------------------------------------------------- output and files


def test_profile_round_trip_and_json(
    fake: FakeBench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "host.yaml"
    done = run(capsys, "calibrate", "--quick", "--save", str(target), "--format", "json")
    assert done.code == 0 and f"wrote {target}" in done.err
    machine = Hardware.load(str(target))
    found = json.loads(done.out)
    assert found["ceilings"] == {"read_bytes_per_s": READ, "matmul_flops_per_s": FLOPS}
    for c in found["coefficients"].values():
        assert set(c) == {"value", "low", "high"}
    held = found["heldout"]
    errors = [abs(p["error"]) for p in held["points"]]
    assert held["median_error"] == pytest.approx(np.median(errors))
    assert held["worst_error"] == pytest.approx(max(errors))
    for p in held["points"]:
        ratio = p["predicted_tokens_per_s"] / p["measured_tokens_per_s"]
        assert p["error"] == pytest.approx(ratio - 1)
    assert found["decode_bandwidth_fraction"] == pytest.approx(0.79, abs=0.03)
    assert found["blind"] is None
    assert found["routing"]["evenness"] == pytest.approx(0.8, abs=1e-3)

    by_name = {p["name"]: p["predicted_tokens_per_s"] for p in found["heldout"]["points"]}
    for point in plan(4e9, quick=True).points:
        if point.heldout:
            speed = 1.0 / float(pass_time(machine, point).total)
            assert speed == pytest.approx(by_name[point.name], rel=1e-9)
    names, _, covariance = machine.constants()
    shared = blas_threads() > 1
    assert set(names) == {n for n in CONSTANTS if n != SMALL or shared}
    assert np.all(np.linalg.eigvalsh(covariance) > 0)
    for figure in machine.figures:
        assert figure.source
    text = target.read_text()
    for word in ("archinfer calibrate --quick", "cores of", "held-out", "seed 0"):
        assert word in text.replace("\n", " ")
    assert run(capsys, "hardware", "show", str(target)).code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["host.yaml"]


def test_documents_and_csv(calibrated: Calibration) -> None:
    words = to_markdown(document(calibrated))
    assert "per expert call" in words and "carries over" in words
    assert len(csv_rows(calibrated)) == 1 + len(plan(4e9, quick=True).points)


def test_one_machine_gets_no_advice_that_it_cannot_follow(
    tmp_path: Path, saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Hardware.load(saved)
    assert machine.alone and not machine.speculates
    predicted = json.loads(
        run(capsys, "predict", "qwen3-8b", "--hardware", saved, "--format", "json").out
    )
    (found,) = predicted["results"]
    names = {change["name"] for change in found["what_would_help"]}
    assert names and not names & {"nodes", "fp8", "nvfp4", "int8", "int4", "kv", "speculation"}
    assert (found["weights"], found["kv"]) == ("fp32", "fp32")
    told = run(capsys, "predict", "qwen3-8b", "--hardware", saved).out
    assert "weights in fp32 (of the decoder that was measured)" in " ".join(told.split())
    chosen = run(capsys, "predict", "qwen3-8b", "--hardware", saved, "--weights", "bf16").out
    assert "weights in bf16 (as asked)" in " ".join(chosen.split())
    assert found["speculation"] == [1, 1]
    large = run(capsys, "predict", "llama-3.1-405b", "--hardware", saved).out
    assert "one machine without links" in " ".join(large.split())
    for command in (("predict", "qwen3-8b"), ("solve", "--observed", "5")):
        done = run(capsys, *command, "--hardware", saved, "--nodes", "2")
        assert done.code == 2 and "no links" in done.err
    asked = question(hardware=saved, observed=5)
    assert asked.weights == ("fp32",) and asked.kv == "fp32"
    assert question(hardware=saved, observed=5, weights="fp8").weights == ("fp8",)
    compared = run(capsys, "compare", "qwen3-8b", "--hardware", saved, "--format", "json").out
    assert json.loads(compared)["results"][0]["ceiling"]["nodes"] == 1


def test_interruption_leaves_nothing(
    fake: FakeBench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "host.yaml"
    fake.fail = KeyboardInterrupt()
    done = run(capsys, "calibrate", "--quick", "--save", str(target))
    assert (done.code, done.out) == (130, "")
    assert done.err.strip().splitlines()[-1] == "interrupted: nothing was written"
    assert list(tmp_path.iterdir()) == [] and fake.closed == 1


def test_interruption_while_writing_keeps_the_old_file(
    fake: FakeBench,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = tmp_path / "host.yaml"
    target.write_text("old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    done = run(capsys, "calibrate", "--quick", "--save", str(target))
    assert done.code == 130
    assert target.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_target_that_cannot_be_written_is_refused_before_anything_is_timed(
    fake: FakeBench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = run(capsys, "calibrate", "--save", str(tmp_path / "missing" / "host.yaml"))
    assert done.code == 2 and fake.built_bytes == []


# ------------------------------------------------------------------------------------ prefill


def test_prompts_and_products_are_parts_of_the_peak(saved: str, calibrated: Calibration) -> None:
    found = calibrated.prefill
    assert {p.prompt_tokens for p in found.prompts} == {512, 2048}
    assert found.efficiency == pytest.approx(0.5) and found.log_sd == pytest.approx(0.0, abs=1e-9)
    assert 0.25 < found.product_efficiency < 0.5 and found.product_log_sd > 0.1
    section = read_profile(saved).prefill
    assert section is not None and section.efficiency == pytest.approx(0.5)
    assert len(section.products) == len(found.products)
    machine = Hardware.load(saved)
    assert machine.prompt_efficiency == pytest.approx(0.5)
    assert machine.routed_prompt_efficiency == pytest.approx(0.5)


@pytest.mark.parametrize("moe", [False, True])
def test_the_arithmetic_of_a_prompt_is_what_the_decoder_counts(moe: bool) -> None:
    config = TINY if moe else MoEConfig(256, 64, 2, 2, 1, 32, intermediate_size=96)
    count = Counters()
    # One token at a time sees what a causal mask lets it see.
    reader = Decoder(Weights.random(config), max_tokens=24, pass_tokens=1)
    reader.prefill(np.zeros((1, 24), dtype=int), count)
    assert prompt_flops(config, 24) == pytest.approx(count.total.flops, rel=1e-9)


def test_the_real_bench_reads_prompts_and_multiplies() -> None:
    bench = Bench()
    assert bench.prefill_s(TINY, 16, 0) > 0.0
    assert bench.prefill_s(TINY, 16, 0) > 0.0
    assert bench.product_flops_per_s(8, 64, 32) > 1e6
    bench.free()


# ------------------------------------------------------------------ routing and what carries over


@pytest.mark.parametrize("share", [0.4, 0.8, 1.0])
def test_evenness_inverts_the_formula(share: float) -> None:
    hits = [(b, float(experts_hit(share * 64, 8, b))) for b in (2, 4, 8, 16)]
    assert evenness(64, 8, hits) == pytest.approx(share, abs=1e-4)


def test_uneven_routing_hits_fewer_experts_but_no_fewer_than_one_token_uses() -> None:
    group = plan(4e9, quick=True).points[0].shape.groups[0]
    skewed = replace(group, evenness=0.75)
    assert experts_hit(skewed.even_experts, 8, 1) == pytest.approx(8)
    assert experts_hit(skewed.even_experts, 8, 4) < experts_hit(group.even_experts, 8, 4)
    assert replace(group, evenness=0.1).even_experts == 8


def test_counted_chain_is_that_of_the_family() -> None:
    from archinfer.models.shape import DENSE_CHAIN
    from archinfer.models.solver_family import ATTENTION_KINDS

    assert counted_chain(moe=False) == DENSE_CHAIN
    assert counted_chain(moe=True) == ATTENTION_KINDS["gqa"].reductions


@pytest.fixture(scope="module")
def calibrated() -> Calibration:
    return calibrate(Settings(quick=True), FakeBench(0.02))


@pytest.fixture(scope="module")
def saved(calibrated: Calibration, tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("calibrated") / "host.yaml"
    target.write_text(calibrated.profile)
    return str(target)


def test_what_carries_over_is_used_and_listed(saved: str) -> None:
    figures = read_calibration(saved)
    assert figures.evenness == pytest.approx(0.8, abs=1e-3)
    question = Question(hardware=Hardware.load("wse-3"))
    used = apply(question, figures, saved)
    assert used.rules.evenness == figures.evenness
    assert used.rules.reductions == figures.chain_moe
    # A profile that is less sure of itself keeps its own model error.
    assert used.hardware.model_error_log_sd == question.hardware.model_error_log_sd
    surer = question.with_(hardware=question.hardware.with_value("model_error", 0.001))
    changed = apply(surer, figures, saved).hardware
    assert changed.model_error_log_sd == figures.model_error
    sources = {row.key: row.source for row in changed.provenance}
    for key in (
        "model_error",
        "calibration.expert_evenness",
        "calibration.reductions_per_moe_layer",
    ):
        assert sources[key].startswith(f"calibration {saved}")
    # Seconds stay where they were measured.
    for name in ("fixed_time_per_layer", "bandwidth_efficiency"):
        attribute = KEYS[name].attribute
        assert getattr(changed, attribute) == getattr(surer.hardware, attribute)


def test_the_chain_of_latent_attention_was_not_counted(saved: str) -> None:
    from archinfer.models.solver_family import FamilyRules

    question = Question(hardware=Hardware.load("wse-3"), rules=FamilyRules(attention="mla"))
    used = apply(question, read_calibration(saved), saved)
    assert used.rules.reductions == question.rules.reductions


def test_solve_with_calibration(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("solve", "--concurrency", "64", "--architectures", "1", "--format", "json")
    plain = json.loads(run(capsys, *arguments).out)
    done = run(capsys, *arguments, "--calibration", saved)
    assert done.code == 0
    found = json.loads(done.out)
    keys = {row["key"] for row in found["provenance"]}
    assert "calibration.expert_evenness" in keys
    before = plain["ranges"]["total_params"]["high"]
    assert found["ranges"]["total_params"]["high"] >= before


def test_a_profile_without_calibration_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "plain.yaml"
    target.write_text(profile_text(profile_data(HOST)))
    with pytest.raises(FileError, match="missing key 'calibration'"):
        read_calibration(str(target))
    assert run(capsys, "solve", "--calibration", str(target)).code == 2
    assert run(capsys, "solve", "--calibration", str(tmp_path / "none.yaml")).code == 2


# ------------------------------------------------------------------------------- blind test


def known_machine() -> Hardware:
    constants = {name: (value, 0.05) for name, value in TRUTH.items()}
    return profile_hardware(profile_data(HOST, constants, 0.05))


def test_blind_models_are_found_from_their_speed_alone() -> None:
    machine, rng = known_machine(), np.random.default_rng(2)
    configs = list(itertools.islice(blind.drawn(rng), 10))
    found = BlindTest(
        tuple(
            blind.ask(machine, c, 1.0 / float(pass_time(machine, Point(c, blind.CONTEXT)).total))
            for c in configs
        ),
        (),
    )
    assert found.cases == 10
    assert found.coverage90 >= 0.8
    active = found.quantities["active_params"]
    assert active.coverage_region >= 0.8 and active.median_width < active.prior_width / 4.0


def test_a_wrong_speed_is_not_found() -> None:
    machine = known_machine()
    config = next(blind.drawn(np.random.default_rng(4)))
    speed = 1.0 / float(pass_time(machine, Point(config, blind.CONTEXT)).total)
    right, wrong = blind.ask(machine, config, speed), blind.ask(machine, config, 5.0 * speed)
    found = right.active_params
    assert 0.5 < found.p50 / found.truth < 2.0
    assert not wrong.in_region and not wrong.active_params.inside


def test_drawn_models_have_any_vocabulary_and_head_and_whole_sizes() -> None:
    configs = list(itertools.islice(blind.drawn(np.random.default_rng(0)), 40))
    assert [c.tie_word_embeddings for c in configs] == [False, True] * 20
    mixtures = [c for c in configs if c.experts]
    assert 20 <= len(mixtures) <= 34 and {c.tie_word_embeddings for c in mixtures} == {False, True}
    limited = [c for i, c in enumerate(configs) if i % 4 in (1, 2)]
    assert all(
        0 < float(c.shape().total_params) < 1.1 * blind.MIXTURES["total"][1] for c in limited
    )
    rows = np.array([c.vocab_size for c in configs])
    assert blind.VOCABULARIES[0] <= rows.min() < 1e4 < 1e5 < rows.max() <= blind.VOCABULARIES[1]
    assert all(c.head_dim == blind.HEAD and c.heads % c.kv_heads == 0 for c in configs)
    host = profile_hardware(profile_data(Host.here("", *blind.CEILINGS)))
    times = [float(pass_time(host, Point(c, blind.CONTEXT)).total) for c in configs]
    # The model error of a host that nobody measured, and whole heads of a wide table.
    assert np.mean((np.array(times) > 0.006) & (np.array(times) < 0.065)) > 0.8


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blind models are their configs: nobody is asked what they are."""
    monkeypatch.setattr(blind, "ask", lambda _, config, __: config)


def test_one_seed_draws_one_sequence_of_models(configs: None) -> None:
    one, other, third = (
        blind.blind_test(Settings(quick=True, seed=s), 2, FakeBench()).models for s in (7, 7, 8)
    )
    assert one == other != third


def test_blind_models_beyond_the_budget_are_left_out_and_named(configs: None) -> None:
    bench = FakeBench()
    tested = blind.blind_test(Settings(quick=True, memory_bytes=1.8e9), 8, bench)
    assert len(tested.models) == 8 and len(bench.built_bytes) > 2
    assert max(bench.built_bytes) <= 1.8e9


def test_blind_on_the_command_line(fake: FakeBench, capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "calibrate", "--quick", "--blind", "--cases", "2", "--format", "json")
    assert done.code == 0
    found = json.loads(done.out)["blind"]
    assert found["cases"] == 2 and 0 <= found["coverage90"] <= 1 and found["median_width"] > 1


# -------------------------------------------------------------------------- the real machine

TINY = MoEConfig(256, 64, 2, 2, 1, 32, moe_intermediate_size=32, experts=8, experts_per_token=2)


def test_the_real_bench_runs_and_one_seed_builds_one_model() -> None:
    point = Point(TINY, 8, batch=2)
    logits = []
    for seed in (5, 5, 6):
        bench = Bench()
        bench.open(1.0)
        assert list(bench.build([point], seed)) == [point]
        assert len(bench.decode_s(point, 3)) == 3
        logits.append(bench._decoders[point].logits.copy())
        bench.close()
    assert np.array_equal(logits[0], logits[1])
    assert not np.array_equal(logits[0], logits[2])


def test_the_real_router_is_counted() -> None:
    hit = Bench().experts_hit(TINY, batch=4, steps=3, seed=0)
    assert 2 <= hit <= 8
    assert Bench().experts_hit(TINY, batch=1, steps=3, seed=0) == 2


def test_a_timed_step_does_the_work_that_the_cost_model_counts() -> None:
    from archinfer.physics.workload import Traffic, Workload

    point = Point(TINY, 8)
    bench = Bench()
    bench.open(1.0)
    list(bench.build([point], 0))
    decoder = bench._decoders[point]
    decoder.position = point.context_tokens - 1
    count = Counters()
    decoder.decode([0], count)
    bench.close()
    expected = Workload(point.shape, Traffic(8, 1, 32, None, 32)).work(1)
    assert count.total.weight_bytes == expected.weight_bytes
    assert count.total.kv_read_bytes == expected.kv_read_bytes


def test_decode_bandwidth_counts_the_bytes_of_what_is_read() -> None:
    asked = Settings(quick=True, memory_bytes=4e8, seconds=(0.0, 0.0, 0.0))
    shape = bandwidth_config(3e8, quick=True).shape()
    with opened(Bench(), 1e8) as bench:
        found = measure_bandwidth(bench, asked, 1e8)
    # The embedding table is looked up, not read.
    assert found.active_weight_bytes == 4 * (shape.active_params - shape.lookup_params)
    assert found.fraction > 0


def test_the_real_machine_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(hidden: int, layers: int, heldout: bool = False) -> Point:
        config = replace(TINY, hidden_size=hidden, layers=layers, heads=hidden // 32)
        return Point(config, 16, heldout=heldout)

    points = [tiny(64 * i, 1 + i % 3) for i in range(1, 8)]
    points += [tiny(96, 2, True), tiny(160, 2, True)]
    monkeypatch.setattr(prefill, "PROMPTS", (32, 96))
    monkeypatch.setattr(calibration, "routing_config", lambda: replace(TINY, experts=32))
    # Whatever the machine does meanwhile is no matter here.
    monkeypatch.setattr(calibration_run, "HELDOUT_MEDIAN", np.inf)
    monkeypatch.setattr(calibration_run, "HELDOUT_WORST", np.inf)
    found = calibrate(
        Settings(
            quick=True,
            memory_bytes=4e8,
            seconds=(0.0, 0.0, 0.0),
            points=tuple(points),
        )
    )
    assert len(found.run.fitted.points) == 7 and len(found.run.heldout.points) == 2
    assert (
        found.run.host.ceilings.read_bytes_per_s > 0
        and found.run.host.ceilings.matmul_flops_per_s > 0
    )
    assert found.hardware.name == "host" and found.run.rounds >= 1
    assert 0.5 < found.routing.evenness <= 1.0


class DriftingBench(FakeBench):
    """A machine that is twice as slow from its second run on."""

    def decode_s(self, point: Point, steps: int) -> list[float]:
        factor = 2.0 if len(self.built_bytes) > 1 else 1.0
        return [t * factor for t in super().decode_s(point, steps)]

    def read_bytes_per_s(self, size_bytes: float) -> dict[str, float]:
        factor = 2.0 if len(self.built_bytes) > 1 else 1.0
        return {k: v / factor for k, v in super().read_bytes_per_s(size_bytes).items()}


def test_each_group_of_blind_models_is_judged_by_the_machine_as_it_is_then() -> None:
    bench = DriftingBench(0.0)
    tested = blind.blind_test(Settings(quick=True, memory_bytes=1.8e9), 5, bench)
    assert len(bench.built_bytes) > 1
    active = [m.active_params for m in tested.models]
    assert np.median([a.p50 / a.truth for a in active]) == pytest.approx(1.0, abs=0.5)
    assert sum(a.inside for a in active) >= 4


def test_a_run_goes_on_once_before_it_is_refused() -> None:
    class Settling(FakeBench):
        """Noise that ends after a while."""

        def decode_s(self, point: Point, steps: int) -> list[float]:
            exact = float(pass_time(MACHINE, point).total)
            times = super().decode_s(point, steps)
            return times if self.clock < 9.5 else [exact] * steps

    bench = Settling(0.0)
    rng = np.random.default_rng(0)
    points = plan(4e9, quick=True).points

    class Noisy(Settling):
        def build(self, points: Sequence[Point], seed: int) -> Iterator[Point]:
            for point in super().build(points, seed):
                # Slower only: noise never makes a step faster.
                self.factor[point] = float(np.exp(abs(rng.normal(0.0, 0.8))))
                yield point

    found = calibrate(Settings(quick=True), Noisy())
    assert found.run.heldout.worst_error < 0.05
    assert len(found.run.fitted.points) + len(found.run.heldout.points) == len(points)
    assert bench.closed == 0
