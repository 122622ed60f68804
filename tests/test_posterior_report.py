"""What a posterior says in words: in the terminal, in Markdown and on the page alike."""

from __future__ import annotations

import html
from dataclasses import replace
from functools import cache

import pytest

from archinfer.cli.models import read_model
from archinfer.hardware.profile import Hardware
from archinfer.inference.comparison import compare_with
from archinfer.inference.infer import infer
from archinfer.report.posterior import (
    COMPARISON_TITLE,
    bits_text,
    comparison_text,
    nodes_text,
    notes,
    nuisance_text,
    verdicts,
)
from archinfer.report.solve import print_answer, print_answer_markdown
from archinfer.report.solve_page import solve_page
from archinfer.solver.answer import Answer, answer
from archinfer.solver.question import Habits, Question


@cache
def found(hardware: str, nodes: int, speed: float, **known: tuple[float, float]) -> Answer:
    question = Question(
        Hardware.load(hardware), nodes=(nodes, nodes), tokens_per_s=speed, observed=True, **known
    )
    return replace(answer(question, 1), posterior=infer(question, samples=2048, target_ess=300))


def printed(given: Answer, markdown: bool, capsys: pytest.CaptureFixture[str]) -> str:
    if markdown:
        print_answer_markdown(given)
    else:
        print_answer(given)
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("hardware", ["wse-3", "h100-sxm"])
def test_bits_and_nodes_are_explained_everywhere(
    hardware: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = found(hardware, 8, 400.0 if hardware == "wse-3" else 60.0)
    posterior = given.posterior
    assert posterior is not None
    bits, nodes = bits_text(posterior), nodes_text(posterior)
    assert f"the speed taught {posterior.speed_bits:.1f}." in bits
    assert "do not add up" in bits
    assert ("assumed, not measured" in nodes) == (hardware == "wse-3")
    assert ("GPUs that holds the model" in nodes) == (hardware == "h100-sxm")
    for text in (
        printed(given, False, capsys),
        printed(given, True, capsys),
        solve_page(given, "archinfer solve"),
    ):
        assert bits in text and nodes in text


def test_which_speculation_the_probabilities_take_is_said_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same range of the region, with the profile's law in the posterior or without."""
    law = found("wse-3", 8, 400.0)
    question = law.question
    ranged = replace(law, posterior=infer(question, law=None, samples=2048, target_ess=300))
    said = {
        "law": "1 to 3 accepted tokens a pass in the region, the profile's fitted law of "
        "speculation in the probabilities;",
        "range": "1 to 3 accepted tokens a pass in the region and in the probabilities;",
    }
    for name, other, given in (("law", "range", law), ("range", "law", ranged)):
        asked = given.to_dict()["question"]
        assert (asked["speculation"], asked["posterior_speculation"]) == ([1.0, 3.0], name)
        for text in (
            printed(given, False, capsys),
            printed(given, True, capsys),
            html.unescape(solve_page(given, "archinfer solve")),
        ):
            assert said[name] in text and said[other] not in text
    target = answer(question.with_(observed=False), 1)
    assert "; 1 to 3 accepted tokens a pass; " in printed(target, True, capsys)
    assert target.to_dict()["question"]["posterior_speculation"] is None


def test_markdown_says_all_that_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    shallow = Habits(layers=(1.0, 20.0))
    given = found("wse-3", 8, 400.0)
    posterior = replace(given.posterior, question=given.question.with_(habits=shallow))
    shape = read_model("gpt-oss-120b")[0].shape("mxfp4")
    compared = compare_with(posterior, shape, 900.0, weights="mxfp4")
    given = replace(given, posterior=posterior, comparisons=(compared,))
    (note,) = [n for n in notes(posterior) if "deeper than the 20 layers" in n]
    sentences = [nuisance_text(posterior), note, COMPARISON_TITLE, *verdicts(posterior)]
    sentences += comparison_text(compared)
    assert "Effective sample size" in sentences[0]
    for markdown in (False, True):
        text = printed(given, markdown, capsys)
        for sentence in sentences:
            assert sentence in text


@pytest.mark.parametrize("markdown", [False, True])
def test_nothing_feasible_still_says_what_the_posterior_says(
    markdown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    given = found("wse-3", 4, 750.0, total=(2e12, 3e12))
    text = printed(given, markdown, capsys)
    assert "No probability statement: no model within the known ranges fits on" in text


@pytest.mark.parametrize(("speed", "word"), [(9000.0, "more"), (300.0, "less")])
def test_causes_point_the_way_of_the_ratio(speed: float, word: str) -> None:
    """A slower model has more depth or gains less by speculation; a faster one the reverse."""
    posterior = found("wse-3", 8, 1000.0).posterior
    assert posterior is not None
    shape = read_model("gpt-oss-120b")[0].shape("mxfp4")
    other = {"more": "less", "less": "more"}[word]
    _, why, _ = comparison_text(compare_with(posterior, shape, speed, weights="mxfp4"))
    assert f"{other} depth" not in why and f"{word} gain by speculation" not in why
    assert f"{word} depth" in why or f"{other} gain by speculation" in why
