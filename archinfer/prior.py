"""What models are like before any speed is seen: a joint prior over size, depth and sparsity.

Two classes, dense and mixture-of-experts, each a chain of normal distributions of logarithms:

    log A ~ N(mean, (widening * sd)^2)
    log L | A,  log c | A, L,  log(N / A) | A, L     linear regressions with their spread

with c = (A - embedding - head) / (L d^2), the active parameters of a layer in units of
hidden_size^2. The numbers come from the shipped catalogue (one entry for each distinct shape,
`fit_prior`; the tests compute them again). Three things are wider than the catalogue. The size
(SIZE_WIDENING, DENSE_WIDENING): the models a provider serves need not be the open ones and the
largest are larger, and how large a model is shall come from what was observed. Depth at a given
size (DEPTH_WIDENING). And each regression, by the uncertainty of its own coefficients, which
grows away from the catalogue's centre: a 4T model has a looser prior on depth than a 70B one.
The factors on size were chosen with the coverage of the inverse of `archinfer validate` in view
(20 speeds of 7 models): that coverage is no blind test of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from archinfer.family import ATTENTION_KINDS
from archinfer.shape import FloatArray, ModelShape, Number

__all__ = [
    "CATALOGUE_PRIOR",
    "DENSE_WIDENING",
    "DEPTH_WIDENING",
    "SIZE_WIDENING",
    "ClassPrior",
    "Features",
    "Regression",
    "ShapePrior",
    "attention_kind",
    "catalogue_features",
    "distinct",
    "features",
    "fit_prior",
    "same_shape",
]

SIZE_WIDENING = 2.5
"""Standard deviation of log A of mixtures of experts over that of the catalogue: nearly flat from
1B to 1T. It puts 150B active (the largest open one has 115B) 0.9 deviations from the centre
instead of 2.1."""

DENSE_WIDENING = 1.25
"""The same of dense models, none of which larger than 405B was published since 2024."""

DEPTH_WIDENING = 1.2
"""Spread of depth at a given size over that of the regression: models of one maker look alike.
Predicting each maker's depths from all others' leaves errors of 1.18 (dense) and 1.11 (mixtures)
of the stated deviations."""

_SPARSE = 1.05
"""Total over active parameters above which a model counts as mixture-of-experts."""


@dataclass(frozen=True, slots=True)
class Features:
    """One model of the catalogue as the prior sees it.

    Attributes:
        active_params, layers: A and L.
        params_per_layer: c = (A - embedding - head) / (L d^2).
        sparsity: N / A.
        attention: kind of the family whose cache is nearest, see `attention_kind`.
    """

    active_params: float
    layers: float
    params_per_layer: float
    sparsity: float
    attention: str

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
    )


@dataclass(frozen=True, slots=True)
class Regression:
    """y = b0 + b1 x1 + ... + noise, with the spread of a new point.

    Attributes:
        coefficients: b, of length k.
        sd: standard deviation of the residuals, n - k degrees of freedom.
        inverse_gram: (X'X)^-1, k x k.
    """

    coefficients: tuple[float, ...]
    sd: float
    inverse_gram: tuple[tuple[float, ...], ...]

    def predict(self, *x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of a new y: sd sqrt(1 + x'(X'X)^-1 x)."""
        columns = (np.ones_like(x[0]), *x)
        mean = sum((b * c for b, c in zip(self.coefficients, columns, strict=True)), start=0.0)
        leverage: Number = 0.0
        for i, left in enumerate(columns):
            for j in range(i + 1):
                twice = 1.0 if i == j else 2.0
                leverage = leverage + twice * self.inverse_gram[i][j] * left * columns[j]
        return np.asarray(mean), self.sd * np.sqrt(1.0 + np.asarray(leverage))

    def widened(self, factor: float) -> Regression:
        """The same line with `factor` times the spread."""
        return replace(self, sd=factor * self.sd)

    @staticmethod
    def fit(y: FloatArray, *x: FloatArray) -> Regression:
        """Least squares."""
        design = np.column_stack((np.ones_like(y), *x))
        inverse = np.linalg.inv(design.T @ design)
        coefficients = inverse @ design.T @ y
        residuals = y - design @ coefficients
        sd = np.sqrt(residuals @ residuals / (len(y) - design.shape[1]))
        return Regression(
            tuple(float(b) for b in coefficients),
            float(sd),
            tuple(tuple(float(v) for v in row) for row in inverse),
        )


@dataclass(frozen=True, slots=True)
class ClassPrior:
    """One class of models, dense or mixture-of-experts.

    Attributes:
        share: probability of the class.
        size_mean, size_sd: of log A, the widening included.
        depth: log L on log A.
        per_layer: log c on (log A, log L).
        sparsity: log(N / A) on (log A, log L); None: dense.
    """

    share: float
    size_mean: float
    size_sd: float
    depth: Regression
    per_layer: Regression
    sparsity: Regression | None = None


@dataclass(frozen=True, slots=True)
class ShapePrior:
    """The prior over shapes: two classes and the kinds of attention with their probabilities."""

    dense: ClassPrior
    moe: ClassPrior
    attention: tuple[tuple[str, float], ...]

    @property
    def classes(self) -> tuple[ClassPrior, ClassPrior]:
        """Dense and mixture-of-experts, in the order of a 0/1 flag."""
        return self.dense, self.moe


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
    kept: list[Features] = []
    for m in models:
        if not any(same_shape(m, k) for k in kept):
            kept.append(m)
    return kept


def catalogue_features() -> list[Features]:
    """The features of every model of the shipped catalogue, in the order of its names."""
    from archinfer import catalogue

    return [features(catalogue.load(name).shape()) for name in catalogue.names()]


def _fit_class(models: Sequence[Features], share: float) -> ClassPrior:
    log_active = np.log([m.active_params for m in models])
    log_layers = np.log([m.layers for m in models])
    log_sparsity = np.log([m.sparsity for m in models])
    depth = Regression.fit(log_layers, log_active)
    return ClassPrior(
        share=share,
        size_mean=float(log_active.mean()),
        size_sd=float(
            (SIZE_WIDENING if models[0].moe else DENSE_WIDENING) * log_active.std(ddof=1)
        ),
        depth=depth.widened(DEPTH_WIDENING),
        per_layer=Regression.fit(
            np.log([m.params_per_layer for m in models]), log_active, log_layers
        ),
        sparsity=(Regression.fit(log_sparsity, log_active, log_layers) if models[0].moe else None),
    )


def fit_prior(models: Iterable[Features]) -> ShapePrior:
    """The prior that a set of models teaches; at least four dense and four sparse shapes.

    The attention kinds get one pseudo-count each, so that none is impossible.
    """
    kept = distinct(models)
    dense = [m for m in kept if not m.moe]
    moe = [m for m in kept if m.moe]
    kinds = [m.attention for m in kept]
    total = len(kept) + len(ATTENTION_KINDS)
    return ShapePrior(
        dense=_fit_class(dense, len(dense) / len(kept)),
        moe=_fit_class(moe, len(moe) / len(kept)),
        attention=tuple((k, (kinds.count(k) + 1) / total) for k in ATTENTION_KINDS),
    )


CATALOGUE_PRIOR = ShapePrior(
    dense=ClassPrior(
        share=0.32,
        size_mean=23.991978,
        size_sd=1.6592347,
        depth=Regression(
            coefficients=(-5.1385789, 0.38106791),
            sd=0.21372512,
            inverse_gram=((21.841865, -0.907777), (-0.907777, 0.037836689)),
        ),
        per_layer=Regression(
            coefficients=(0.10555687, 0.22517863, -0.74706517),
            sd=0.29054035,
            inverse_gram=(
                (81.299739, -5.3170677, 11.570879),
                (-5.3170677, 0.36482188, -0.8580759),
                (11.570879, -0.8580759, 2.2517663),
            ),
        ),
        sparsity=None,
    ),
    moe=ClassPrior(
        share=0.68,
        size_mean=23.663782,
        size_sd=2.4305502,
        depth=Regression(
            coefficients=(-3.861546, 0.32889539),
            sd=0.40940664,
            inverse_gram=((17.981923, -0.75864928), (-0.75864928, 0.032059511)),
        ),
        per_layer=Regression(
            coefficients=(0.63314841, 0.18654116, -0.58756111),
            sd=0.2975203,
            inverse_gram=(
                (21.985288, -1.0996237, 1.036726),
                (-1.0996237, 0.061100964, -0.088299969),
                (1.036726, -0.088299969, 0.26847432),
            ),
        ),
        sparsity=Regression(
            coefficients=(5.5657827, -0.23916402, 0.62731761),
            sd=0.67953311,
            inverse_gram=(
                (21.985288, -1.0996237, 1.036726),
                (-1.0996237, 0.061100964, -0.088299969),
                (1.036726, -0.088299969, 0.26847432),
            ),
        ),
    ),
    attention=(("gqa", 0.49056604), ("mqa", 0.35849057), ("mla", 0.1509434)),
)
"""`fit_prior` of the shipped catalogue."""
