"""Measured configurations of serving engines against the shipped profiles."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

from archinfer.fitting.pooled import compared, serving_accuracy
from archinfer.fitting.serving import Compared, accuracy, rows

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def test_a_sample_of_all_configurations() -> None:
    """Every eleventh row, all models, machines and engines among them."""
    found = serving_accuracy(rows()[::11])
    assert found.all.rows > 130
    assert found.all.median_factor <= 1.13
    assert found.all.p90_factor <= 1.42
    assert 0.95 <= found.all.bias <= 1.05
    assert 0.85 <= found.all.coverage90 <= 0.97
    assert {m.name for m in found.machines} == {"b200", "h100-sxm", "h200-sxm"}
    assert {e.name for e in found.engines} == {"sglang", "trtllm", "vllm"}
    assert [u.name for u in found.users][:2] == ["1 to 4 users", "5 to 16 users"]
    assert all(m.median_factor < 1.25 for m in found.models)


def test_figures_of_an_accuracy() -> None:
    row = rows()[0]
    errors = (-0.1, 0.2, 0.3)
    found = accuracy("some", [Compared(row, e, 0.15, math.nan) for e in errors])
    assert found.rows == 3
    assert found.median_factor == math.exp(0.2)
    assert found.bias == math.exp(0.2)
    assert found.coverage90 == 2 / 3
    assert found.first_token_median_factor is None


def test_the_form_of_a_curve_holds_where_engines_differ_in_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a planner draws: the area below tokens/s of a user over those of a GPU. Levels of one
    engine with one model are off by up to a half; within a level curves are right to a few per
    cent, and so is the best batch for a target."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    bench = importlib.import_module("serving_curves")
    assert bench.hypervolume([(1.0, 3.0), (2.0, 1.0), (1.0, 2.0)]) == 4.0
    chosen = [row for row in rows() if row.model in ("deepseek-r1", "kimi-k2")]
    found = bench.curves(compared(chosen), engines=True)
    apart = bench.errors(found)
    level = bench.levels(apart)
    off = [abs(error - level[key[:4]]) for key, error in apart.items()]
    assert len(off) > 20 and np.median(off) < 0.1
    assert abs(np.median(list(level.values()))) < 0.2
    steps = np.array([step for own in found.values() for step in bench.best_batches(own)])
    assert len(steps) > 100 and np.mean(np.abs(steps) <= 1) >= 0.9
