"""What an observed speed says about a model: the posterior over its size, depth and nodes.

Prior: shapes (`archinfer.prior`), how an operator deploys them (below), and plain ranges for what
a speed table leaves out. Evidence: the number of nodes, where it is known, and
the speed: Student's t around the logarithm of the cost model's, with the spread of the profile's
constants (their joint covariance, to first order) and of its model error, heavy-tailed as the
noise to which the profile is fitted.

How an operator deploys (stated, not measured):

- spatial hardware: memory is what a deployment is bought for. Of the nodes meant for it, a share
  between 40 % and 100 % is needed (log-uniform), and as many are used as whole layers spread
  over; nodes that are there beyond those in use are rare, with an exponential tail of mean 0.1
  in the logarithm (10 % of deployments have 1.26 times as many as they use, none more than four
  times). So the number of wafers informs the total size.
- temporal hardware: memory is a by-product of bandwidth, and a small model on many nodes is
  usual; on the nodes of the asked range that hold the model each is as likely as another, by
  logarithm, and only capacity informs the total size. Pipeline stages and tensor-parallel
  group are the fastest that fit.
- users served at once: log-uniform between those asked for and 32 times as many; all their
  caches, at the asked context, are in memory.
- context at which the speed was measured: log-uniform from 1,000 tokens to the asked context.
- speculation: none with probability one half where the asked range allows it, else tokens per
  pass log-uniform in the range. With a fitted law of speculation (`archinfer.speculation`) the
  gain follows from the model's own speed instead: a fast model gains little.
- weight formats: equally likely unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr

from archinfer.cost import (
    TokenTime,
    Traffic,
    decode_time,
    log_sd,
    memory_fraction,
    throughput,
)
from archinfer.deployment import Mapping
from archinfer.errors import InputError, UnknownNameError
from archinfer.family import ATTENTION_KINDS, FamilyRules, attention_rule, family_shape
from archinfer.formats import weight_format
from archinfer.importance import Draws, Index, Proposal, Space, adapt
from archinfer.information import (
    equal_mass_edges,
    information_bits,
    mutual_information_bits,
    quantiles,
)
from archinfer.laws import truncated
from archinfer.noise import DEGREES, log_density
from archinfer.placement import fewest
from archinfer.prior import CATALOGUE_PRIOR, ShapePrior
from archinfer.question import Question, Range
from archinfer.shape import DENSE_CHAIN, FloatArray, ModelShape, Number
from archinfer.solver import widest_group
from archinfer.speculation import SpeculationLaw, speculative_time
from archinfer.units import format_quantity
from archinfer.work import Memory, memory

if TYPE_CHECKING:
    from archinfer.hardware import Hardware

__all__ = [
    "FACTS",
    "IDENTIFIED_BITS",
    "LEVELS",
    "QUANTITIES",
    "Batch",
    "FactValue",
    "Marginal",
    "Posterior",
    "infer",
    "simulate",
]

QUANTITIES = ("total_params", "active_params", "layers", "nodes")
"""What is reported; `nodes` are those in use."""

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

IDENTIFIED_BITS = 1.0
"""Information from which a quantity counts as identified: 1 bit halves what is plausible."""

SCALE_UNCERTAINTY = 1.2
"""Factor on the variance of the noise for the uncertainty of its own scale: exp(2 s^2) with
s = 0.3, what a fit to some twenty speeds leaves of the scale's logarithm."""

ESS_FLOOR = 1000.0
UTILISATION = (0.4, 1.0)
IDLE_LOG_MEAN = 0.1
IDLE_MOST = 4.0
CONCURRENCY_SPREAD = 32.0
READ_CONTEXT_LOW = 1000.0
NO_SPECULATION = 0.5
POINT_TOLERANCE = 0.025
"""A single figure for total or active parameters stands for all that round to it: +-2.5 %."""

TAIL = 1e-3
"""Probability of a speed as extreme as the observed one, given the nodes, below which the answer
carries a warning: it then rests on the tails of the prior."""

FAR = 6.0
"""Scales of the noise beyond which a speed is not explained: Student's t with 4 degrees of
freedom has 0.4 % there."""

EXPLAINED = 0.5
"""Least posterior probability that a speed is explained, for an answer to be given."""

LAYERS_CAP = 512
"""Most layers considered where none are known: four times the deepest of the catalogue."""
LAYERS_ASKED_CAP = 4096
"""The same where they are."""
NODES_CAP = 4096
"""Most nodes considered before their number is known."""

FACTS = (
    "nodes in use",
    "layers",
    "active parameters",
    "total parameters",
    "speculation",
    "weight format",
    "attention kind",
    "context measured",
    "users at once",
    "throughput",
    "price of a token",
)
"""Facts whose worth is computed. Throughput: tokens/s over all users at once, whose number is
unknown. Price: node-hours per token at that throughput (any price of a node gives the same
bits)."""

_SIZE, _DEPTH, _PER_LAYER, _SPARSITY, _FILL, _ACCEPTED, _READ, _USERS, _DRAFT = range(9)
_DIMENSIONS = 9
_EXPLORE = (2.0, 1.5, 1.0, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0)


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
    tokens_per_s: FloatArray
    """Predicted, at central constants."""
    throughput: FloatArray
    depth_s: FloatArray
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
class _Cells:
    """The discrete choices: dense or mixture-of-experts, weight format, attention kind."""

    moe: Index
    weights: Index
    attention: Index
    probability: FloatArray

    @staticmethod
    def of(
        prior: ShapePrior, formats: Sequence[float], kinds: Sequence[tuple[str, float]]
    ) -> _Cells:
        moe, weights, attention = (
            x.ravel()
            for x in np.meshgrid(
                np.arange(2), np.arange(len(formats)), np.arange(len(kinds)), indexing="ij"
            )
        )
        shares = np.array([c.share for c in prior.classes])
        formats_p = np.asarray(formats, dtype=float)
        kinds_p = np.array([p for _, p in kinds])
        probability = shares[moe] * formats_p[weights] * kinds_p[attention]
        return _Cells(moe, weights, attention, probability / probability.sum())


def _point(limits: Range, tolerance: float) -> Range:
    low, high = limits
    if low == high:
        return low * (1.0 - tolerance), high * (1.0 + tolerance)
    return limits


def _log_uniform(z: FloatArray, low: Number, high: Number) -> FloatArray:
    """Log-uniform in [low, high] from standard normal z."""
    return np.asarray(low * (np.asarray(high) / low) ** ndtr(z))


class _Model:
    """The generative model of a question: standard normals and cells -> draws with evidence."""

    def __init__(
        self,
        question: Question,
        prior: ShapePrior,
        formats: Sequence[float],
        kinds: Sequence[tuple[str, float]],
        concurrency: Range,
        read_context: Range,
        law: SpeculationLaw | None,
    ) -> None:
        self.question = question
        self.prior = prior
        self.kinds = kinds
        self.cells = _Cells.of(prior, formats, kinds)
        self.bits = np.array([weight_format(w).bits for w in question.weights])
        self.concurrency = concurrency
        self.read_context = read_context
        self.law = law if question.speculation[1] > 1.0 else None
        self.total = _point(question.total, POINT_TOLERANCE)
        self.active = _point(question.active, POINT_TOLERANCE)
        groups = self.cells.moe * len(formats) + self.cells.weights
        self.space = Space(
            _DIMENSIONS, self.cells.probability, groups.astype(np.intp), np.array(_EXPLORE)
        )

    def evaluate(
        self, level: int, z: FloatArray, cell: Index, speed: bool = False
    ) -> tuple[FloatArray, Batch]:
        """Log evidence and draws; level 0: known ranges, 1: and the nodes, 2: and the speed.

        Below level 2 the speed is predicted only with `speed`.
        """
        batch = Batch.empty(len(z))
        moe = self.cells.moe[cell]
        batch.moe[:] = moe
        batch.weights[:] = self.cells.weights[cell]
        kind = self.cells.attention[cell]
        batch.attention[:] = kind
        per_layer = np.zeros(len(z))
        for flag in (0, 1):
            mine = np.flatnonzero(moe == flag)
            if len(mine):
                per_layer[mine] = self._shapes(batch, mine, z[mine], flag)
        self._nuisances(batch, z)
        evidence = batch.log_conditions.copy()
        alive = np.isfinite(evidence)
        for k, (name, _) in enumerate(self.kinds):
            mine = np.flatnonzero(alive & (kind == k))
            if len(mine):
                self._deploy(batch, mine, z[mine], per_layer[mine], name, level, speed or level > 1)
        if level == 0:
            # Of the nodes nothing is known yet but that the model fits on some.
            alive &= batch.log_nodes > -np.inf
            batch.log_nodes[alive] = 0.0
        evidence[alive] += batch.log_nodes[alive]
        evidence[~alive] = -np.inf
        if level > 1:
            evidence[alive] += batch.log_speed[alive]
        return evidence, batch

    def _shapes(self, batch: Batch, mine: Index, z: FloatArray, flag: int) -> FloatArray:
        """Draw A, L, c and N within what is known; returns c."""
        own = self.prior.classes[flag]
        with np.errstate(divide="ignore"):
            active_low, active_high = np.log(np.asarray(self.active))
            total_low, total_high = np.log(np.asarray(self.total))
            layers_low = np.log(max(np.ceil(self.question.layers[0]), 1.0) - 0.5)
            most = np.floor(self.question.layers[1])
            most = min(most, LAYERS_ASKED_CAP) if most < np.inf else LAYERS_CAP
            layers_high = np.log(most + 0.5)
        if own.sparsity is None:
            active_low, active_high = max(active_low, total_low), min(active_high, total_high)
        else:
            active_high = min(active_high, total_high)
        size, log_p = truncated(z[:, _SIZE], own.size_mean, own.size_sd, active_low, active_high)
        mean, sd = own.depth.predict(size)
        depth, mass = truncated(z[:, _DEPTH], mean, sd, layers_low, layers_high, own.depth_law)
        log_p = log_p + mass
        layers = np.maximum(np.round(np.exp(depth)), 1.0)
        log_layers = np.log(layers)
        mean, sd = own.per_layer.predict(size, log_layers)
        per_layer = np.exp(mean + sd * z[:, _PER_LAYER])
        log_total = size
        if own.sparsity is not None:
            mean, sd = own.sparsity.predict(size, log_layers)
            extra, mass = truncated(
                z[:, _SPARSITY], mean, sd, np.maximum(total_low - size, 0.0), total_high - size
            )
            log_total = size + extra
            # Only what the known total takes away is evidence; N >= A is part of the prior.
            log_p = log_p + mass - np.log(ndtr(mean / sd))
        active = np.exp(size)
        batch.put(
            mine,
            active_params=active,
            layers=layers,
            total_params=np.maximum(np.exp(log_total), active),
            log_conditions=log_p,
        )
        return per_layer

    def _nuisances(self, batch: Batch, z: FloatArray) -> None:
        q = self.question
        batch.concurrency[:] = np.round(_log_uniform(z[:, _USERS], *self.concurrency))
        batch.context_tokens[:] = _log_uniform(z[:, _READ], *self.read_context)
        low, high = q.speculation
        none = NO_SPECULATION if low <= 1.0 < high else 0.0
        u = ndtr(z[:, _ACCEPTED])
        used = np.clip((u - none) / (1.0 - none), 0.0, 1.0)
        accepted = low * (high / low) ** used
        if none > 0.0:
            accepted = np.where(u < none, 1.0, np.maximum(accepted, 1.0))
        batch.accepted_tokens[:] = accepted
        batch.speculates[:] = accepted > 1.0

    def _rules(self, kind: str, per_layer: FloatArray) -> FamilyRules:
        # An array of rules: the family's formulas broadcast over it.
        return replace(self.question.rules, attention=kind, params_per_layer=cast(float, per_layer))

    def _deploy(
        self,
        batch: Batch,
        mine: Index,
        z: FloatArray,
        per_layer: FloatArray,
        kind: str,
        level: int,
        speed: bool,
    ) -> None:
        """Nodes in use, their probability and, where asked, the speed."""
        q = self.question
        limits = q.nodes if level > 0 else (1, NODES_CAP)
        total, active = batch.total_params[mine], batch.active_params[mine]
        layers = batch.layers[mine]
        dense = batch.moe[mine] == 0.0
        shape = _with_chain(
            family_shape(total, active, layers, self._rules(kind, per_layer)), kind, dense
        )
        bits = self.bits[batch.weights[mine].astype(np.intp)]
        users = batch.concurrency[mine]
        stored = memory(shape, q.context_tokens, users, bits, q.kv_bits)
        traffic = Traffic(batch.context_tokens[mine], users, bits, None, q.kv_bits)
        if q.hardware.spatial:
            mapping, log_nodes = self._spatial_nodes(stored, layers, z[:, _FILL], limits)
            time = None
            if speed:
                time = decode_time(q.hardware, shape, stored, mapping, traffic)
        else:
            mapping, log_nodes, time = self._temporal_nodes(
                shape, stored, layers, traffic, z[:, _FILL], limits, speed
            )
        batch.put(
            mine,
            hidden_size=shape.hidden_size,
            nodes=mapping.nodes(layers),
            log_nodes=log_nodes,
        )
        if time is None:
            return
        spread: Number = 0.0
        if self.law is not None:
            spread = self._speculate(batch, mine, z, per_layer, kind, mapping, time)
        self._speed(batch, mine, time, spread)

    def _speculate(
        self,
        batch: Batch,
        mine: Index,
        z: FloatArray,
        per_layer: FloatArray,
        kind: str,
        mapping: Mapping,
        time: TokenTime,
    ) -> FloatArray:
        """Tokens gained per pass by the law of speculation; returns the spread of their logs."""
        assert self.law is not None
        q = self.question
        used, acceptance, draft_s = drawn_speculation(
            self.law, q.speculation, z[:, _ACCEPTED], z[:, _DRAFT]
        )
        gain = np.ones(len(mine))
        at = np.flatnonzero(used & np.isfinite(np.asarray(time.total)))
        if len(at):
            # Each draw in a row of its own, numbers of drafts along it.
            row = mine[at][:, None]
            layers = batch.layers[row]
            shape = _with_chain(
                family_shape(
                    batch.total_params[row],
                    batch.active_params[row],
                    layers,
                    self._rules(kind, per_layer[at][:, None]),
                ),
                kind,
                batch.moe[row] == 0.0,
            )
            bits = self.bits[batch.weights[row].astype(np.intp)]
            users = batch.concurrency[row]
            stored = memory(shape, q.context_tokens, users, bits, q.kv_bits)
            traffic = Traffic(batch.context_tokens[row], users, bits, None, q.kv_bits)
            count = (len(mine),)
            placed = Mapping(
                np.broadcast_to(mapping.layers_per_stage, count)[at][:, None],
                np.broadcast_to(mapping.tensor_parallel, count)[at][:, None],
            )
            each_s = speculative_time(
                q.hardware,
                shape,
                stored,
                placed,
                traffic,
                acceptance[at][:, None],
                draft_s[at][:, None],
            )
            gain[at] = np.broadcast_to(np.asarray(time.total), count)[at] / each_s
        batch.put(mine, accepted_tokens=gain, speculates=used.astype(float))
        return np.where(used, self.law.spread_log_sd, 0.0)

    def _spatial_nodes(
        self, stored: Memory, layers: FloatArray, z: FloatArray, limits: tuple[int, int]
    ) -> tuple[Mapping, FloatArray]:
        low, high = limits
        held = np.floor(self.question.hardware.usable_bytes * layers / np.asarray(stored.total))
        fits = held >= 1.0
        needed = np.ceil(layers / np.clip(held, 1.0, layers))
        # Those in use are ceil(L / m), m = ceil(L / bought): no more than `high` where m is at
        # least ceil(L / high), whatever else is bought.
        deepest = np.ceil(layers / high)
        with np.errstate(divide="ignore"):
            bought_end = np.ceil(layers / (deepest - 1.0))
        most = np.minimum(needed * (UTILISATION[1] / UTILISATION[0]), bought_end)
        room = most / needed
        possible = fits & (room > 1.0)
        room = np.where(possible, room, 2.0)
        # Just below the end: the number of nodes is the whole part.
        bought = np.floor(needed * room ** (ndtr(z) * (1.0 - 1e-9)))
        per_stage = np.ceil(layers / bought)
        used = np.ceil(layers / per_stage)
        power = 1.0 / IDLE_LOG_MEAN
        there = (used / np.maximum(low, used)) ** power - (used / (high + 1.0)) ** power
        there = np.where(used * IDLE_MOST < low, 0.0, there)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = np.log(np.log(room) / np.log(UTILISATION[1] / UTILISATION[0])) + np.log(
                np.maximum(there, 0.0)
            )
        return Mapping(per_stage), np.where(possible, log_p, -np.inf)

    def _temporal_nodes(
        self,
        shape: ModelShape,
        stored: Memory,
        layers: FloatArray,
        traffic: Traffic,
        z: FloatArray,
        limits: tuple[int, int],
        speed: bool,
    ) -> tuple[Mapping, FloatArray, TokenTime | None]:
        hardware = self.question.hardware
        low, high = limits
        least = np.maximum(fewest(hardware, shape, stored)[0], low)
        possible = least <= high
        room = np.where(possible, (high + 1.0) / np.minimum(least, high), 2.0)
        there = np.floor(np.minimum(least, high) * room ** (ndtr(z) * (1.0 - 1e-9)))
        best_s = np.full(len(layers), np.inf)
        per_stage = layers.copy()
        group = np.ones(len(layers))
        size = 1.0
        while size <= min(high, widest_group(hardware)):
            stages = np.clip(np.floor(there / size), 1.0, layers)
            mine = Mapping(np.ceil(layers / stages), size)
            taken = np.asarray(memory_fraction(hardware, shape, stored, mine))
            fits = (size <= there) & (taken <= 1.0)
            if np.any(fits):
                seconds = decode_time(hardware, shape, stored, mine, traffic).total
                better = fits & (np.asarray(seconds) < best_s)
                best_s = np.where(better, seconds, best_s)
                per_stage = np.where(better, mine.layers_per_stage, per_stage)
                group = np.where(better, size, group)
            size *= 2.0
        mapping = Mapping(per_stage, group)
        log_p = np.where(possible & np.isfinite(best_s), 0.0, -np.inf)
        time = decode_time(hardware, shape, stored, mapping, traffic) if speed else None
        return mapping, log_p, time

    def _speed(self, batch: Batch, mine: Index, time: TokenTime, spread: Number) -> None:
        q = self.question
        hardware = q.hardware
        pass_s = np.asarray(time.total)
        predicted = batch.accepted_tokens[mine] / pass_s
        scale = noise_scale(hardware, time, spread)
        deviation = np.log(q.tokens_per_s / predicted) / scale
        batch.put(
            mine,
            tokens_per_s=predicted,
            throughput=throughput(time, batch.concurrency[mine], batch.accepted_tokens[mine]),
            depth_s=time.reductions + time.fixed,
            bytes_s=time.weights + time.kv + time.compute + time.head,
            links_s=time.links,
            queue_s=time.queue + time.draft,
            log_speed=log_density(deviation) - np.log(scale),
            log_scale=scale,
            deviation=deviation,
        )


def noise_scale(hardware: Hardware, time: TokenTime, spread: Number) -> FloatArray:
    """Scale of Student's t around the logarithm of a predicted speed.

    Constants and speculation's spread add to the scale of the model error, which as a standard
    deviation is sqrt(v / (v - 2)) times its scale.
    """
    error = hardware.model_error_log_sd**2
    constants = np.asarray(log_sd(hardware, time)) ** 2 - error
    scale = error * (DEGREES - 2.0) / DEGREES
    return np.asarray(np.sqrt(SCALE_UNCERTAINTY * (constants + scale + np.square(spread))))


def drawn_speculation(
    law: SpeculationLaw, asked: Range, z_use: FloatArray, z_draft: FloatArray
) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
    """Whether speculation is used, chance of acceptance and time of a draft, from normals.

    Args:
        law: what is known.
        asked: range of tokens per pass; with a low end above 1 speculation is certain.
        z_use, z_draft: standard normal, shape (n,).
    """
    probability = 1.0 if asked[0] > 1.0 else law.probability
    u = ndtr(z_use)
    used = u >= 1.0 - probability
    within = np.clip((u - (1.0 - probability)) / max(probability, 1e-12), 1e-9, 1.0 - 1e-9)
    centre = np.log(law.acceptance / (1.0 - law.acceptance))
    acceptance = 1.0 / (1.0 + np.exp(-(centre + law.acceptance_logit_sd * ndtri(within))))
    return used, acceptance, law.draft_time_s * np.exp(law.draft_time_log_sd * z_draft)


def _with_chain(shape: ModelShape, kind: str, dense: Any) -> ModelShape:
    """The family's shape with the shorter chain of all-reduces where it is dense."""
    (group,) = shape.groups
    router = attention_rule("gqa").reductions - DENSE_CHAIN
    chain = np.where(dense, group.reductions - router, group.reductions)
    return replace(shape, groups=(replace(group, reductions=chain),))


@dataclass(frozen=True, slots=True)
class Marginal:
    """One quantity.

    Attributes:
        p05, p25, p50, p75, p95: quantiles.
        information_bits: what nodes and speed taught beyond the prior within the known ranges.
        nodes_bits: what the number of nodes alone taught.
        speed_bits: what the speed taught once the number of nodes is known.
        identified: at least IDENTIFIED_BITS.
        given: the question states it.
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
    prior: tuple[Batch, FloatArray] | None
    with_nodes: tuple[Batch, FloatArray] | None
    predictive: dict[str, float] | None
    law: SpeculationLaw | None
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
            given=asked != (0.0, np.inf),
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


def infer(
    question: Question,
    samples: int = 16_384,
    seed: int = 0,
    *,
    target_ess: float = 1500.0,
    prior: ShapePrior = CATALOGUE_PRIOR,
    weights_prior: MappingOf[str, float] | None = None,
    attention: Sequence[str] | None = None,
    concurrency: Range | None = None,
    read_context: Range | None = None,
    law: SpeculationLaw | Literal["profile"] | None = "profile",
) -> Posterior:
    """The posterior over total, active, layers and nodes.

    Args:
        question: hardware, speed, nodes, and what is known. The speed counts as evidence where
            `observed`; otherwise the answer is the prior with the nodes. Habits are not used:
            the prior takes their place. `total`, `active` and `layers` are conditions.
        samples: draws of one stage.
        seed: of the random shifts; the answer is a function of question and seed.
        target_ess: stages stop once the effective sample size is this large.
        prior: over shapes.
        weights_prior: probability of each weight format; None: equal.
        attention: attention kinds to consider, a priori as often as in the catalogue;
            None: all.
        concurrency: users at once, log-uniform; None: from the question's to 32 times as many.
        read_context: context at which the speed was measured, log-uniform; None: from 1,000
            tokens to the question's.
        law: of speculation, in place of the question's range of tokens per pass, of which only
            "none" (1:1) and "surely some" (a low end above 1) count then. "profile": the one
            that the profile was fitted with, if any, where the range is the default or the
            profile's; a range that somebody chose counts as it stands. None: so it does always.

    Raises:
        InputError: an empty or unknown choice of formats or kinds, or ranges that are none.
    """
    if samples < 256:
        raise InputError(f"samples must be at least 256, found {samples}")
    model = _model(question, prior, weights_prior, attention, concurrency, read_context, law)
    rng = np.random.default_rng(seed)
    kinds = tuple(k for k, _ in model.kinds)
    passed: list[Draws[_Kept]] = []
    start: Proposal | None = None
    for level in range(3 if question.observed else 2):

        def evaluate(z: FloatArray, cell: Index, level: int = level) -> tuple[FloatArray, _Kept]:
            evidence, batch = model.evaluate(level, z, cell)
            return evidence, _Kept(batch, z, cell)

        draws = adapt(model.space, evaluate, samples, target_ess, rng, start)
        reason = _impossible(question, level, draws)
        if reason:
            count = len(draws.log_weights)
            return Posterior(
                question,
                False,
                reason,
                0.0,
                count,
                draws.stages,
                kinds,
                draws.payload.batch,
                np.zeros(count),
                None,
                None,
                None,
                model.law,
            )
        passed.append(draws)
        start = draws.proposal
    last = passed[-1]
    posterior = Posterior(
        question,
        True,
        "",
        last.ess,
        len(last.log_weights),
        last.stages,
        kinds,
        last.payload.batch,
        last.weights,
        (passed[0].payload.batch, passed[0].weights),
        (passed[1].payload.batch, passed[1].weights),
        _predictive(model, passed[1]),
        model.law,
        _speed_bits(passed[1], last) if question.observed else 0.0,
    )
    return replace(posterior, warnings=_warnings(posterior, target_ess))


@dataclass(frozen=True, slots=True)
class _Kept:
    batch: Batch
    z: FloatArray
    cell: Index


def _speed_bits(before: Draws[_Kept], after: Draws[_Kept]) -> float:
    """Divergence of the posterior from what was known before the speed: E log(p(speed | .) / p)."""
    w = after.weights
    held = w > 0.0
    mean = float(w[held] @ after.payload.batch.log_speed[held])
    return max(0.0, mean - after.log_evidence + before.log_evidence) / float(np.log(2.0))


def _predictive(model: _Model, draws: Draws[_Kept], count: int = 2048) -> dict[str, float]:
    """Speeds to expect of draws that know the nodes."""
    index = resampled(draws.weights, count)
    _, batch = model.evaluate(1, draws.payload.z[index], draws.payload.cell[index], speed=True)
    centre = np.log(batch.tokens_per_s)
    observed = np.log(model.question.tokens_per_s)
    below = float(stdtr(DEGREES, (observed - centre) / batch.log_scale).mean())
    noise = np.random.default_rng(0).standard_t(DEGREES, count)
    p05, p50, p95 = np.exp(np.quantile(centre + batch.log_scale * noise, (0.05, 0.5, 0.95)))
    return {
        "p05": float(p05),
        "p50": float(p50),
        "p95": float(p95),
        "tail": min(1.0, 2.0 * min(below, 1.0 - below)),
    }


def resampled(weights: FloatArray, count: int) -> Index:
    """Indices of `count` equally weighted draws, systematic."""
    points = (np.arange(count) + 0.5) / count
    at = np.searchsorted(np.cumsum(weights), points)
    return np.asarray(np.minimum(at, len(weights) - 1), dtype=np.intp)


def _warnings(posterior: Posterior, target_ess: float) -> tuple[str, ...]:
    found = []
    expected = posterior.predictive
    question = posterior.question
    assert expected is not None
    if question.observed and expected["tail"] < TAIL:
        found.append(
            f"{question.tokens_per_s:,.6g} tokens/s is far from what models of the prior reach on "
            f"these nodes ({expected['p05']:,.0f} to {expected['p95']:,.0f}): the answer rests on "
            "the tails of the prior, or something else limits the speed"
        )
    unused = [
        option
        for option, given in (
            ("throughput", question.throughput_tokens_per_s is not None),
            ("power", question.power_w is not None),
            ("price", question.price_per_hour is not None),
            ("mapping", question.layout is not None),
        )
        if given
    ]
    if unused:
        found.append(
            f"what was asked of {' and '.join(unused)} bounds the ranges but is no evidence here"
        )
    if posterior.ess < min(ESS_FLOOR, target_ess):
        found.append(
            f"effective sample size {posterior.ess:.0f} is below {ESS_FLOOR:.0f}: "
            "more samples needed"
        )
    return tuple(found)


@dataclass(frozen=True)
class Simulated:
    """Deployments drawn from the prior, each with the question that its speed would raise."""

    truth: Batch
    questions: tuple[Question, ...]


def simulate(
    question: Question,
    count: int,
    seed: int = 0,
    *,
    known_nodes: bool = True,
    prior: ShapePrior = CATALOGUE_PRIOR,
    law: SpeculationLaw | Literal["profile"] | None = "profile",
) -> Simulated:
    """Models, deployments and measured speeds as `infer` believes they arise.

    Args:
        question: hardware, context, formats, speculation and known ranges.
        count: draws.
        seed: of the generator.
        known_nodes: spatial hardware: each draw's question states the nodes that are there, and
            those of the question are not used. Otherwise, and on temporal hardware, draws are
            deployments on the nodes of the question, and each draw's question has them.
        prior, law: as for `infer`.

    Raises:
        InputError: nothing of the prior lies in the known ranges and fits.
    """
    spatial = question.hardware.spatial
    asked = question.with_(observed=True)
    if spatial:
        asked = asked.with_(nodes=(1, NODES_CAP))
    model = _model(asked, prior, None, None, None, None, law)
    space = model.space
    rng = np.random.default_rng(seed)
    parts: list[Batch] = []
    there: list[FloatArray] = []
    found = 0
    for _ in range(1000):
        z = rng.standard_normal((max(count, 64), space.dimensions))
        cell = rng.choice(len(space.cell_probability), len(z), p=space.cell_probability)
        _, batch = model.evaluate(1, z, cell, speed=True)
        idle = np.exp(np.minimum(IDLE_LOG_MEAN * rng.exponential(size=len(z)), np.log(IDLE_MOST)))
        nodes = np.floor(batch.nodes * idle)
        # Draws within the known ranges are kept in proportion to the mass of the ranges.
        kept = (batch.log_nodes > -np.inf) & (np.log(rng.random(len(z))) < batch.log_conditions)
        if spatial and not known_nodes:
            kept &= (nodes >= question.nodes[0]) & (nodes <= question.nodes[1])
        parts.append(batch.take(np.flatnonzero(kept)))
        there.append(nodes[kept])
        found += int(kept.sum())
        if found >= count:
            break
    else:
        raise InputError("nothing of the prior lies in the known ranges and fits")
    truth = Batch.join(parts).take(np.arange(count))
    speeds = truth.tokens_per_s * np.exp(truth.log_scale * rng.standard_t(DEGREES, count))
    told = [(int(n), int(n)) for n in np.concatenate(there)[:count]]
    if not (spatial and known_nodes):
        told = [question.nodes] * count
    questions = tuple(
        asked.with_(tokens_per_s=float(v), nodes=n) for n, v in zip(told, speeds, strict=True)
    )
    return Simulated(truth, questions)


def _model(
    question: Question,
    prior: ShapePrior,
    weights_prior: MappingOf[str, float] | None,
    attention: Sequence[str] | None,
    concurrency: Range | None,
    read_context: Range | None,
    law: SpeculationLaw | Literal["profile"] | None = "profile",
) -> _Model:
    if law == "profile":
        law = _profile_law(question)
    formats = [1.0] * len(question.weights)
    if weights_prior is not None:
        formats = [float(weights_prior.get(w, 0.0)) for w in question.weights]
        if min(formats) < 0.0 or sum(formats) <= 0.0:
            raise InputError("weights_prior gives none of the question's weight formats any weight")
    chosen = tuple(ATTENTION_KINDS) if attention is None else tuple(attention)
    for name in chosen:
        attention_rule(name)
    shares = dict(prior.attention)
    kinds = [(k, shares[k]) for k in chosen]
    if not kinds:
        raise InputError("at least one attention kind is needed")
    users = float(question.concurrency)
    concurrency = (users, CONCURRENCY_SPREAD * users) if concurrency is None else concurrency
    context = float(question.context_tokens)
    read_context = (
        (min(READ_CONTEXT_LOW, context), context) if read_context is None else read_context
    )
    for name, (low, high) in (("concurrency", concurrency), ("read_context", read_context)):
        if not 1.0 <= low <= high < np.inf:
            raise InputError(f"{name} must be a range of at least 1, found {low:g}:{high:g}")
    return _Model(question, prior, formats, kinds, concurrency, read_context, law)


def _profile_law(question: Question) -> SpeculationLaw | None:
    hardware = question.hardware
    defaults = (Question(hardware).speculation, (hardware.accepted_low, hardware.accepted_high))
    return hardware.speculation if question.speculation in defaults else None


def _impossible(question: Question, level: int, draws: Draws[_Kept]) -> str:
    """Why no draw agrees with the evidence of this level; "" where some do."""
    node = question.hardware.node
    if level == 0:
        if draws.ess > 0.0:
            return ""
        known = [
            f"{name} {_spell(getattr(question, name))}"
            for name in ("total", "active", "layers")
            if getattr(question, name) != (0.0, np.inf)
        ]
        return f"no model has {' and '.join(known)}: the prior over architectures excludes it"
    if level == 1:
        if draws.ess > 0.0:
            return ""
        plural = "" if question.nodes[1] == 1 else "s"
        found = (
            f"no model within the known ranges fits on {_spell(question.nodes)} {node}{plural} in "
            f"any of the formats {', '.join(question.weights)}"
        )
        if question.hardware.spatial:
            found += (
                " and fills them: all are too large, too small, or of too few layers, which are "
                "whole"
            )
        return found
    batch = draws.payload.batch
    if draws.ess > 0.0:
        explained = draws.weights[np.abs(batch.deviation) < FAR].sum()
        if explained > EXPLAINED:
            return ""
    alive = np.isfinite(draws.log_weights)
    slow, fast = quantiles(batch.tokens_per_s[alive], _equal(int(alive.sum())), (0.05, 0.95))
    return (
        f"no model that fits answers at {question.tokens_per_s:,.6g} tokens/s: those tried reach "
        f"{slow:,.0f} to {fast:,.0f}, and noise of more than {FAR:g} of its scales would have to "
        "make up the rest"
    )


def _equal(count: int) -> FloatArray:
    return np.full(count, 1.0 / max(count, 1))


def _spell(limits: Range | tuple[int, int]) -> str:
    low, high = (format_quantity(v, "count") for v in limits)
    return low if low == high else f"{low}:{high}"
