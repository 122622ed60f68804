"""What models are like before any speed is seen: a joint prior over size, depth and sparsity.

Two classes, dense and mixture-of-experts. With c = (A - embedding - head) / (L d^2), the active
parameters of a layer in units of hidden_size^2:

    log N                       Student's t with 4 degrees, of the class
    log(N / A)                  normal, linear in log N, of mixtures of experts
    log L - log(A) / 3          Student's t with 4 degrees, of the class
    log c                       normal, linear in log L - log(A) / 3, of the class
    log V                       Student's t, linear in log N: rows of embedding and head
    tied                        of a chance whose log-odds are linear in log N

Two of three shapes of the catalogue are mixtures. Of a service that was observed at a known date
the log-odds of a mixture are linear in the year, as among announced models (`ShapePrior.at`).

The larger a mixture, the smaller the part of it that is active. L / A^(1/3) is what a model of
fixed proportions keeps at every size (A = c L d^2 with d in proportion to L); a deep model is
narrow for its size. The scale of each law is the sample's standard deviation (DEPTH_SCALE of it for
depth), with the uncertainty of the mean or the line; for depth that of a trend with log A as well,
which counts far from the catalogue's sizes. Sparsity and the trend with the year come from
the announced sizes of open models (`announced`), everything else from the shipped catalogue (one
entry for each distinct shape, `fit_prior`; the tests compute the numbers again). Of several laws
these predict each maker's models best from all others' (`benchmarks/prior_likelihood.py`).
"""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TypeVar

import numpy as np

from archinfer.inference.regression import Logistic, Regression
from archinfer.models import catalogue
from archinfer.models.shape import ModelShape
from archinfer.models.solver_family import ATTENTION_KINDS

DEPTH_SCALE = 0.85
"""Scale of Student's t of depth over the standard deviation: of both classes the one that predicts
each maker's depths best from all others'."""

TOTAL_SEARCHED = 1e5, 1e16
"""Fewest and most parameters of a draw; less than one in a thousand lies beyond a priori."""

LARGE_PARAMS = 200e9
"""Total parameters above which a model counts as large."""

_YEAR = 2025.0
_SERVED_PARAMS = 10e9
"""Total parameters from which on announced models tell the trend of mixtures: smaller ones are
dense at all times, and few of the catalogue are smaller."""

_SPARSE = 1.05
"""Total over active parameters above which a model counts as mixture-of-experts."""


@dataclass(frozen=True, slots=True)
class Features:
    """One model of the catalogue as the prior sees it."""

    active_params: float
    layers: float
    params_per_layer: float
    """c = (A - embedding - head) / (L d^2)."""
    sparsity: float
    """N / A."""
    attention: str
    """Kind of the family whose cache is nearest, see `attention_kind`."""
    vocabulary: float
    """Rows of the head."""
    tied: bool
    """The head is the embedding."""

    @property
    def total_params(self) -> float:
        """N, without tables that no token reads."""
        return self.active_params * self.sparsity

    @property
    def moe(self) -> bool:
        """Whether the model has experts that a token does not use."""
        return self.sparsity > _SPARSE


def attention_kind(shape: ModelShape) -> str:
    """Key of ATTENTION_KINDS that stands for a model's attention.

    `mla`: some layer keeps all of a latent within 10 % of the family's width. Otherwise `gqa` or
    `mqa`, whichever is nearer by logarithm in numbers cached per token and layer once every
    window is full: a model with full attention in one layer of four has a lighter kind's cache.
    """
    full = [
        (float(group.count), cache)
        for group in shape.groups
        for cache in group.caches
        if np.all(np.isinf(cache.window_tokens))
    ]
    latent = ATTENTION_KINDS["mla"].values_per_token
    if any(abs(float(c.values_per_token) / latent - 1.0) < 0.1 for _, c in full):
        return "mla"
    values = sum(n * float(c.values_per_token) for n, c in full) / float(shape.layers)
    many, one = ATTENTION_KINDS["gqa"], ATTENTION_KINDS["mqa"]
    return "gqa" if values * values >= many.values_per_token * one.values_per_token else "mqa"


def features(shape: ModelShape) -> Features:
    """The features of a model with scalar fields."""
    layers = float(shape.layers)
    active = float(shape.active_params)
    in_layers = active - float(shape.outside_params) + float(shape.inactive_params)
    # n-gram tables are stored but not read: they are no sparsity of experts.
    total = float(shape.total_params) - float(shape.inactive_params)
    return Features(
        active_params=active,
        layers=layers,
        params_per_layer=in_layers / (layers * float(shape.hidden_size) ** 2),
        sparsity=max(total / active, 1.0),
        attention=attention_kind(shape),
        vocabulary=float(shape.head_params) / float(shape.hidden_size),
        tied=bool(shape.tied),
    )


@dataclass(frozen=True, slots=True)
class Announced:
    """An open model by its announced sizes."""

    name: str
    maker: str
    total_params: float
    active_params: float
    year: float
    """Of the release."""

    @property
    def moe(self) -> bool:
        """Whether it has experts that a token does not use."""
        return self.total_params > _SPARSE * self.active_params

    def same(self, total_params: float, active_params: float) -> bool:
        """Whether it may be the model of these sizes: each within 10 %."""
        ratios = self.total_params / total_params, self.active_params / active_params
        return all(abs(math.log(ratio)) < 0.1 for ratio in ratios)

    def again(self, other: Announced) -> bool:
        """Whether it may be an earlier model of the same maker."""
        return self.maker == other.maker and self.same(other.total_params, other.active_params)


def year_of(date: str) -> float:
    """The middle of 2025, 2025-07 or 2025-07-31, in years; ValueError where it is none."""
    year, month, day = (int(part) for part in (date + "-00-00").split("-")[:3])
    start = datetime.date(year, month or 7, day or (15 if month else 1))
    return year + (start.timetuple().tm_yday - 0.5) / 365.25


@cache
def announced() -> tuple[Announced, ...]:
    """The models of `archinfer/data/announced_models.csv`, by release."""
    text = (resources.files("archinfer") / "data" / "announced_models.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        Announced(
            row["name"],
            row["maker"],
            1e9 * float(row["total_billions"]),
            1e9 * float(row["active_billions"]),
            year_of(row["release_date"]),
        )
        for row in rows
    )


Model = TypeVar("Model")


def _first(models: Iterable[Model], same: Callable[[Model, Model], bool]) -> list[Model]:
    """Those that are not the same as one before."""
    kept: list[Model] = []
    for m in models:
        if not any(same(m, k) for k in kept):
            kept.append(m)
    return kept


def mixtures(models: Iterable[Announced]) -> list[Announced]:
    """Mixtures of experts, one of each size, the first."""
    sparse = (m for m in models if m.moe)
    return _first(sparse, lambda m, k: k.same(m.total_params, m.active_params))


@dataclass(frozen=True, slots=True)
class ClassPrior:
    """One class of models, dense or mixture-of-experts."""

    share: float
    """Probability of the class."""
    size_mean: float
    """Of log N, Student's t with 4 degrees of freedom."""
    size_sd: float
    """Its scale."""
    depth: Regression
    """log L - log(A) / 3 on log A, Student's t with 4 degrees of freedom; its slope is 0, with the
    error that the sample gives it."""
    per_layer: Regression
    """log c on log L - log(A) / 3, normal."""
    sparsity: Regression | None = None
    """log(N / A) on log N, normal; None: dense."""


@dataclass(frozen=True, slots=True)
class ShapePrior:
    """The prior over shapes: two classes, the kinds of attention with their probabilities, and the
    tables outside the layers."""

    dense: ClassPrior
    moe: ClassPrior
    attention: tuple[tuple[str, float], ...]
    vocabulary: Regression
    """log V on log N, Student's t with 4 degrees of freedom."""
    tied: Logistic
    """Whether the head is the embedding, on log N."""
    mixture: Logistic
    """Whether it is a mixture of experts, on the year."""

    @property
    def classes(self) -> tuple[ClassPrior, ClassPrior]:
        """Dense and mixture-of-experts, in the order of a 0/1 flag."""
        return self.dense, self.moe

    def at(self, year: float) -> ShapePrior:
        """The prior over models of a service that was observed in a year."""
        moe = float(self.mixture.predict(np.array([year - _YEAR]))[0])
        dense = replace(self.dense, share=1.0 - moe)
        return replace(self, dense=dense, moe=replace(self.moe, share=moe))


def same_shape(a: Features, b: Features) -> bool:
    """Whether two models are one architecture: a fine-tune, a later version, a copy.

    As many layers, active parameters within 10 % and sparsity within 15 %.
    """
    return (
        a.layers == b.layers
        and abs(np.log(a.active_params / b.active_params)) < 0.1
        and abs(np.log(a.sparsity / b.sparsity)) < 0.15
    )


def distinct(models: Iterable[Features]) -> list[Features]:
    """One of each shape, the first."""
    return _first(models, same_shape)


def catalogue_features() -> list[Features]:
    """The features of every model of the shipped catalogue, in the order of its names."""
    return [features(catalogue.load(name).shape()) for name in catalogue.names()]


def _fit_class(
    models: Sequence[Features], share: float, sizes: Sequence[Announced] = ()
) -> ClassPrior:
    log_active = np.log([m.active_params for m in models])
    log_total = log_active + np.log([m.sparsity for m in models])
    size_mean, size_sd = Regression.fit(log_total).predict()
    relative_depth = np.log([m.layers for m in models]) - log_active / 3.0
    per_layer = Regression.fit(np.log([m.params_per_layer for m in models]), relative_depth)
    level, trend = Regression.fit(relative_depth), Regression.fit(relative_depth, log_active)
    depth = replace(trend, coefficients=(*level.coefficients, 0.0), sd=DEPTH_SCALE * level.sd)
    sparsity = None
    if sizes:
        announced_total = np.log([m.total_params for m in sizes])
        sparsity = Regression.fit(
            announced_total - np.log([m.active_params for m in sizes]), announced_total
        )
    return ClassPrior(
        share=share,
        size_mean=float(size_mean),
        size_sd=float(size_sd),
        depth=depth,
        per_layer=per_layer,
        sparsity=sparsity,
    )


def fit_prior(models: Iterable[Features], sizes: Sequence[Announced] | None = None) -> ShapePrior:
    """The prior that a set of models teaches; at least four dense and four sparse shapes.

    The attention kinds get one pseudo-count each, so that none is impossible.

    Args:
        models: what all but sparsity is fitted to.
        sizes: what sparsity and the trend with the year are fitted to; None: `announced`.
    """
    sizes = announced() if sizes is None else sizes
    served = _first((m for m in sizes if m.total_params >= _SERVED_PARAMS), Announced.again)
    kept = distinct(models)
    dense = [m for m in kept if not m.moe]
    moe = [m for m in kept if m.moe]
    kinds = [m.attention for m in kept]
    total = len(kept) + len(ATTENTION_KINDS)
    log_total = np.log([m.total_params for m in kept])
    return ShapePrior(
        dense=_fit_class(dense, len(dense) / len(kept)),
        moe=_fit_class(moe, len(moe) / len(kept), mixtures(sizes)),
        attention=tuple((k, (kinds.count(k) + 1) / total) for k in ATTENTION_KINDS),
        vocabulary=Regression.fit(np.log([m.vocabulary for m in kept]), log_total),
        tied=Logistic.fit(np.array([m.tied for m in kept], dtype=float), log_total),
        mixture=Logistic.fit(
            np.array([m.moe for m in served], dtype=float),
            np.array([m.year for m in served]) - _YEAR,
        ),
    )


CATALOGUE_PRIOR = ShapePrior(
    dense=ClassPrior(
        share=0.333333333,
        size_mean=24.0011225,
        size_sd=1.32306765,
        depth=Regression(
            coefficients=(-3.99106547, 0.0),
            sd=0.151116442,
            inverse_gram=((21.8360518, -0.907342076), (-0.907342076, 0.0378041518)),
        ),
        per_layer=Regression(
            coefficients=(-0.587027088, -0.782259806),
            sd=0.285159718,
            inverse_gram=((31.5560369, 7.89193102), (7.89193102, 1.97739954)),
        ),
        sparsity=None,
    ),
    moe=ClassPrior(
        share=0.666666667,
        size_mean=26.0299796,
        size_sd=1.18423483,
        depth=Regression(
            coefficients=(-3.96656443, 0.0),
            sd=0.28559223,
            inverse_gram=((17.9819231, -0.75864928), (-0.75864928, 0.0320595108)),
        ),
        per_layer=Regression(
            coefficients=(0.414150938, -0.587215071),
            sd=0.292978925,
            inverse_gram=((4.25279178, 1.06474509), (1.06474509, 0.268430052)),
        ),
        sparsity=Regression(
            coefficients=(-6.17394476, 0.334374778),
            sd=0.569274068,
            inverse_gram=((5.3088465, -0.207315578), (-0.207315578, 0.00812271607)),
        ),
    ),
    attention=(("gqa", 0.481481481), ("mqa", 0.37037037), ("mla", 0.148148148)),
    vocabulary=Regression(
        coefficients=(10.0676062, 0.0640650108),
        sd=0.647103803,
        inverse_gram=((5.46436116, -0.214751876), (-0.214751876, 0.00847024013)),
    ),
    tied=Logistic(
        coefficients=(13.0911663, -0.597626957),
        covariance=((48.4978739, -1.97014188), (-1.97014188, 0.0803222677)),
    ),
    mixture=Logistic(
        coefficients=(-0.152327372, 1.04581018),
        covariance=((0.0573099821, -0.0367723064), (-0.0367723064, 0.0843180803)),
    ),
)
"""`fit_prior` of the shipped catalogue."""
