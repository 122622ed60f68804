"""Lines fitted to few models, with the spread of a new one: of a number, and of a yes or no."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer import special
from archinfer.models.shape import FloatArray, Number


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
        """Mean and standard deviation of a new y: sd sqrt(1 + x'(X'X)^-1 x).

        Of the shape of x; numbers where there is only a constant.
        """
        columns = (np.ones_like(x[0]) if x else np.ones(()), *x)
        mean = sum((b * c for b, c in zip(self.coefficients, columns, strict=True)), start=0.0)
        leverage: Number = 0.0
        for i, left in enumerate(columns):
            for j in range(i + 1):
                twice = 1.0 if i == j else 2.0
                leverage = leverage + twice * self.inverse_gram[i][j] * left * columns[j]
        return np.asarray(mean), self.sd * np.sqrt(1.0 + np.asarray(leverage))

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


LOGIT_SD = 2.5
"""Of a normal prior of log-odds and of their slope over a standardised size: weakly informative, as
Gelman et al. (2008, doi:10.1214/08-AOAS191) choose the scale of their t. Few models are small."""


@dataclass(frozen=True, slots=True)
class Logistic:
    """P(yes) = expit(b0 + b1 x), with what is not known of b."""

    coefficients: tuple[float, float]
    covariance: tuple[tuple[float, ...], ...]
    """Of the coefficients, by Laplace's approximation."""

    def predict(self, x: FloatArray) -> FloatArray:
        """Chance of a new yes, averaged over b: expit(m / sqrt(1 + pi v / 8)), where m and v are
        mean and variance of the log-odds (MacKay 1992)."""
        (a, ab), (_, b) = self.covariance
        mean = self.coefficients[0] + self.coefficients[1] * x
        variance = a + 2.0 * ab * x + b * x * x
        return np.asarray(special.expit(mean / np.sqrt(1.0 + np.pi / 8.0 * variance)))

    @staticmethod
    def fit(yes: FloatArray, x: FloatArray) -> Logistic:
        """The most likely b under a normal prior of LOGIT_SD, by Newton's method."""
        centre, scale = x.mean(), x.std(ddof=1)
        design = np.column_stack((np.ones_like(x), (x - centre) / scale))
        b = np.zeros(2)
        for _ in range(50):
            p = special.expit(design @ b)
            curvature = (design.T * (p * (1.0 - p))) @ design + np.eye(2) / LOGIT_SD**2
            b = b + np.linalg.solve(curvature, design.T @ (yes - p) - b / LOGIT_SD**2)
        back = np.array([[1.0, -centre / scale], [0.0, 1.0 / scale]])
        own, covariance = back @ b, back @ np.linalg.inv(curvature) @ back.T
        return Logistic(
            (float(own[0]), float(own[1])),
            tuple(tuple(float(v) for v in row) for row in covariance),
        )
