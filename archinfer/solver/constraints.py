"""The named constraints: each says its slack for a candidate model, and what it is physically.

A slack is a natural logarithm: how far the quantity is from its limit (log 2: by a factor of
two); a candidate is feasible where all slacks are >= 0. The solver knows how each depends on
(total, active) and follows its zero line; nothing is decided anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import OPEN, Range
from archinfer.forward.evaluation import Evaluation
from archinfer.models.shape import FloatArray, ModelShape, Number
from archinfer.models.solver_family import family_shape, in_formats
from archinfer.physics.decode import Z90, software_speed, speed_at, throughput
from archinfer.physics.economy import node_dollars_per_hour
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import memory_fraction
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
        return self.question.tokens_per_s * self.time.total


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
    _, factor, own_log_sd = c.question.softwares[end]
    if own_log_sd == 0.0:
        return software_speed(c.time, factor), c.log_sd
    # The spread of its fixed times is that of its speed as far as a pass consists of them.
    speed = software_speed(c.time, factor)
    share = np.log(software_speed(c.time, factor * np.exp(own_log_sd)) / speed)
    return speed, np.hypot(c.log_sd, share)


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
    """Against the tokens/s over all users at which the nodes in use are paid."""
    q = c.question
    assert q.max_token_dollars is not None
    each = node_dollars_per_hour(q.hardware, q.hardware.power_w)
    needed = c.nodes * each * 1e6 / (3600.0 * q.max_token_dollars)
    made = throughput(c.time, q.concurrency, q.speculation[1]) * _software(c, -1)[0]
    return _log_ratio(made, needed)


def _power(c: Candidate) -> Number:
    assert c.question.power_w is not None
    return _log_ratio(c.question.power_w, c.nodes * c.question.hardware.power_w)


def _price(c: Candidate) -> Number:
    assert c.question.price_per_hour is not None
    hardware = c.question.hardware
    each = node_dollars_per_hour(hardware, hardware.power_w)
    return _log_ratio(c.question.price_per_hour, c.nodes * each)


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


def constraints(question: Question) -> tuple[Constraint, ...]:
    """The constraints that apply to `question`, physics first."""
    every = (*_physics(question), *_habits(question), *_requests(question))
    return tuple(c for c in every if c.name not in question.disabled)


def _physics(q: Question) -> Iterator[Constraint]:
    def physics(name: str, text: str, slack: Callable[[Candidate], Number]) -> Constraint:
        return Constraint(name, "physics", text, slack)

    yield physics(
        "definition",
        "active parameters cannot exceed the total",
        lambda c: _log_ratio(c.total, c.active),
    )
    yield physics("search floor", f"hidden_size of at least {HIDDEN_FLOOR:.0f}", _floor)
    room = "weights, KV cache and activations fit in the usable memory of each"
    yield physics("capacity", f"{room} {q.hardware.node}; layers are whole", _capacity)
    yield physics("kv cache", "the KV cache of all users leaves room for weights", _kv_cache)
    if not q.ceiling:
        text = "a pass through all layers is fast enough for the tokens it may gain"
        yield physics("speed", text, _speed)
    if q.observed:
        text = (
            "a pass takes long enough that the model would not have answered faster than observed"
        )
        yield physics("speed (not faster)", text, _not_faster)
    if q.throughput_tokens_per_s is not None:
        yield physics("throughput", "tokens/s over all users", _throughput)
    if q.max_token_dollars is not None:
        yield physics("cost", "the nodes in use are paid by their tokens", _cost)
    if q.power_w is not None:
        yield Constraint("power", "request", "power of the nodes in use", _power)
    if q.price_per_hour is not None:
        yield Constraint("price", "request", "cost per hour of the nodes in use", _price)


def _habits(q: Question) -> Iterator[Constraint]:
    habits = q.habits
    if habits is None:
        return
    text = f"total over active parameters {_between(*habits.sparsity)}, as built today"
    yield Constraint("sparsity", "habit", text, _sparsity)
    text = "hidden_size / layers and active / (layers hidden_size^2) as built today"
    yield Constraint("shape", "habit", text, _shape)
    text = f"{_between(*habits.layers)} layers, as built today"
    yield Constraint("depth", "habit", text, lambda c: _within(c.layers, *habits.layers))


def _requests(q: Question) -> Iterator[Constraint]:
    for name in ("total", "active", "layers"):
        limits: Range = getattr(q, name)
        if limits != OPEN:

            def slack(c: Candidate, name: str = name, limits: Range = limits) -> Number:
                return _within(getattr(c, name), *limits)

            yield Constraint(f"{name} asked", "request", f"--{name}", slack)


def slacks(candidate: Candidate) -> dict[str, FloatArray]:
    """Slack of every constraint that applies, by name; feasible where all are >= 0."""
    return {
        c.name: np.asarray(c.slack(candidate), dtype=float) for c in constraints(candidate.question)
    }


def _between(low: float, high: float) -> str:
    return f"at least {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
