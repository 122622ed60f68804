"""From points of the unit normal to deployed models, their predicted speed and its likelihood.

`archinfer.inference.infer` says what is assumed; here each assumption is one short method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from archinfer import special
from archinfer.asking import VOCABULARY_MOST, Range
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.batch import Batch, Cells
from archinfer.inference.evidence import Conditions, Piece
from archinfer.inference.importance import Index, Space
from archinfer.inference.nuisances import (
    NO_SPECULATION,
    NODES_CAP,
    drawn_software,
    drawn_speculation,
    noise_scale,
    spatial_nodes,
    temporal_nodes,
)
from archinfer.inference.observing import held, predict
from archinfer.inference.operations import Operations
from archinfer.inference.prior import TOTAL_SEARCHED, ShapePrior
from archinfer.inference.scene import Drafting, Scene
from archinfer.inference.statistics import log_likelihood, log_uniform, truncated
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray, Number
from archinfer.models.solver_family import family_shape, in_formats
from archinfer.physics.decode import decode_time
from archinfer.physics.mapping import Placement
from archinfer.physics.speculation import best_drafts
from archinfer.physics.speed import software_speed, throughput
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Traffic, Workload
from archinfer.solver.question import Question, what_rounds_to
from archinfer.solver.slices import LAYERS_MAX

LAYERS_ASKED_CAP = 4096
"""Most layers considered where they are known; where not, as many as the solver looks at."""
_SIZE, _DEPTH, _PER_LAYER, _SPARSITY, _FILL, _ACCEPTED, _READ, _HELD, _USERS, _DRAFT, _TEXT = range(
    11
)
_VOCABULARY, _TIED, _SOFTWARE = 11, 12, 13
"""The last one is there only where the speed of the software is not known exactly."""
COORDINATES = _SOFTWARE + 1
DEPLOYED = (_FILL, _ACCEPTED, _READ, _HELD, _USERS, _DRAFT, _TEXT, _SOFTWARE)
"""Those that speak of a deployment and not of the model."""
_EXPLORE = (2.0, 1.5, 1.0, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5)


@dataclass(frozen=True, slots=True)
class _Part:
    """Draws of one kind of attention, arrays of shape (n,) or (n, 1)."""

    batch: Batch
    index: Index
    """Their places in the batch."""
    z: FloatArray
    per_layer: FloatArray
    kind: str

    def rows(self, at: Index) -> _Part:
        """Some of them, each in a row of its own."""
        return replace(self, index=self.index[at][:, None], per_layer=self.per_layer[at][:, None])


class GenerativeModel:
    """The generative model of a question: standard normals and cells -> draws with evidence."""

    def __init__(
        self,
        question: Question,
        prior: ShapePrior,
        formats: Sequence[float],
        kinds: Sequence[tuple[str, float]],
        concurrency: Range | None,
        read_context: Range | None,
        law: SpeculationLaw | None,
        assumed: Operations,
        pieces: tuple[Piece, ...] = (),
    ) -> None:
        self.question = question
        self.pieces = pieces
        """Of evidence; none: the question's speed alone."""
        self.prior = prior
        self.kinds = kinds
        self.cells = Cells.of(prior, formats, kinds)
        self.bits = np.array([weight_format(w).bits for w in question.weights])
        self.weights_only = np.array([weight_format(w).weights_only for w in question.weights])
        self.concurrency = concurrency
        self.read_context = read_context
        self.assumed = assumed
        self.law = law if question.speculation[1] > 1.0 else None
        self.total, self.active = map(what_rounds_to, (question.total, question.active))
        self.sparsity = question.sparsity_asked
        groups = self.cells.moe * len(formats) + self.cells.weights
        factors, log_sds, self.routed_kernels = np.array([s[1:] for s in question.softwares]).T
        self.software = factors, log_sds
        self.draws_software = bool(len(factors) > 1 or log_sds[0] > 0.0)
        explore = np.array(_EXPLORE[: _SOFTWARE + self.draws_software])
        self.space = Space(len(explore), self.cells.probability, groups.astype(np.intp), explore)

    @property
    def speed(self) -> Piece:
        """The question's speed."""
        q = self.question
        return Piece("speed", q.tokens_per_s, stated="at most" if q.ceiling else "measured")

    @property
    def observed(self) -> tuple[Piece, ...]:
        """The pieces of evidence, or the question's speed as one."""
        return self.pieces or ((self.speed,) if self.question.observed else ())

    def evaluate(
        self, level: int, z: FloatArray, cell: Index, speed: bool = False
    ) -> tuple[FloatArray, Batch]:
        """Log evidence and draws; level 0: known ranges, 1: and the nodes, 2: and the speed.

        Below level 2 the speed is predicted only with `speed`. With pieces of evidence each level
        from 2 on adds one.
        """
        batch = Batch.empty(len(z))
        told = [p for p in self.pieces[: max(level - 1, 0)] if not p.deployment]
        for index, scene in self._scenes(batch, z, cell, level, speed or level > 1):
            if told:
                self._hold(batch, index, scene, told)
        if self.pieces and not told:
            batch.log_speed[:] = 0.0
        evidence = batch.log_conditions.copy()
        alive = np.isfinite(evidence)
        if level == 0:
            # Of the nodes nothing is known yet but that the model fits on some.
            alive &= batch.log_nodes > -np.inf
            batch.log_nodes[alive] = 0.0
        evidence[alive] += batch.log_nodes[alive]
        evidence[~alive] = -np.inf
        if level > 1:
            evidence[alive] += batch.log_speed[alive]
        return evidence, batch

    def _hold(self, batch: Batch, index: Index, scene: Scene, told: Sequence[Piece]) -> None:
        """Draws held against pieces of the first deployment."""
        batch.put(index, **held(scene.hardware, told, predict(scene, told)))

    def _scenes(
        self, batch: Batch, z: FloatArray, cell: Index, level: int, speed: bool
    ) -> Iterator[tuple[Index, Scene]]:
        """Fill a batch, and hand out the deployments whose speed is predicted."""
        moe = self.cells.moe[cell]
        batch.moe[:] = moe
        batch.weights[:] = self.cells.weights[cell]
        kind = self.cells.attention[cell]
        batch.attention[:] = kind
        per_layer = np.zeros(len(z))
        for flag in (0, 1):
            index = np.flatnonzero(moe == flag)
            if len(index):
                per_layer[index] = self._shapes(batch, index, z[index], flag)
        self._tables(batch, z)
        self._nuisances(batch, z)
        alive = np.isfinite(batch.log_conditions)
        for k, (name, _) in enumerate(self.kinds):
            index = np.flatnonzero(alive & (kind == k))
            if len(index):
                part = _Part(batch, index, z[index], per_layer[index], name)
                if (scene := self._deploy(part, level, speed)) is not None:
                    yield index, scene

    def scenes(
        self, z: FloatArray, cell: Index, deployment: str = ""
    ) -> Iterator[tuple[Index, Scene]]:
        """Deployments of draws, whatever was observed: places and scene, by kind of attention."""
        yield from self.deployed(Batch.empty(len(z)), z, cell)

    def deployed(self, batch: Batch, z: FloatArray, cell: Index) -> Iterator[tuple[Index, Scene]]:
        """The same, and fill a batch."""
        yield from self._scenes(batch, z, cell, 1, True)

    def _shapes(self, batch: Batch, index: Index, z: FloatArray, flag: int) -> FloatArray:
        """Draw N, A, L and c within what is known; returns c."""
        own = self.prior.classes[flag]
        with np.errstate(divide="ignore"):
            active_low, active_high = np.log(np.asarray(self.active))
            total_low, total_high = np.log(np.asarray(self.total))
            layers_low = np.log(max(np.ceil(self.question.layers[0]), 1.0) - 0.5)
            most = np.floor(self.question.layers[1])
            most = min(most, LAYERS_ASKED_CAP) if most < np.inf else LAYERS_MAX
            layers_high = np.log(most + 0.5)
        total_low = max(total_low, active_low)
        if own.sparsity is None:
            total_high = min(total_high, active_high)
        least, most = np.clip((total_low, total_high), *np.log(TOTAL_SEARCHED))
        size = own.size_mean, own.size_sd
        log_total, log_p = truncated(z[:, _SIZE], *size, least, most, "student")
        log_active = log_total
        ratio_low, ratio_high = np.log(np.asarray(self.sparsity))
        if own.sparsity is None and ratio_low > 0.0:
            log_p = np.full(len(z), -np.inf)
        if own.sparsity is not None:
            mean, sd = own.sparsity.predict(log_total)
            ratio_low = np.maximum(log_total - active_high, ratio_low)
            ratio_high = np.minimum(log_total - active_low, ratio_high)
            log_ratio, mass = truncated(z[:, _SPARSITY], mean, sd, ratio_low, ratio_high)
            # Only what the known sizes take away is evidence; N >= A is part of the prior.
            log_p = log_p + mass - np.log(special.ndtr(mean / sd))
            log_active = log_total - log_ratio
        mean, sd = own.depth.predict(log_active)
        mean += log_active / 3.0
        depth, mass = truncated(z[:, _DEPTH], mean, sd, layers_low, layers_high, "student")
        log_p = log_p + mass
        layers = np.maximum(np.round(np.exp(depth)), 1.0)
        mean, sd = own.per_layer.predict(np.log(layers) - log_active / 3.0)
        per_layer = np.exp(mean + sd * z[:, _PER_LAYER])
        active = np.exp(log_active)
        batch.put(
            index,
            active_params=active,
            layers=layers,
            total_params=np.maximum(np.exp(log_total), active),
            log_conditions=log_p,
        )
        return per_layer

    def _tables(self, batch: Batch, z: FloatArray) -> None:
        """Draw rows of the head, and whether it is the embedding, where nobody said."""
        rules, known = self.question.rules, self.question.tables_known
        batch.vocabulary[:], batch.tied[:] = rules.vocab_size, rules.tied
        log_total = np.log(np.maximum(batch.total_params, 1.0))
        if "vocabulary" not in known:
            mean, sd = self.prior.vocabulary.predict(log_total)
            rows, _ = truncated(
                z[:, _VOCABULARY], mean, sd, 0.0, np.log(VOCABULARY_MOST), "student"
            )
            batch.vocabulary[:] = np.exp(rows)
        if "tied" not in known:
            batch.tied[:] = special.ndtr(z[:, _TIED]) < self.prior.tied.predict(log_total)

    def _nuisances(self, batch: Batch, z: FloatArray) -> None:
        q = self.question
        batch.concurrency[:] = np.round(log_uniform(z[:, _USERS], *self._users(batch.layers)))
        held: Range = (q.context_tokens, q.context_tokens)
        batch.held_context_tokens[:] = log_uniform(
            z[:, _HELD], *(held if q.context_known else self.assumed.held_context)
        )
        least = np.minimum(self.assumed.measured_context_least, batch.held_context_tokens)
        low, high = self.read_context or (least, batch.held_context_tokens)
        batch.context_tokens[:] = log_uniform(z[:, _READ], low, high)
        low, high = q.speculation
        none = NO_SPECULATION if low <= 1.0 < high else 0.0
        u = special.ndtr(z[:, _ACCEPTED])
        used = np.clip((u - none) / (1.0 - none), 0.0, 1.0)
        accepted = low * (high / low) ** used
        if none > 0.0:
            accepted = np.where(u < none, 1.0, np.maximum(accepted, 1.0))
        batch.accepted_tokens[:] = accepted
        batch.speculates[:] = accepted > 1.0
        factors, log_sds = self.software
        batch.software_times[:] = factors[0]
        if self.draws_software:
            which, batch.software_times[:] = drawn_software(factors, log_sds, z[:, _SOFTWARE])
            batch.software[:] = which

    def _users(self, layers: FloatArray) -> tuple[Number, Number]:
        """Fewest and most users at once."""
        if self.concurrency is not None:
            return self.concurrency
        fewest, assumed = float(self.question.concurrency), self.assumed
        if self.question.hardware.spatial:
            return fewest, fewest * np.maximum(assumed.users_per_layer_most * layers, 1.0)
        return fewest, fewest * assumed.users_most

    def _workload(self, part: _Part) -> Workload:
        """Models and their traffic; fields of the shape of the part's."""
        q, batch, index = self.question, part.batch, part.index
        shape = family_shape(
            batch.total_params[index],
            batch.active_params[index],
            batch.layers[index],
            # Arrays of rules: the family's formulas broadcast over them.
            replace(
                q.rules,
                attention=part.kind,
                params_per_layer=cast(float, part.per_layer),
                vocab_size=cast(float, batch.vocabulary[index]),
                tied=cast(bool, batch.tied[index]),
            ),
            batch.moe[index] == 0.0,
        )
        form = batch.weights[index].astype(np.intp)
        traffic = Traffic(
            batch.context_tokens[index],
            batch.concurrency[index],
            self.bits[form],
            None,
            q.kv_bits,
            weights_only=self.weights_only[form],
            held_context_tokens=batch.held_context_tokens[index],
        )
        return Workload(in_formats(shape, q.weights, form), traffic)

    def _deploy(self, part: _Part, level: int, speed: bool) -> Scene | None:
        """Nodes in use, their probability and, where asked, the speed and all that it rests on."""
        q, batch, index, z = self.question, part.batch, part.index, part.z
        limits = q.nodes if level > 0 else (1, NODES_CAP)
        layers = batch.layers[index]
        workload = self._workload(part)
        fill, share = z[:, _FILL], self.assumed.utilisation
        if q.hardware.spatial:
            placed = spatial_nodes(q.hardware, workload.memory, layers, fill, limits, share)
            mapping, log_nodes = placed
            time = decode_time(q.hardware, workload, mapping) if speed else None
        else:
            found = temporal_nodes(q.hardware, workload, layers, fill, limits, speed)
            mapping, log_nodes, time = found
        batch.put(
            index,
            hidden_size=workload.shape.hidden_size,
            nodes=mapping.nodes(layers),
            # A model less than one channel wide is none.
            log_nodes=np.where(workload.shape.hidden_size >= 1.0, log_nodes, -np.inf),
        )
        if time is None:
            return None
        drafting = None
        if self.law is not None:
            drafting = self._speculate(self.law, part, mapping, time)
        self._speed(batch, index, time)
        sizes = batch.total_params[index], batch.active_params[index], batch.nodes[index]
        gain, software = batch.accepted_tokens[index], batch.software_factor[index]
        given = q.hardware, workload, mapping, time
        return Scene(*given, gain, drafting, software, self._base(), *sizes)

    def _base(self) -> Conditions:
        """What is known of the conditions of the predicted speed."""
        context, users = (
            None if ends is None or ends[0] < ends[1] else ends[0]
            for ends in (self.read_context, self.concurrency)
        )
        return Conditions(context=context, concurrency=users)

    def _speculate(
        self, law: SpeculationLaw, part: _Part, mapping: Placement, time: TokenTime
    ) -> Drafting:
        """Tokens gained per pass by the law of speculation, on the text that was measured."""
        q, index, z = self.question, part.index, part.z
        used, acceptance, draft_s = drawn_speculation(
            law, q.speculation, z[:, _ACCEPTED], z[:, _DRAFT]
        )
        gain, drafts = np.ones(len(index)), np.zeros(len(index))
        text = np.exp(law.spread_log_sd * z[:, _TEXT])
        at = np.flatnonzero(used & np.isfinite(np.asarray(time.total)))
        if len(at):
            # Numbers of drafts go along the rows.
            workload, placed = self._workload(part.rows(at)), mapping.take(at[:, None])
            each_s, drafts[at] = best_drafts(
                q.hardware, workload, placed, acceptance[at][:, None], draft_s[at][:, None]
            )
            typical = np.broadcast_to(np.asarray(time.total), len(index))[at] / each_s
            # Where a text makes drafts a loss, a service drafts none.
            gain[at] = np.maximum(typical * text[at], 1.0)
        part.batch.put(index, accepted_tokens=gain, speculates=used.astype(float))
        return Drafting(drafts, acceptance, draft_s, text)

    def _speed(self, batch: Batch, index: Index, time: TokenTime) -> None:
        q = self.question
        pass_s = np.asarray(time.total)
        routed_kernels = self.routed_kernels[batch.software[index].astype(np.intp)]
        factor = software_speed(time, batch.software_times[index], routed_kernels)
        predicted = factor * batch.accepted_tokens[index] / pass_s
        scale = noise_scale(q.hardware, time)
        log_speed, deviation = log_likelihood(
            np.log(q.tokens_per_s / predicted) / scale, scale, q.ceiling
        )
        batch.put(
            index,
            software_factor=np.broadcast_to(factor, pass_s.shape),
            tokens_per_s=predicted,
            throughput=factor
            * throughput(time, batch.concurrency[index], batch.accepted_tokens[index]),
            depth_s=time.reductions + time.fixed,
            bytes_s=time.weights + time.kv + time.compute + time.head,
            links_s=time.links,
            queue_s=time.queue + time.draft,
            log_speed=log_speed,
            log_scale=scale,
            deviation=deviation,
        )
