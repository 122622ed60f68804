"""`archinfer check`: expectations, margins, formats, and files that are wrong."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archinfer import catalogue, predict, solve
from archinfer.api.solving import question
from archinfer.checks.results import Remark, Report, Result
from archinfer.checks.run import check as run_checks
from archinfer.checks.schema import Check, Expect, read_check_file
from archinfer.cli.examples import example
from archinfer.errors import FileError
from archinfer.hardware.profile import Hardware
from archinfer.physics.decode import Z90
from archinfer.physics.deployment import Deployment
from archinfer.physics.speed import speed_at
from archinfer.report.checks import junit, margin_text, workflow_commands
from archinfer.solver.region import solve as solve_region
from tests.cli import run

pytestmark = pytest.mark.usefixtures("few_draws")

ROOT = Path(__file__).resolve().parent.parent

MODEL = """\
schema_version: 1
checks:
  - name: one
    model: llama-3.1-70b
    hardware: wse-3
    nodes: 4
    weights: bf16
    expect:
"""
SOLVE = """\
schema_version: 1
checks:
  - name: one
    solve: {hardware: wse-3, nodes: 88, tokens_per_second: 750, weights: fp8}
    expect:
"""


def results(folder: Path, text: str) -> tuple[Result, ...]:
    path = folder / "checks.yaml"
    path.write_text(text, encoding="utf-8")
    report = run_checks([path])
    assert not report.errors, report.errors
    return report.results


def one(folder: Path, text: str) -> Result:
    (result,) = results(folder, text)
    return result


# Llama 3.1 70B: 70,553,706,496 parameters (the published checkpoint) at two bytes; 80 layers of
# 8 KV heads of 128, K and V at two bytes, for 8,000 tokens; activations are a few MB.
LLAMA_BYTES = 70_553_706_496 * 2 + 8_000 * 80 * 8 * 128 * 2 * 2


@pytest.mark.parametrize(("factor", "holds"), [(1.001, True), (0.999, False)])
def test_memory_against_the_count_by_hand(tmp_path: Path, factor: float, holds: bool) -> None:
    limit = LLAMA_BYTES * factor
    found = one(tmp_path, MODEL + f"      memory: {{at_most: {limit / 1e9} GB}}\n")
    assert found.passed is holds
    assert found.margin == pytest.approx(1.0 - 1.0 / factor, abs=2e-4)


@pytest.mark.parametrize(("limit", "holds", "margin"), [(4, True, 0.0), (5, True, 0.2),
                                                        (3, False, -1 / 3)])  # fmt: skip
def test_nodes_against_wafers_by_hand(
    tmp_path: Path, limit: int, holds: bool, margin: float
) -> None:
    """143.7 GB in 40 GB of usable SRAM a wafer, 20 layers each: four wafers, not three."""
    found = one(tmp_path, MODEL + f"      nodes: {{at_most: {limit}}}\n")
    assert found.passed is holds
    assert found.margin == pytest.approx(margin)
    assert "4 wafers hold it" in found.message


@pytest.mark.parametrize("confidence", [0.05, 0.3, 0.5, 0.9, 0.95, 0.99])
def test_speed_at_a_confidence_is_the_log_normal_quantile(
    tmp_path: Path, confidence: float
) -> None:
    hardware = Hardware.load("wse-3")
    speed = predict(
        catalogue.load("llama-3.1-70b"), hardware, Deployment(nodes=4, weights="bf16")
    ).speed
    low, middle, _ = (float(v) for v in speed)
    sd = math.log(middle / low) / Z90
    by_hand = middle * math.exp(-NormalDist().inv_cdf(confidence) * sd)
    for factor, holds in ((0.999, True), (1.001, False)):
        text = f"{{at_least: {by_hand * factor!r}, confidence: {confidence!r}}}"
        plain = MODEL.replace("    weights", "    speculation: 1\n    weights")
        found = one(tmp_path, plain + f"      tokens_per_s: {text}\n")
        assert found.passed is holds
        assert found.margin == pytest.approx(1.0 / factor - 1.0, rel=1e-3)


@pytest.mark.parametrize("confidence", ["50 %", "90 %"])
@pytest.mark.parametrize("speculation", ["1", "1:3", "2:3"])
@pytest.mark.parametrize("target", [400, 600, 800, 1000, 1185, 1500, 2000, 2500])
def test_a_speed_at_a_confidence_is_the_same_of_a_model_and_of_a_solve(
    tmp_path: Path, confidence: str, speculation: str, target: int
) -> None:
    totals = "{total: 1.03T, active: 32.9B, layers: 61}"
    asked = f"hardware: wse-3, nodes: 31, weights: fp8, speculation: '{speculation}'"
    head = "schema_version: 1\nchecks:\n  - name: one\n"
    known = one(
        tmp_path,
        f"{head}    model: {totals}\n    {asked.replace(', ', chr(10) + '    ')}\n"
        f"    expect: {{tokens_per_s: {{at_least: {target}, confidence: {confidence}}}}}\n",
    )
    solved = one(
        tmp_path,
        f"{head}    solve: {{{asked}, tokens_per_second: {target}, confidence: {confidence}}}\n"
        f"    expect: {{contains: {totals}}}\n",
    )
    assert known.passed is solved.passed


@given(st.floats(1.0, 17.0), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_more_confidence_is_never_a_higher_speed(gained: float, one: float, other: float) -> None:
    model = predict("llama-3.1-70b", "wse-3", nodes=4, speculation=gained)
    low, high = (NormalDist().inv_cdf(p) for p in sorted((one, other)))

    def at(z: float) -> float:
        return float(speed_at(model.hardware, model.time, gained, z))

    assert at(low) >= at(high) * (1 - 1e-12)
    for p, value in zip((0.95, 0.5, 0.05), model.speed, strict=True):
        assert at(NormalDist().inv_cdf(p)) == pytest.approx(value)


@pytest.mark.parametrize(("nodes", "fits"), [(4, True), (3, False)])
@pytest.mark.parametrize("expected", [True, False])
def test_feasible_of_a_model(tmp_path: Path, nodes: int, fits: bool, expected: bool) -> None:
    text = MODEL.replace("nodes: 4", f"nodes: {nodes}") + f"      feasible: {expected}\n".lower()
    found = one(tmp_path, text)
    assert found.passed is (fits is expected)
    assert found.margin is not None
    assert (found.margin > 0.0) is found.passed


def test_a_model_that_does_not_fit_has_no_speed(tmp_path: Path) -> None:
    text = MODEL.replace("nodes: 4", "nodes: 3") + "      tokens_per_s: {at_least: 1}\n"
    found = one(tmp_path, text)
    assert not found.passed
    assert found.margin == -1.0
    assert "does not fit" in found.message


def test_without_nodes_the_fewest_are_taken(tmp_path: Path) -> None:
    text = MODEL.replace("    nodes: 4\n", "") + "      feasible: true\n"
    assert "on 4 wafers" in one(tmp_path, text).message


POINTS = [
    {"total": 1e12}, {"total": 3.9e12}, {"active": 1e9}, {"active": 5e12}, {"layers": 88},
    {"layers": 500}, {"total": 3e12, "active": 150e9}, {"total": 3e12, "active": 10e9},
    {"total": 3e12, "active": 150e9, "layers": 88}, {"total": 3e12, "active": 150e9, "layers": 60},
    {"total": 1e11, "active": 1.2e11},
]  # fmt: skip


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_contains_and_excludes_against_samples_of_the_region(
    tmp_path: Path, point: dict[str, float]
) -> None:
    written = ", ".join(f"{k}: {v:g}" for k, v in point.items())
    contains, excludes = results(
        tmp_path, SOLVE + f"      contains: {{{written}}}\n      excludes: {{{written}}}\n"
    )
    assert contains.passed is not excludes.passed
    assert contains.message == excludes.message
    if contains.margin is not None:
        assert excludes.margin == -contains.margin
        assert contains.passed is (contains.margin >= 0.0)
    region = solve_region(question("wse-3", 88, 750, weights="fp8"))
    rng = np.random.default_rng(5)
    n = 200_000
    active = point.get("active", np.exp(rng.uniform(np.log(1e8), np.log(4e12), n)))
    active = np.broadcast_to(active, n)
    total = np.broadcast_to(point.get("total", active * np.exp(rng.uniform(0, np.log(32), n))), n)
    layers = np.broadcast_to(point.get("layers", rng.integers(1, 200, n)), n)
    inside = region.contains(total, active, layers, np.full(n, 88.0), "fp8")
    assert bool(inside.any()) is contains.passed


def test_values_outside_what_the_question_allows_are_not_contained(tmp_path: Path) -> None:
    text = SOLVE.replace("weights: fp8", "weights: fp8, total: '1T:2T'")
    found = one(tmp_path, text + "      contains: {total: 3T}\n")
    assert not found.passed
    assert found.margin == pytest.approx(1 - 3 / 2, abs=1e-6)


def test_feasible_solve_margin_is_the_speed_to_spare(tmp_path: Path) -> None:
    text = SOLVE.replace("nodes: 88", "nodes: 88, layers: 88, total: 3T, active: 150B")
    found = one(tmp_path, text + "      feasible: true\n")
    assert found.passed and found.margin is not None
    fastest = 750 * (1 + found.margin)
    for factor, feasible in ((0.999, True), (1.001, False)):
        answer = solve("wse-3", 88, fastest * factor, weights="fp8", layers=88, total=3e12,
                       active=150e9, architectures=0)  # fmt: skip
        assert answer.feasible is feasible
    slower = one(tmp_path, text.replace("750", "7500") + "      feasible: false\n")
    assert slower.passed
    assert slower.margin == pytest.approx(1 - fastest / 7500, rel=1e-6)


def test_observed_solve(tmp_path: Path) -> None:
    text = SOLVE.replace("tokens_per_second", "observed") + "      feasible: true\n"
    found = one(tmp_path, text)
    assert found.passed and found.margin is None


def test_totals_are_the_family(tmp_path: Path) -> None:
    text = MODEL.replace("llama-3.1-70b", "{total: 3T, active: 150B, layers: 88}")
    text = text.replace("nodes: 4", "nodes: 88").replace("bf16", "fp8")
    taken, fits = results(tmp_path, text + "      memory: {at_most: 1 TB}\n      feasible: true\n")
    assert fits.passed and not taken.passed
    # 3 TB of weights, 8,000 tokens of KV cache (8 heads of 128), a few MB of activations.
    by_hand = 3e12 + 8000 * 88 * 2 * 8 * 128 * 2
    assert 1 - taken.margin == pytest.approx(by_hand / 1e12, rel=1e-3)


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repo" / "checks").mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    profile = (ROOT / "hardware" / "wse-3.yaml").read_text(encoding="utf-8")
    (tmp_path / "repo" / "mine.yaml").write_text(profile, encoding="utf-8")
    config = catalogue.entry("llama-3.1-8b").config
    (tmp_path / "repo" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.chdir(tmp_path / "repo" / "checks")
    text = (
        "schema_version: 1\nchecks:\n  - name: a\n    model: ../config.json\n"
        "    hardware: ../mine.yaml\n    nodes: 1\n    weights: bf16\n"
        "    expect: {feasible: true}\n  - {name: b, lint: ../mine.yaml}\n"
    )
    assert all(r.passed for r in results(tmp_path / "repo" / "checks", text))
    outside = tmp_path / "mine.yaml"
    outside.write_text(profile, encoding="utf-8")
    path = tmp_path / "repo" / "checks" / "checks.yaml"
    path.write_text(text.replace("../mine.yaml\n    nodes", "../../mine.yaml\n    nodes"))
    (error,) = run_checks([path]).errors
    assert error.line == 5
    assert "leads outside" in error.message


def test_lines_are_those_of_the_expectations(tmp_path: Path) -> None:
    text = MODEL + "      feasible: true\n      nodes: {at_most: 1}\n  - name: two\n    lint: no\n"
    found = results(tmp_path, text)
    assert [(r.name, r.expectation, r.line) for r in found] == [
        ("one", "feasible", 9), ("one", "nodes", 10), ("two", "lint", 12),
    ]  # fmt: skip
    assert [r.passed for r in found] == [True, False, False]


def test_a_profile_that_does_not_lint_fails_with_its_line(tmp_path: Path) -> None:
    profile = (ROOT / "hardware" / "wse-3.yaml").read_text(encoding="utf-8")
    (tmp_path / "bad.yaml").write_text(profile.replace("44 GB", "44 GX"), encoding="utf-8")
    found = one(tmp_path, "schema_version: 1\nchecks:\n  - {name: a, lint: bad.yaml}\n")
    assert not found.passed
    assert "bad.yaml:" in found.message and "44 GX" in found.message


# The command


GOOD = MODEL + "      feasible: true\n"
BAD = MODEL + "      nodes: {at_most: 1}\n"


def test_exit_codes_and_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, wrong = (str(tmp_path / f"{name}.yaml") for name in ("good", "bad", "wrong"))
    Path(good).write_text(GOOD)
    Path(bad).write_text(BAD)
    Path(wrong).write_text(GOOD.replace("hardware:", "hardwear:"))
    holds = run(capsys, "check", good)
    assert holds.code == 0 and not holds.err
    assert holds.out.splitlines()[-1] == "1 passed, 0 failed"
    fails = run(capsys, "check", good, bad)
    assert fails.code == 1 and not fails.err
    assert [line[:4] for line in fails.out.splitlines()] == ["PASS", "FAIL", "1 pa"]
    assert f"{bad}:9" in fails.out and "margin -300 %" in fails.out
    broken = run(capsys, "check", good, wrong)
    assert broken.code == 2
    assert broken.err.startswith(f"error: {wrong}:5: unknown key") and "hardware" in broken.err
    assert broken.err.count("\n") == 1
    assert "1 passed, 0 failed, 1 file wrong" in broken.out
    assert run(capsys, "check").code == 2
    assert run(capsys, "check", "--lint", good, bad).code == 0
    assert run(capsys, "check", "--lint", wrong).code == 2
    strange = tmp_path / "strange.yaml"
    strange.write_text(GOOD.replace("wse-3", "wse-33"))
    done = run(capsys, "check", "--lint", str(strange))
    assert done.code == 2 and "did you mean 'wse-3'" in done.err


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(GOOD + "      nodes: {at_most: 1}\n")
    found = json.loads(run(capsys, "check", str(path), "--format", "json").out)
    assert (found["passed"], found["failed"]) == (1, 1)
    assert found["errors"] == found["warnings"] == []
    assert found["results"][1]["file"] == str(path)
    assert found["results"][1]["line"] == 10
    assert found["results"][1]["margin"] == -3.0


HOSTILE = 'a <&"> b, c: d %\n::error::x\r\x00\ufffe'
REPORT = Report(
    (
        Result("good", "nodes", "a.yaml", 3, True, "fine", 0.25),
        Result(HOSTILE, "memory", "a,b:c%.yaml", 4, False, HOSTILE, -0.5),
    ),
    (Remark("wrong.yaml", 7, "unknown key"), Remark("gone.yaml", None, "no such file")),
)


def test_junit_is_well_formed_and_counts() -> None:
    root = ElementTree.fromstring(junit(REPORT))
    assert root.tag == "testsuites"
    assert root.attrib | {"tests": "4", "failures": "1", "errors": "2"} == root.attrib
    suites = root.findall("testsuite")
    assert [s.attrib["name"] for s in suites] == [
        "a.yaml", "a,b:c%.yaml", "wrong.yaml", "gone.yaml",
    ]  # fmt: skip
    for suite in suites:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error"))
        assert all({"name", "classname", "time"} <= set(c.attrib) for c in cases)
    (failure,) = root.iter("failure")
    assert failure.attrib["type"] == "memory"
    assert 'a <&"> b, c: d %' in failure.attrib["message"]
    assert "-50 %" in failure.attrib["message"]
    assert [e.attrib["message"] for e in root.iter("error")] == ["unknown key", "no such file"]


def test_workflow_commands_are_escaped() -> None:
    lines = list(workflow_commands(REPORT))
    assert len(lines) == 4
    assert not any("\n" in line or "\r" in line for line in lines)
    title, message = lines[0].split("::", 2)[1:]
    assert title.startswith(
        'error file=a%2Cb%3Ac%25.yaml,line=4,title=a <&"> b%2C c%3A d %25%0A%3A'
    )
    assert message.startswith('a <&"> b, c: d %25%0A::error::x%0D')
    assert lines[1] == "::error file=wrong.yaml,line=7,title=archinfer check::unknown key"
    assert lines[2] == "::error file=gone.yaml,title=archinfer check::no such file"
    assert lines[3] == "1 passed, 1 failed, 2 files wrong"


@pytest.mark.parametrize(("margin", "text"), [(None, ""), (0.0, "+0 %"), (-0.1234, "-12.3 %"),
                                              (28.64, "+2,864 %"),
                                              (-143.0, "144 times the limit")])  # fmt: skip
def test_margin_text(margin: float | None, text: str) -> None:
    assert margin_text(margin) == text


def test_the_example_passes_and_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "check", "--init").code == 0
    written = Path("archinfer-checks.yaml").read_text(encoding="utf-8")
    assert written.count("#") > 10
    done = run(capsys, "check", "archinfer-checks.yaml")
    assert done.code == 0, done.out
    again = run(capsys, "check", "--init")
    assert again.code == 2 and "exists already" in again.err
    assert Path("archinfer-checks.yaml").read_text(encoding="utf-8") == written
    assert run(capsys, "check", "--init", "mine.yaml").code == 0
    assert run(capsys, "check", "--init", "no/such/folder.yaml").code == 2
    assert run(capsys, "check", "--init", "a.yaml", "b.yaml").code == 2


def test_the_projects_own_checks_hold(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    files = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "tests/checks").glob("*.yaml"))
    done = run(capsys, "check", *files)
    assert done.code == 0, done.out
    for name in Hardware.names():
        assert f"{name} [lint]" in done.out


# Files that are wrong: one line, exit code 2, no traceback


def swap(old: str, new: str, text: str = GOOD) -> Callable[[], bytes]:
    assert old in text, old
    return lambda: text.replace(old, new, 1).encode()


def add(more: str, text: str = GOOD) -> Callable[[], bytes]:
    return lambda: (text + more).encode()


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)
SOLVED = SOLVE + "      feasible: true\n"
EXPECT = GOOD.index("    expect:")

WRONG: dict[str, tuple[Callable[[], bytes], int | None, str]] = {
    "wrong unit": (add("      memory: {at_most: 3 GX}\n"), 10, "expected a quantity in bytes"),
    "unit of another kind": (add("      memory: {at_most: 3 GB/s}\n"), 10, "found '3 GB/s'"),
    "no unit": (add("      memory: {at_most: 3}\n"), 10, "expected a quantity in bytes"),
    "negative": (swap("nodes: 4", "nodes: -4"), 6, "found -4"),
    "zero": (swap("nodes: 4", "nodes: 0"), 6, "expected a whole number between 1 and 100,000"),
    "half a node": (swap("nodes: 4", "nodes: 4.5"), 6, "expected a whole number"),
    "confidence over one": (add("      tokens_per_s: {at_least: 1, confidence: 100 %}\n"), 10,
                            "expected between 1 % and 99 %"),
    "NaN": (swap("nodes: 4", "nodes: .nan"), 6, "finite"),
    "infinity": (swap("nodes: 4", "nodes: .inf"), 6, "finite"),
    "boolean for a number": (swap("nodes: 4", "nodes: true"), 6, "found true"),
    "text for a boolean": (swap("feasible: true", "feasible: perhaps"), 9, "'perhaps'"),
    "nothing": (swap("nodes: 4", "nodes:"), 6, "found nothing, expected a value"),
    "missing hardware": (swap("    hardware: wse-3\n", ""), 3, "missing key 'hardware'"),
    "missing name": (swap("name: one\n    ", ""), 3, "missing key 'name'"),
    "missing expect": (lambda: GOOD[:EXPECT].encode(), 3, "missing key 'expect'"),
    "missing bound": (add("      nodes: {}\n"), 10, "missing key 'at_most'"),
    "missing version": (swap("schema_version: 1\n", ""), 1, "missing key 'schema_version'"),
    "no subject": (swap("    model: llama-3.1-70b\n", ""), 3, "missing one of 'model'"),
    "two subjects": (swap("    expect:", "    lint: wse-3\n    expect:"), 8, "'model' and 'lint'"),
    "totals without a format": (
        swap("    weights: bf16\n", "",
             GOOD.replace("llama-3.1-70b", "{total: 2T, active: 1T, layers: 8}")),
        3, "missing key 'weights'"),
    "active over total": (swap("llama-3.1-70b", "{total: 1T, active: 2T, layers: 8}"), 4,
                          "more than 'total'"),
    "typo in a key": (swap("nodes: 4", "noodes: 4"), 6, "did you mean 'nodes'"),
    "typo in an expectation": (swap("feasible: true", "feasable: true"), 9,
                               "did you mean 'feasible'"),
    "typo in a model": (swap("llama-3.1-70b", "llama-3.1-7b"), 4, "did you mean"),
    "typo in totals": (swap("llama-3.1-70b", "{totl: 1T, active: 1B, layers: 8}"), 4,
                       "did you mean 'total'"),
    "typo in a profile": (swap("wse-3", "wsee-3"), 5, "did you mean 'wse-3'"),
    "opposite bound": (add("      memory: {at_least: 2 TB}\n"), 10, "(known: at_most)"),
    "negative bound": (add("      memory: {at_most: -2 TB}\n"), 10, "a negative number; expected"),
    "typo in a format": (swap("bf16", "bf17"), 7, "did you mean 'bf16'"),
    "unknown section": (add("more: 1\n"), 10, "unknown key 'more'"),
    "expectation of a solve": (add("      contains: {total: 1T}\n"), 10, "no meaning with 'model'"),
    "expectation of a model": (add("      nodes: {at_most: 1}\n", SOLVED), 7,
                               "no meaning with 'solve'"),
    "deployment beside a solve": (swap("    expect:", "    context: 8k\n    expect:", SOLVED), 5,
                                  "belongs under 'solve'"),
    "target and measurement": (swap("weights: fp8", "observed: 5", SOLVED), 4, "one of them"),
    "neither": (swap("tokens_per_second: 750, ", "", SOLVED), 4, "missing one of"),
    "range upside down": (swap("nodes: 88", "nodes: '90:80'", SOLVED), 4, "above the high end"),
    "open range of nodes": (swap("nodes: 88", "nodes: '80.5:'", SOLVED), 4, "whole number"),
    "habit with physics only": (
        swap("weights: fp8", "sparsity: '1:8', physics_only: true", SOLVED), 4, "habit of design"),
    "price without a price": (
        swap("weights: fp8", "max_price: 1 USD/h", SOLVED.replace("wse-3", "liminal-hbm3")), 4,
        "states no price"),
    "empty point": (add("      contains: {}\n", SOLVED), 7, "expected one of total"),
    "nothing expected": (swap("expect:\n      feasible: true", "expect: {}"), 8,
                         "nothing is expected"),
    "name twice": (add("  - {name: one, lint: wse-3}\n"), 10, "is taken (line 3)"),
    "no checks": (lambda: b"schema_version: 1\nchecks: []\n", 2,
                  "key 'checks': found an empty list, expected at least 1 entry"),
    "a very long name": (swap("name: one", f"name: {'a' * 5000}"), 3,
                         "which is 5000 characters, expected at most 2000"),
    "a list": (lambda: b"- 1\n", 1, "expected a mapping"),
    "duplicated key": (swap("nodes: 4", "nodes: 4\n    nodes: 5"), 7, "duplicate key 'nodes'"),
    "tab": (swap("    nodes", "\tnodes"), 6, "a tab"),
    "byte-order mark": (lambda: b"\xef\xbb\xbf" + GOOD.encode(), 1, "byte-order mark"),
    "CRLF": (lambda: GOOD.replace("\n", "\r\n").encode(), 1, "CRLF"),
    "UTF-16": (lambda: GOOD.encode("utf-16"), 1, "UTF-16"),
    "Latin-1": (lambda: GOOD.replace("one", "e\u00efns").encode("latin-1"), 3, "not UTF-8"),
    "10 MB of nesting": (lambda: b"[" * 10_000_000, None, "expected at most 1000000"),
    "nesting": (lambda: b"[" * 100_000, 1, "nest"),
    "alias bomb": (lambda: BOMB.encode(), 1, "anchors are not supported"),
    "python object": (swap("4\n", "!!python/object/apply:os.system ['true']\n"), 6,
                      "tags are not supported"),
    "empty": (lambda: b"", None, "is empty"),
    "comments only": (lambda: b"# nothing\n", None, "is empty"),
    "profile outside": (swap("wse-3", "../../../../etc/hosts.yaml"), 5, "leads outside"),
    "model outside": (swap("llama-3.1-70b", "../../../../etc/config.json"), 4, "leads outside"),
    "absolute path": (swap("wse-3", "/etc/hosts.yaml"), 5, "leads outside"),
    "no such profile": (swap("wse-3", "./no.yaml"), 5, "no such file"),
    "no such config": (swap("llama-3.1-70b", "./no.json"), 4, "no such file"),
    "a folder as profile": (swap("wse-3", "./"), 5, "is a directory"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_one_clear_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, line, said = WRONG[case]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "checks.yaml"
    path.write_bytes(made())
    done = run(capsys, "check", str(path))
    assert done.code == 2
    assert said in done.err
    assert done.err.startswith(f"error: {path}:{line}: " if line else f"error: {path}"), done.err
    # A bound of the wrong name is unknown, and the one that was meant is missing.
    assert done.err.count("\n") == 1 + (case == "opposite bound")
    assert "Traceback" not in done.err + done.out


def test_all_faults_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "checks.yaml"
    one = "- {name: %s, model: %s, hardware: %s, expect: {feasible: true}}\n"
    text = "schema_version: 1\nchecks:\n" + one % ("a", "no-model", "wse-3")
    path.write_text(text + one % ("b", "llama-3.1-70b", "no-machine"), encoding="utf-8")
    done = run(capsys, "check", str(path))
    said = [line.split(": ")[1:3] for line in done.err.splitlines()]
    assert [where for where, _ in said] == [f"{path}:3", f"{path}:4"] and done.code == 2
    path.write_text(text.replace("a,", "a, bogus: 1, nodse: 2,"), encoding="utf-8")
    done = run(capsys, "check", str(path))
    assert done.err.count(f"error: {path}:3: unknown key 'checks.0.") == 2


def test_no_file_a_folder_and_unreadable_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    os.mkfifo(tmp_path / "pipe.yaml")
    for path, said in (
        (tmp_path / "no.yaml", "no such file"),
        (tmp_path, "is a directory"),
        (loop, "cannot be read"),
        (tmp_path / "pipe.yaml", "is not a regular file"),
    ):
        done = run(capsys, "check", str(path))
        assert done.code == 2
        assert done.err.count("\n") == 1 and said in done.err


def test_reading_gives_si_units(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(SOLVE.replace("weights: fp8", "weights: 'bf16, fp8', context: 128k, "
                                  "total: '2T:', max_power: 2 MW")
                    + "      feasible: true\n")  # fmt: skip
    file, document = read_check_file(path)
    asked = file.checks[0].solve
    assert asked is not None
    assert asked.nodes == (88.0, 88.0)
    assert asked.weights == ("bf16", "fp8")
    assert asked.context == 128_000
    assert asked.total == (2e12, math.inf)
    assert asked.max_power == 2e6
    assert document.line_of(("checks", 0, "solve", "nodes")) == 4


def test_the_page_shows_the_example_and_every_key() -> None:
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    assert example("checks-example.yaml", "archinfer-checks.yaml") in page
    for model in (Check, Expect):
        assert all(f"`{key}" in page for key in model.model_fields if key not in ("name", "expect"))


def test_what_to_know_of_a_model_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown family that is shaped like Llama is counted, and said to be a guess."""
    monkeypatch.chdir(tmp_path)
    config = dict(catalogue.entry("llama-3.1-8b").config)
    config |= {"model_type": "brand_new", "architectures": ["BrandNewForCausalLM"]}
    Path("config.json").write_text(json.dumps(config))
    Path("c.yaml").write_text(GOOD.replace("llama-3.1-70b", "config.json"))
    done = run(capsys, "check", "c.yaml")
    assert done.code == 0
    said = done.err.splitlines()
    assert said[0].startswith("warning: c.yaml:4: ") and "brand_new" in said[0]
    assert len(set(said)) == len(said) == 2
    shown = run(capsys, "check", "c.yaml", "--format", "github").out
    assert shown.startswith("::warning file=c.yaml,line=4,")


@given(
    st.integers(0, 10**6),
    st.sampled_from(["", " ", "\n", "- ", ": ", "{", "]", "x", "1e9", "é"]),
    st.integers(0, 12),
)
def test_whatever_is_written_is_read_or_refused(at: int, more: str, cut: int) -> None:
    """One edit anywhere in the example: it still reads, or one line says why not."""
    text = example("checks-example.yaml", "c.yaml")
    place = at % len(text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.yaml"
        path.write_text(text[:place] + more + text[place + cut :], encoding="utf-8")
        try:
            read_check_file(path)
        except FileError as error:
            assert "\n" not in str(error)
            assert str(error).startswith(f"{path}:")
