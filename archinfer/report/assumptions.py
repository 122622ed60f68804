"""The question that the solver answers, and what was assumed, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator

from archinfer.models.family import Habits
from archinfer.report.posterior import speculation_text
from archinfer.solver.answer import Answer
from archinfer.solver.question import Question
from archinfer.units import format_quantity, plain_number
from archinfer.words import compact, counted, gain, load

OPEN = (0.0, math.inf)


def headline(question: Question) -> str:
    """The question in one sentence."""
    low, high = question.nodes
    node = f"{question.hardware.name} {question.hardware.node}"
    where = counted(high, node) if low == high else f"{low:,} to {counted(high, node)}"
    if not question.nodes_known:
        where = f"an unknown number of {node}s"
    speed = f"{plain_number(question.tokens_per_s, 6)} tokens/s"
    asked = f"{speed} observed" if question.observed else f"at least {speed} for one user"
    if question.ceiling:
        asked = f"at most {speed}, as announced,"
    return f"Which models fit {asked} on {where}?"


def assumptions(answer: Answer) -> str:
    """What was assumed, in one paragraph."""
    q = answer.question
    gained = gain(*q.speculation)
    if answer.posterior is not None:
        gained = f"{gained} {speculation_text(answer.posterior)}".rstrip()
    drawn = " in the region, unknown in the probabilities" if answer.posterior is not None else ""
    parts = [
        f"{load(q.context_tokens, q.concurrency)}, {q.rules.text}{drawn}",
        f"weights {', '.join(q.weights)}",
        f"{q.kv} KV cache",
        gained,
        *_software(q),
        "physics only, since no model within habits of design has this speed (habits are those of "
        "models from 1B parameters on)"
        if answer.beyond_habits
        else "physics only"
        if q.habits is None
        else "within habits of design (--physics-only leaves them out)",
        *(
            f"{name} {_limits(*getattr(q, name))}"
            for name in ("total", "active", "layers")
            if getattr(q, name) != OPEN
        ),
        *_asked(q),
        *(f"{change} (set by hand)" for change in q.overrides),
    ]
    return "; ".join(parts) + "."


def _software(q: Question) -> Iterator[str]:
    """Which software may have made an observed speed, where the profile knows several."""
    if not q.observed or not q.hardware.software:
        return
    slow, fast = (q.softwares[end][1] for end in (0, -1))
    if q.software is not None:
        times = f" (fixed times {slow:.2g} of the usual)" if slow != 1.0 else ""
        yield f"software: {q.software}{times}"
    else:
        yield f"software: fixed times {fast:.2g} to {slow:.2g} of the usual (--software fixes it)"


def _asked(q: Question) -> Iterator[str]:
    """What was asked beyond the defaults, in words."""
    if q.habits is not None and q.habits.sparsity != Habits().sparsity:
        yield f"total / active {_limits(*q.habits.sparsity)}"
    if q.layout is not None:
        yield f"mapping {q.layout.text}"
    if q.confidence_z != 0.0 and not q.observed:
        yield f"the speed held with a probability of {100.0 * q.confidence:.3g} %"
    if q.throughput_tokens_per_s is not None:
        yield f"at least {plain_number(q.throughput_tokens_per_s, 6)} tokens/s over all users"
    if q.max_token_dollars is not None:
        yield f"at most {q.max_token_dollars:g} USD for a million output tokens"
    if q.power_w is not None:
        yield f"at most {format_quantity(q.power_w, 'watts')}"
    if q.price_per_hour is not None:
        yield f"at most {format_quantity(q.price_per_hour, 'dollars_per_hour')}"
    if q.calibration is not None:
        yield f"measured figures of {q.calibration}"


def _limits(low: float, high: float) -> str:
    """A range in words."""
    if low == high:
        return compact(low)
    if math.isinf(high):
        return f"at least {compact(low)}"
    return f"{compact(low)} to {compact(high)}" if low > 0 else f"at most {compact(high)}"
