"""What holds of every answer, whatever is asked: on wafers, GPUs, a processor and one machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from archinfer.hardware.profile import Hardware
from archinfer.models.solver_family import FamilyRules, Habits
from archinfer.solver.answer import answer
from archinfer.solver.question import Question
from archinfer.solver.region import solve
from archinfer.solver.variants import spans
from tests.exactness import directly

ASKED = {
    "wse-3": Question(Hardware.load("wse-3"), (20, 30), 750.0, layers=(40.0, 46.0)),
    "b200, users": Question(
        Hardware.load("b200"), (1, 16), 30.0, concurrency=16, context_tokens=16_000,
        layers=(40.0, 43.0), rules=FamilyRules("mla"), speculation=(1.0, 2.0),
    ),
    "h100-sxm": Question(Hardware.load("h100-sxm"), (1, 8), 60.0, layers=(30.0, 33.0)),
    "gb200-nvl72": Question(
        Hardware.load("gb200-nvl72"), (1, 8), 100.0, concurrency=4, layers=(60.0, 62.0)
    ),
    "amd-epyc-9754": Question(
        Hardware.load("amd-epyc-9754"), (1, 1), 5.0, weights=("int4", "int8"), layers=(30.0, 33.0)
    ),
    "apple-m4-max": Question(
        Hardware.load("apple-m4-max"), (1, 1), 20.0, weights=("int4",), context_tokens=4000,
        layers=(30.0, 34.0),
    ),
}  # fmt: skip

SLACK = 1.0 + 1e-9
"""Ends are roots of their own: a stricter one may round the other way."""


def tightened(q: Question) -> dict[str, Question]:
    """The same question with one option stricter, by what was tightened."""
    found = spans(solve(q))
    (n_low, n_high), (a_low, a_high) = found["total_params"], found["active_params"]
    changes: dict[str, dict[str, Any]] = {
        "speed": {"tokens_per_s": 1.3 * q.tokens_per_s},
        "confidence": {"confidence_z": 1.0},
        "speculation": {"speculation": (1.0, (1.0 + q.speculation[1]) / 2.0)},
        "context": {"context_tokens": 2 * q.context_tokens},
        "weights": {"weights": q.weights[:1]},
        "nodes": {"nodes": (q.nodes[0], max(q.nodes[0], q.nodes[1] - 3))},
        "layers": {"layers": (q.layers[0] + 1.0, q.layers[1] - 1.0)},
        "total": {"total": (1.5 * n_low, 0.7 * n_high)},
        "active": {"active": (1.5 * a_low, 0.7 * a_high)},
        "sparsity": {"habits": replace(Habits(), sparsity=(2.0, 10.0))},
        "throughput": {"throughput_tokens_per_s": 1.5 * q.concurrency * q.tokens_per_s},
        "power": {"power_w": 0.7 * q.nodes[1] * float(q.hardware.power_w)},
    }
    if q.concurrency > 1:
        changes["users"] = {"concurrency": 2 * q.concurrency}
    return {name: q.with_(**change) for name, change in changes.items()}


@pytest.mark.parametrize("name", ASKED)
def test_a_stricter_question_never_allows_more(name: str) -> None:
    for asked in (ASKED[name], ASKED[name].with_(habits=None)):
        wide = spans(solve(asked))
        assert wide
        for what, stricter in tightened(asked).items():
            if asked.habits is None and what == "sparsity":
                continue
            for size, (low, high) in spans(solve(stricter)).items():
                assert low >= wide[size].low / SLACK, (what, size)
                assert high <= wide[size].high * SLACK, (what, size)
    for size, (low, high) in spans(solve(ASKED[name])).items():
        assert wide[size].low / SLACK <= low and high <= wide[size].high * SLACK


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", ASKED)
def test_every_architecture_lies_inside_the_ranges(name: str, observed: bool) -> None:
    found = answer(ASKED[name].with_(observed=observed), architectures=4)
    assert found.feasible and found.architectures
    for design in found.architectures:
        sizes = {
            "total_params": design.total_params,
            "active_params": design.active_params,
            "layers": design.architecture.layers,
            "nodes": design.nodes_available,
        }
        for quantity, value in sizes.items():
            ends = found.ranges[quantity]
            assert ends.low.value / SLACK <= value <= ends.high.value * SLACK, quantity
            rows = found.by_weights[design.weights][quantity]
            assert rows.low / SLACK <= value <= rows.high * SLACK, quantity
        assert design.feasible
        assert design.nodes <= design.nodes_available
        low, middle, high = design.speed
        assert low <= middle <= high
        asked = found.question
        reached = high if observed else asked.speculation[1] / design.time_s["total"]
        assert reached >= asked.tokens_per_s / SLACK


@pytest.mark.parametrize("name", ASKED)
def test_dense_models_alone_where_no_sparsity_is_allowed(name: str) -> None:
    habits = replace(Habits(), sparsity=(1.0, 1.0))
    region = solve(ASKED[name].with_(habits=habits))
    assert region.feasible
    assert (abs(region.total_high / region.active_high - 1.0) < 1e-9).all()
    assert all(d.experts in (0, None) for d in answer(region.question, 2).architectures)


def test_ends_of_active_beyond_the_begin_of_a_queue() -> None:
    """300 users on 88 wafers at 90 %: one slice allows A on both sides of what is too slow."""
    asked = Question(
        Hardware.load("wse-3"), (88, 88), 277.6, concurrency=300, context_tokens=500, habits=None,
        layers=(80.0, 80.0), weights=("fp8",), speculation=(1.0, 1.0), confidence_z=1.28,
    )  # fmt: skip
    region = solve(asked)
    active, first = np.exp(np.linspace(17.5, 19.0, 301)), np.zeros(301, dtype=int)
    fast = region.bounds.at(region.bounds.total_low_of(active, first), active, first).fast >= 0.0
    assert active[fast].max() <= region.active_high[0]


def test_a_larger_total_that_is_surer_than_the_least() -> None:
    """54 users at 90 % where reading takes no time: where it outlasts arithmetic the spread falls
    by a tenth, so at this A only totals far above A will do."""
    hardware = Hardware.load("amd-epyc-9754").with_constants({"memory.bandwidth": 7.2189518752e15})
    asked = Question(
        hardware, (1, 2), 4.316540829865669, concurrency=54, context_tokens=2000,
        weights=("int4",), layers=(72.0, 72.0), speculation=(1.0, 1.0), confidence_z=1.28,
    )  # fmt: skip
    total = np.array([24.33e9, 600e9, 700e9])
    active, layers, nodes = (np.full(3, v) for v in (24320284144.865818, 72.0, 2.0))
    expected = [False, False, True]
    assert list(directly(asked, total, active, layers, nodes, "int4")) == expected
    assert list(solve(asked).contains(total, active, layers, nodes, "int4")) == expected
