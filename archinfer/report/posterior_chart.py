"""Each quantity's probability before any evidence and after all of it."""

from __future__ import annotations

import numpy as np

from archinfer.inference.posterior import Marginal, Posterior
from archinfer.inference.statistics import quantiles
from archinfer.models.shape import FloatArray
from archinfer.report import chart
from archinfer.report.ends import known_words
from archinfer.report.sizes_chart import extent
from archinfer.words import QUANTITIES_IN_USE, compact

WHOLE = ("layers", "nodes")
"""Quantities that come in whole numbers."""


def posterior_panels(posterior: Posterior, legend: bool = True) -> tuple[chart.Panel, ...]:
    """One small panel a quantity, the first with a legend and room for it."""
    return tuple(
        _panel(posterior, name, marginal, legend and i == 0)
        for i, (name, marginal) in enumerate(posterior.marginals.items())
    )


def _panel(posterior: Posterior, name: str, m: Marginal, legend: bool) -> chart.Panel:
    edges, before, after = _histograms(posterior, name, m)
    peak = float(max(after.max(), before.max()))
    half = 0.5 if name in WHOLE else 0.0
    x = np.repeat(edges, 2)[1:-1]
    # A bin that reaches beyond the last draw ends there.
    least, most = extent(*posterior.density(name))
    filled = np.clip(x, least - half, most + half).tolist()
    after_y, before_y = (np.repeat(100 * v, 2).tolist() for v in (after, before))
    marks: tuple[chart.Mark, ...] = (
        chart.Band(filled, np.zeros(len(x)).tolist(), after_y, "sky", label="with the observation"),
        chart.Curve(x.tolist(), before_y, "ink", chart.DASHES[1], 1.4, label="prior"),
        chart.Points([m.p50], [106 * peak], "blue", "circle", "median and 90 %",
               x_ends=([m.p05], [m.p95])),
    )  # fmt: skip
    quantity, words = QUANTITIES_IN_USE[name], known_words(posterior.question, name, m)
    return chart.Panel(
        f"{quantity}: {words}",
        f"90 % between {compact(m.p05)} and {compact(m.p95)}, median {compact(m.p50)}; "
        f"{m.information_bits:.1f} bits learnt, {m.nodes_bits:.1f} from the nodes and "
        f"{m.speed_bits:.1f} from the {posterior.told_by}: {words}.",
        chart.Axis(quantity, float(edges[0]), float(edges[-1])),
        chart.Axis("probability per bin in %", 0.0, (165 if legend else 115) * peak, log=False),
        marks,
        legend="upper left" if legend else "",
        small=True,
    )


def _histograms(
    posterior: Posterior, name: str, m: Marginal
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Edges of the bins, and the shares of prior and posterior in each."""
    assert posterior.prior is not None
    values, weights = posterior.density(name)
    batch, prior_weights = posterior.prior
    before = getattr(batch, name)
    first, last = extent(values, weights)
    low, high = (float(v) for v in quantiles(before, prior_weights, (0.005, 0.995)))
    low, high = min(low, m.p05 / 1.2, first), max(high, m.p95 * 1.2, last)
    edges = _bins(low, high, whole=name in WHOLE)
    prior, _ = np.histogram(before, bins=edges, weights=prior_weights)
    after, _ = np.histogram(values, bins=edges, weights=weights)
    return edges, prior, after


def _bins(low: float, high: float, whole: bool) -> FloatArray:
    """About thirty bins of equal ratio; of whole numbers each bin holds some, and all of them."""
    edges = np.geomspace(low, high, 31)
    if not whole:
        return edges
    return np.asarray(np.unique(np.round(np.append(edges, edges[-1] + 1.0))) - 0.5)
