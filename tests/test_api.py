"""The public names: complete, documented, lazy, and their examples run."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import inspect
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import archinfer
from archinfer import (
    Deployment,
    Hardware,
    InputError,
    Question,
    catalogue,
    family_shape,
    predict,
    solve,
)
from archinfer.api.solving import question
from archinfer.asking import NODES_MOST
from archinfer.inference.infer import infer
from archinfer.models.solver_family import FamilyRules
from archinfer.physics.terms import TERMS
from tests.cli import run

pytestmark = pytest.mark.usefixtures("few_draws")

ROOT = Path(__file__).resolve().parent.parent


def declared() -> set[str]:
    """Names that a type checker sees in archinfer/__init__.py."""
    tree = ast.parse((ROOT / "archinfer" / "__init__.py").read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.If):
            for inner in node.body:
                if isinstance(inner, ast.ImportFrom):
                    names |= {alias.asname or alias.name for alias in inner.names}
                elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    names.add(inner.target.id)
    return names


def test_exported_is_what_is_visible() -> None:
    assert archinfer.__all__ == sorted(archinfer.__all__)
    assert dir(archinfer) == archinfer.__all__
    assert declared() == set(archinfer.__all__)
    for name in archinfer.__all__:
        assert getattr(archinfer, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'sovle'"):
        _ = archinfer.sovle  # type: ignore[attr-defined]


def test_types_and_values_come_from_the_same_place() -> None:
    """The import that a type checker reads is the one that happens."""
    tree = ast.parse((ROOT / "archinfer" / "__init__.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("archinfer"):
            for alias in node.names:
                module = importlib.import_module(node.module)
                if node.module == "archinfer":
                    found: Any = importlib.import_module(f"archinfer.{alias.name}")
                else:
                    found = getattr(module, alias.name)
                # Tests may look up answers that are kept.
                public, read = map(
                    inspect.unwrap, (getattr(archinfer, alias.asname or alias.name), found)
                )
                assert public is read


@pytest.mark.parametrize("name", [n for n in archinfer.__all__ if n != "__version__"])
def test_public_names_are_documented_and_typed(name: str) -> None:
    found = getattr(archinfer, name)
    assert len(inspect.getdoc(found) or "") > 20
    if inspect.isfunction(found):
        signature = inspect.signature(found)
        assert signature.return_annotation is not inspect.Signature.empty
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty


@pytest.mark.parametrize("name", ["check", "compare", "infer", "predict", "solve", "validate"])
def test_every_argument_is_explained(name: str) -> None:
    found = getattr(archinfer, name)
    for parameter in inspect.signature(found).parameters:
        assert re.search(rf"\b{parameter}\b.*:", inspect.getdoc(found) or ""), parameter


def test_the_package_is_typed() -> None:
    assert (ROOT / "archinfer" / "py.typed").is_file()


@pytest.mark.parametrize(
    "module",
    ["archinfer", "archinfer.api.solving", "archinfer.api.serving", "archinfer.api.arguments"],
)
def test_examples_run(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module))
    assert done.attempted > 0
    assert done.failed == 0


def test_import_loads_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import archinfer; "
        "print(*sorted(m for m in set(sys.modules) - before if not m.startswith('_')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(done.stdout.split())
    assert "archinfer" in loaded
    assert not any(m.startswith("archinfer.") for m in loaded)
    assert not loaded & {
        "numpy",
        "scipy",
        "pydantic",
        "yaml",
        "typer",
        "rich",
        "importlib.metadata",
    }


# solve


def test_solve_reads_numbers_and_texts_alike() -> None:
    written = question(
        "wse-3", "70:100", "750 tokens/s", context="128k", concurrency="2", weights="fp8, bf16",
        total="2T:4T", active="150B", layers="60:", speculation="1:2", sparsity="1:16",
        max_power="2 MW", throughput="1k", confidence="90 %",
    )  # fmt: skip
    numbers = question(
        Hardware.load("wse-3"), (70, 100), 750, context=128_000, concurrency=2,
        weights=["fp8", "bf16"], total=(2e12, 4e12), active=150e9, layers=(60, math.inf),
        speculation=(1, 2), sparsity=(1, 16), max_power=2e6, throughput=1000, confidence=0.9,
    )  # fmt: skip
    assert written == numbers
    assert written.confidence_z == pytest.approx(1.2815515655446004)


def test_solve_answers_like_the_question() -> None:
    answer = solve("wse-3", 88, 750, weights="fp8", architectures=2)
    usual = Question(Hardware.load("wse-3"), weights=("fp8",), prompt_tokens=7500)
    assert answer.question == usual
    assert len(answer.architectures) == 2
    total = answer.to_dict()["ranges"]["total_params"]
    # 44 GB of 88 wafers, of which at most all can be weights of one byte.
    assert 0 < total["low"] < total["high"] < 88 * 44e9


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"observed": 5}, "one of them"),
        ({"hardware": "wse-4"}, "did you mean 'wse-3'"),
        ({"nodes": 0}, "nodes: expected a whole number of at least 1, found 0"),
        ({"nodes": 1.5}, "nodes"),
        ({"nodes": "100001:"}, "nodes: expected"),
        ({"nodes": math.nan}, "nodes"),
        ({"nodes": (1, 2, 3)}, "(low, high)"),
        ({"tokens_per_second": -1}, "tokens_per_second: expected a speed"),
        ({"tokens_per_second": math.inf}, "tokens_per_second"),
        ({"context": "8 GB"}, "context: "),
        ({"total": "4T:2T"}, "total: "),
        ({"weights": "fp9"}, "weight format"),
        ({"weights": []}, "weight format"),
        ({"kv": "fp9"}, "KV-cache format"),
        ({"attention": "mqla"}, "attention"),
        ({"confidence": 1}, "between 1 % and 99 %"),
        ({"confidence": "95"}, "found '95'; write '95 %'"),
        ({"tokens_per_second": "1e-400"}, "tokens_per_second: expected more than 0"),
        ({"tokens_per_second": 2e9}, "tokens_per_second: expected at most 1,000,000,000"),
        ({"throughput": 0}, "throughput: expected more than 0"),
        ({"layers": 61.5}, "layers: expected whole numbers"),
        ({"layers": "60.2:60.8"}, "layers: expected whole numbers"),
        ({"sparsity": 0}, "sparsity: expected total / active between 1 (dense)"),
        ({"sparsity": "0.5"}, "sparsity: expected total / active between 1 (dense)"),
        ({"sparsity": (1, 1e308)}, "sparsity: expected total / active between 1 (dense)"),
        ({"physics_only": True, "sparsity": 4}, "habit"),
        ({"hardware": "wse-2", "max_price": 3}, "states no price"),
    ],
    ids=str,
)
def test_solve_refuses(changes: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"hardware": "wse-3", "nodes": 88, "tokens_per_second": 750}
    with pytest.raises(InputError) as caught:
        question(**(asked | changes))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_asked_is_the_founding_question() -> None:
    asked = question("wse-3", 88, 750)
    assert question() == question("wse-3", 88, None) == asked
    assert question(nodes="80:").nodes == (80, NODES_MOST)
    # Elsewhere, and of an observed speed, nobody knows how many there are.
    assert not question("b200").nodes_known and not question(observed=750).nodes_known


def test_an_open_low_end_of_sparsity_is_that_of_a_dense_model() -> None:
    habits = question("wse-3", 88, 750, sparsity=":64").habits
    assert habits is not None and habits.sparsity == (1.0, 64.0)
    habits = question("wse-3", 88, 750, sparsity="4:").habits
    assert habits is not None and habits.sparsity == (4.0, math.inf)


# Results are dataclasses with to_dict, and arrays go through predict in one call


def test_results_are_dataclasses_with_to_dict() -> None:
    hardware = Hardware.load("wse-3")
    found = predict(family_shape(2e11, 2e10, 60.0, FamilyRules()), hardware, Deployment(nodes=20))
    posterior = infer(question("wse-3", 88, observed=750), samples=512, target_ess=50)
    for result in (found, posterior, solve("wse-3", 88, 750, architectures=0), hardware):
        assert dataclasses.is_dataclass(result)
        assert isinstance(result.to_dict(), dict)


@pytest.mark.parametrize("name", ["wse-3", "h100-sxm"])
def test_a_sweep_is_the_single_predictions(name: str) -> None:
    hardware = Hardware.load(name)
    deployment = Deployment(nodes=64, weights="fp8", accepted_low=1.0, accepted_high=2.0)
    rng = np.random.default_rng(3)
    n = 40
    active = np.exp(rng.uniform(np.log(5e9), np.log(2e11), n))
    total = active * np.exp(rng.uniform(0.0, np.log(20.0), n))
    layers = rng.integers(16, 120, n).astype(float)
    sweep = predict(family_shape(total, active, layers, FamilyRules()), hardware, deployment)
    speeds = np.stack(sweep.speed)
    assert speeds.shape == (3, n)
    for i in range(n):
        mapping = dataclasses.replace(
            sweep.mapping,
            layers_per_stage=float(np.broadcast_to(sweep.mapping.layers_per_stage, n)[i]),
            tensor_parallel=float(np.broadcast_to(sweep.mapping.tensor_parallel, n)[i]),
        )
        one = predict(
            family_shape(float(total[i]), float(active[i]), float(layers[i]), FamilyRules()),
            hardware,
            deployment.with_(mapping=mapping),
            changes=False,
        )
        assert bool(sweep.fits[i]) is bool(one.fits)
        np.testing.assert_allclose(speeds[:, i], np.array(one.speed), rtol=1e-12)
        for term in TERMS:
            swept = np.broadcast_to(getattr(sweep.time, term), n)[i]
            assert swept == pytest.approx(float(getattr(one.time, term)), rel=1e-12)
        least = float(np.broadcast_to(sweep.min_nodes, n)[i])
        assert least == pytest.approx(float(one.min_nodes))


def test_every_public_record_is_told_in_one_line() -> None:
    found = solve("wse-3", 88, 750, weights="fp8", architectures=2)
    model = predict("kimi-k2", nodes=31)
    many = family_shape(np.array([2e11, 3e11]), np.array([2e10, 3e10]), 60.0, FamilyRules())
    records = (found, found.question, found.question.hardware, model, model.deployment, many)
    for record in (*records, model.shape, archinfer.catalogue.load("kimi-k2")):
        assert len(repr(record)) < 900 and "\n" not in repr(record)


@pytest.mark.parametrize("name", ["context", "total", "observed", "speculation", "max_power"])
def test_an_array_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(InputError, match=f"^{name}: ") as caught:
        solve("wse-3", 88, **{name: np.arange(60.0).reshape(20, 3)})
    assert "\n" not in str(caught.value)


def test_numbers_of_any_kind_are_read() -> None:
    written = question("wse-3", 88, 750, context=8000, layers=(60, 90))
    numpy = question("wse-3", np.int64(88), np.float32(750), context=np.int32(8000),
                     layers=(np.int64(60), np.float64(90)))  # fmt: skip
    assert written == numpy


def test_an_observed_speed_is_answered_as_the_command_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--observed", "750", "--nodes", "4", "--architectures", "0", "--seed", "2"]
    printed = run(capsys, "solve", *words, "--compare", "llama-3.1-70b=400", "--format", "json")
    found = solve(nodes=4, observed=750, architectures=0, seed=2, compare={"llama-3.1-70b": 400})
    assert found.posterior is not None and len(found.comparisons) == 1
    assert json.loads(printed.out) == json.loads(json.dumps(found.to_dict()))


def test_a_family_like_a_known_model() -> None:
    model = catalogue.load("deepseek-v3")
    asked = question("wse-3", nodes=88, tokens_per_second=750, like="deepseek-v3")
    assert (asked.rules.attention, asked.rules.vocab_size) == ("mla", model.vocab_size)
    assert asked.weights == (model.weight_format,)
    own = question("wse-3", nodes=88, like="deepseek-v3", weights="nvfp4", attention="gqa")
    assert (own.weights, own.rules.attention) == (("nvfp4",), "gqa")


def test_answers_are_frames_of_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each part of an answer that holds several, else one."""
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(json_normalize=list))
    found = solve("wse-3", nodes=88, tokens_per_second=750, weights="fp8", architectures=2)
    assert [row["layers"] for row in found.to_dataframe()] == [
        design.architecture.layers for design in found.architectures
    ]
    (row,) = predict("llama-3.1-8b", changes=False).to_dataframe()
    assert row["model"] == "llama-3.1-8b"
