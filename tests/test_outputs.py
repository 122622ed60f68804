"""What the commands print: the question as it was understood, conflicts, warnings, tables, maps."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from archinfer import Hardware, solve
from archinfer.fitting.observations import load, usable
from tests.cli import run

pytestmark = pytest.mark.usefixtures("few_draws")

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


@pytest.mark.parametrize(("options", "words", "key", "value"), OPTIONS)
def test_what_was_asked_is_said(
    options: list[str], words: str, key: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    said = flat(run(capsys, "solve", *QUICK, *options).out)
    assert words in said.partition(" Ranges, and")[0]
    document = json.loads(run(capsys, "solve", *QUICK, *options, "--format", "json").out)
    assert document["question"][key] == value


def test_what_was_not_asked_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    header = flat(run(capsys, "solve", *QUICK).out).partition(" Ranges, and")[0]
    for words in ("probability", "total / active", "at most", "over all users", "mapping"):
        assert words not in header
    question = json.loads(run(capsys, "solve", *QUICK, "--format", "json").out)["question"]
    assert question["confidence"] == 0.5
    assert question["sparsity"] == [1.0, 32.0]
    for key in ("throughput_tokens_per_s", "max_power_w", "max_price_per_hour", "mapping"):
        assert question[key] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--speculation", "0.5"], "from 1 (nothing drafted) to 17"),
        (["--speculation", "0.1:100"], "from 1 (nothing drafted) to 17"),
        (["--speculation", "1:18"], "found 1:18"),
        (["--observed", "750", "--confidence", "90%"], "--confidence: goes with a target"),
        (["--software", "usual"], "--software: goes with an observed speed"),
        (["--confidence", "90"], "found '90'; write '90 %'"),
        (["--layers", "0"], "--layers: expected more than 0, found '0'"),
        (
            ["--total", "1T", "--active", "2T"],
            "--active: expected at most the total (1T), found 2T",
        ),
        (["--emit", ""], "--emit: expected a folder, found ''"),
        (["--emit", "/nowhere/a/b"], "--emit: there is no folder '/nowhere/a'"),
        (["--calibration", ""], "--calibration: expected a file"),
        (["--tokens-per-second", ""], "--tokens-per-second: ''"),
        (["--concurrency", ""], "--concurrency: '' is not a whole number"),
        (["--speculation", ""], "--speculation: ''"),
        (["--context", "1e30"], "between 1 and 1,000,000,000,000,000, found '1e30'"),
    ],
)
def test_wrong_input_is_one_line(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "solve", *QUICK, *options)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.strip().splitlines()
    assert line.startswith(f"error: {options[-2]}") and words in line


def test_software_of_an_observed_speed(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["solve", "--hardware", "b200", "--nodes", "8", "--observed", "600",
             "--architectures", "0"]  # fmt: skip
    done = run(capsys, *asked).out
    listed = [s.factor for s in Hardware.load("b200").softwares(None)]
    slow, fast = max(listed), min(listed)
    words = f"software: fixed times {fast:.2g} to {slow:.2g} of the usual (--software fixes it)"
    assert words in flat(done)
    fixed = solve("b200", 8, observed=600, architectures=0, software="tilert")
    assert fixed.asked.software_factor == (fast, fast)
    assert fixed.posterior is not None and fixed.posterior.software_probability is None
    wrong = run(capsys, *asked, "--software", "tilrt")
    assert (wrong.code, wrong.out) == (2, "")
    (line,) = wrong.err.strip().splitlines()
    assert line.startswith("error: --software: unknown software 'tilrt'; did you mean 'tilert'?")


def test_an_open_low_end_of_speculation_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "solve", *QUICK, "--speculation", ":3", "--format", "json")
    assert json.loads(done.out)["question"]["speculation"] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("words", "filled"),
    [
        (["predict", "deepseek-v3", "--mapping", "pp=2000"], "fill 61 of the 2,000 stages"),
        (["compare", "deepseek-v3", "--hardware", "wse-3", "--mapping", "pp=44"], "31 of the 44"),
        (["predict", "--total", "70B", "--layers", "60", "--mapping", "pp=90"], "60 of the 90"),
        (["predict", "deepseek-v3", "--mapping", "pp=61"], ""),
    ],
)
def test_stages_that_stay_empty_are_warned_of(
    words: list[str], filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, *words, "--format", "json")
    assert done.code == 0
    assert filled in done.err and (filled or not done.err)


@pytest.mark.parametrize("words", [["fit", "--save"], ["check", "--init"]])
def test_a_file_that_cannot_be_written_is_said_first(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "x.yaml"
    done = run(capsys, *words, str(target))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {words[1]}: there is no folder ")
    assert not target.parent.exists()


def test_a_calibration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = Path("tests/fixtures/profile.yaml").read_text()
    assert "calibration:" not in shipped
    measured = tmp_path / "host.yaml"
    measured.write_text(
        shipped + "calibration: {evenness: 0.9, chain: {dense: 10, moe: 13}, "
        "bandwidth_fraction: 0.5, model_error: 0.1, source: made up}\n"
    )
    options = ["solve", *QUICK, "--calibration", str(measured)]
    assert f"measured figures of {measured}" in flat(run(capsys, *options).out)
    document = json.loads(run(capsys, *options, "--format", "json").out)
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
    # Designs have heads that the group of their mapping divides.
    done = run(capsys, "solve", "--hardware", "b200", "--nodes", "7", "--mapping", "tp=7",
               "--tokens-per-second", "60")  # fmt: skip
    assert (done.code, done.err) == (0, "") and "(tp 7)" in done.out


# --- nodes that nobody asked for


def test_nodes_that_nobody_asked_for_are_no_bound(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "solve", *QUICK, "--hardware", "b200", "--tokens-per-second", "60",
               "--explain")  # fmt: skip
    assert "an unknown number of b200 GPUs" in flat(done.out) and "nodes asked" not in done.out
    assert "1 to 128 were tried" in flat(done.out)
    document = json.loads(run(capsys, "solve", *QUICK, "--hardware", "b200",
                              "--format", "json").out)  # fmt: skip
    assert document["question"]["nodes"] == [1, 128]
    assert document["question"]["nodes_known"] is False
    assert document["ranges"]["nodes"]["high_bound_by"] == "end of the search"
    asked = json.loads(run(capsys, "solve", *QUICK, "--nodes", "1:128", "--format", "json").out)
    assert asked["question"]["nodes_known"] is True
    assert asked["ranges"]["nodes"]["high_bound_by"] == "nodes asked"
    assert "1 to 128 wse-3 wafers" in flat(run(capsys, "solve", *QUICK, "--nodes", "1:128").out)


# --- accepted tokens beyond the range


def test_a_need_beyond_the_range_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    rows = solve(nodes=88, observed=750, speculation=1).architectures
    assert any(row.accepted_needed > 1.0 for row in rows)
    for row in rows:
        low, _, high = row.speed
        assert low <= 750 * 1.0001 and high >= 750 * 0.9999
    options = ("solve", "--observed", "750", "--nodes", "88", "--speculation", "1", "--explain")
    assert "Where needs lies outside 1," in flat(run(capsys, *options).out)


def test_a_target_that_the_middle_of_a_speed_misses_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = solve().architectures
    middle = 3.0**0.5
    assert any(row.speed.p50 < 750 for row in rows)
    assert all((row.accepted_needed > middle) == (row.speed.p50 < 750) for row in rows)
    told = flat(run(capsys, "solve").out)
    assert "Where needs is above 1.73 (the middle of 1 to 3), the middle of tokens/s misses" in told
    assert "Where needs" not in run(capsys, "solve", "--speculation", "1").out


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\s;:]+", text))


@pytest.mark.parametrize("columns", ["60", "80"])
def test_commands_break_no_word(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    names = ("predict", "gpt-oss-120b", "kimi-k2")
    free = run(capsys, *names).out
    assert all(heading in free for heading in ("memory", "full", "layers", "weights", "least"))
    monkeypatch.setenv("COLUMNS", columns)
    narrow = run(capsys, *names).out
    assert "gpt-oss-120b" in words(narrow) and "weights" in narrow
    left_out = re.search(r"Left out, the window is narrow: ([a-z, ]+)", flat(narrow))
    lost = set() if left_out is None else set(left_out[1].split(", "))
    for heading in ("memory", "full", "layers", "weights", "least", "limit", "plain"):
        shown = flat(narrow).partition("the fullest node")[2].partition("(Left")[0]
        assert (heading in words(shown)) is (heading not in lost)
    assert max(map(len, narrow.splitlines())) <= int(columns)


def test_speeds_of_validate_have_a_unit_and_warnings_no_internal_path(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = run(capsys, "validate", "--hardware", "wse-2", "--no-inverse", "--format", "csv")
    assert done.out.splitlines()[0] == (
        "row,nodes,spec.,tokens/s observed,tokens/s p05,tokens/s median,tokens/s p95,"
        "observed / median"
    )
    _, skipped = usable(load(), Hardware.names())
    assert skipped and all(line.startswith("observation '") for line in skipped)


def test_bars_have_no_heading_and_terms_keep_their_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = run(capsys, "predict", "hy3", "--explain").out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split() == ["time", "share", "what"])
    first = lines[at + 1]
    assert "the time a layer takes" in first
    bar = re.search(r"[█#]+", first)
    assert bar is not None and bar.end() <= lines[at].index("what")


def test_a_size_that_is_given_and_too_small_says_what_gives() -> None:
    """Both ends of the sizes that are left are one number, but for rounding."""
    found = solve("wse-2", 4, tokens_per_second=60, weights="nvfp4", total="100M",
                  max_power="1kW", sparsity="1:1", layers="88:90", architectures=0)  # fmt: skip
    assert found.conflict is not None
    assert ("power", "total asked") in [r.constraints for r in found.conflict.relaxations]
