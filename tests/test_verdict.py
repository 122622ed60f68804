"""The first lines of a solve say the answer, and what follows fits a small window."""

from pathlib import Path

import pytest

from archinfer import infer, solve
from archinfer.errors import InputError
from archinfer.report.markdown import to_markdown
from archinfer.report.solve import document
from archinfer.report.verdict import verdict
from tests.cli import run

pytestmark = pytest.mark.usefixtures("few_draws")

LINES, VERDICT = 40, 5
ASKED = (
    [],
    ["--observed", "750"],
    ["--observed", "750", "--nodes", "88"],
    ["--observed", "750", "--nodes", "88", "--speculation", "1"],
)


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("asked", ASKED)
def test_a_solve_is_short(
    asked: list[str],
    columns: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(capsys, "solve", *asked).out.splitlines()
    assert len(lines) <= LINES
    assert all(len(line) <= columns for line in lines)
    assert lines[VERDICT] == ""
    assert lines[VERDICT - 1].startswith("How sure: ")


def test_the_numbers_of_the_example_belong_together() -> None:
    """What is named as the largest model is feasible with all of its numbers at once."""
    found = solve()
    example, at_most, *_ = (text for _, text in verdict(found).items)
    largest = max(found.architectures, key=lambda d: d.total_params)
    assert largest.feasible and "6.21T total, 275B active, 88 layers in nvfp4" in example
    assert " total (capacity), or 1.01T active (speed), or 126 layers" in at_most
    both = solve(total="2.4T:", active="140B:", speculation=1)
    assert not both.feasible
    (alone,) = (v for v in found.variants if v.name == "no speculation")
    assert alone.ranges["total_params"].high > 2.4e12
    assert alone.ranges["active_params"].high > 140e9


FOUNDING = "total=2T:4T,active=150B,layers=70:90"


def test_the_founding_claim() -> None:
    """A target with a claim counts as observed; each part is as likely as the draws say."""
    found = solve(claim=FOUNDING, architectures=0)
    claim = found.claim
    posterior = infer("wse-3", 88, observed=750)
    d, w = posterior.draws, posterior.weights
    inside = (d.total_params >= 2e12) & (d.total_params <= 4e12)
    assert claim.parts[0].probability == pytest.approx(float(w[inside].sum()), rel=1e-12)
    inside &= (d.active_params >= 120e9) & (d.active_params <= 187.5e9)
    inside &= (d.layers >= 70) & (d.layers <= 90)
    assert claim.all.probability == pytest.approx(float(w[inside].sum()), rel=1e-12)
    assert 0.0 < claim.all.probability < min(part.probability for part in claim.parts)
    assert [part.text for part in claim.parts] == [
        "total 2T to 4T", "active 120B to 188B", "layers 70 to 90",
    ]  # fmt: skip
    assert claim.nearest[0].model == "kimi-k3"
    assert [m.distance for m in claim.nearest] == sorted(m.distance for m in claim.nearest)
    shown = " ".join(to_markdown(document(found)).replace("*", "").split())
    for words in ("The claim put to the test", "all of it", "kimi-k3 (2.78T total"):
        assert words in shown


def test_what_physics_and_habits_refute() -> None:
    claim = solve(
        claim={"total": "20T:", "layers": (300, 400)}, weights="fp8", architectures=0
    ).claim
    assert claim.parts[0].refuted_by == "physics" and claim.parts[0].probability == 0.0
    assert claim.parts[1].refuted_by == "habits"
    sure = solve(claim="total=:20T", weights="fp8", architectures=0).claim.all
    assert (sure.carried_by, sure.probability) == ("physics", pytest.approx(1.0))


@pytest.mark.parametrize(
    ("claim", "words"),
    [("size=2T", "size"), ("total", "KEY=VALUE"), ("total=2T,total=3T", "twice")],
)
def test_a_claim_that_cannot_be_read(claim: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        solve(claim=claim)


def test_a_near_miss_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A model 0.3 % too slow is as good as fast enough; far off it is no near miss."""
    near = solve(speculation=1, layers=(98, 98), physics_only=False)
    assert not near.feasible and near.conflict is not None
    chance = {r.constraints[0]: r.probability for r in near.conflict.relaxations}
    assert 0.4 < chance["speed"] < 0.5
    shown = run(capsys, "solve", "--speculation", "1", "--layers", "98").out
    assert "A near miss" in shown
    assert "A near miss" not in run(capsys, "solve", "--speculation", "1", "--layers", "126").out


def test_probabilities_beside_an_empty_region_are_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["solve", "--observed", "750", "--nodes", "88", "--speculation", "1",
             "--total", "3T:4T", "--layers", "99:106"]  # fmt: skip
    shown = run(capsys, *asked).out
    assert "Nothing is feasible" in shown and "Probabilities over models" in shown
    assert "The probabilities know no sharp ends" in shown


def test_a_check_file_holds_a_claim(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "check.yaml"
    text = (
        "schema_version: 1\n"
        "checks:\n"
        "  - name: founding\n"
        "    solve: {hardware: wse-3, nodes: 88, tokens_per_second: 750, weights: fp8}\n"
        "    expect:\n"
        "      claim: {says: 'SAYS', at_least: 25 %}\n"
    )
    for says, code in (("total=2T:4T", 0), ("total=20T:", 1), ("size=2T", 2)):
        file.write_text(text.replace("SAYS", says))
        done = run(capsys, "check", str(file))
        assert done.code == code, done.err
    assert "did you mean" in done.err or "known" in done.err or "expected" in done.err


def test_a_notebook_shows_a_table() -> None:
    found = solve(architectures=1, weights="fp8")
    page = found._repr_html_()
    assert "<tr><th>feasible</th><td>True</td></tr>" in page and page.count("<tr>") > 10
    design = found.architectures[0]._repr_html_()
    assert "<td>fp8</td>" in design and "p05 " in design
