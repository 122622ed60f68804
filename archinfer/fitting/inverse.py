"""From each published speed back to the architecture, with the truth beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from archinfer.asking import Range
from archinfer.hardware.profile import Hardware
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.infer import infer
from archinfer.inference.prior import (
    Features,
    ShapePrior,
    announced,
    catalogue_features,
    features,
    fit_prior,
    same_shape,
)
from archinfer.models.shape import ModelShape
from archinfer.solver.question import Question, nodes_unknown

QUANTITIES = ("total_params", "active_params", "layers")
SPECULATIVE_LOW = 1.2
"""Fewest tokens per pass, net of drafting, of a service known to speculate."""


@dataclass(frozen=True)
class InverseCase:
    """One published speed of a model whose architecture is public."""

    id: str
    tokens_per_s: float
    shape: ModelShape
    """The true model."""
    hardware: Hardware
    """A profile that was fitted without that model."""
    nodes: int | None = None
    """Nodes in use; None: not published."""
    speculative: bool | None = None
    """None: not known."""
    context_tokens: int = 8000
    """Context asked of the service."""
    weights: tuple[str, ...] = ("bf16", "fp8", "nvfp4")
    """Formats that come into question."""
    law: SpeculationLaw | Literal["profile"] | None = "profile"
    """Of speculation; None: the range."""
    software: str | None = None
    """"usual" or one that the profile lists; None: not known."""

    def question(self) -> Question:
        """What an analyst who knows the speed alone would ask."""
        low, high = self.hardware.accepted_low, self.hardware.accepted_high
        speculation: Range = (low, high)
        if self.speculative is not None:
            speculation = (max(low, SPECULATIVE_LOW), high) if self.speculative else (1.0, 1.0)
        return Question(
            self.hardware,
            nodes=nodes_unknown(self.hardware) if self.nodes is None else (self.nodes, self.nodes),
            tokens_per_s=self.tokens_per_s,
            observed=True,
            context_tokens=self.context_tokens,
            weights=self.weights,
            speculation=speculation,
            software=self.software,
        )


def prior_without(shape: ModelShape, catalogue: Iterable[Features]) -> ShapePrior:
    """The prior of the catalogue without `shape` and all models of the same shape."""
    own = features(shape)
    total, active = float(shape.total_params), float(shape.active_params)
    return fit_prior(
        (m for m in catalogue if not same_shape(m, own)),
        [m for m in announced() if not m.same(total, active)],
    )


def validate_inverse(
    cases: Sequence[InverseCase],
    catalogue: Sequence[Features] | None = None,
    samples: int = 16_384,
    seed: int = 0,
) -> dict[str, Any]:
    """Intervals of total, active and layers from each speed (and nodes) alone, with the truth.

    Args:
        cases: the rows.
        catalogue: features that the prior is fitted to, each case's own model left out;
            None: those of the shipped catalogue.
        samples, seed: of `infer`.

    Returns:
        JSON-ready: `rows` (id, truth, quantiles, inside50, inside90 and ratio90 by quantity, ess,
        possible), `models` (architectures among the rows), `coverage50`, `coverage90` (share of
        rows; a row with no possible model counts as outside), `coverage50_by_model`,
        `coverage90_by_model` (mean over models of the share of their rows) and `median_width`
        (median p95 / p05) by quantity; null without rows.
    """
    if catalogue is None:
        catalogue = catalogue_features()
    rows = [_row(case, catalogue, samples, seed) for case in cases]

    models: dict[tuple[float, ...], list[dict[str, Any]]] = {}
    for row in rows:
        models.setdefault(tuple(row[q]["truth"] for q in QUANTITIES), []).append(row)

    def share(key: str, quantity: str) -> float | None:
        return float(np.mean([r[quantity][key] for r in rows])) if rows else None

    def by_model(key: str, quantity: str) -> float | None:
        shares = [np.mean([r[quantity][key] for r in own]) for own in models.values()]
        return float(np.mean(shares)) if shares else None

    def width(quantity: str) -> float | None:
        widths = [r[quantity]["ratio90"] for r in rows if r["possible"]]
        return float(np.median(widths)) if widths else None

    return {
        "rows": rows,
        "models": len(models),
        "coverage50": {q: share("inside50", q) for q in QUANTITIES},
        "coverage90": {q: share("inside90", q) for q in QUANTITIES},
        "coverage50_by_model": {q: by_model("inside50", q) for q in QUANTITIES},
        "coverage90_by_model": {q: by_model("inside90", q) for q in QUANTITIES},
        "median_width": {q: width(q) for q in QUANTITIES},
    }


def _row(
    case: InverseCase, catalogue: Sequence[Features], samples: int, seed: int
) -> dict[str, Any]:
    posterior = infer(
        case.question(),
        samples,
        seed,
        prior=prior_without(case.shape, catalogue),
        law=case.hardware.speculation if case.law == "profile" else case.law,
    )
    truth = {
        "total_params": float(case.shape.total_params),
        "active_params": float(case.shape.active_params),
        "layers": float(case.shape.layers),
    }
    row: dict[str, Any] = {
        "id": case.id,
        "tokens_per_s": case.tokens_per_s,
        "nodes": case.nodes,
        "software": case.software,
        "possible": posterior.possible,
        "ess": posterior.ess,
    }
    for quantity, true in truth.items():
        entry: dict[str, Any] = {"truth": true, "inside50": False, "inside90": False}
        if posterior.possible:
            p05, p25, p50, p75, p95 = (float(v) for v in posterior.quantiles(quantity))
            entry |= {
                "p05": p05,
                "p25": p25,
                "p50": p50,
                "p75": p75,
                "p95": p95,
                "inside50": p25 <= true <= p75,
                "inside90": p05 <= true <= p95,
                "ratio90": p95 / p05,
                "information_bits": posterior.marginals[quantity].information_bits,
            }
        row[quantity] = entry
    return row
