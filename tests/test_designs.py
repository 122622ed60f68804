"""Concrete architectures of sizes that were given as single figures."""

import math
from typing import Any

import pytest

from archinfer.hardware.profile import Hardware
from archinfer.models.formats import weight_format
from archinfer.solver.answer import answer
from archinfer.solver.constraints import Candidate, slacks
from archinfer.solver.designs import rounded
from archinfer.solver.question import Question
from tests import cli

WSE3 = Hardware.load("wse-3")


@pytest.mark.parametrize(
    "known",
    [
        {"total": (2e12, 2e12)},
        {"active": (120e9, 120e9)},
        {"observed": True, "active": (120e9, 120e9)},
        {"observed": True, "active": (120e9, 120e9), "total": (2e12, 2e12), "layers": (100, 100)},
        {"total": (671e9, 671e9), "active": (20e9, 60e9)},
    ],
    ids=["total", "active", "observed", "everything", "and a range"],
)
def test_a_single_size_has_architectures_that_round_to_it(known: dict[str, Any]) -> None:
    question = Question(WSE3, **known)
    found = answer(question)
    assert found.feasible
    assert found.architectures
    assert found.sensitivity
    for design in found.architectures:
        for name in ("total", "active"):
            low, high = getattr(question, name)
            value = getattr(design, f"{name}_params")
            assert 0.975 * low <= value <= 1.025 * high
            if low < high:
                assert low <= value <= high
        # All that was not a single figure holds to the last digit.
        free = question.without("total asked", "active asked")
        form = weight_format(design.weights)
        candidate = Candidate.of(
            free,
            design.total_params,
            design.active_params,
            float(design.architecture.layers),
            design.mapping,
            free.traffic(form.bits, form.weights_only),
            design.architecture.shape(),
        )
        assert min(float(s) for s in slacks(candidate).values()) >= 0.0
        assert design.nodes <= question.nodes[1]


def test_ranges_are_left_alone() -> None:
    question = Question(WSE3, total=(1e12, 2e12))
    assert rounded(question) == (question, ())
    wide, single = rounded(question.with_(active=(100e9, 100e9)))
    assert single == ("active",)
    assert wide.total == question.total
    assert math.prod(wide.active) == pytest.approx(1e22, rel=1e-3)


def test_the_caption_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    single = cli.run(capsys, "solve", "--total", "2T").out
    assert "within 2.5 % of the total parameters asked" in " ".join(single.split())
    span = cli.run(capsys, "solve", "--total", "1.9T:2.1T").out
    assert "parameters asked)" not in " ".join(span.split())


def test_designs_that_cannot_be_built_are_skipped() -> None:
    """Two layers of 200T active parameters would be wider than any model may be."""
    question = Question(
        Hardware.load("gb200-nvl72"),
        nodes=(5000, 5000),
        tokens_per_s=1.0,
        active=(200e12, math.inf),
        layers=(2, 2),
        habits=None,
    )
    found = answer(question)
    assert found.feasible
    assert found.architectures == ()
