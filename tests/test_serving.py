"""Measured configurations of serving engines against the shipped profiles."""

import math

from archinfer.fitting.serving import Compared, accuracy, rows, serving_accuracy


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
