"""From points of the unit normal to deployed models, their predicted speed and its likelihood.

`archinfer.inference.infer` says what is assumed; here each assumption is one short method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from archinfer.hardware.profile import Hardware
from archinfer.inference.importance import Index, Space
from archinfer.inference.posterior import Batch
from archinfer.inference.prior import ShapePrior
from archinfer.inference.statistics import DEGREES, log_density, truncated
from archinfer.models.family import FamilyRules, family_shape
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray, ModelShape, Number
from archinfer.physics.decode import (
    decode_time,
    log_sd,
    throughput,
)
from archinfer.physics.mapping import Placement
from archinfer.physics.placement import fewest
from archinfer.physics.speculation import SpeculationLaw, speculative_time
from archinfer.physics.terms import TokenTime, memory_fraction
from archinfer.physics.workload import Memory, Traffic, Workload
from archinfer.solver.question import Question, Range, what_rounds_to
from archinfer.solver.region import LAYERS_MAX, widest_group

SCALE_UNCERTAINTY = 1.2
"""Factor on the variance of the noise for the uncertainty of its own scale: exp(2 s^2) with
s = 0.3, what a fit to some twenty speeds leaves of the scale's logarithm."""

UTILISATION = (0.4, 1.0)
IDLE_LOG_MEAN = 0.1
IDLE_MOST = 4.0
CONCURRENCY_SPREAD = 32.0
READ_CONTEXT_LOW = 1000.0
NO_SPECULATION = 0.5

LAYERS_ASKED_CAP = 4096
"""Most layers considered where they are known; where not, as many as the solver looks at."""
NODES_CAP = 4096
"""Most nodes considered before their number is known."""

_SIZE, _DEPTH, _PER_LAYER, _SPARSITY, _FILL, _ACCEPTED, _READ, _USERS, _DRAFT = range(9)
_SOFTWARE = 9
"""There only where the speed of the software is not known exactly."""
_EXPLORE = (2.0, 1.5, 1.0, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5)


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


def _log_uniform(z: FloatArray, low: Number, high: Number) -> FloatArray:
    """Log-uniform in [low, high] from standard normal z."""
    return np.asarray(low * (np.asarray(high) / low) ** ndtr(z))


class GenerativeModel:
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
        self.weights_only = np.array([weight_format(w).weights_only for w in question.weights])
        self.concurrency = concurrency
        self.read_context = read_context
        self.law = law if question.speculation[1] > 1.0 else None
        self.total = what_rounds_to(question.total)
        self.active = what_rounds_to(question.active)
        groups = self.cells.moe * len(formats) + self.cells.weights
        factors, log_sds = np.array([s[1:] for s in question.softwares]).T
        self.software = factors, log_sds
        drawn = len(factors) > 1 or log_sds[0] > 0.0
        explore = np.array(_EXPLORE[: _SOFTWARE + drawn])
        self.space = Space(len(explore), self.cells.probability, groups.astype(np.intp), explore)

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
            most = min(most, LAYERS_ASKED_CAP) if most < np.inf else LAYERS_MAX
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
        factors, log_sds = self.software
        batch.software_factor[:] = factors[0]
        if self.space.dimensions > _SOFTWARE:
            which, batch.software_factor[:] = drawn_software(factors, log_sds, z[:, _SOFTWARE])
            batch.software[:] = which

    def _rules(self, kind: str, per_layer: FloatArray) -> FamilyRules:
        # An array of rules: the family's formulas broadcast over it.
        return replace(self.question.rules, attention=kind, params_per_layer=cast(float, per_layer))

    def _workload(self, batch: Batch, mine: Index, shape: ModelShape) -> Workload:
        q = self.question
        form = batch.weights[mine].astype(np.intp)
        traffic = Traffic(
            batch.context_tokens[mine],
            batch.concurrency[mine],
            self.bits[form],
            None,
            q.kv_bits,
            weights_only=self.weights_only[form],
            held_context_tokens=q.context_tokens,
        )
        return Workload(shape, traffic)

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
        shape = family_shape(total, active, layers, self._rules(kind, per_layer), dense)
        workload = self._workload(batch, mine, shape)
        if q.hardware.spatial:
            mapping, log_nodes = self._spatial_nodes(workload.memory, layers, z[:, _FILL], limits)
            time = None
            if speed:
                time = decode_time(q.hardware, workload, mapping)
        else:
            mapping, log_nodes, time = self._temporal_nodes(
                workload, layers, z[:, _FILL], limits, speed
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
        mapping: Placement,
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
            shape = family_shape(
                batch.total_params[row],
                batch.active_params[row],
                layers,
                self._rules(kind, per_layer[at][:, None]),
                batch.moe[row] == 0.0,
            )
            workload = self._workload(batch, row, shape)
            count = (len(mine),)
            placed = Placement(
                np.broadcast_to(mapping.layers_per_stage, count)[at][:, None],
                np.broadcast_to(mapping.tensor_parallel, count)[at][:, None],
            )
            each_s = speculative_time(
                q.hardware,
                workload,
                placed,
                acceptance[at][:, None],
                draft_s[at][:, None],
            )
            gain[at] = np.broadcast_to(np.asarray(time.total), count)[at] / each_s
        batch.put(mine, accepted_tokens=gain, speculates=used.astype(float))
        return np.where(used, self.law.spread_log_sd, 0.0)

    def _spatial_nodes(
        self, stored: Memory, layers: FloatArray, z: FloatArray, limits: tuple[int, int]
    ) -> tuple[Placement, FloatArray]:
        low, high = limits
        least = fewest(self.question.hardware, stored)[0]
        fits = np.isfinite(least)
        needed = np.where(fits, least, layers)
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
        return Placement(per_stage), np.where(possible, log_p, -np.inf)

    def _temporal_nodes(
        self,
        workload: Workload,
        layers: FloatArray,
        z: FloatArray,
        limits: tuple[int, int],
        speed: bool,
    ) -> tuple[Placement, FloatArray, TokenTime | None]:
        hardware = self.question.hardware
        low, high = limits
        least = np.maximum(fewest(hardware, workload.memory)[0], low)
        possible = least <= high
        room = np.where(possible, (high + 1.0) / np.minimum(least, high), 2.0)
        there = np.floor(np.minimum(least, high) * room ** (ndtr(z) * (1.0 - 1e-9)))
        best_s = np.full(len(layers), np.inf)
        per_stage = layers.copy()
        group = np.ones(len(layers))
        size = 1.0
        while size <= min(high, widest_group(hardware)):
            stages = np.clip(np.floor(there / size), 1.0, layers)
            mine = Placement(np.ceil(layers / stages), size)
            taken = np.asarray(memory_fraction(hardware, workload.memory, mine))
            fits = (size <= there) & (taken <= 1.0)
            if np.any(fits):
                seconds = decode_time(hardware, workload, mine).total
                better = fits & (np.asarray(seconds) < best_s)
                best_s = np.where(better, seconds, best_s)
                per_stage = np.where(better, mine.layers_per_stage, per_stage)
                group = np.where(better, size, group)
            size *= 2.0
        mapping = Placement(per_stage, group)
        log_p = np.where(possible & np.isfinite(best_s), 0.0, -np.inf)
        time = decode_time(hardware, workload, mapping) if speed else None
        return mapping, log_p, time

    def _speed(self, batch: Batch, mine: Index, time: TokenTime, spread: Number) -> None:
        q = self.question
        hardware = q.hardware
        pass_s = np.asarray(time.total)
        factor = batch.software_factor[mine]
        predicted = factor * batch.accepted_tokens[mine] / pass_s
        scale = noise_scale(hardware, time, spread)
        deviation = np.log(q.tokens_per_s / predicted) / scale
        batch.put(
            mine,
            tokens_per_s=predicted,
            throughput=factor
            * throughput(time, batch.concurrency[mine], batch.accepted_tokens[mine]),
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


def drawn_software(
    factors: FloatArray, log_sds: FloatArray, z: FloatArray
) -> tuple[Index, FloatArray]:
    """Which software runs, each as likely, and its speed as a factor of the usual one's.

    Args:
        factors, log_sds: centre and spread of the logarithm of each, shape (k,). Ascending
            factors make the speed grow with z, which the sampler follows most easily.
        z: standard normal, shape (n,).
    """
    place = ndtr(z) * len(factors)
    which = np.minimum(place.astype(np.intp), len(factors) - 1)
    within = np.clip(place - which, 1e-9, 1.0 - 1e-9)
    return which, factors[which] * np.exp(log_sds[which] * ndtri(within))


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
