"""Published speeds against predictions that have not seen the model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from archinfer.fitting.cases import prepare_all
from archinfer.fitting.inverse import validate_inverse
from archinfer.fitting.observations import load, usable
from archinfer.fitting.shipped import shipped_fit
from archinfer.fitting.transfer import error, transfer
from archinfer.fitting.validation import (
    Validation,
    inverse_cases,
    leave_one_out,
    predict_rows,
)
from archinfer.hardware.profile import Hardware
from archinfer.models.catalogue import load as load_model
from archinfer.report.validation import csv_rows, lines
from tests.cli import run

DOCS = Path(__file__).resolve().parents[1] / "docs"

TEST_ROWS = """\
- id: scout
  model: Llama 4 Scout
  architecture: llama-4-scout
  hardware: Cerebras WSE-3 (CS-3)
  profile: wse-3
  nodes: null
  batch: null
  tokens_per_s: 2600
  speculative: unknown
  weight_bits: null
  context_tokens: null
  date: 2025-04
  measured_by: a test
  source:
    url: https://example.org
    title: none
  note: an invented row
  confidence: low
- id: nowhere
  model: A Model
  architecture: null
  hardware: something
  profile: null
  nodes: null
  batch: null
  tokens_per_s: 10
  speculative: unknown
  weight_bits: null
  context_tokens: null
  date: null
  measured_by: a test
  source:
    url: null
    title: null
  note: null
  confidence: low
"""


@pytest.fixture(scope="module")
def wse3() -> Validation:
    rows = [r for r in load() if r.profile == "wse-3" and r.architecture]
    predictions, quality, _ = leave_one_out(Hardware.load("wse-3"), rows)
    return Validation("left out", predictions, {"wse-3": quality})


@pytest.fixture(scope="module")
def wse2() -> Validation:
    rows = [r for r in load() if r.profile == "wse-2"]
    predictions, quality, _ = leave_one_out(Hardware.load("wse-2"), rows)
    return Validation("left out", predictions, {"wse-2": quality})


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    done = run(capsys, *arguments)
    return done.code, done.out, done.err


def test_error_is_taken_on_the_larger_side() -> None:
    assert error(200.0, 100.0) == pytest.approx(1.0)
    assert error(100.0, 200.0) == pytest.approx(1.0)
    assert error(120.0, 120.0) == 0.0


def test_wafer_measurements_are_fitted_within_three_per_cent(wse2: Validation) -> None:
    assert wse2.fits["wse-2"]["rows"] == 9.0
    assert wse2.fits["wse-2"]["rms_error"] <= 0.03


def test_a_left_out_wafer_model_between_the_others_is_within_six_per_cent(
    wse2: Validation,
) -> None:
    between = [p for p in wse2.predictions if "waferllm-llama2-13b-" in p.id]
    assert len(between) == 3
    assert max(p.error for p in between) <= 0.06


def test_end_to_end_rows_are_shown_and_not_counted(wse2: Validation) -> None:
    assert len(wse2.predictions) == 11
    assert len(wse2.counted) == 9
    assert wse2.summary["coverage90"] >= 0.85


def test_wafer_constants_carry_over_to_the_next_generation() -> None:
    found = transfer(Hardware.load("wse-2"), Hardware.load("wse-3"), usable_rows())
    assert found is not None
    assert {r["id"] for r in found["rows"]} >= {
        "cs3-llama3.1-8b-2024-08",
        "cs3-llama3.1-70b-2024-08",
    }
    assert found["worst_abs_error"] <= 0.25


def usable_rows() -> list:
    return usable(load(), Hardware.names())[0]


def test_left_out_models_are_predicted(wse3: Validation) -> None:
    # 25 rows of 10 models, mixtures of 2026 among them.
    assert wse3.summary["median_abs_error"] <= 0.25
    assert wse3.summary["coverage90"] >= 0.85
    assert 0.35 <= wse3.summary["coverage50"] <= 0.65


def test_better_than_half_of_the_better_naive_baseline(wse3: Validation) -> None:
    naive = min(b["median_abs_error"] for b in wse3.baselines.values())
    assert wse3.summary["median_abs_error"] <= 0.5 * naive


def test_roofline_by_hand(wse3: Validation) -> None:
    found = next(p for p in wse3.predictions if p.id == "cs3-llama3.1-8b-2024-08")
    embedding = 128_256 * 4096
    kv_bytes = 131_072 * 1500
    read_bytes = 2 * (8_030_261_248 - embedding + 4096) + kv_bytes
    assert found.baselines["roofline"] == pytest.approx(21e15 / read_bytes, rel=1e-9)


def test_constant_time_per_layer_by_hand(wse3: Validation) -> None:
    rows = {r.id: r for r in load()}
    layers = {r.architecture: load_model(r.architecture).layers for r in rows.values()
              if r.profile == "wse-3" and r.architecture}  # fmt: skip
    others = [rows[p.id] for p in wse3.predictions if rows[p.id].architecture != "llama-3.1-405b"]
    rate = np.exp(np.mean([np.log(r.tokens_per_s * layers[r.architecture]) for r in others]))
    found = next(p for p in wse3.predictions if p.id == "cs3-llama3.1-405b-2024-11")
    assert found.baselines["constant_per_layer"] == pytest.approx(rate / 126, rel=1e-9)


def test_rows_of_one_architecture_are_left_out_together(wse3: Validation) -> None:
    # Change what is said of one row: predictions of the same architecture must not move.
    rows = [r for r in load() if r.profile == "wse-3" and r.architecture]
    rows = [
        replace(r, tokens_per_s=4.0 * r.tokens_per_s) if r.id == "cs3-r1-distill-70b" else r
        for r in rows
        if r.architecture in ("llama-3.1-70b", "qwen3-32b")
    ]
    hardware = Hardware.load("wse-3")
    before, _, _ = leave_one_out(
        hardware,
        [replace(r, tokens_per_s=1500.0) if r.id == "cs3-r1-distill-70b" else r for r in rows],
        draws=500,
    )
    after, _, _ = leave_one_out(hardware, rows, draws=500)
    for old, new in zip(before, after, strict=True):
        if "70b" in old.id:
            assert new.predicted["p50"] == pytest.approx(old.predicted["p50"], rel=0.01)
        else:
            assert new.predicted["p50"] != old.predicted["p50"]


def test_test_rows_are_predicted_from_the_profile_as_it_stands() -> None:
    rows = [r for r in usable_rows() if r.id == "cs3-qwen3-32b-docs-1"]
    one, _ = predict_rows(rows, usable_rows())
    other, _ = predict_rows([replace(rows[0], tokens_per_s=1.0)], usable_rows())
    assert one[0].predicted == other[0].predicted
    fit = shipped_fit(Hardware.load("wse-3"))
    case = prepare_all(rows, fit.model.hardware)[0]
    assert one[0].predicted["p50"] == pytest.approx(
        float(np.exp(np.median(fit.draws(case, 8000, 0)))), rel=1e-9
    )


def test_coverage_by_model_counts_each_model_once() -> None:
    """A model with two rows counts as much as one with a single row."""
    rows = [r for r in usable_rows() if r.id in ("cs3-qwen3-32b-docs-1", "cs3-gpt-oss-120b")]
    # The same model once more at a speed that no architecture reaches.
    rows.append(replace(rows[0], id="too-fast", tokens_per_s=6e6))
    _, used = predict_rows(rows, usable_rows())
    found = validate_inverse(inverse_cases(used), samples=2048)
    assert found["models"] == 2
    for q in ("total_params", "active_params", "layers"):
        inside = {r["id"]: r[q]["inside90"] for r in found["rows"]}
        assert inside.pop("too-fast") is False
        one, other = (float(v) for v in inside.values())
        twice = float(found["rows"][0][q]["inside90"])
        assert found["coverage90"][q] == pytest.approx((one + other) / 3)
        assert found["coverage90_by_model"][q] == pytest.approx(
            (twice / 2 + (one + other - twice)) / 2
        )


def test_inverse_cases_carry_what_an_analyst_knows() -> None:
    rows = [r for r in usable_rows() if r.profile in ("wse-2", "wse-3")]
    _, used = predict_rows(rows, usable_rows())
    cases = {c.id: c for c in inverse_cases(used)}
    assert cases["cs3-llama3.1-70b-2024-08"].nodes == 4
    assert cases["cs3-llama3.1-70b-2024-08"].speculative is False
    assert cases["cs3-qwen3-32b-docs-1"].nodes is None
    assert not any(name.startswith("wse2-waferllm") for name in cases)


def test_inverse_knows_the_software_that_a_row_names_and_the_profile_lists() -> None:
    rows = [r for r in usable_rows() if r.id in ("b200x8-tilert-dsv3.2", "b200x8-dsr1-nomtp")]
    tilert = next(r for r in rows if r.software == "tilert")
    rows += [replace(tilert, id="unlisted", software="mine"),
             replace(tilert, id="assumed", software_assumed=True)]  # fmt: skip
    predictions, used = predict_rows(rows, usable_rows())
    cases = {c.id: c for c in inverse_cases(used)}
    assert {i: c.software for i, c in cases.items()} == {
        "b200x8-tilert-dsv3.2": "tilert",
        "b200x8-dsr1-nomtp": "tensorrt-llm 2025-03",
        "unlisted": None,
        "assumed": None,
    }
    assert {c.tokens_per_s for c in cases.values()} == {r.tokens_per_s for r in rows}
    assert cases["b200x8-tilert-dsv3.2"].question().softwares[0][0] == "tilert"
    listed = Hardware.load("b200").softwares(None)
    assert len(cases["unlisted"].question().softwares) == len(listed) > 5
    widths = {p.id: p.predicted["p95"] / p.predicted["p05"] for p in predictions}
    assert widths["unlisted"] > 1.3 * widths["b200x8-tilert-dsv3.2"]
    (said,) = [line for line in lines(Validation("by hand", predictions)) if "software" in line]
    assert said == "software taken from the date of the row: assumed tilert"


def test_command_on_a_test_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.yaml"
    path.write_text(TEST_ROWS, encoding="utf-8")
    code, out, err = _run(
        capsys, "validate", "--test", str(path), "--format", "json", "--no-inverse"
    )
    assert code == 0
    assert err == f"warning: {path}:19: observation 'nowhere' skipped: no hardware profile named\n"
    found = json.loads(out)
    assert set(found) >= {"rows", "summary", "baselines", "inverse", "transfer"}
    row = found["rows"][0]
    assert (row["id"], row["model"], row["observed"]) == ("scout", "Llama 4 Scout", 2600.0)
    p = row["predicted"]
    assert p["p05"] < p["p25"] < p["p50"] < p["p75"] < p["p95"]
    assert row["ratio"] == pytest.approx(2600.0 / p["p50"])
    assert set(found["summary"]) == {
        "median_abs_error",
        "worst_abs_error",
        "coverage50",
        "coverage90",
    }
    assert set(found["baselines"]) == {"roofline", "constant_per_layer"}


def test_coverage_below_the_floor_is_exit_code_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.yaml"
    path.write_text(TEST_ROWS.replace("2600", "26000"), encoding="utf-8")
    asked = ("validate", "--test", str(path), "--no-inverse")
    code, out, err = _run(capsys, *asked)
    assert code == 1
    assert "cover 0 % of the rows, less than the floor of 85 %" in err
    assert "(outside)" in out
    assert _run(capsys, *asked, "--floor", "0")[0] == 0


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("[]\n", ""),
        (TEST_ROWS.replace("wse-3", "WSE-3"), "no hardware profile 'WSE-3'; did you mean 'wse-3'?"),
        (TEST_ROWS.replace("confidence: low\n", "confidence: low\n  fitted: false\n", 1), ""),
    ],
    ids=["empty", "skipped", "shown"],
)
@pytest.mark.parametrize("only", [(), ("--hardware", "wse-3")])
def test_a_floor_is_not_held_by_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, warning: str, only: tuple
) -> None:
    path = tmp_path / "rows.yaml"
    path.write_text(text, encoding="utf-8")
    asked = ("validate", "--test", str(path), "--no-inverse", *only)
    code, _, err = _run(capsys, *asked)
    assert code == 1
    assert warning in err
    assert f"{path}: no row counts, so nothing is held against the floor of 85 %" in err
    code, _, err = _run(capsys, *asked, "--floor", "0")
    assert code == 0
    assert "no row counts" in err
    asked = ("validate", "--test", str(path), "--floor", "0", *only)
    code, _, err = _run(capsys, *asked, "--inverse-floor", "0.5")
    assert code == 1
    assert "inverse: no row enters it" in err


def test_inverse_below_its_floor_is_exit_code_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.yaml"
    # Six million tokens/s: no architecture reaches it, so that every truth is outside.
    path.write_text(TEST_ROWS.replace("2600", "6000000"), encoding="utf-8")
    asked = ("validate", "--test", str(path), "--floor", "0")
    assert _run(capsys, *asked)[0] == 0
    code, out, err = _run(capsys, *asked, "--inverse-floor", "0.5")
    assert code == 1
    for quantity in ("total_params", "active_params", "layers"):
        assert (
            f"of {quantity} hold the truth in 0 % of the rows, less than the floor of 50 %" in err
        )
    assert "1 row of 1 model\n" in out and "p95 / p05 none" in out


def test_floor_of_the_inverse_needs_the_inverse(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "validate", "--no-inverse", "--inverse-floor", "0.5")
    assert code == 2 and "--inverse-floor needs the inverse" in err


def test_wrong_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.yaml"
    path.write_text(TEST_ROWS.replace("batch:", "bach:", 1), encoding="utf-8")
    code, _, err = _run(capsys, "validate", "--test", str(path))
    assert code == 2 and "rows.yaml:7: unknown key 'bach'; did you mean 'batch'" in err


def test_fit_command_saves_a_profile_that_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    code, out, err = _run(capsys, "fit", "--hardware", "wse-2", "--save", str(path))
    assert code == 0
    assert "cycles_per_weight" in out
    assert f"saved {path}" in err
    saved, shipped = Hardware.read(path), Hardware.load("wse-2")
    assert np.asarray(saved.constants()[1]) == pytest.approx(shipped.constants()[1], rel=1e-3)


def test_page_is_what_the_command_writes(wse3: Validation) -> None:
    page = (DOCS / "validation.md").read_text(encoding="utf-8")
    table = {
        line.split(" | ")[0].removeprefix("| "): [
            c.strip() for c in line.strip().strip("|").split("|")
        ]
        for line in page.splitlines()
        if line.startswith("| cs3-")
    }
    assert set(table) == {p.id for p in wse3.predictions}
    for fresh in csv_rows(wse3)[1:]:
        written = table[fresh[0]]
        assert fresh[:4] == written[:4]
        for new, old in zip(fresh[4:7], written[4:7], strict=True):
            # Other processors and libraries round the fit a little differently.
            assert float(new.replace(",", "")) == pytest.approx(
                float(old.replace(",", "")), rel=0.05
            )
    median = re.search(r"error of the median prediction: median (\d+) %", page)
    assert median is not None
    assert float(median[1]) == pytest.approx(100 * wse3.summary["median_abs_error"], abs=2.0)
