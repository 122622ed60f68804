"""Which laws of shapes predict a maker's models best from those of all other makers.

Each maker's models are left out of the catalogue, each law is fitted to the rest, and the
logarithm of the density of what was left out is averaged over models. Higher is better; 0.1 a
model is a factor of 150 over the 50 distinct shapes. "forward" predicts the models of each period
from those before it (dates of release to half a year, from public pages).

    python benchmarks/prior_likelihood.py

The laws marked * are those of `inference.prior`. "spread" is the root mean square of the left-out
deviations in the law's scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from archinfer import catalogue
from archinfer.inference.prior import (
    DENSE_WIDENING,
    DEPTH_SCALE,
    SIZE_WIDENING,
    Features,
    Regression,
    distinct,
    features,
)

MAKERS = {
    "codellama": "llama",
    "llama-3.3-nemotron-super": "llama",
    "mixtral": "mistral",
    "qwq": "qwen",
    "hy3": "hunyuan",
}
"""Names whose first word is not their maker's, or that inherit another maker's shape."""

Array = np.ndarray
Regressors = Callable[["Table"], tuple[Array, ...]]


def maker(name: str) -> str:
    """The maker of a model of the catalogue."""
    for start, known in MAKERS.items():
        if name.startswith(start):
            return known
    return name.split("-")[0].rstrip("0123456789.")


@dataclass(frozen=True)
class Table:
    """The distinct shapes, one a row: logarithms of A, L, c and N / A, class and maker."""

    size: Array
    depth: Array
    per_layer: Array
    sparsity: Array
    moe: Array
    makers: Array

    @staticmethod
    def of(named: dict[str, Features]) -> Table:
        kept = distinct(named.values())
        rows = [(n, m) for n, m in named.items() if any(m is k for k in kept)]

        def log(field: str) -> Array:
            return np.log([getattr(m, field) for _, m in rows])

        return Table(
            log("active_params"),
            log("layers"),
            log("params_per_layer"),
            log("sparsity"),
            np.array([m.moe for _, m in rows]),
            np.array([maker(n) for n, _ in rows]),
        )

    def at(self, mask: Array) -> Table:
        return Table(*(getattr(self, f)[mask] for f in self.__dataclass_fields__))


@dataclass(frozen=True)
class Law:
    """A linear law of one quantity: `y` on `x`, normal or Student's t, `widening` times as wide."""

    name: str
    y: Callable[[Table], Array]
    x: Regressors = lambda t: ()
    degrees: float = np.inf
    widening: Callable[[Table], float] = lambda _: 1.0

    def log_density(self, known: Table, new: Table) -> tuple[Array, Array]:
        """Of each new row, with its deviation in scales."""
        fitted = Regression.fit(self.y(known), *self.x(known))
        mean, sd = fitted.predict(*self.x(new))
        sd = self.widening(new) * sd
        z = (self.y(new) - mean) / sd
        density = (
            stats.norm.logpdf(z) if np.isinf(self.degrees) else stats.t.logpdf(z, self.degrees)
        )
        return density - np.log(sd) * np.ones_like(z), z


def left_out(law: Law, table: Table) -> tuple[Array, Array]:
    """Log densities and deviations, each maker predicted from all others."""
    parts = [
        law.log_density(table.at(table.makers != m), table.at(table.makers == m))
        for m in sorted(set(table.makers))
    ]
    return np.concatenate([p for p, _ in parts]), np.concatenate([z for _, z in parts])


def relative_depth(t: Table) -> Array:
    return t.depth - t.size / 3.0


def laws() -> Iterator[tuple[str, tuple[bool | None, ...], list[Law]]]:
    """Quantity, classes that have a law of their own (None: one for both), laws to compare."""
    size: Callable[[Table], Array] = lambda t: t.size  # noqa: E731
    classes = (False, True)
    widening: Callable[[Table], float] = lambda t: (  # noqa: E731
        SIZE_WIDENING if t.moe.all() else DENSE_WIDENING
    )
    words = f"{DENSE_WIDENING:g} (dense) and {SIZE_WIDENING:g} times as wide"
    yield (
        "size log A",
        classes,
        [
            Law("normal", size),
            Law("Student's t", size, degrees=4),
            Law(f"* normal, {words}", size, widening=widening),
        ],
    )
    yield (
        "size log A, one law for both classes",
        (None,),
        [
            Law("normal", size),
            Law("Student's t", size, degrees=4),
            Law("normal, 2 times as wide", size, widening=lambda _: 2.0),
        ],
    )
    depth: Callable[[Table], Array] = lambda t: t.depth  # noqa: E731
    trend: Regressors = lambda t: (t.size,)  # noqa: E731
    # About the catalogue's centre, so that the square is not collinear.
    saturating: Regressors = lambda t: (t.size, (t.size - 24.0) ** 2)  # noqa: E731
    yield (
        "depth log L",
        classes,
        [
            Law("linear in log A", depth, trend),
            Law("linear in log A, 1.2 times as wide", depth, trend, widening=lambda _: 1.2),
            Law("linear in log A, Student's t", depth, trend, degrees=4),
            Law(
                f"linear in log A, Student's t, {DEPTH_SCALE:g} of its width",
                depth,
                trend,
                degrees=4,
                widening=lambda _: DEPTH_SCALE,
            ),
            Law("quadratic in log A", depth, saturating),
            Law("quadratic in log A, Student's t", depth, saturating, degrees=4),
            Law(
                f"quadratic in log A, Student's t, {DEPTH_SCALE:g} of its width",
                depth,
                saturating,
                degrees=4,
                widening=lambda _: DEPTH_SCALE,
            ),
            Law("no trend", depth),
            Law("no trend, Student's t", depth, degrees=4),
            Law("log A / 3", relative_depth),
            Law("log A / 3, Student's t", relative_depth, degrees=4),
            Law(
                f"* log A / 3, Student's t, {DEPTH_SCALE:g} of its width",
                relative_depth,
                degrees=4,
                widening=lambda _: DEPTH_SCALE,
            ),
            Law(
                "log A / 3, Student's t, 0.7 of its width",
                relative_depth,
                degrees=4,
                widening=lambda _: 0.7,
            ),
        ],
    )
    width: Callable[[Table], Array] = lambda t: t.per_layer  # noqa: E731
    yield (
        "parameters per layer log c",
        classes,
        [
            Law("linear in log A, log L", width, lambda t: (t.size, t.depth)),
            Law("constant", width),
            Law("* linear in log L - log A / 3", width, lambda t: (relative_depth(t),)),
            Law("the same, Student's t", width, lambda t: (relative_depth(t),), degrees=4),
        ],
    )
    sparse: Callable[[Table], Array] = lambda t: t.sparsity  # noqa: E731
    yield (
        "sparsity log(N / A)",
        (True,),
        [
            Law("linear in log A, log L", sparse, lambda t: (t.size, t.depth)),
            Law("linear in log A", sparse, trend),
            Law("* constant", sparse),
            Law("constant, Student's t", sparse, degrees=4),
        ],
    )


def main() -> None:
    table = Table.of({n: features(catalogue.load(n).shape()) for n in catalogue.names()})
    print(f"{len(table.size)} distinct shapes of {len(set(table.makers))} makers")
    total = 0.0
    for quantity, classes, found in laws():
        print(f"\n{quantity:48s} log density a model, spread")
        for law in found:
            cells, scores = [], []
            for moe in classes:
                rows = table if moe is None else table.at(table.moe == moe)
                density, z = left_out(law, rows)
                scores.append(density)
                word = {None: "all", False: "dense", True: "mixtures"}[moe]
                cells.append(f"{word} {density.mean():6.3f}, {np.sqrt(np.mean(z * z)):4.2f}")
            whole = np.concatenate(scores)
            total += whole.sum() if law.name.startswith("*") else 0.0
            print(f"  {law.name:48s} {whole.mean():6.3f}   ({'; '.join(cells)})")
    print(f"\nlaws of the prior (*) together: {total / len(table.size):.3f} a shape")


if __name__ == "__main__":
    main()
