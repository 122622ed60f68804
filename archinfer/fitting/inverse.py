"""From each published speed back to the architecture, with the truth beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

import numpy as np
from typing_extensions import TypedDict

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
    year_of,
)
from archinfer.models.shape import ModelShape
from archinfer.record import As, Described
from archinfer.solver.question import Question, nodes_unknown

QUANTITIES = ("total_params", "active_params", "layers")
SPECULATIVE_LOW = 1.2
"""Fewest tokens per pass, net of drafting, of a service known to speculate."""


class InverseQuantity(TypedDict):
    """The true value and what was inferred; quantiles are missing where nothing was possible."""

    truth: float
    inside50: bool
    inside90: bool
    p05: NotRequired[float]
    p25: NotRequired[float]
    p50: NotRequired[float]
    p75: NotRequired[float]
    p95: NotRequired[float]
    ratio90: NotRequired[Annotated[float, Described("p95 / p05")]]
    information_bits: NotRequired[float]


class InverseRow(TypedDict):
    """One published speed and what it says of the architecture behind it."""

    id: str
    tokens_per_s: float
    nodes: Annotated[int | None, Described("null: not published")]
    software: Annotated[str | None, Described("known to have run; null: not known")]
    possible: bool
    ess: Annotated[float, Described("effective sample size of the draws")]
    total_params: InverseQuantity
    active_params: InverseQuantity
    layers: InverseQuantity


class ThreeNumbers(TypedDict):
    """One number for each quantity of an architecture; null without rows."""

    total_params: float | None
    active_params: float | None
    layers: float | None


ByQuantity: TypeAlias = Annotated[dict[str, float | None], As(ThreeNumbers)]


class Inverse(TypedDict):
    """From each speed back to the architecture; null without rows.

    A row with no possible model counts as outside of every interval.
    """

    rows: list[InverseRow]
    models: Annotated[int, Described("architectures among the rows")]
    coverage50: Annotated[ByQuantity, Described("share of rows inside the 50 % interval")]
    coverage90: Annotated[ByQuantity, Described("share of rows inside the 90 % interval")]
    coverage50_by_model: Annotated[ByQuantity, Described("mean over models of their rows' share")]
    coverage90_by_model: Annotated[ByQuantity, Described("mean over models of their rows' share")]
    median_width: Annotated[ByQuantity, Described("median of p95 / p05")]


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
    date: str = ""
    """When it was measured; "": not known."""
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
) -> Inverse:
    """Intervals of total, active and layers from each speed (and nodes) alone, with the truth.

    Args:
        cases: the rows.
        catalogue: features that the prior is fitted to, each case's own model left out;
            None: those of the shipped catalogue.
        samples, seed: of `infer`.
    """
    if catalogue is None:
        catalogue = catalogue_features()
    rows = [_row(case, catalogue, samples, seed) for case in cases]

    models: dict[tuple[float, ...], list[dict[str, Any]]] = {}
    for row in rows:
        models.setdefault(tuple(row[q]["truth"] for q in QUANTITIES), []).append(row)

    def by_quantity(each: Callable[[str], list[Any]], centre: Any = np.mean) -> Any:
        found = ((q, each(q)) for q in QUANTITIES)
        return {q: float(centre(values)) if values else None for q, values in found}

    def share(key: str) -> Any:
        return by_quantity(lambda q: [r[q][key] for r in rows])

    def by_model(key: str) -> Any:
        return by_quantity(lambda q: [np.mean([r[q][key] for r in m]) for m in models.values()])

    return {
        "rows": rows,
        "models": len(models),
        "coverage50": share("inside50"),
        "coverage90": share("inside90"),
        "coverage50_by_model": by_model("inside50"),
        "coverage90_by_model": by_model("inside90"),
        "median_width": by_quantity(
            lambda q: [r[q]["ratio90"] for r in rows if r["possible"]], np.median
        ),
    }


def _row(case: InverseCase, catalogue: Sequence[Features], samples: int, seed: int) -> Any:
    prior = prior_without(case.shape, catalogue)
    posterior = infer(
        case.question(),
        samples,
        seed,
        prior=prior.at(year_of(case.date)) if case.date else prior,
        law=case.hardware.speculation if case.law == "profile" else case.law,
    )
    row: dict[str, Any] = {
        "id": case.id,
        "tokens_per_s": case.tokens_per_s,
        "nodes": case.nodes,
        "software": case.software,
        "possible": posterior.possible,
        "ess": posterior.ess,
    }
    for quantity in QUANTITIES:
        true = float(getattr(case.shape, quantity))
        entry: dict[str, Any] = {"truth": true, "inside50": False, "inside90": False}
        if posterior.possible:
            p05, p25, p50, p75, p95 = map(float, posterior.quantiles(quantity))
            entry |= {
                "p05": p05, "p25": p25, "p50": p50, "p75": p75, "p95": p95,
                "inside50": p25 <= true <= p75,
                "inside90": p05 <= true <= p95,
                "ratio90": p95 / p05,
                "information_bits": posterior.marginals[quantity].information_bits,
            }  # fmt: skip
        row[quantity] = entry
    return row
