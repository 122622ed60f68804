"""Which further fact would narrow what an observation leaves open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer.inference.batch import QUANTITIES, Batch, resampled
from archinfer.inference.importance import Index
from archinfer.inference.statistics import equal_mass_edges, mutual_information_bits
from archinfer.models.shape import FloatArray
from archinfer.record import Record
from archinfer.words import QUANTITIES_IN_USE

FACTS = (
    "nodes in use",
    "layers",
    "active parameters",
    "total parameters",
    "speculation",
    "weight format",
    "attention kind",
    "software",
    "context held",
    "context measured",
    "users at once",
    "throughput",
    "price of a token",
)
"""Facts whose worth is computed. Throughput: tokens/s over all users at once, whose number is
unknown. Price: node-hours per token at that throughput (any price of a node gives the same
bits)."""


@dataclass(frozen=True, slots=True, repr=False)
class FactValue(Record):
    """What knowing one further fact is expected to teach of a quantity."""

    fact: str
    information_bits: float
    """mutual information of fact and quantity"""
    ratio: float
    """p95 / p05 to expect once the fact is known, as the exponential of the mean logarithm"""


def value_of_facts(
    draws: Batch, weights: FloatArray, size: float
) -> dict[str, tuple[FactValue, ...]]:
    """For each quantity the facts that would narrow it, most narrowing first.

    Args:
        draws, weights: of a posterior, shape (n,).
        size: effective number of independent draws.
    """
    # From draws of the posterior: bins of one fact, the mutual information with the quantity,
    # and the mean log-width of the quantity's 90 % interval within a bin.
    index = resampled(weights, 8192)
    bins = int(np.clip(np.sqrt(size / 20.0), 4, 16))
    columns = _facts(draws, index)
    result: dict[str, tuple[FactValue, ...]] = {}
    for quantity in QUANTITIES:
        values = np.log(getattr(draws, quantity)[index])
        target = _binned(values, bins)
        found = [
            FactValue(
                name,
                mutual_information_bits(target, fact, size),
                float(np.exp(_mean_width(values, fact))),
            )
            for name, fact in columns.items()
            if name != QUANTITIES_IN_USE[quantity] and fact.max() > 0
        ]
        result[quantity] = tuple(sorted(found, key=lambda f: f.ratio))
    return result


def _facts(d: Batch, index: Index) -> dict[str, Index]:
    bins = 12
    hours = d.nodes[index] / np.maximum(d.throughput[index], 1e-300)
    return {
        "nodes in use": _binned(d.nodes[index], bins),
        "layers": _binned(d.layers[index], bins),
        "active parameters": _binned(d.active_params[index], bins),
        "total parameters": _binned(d.total_params[index], bins),
        "speculation": _binned(d.accepted_tokens[index], bins),
        "weight format": d.weights[index].astype(np.intp),
        "attention kind": d.attention[index].astype(np.intp),
        "software": d.software[index].astype(np.intp),
        "context held": _binned(d.held_context_tokens[index], bins),
        "context measured": _binned(d.context_tokens[index], bins),
        "users at once": _binned(d.concurrency[index], bins),
        "throughput": _binned(d.throughput[index], bins),
        "price of a token": _binned(hours, bins),
    }


def _binned(values: FloatArray, bins: int) -> Index:
    equal = np.full(len(values), 1.0 / len(values))
    edges = equal_mass_edges(values, equal, bins)
    return np.asarray(np.searchsorted(edges, values, side="left"), dtype=np.intp)


def _mean_width(values: FloatArray, fact: Index) -> float:
    """Mean over the fact's bins of p95 - p05 of the values within."""
    widths = 0.0
    for b in range(int(fact.max()) + 1):
        inside = values[fact == b]
        if len(inside):
            low, high = np.quantile(inside, (0.05, 0.95))
            widths += len(inside) / len(values) * float(high - low)
    return widths
