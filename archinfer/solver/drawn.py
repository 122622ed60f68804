"""What draws the ends of an answer's ranges, and how much a speed can tell."""

from __future__ import annotations

import math

import numpy as np

from archinfer.solver.answer import Answer
from archinfer.solver.constraints import constraints
from archinfer.solver.question import Question
from archinfer.solver.region import Bound
from archinfer.solver.variants import Sensitivity

READS = 0.15
"""Relative change of the speed, when a quantity doubles or halves, from which the speed says
something about it: the model's own error on a speed is about as large."""

ALIKE = 0.02
"""Relative difference up to which physics alone is taken to draw the same end."""


def kinds(question: Question) -> dict[str, str]:
    """Kind of everything that may draw an end: physics, habit, request or search."""
    found: dict[str, str] = {c.name: c.kind for c in constraints(question)}
    # The floor says where the solver stops looking; no law of nature forbids smaller models.
    return found | {"nodes asked": "request", "search floor": "search"}


def kinds_of(by: str, kinds: dict[str, str]) -> list[str]:
    """Kinds of the constraints that draw an end together, each once."""
    names = (
        name
        for part in by.split(", or ")
        for half in part.split(" with ")
        for name in half.split(" and ")
    )
    return list(dict.fromkeys(kinds[name] for name in names if name in kinds))


def drawn(answer: Answer, name: str, side: str, kinds: dict[str, str]) -> str:
    """What draws an end of a range.

    The constraint that acts at an end does not say it all: habits may place the corner where it
    acts. So an end is that of physics only where it stays without the habits.

    Args:
        answer: a feasible one.
        name: quantity.
        side: "low" or "high".
        kinds: of `kinds`.

    Returns:
        "physics", "within habits" (physics, where habits let it act), "habit", or "" for what was
        asked or where the search ends.
    """
    end: Bound = getattr(answer.ranges[name], side)
    found = kinds_of(end.by, kinds)
    if not found or "request" in found or "search" in found:
        return ""
    if found == ["habit"]:
        return "habit"
    moved = free_end(answer, name, side) / end.value
    return "physics" if abs(moved - 1.0) <= ALIKE else "within habits"


def free_end(answer: Answer, name: str, side: str) -> float:
    """The same end where habits are left out."""
    return answer.without_habits[name][("low", "high").index(side)]


def largest_change(row: Sensitivity) -> float:
    """Largest relative change of the speed when the quantity is halved or doubled."""
    halved, same, doubled = row.tokens_per_s
    return max(abs(v / same - 1.0) for v in (halved, doubled, same) if math.isfinite(v))


def reads(row: Sensitivity) -> bool:
    """Whether a speed says something about the quantity, all else being known."""
    return largest_change(row) >= READS


def given(row: Sensitivity, answer: Answer) -> bool:
    """Whether the quantity was stated with the question."""
    low, high = getattr(answer.question, row.quantity.removesuffix("_params"))
    return bool(low == high)


def speed_spread(answer: Answer) -> float:
    """Factor within which a predicted speed is right either way (90 %), speculation aside.

    Of the answer's example; where there is none, of the largest model.
    """
    low, high = answer.question.speculation
    return math.sqrt(_speed_ratio(answer) * low / high)


def _speed_ratio(answer: Answer) -> float:
    """p95 / p05 of the predicted speed."""
    if answer.example is not None:
        p05, _, p95 = answer.example.speed
        return float(p95 / p05)
    region, question = answer.region, answer.question
    at = np.array([int(np.argmax(region.total_high))])
    part = region.slices.take(at)
    largest = part.candidate(question, region.total_high[at], region.total_high_at[at])
    slow, _, fast = largest.speed(question.speculation)
    return float(np.ravel(fast)[0] / np.ravel(slow)[0])
