"""Every deployment of a model on a machine: what a user gets, what a node makes, what it costs.

All mappings and batches are evaluated in one pass. Of them the front is kept: those that no other
beats both in tokens/s of one user and in tokens/s of one node. Of users asked for as many as fit a
copy share it, and copies are added until all are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import WHOLE_MOST
from archinfer.forward.deployments import Choice, Found, Pareto, Plan, Stages
from archinfer.forward.evaluation import Evaluation, every_mapping
from archinfer.forward.predict import predict, workload_of
from archinfer.forward.prediction import Change
from archinfer.forward.room import most, users_held
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.shape import FloatArray, ModelShape
from archinfer.physics.decode import Z90
from archinfer.physics.deployment import Deployment
from archinfer.physics.economy import knows_activity, token_dollars
from archinfer.physics.firsttoken import first_token_spread
from archinfer.physics.mapping import Placement
from archinfer.physics.prefill import time_to_first_token
from archinfer.physics.speed import served_speed
from archinfer.physics.terms import TERMS
from archinfer.record import Quantiles

Flags = NDArray[np.bool_]


def non_dominated(x: FloatArray, y: FloatArray) -> NDArray[np.intp]:
    """Indices of the points that no other beats in both, the largest x first; equal ones once."""
    order = np.lexsort((-y, -x))
    best = np.maximum.accumulate(np.concatenate(([-np.inf], y[order][:-1])))
    return np.asarray(order[y[order] > best])


@dataclass(frozen=True, eq=False)
class Evaluated(Evaluation):
    """Every deployment of a model on one machine; arrays of shape (k,)."""

    plan: Plan
    weights: str
    batch: FloatArray
    """users of one copy"""
    copies: FloatArray
    deployment: Deployment
    """accepted tokens a pass, or law of speculation, and software"""

    @classmethod
    def of(
        cls,
        model: Architecture | ModelShape,
        hardware: Hardware,
        deployment: Deployment,
        plan: Plan,
    ) -> Evaluated:
        """All mappings on at most the nodes of `plan`, at every batch that comes into question."""
        workload, weights = workload_of(model, deployment)
        held_tokens = plan.prompt_tokens + plan.output_tokens
        traffic = replace(workload.traffic, held_context_tokens=held_tokens)
        workload = replace(workload, traffic=traffic)
        layers = float(workload.shape.layers)
        mapping = deployment.forced(layers)
        if mapping is None:
            several = replace(traffic, concurrency=2)
            mapping = every_mapping(hardware, replace(workload, traffic=several), plan.nodes[1])
        mapping = mapping.take(slice(None))
        none = np.zeros_like(mapping.tensor_parallel)
        one = cls(hardware, workload, mapping, plan, weights, none, none, deployment)
        return one._batches()

    def _batches(self) -> Evaluated:
        """Every mapping at powers of two, at the most users it holds, at the most that meet it."""
        held = users_held(self.hardware, self.workload, self.mapping)
        plan, most_held = self.plan, float(np.max(held, initial=0.0))
        if plan.users is not None:
            held = np.minimum(held, float(plan.users))
        kept = most(
            lambda n: (n <= held) & self.at(self.mapping, n, np.ones_like(n)).quick, held.shape
        )
        powers = 2.0 ** np.arange(np.floor(np.log2(max(min(most_held, WHOLE_MOST), 1.0))) + 1.0)
        batch = np.concatenate(
            [np.broadcast_to(powers, (len(held), len(powers))), held[:, None], kept[:, None]],
            axis=1,
        )
        copies = np.ones_like(batch)
        if plan.users is not None:
            copies = np.ceil(plan.users / np.maximum(batch, 1.0))
            batch = np.ceil(plan.users / copies)
        taken = copies * np.asarray(self.nodes)[:, None]
        low, high = plan.nodes
        rows, columns = np.nonzero(
            (batch >= 1.0) & (batch <= held[:, None]) & (taken >= low) & (taken <= high)
        )
        mapping = self.mapping.take(rows)
        return self.at(mapping, batch[rows, columns], copies[rows, columns])

    def at(self, mapping: Placement, batch: FloatArray, copies: FloatArray) -> Evaluated:
        """The same with other mappings, users and copies."""
        traffic = replace(self.workload.traffic, concurrency=batch)
        workload = replace(self.workload, traffic=traffic)
        return replace(self, mapping=mapping, batch=batch, copies=copies, workload=workload)

    @cached_property
    def user_speed(self) -> Quantiles:
        """Tokens/s of one user."""
        asked = (self.hardware, self.workload, self.mapping, self.time, self.deployment)
        return self._spread(served_speed(*asked))

    @cached_property
    def first_token_s(self) -> Quantiles:
        """Time to the first token; nan where the profile does not say how fast prompts are read."""
        found = time_to_first_token(self.hardware, self.workload, self.mapping, self.time)
        if found is None:
            return self._spread((np.nan, np.nan, np.nan))
        factor = first_token_spread(self.hardware, found)
        return self._spread((found.total / factor, found.total, found.total * factor))

    def _spread(self, values: Sequence[Any]) -> Quantiles:
        shape = self.batch.shape
        return Quantiles(*(np.broadcast_to(np.asarray(v, dtype=float), shape) for v in values))

    @cached_property
    def quick(self) -> Flags:
        """Whether speed and time to the first token are met with the confidence asked for."""
        plan, met = self.plan, np.ones(self.batch.shape, dtype=bool)
        if plan.target_tokens_per_s is not None:
            met &= self.miss(self._sure(self.user_speed, -1.0), plan.target_tokens_per_s) <= 0.0
        if plan.time_to_first_token_s is not None:
            limit = plan.time_to_first_token_s
            met &= self.miss(self._sure(self.first_token_s, 1.0), limit, -1.0) <= 0.0
        return met

    def _sure(self, found: Quantiles, sign: float) -> FloatArray:
        """The value that holds with the confidence asked for; `sign` of its unlucky side."""
        sd = np.log(found.p95 / found.p05) / (2.0 * Z90)
        return np.asarray(found.p50 * np.exp(sign * self.plan.z * sd))

    @staticmethod
    def miss(value: FloatArray, limit: float | None, sign: float = 1.0) -> FloatArray:
        """Natural logarithm of the factor by which a value is too low (sign 1) or too high (-1)."""
        if limit is None:
            return np.zeros_like(value)
        missed = np.maximum(sign * np.log(limit / value), 0.0)
        return np.asarray(np.where(np.isnan(missed), np.inf, missed))

    @cached_property
    def misses(self) -> FloatArray:
        """Sum of the logarithms of the factors by which it misses what was asked; 0: meets it."""
        plan = self.plan
        return (
            self.miss(self._sure(self.user_speed, -1.0), plan.target_tokens_per_s)
            + self.miss(self._sure(self.first_token_s, 1.0), plan.time_to_first_token_s, -1.0)
            + self.miss(self.dollars, plan.max_dollars_per_million_output_tokens, -1.0)
        )

    @cached_property
    def users(self) -> FloatArray:
        """Served by all copies."""
        asked = self.plan.users
        return self.batch if asked is None else np.full_like(self.batch, float(asked))

    @cached_property
    def all_nodes(self) -> FloatArray:
        """Of all copies."""
        return np.asarray(self.copies * self.nodes)

    @cached_property
    def dollars(self) -> FloatArray:
        """For a million output tokens."""
        made = self.users * self.user_speed.p50 * self.plan.utilisation
        return np.asarray(token_dollars(self.copies * self.dollars_per_hour, made))

    def choice(self, i: int) -> Choice:
        """One of the deployments."""

        def one(value: Any) -> float:
            return float(np.broadcast_to(value, self.batch.shape)[i])

        def three(values: Quantiles, factor: float = 1.0) -> Quantiles:
            return Quantiles(*(factor * float(v[i]) for v in values))

        plan, per_node = self.plan, float(self.users[i] / self.all_nodes[i])
        speed = three(self.user_speed)
        sd = np.log(speed.p95 / speed.p05) / (2.0 * Z90)
        target = plan.target_tokens_per_s
        whole = plan.prompt_tokens + plan.output_tokens
        return Choice(
            hardware=self.hardware,
            weights=self.weights,
            nodes=int(self.all_nodes[i]),
            copies=int(self.copies[i]),
            mapping=Stages.of(self.mapping.one(i), self.workload.shape.layers),
            users=int(self.users[i]),
            tokens_per_s_per_user=speed,
            tokens_per_s_per_node=three(self.user_speed, per_node),
            time_to_first_token_s=three(self.first_token_s),
            dollars_per_hour=one(self.copies * self.dollars_per_hour),
            dollars_per_million_output_tokens=float(self.dollars[i]),
            dollars_per_million_tokens=float(self.dollars[i]) * plan.output_tokens / whole,
            joules_per_token=one(self.node_power_w) / (per_node * speed.p50),
            power_w=one(self.copies * self.power_w),
            power_basis="activity" if knows_activity(self.hardware) else "nameplate",
            memory_fraction=one(self.memory_fraction),
            limit=max(TERMS, key=lambda term: one(getattr(self.time, term))),
            misses_by=float(np.exp(self.misses[i])),
            chance=np.nan
            if target is None
            else NormalDist(0.0, max(sd, 1e-9)).cdf(float(np.log(speed.p50 / target))),
        )

    @cached_property
    def price(self) -> FloatArray:
        """What the cheapest has least of: dollars a token; nodes a token without a price."""
        made = self.users * self.user_speed.p50
        return np.where(np.isnan(self.dollars), self.all_nodes / made, self.dollars)


def found_of(evaluated: list[Evaluated]) -> Found:
    """The front of one machine over weight formats, and what meets the plan.

    Args:
        evaluated: of each weight format, on the same machine.
    """
    places = [(e, i) for e in evaluated for i in range(len(e.batch))]

    def joined(name: str) -> FloatArray:
        return np.concatenate([getattr(e, name) for e in evaluated])

    speed = np.concatenate([e.user_speed.p50 for e in evaluated])
    nodes, price, misses = joined("all_nodes"), joined("price"), joined("misses")
    # Rounding alone makes nobody faster.
    front = non_dominated(np.round(np.log(speed), 9), joined("users") * speed / nodes)

    def first(*keys: FloatArray) -> Choice:
        """The one with the least of the first key, of these the least of the next."""
        e, i = places[int(np.lexsort(keys[::-1])[0])]
        return e.choice(i)

    aims, meets = evaluated[0].plan.aims, bool(np.any(misses <= 0.0))
    missed = np.where(misses <= 0.0, 0.0, np.inf)
    return Found(
        evaluated[0].hardware,
        evaluated[0].deployment,
        tuple(places[int(k)][0].choice(places[int(k)][1]) for k in front),
        first(missed, price, nodes) if meets else None,
        first(missed, nodes, price) if meets else None,
        first(misses, price, nodes) if aims and not meets and len(places) else None,
    )


def pareto(
    model: Architecture | ModelShape,
    name: str,
    machines: list[tuple[Hardware, list[Deployment]]],
    plan: Plan,
) -> Pareto:
    """Deployments of a model on several machines; see the module.

    Args:
        model: an architecture or a shape.
        name: what it is called.
        machines: profiles, and how the model is served on each: one deployment a weight format.
        plan: what is asked.
    """
    found = tuple(
        found_of([Evaluated.of(model, hardware, one, plan) for one in deployments])
        for hardware, deployments in machines
    )
    met = [f.cheapest for f in found if f.cheapest is not None]
    missing = [f.nearest for f in found if f.nearest is not None and not met]
    nearest = min(missing, key=lambda c: c.misses_by, default=None)
    helping: tuple[Change, ...] = ()
    if nearest is not None:
        served = next(d[0] for hardware, d in machines if hardware is nearest.hardware)
        helping = _help(model, nearest, served)
    return Pareto(
        name, plan, tuple(c for f in found for c in f.front), found,
        min(met, key=_by_price, default=None), nearest, helping,
    )  # fmt: skip


def _by_price(choice: Choice) -> tuple[bool, float, int]:
    """Order by dollars a token; after them those without a price."""
    dollars = choice.dollars_per_million_output_tokens
    return bool(np.isnan(dollars)), 0.0 if np.isnan(dollars) else dollars, choice.nodes


def _help(
    model: Architecture | ModelShape, choice: Choice, served: Deployment
) -> tuple[Change, ...]:
    """What would help a deployment that misses what was asked."""
    placed = choice.mapping
    deployment = served.with_(
        nodes=choice.nodes // choice.copies,
        concurrency=-(-choice.users // choice.copies),
        weights=choice.weights,
        mapping=placed.placement,
        layout=None,
    )
    return predict(model, choice.hardware, deployment).useful_changes
