"""One model has one speed: every command says the same under the same stated assumptions."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from archinfer import (
    FamilyRules,
    Hardware,
    catalogue,
    compare,
    family_shape,
    pareto,
    predict,
    solve,
)
from archinfer.checks.run import check as run
from archinfer.fitting.extent import extent
from archinfer.fitting.observations import Observation
from archinfer.fitting.validation import predict_rows
from archinfer.report.warned import beyond

PAIRS = random.Random(7).sample(
    [(model, machine) for model in catalogue.names() for machine in Hardware.names()], 16
)
"""Of all models on all profiles."""

ASSUMED = [
    {},
    {"speculation": "1"},
    {"speculation": "1:2", "software": "usual"},
    {"software": "usual"},
]


@pytest.mark.parametrize(("model", "machine"), PAIRS)
def test_predict_and_compare_and_check_say_one_speed(
    model: str, machine: str, tmp_path: Path
) -> None:
    for k, assumed in enumerate(ASSUMED):
        said = predict(model, machine, changes=False, **assumed)
        (entry,) = compare(model, machine, **assumed)
        assert entry.prediction.fits == said.fits
        if not said.fits:
            continue
        assert tuple(entry.prediction.speed) == tuple(said.speed)
        file = tmp_path / f"{k}.yaml"
        more = "".join(f"\n    {name}: '{value}'" for name, value in assumed.items())
        file.write_text(
            f"schema_version: 1\nchecks:\n  - name: one\n    model: {model}\n"
            f"    hardware: {machine}{more}\n"
            "    expect: {tokens_per_s: {at_least: 1e-3, confidence: 0.95}}\n"
        )
        (result,) = run([file]).results
        least = said.reached(0.95)
        assert result.margin == pytest.approx(float(least) / 1e-3 - 1.0, rel=1e-9)


@pytest.mark.parametrize(("model", "machine"), PAIRS[:8])
def test_validate_says_the_same_speed(model: str, machine: str) -> None:
    asked = {"context": 8000, "kv": "bf16", "software": "usual", "changes": False}
    law = Hardware.load(machine).speculation
    for speculative in (False, *((None,) if law else ())):
        plain = {} if speculative is None else {"speculation": 1}
        said = predict(model, machine, **asked, **plain)
        if not said.fits:
            return
        row = Observation(
            "x", model, model, machine, 100.0, nodes=int(said.nodes), speculative=speculative,
            context_tokens=8000,
        )  # fmt: skip
        ((found,), _) = predict_rows([row], [], draws=40_000)
        # Constants are drawn, no share above 1: the wider they are, the more that moves a median.
        width = math.log(said.speed.p95 / said.speed.p05)
        assert found.predicted["p50"] == pytest.approx(said.speed.p50, rel=0.02 + 0.06 * width)


@pytest.mark.parametrize("machine", Hardware.names()[::6])
def test_solve_and_pareto_say_the_same_speed(machine: str) -> None:
    found = solve(machine, nodes=1, tokens_per_second=1, layers=32, architectures=2, weights="bf16")
    for design in found.architectures:
        said = predict(
            design.architecture, machine, nodes=1, mapping=design.mapping,
            kv="bf16", speculation=found.question.speculation, software="usual", changes=False,
        )  # fmt: skip
        assert said.speed.p50 == pytest.approx(design.speed[1], rel=1e-9)
    for assumed in ASSUMED:
        plan = pareto("llama-3.1-8b", machine, nodes="1:4", **assumed)
        for choice in plan.deployments[:1]:
            said = predict(
                "llama-3.1-8b", machine, nodes=choice.nodes // choice.copies, changes=False,
                context=8500, concurrency=choice.users // choice.copies, weights=choice.weights,
                prompt=8000, output=1000,
                mapping=f"tp={choice.mapping.tensor_parallel},pp={choice.mapping.stages}",
                **assumed,
            )  # fmt: skip
            assert choice.tokens_per_s_per_user.p50 == pytest.approx(said.speed.p50, rel=1e-6)


def test_a_law_is_between_no_speculation_and_its_best() -> None:
    machine = Hardware.load("wse-3")
    plain = predict("kimi-k2", machine, speculation=1, changes=False).speed
    law = predict("kimi-k2", machine, changes=False)
    assert law.deployment.law == machine.speculation
    assert plain.p50 < law.speed.p50 < machine.accepted_high * plain.p50
    assert law.speed.p95 / law.speed.p05 > plain.p95 / plain.p05
    assert tuple(law.plain_speed) == pytest.approx(tuple(plain))


def test_unknown_software_spans_all_of_it() -> None:
    machine = Hardware.load("b200")
    each = [
        predict("llama-3.1-70b", machine, speculation=1, software=name, changes=False).speed.p50
        for name in ("usual", *(s.name for s in machine.software))
    ]
    mixed = predict("llama-3.1-70b", machine, speculation=1, changes=False).speed
    assert mixed.p05 < min(each) < mixed.p50 < max(each) < mixed.p95


def test_arrays_of_models_have_the_same_law() -> None:
    total, layers = np.array([8e9, 12e9, 20e9]), np.array([32.0, 36.0, 40.0])
    shapes = family_shape(total, total, layers, FamilyRules(), dense=True)
    all_of_them = predict(shapes, "wse-3", nodes=4, changes=False).speed
    for i in range(3):
        one = predict(
            family_shape(total[i], total[i], layers[i], FamilyRules(), dense=True), "wse-3",
            nodes=4, changes=False, layers_per_node=math.ceil(layers[i] / 4),
        ).speed  # fmt: skip
        assert [v[i] for v in all_of_them] == pytest.approx(list(one))


def test_a_prediction_beyond_every_published_speed_says_so() -> None:
    reach = extent("wse-3")
    assert reach is not None
    (said,) = beyond(predict(total=2 * reach.total_params, active="40B", layers=61, weights="fp8"))
    assert "beyond what was validated" in said and reach.model in said
    assert not beyond(predict("llama-3.1-8b"))
