"""What a posterior says in words, held against the document that every medium shows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from archinfer.hardware.profile import Hardware
from archinfer.inference.comparison import compare_with
from archinfer.inference.infer import infer
from archinfer.models.checkpoint import read_model
from archinfer.models.solver_family import Habits
from archinfer.report.document import (
    EXPLAIN,
    MARKDOWN,
    PAGE,
    SCREEN,
    Items,
    Paragraph,
    Where,
    flat,
    plain,
)
from archinfer.report.posterior import (
    COMPARISON_TITLE,
    bits_text,
    comparison_text,
    nodes_text,
    notes,
    plain_or_speculated,
    taken,
    verdicts,
)
from archinfer.report.solve import assumptions, document
from archinfer.solver.answer import Answer, answer
from archinfer.solver.question import Question

pytestmark = pytest.mark.usefixtures("few_draws")


@cache
def found(hardware: str, nodes: int, speed: float, **known: tuple[float, float]) -> Answer:
    question = Question(
        Hardware.load(hardware), nodes=(nodes, nodes), tokens_per_s=speed, observed=True, **known
    )
    return replace(answer(question, 1), posterior=infer(question, samples=2048, target_ess=300))


def told(given: Answer, here: Where) -> list[str]:
    """Every sentence that a medium shows."""
    found = []
    for block in flat(document(given).blocks, here):
        if isinstance(block, Paragraph):
            found.append(plain(block.words))
        if isinstance(block, Items):
            found += [block.title, *map(plain, block.items)]
    return found


@pytest.mark.parametrize("hardware", ["wse-3", "h100-sxm"])
def test_bits_and_nodes_are_explained(hardware: str) -> None:
    posterior = found(hardware, 8, 400.0 if hardware == "wse-3" else 60.0).posterior
    assert posterior is not None
    bits, nodes = bits_text(posterior), nodes_text(posterior)
    assert f"the speed taught {posterior.speed_bits:.1f}." in bits
    assert "do not add up" in bits
    assert ("assumed, not measured" in nodes) == (hardware == "wse-3")
    assert ("GPUs that holds the model" in nodes) == (hardware == "h100-sxm")


def test_which_speculation_the_probabilities_take_is_said() -> None:
    """The same range of the region, with the profile's law in the posterior or without."""
    law = found("wse-3", 8, 400.0)
    question = law.question
    ranged = replace(law, posterior=infer(question, law=None, samples=2048, target_ess=300))
    said = {
        "law": "1 to 3 accepted tokens a pass in the region, the fitted law in the probabilities;",
        "range": "1 to 3 accepted tokens a pass in the region and in the probabilities;",
    }
    for name, other, given in (("law", "range", law), ("range", "law", ranged)):
        asked = given.to_dict()["question"]
        assert (asked["speculation"], asked["posterior_speculation"]) == ([1.0, 3.0], name)
        text = assumptions(given)
        assert said[name] in text and said[other] not in text
    target = answer(question.with_(observed=False), 1)
    assert "; 1 to 3 accepted tokens a pass; " in assumptions(target)
    assert target.to_dict()["question"]["posterior_speculation"] is None


def test_every_medium_says_all_of_it() -> None:
    shallow = Habits(layers=(1.0, 20.0))
    given = found("wse-3", 8, 400.0)
    posterior = replace(given.posterior, question=given.question.with_(habits=shallow))
    shape = read_model("gpt-oss-120b")[0].shape("mxfp4")
    compared = compare_with(posterior, shape, 900.0, weights="mxfp4")
    given = replace(given, posterior=posterior, comparisons=(compared,))
    (note,) = [n for n in notes(posterior) if "deeper than the 20 layers" in n]
    assert dict(taken(posterior))["effective sample size"] == f"{posterior.ess:,.0f}"
    sentences = {assumptions(given), bits_text(posterior), nodes_text(posterior)}
    sentences |= {f"Note: {note}.", COMPARISON_TITLE, *verdicts(posterior)}
    sentences |= {*comparison_text(compared)}
    for here in (SCREEN | EXPLAIN, MARKDOWN, PAGE):
        assert sentences <= set(told(given, here))


@pytest.mark.parametrize("here", [SCREEN, MARKDOWN, PAGE])
def test_nothing_feasible_still_says_what_the_posterior_says(here: Where) -> None:
    given = found("wse-3", 4, 750.0, total=(2e12, 3e12))
    start = "No probability statement: no model within the known ranges fits on"
    assert sum(text.startswith(start) for text in told(given, here)) == 1


@pytest.mark.parametrize(("speed", "word"), [(9000.0, "more"), (700.0, "less")])
def test_causes_point_the_way_of_the_ratio(speed: float, word: str) -> None:
    """A slower model has more depth or gains less by speculation; a faster one the reverse."""
    posterior = found("wse-3", 8, 1000.0).posterior
    assert posterior is not None
    shape = read_model("gpt-oss-120b")[0].shape("mxfp4")
    other = {"more": "less", "less": "more"}[word]
    _, why, _ = comparison_text(compare_with(posterior, shape, speed, weights="mxfp4"))
    assert f"{other} depth" not in why and f"{word} gain by speculation" not in why
    assert f"{word} depth" in why or f"{other} gain by speculation" in why


@pytest.mark.parametrize(("speed", "told"), [(500.0, True), (1500.0, False)])
def test_why_a_faster_speed_need_not_mean_a_smaller_model(speed: float, told: bool) -> None:
    """With 500 tokens/s on 88 wafers speculation is open, with 1,500 it is certain."""
    asked = Question(Hardware.load("wse-3"), tokens_per_s=speed, observed=True)
    found = infer(asked, 4096, target_ess=300)
    said = list(plain_or_speculated(found))
    assert bool(said) == told
    if told:
        share = float(found.weights @ (found.draws.speculates > 0.0))
        assert f"({100 * share:.0f} %)" in said[0]
