"""Why one model is slower than another, and speeds back to known architectures."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archinfer import catalogue
from archinfer.errors import InputError
from archinfer.fitting.inverse import InverseCase, prior_without, validate_inverse
from archinfer.hardware.profile import Hardware
from archinfer.inference.comparison import CAUSES, compare_with, log_mean
from archinfer.inference.infer import infer
from archinfer.inference.posterior import Posterior
from archinfer.inference.prior import (
    CATALOGUE_PRIOR,
    announced,
    catalogue_features,
    features,
    fit_prior,
)
from archinfer.solver.question import Question


@cache
def slow() -> Posterior:
    """1,000 tokens/s at 128k context on an unknown number of wafers."""
    question = Question(
        Hardware.load("wse-3"),
        nodes=(1, 128),
        tokens_per_s=1000.0,
        observed=True,
        context_tokens=128_000,
    )
    return infer(question, samples=8192)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_log_mean_lies_between_and_is_exact(a: float, b: float) -> None:
    mean = float(log_mean(np.array(a), np.array(b)))
    assert min(a, b) * (1 - 1e-9) <= mean <= max(a, b) * (1 + 1e-9)
    assert mean * np.log(a / b) == pytest.approx(a - b, rel=1e-6, abs=1e-6 * mean)


class TestComparison:
    @pytest.mark.parametrize(
        ("name", "speed"), [("gpt-oss-120b", 3000.0), ("llama-3.1-70b", 2100.0)]
    )
    def test_causes_multiply_to_the_ratio(self, name: str, speed: float) -> None:
        found = compare_with(slow(), catalogue.load(name).shape(), speed)
        assert set(found.factor) == set(CAUSES)
        assert np.prod(list(found.factor.values())) == pytest.approx(speed / 1000.0, rel=1e-6)
        assert found.share is not None
        assert sum(found.share.values()) == pytest.approx(1.0)
        assert sum(found.main_cause.values()) == pytest.approx(1.0)
        assert all(0.0 <= p <= 1.0 for p in found.probability.values())
        assert found.probability["no speculation"] <= 1 - 1e-6
        json.dumps(found.to_dict())

    def test_probabilities_are_those_of_the_draws(self) -> None:
        shape = catalogue.load("gpt-oss-120b").shape()
        found = compare_with(slow(), shape, 3000.0)
        layers, weights = slow().density("layers")
        assert found.probability["deeper"] == pytest.approx(weights[layers > 36].sum())
        active, _ = slow().density("active_params")
        larger = weights[active > float(shape.active_params)].sum()
        assert found.probability["larger"] == pytest.approx(larger)

    def test_slower_than_a_shallow_model_means_deeper(self) -> None:
        found = compare_with(slow(), catalogue.load("gpt-oss-120b").shape(), 3000.0)
        assert found.probability["deeper"] > 0.8
        assert found.factor["depth"] > 1.0

    def test_without_speculation_none_is_blamed(self) -> None:
        question = slow().question.with_(speculation=(1.0, 1.0))
        posterior = infer(question, samples=4096, target_ess=500)
        found = compare_with(posterior, catalogue.load("llama-3.1-8b").shape(), 1800.0)
        assert found.factor["speculation"] == pytest.approx(1.0)
        assert found.probability["less speculation"] == 0.0

    def test_what_cannot_be_compared(self) -> None:
        shape = catalogue.load("llama-3.1-70b").shape()
        unseen = infer(slow().question.with_(observed=False), samples=1024, target_ess=100)
        with pytest.raises(InputError, match="observed"):
            compare_with(unseen, shape, 2100.0)
        with pytest.raises(InputError, match="needs"):
            compare_with(slow(), shape, 2100.0, nodes=1)


class TestInverse:
    def test_the_model_itself_is_left_out_of_the_prior(self) -> None:
        models = catalogue_features()
        shape = catalogue.load("deepseek-v3").shape()
        own = features(shape)
        prior = prior_without(shape, models)
        assert prior != CATALOGUE_PRIOR
        others = (
            m
            for m in models
            if m.layers != 61
            or abs(np.log(m.active_params / own.active_params)) > 0.1
            or abs(np.log(m.sparsity / own.sparsity)) > 0.15
        )
        sizes = [m for m in announced() if not m.same(671e9, 37.6e9)]
        assert len(sizes) < len(announced())
        assert prior == fit_prior(others, sizes)

    def test_rows_and_summary(self) -> None:
        hardware = Hardware.load("wse-3")
        shape = catalogue.load("llama-3.1-70b").shape()
        cases = [
            InverseCase("a", 450.0, shape, hardware, nodes=4, speculative=False),
            InverseCase("b", 1e9, shape, hardware, nodes=4),
        ]
        found = validate_inverse(cases, samples=4096)
        json.dumps(found)
        good, bad = found["rows"]
        assert good["layers"]["truth"] == 80.0
        for quantity in ("total_params", "active_params", "layers"):
            entry = good[quantity]
            assert entry["inside90"] == (entry["p05"] <= entry["truth"] <= entry["p95"])
            assert entry["ratio90"] == pytest.approx(entry["p95"] / entry["p05"])
            # What cannot be explained counts against the coverage, and has no width.
            assert not bad["possible"] and not bad[quantity]["inside90"]
            assert found["coverage90"][quantity] == 0.5 * entry["inside90"]
            assert found["median_width"][quantity] == entry["ratio90"]

    def test_no_rows(self) -> None:
        found = validate_inverse([])
        assert found["rows"] == []
        assert found["coverage90"]["layers"] is None
        assert found["median_width"]["layers"] is None
