"""What `archinfer solve` prints: the question as it was understood, conflicts, the map."""

import json
from pathlib import Path
from typing import Any

import pytest

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
