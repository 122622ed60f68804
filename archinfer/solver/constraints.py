"""The named constraints: each says its slack for a candidate model, and what it is physically.

A slack is a natural logarithm: how far the quantity is from its limit (log 2: by a factor of
two); a candidate is feasible where all slacks are >= 0. The solver knows how each depends on
(total, active) and follows its zero line; nothing is decided anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import OPEN, Range
from archinfer.forward.evaluation import Evaluation
from archinfer.models.shape import FloatArray, ModelShape, Number
from archinfer.models.solver_family import family_shape, in_formats
from archinfer.phrases import CONSTRAINTS
from archinfer.physics.decode import Z90
from archinfer.physics.economy import token_dollars
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import memory_fraction
from archinfer.physics.speed import accepted_needed, software_speed, speed_at, throughput
from archinfer.physics.workload import Traffic, Workload
from archinfer.record import Record
from archinfer.solver.question import Question

HIDDEN_FLOOR = 128.0
"""Narrowest hidden size of the search: the point where a "model" stops being one."""

Kind = Literal["physics", "habit", "request"]


@dataclass(frozen=True, eq=False)
class Candidate(Evaluation):
    """Models on mappings, evaluated for a question."""

    question: Question
    total: Number
    active: Number
    layers: Number

    @classmethod
    def of(
        cls,
        question: Question,
        total: Number,
        active: Number,
        layers: Number,
        mapping: Placement,
        traffic: Traffic,
        shape: ModelShape | None = None,
        dense: bool | NDArray[np.bool_] = False,
        form: NDArray[np.intp] | int = 0,
    ) -> Candidate:
        """Candidates with these totals.

        Args:
            question: hardware and everything asked.
            total, active, layers: parameters and layers; numbers, or arrays that broadcast.
            mapping: which nodes hold which layers.
            traffic: of `Question.traffic`.
            shape: the model; None: the family's member with these totals.
            dense: which are the family's dense members (see `family_shape`).
            form: position of the weight format in the question's list.
        """
        if shape is None:
            member = family_shape(total, active, layers, question.rules, dense)
            shape = in_formats(member, question.weights, form)
        workload = Workload(shape, traffic)
        return cls(question.hardware, workload, mapping, question, total, active, layers)

    @property
    def accepted_needed(self) -> Number:
        """Tokens a pass must gain, at central constants, for the speed asked for."""
        return accepted_needed(self.time, self.question.tokens_per_s)

    @property
    def token_dollars(self) -> Number:
        """Dollars for a million output tokens of all users, at the middle of the accepted tokens,
        as `predict` says it."""
        q = self.question
        middle = np.sqrt(q.speculation[0] * q.speculation[1])
        made = throughput(self.time, q.concurrency, middle) * _software(self, -1)[0]
        return token_dollars(self.dollars_per_hour, made)


@dataclass(frozen=True, slots=True)
class Constraint(Record):
    """One constraint that was applied."""

    KEYS = ("name", "kind", "text")

    name: str
    """short name, as it labels an edge"""
    kind: Kind
    """physics (hardware), habit (what is built) or request (what the user asked)"""
    text: str
    """what physical thing it is"""
    slack: Callable[[Candidate], Number]
    """log-distance to the limit; >= 0 where satisfied"""


def _log_ratio(above: Number, below: Number) -> Number:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.maximum(above, 0.0)) - np.log(below))


def _within(value: Number, low: float, high: float) -> Number:
    return np.minimum(
        _log_ratio(value, low) if low > 0 else np.inf,
        _log_ratio(high, value) if high < np.inf else np.inf,
    )


def _capacity(c: Candidate) -> Number:
    return _log_ratio(1.0, c.memory_fraction)


def _kv_cache(c: Candidate) -> Number:
    return _log_ratio(1.0, memory_fraction(c.hardware, c.memory.without_weights, c.mapping))


def _software(c: Candidate, end: int) -> tuple[Number, Number]:
    """Factor of speed of the slowest (0) or fastest (-1) software, and log-sd of its speed."""
    found: tuple[Number, Number] | None = None
    # Of those that find experts alike, the one with the longest or the shortest fixed times.
    for other in {s.routed_kernels: s for s in c.question.softwares[:: 1 if end else -1]}.values():
        _, factor, own_log_sd, routed = other
        speed, spread = software_speed(c.time, factor, routed), c.log_sd
        if own_log_sd > 0.0:
            # The spread of its fixed times is that of its speed as far as a pass consists of them.
            slower = software_speed(c.time, factor * np.exp(own_log_sd), routed)
            spread = np.hypot(spread, np.log(slower / speed))
        if found is not None:
            first = found[0] > speed if end else found[0] < speed
            speed, spread = np.where(first, found[0], speed), np.where(first, found[1], spread)
        found = speed, spread
    assert found is not None
    return found


def _speed(c: Candidate) -> Number:
    q = c.question
    if q.observed:
        factor, spread = _software(c, -1)
        return _log_ratio(q.speculation[1] * factor, c.accepted_needed) + Z90 * spread
    reached = speed_at(q.hardware, c.time, q.speculation[1], q.confidence_z)
    return _log_ratio(reached, q.tokens_per_s)


def _not_faster(c: Candidate) -> Number:
    q = c.question
    factor, spread = _software(c, 0)
    return _log_ratio(c.accepted_needed, q.speculation[0] * factor) + Z90 * spread


def _throughput(c: Candidate) -> Number:
    q = c.question
    assert q.throughput_tokens_per_s is not None
    reached = throughput(c.time, q.concurrency, q.speculation[1])
    return _log_ratio(reached * _software(c, -1)[0], q.throughput_tokens_per_s)


def _cost(c: Candidate) -> Number:
    assert c.question.max_token_dollars is not None
    return _log_ratio(c.question.max_token_dollars, c.token_dollars)


def _power(c: Candidate) -> Number:
    assert c.question.power_w is not None
    return _log_ratio(c.question.power_w, c.power_w)


def _price(c: Candidate) -> Number:
    assert c.question.price_per_hour is not None
    return _log_ratio(c.question.price_per_hour, c.dollars_per_hour)


def _shape(c: Candidate) -> Number:
    habits = c.question.habits
    assert habits is not None
    low, high = habits.active_params(c.layers, c.question.rules)
    return np.minimum(_log_ratio(c.active, low), _log_ratio(high, c.active))


def _sparsity(c: Candidate) -> Number:
    habits = c.question.habits
    assert habits is not None
    return _within(c.total / c.active, *habits.sparsity)


def _floor(c: Candidate) -> Number:
    return _log_ratio(c.active, c.question.rules.active_params(HIDDEN_FLOOR, c.layers))


Slack: TypeAlias = Callable[[Candidate], Number]


def constraints(question: Question) -> tuple[Constraint, ...]:
    """The constraints that apply to `question`, physics first."""
    words = {"node": question.hardware.node, "floor": f"{HIDDEN_FLOOR:.0f}"}
    if (habits := question.habits) is not None:
        words |= {"sparsity": _between(*habits.sparsity), "layers": _between(*habits.layers)}
    kinds: dict[Kind, Iterator[tuple[str, Slack]]] = {
        "physics": _physics(question), "habit": _habits(question), "request": _requests(question)
    }  # fmt: skip
    return tuple(
        Constraint(name, kind, CONSTRAINTS[name].format_map(words), slack)
        for kind, found in kinds.items()
        for name, slack in found
        if name not in question.disabled
    )


def _physics(q: Question) -> Iterator[tuple[str, Slack]]:
    yield "definition", lambda c: _log_ratio(c.total, c.active)
    yield "search floor", _floor
    yield "capacity", _capacity
    yield "kv cache", _kv_cache
    if not q.ceiling:
        yield "speed", _speed
    if q.observed:
        yield "speed (not faster)", _not_faster
    if q.throughput_tokens_per_s is not None:
        yield "throughput", _throughput
    if q.max_token_dollars is not None:
        yield "cost", _cost


def _habits(q: Question) -> Iterator[tuple[str, Slack]]:
    if (habits := q.habits) is not None:
        yield "sparsity", _sparsity
        yield "shape", _shape
        yield "depth", lambda c: _within(c.layers, *habits.layers)


def _requests(q: Question) -> Iterator[tuple[str, Slack]]:
    if q.power_w is not None:
        yield "power", _power
    if q.price_per_hour is not None:
        yield "price", _price
    for name in ("total", "active", "layers"):
        limits: Range = getattr(q, name)
        if limits != OPEN:
            yield f"{name} asked", partial(_asked, name=name, limits=limits)


def _asked(c: Candidate, name: str, limits: Range) -> Number:
    return _within(getattr(c, name), *limits)


def slacks(candidate: Candidate) -> dict[str, FloatArray]:
    """Slack of every constraint that applies, by name; feasible where all are >= 0."""
    return {
        c.name: np.asarray(c.slack(candidate), dtype=float) for c in constraints(candidate.question)
    }


def _between(low: float, high: float) -> str:
    return f"at least {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
