"""Which laws of shapes predict a maker's models best from those of all other makers.

Each maker's models are left out of the catalogue, each law is fitted to the rest, and the
logarithm of the density of what was left out is averaged over models, and over those above 200B
parameters apart. Higher is better; 0.1 a model is a factor of 150 over 51 distinct shapes. Sparsity
is judged on the announced sizes of open mixtures (`archinfer/data/announced_models.csv`).

    python benchmarks/prior_likelihood.py

The laws marked * are those of `inference.prior`. "spread" is the root mean square of the left-out
deviations in the law's scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from archinfer import catalogue
from archinfer.inference.prior import (
    DEPTH_SCALE,
    Announced,
    Features,
    ShapePrior,
    announced,
    distinct,
    features,
    fit_prior,
    mixtures,
)
from archinfer.inference.regression import Regression

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


def released(total_params: float, active_params: float) -> float:
    """Year of the first announced model of these sizes; NaN: none is."""
    years = (m.year for m in announced() if m.same(total_params, active_params))
    return min(years, default=float("nan"))


@dataclass(frozen=True)
class Table:
    """The distinct shapes, one a row: logarithms of N, A, L, c and N / A, class and maker."""

    total: Array
    size: Array
    depth: Array
    per_layer: Array
    sparsity: Array
    vocabulary: Array
    moe: Array
    makers: Array
    year: Array
    """Of the release, where an announced model has the same sizes; else NaN."""

    @staticmethod
    def of(named: dict[str, Features]) -> Table:
        kept = distinct(named.values())
        rows = [(n, m) for n, m in named.items() if any(m is k for k in kept)]

        def log(field: str) -> Array:
            return np.log([getattr(m, field) for _, m in rows])

        return Table(
            log("active_params") + log("sparsity"),
            log("active_params"),
            log("layers"),
            log("params_per_layer"),
            log("sparsity"),
            log("vocabulary"),
            np.array([m.moe for _, m in rows]),
            np.array([maker(n) for n, _ in rows]),
            np.array([released(m.active_params * m.sparsity, m.active_params) for _, m in rows]),
        )

    @staticmethod
    def of_announced() -> Table:
        sizes = mixtures(announced())
        total = np.log([m.total_params for m in sizes])
        active = np.log([m.active_params for m in sizes])
        unknown = np.full(len(sizes), np.nan)
        moe = np.ones(len(sizes), dtype=bool)
        makers = np.array([m.maker for m in sizes])
        ratio = total - active
        return Table(total, active, unknown, unknown, ratio, unknown, moe, makers, unknown)

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


LARGE = np.log(200e9)


def left_out(law: Law, table: Table) -> tuple[Array, Array]:
    """Log densities and deviations, each maker predicted from all others."""
    density, z = np.empty((2, len(table.size)))
    for m in sorted(set(table.makers)):
        own = table.makers == m
        density[own], z[own] = law.log_density(table.at(~own), table.at(own))
    return density, z


def relative_depth(t: Table) -> Array:
    return t.depth - t.size / 3.0


def laws() -> Iterator[tuple[str, tuple[bool | None, ...], list[Law]]]:
    """Quantity, classes that have a law of their own (None: all have one), laws to compare."""
    total: Callable[[Table], Array] = lambda t: t.total  # noqa: E731
    classes = (False, True)
    yield (
        "size log N",
        classes,
        [
            Law("normal", total),
            Law("* Student's t", total, degrees=4),
            Law("Student's t, 0.8 of its width", total, degrees=4, widening=lambda _: 0.8),
            Law("Student's t, 1.25 times as wide", total, degrees=4, widening=lambda _: 1.25),
            Law("normal, 1.25 times as wide", total, widening=lambda _: 1.25),
            Law("normal, 1.5 times as wide", total, widening=lambda _: 1.5),
            Law("normal, 2 times as wide", total, widening=lambda _: 2.0),
        ],
    )
    depth: Callable[[Table], Array] = lambda t: t.depth  # noqa: E731
    trend: Regressors = lambda t: (t.size,)  # noqa: E731
    on_total: Regressors = lambda t: (t.total,)  # noqa: E731
    # Level above some 200B parameters.
    level: Regressors = lambda t: (-np.logaddexp(0.0, LARGE - t.total),)  # noqa: E731
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
            Law("linear in log N, Student's t, 0.85", depth, on_total, 4, lambda _: DEPTH_SCALE),
            Law("level above 200B, Student's t, 0.85", depth, level, 4, lambda _: DEPTH_SCALE),
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
    yield (
        "depth log L of models with a date",
        classes,
        [
            Law(f"log A / 3{words}, Student's t, 0.85", relative_depth, x, 4, lambda _: DEPTH_SCALE)
            for words, x in (("", lambda t: ()), (" and the date", lambda t: (t.year - 2025.0,)))
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
            Law("* linear in log N", sparse, on_total),
            Law("linear in log N, Student's t", sparse, on_total, degrees=4),
            Law("linear in log A", sparse, trend),
            Law("constant", sparse),
            Law("constant, Student's t", sparse, degrees=4),
        ],
    )
    rows: Callable[[Table], Array] = lambda t: t.vocabulary  # noqa: E731
    yield (
        "vocabulary log V",
        (None,),
        [
            Law("* linear in log N, Student's t", rows, on_total, degrees=4),
            Law("linear in log N", rows, on_total),
            Law("constant, Student's t", rows, degrees=4),
            Law("constant", rows),
        ],
    )


def classes(known: ShapePrior, new: Sequence[Announced], dated: bool) -> Array:
    """Log probability of whether each announced model is a mixture, its size known."""
    total = np.log([m.total_params for m in new])
    priors = [known.at(m.year) if dated else known for m in new]
    log_p = np.array(
        [
            [
                np.log(c.share) + stats.t.logpdf(size, 4, c.size_mean, c.size_sd)
                for c in prior.classes
            ]
            for prior, size in zip(priors, total, strict=True)
        ]
    )
    own = log_p[np.arange(len(new)), [int(m.moe) for m in new]]
    return np.asarray(own - np.logaddexp(*log_p.T))


def judge_classes(models: Sequence[Features]) -> None:
    """The share of mixtures with and without the date, the announced models of makers left out."""
    every = announced()
    names = sorted({m.maker for m in every})
    gains, counts = [], []
    for name in names:
        own = [m for m in every if m.maker == name and m.total_params >= 10e9]
        if own:
            known = fit_prior(models, [m for m in every if m.maker != name])
            gains.append([classes(known, own, dated).sum() for dated in (False, True)])
            counts.append(len(own))
    gains, counts = np.array(gains), np.array(counts)
    again = np.random.default_rng(0).integers(0, len(counts), (2000, len(counts)))
    gain = gains[:, 1] - gains[:, 0]
    sd = np.std(gain[again].sum(axis=1) / counts[again].sum(axis=1))
    print(
        f"\nmixture or dense, of {counts.sum()} announced models above 10B, log probability a model"
    )
    for word, total in zip(("as in the catalogue", "* by date"), gains.sum(axis=0), strict=True):
        print(f"  {word:42s} {total / counts.sum():6.3f}")
    print(f"  gain {gain.sum() / counts.sum():.3f} +- {sd:.3f}, makers drawn again")


def main() -> None:
    table = Table.of({n: features(catalogue.load(n).shape()) for n in catalogue.names()})
    print(f"{len(table.size)} distinct shapes of {len(set(table.makers))} makers")
    known = Table.of_announced()
    print(f"{len(known.size)} announced mixtures of {len(set(known.makers))} makers")
    for quantity, classes, found in laws():
        whole = known if quantity.startswith("sparsity") else table
        if quantity.endswith("date"):
            whole = whole.at(np.isfinite(whole.year))
        print(f"\n{quantity:42s} log density a model: all, above 200B; spread")
        for law in found:
            cells, scores, large = [], [], []
            for moe in classes:
                rows = whole if moe is None else whole.at(whole.moe == moe)
                density, z = left_out(law, rows)
                scores.append(density)
                large.append(rows.total > LARGE)
                word = {False: "dense", True: "mixtures", None: "all"}[moe]
                cells.append(f"{word} {density.mean():6.3f}, {np.sqrt(np.mean(z * z)):4.2f}")
            every, above = np.concatenate(scores), np.concatenate(large)
            print(
                f"  {law.name:42s} {every.mean():6.3f} {every[above].mean():6.3f}   "
                f"({'; '.join(cells)})"
            )

    judge_classes([features(catalogue.load(n).shape()) for n in catalogue.names()])


if __name__ == "__main__":
    main()
