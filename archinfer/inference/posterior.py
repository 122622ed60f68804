"""What an inference found: weighted draws, and the intervals, bits and facts read off them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np

from archinfer.errors import UnknownNameError
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.batch import QUANTITIES, Batch
from archinfer.inference.contradiction import Contradiction
from archinfer.inference.evidence import Piece
from archinfer.inference.lanes import LaneFound
from archinfer.inference.modes import (
    LEVELS,
    Alternative,
    Levels,
    Likeliest,
    Mode,
    Placed,
    levels,
    likeliest,
    modes_of,
)
from archinfer.inference.narrowing import Narrowing
from archinfer.inference.statistics import (
    information_bits,
    quantiles,
    settled,
)
from archinfer.inference.steps import Step, Taught, taught, whole_outward
from archinfer.models.shape import FloatArray
from archinfer.models.solver_family import Habits
from archinfer.record import As, Nullable, Record
from archinfer.solver.question import Question

_LAYERS_PER_NODE = ("1", "2", "3", "more")

IDENTIFIED_BITS = 1.0
"""Information from which a quantity counts as identified: 1 bit halves what is plausible."""

Shares = Annotated[dict[str, float], As(dict[str, float] | None)]
"""Probability by name."""


@dataclass(frozen=True, slots=True, repr=False)
class Marginal(Levels):
    """Quantiles of one quantity to the digits that other draws would give as well, and what was
    learnt of it."""

    information_bits: float
    """what nodes and speed taught beyond the prior within the known ranges"""
    nodes_bits: float
    """what the number of nodes alone taught"""
    speed_bits: float
    """what the speed, or all evidence, taught once the nodes are known"""
    told_by: str
    """which taught more: nodes, speed, or evidence where that is several pieces"""
    identified: bool
    """enough was learnt to speak of a result"""
    given: bool
    """the question states it; of the nodes in use, how many there are"""


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
        "contradictions",
        "steps",
        *QUANTITIES,
        "accepted_tokens",
        "expected_tokens_per_s=predictive",
        "speed_bits",
        "weights=weights_probability",
        "attention=attention_probability",
        "software=software_probability",
        "mixture_of_experts=moe_probability",
        "layers_per_node=layers_per_node_probability",
        "modes",
        "most_likely",
        "deployments",
        "active_in_layers",
        "vocabulary",
        "tied=tied_probability",
        "users",
        "held_context_tokens",
        "alternatives",
    )

    question: Question
    possible: bool
    """whether any model of the prior agrees with everything"""
    reason: str
    """why nothing is possible; else empty"""
    ess: float
    """effective sample size"""
    samples: int
    """draws of all stages"""
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
    """what the speed, or all evidence, taught about all quantities and nuisances at once, in bits
    beyond the number of nodes; at least what it taught about any one of them"""
    others: Callable[[], tuple[Alternative, ...]] | None = None
    """Draws `alternatives`, which takes longer than the posterior itself."""
    pieces: tuple[Piece, ...] = ()
    """Of evidence; none: the question's speed alone."""
    contradictions: tuple[Contradiction, ...] = ()
    """pieces of evidence that all others speak against, the worst first"""
    lanes: Callable[[], tuple[LaneFound, ...]] | None = None
    """Says `deployments`."""
    placed: Placed | None = None
    """The mean coordinates of weighted draws, deployed."""
    narrow: Callable[[MappingOf[str, float]], tuple[Narrowing, ...]] | None = None
    """Draws `what_would_narrow`."""
    steps: tuple[Step, ...] = ()
    """prior, nodes, and the posterior after each piece of evidence in turn"""
    warnings: tuple[str, ...] = ()
    """what to know before the answer is trusted"""

    @cached_property
    def alternatives(self) -> Annotated[tuple[Alternative, ...], As(list[Alternative] | None)]:
        """the same under other assumptions, where they were asked for"""
        return () if self.others is None else self.others()

    @cached_property
    def what_would_narrow(self) -> tuple[Narrowing, ...]:
        """by how much further facts would narrow each quantity, by drawing them"""
        now = {name: m.p95 / m.p05 for name, m in self.marginals.items()}
        return () if self.narrow is None else self.narrow(now)

    @cached_property
    def deployments(self) -> Annotated[tuple[LaneFound, ...], As(list[LaneFound] | None)]:
        """what is known of each further deployment of the same architecture"""
        return () if self.lanes is None else self.lanes()

    @property
    def told_by(self) -> Literal["speed", "evidence"]:
        """What was observed, in a word."""
        return "speed" if len(self.pieces) < 2 else "evidence"

    @property
    def evidence(self) -> tuple[Taught, ...]:
        """each piece of evidence, and what it taught"""
        return taught(self.pieces, self.steps)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON data; what nothing is known of is None."""
        data = super().to_dict()
        if not self.possible:
            data |= dict.fromkeys(key for key in data if key not in self.KEYS[:7])
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
        return np.array(whole_outward(quantity, found, at))

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
        return levels(*self.density("accepted_tokens"))

    @property
    def users(self) -> Levels | None:
        """users whose caches are in memory at once"""
        return levels(*self.density("concurrency")) if self.possible else None

    @property
    def held_context_tokens(self) -> Levels | None:
        """tokens of context that each of them holds"""
        return levels(*self.density("held_context_tokens")) if self.possible else None

    @property
    def active_in_layers(self) -> Levels | None:
        """active parameters without embedding and head, "non-embedding" on model cards"""
        return levels(self.draws.active_in_layers, self.weights) if self.possible else None

    @property
    def vocabulary(self) -> Levels | None:
        """rows of the head"""
        return levels(*self.density("vocabulary")) if self.possible else None

    @property
    def tied_probability(self) -> Nullable:
        """probability that the head is the embedding"""
        return float(self.weights @ self.draws.tied)

    @property
    def without_habits(self) -> tuple[Question, ...]:
        """The question without habits of design but those asked for, for a region that these alone
        make empty: with the vocabulary and head that are usual here (models below those of the
        catalogue have smaller tables), then with the ends of what they may be. Empty where there
        are no habits, or no draws."""
        asked, rows = self.question, self.vocabulary
        if asked.habits is None or rows is None:
            return ()
        usual = asked.habits.sparsity == Habits().sparsity
        free = asked.with_(habits=None) if usual else asked.without("shape", "depth")
        rules, tied = asked.rules, self.tied_probability
        sizes, heads = (rows.p50, rows.p05, rows.p95), (tied > 0.5, tied > 0.05, tied > 0.95)
        if "vocabulary" in asked.tables_known:
            sizes = (rules.vocab_size,) * 3
        if "tied" in asked.tables_known:
            heads = (rules.tied,) * 3
        tables = dict.fromkeys(zip(map(round, sizes), heads, strict=True))
        return tuple(
            free.with_(rules=replace(rules, vocab_size=float(size), tied=head))
            for size, head in tables
        )

    def _marginal(self, quantity: str) -> Marginal:
        posterior = self.density(quantity)
        assert self.with_nodes is not None and self.prior is not None

        def of(level: tuple[Batch, FloatArray]) -> tuple[FloatArray, FloatArray]:
            return getattr(level[0], quantity), level[1]

        middle = of(self.with_nodes)
        first = of(self.prior)
        bits, by_nodes = (information_bits(level, first) for level in (posterior, middle))
        told = information_bits(posterior, middle)
        asked = {
            "total_params": self.question.total,
            "active_params": self.question.active,
            "layers": self.question.layers,
        }.get(quantity, (0.0, np.inf))
        fewest, most = self.question.nodes
        nodes_given = quantity == "nodes" and self.question.nodes_known and fewest == most
        ends = settled(*posterior, LEVELS)
        p05, p25, p50, p75, p95 = whole_outward(quantity, ends, LEVELS)
        return Marginal(
            p05, p25, p50, p75, p95,
            information_bits=bits,
            nodes_bits=by_nodes,
            speed_bits=told,
            told_by=self.told_by if told >= by_nodes else "nodes",
            identified=bits >= IDENTIFIED_BITS,
            given=asked != (0.0, np.inf) or nodes_given,
        )  # fmt: skip

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
        names = [name for name, *_ in self.question.softwares]
        return self._shares(self.draws.software, names) if len(names) > 1 else None

    @property
    def layers_per_node_probability(self) -> dict[str, float] | None:
        """probability of 1, 2, 3 or more layers in the fullest node; null on GPUs"""
        if not self.question.hardware.spatial:
            return None
        return self._shares(_fullest(self.draws), _LAYERS_PER_NODE)

    @cached_property
    def modes(self) -> Annotated[tuple[Mode, ...], As(list[Mode] | None)]:
        """the humps by layers in the fullest node, likeliest first; none on GPUs"""
        if not self.possible or not self.question.hardware.spatial:
            return ()
        group = _fullest(self.draws).astype(np.intp)
        return modes_of(self.draws, self.weights, group, _LAYERS_PER_NODE)

    @cached_property
    def most_likely(self) -> Likeliest | None:
        """one architecture of the likeliest hump, its numbers belonging together"""
        if not self.possible:
            return None
        weights, first = self.weights, -1
        if self.modes:
            first = _LAYERS_PER_NODE.index(self.modes[0].layers_per_node)
            held = _fullest(self.draws) == first
            weights = np.where(held, weights, 0.0) / weights[held].sum()

        def placed(weights: FloatArray, like: int) -> Batch | None:
            one = None if self.placed is None else self.placed(weights, like)
            inside = one is not None and first in (-1, _fullest(one)[0])
            return one if inside else None

        return likeliest(self.draws, weights, self.question.weights, self.kinds, placed)

    @property
    def moe_probability(self) -> Nullable:
        """probability"""
        return float(self.weights @ self.draws.moe)

    def _shares(self, values: FloatArray, names: Sequence[str]) -> dict[str, float]:
        shares = np.bincount(values.astype(np.intp), weights=self.weights, minlength=len(names))
        return {n: float(s) for n, s in zip(names, shares, strict=True)}


def _fullest(draws: Batch) -> FloatArray:
    """Position in _LAYERS_PER_NODE of the layers in each draw's fullest node."""
    fullest = np.ceil(draws.layers / np.maximum(draws.nodes, 1.0))
    return np.asarray(np.clip(fullest, 1.0, len(_LAYERS_PER_NODE)) - 1.0)
