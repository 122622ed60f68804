"""What an inference found: weighted draws, and the intervals, bits and facts read off them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from archinfer.errors import UnknownNameError
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.batch import Batch, resampled
from archinfer.inference.importance import Index
from archinfer.inference.statistics import (
    equal_mass_edges,
    information_bits,
    mutual_information_bits,
    quantiles,
)
from archinfer.models.shape import FloatArray
from archinfer.record import As, Nullable, Record
from archinfer.solver.question import Question
from archinfer.words import QUANTITIES_IN_USE

QUANTITIES = ("total_params", "active_params", "layers", "nodes")
"""What is reported; `nodes` are those in use."""

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

IDENTIFIED_BITS = 1.0
"""Information from which a quantity counts as identified: 1 bit halves what is plausible."""

FACTS = (
    "nodes in use",
    "layers",
    "active parameters",
    "total parameters",
    "speculation",
    "weight format",
    "attention kind",
    "software",
    "context measured",
    "users at once",
    "throughput",
    "price of a token",
)
"""Facts whose worth is computed. Throughput: tokens/s over all users at once, whose number is
unknown. Price: node-hours per token at that throughput (any price of a node gives the same
bits)."""


Shares = Annotated[dict[str, float], As(dict[str, float] | None)]
"""Probability by name."""


@dataclass(frozen=True, slots=True, repr=False)
class Levels(Record):
    """Five quantiles, from 5 % to 95 %."""

    p05: float
    p25: float
    p50: float
    p75: float
    p95: float


@dataclass(frozen=True, slots=True, repr=False)
class Marginal(Record):
    """Quantiles of one quantity, and what was learnt of it."""

    p05: float
    p25: float
    p50: float
    p75: float
    p95: float
    information_bits: float
    """what nodes and speed taught beyond the prior within the known ranges"""
    nodes_bits: float
    """what the number of nodes alone taught"""
    speed_bits: float
    """what the speed taught once the nodes are known"""
    identified: bool
    """enough was learnt to speak of a result"""
    given: bool
    """the question states it; of the nodes in use, how many there are"""


@dataclass(frozen=True, slots=True, repr=False)
class FactValue(Record):
    """What knowing one further fact is expected to teach of a quantity."""

    fact: str
    information_bits: float
    """mutual information of fact and quantity"""
    ratio: float
    """p95 / p05 to expect once the fact is known, as the exponential of the mean logarithm"""


@dataclass(frozen=True, slots=True, repr=False)
class ExpectedSpeed(Record):
    """Tokens/s to expect before the observation, the nodes known, in quantiles."""

    p05: float
    p50: float
    p95: float
    tail: float
    """two-sided probability of a speed as extreme as the observed one"""


@dataclass(frozen=True, repr=False)
class Posterior(Record):
    """What an observed speed says; the quantities are null where nothing is possible."""

    KEYS = (
        "possible",
        "reason",
        "ess",
        "samples",
        "warnings",
        *QUANTITIES,
        "accepted_tokens",
        "expected_tokens_per_s=predictive",
        "speed_bits",
        "weights=weights_probability",
        "attention=attention_probability",
        "software=software_probability",
        "mixture_of_experts=moe_probability",
        "layers_per_node=layers_per_node_probability",
        "value_of_facts",
    )

    question: Question
    possible: bool
    """whether any model of the prior agrees with everything"""
    reason: str
    """why nothing is possible; else empty"""
    ess: float
    """effective sample size"""
    samples: int
    """draws of the last stage"""
    stages: int
    kinds: tuple[str, ...]
    """Attention kinds in the order of `draws.attention`."""
    draws: Batch
    weights: FloatArray
    """Of the draws, sum 1."""
    law: SpeculationLaw | None
    """Of speculation; None: the question's range."""
    prior: tuple[Batch, FloatArray] | None = None
    """Draws and weights before any evidence."""
    with_nodes: tuple[Batch, FloatArray] | None = None
    """The same with the evidence of the nodes."""
    predictive: ExpectedSpeed | None = None
    speed_bits: Nullable = 0.0
    """what the speed taught about all quantities and nuisances at once, in bits beyond the number
    of nodes; at least what it taught about any one of them"""
    warnings: tuple[str, ...] = ()
    """what to know before the answer is trusted"""

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON data; what nothing is known of is None."""
        data = super().to_dict()
        if not self.possible:
            data |= dict.fromkeys(key for key in data if key not in self.KEYS[:5])
        return data

    def density(self, quantity: str) -> tuple[FloatArray, FloatArray]:
        """Values and weights (sum 1) of a quantity, for a histogram; any field of `Batch`."""
        if quantity not in {f.name for f in fields(Batch)}:
            raise UnknownNameError("quantity", quantity, QUANTITIES)
        return getattr(self.draws, quantity), self.weights

    def quantiles(self, quantity: str, at: tuple[float, ...] = LEVELS) -> FloatArray:
        """Quantiles of a quantity, shape (len(at),).

        Layers and nodes are whole: the lower ones are rounded down and the upper ones up, so
        that an interval holds the numbers at its ends.
        """
        found = quantiles(*self.density(quantity), at)
        if quantity not in ("layers", "nodes"):
            return found
        level = np.asarray(at)
        outward = np.where(level < 0.5, np.floor(found), np.ceil(found))
        return np.asarray(np.where(level == 0.5, np.round(found), outward))

    @cached_property
    def marginals(self) -> dict[str, Marginal]:
        """Every quantity of QUANTITIES; empty where nothing is possible."""
        return {q: self._marginal(q) for q in QUANTITIES} if self.possible else {}

    @property
    def total_params(self) -> Marginal | None:
        """all parameters"""
        return self.marginals.get("total_params")

    @property
    def active_params(self) -> Marginal | None:
        """parameters that one token uses"""
        return self.marginals.get("active_params")

    @property
    def layers(self) -> Marginal | None:
        """decoder layers"""
        return self.marginals.get("layers")

    @property
    def nodes(self) -> Marginal | None:
        """nodes in use"""
        return self.marginals.get("nodes")

    @property
    def accepted_tokens(self) -> Levels | None:
        """gained a pass; by the law, net of what drafting takes"""
        if not self.possible:
            return None
        return Levels(*(float(v) for v in self.quantiles("accepted_tokens")))

    def _marginal(self, quantity: str) -> Marginal:
        posterior = self.density(quantity)
        assert self.with_nodes is not None and self.prior is not None

        def of(level: tuple[Batch, FloatArray]) -> tuple[FloatArray, FloatArray]:
            return getattr(level[0], quantity), level[1]

        middle = of(self.with_nodes)
        first = of(self.prior)
        bits = information_bits(posterior, first)
        asked = {
            "total_params": self.question.total,
            "active_params": self.question.active,
            "layers": self.question.layers,
        }.get(quantity, (0.0, np.inf))
        fewest, most = self.question.nodes
        nodes_given = quantity == "nodes" and self.question.nodes_known and fewest == most
        p05, p25, p50, p75, p95 = (float(v) for v in self.quantiles(quantity))
        return Marginal(
            p05,
            p25,
            p50,
            p75,
            p95,
            information_bits=bits,
            nodes_bits=information_bits(middle, first),
            speed_bits=information_bits(posterior, middle),
            identified=bits >= IDENTIFIED_BITS,
            given=asked != (0.0, np.inf) or nodes_given,
        )

    @property
    def weights_probability(self) -> Shares:
        """probability by format"""
        return self._shares(self.draws.weights, self.question.weights)

    @property
    def attention_probability(self) -> Shares:
        """probability by kind"""
        return self._shares(self.draws.attention, self.kinds)

    @property
    def software_probability(self) -> dict[str, float] | None:
        """probability of each software; null where only one comes into question"""
        names = [name for name, _, _ in self.question.softwares]
        return self._shares(self.draws.software, names) if len(names) > 1 else None

    @property
    def layers_per_node_probability(self) -> dict[str, float] | None:
        """probability of 1, 2, 3 or more layers in the fullest node; null on GPUs"""
        if not self.question.hardware.spatial:
            return None
        fullest = np.ceil(self.draws.layers / np.maximum(self.draws.nodes, 1.0))
        names = ("1", "2", "3", "more")
        return self._shares(np.clip(fullest, 1.0, len(names)) - 1.0, names)

    @property
    def moe_probability(self) -> Nullable:
        """probability"""
        return float(self.weights @ self.draws.moe)

    def _shares(self, values: FloatArray, names: Sequence[str]) -> dict[str, float]:
        shares = np.bincount(values.astype(np.intp), weights=self.weights, minlength=len(names))
        return {n: float(s) for n, s in zip(names, shares, strict=True)}

    @cached_property
    def value_of_facts(
        self,
    ) -> Annotated[dict[str, tuple[FactValue, ...]], As(dict[str, list[FactValue]] | None)]:
        """what else would narrow each quantity, most narrowing first"""
        # From draws of the posterior: bins of one fact, the mutual information with the quantity,
        # and the mean log-width of the quantity's 90 % interval within a bin.
        if not self.possible:
            return {}
        size = self.ess
        index = resampled(self.weights, 8192)
        bins = int(np.clip(np.sqrt(size / 20.0), 4, 16))
        columns = self._facts(index)
        result: dict[str, tuple[FactValue, ...]] = {}
        for quantity in QUANTITIES:
            values = np.log(getattr(self.draws, quantity)[index])
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

    def _facts(self, index: Index) -> dict[str, Index]:
        d = self.draws
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
