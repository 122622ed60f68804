"""What the commands print: the question as it was understood, conflicts, warnings, tables, maps."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from archinfer import solve
from tests.cli import run

QUICK = ("--architectures", "0")


def flat(text: str) -> str:
    """The words, however the terminal broke them into lines."""
    return " ".join(text.split())


OPTIONS: list[tuple[list[str], str, str, Any]] = [
    (["--confidence", "90%"], "a probability of 90 %", "confidence", pytest.approx(0.9)),
    (["--sparsity", "2:16"], "total / active 2 to 16", "sparsity", [2.0, 16.0]),
    (["--sparsity", "2:"], "total / active at least 2", "sparsity", [2.0, None]),
    (["--max-power", "2.5 MW"], "at most 2.5 MW", "max_power_w", 2.5e6),
    (["--throughput", "1k"], "at least 1,000 tokens/s over all", "throughput_tokens_per_s", 1e3),
    (
        ["--max-price", "90 USD/h", "--set", "price.rent=1 USD/h"],
        "at most 90 USD/h",
        "max_price_per_hour",
        90.0,
    ),
    (["--mapping", "pp=44"], "mapping tp=1,pp=44", "mapping", "tp=1,pp=44"),
    (["--set", "link.latency=2 us"], "= 2 us (set by hand)", "overrides", ["link.latency = 2 us"]),
    (["--layers", "60:90"], "layers 60 to 90", "layers", [60.0, 90.0]),
]


@pytest.mark.parametrize(("given", "words", "key", "value"), OPTIONS)
def test_what_was_asked_is_said(
    given: list[str], words: str, key: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    said = flat(run(capsys, "solve", *QUICK, *given).out)
    assert words in said.partition(" Feasible")[0]
    document = json.loads(run(capsys, "solve", *QUICK, *given, "--format", "json").out)
    assert document["question"][key] == value


def test_what_was_not_asked_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    header = flat(run(capsys, "solve", *QUICK).out).partition(" Feasible")[0]
    for words in ("probability", "total / active", "at most", "over all users", "mapping"):
        assert words not in header
    question = json.loads(run(capsys, "solve", *QUICK, "--format", "json").out)["question"]
    assert question["confidence"] == 0.5
    assert question["sparsity"] == [1.0, 32.0]
    for key in ("throughput_tokens_per_s", "max_power_w", "max_price_per_hour", "mapping"):
        assert question[key] is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--speculation", "0.5"], "from 1 (nothing drafted) to 17"),
        (["--speculation", "0.1:100"], "from 1 (nothing drafted) to 17"),
        (["--speculation", "1:18"], "found 1:18"),
        (["--observed", "750", "--confidence", "90%"], "--confidence: goes with a target"),
    ],
)
def test_wrong_input_is_one_line(
    given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "solve", *QUICK, *given)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.strip().splitlines()
    assert line.startswith(f"error: {given[-2]}") and words in line


def test_a_calibration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = Path("tests/fixtures/profile.yaml").read_text()
    assert "calibration:" not in shipped
    measured = tmp_path / "host.yaml"
    measured.write_text(
        shipped + "calibration: {evenness: 0.9, chain: {dense: 10, moe: 13}, "
        "bandwidth_fraction: 0.5, model_error: 0.1, source: made up}\n"
    )
    given = ["solve", *QUICK, "--calibration", str(measured)]
    assert f"measured figures of {measured}" in "".join(run(capsys, *given).out.split("\n"))
    document = json.loads(run(capsys, *given, "--format", "json").out)
    assert document["question"]["calibration"] == str(measured)


def test_nothing_feasible_gives_null_for_each_quantity(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "solve", "--total", "20T", "--format", "json")
    found = json.loads(done.out)
    assert found["feasible"] is False
    assert found["ranges"] == dict.fromkeys(("total_params", "active_params", "layers", "nodes"))
    assert done.code == 0


PAIRS = [
    {"hardware": "b200", "nodes": 4, "tokens_per_second": 2000.0, "total": (3e12, math.inf)},
    {"hardware": "wse-3", "nodes": 88, "tokens_per_second": 3000.0, "total": (20e12, math.inf)},
]


@pytest.mark.parametrize("asked", PAIRS)
def test_two_that_give_together_open_the_region(asked: dict[str, Any]) -> None:
    asked = {"active": 150e9, "architectures": 0, **asked}
    conflict = solve(**asked).conflict
    assert conflict is not None
    (pair,) = [r for r in conflict.relaxations if r.constraints == ("speed", "total asked")]
    speed, total = pair.factors
    assert min(pair.factors) > 1.0 and math.isnan(pair.factor)

    def opens(speed: float, total: float) -> bool:
        least = asked["total"][0] / total
        changed = {"tokens_per_second": asked["tokens_per_second"] / speed}
        return solve(**{**asked, **changed, "total": (least, math.inf)}).feasible

    assert opens(1.001 * speed, 1.001 * total)
    # Whatever the other gives, neither may give much less than the least of its own.
    (least_speed,) = [float(x) for x in re.findall(r"would need ([\d.]+) of them", pair.text)]
    assert not opens(0.995 * least_speed / 3.0, 1e6)
    assert speed >= 0.995 * least_speed / 3.0
    # The larger of the two is as small as can be.
    largest = max(pair.factors)
    assert not opens(0.97 * largest, 0.97 * largest)


def test_one_that_gives_alone_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "solve", "--observed", "30000", "--layers", "61")
    assert "only this constraint, relaxed alone, would open the region" in flat(done.out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "llama-3.1-70b", "--hardware", "b200", "--mapping", "tp=7"], "64 heads"),
        (["compare", "qwq-32b", "--hardware", "b200", "--mapping", "tp=16"], "40 heads"),
        (
            ["solve", "--hardware", "b200", "--nodes", "7", "--mapping", "tp=7",
             "--tokens-per-second", "60"],
            " or 64 or ",
        ),
    ],
)  # fmt: skip
def test_heads_that_do_not_divide_by_the_group_are_warned_of(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, *words)
    (line,) = done.err.strip().splitlines()
    assert done.code == 0
    assert line.startswith("warning: ") and said in line and "do not divide by tp=" in line


def test_heads_that_divide_are_not_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "predict", "llama-3.1-70b", "--hardware", "b200", "--mapping", "tp=8")
    assert (done.code, done.err) == (0, "")
