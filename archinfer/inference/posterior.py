"""What an inference found: weighted draws, and the intervals, bits and facts read off them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from archinfer.errors import UnknownNameError
from archinfer.inference.importance import Index
from archinfer.inference.statistics import (
    equal_mass_edges,
    information_bits,
    mutual_information_bits,
    quantiles,
)
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.speculation import SpeculationLaw
from archinfer.solver.question import Question

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


@dataclass(slots=True)
class Batch:
    """Draws: every field has shape (n,); see `Posterior` for what they mean."""

    total_params: FloatArray
    active_params: FloatArray
    layers: FloatArray
    hidden_size: FloatArray
    nodes: FloatArray
    moe: FloatArray
    weights: FloatArray
    attention: FloatArray
    accepted_tokens: FloatArray
    speculates: FloatArray
    concurrency: FloatArray
    context_tokens: FloatArray
    software: FloatArray
    """Position in the question's `softwares`."""
    software_factor: FloatArray
    """Speed as a factor of that of the usual software."""
    tokens_per_s: FloatArray
    """Predicted, at central constants."""
    throughput: FloatArray
    depth_s: FloatArray
    """This and the next three: parts of the time of a pass, with the usual software."""
    bytes_s: FloatArray
    links_s: FloatArray
    queue_s: FloatArray
    log_conditions: FloatArray
    log_nodes: FloatArray
    log_speed: FloatArray
    log_scale: FloatArray
    """Scale of Student's t around the logarithm of the predicted speed."""
    deviation: FloatArray
    """log(observed / predicted) in scales."""

    @classmethod
    def empty(cls, count: int) -> Batch:
        """`count` draws of nothing."""
        return cls(**{f.name: np.zeros(count) for f in fields(cls)})

    @classmethod
    def join(cls, parts: Sequence[Batch]) -> Batch:
        """One batch after the other."""
        return cls(
            **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)}
        )

    def take(self, index: Index) -> Batch:
        """The draws at `index`."""
        return Batch(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def put(self, index: Index, **columns: Number) -> None:
        """Set columns at `index`."""
        for name, values in columns.items():
            getattr(self, name)[index] = values


@dataclass(frozen=True, slots=True)
class Marginal:
    """One quantity.

    Attributes:
        p05, p25, p50, p75, p95: quantiles.
        information_bits: what nodes and speed taught beyond the prior within the known ranges.
        nodes_bits: what the number of nodes alone taught.
        speed_bits: what the speed taught once the number of nodes is known.
        identified: at least IDENTIFIED_BITS.
        given: the question states it; of the nodes in use, that it states how many there are.
    """

    p05: float
    p25: float
    p50: float
    p75: float
    p95: float
    information_bits: float
    nodes_bits: float
    speed_bits: float
    identified: bool
    given: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class FactValue:
    """How much one more fact would narrow a quantity, on average over what the fact may be.

    Attributes:
        fact: one of FACTS.
        information_bits: mutual information of fact and quantity.
        ratio: expected 90 % interval's ratio p95 / p05 once the fact is known, as the
            exponential of the mean logarithm.
    """

    fact: str
    information_bits: float
    ratio: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class Posterior:
    """The answer of `infer`.

    Attributes:
        question: what was asked.
        possible: whether any model of the prior agrees with everything.
        reason: why not; "" where possible.
        ess: effective sample size.
        samples, stages: draws of the last stage, stages run.
        kinds: attention kinds in the order of `draws.attention`.
        draws: the draws.
        weights: their weights, sum 1.
        prior, with_nodes: (draws, weights) before any evidence, and with that of the nodes.
        predictive: speeds to expect before one is seen, nodes known: p05, p50, p95 in tokens/s,
            and `tail`, the two-sided probability of one as extreme as the question's.
        law: of speculation, None: the question's range.
        speed_bits: what the speed taught about all quantities and nuisances at once, in bits
            beyond the number of nodes. At least what it taught about any one of them.
        warnings: what to know before the answer is trusted.
    """

    question: Question
    possible: bool
    reason: str
    ess: float
    samples: int
    stages: int
    kinds: tuple[str, ...]
    draws: Batch
    weights: FloatArray
    law: SpeculationLaw | None
    prior: tuple[Batch, FloatArray] | None = None
    with_nodes: tuple[Batch, FloatArray] | None = None
    predictive: dict[str, float] | None = None
    speed_bits: float = 0.0
    warnings: tuple[str, ...] = ()

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
    def weights_probability(self) -> dict[str, float]:
        """Probability of each weight format."""
        return self._shares(self.draws.weights, self.question.weights)

    @property
    def attention_probability(self) -> dict[str, float]:
        """Probability of each kind of attention."""
        return self._shares(self.draws.attention, self.kinds)

    @property
    def software_probability(self) -> dict[str, float] | None:
        """Probability of each software; None where only one comes into question."""
        names = [name for name, _, _ in self.question.softwares]
        return self._shares(self.draws.software, names) if len(names) > 1 else None

    @property
    def layers_per_node_probability(self) -> dict[str, float] | None:
        """Probability of 1, 2, 3 or `more` layers in the fullest node; None: temporal hardware."""
        if not self.question.hardware.spatial:
            return None
        fullest = np.ceil(self.draws.layers / np.maximum(self.draws.nodes, 1.0))
        names = ("1", "2", "3", "more")
        return self._shares(np.clip(fullest, 1.0, len(names)) - 1.0, names)

    @property
    def moe_probability(self) -> float:
        """Probability of a mixture of experts."""
        return float(self.weights @ self.draws.moe)

    def _shares(self, values: FloatArray, names: Sequence[str]) -> dict[str, float]:
        shares = np.bincount(values.astype(np.intp), weights=self.weights, minlength=len(names))
        return {n: float(s) for n, s in zip(names, shares, strict=True)}

    @cached_property
    def value_of_facts(self) -> dict[str, tuple[FactValue, ...]]:
        """For each quantity the facts that would narrow it, most narrowing first.

        From draws of the posterior: bins of one fact, the mutual information with the quantity,
        and the mean log-width of the quantity's 90 % interval within a bin.
        """
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
                if name != _SAME_FACT[quantity] and fact.max() > 0
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

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; quantities are null where nothing is possible."""
        result: dict[str, Any] = {
            "possible": self.possible,
            "reason": self.reason,
            "ess": self.ess,
            "samples": self.samples,
            "warnings": list(self.warnings),
        }
        if not self.possible:
            return result | dict.fromkeys(QUANTITIES)
        levels = ("p05", "p25", "p50", "p75", "p95")
        accepted = dict(
            zip(levels, (float(v) for v in self.quantiles("accepted_tokens")), strict=True)
        )
        return result | {
            **{q: m.to_dict() for q, m in self.marginals.items()},
            "accepted_tokens": accepted,
            "expected_tokens_per_s": self.predictive,
            "speed_bits": self.speed_bits,
            "weights": self.weights_probability,
            "attention": self.attention_probability,
            "software": self.software_probability,
            "mixture_of_experts": self.moe_probability,
            "layers_per_node": self.layers_per_node_probability,
            "value_of_facts": {
                q: [f.to_dict() for f in facts] for q, facts in self.value_of_facts.items()
            },
        }


_SAME_FACT = {
    "total_params": "total parameters",
    "active_params": "active parameters",
    "layers": "layers",
    "nodes": "nodes in use",
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


def resampled(weights: FloatArray, count: int) -> Index:
    """Indices of `count` equally weighted draws, systematic."""
    points = (np.arange(count) + 0.5) / count
    at = np.searchsorted(np.cumsum(weights), points)
    return np.asarray(np.minimum(at, len(weights) - 1), dtype=np.intp)
