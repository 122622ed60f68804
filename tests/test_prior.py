"""The prior over architectures: its numbers come from the catalogue, its formulas are textbook."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from scipy import stats

from archinfer import catalogue
from archinfer.hardware.profile import Hardware
from archinfer.inference.building import generative_model
from archinfer.inference.evidence import Conditions, Evidence, Piece
from archinfer.inference.prior import (
    CATALOGUE_PRIOR,
    DEPTH_SCALE,
    announced,
    attention_kind,
    catalogue_features,
    distinct,
    features,
    fit_prior,
    mixtures,
    same_shape,
    year_of,
)
from archinfer.inference.regression import Logistic, Regression
from archinfer.solver.question import Question


def flat(value: object) -> list[object]:
    if isinstance(value, tuple):
        return [x for v in value for x in flat(v)]
    return [value]


def test_shipped_numbers_are_those_of_the_catalogue() -> None:
    shipped = flat(astuple(CATALOGUE_PRIOR))
    fitted = flat(astuple(fit_prior(catalogue_features())))
    assert len(shipped) == len(fitted)
    for ours, theirs in zip(shipped, fitted, strict=True):
        if isinstance(theirs, float):
            assert ours == pytest.approx(theirs, rel=1e-6)
        else:
            assert ours == theirs


def test_features_of_a_known_model() -> None:
    found = features(catalogue.load("llama-3.1-70b").shape())
    # 70,553,706,496 parameters, 128,256 x 8,192 in each of two tables, 80 layers of 8,192.
    assert found.active_params == 70_553_706_496
    tables = 2 * 128_256 * 8192
    in_layers = (70_553_706_496 - tables - 8192) / (80 * 8192**2)
    assert found.params_per_layer == pytest.approx(in_layers, rel=1e-6)
    assert found.sparsity == 1.0
    assert not found.moe


def test_lookup_tables_are_no_sparsity() -> None:
    shape = catalogue.load("longcat-flash-lite").shape()
    total, active = float(shape.total_params), float(shape.active_params)
    assert features(shape).sparsity < 0.6 * total / active


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("llama-3.1-70b", "gqa"),
        ("deepseek-v3", "mla"),
        ("kimi-k3", "mla"),
        ("qwen3-next-80b-a3b", "mqa"),
        ("step-3", "mqa"),
        ("gemma-3-27b", "mqa"),
    ],
)
def test_attention_kind(name: str, kind: str) -> None:
    assert attention_kind(catalogue.load(name).shape()) == kind


def test_copies_count_once() -> None:
    by_name = {name: features(catalogue.load(name).shape()) for name in catalogue.names()}
    v3 = by_name["deepseek-v3"]
    assert same_shape(v3, by_name["deepseek-r1"]) and same_shape(v3, by_name["deepseek-v3.2"])
    assert not same_shape(v3, by_name["kimi-k2"])
    kept = distinct(by_name.values())
    assert sum(m.layers == 61 and m.sparsity > 15 and m.active_params > 35e9 for m in kept) == 1


def test_regression_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(24.0, 1.3, 30)
    y = 0.3 * x - 3.5 + rng.normal(0, 0.2, 30)
    found = Regression.fit(y, x)
    slope, intercept = np.polyfit(x, y, 1)
    assert found.coefficients == pytest.approx((intercept, slope), rel=1e-8)
    at = np.array([24.0, 29.0])
    mean, sd = found.predict(at)
    assert mean == pytest.approx(intercept + slope * at)
    # The textbook prediction interval: s sqrt(1 + 1/n + (x - mean)^2 / Sxx).
    residual = y - intercept - slope * x
    s = np.sqrt(residual @ residual / 28)
    exact = s * np.sqrt(1 + 1 / 30 + (at - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum())
    assert sd == pytest.approx(exact, rel=1e-6)
    assert sd[1] > sd[0]


def test_the_chance_of_a_tied_head_is_less_certain_where_no_model_was_seen() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(24.0, 1.5, 4000)
    yes = (rng.random(4000) < 1.0 / (1.0 + np.exp(1.0 + 0.8 * (x - 24.0)))).astype(float)
    many, few = Logistic.fit(yes, x), Logistic.fit(yes[:40], x[:40])
    at = np.array([20.0, 24.0, 27.0])
    assert many.predict(at) == pytest.approx(
        1.0 / (1.0 + np.exp(1.0 + 0.8 * (at - 24.0))), abs=0.03
    )
    log_odds = few.coefficients[0] + few.coefficients[1] * at
    assert np.all(np.abs(few.predict(at) - 0.5) < np.abs(1.0 / (1.0 + np.exp(-log_odds)) - 0.5))


def test_tables_of_small_models_are_open_and_of_large_ones_known() -> None:
    """No model of the catalogue is below 1B, and few of its large ones tie their head."""
    size = np.log([7e6, 1e9, 1e12])
    mean, sd = CATALOGUE_PRIOR.vocabulary.predict(size)
    assert sd[0] > sd[1] > 0.6 and 4e4 < np.exp(mean[0]) < np.exp(mean[2]) < 2e5
    tied = CATALOGUE_PRIOR.tied.predict(size)
    assert tied[0] > 0.8 and tied[2] < 0.1


def test_prediction_covers_new_points() -> None:
    """90 % of new models lie within 1.645 deviations when the model of the prior is true."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        x = rng.normal(size=40)
        found = Regression.fit(0.5 * x + rng.normal(size=40), x)
        new = rng.normal(size=1)
        mean, sd = found.predict(new)
        inside += int(abs(0.5 * new[0] + rng.normal() - mean[0]) < 1.6449 * sd[0])
    assert 0.85 < inside / 400 < 0.94


def test_leaving_a_model_out_changes_the_prior() -> None:
    models = catalogue_features()
    without = fit_prior(m for m in models if m.layers != 126)
    assert without.dense != CATALOGUE_PRIOR.dense
    assert without.moe.depth.sd == pytest.approx(CATALOGUE_PRIOR.moe.depth.sd, rel=1e-6)
    changed = [replace(models[0], layers=models[0].layers + 1), *models[1:]]
    assert fit_prior(changed) != fit_prior(models)


def left_out_score(
    y: np.ndarray,
    x: tuple[np.ndarray, ...],
    makers: np.ndarray,
    law: stats.rv_continuous,
    scale: float = 1.0,
) -> float:
    """Mean log density, each maker's models predicted from all others'."""
    scores = []
    for maker in set(makers):
        own = makers == maker
        found = Regression.fit(y[~own], *(v[~own] for v in x))
        mean, sd = found.predict(*(v[own] for v in x))
        sd = scale * sd
        scores.extend(law.logpdf((y[own] - mean) / sd) - np.log(sd) * np.ones(own.sum()))
    return float(np.mean(scores))


@pytest.mark.parametrize("moe", [False, True])
def test_laws_predict_other_makers_models_best(moe: bool) -> None:
    """Fixed proportions with heavy tails against a trend of depth with size, or its saturation."""
    named = {name: features(catalogue.load(name).shape()) for name in catalogue.names()}
    kept = distinct(named.values())
    aliases = {"codellama": "llama", "mixtral": "mistral", "qwq": "qwen", "hy": "hunyuan"}
    rows = [
        (name.split("-")[0].rstrip("0123456789."), m)
        for name, m in named.items()
        if m.moe == moe and any(m is k for k in kept)
    ]
    makers = np.array([aliases.get(maker, maker) for maker, _ in rows])
    size, depth, width = (
        np.log([getattr(m, f) for _, m in rows])
        for f in ("active_params", "layers", "params_per_layer")
    )
    ratio = depth - size / 3.0
    ours = left_out_score(ratio, (), makers, stats.t(4), DEPTH_SCALE)
    for scale in (0.6, 1.1):
        assert ours > left_out_score(ratio, (), makers, stats.t(4), scale)
    assert ours > left_out_score(depth, (size,), makers, stats.norm) + 0.02
    assert ours > left_out_score(depth, (size, (size - 24.0) ** 2), makers, stats.norm) + 0.02
    assert ours > left_out_score(depth, (), makers, stats.norm) + 0.2
    narrow = left_out_score(width, (ratio,), makers, stats.norm)
    assert narrow > left_out_score(width, (size, depth), makers, stats.norm) + 0.05


def test_sparsity_grows_with_size_as_among_announced_models() -> None:
    """The law on the total predicts other makers' mixtures better than one without a trend."""
    sizes = mixtures(announced())
    makers = np.array([m.maker for m in sizes])
    total = np.log([m.total_params for m in sizes])
    ratio = total - np.log([m.active_params for m in sizes])
    ours = left_out_score(ratio, (total,), makers, stats.norm)
    assert ours > left_out_score(ratio, (), makers, stats.norm) + 0.2
    assert ours > left_out_score(ratio, (total,), makers, stats.t(4), DEPTH_SCALE)
    # Kimi K3 has 105B of 2.78T active, DeepSeek V4 Pro 49B of 1.6T.
    assert CATALOGUE_PRIOR.moe.sparsity is not None
    mean, _ = CATALOGUE_PRIOR.moe.sparsity.predict(np.log([2e12]))
    assert 0.03 < float(np.exp(-mean[0])) < 0.05


def test_the_share_of_mixtures_follows_the_date() -> None:
    """Of announced models above 10B 10 of 25 were mixtures in 2024, 26 of 32 in early 2026; a
    service of a known date has the share of its time, a question without one the catalogue's."""
    shares = [CATALOGUE_PRIOR.at(year_of(d)).moe.share for d in ("2024", "2026-04-01")]
    assert shares == pytest.approx([10 / 25, 26 / 32], abs=0.1)
    dated = CATALOGUE_PRIOR.at(year_of("2024-08-27"))
    assert dated.dense.share == pytest.approx(1.0 - dated.moe.share)
    seen = Evidence((Piece("speed", 700.0, conditions=Conditions(date="2024-08-27")),))
    for evidence, share in ((seen, dated.moe.share), (None, CATALOGUE_PRIOR.moe.share)):
        asked = Question(Hardware.load("wse-3"), observed=True)
        model = generative_model(asked, CATALOGUE_PRIOR, None, None, None, None, evidence=evidence)
        moe = model.space.cell_probability[model.cells.moe == 1].sum()
        assert moe == pytest.approx(share)


def test_dates_of_any_precision_are_the_middle_of_what_they_name() -> None:
    assert year_of("2025") == pytest.approx(2025.5, abs=0.01)
    assert year_of("2025-07") == pytest.approx(2025.5 + 0.5 / 12, abs=0.01)
    assert year_of("2025-12-31") == pytest.approx(2026.0, abs=0.004)


def test_announced_sizes_count_once() -> None:
    sizes = mixtures(announced())
    assert len(sizes) == 57
    assert sum(m.same(671e9, 37e9) for m in sizes) == 1
    assert not any(m.same(70e9, 70e9) for m in sizes)
