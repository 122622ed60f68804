"""Fit of a profile's constants, the law of speculation, and the placement of given models."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archinfer import catalogue
from archinfer.errors import FileError
from archinfer.fitting.cases import prepare, prepare_all
from archinfer.fitting.fit import Fit, FitModel, fit_rows, quantiles, without_model
from archinfer.fitting.observations import Observation, Row, load, read
from archinfer.fitting.pooled import Pool
from archinfer.fitting.prior import fit_prior
from archinfer.fitting.profile import profile_text
from archinfer.fitting.shipped import shipped_fit
from archinfer.forward.predict import evaluate
from archinfer.hardware.profile import Hardware
from archinfer.physics.decode import decode_time
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import memory_fraction
from archinfer.physics.prefill import time_to_first_token
from archinfer.physics.speculation import DRAFTS, speculative_time, tokens_per_pass
from archinfer.physics.workload import Traffic, Workload
from tests.cli import run

SERVING = Path(str(resources.files("archinfer"))) / "data" / "serving.csv"


def _rows(profile: str) -> list[Observation]:
    return [r for r in load() if r.profile == profile and r.architecture and r.fitted]


@pytest.fixture(scope="module")
def wse2() -> tuple[Fit, list]:
    return fit_rows(Hardware.load("wse-2"), _rows("wse-2"))


# --- speculation


@given(st.floats(0.05, 0.98), st.integers(0, 12))
def test_tokens_per_pass_is_the_mean_of_the_accepted_run(acceptance: float, drafted: int) -> None:
    # One token for sure, a second if the first draft holds, a third if the second does too ...
    expected = sum(acceptance**i for i in range(drafted + 1))
    assert tokens_per_pass(acceptance, drafted) == pytest.approx(expected, rel=1e-12)


def test_speculation_is_the_best_of_its_drafts_and_never_loses() -> None:
    hardware = Hardware.load("wse-3")
    for name in ("llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b"):
        shape = catalogue.load(name).shape()
        traffic = Traffic(context_tokens=1500)
        mapping = Placement(20.0, 1.0)
        found = speculative_time(hardware, Workload(shape, traffic), mapping, 0.8, 100e-6)
        by_hand = []
        for g in DRAFTS:
            time = decode_time(hardware, Workload(shape, replace(traffic, draft_tokens=g)), mapping)
            by_hand.append((time.total - time.draft + g * 100e-6) / tokens_per_pass(0.8, g))
        assert float(found) == pytest.approx(float(min(by_hand)), rel=1e-12)
        plain = decode_time(hardware, Workload(shape, traffic), mapping).total
        assert float(found) <= float(plain) * (1 + 1e-12)


def test_verifying_costs_a_mixture_of_experts_more_than_a_dense_model() -> None:
    # Each drafted token brings experts of its own; a dense model's weights are read anyway.
    hardware = Hardware.load("wse-3")

    def growth(name: str) -> float:
        shape = catalogue.load(name).shape()

        def seconds(drafts: int) -> float:
            traffic = Traffic(context_tokens=1500, draft_tokens=drafts)
            time = decode_time(hardware, Workload(shape, traffic), Placement(18.0, 1.0))
            return float(time.total - time.draft)

        return seconds(4) / seconds(0)

    assert growth("gpt-oss-120b") > 1.2 > 1.05 > growth("llama-3.1-8b")


# --- placement


@pytest.mark.parametrize("profile", ["wse-3", "h100-sxm"])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b"])
def test_best_mapping_is_the_fastest_of_all_that_fit(profile: str, name: str) -> None:
    hardware, shape = Hardware.load(profile), catalogue.load(name).shape()
    deployment = Deployment(nodes=8, context_tokens=4096)
    stored = Workload(shape, Traffic(4096, 1, 16, None, 16)).memory
    traffic = Traffic(context_tokens=4096)
    best = np.inf
    for stages in range(1, 9):
        for group in (1, 2, 4, 8):
            if stages * group > 8 or (hardware.spatial and group > 1):
                continue
            mapping = Placement(float(np.ceil(shape.layers / stages)), float(group))
            if memory_fraction(hardware, stored, mapping) <= 1.0:
                time = decode_time(hardware, Workload(shape, traffic), mapping)
                best = min(best, float(time.total))
    found = evaluate(shape, hardware, deployment)
    assert found.fits
    assert float(found.time.total) == pytest.approx(best, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "gpt-oss-120b"]),
    st.sampled_from(["fp8", "bf16"]),
    st.integers(1, 64),
)
def test_min_nodes_is_the_first_that_fits(name: str, weights: str, users: int) -> None:
    hardware, shape = Hardware.load("wse-3"), catalogue.load(name).shape()
    deployment = Deployment(context_tokens=8000, concurrency=users, weights=weights)
    fewest = evaluate(shape, hardware, deployment).min_nodes
    if not np.isfinite(fewest):
        assert not evaluate(shape, hardware, deployment.with_(nodes=int(shape.layers))).fits
        return
    assert evaluate(shape, hardware, deployment.with_(nodes=fewest)).fits
    less = deployment.with_(nodes=fewest - 1) if fewest > 1 else None
    assert less is None or not evaluate(shape, hardware, less).fits


def test_published_wafer_counts_are_met() -> None:
    # Cerebras, 2024-08-27: 8B on one CS-3, 70B "on as few as four systems", 16-bit weights.
    hardware = Hardware.load("wse-3")
    asked = Deployment(context_tokens=8192)
    assert evaluate(catalogue.load("llama-3.1-8b").shape(), hardware, asked).min_nodes == 1
    assert evaluate(catalogue.load("llama-3.1-70b").shape(), hardware, asked).min_nodes == 4


# --- cases


def test_waferllm_rows_run_multi_head_shapes() -> None:
    rows = [r for r in _rows("wse-2") if r.id == "wse2-waferllm-llama3-8b-420"]
    case = prepare_all(rows, Hardware.load("wse-2"))[0]
    d, f = 4096, 14336
    group = case.shape.groups[0]
    weights = group.shared_params - group.vector_params
    assert weights == 4 * d * d + 3 * d * f
    assert case.side == 420.0
    assert case.shape.head_params == 0.0


def test_unknown_nodes_are_a_range_from_the_fewest_that_fit() -> None:
    row = next(r for r in _rows("wse-3") if r.id == "cs3-llama3.3-70b")
    case = prepare_all([row], Hardware.load("wse-3"))[0]
    assert case.nodes.min() == 4
    assert case.nodes.max() == 8
    assert np.exp(case.log_weight).sum() == pytest.approx(1.0)


# --- the fit


def test_a_format_that_cannot_have_been_is_not_assumed() -> None:
    """Llama 2 70B on 576 LPUs: 138 GB at 16 bits, 132 GB there; no format is published."""
    lpu = Hardware.load("groq-lpu-v1")
    rows = {r.id: r for r in load()}
    row = rows["lpu-llama2-70b-2024"]
    assert row.weight_bits is None
    case = prepare(row, lpu, row.architecture_model())
    assert case.fits and case.workload.traffic.weight_bits == 8.0
    assert float(case.workload.memory.weights) == pytest.approx(
        69.0e9 + 2 * 32_000 * 8192, rel=0.01
    )
    roomy = prepare(replace(row, nodes=2000), lpu, row.architecture_model())
    assert roomy.fits and roomy.workload.traffic.weight_bits == 16.0
    stated = prepare(replace(row, weight_bits=16), lpu, row.architecture_model())
    assert not stated.fits and stated.workload.traffic.weight_bits == 16.0
    tight = prepare(replace(row, nodes=250), lpu, row.architecture_model())
    assert tight.fits and tight.workload.traffic.weight_bits == 4.5
    none = prepare(replace(row, nodes=50), lpu, row.architecture_model())
    assert not none.fits and none.workload.traffic.weight_bits == 16.0


def test_a_known_draft_model_is_priced_and_not_believed() -> None:
    """Llama 2 70B in int4 with a 7B draft on one A100: 48.4 tokens/s (gpt-fast)."""
    a100 = Hardware.load("a100-80gb")
    rows = _rows("a100-80gb")
    fit, cases = fit_rows(a100, rows)
    (case,) = [c for c in cases if c.draft is not None]
    draft_s = case.draft_time_s(a100)
    assert draft_s is not None
    small = catalogue.load("llama-2-7b").shape()
    traffic = Traffic(1500.0, 1, 4.0, 16.0)
    alone = decode_time(a100, Workload(small, traffic), Placement(32.0, 1.0)).total
    assert draft_s == pytest.approx(alone)
    # gpt-fast states 196.8 tokens/s for that model; nothing here is fitted to it.
    assert 1.0 / float(np.squeeze(draft_s)) == pytest.approx(196.8, rel=0.12)
    median = float(np.median(without_model(fit, cases, case).draws(case, 4000, 1)))
    assert np.exp(median) == pytest.approx(48.4, rel=0.25)
    # The belief about unknown drafts is left as it was.
    assert fit.value("draft_time") == pytest.approx(fit.model.prior_value("draft_time"), rel=1e-3)


def test_recovers_the_constants_behind_simulated_speeds() -> None:
    hardware = Hardware.load("wse-2")
    truth = {"cycles_per_weight": 0.6, "fixed_time_per_layer": 9e-6}
    simulated = []
    for case in prepare_all(_rows("wse-2"), hardware.with_constants(truth)):
        time = decode_time(
            hardware.with_constants(truth),
            case.workload,
            case.mapping,
            case.side,
        )
        simulated.append(replace(case.row, tokens_per_s=float(1.0 / np.ravel(time.total)[0])))
    fit, cases = fit_rows(hardware, simulated)
    for name, value in truth.items():
        off = abs(np.log(fit.value(name) / value))
        assert off < 2.0 * fit.sd(name), name
        assert off < 0.1, name
    assert np.abs(fit.residuals(cases)).max() < 0.005


def test_one_absurd_row_hardly_moves_the_fit(wse2: tuple[Fit, list]) -> None:
    rows = _rows("wse-2")
    absurd = replace(rows[4], id="absurd", tokens_per_s=100.0 * rows[4].tokens_per_s)
    moved, _ = fit_rows(Hardware.load("wse-2"), [*rows, absurd])
    for name in ("cycles_per_weight", "fixed_time_per_layer"):
        assert abs(np.log(moved.value(name) / wse2[0].value(name))) < 0.1, name


def test_without_rows_the_belief_before_comes_back() -> None:
    hardware = Hardware.load("wse-3")
    fit, cases = fit_rows(hardware, [])
    assert cases == []
    for name, (mean, sd) in fit_prior(hardware).constants.items():
        assert np.log(fit.value(name)) == pytest.approx(mean, abs=1e-6)
        assert fit.sd(name) == pytest.approx(sd, rel=1e-3)


def test_one_row_narrows_what_it_informs_and_nothing_else() -> None:
    rows = [r for r in _rows("wse-3") if r.id == "cs3-llama3.1-8b-2024-08"]
    fit, _ = fit_rows(Hardware.load("wse-3"), rows)
    prior = fit_prior(Hardware.load("wse-3"))
    # One wafer: no crossing, so nothing is learned about links.
    assert fit.sd("link.latency") == pytest.approx(prior.constants["link.latency"][1], rel=1e-3)
    assert fit.sd("cycles_per_weight") < prior.constants["cycles_per_weight"][1]


def test_contradictory_rows_leave_more_noise_and_finite_constants() -> None:
    row = next(r for r in _rows("wse-3") if r.id == "cs3-llama3.1-70b-2024-08")
    rows = [replace(row, id=str(v), tokens_per_s=v) for v in (100.0, 450.0, 2000.0)]
    fit, cases = fit_rows(Hardware.load("wse-3"), rows)
    assert all(0.0 < v < np.inf for v in fit.constants.values())
    assert fit.noise_log_sd > fit_rows(Hardware.load("wse-3"), [row])[0].noise_log_sd
    low, high = quantiles(fit.draws(cases[0], 2000, 0), (0.05, 0.95))
    assert low < 450.0 < high


def test_software_that_is_named_and_not_fitted_has_the_spread_of_the_prior() -> None:
    row = next(r for r in _rows("b200") if r.id == "b200x8-dsr1-nomtp")
    hardware = Hardware.load("b200")
    sd = fit_prior(hardware).software_log_sd
    fit = shipped_fit(hardware, ["mine", "tilert"])
    assert (fit.value("software:mine"), fit.sd("software:mine")) == (1.0, sd)
    assert fit.value("software:tilert") == pytest.approx(hardware.softwares("tilert")[0].factor)
    plain, named = (
        fit.draws(prepare_all([replace(row, software=s)], hardware)[0], 20_000, 0)
        for s in (None, "mine")
    )
    assert np.median(named) == pytest.approx(np.median(plain), abs=0.02)
    # Away from the tails of the noise, where a variance is well known.
    middle = [np.diff(np.quantile(d, (0.16, 0.84)))[0] / 2.0 for d in (plain, named)]
    # Its fixed times are most of the pass, not all of it.
    assert middle[0] < middle[1] < np.hypot(middle[0], sd)
    (case,) = prepare_all([replace(row, software="mine", fitted=False)], hardware)
    later, _ = fit_rows(hardware, [row], software=["mine"])
    assert (later.value("software:mine"), later.sd("software:mine")) == pytest.approx((1.0, sd))
    assert case.row.software in {n.partition(":")[2] for n in later.model.names}


def test_unknown_speculation_lies_between_none_and_certain() -> None:
    row = next(r for r in _rows("wse-3") if r.id == "cs3-llama3.1-70b-2024-10")
    hardware = Hardware.load("wse-3")
    fit = shipped_fit(hardware)
    median = {}
    for used in (False, None, True):
        case = prepare_all([replace(row, speculative=used)], hardware)[0]
        median[used] = quantiles(fit.draws(case, 4000, 0), (0.5,))[0]
    assert median[False] < median[None] < median[True]


def test_slope_of_the_posterior_vanishes_at_the_mode(wse2: tuple[Fit, list]) -> None:
    fit, cases = wse2
    model = fit.model
    for i in range(len(model.names)):
        move = np.zeros(len(model.names))
        move[i] = 0.02 * model.sd[i]
        around = model.negative_log_posterior(
            np.stack([fit.mode, fit.mode + move, fit.mode - move]), cases
        )
        assert around[0] <= around[1:].min() + 1e-4


# --- profiles


def test_fixed_time_and_cycles_are_anticorrelated(wse2: tuple[Fit, list]) -> None:
    names, _, covariance = wse2[0].hardware.constants()
    i, j = names.index("cycles_per_weight"), names.index("fixed_time_per_layer")
    k = names.index("reductions_per_layer")
    assert covariance[i, j] < 0.0
    # More reductions leave less fixed time: the grids hardly separate the two.
    assert covariance[j, k] / np.sqrt(covariance[j, j] * covariance[k, k]) < -0.5


@pytest.mark.parametrize("profile", ["wse-2", "wse-3"])
def test_shipped_profile_holds_what_its_command_gives(profile: str) -> None:
    hardware = Hardware.load(profile)
    fit, cases = fit_rows(hardware, _rows(profile))
    for name, value in fit.constants.items():
        shipped = dict(zip(*hardware.constants()[:2], strict=True))[name]
        assert shipped == pytest.approx(value, rel=0.02), name
    assert hardware.model_error_log_sd == pytest.approx(fit.noise_log_sd, rel=0.05)
    assert len(cases) == len(_rows(profile))


@pytest.mark.parametrize("profile", ["wse-2", "wse-3"])
def test_uncertainty_is_small_enough_for_an_exact_region(profile: str) -> None:
    _, _, covariance = Hardware.load(profile).constants()
    assert np.sqrt(np.diag(covariance)).max() <= 0.6


def test_saved_profile_says_the_same(tmp_path: Path, wse2: tuple[Fit, list]) -> None:
    fit, cases = wse2
    path = tmp_path / "mine.yaml"
    path.write_text(profile_text(fit, cases, "a command", {}), encoding="utf-8")
    saved = Hardware.read(path)
    names, values, covariance = saved.constants()
    for i, name in enumerate(names):
        assert values[i] == pytest.approx(fit.value(name), rel=1e-3)
        assert np.sqrt(covariance[i, i]) == pytest.approx(fit.sd(name), rel=1e-2)
    again = shipped_fit(saved)
    ours, theirs = (quantiles(f.draws(cases[0], 4000, 0), (0.5,))[0] for f in (fit, again))
    assert theirs == pytest.approx(ours, rel=0.01)


def test_a_profile_of_which_nothing_was_fitted_is_a_profile(tmp_path: Path) -> None:
    """No row of liminal-hbm3 is published and none of its constants has a spread."""
    fit, cases = fit_rows(Hardware.load("liminal-hbm3"), [])
    path = tmp_path / "mine.yaml"
    path.write_text(profile_text(fit, cases, "a command", {}), encoding="utf-8")
    assert Hardware.read(path).covariance_names == ()


def test_unknown_architecture_is_refused_with_its_line() -> None:
    row = next(r for r in _rows("wse-3"))
    missing = replace(row, architecture="no-such-model", origin="rows.yaml", line=7, key_lines={})
    with pytest.raises(FileError, match=r"rows\.yaml:7: .*no-such-model"):
        prepare_all([missing], Hardware.load("wse-3"))


def test_a_machine_without_an_entry_drafts_as_its_kind_does() -> None:
    wafer, gpu = (replace(Hardware.load(n), name="mine") for n in ("wse-3", "b200"))
    assert fit_prior(wafer).draft_time == fit_prior(Hardware.load("wse-3")).draft_time
    assert fit_prior(gpu).draft_time == fit_prior(Hardware.load("b200")).draft_time
    assert fit_prior(gpu).draft_time[0] > fit_prior(wafer).draft_time[0]


def test_parameters_are_those_the_rows_need() -> None:
    hardware = Hardware.load("wse-2")
    cases = prepare_all(_rows("wse-2"), hardware)
    names = FitModel.of(hardware, cases).names
    assert "acceptance" not in names
    maybe = [replace(c, row=replace(c.row, speculative=None)) for c in cases]
    assert "acceptance" in FitModel.of(hardware, maybe).names


# --- serving engines


def _table(tmp_path: Path, times: Callable[[dict[str, str]], tuple[float, float]]) -> Path:
    """Every fourth shipped configuration of H200, with other times."""
    with resources.files("archinfer").joinpath("data/serving.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["profile"] == "h200-sxm"][::4]
    path = tmp_path / "mine.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            token_s, first_s = times(row)
            writer.writerow(row | {"tpot_ms": f"{token_s * 1e3}", "ttft_ms": f"{first_s * 1e3}"})
    return path


def test_a_table_of_a_serving_engine_is_fitted_and_told_model_by_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times that a machine with other constants would take give back these constants, and models
    that were left out are predicted, times to the first token too."""
    hardware = Hardware.load("h200-sxm")
    shipped = dict(zip(*hardware.constants()[:2], strict=True))
    truth = {
        "bandwidth_efficiency": 0.78,
        "fixed_time_per_layer": 1.2 * shipped["fixed_time_per_layer"],
        "prompt_pass_factor": 1.3 * shipped["prompt_pass_factor"],
    }
    other = hardware.with_constants(truth)
    cases = {c.row.id: c for c in prepare_all(read(SERVING), other)}

    def times(row: dict[str, str]) -> tuple[float, float]:
        if row["id"] not in cases:
            return float(row["tpot_ms"]) / 1e3, float(row["ttft_ms"]) / 1e3
        case = cases[row["id"]]
        step = decode_time(other, case.workload, case.mapping)
        first = time_to_first_token(other, case.workload, case.mapping, step)
        assert first is not None
        return float(np.ravel(step.total)[0]), float(np.ravel(first.total)[0])

    path = _table(tmp_path, times)
    rows = [r for r in read(path) if r.profile == "h200-sxm"]
    # The machine may be quite another than was believed.
    fit, found = fit_rows(hardware, rows, fit_prior(hardware).released(1.0))
    assert all(case.served for case in found) and len(rows) > 80
    for name, value in truth.items():
        assert fit.value(name) == pytest.approx(value, rel=0.05), name
        assert fit.sd(name) < 0.6, name
    assert float(np.abs(fit.residuals(found)).max()) < 0.05
    done = run(capsys, "fit", "--hardware", "h200-sxm", "--observations", str(path))
    assert done.code == 0
    for title in ("Machines", "Models", "Engines", "Users", "first token", "vllm"):
        assert title in done.out, title


def test_derivatives_of_pooled_times_are_exact() -> None:
    hardware = Hardware.load("h200-sxm")
    rows = [r for r in read(SERVING) if r.profile == "h200-sxm"][::40]
    names, values, _ = hardware.constants()
    pool = Pool(prepare_all(rows, hardware), [*names, "software:vllm"], lambda _: hardware)
    theta = np.log([*values, 1.1])
    _, slope = pool(theta)
    tokens = ~pool.first
    assert slope.shape == (len(pool.cases), len(theta)) and 0 < pool.first.sum() < len(rows)
    for j in range(len(theta)):
        move = np.zeros(len(theta))
        move[j] = 1e-5
        change = (pool(theta + move)[0] - pool(theta - move)[0]) / 2e-5
        assert slope[tokens, j] == pytest.approx(change[tokens], abs=2e-4), pool.names[j]


def test_the_example_of_observations_is_read_and_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    asked = ("fit", "--hardware", "h100-sxm", "--observations", str(path))
    assert run(capsys, *asked, "--init").out.endswith(f"--observations {path}\n")
    assert run(capsys, *asked, "--init").code == 2  # it is there already
    single, served = read(path)
    assert (single.batch, served.batch, served.first_token_s) == (1.0, 32.0, 0.4)
    assert (served.tokens_per_s, served.kv_bits) == (pytest.approx(1000 / 17), 8.0)
    done = run(capsys, *asked)
    assert done.code == 0 and "Llama 3.1 70B" in done.out
    keys = Row.model_fields
    page = (Path(__file__).resolve().parent.parent / "docs" / "observations.md").read_text("utf-8")
    assert not [
        key
        for key in keys
        if key not in page and key not in ("hardware", "measured_by", "mesh_side")
    ]
