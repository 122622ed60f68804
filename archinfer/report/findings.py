"""What a reader should take away from an answer: a few labelled sentences, the same every time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from archinfer.words import compact

if TYPE_CHECKING:
    from archinfer.inference.posterior import Marginal
    from archinfer.solver.answer import Answer, Sensitivity
    from archinfer.solver.question import Question
    from archinfer.solver.region import Bound

__all__ = [
    "NAMES",
    "READS",
    "accuracy",
    "change",
    "drawn",
    "ends_by_kind",
    "findings",
    "free_end",
    "given_words",
    "kinds",
    "kinds_of",
    "most_change",
    "plain_name",
]

NEARLY = 0.8
"""Share of the nodes asked for from which those in use are nearly all of them."""

READS = 0.15
"""Relative change of the speed, when a quantity doubles or halves, from which the speed says
something about it: the model's own error on a speed is about as large."""

NAMES = {
    "total_params": "total parameters",
    "active_params": "active parameters",
    "layers": "layers",
    "nodes": "nodes",
}

_PLAIN = {"speed (not faster)": "not faster than observed"}


def plain_name(by: str) -> str:
    """What draws an end, as a reader may take it."""
    for name, words in _PLAIN.items():
        by = by.replace(name, words)
    return by


ALIKE = 0.02
"""Relative difference up to which physics alone is taken to draw the same end."""


def kinds(question: Question) -> dict[str, str]:
    """Kind of everything that may draw an end: physics, habit, request or search."""
    from archinfer.solver.constraints import constraints

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


def ends_by_kind(answer: Answer, kinds: dict[str, str]) -> dict[str, list[str]]:
    """The ends of the ranges in words, by what `drawn` says of them."""
    told: dict[str, list[str]] = {"physics": [], "within habits": [], "habit": []}
    for name, interval in answer.ranges.items():
        for side, words, end in (
            ("high", "at most", interval.high),
            ("low", "at least", interval.low),
        ):
            by = drawn(answer, name, side, kinds)
            if not by:
                continue
            why = plain_name(end.by)
            if by == "within habits":
                why += f"; without habits {compact(free_end(answer, name, side))}"
            told[by].append(f"{words} {compact(end.value)} {NAMES[name]} ({why})")
    return told


def given_words(question: Question, name: str, marginal: Marginal) -> str:
    """Verdict on a quantity that the question states."""
    if name != "nodes":
        return "given by you"
    asked = question.nodes[1]
    if marginal.p05 >= asked:
        return "as asked"
    return "nearly as asked" if marginal.p50 >= NEARLY * asked else "fewer than asked"


def most_change(row: Sensitivity) -> float:
    """Largest relative change of the speed when the quantity is halved or doubled."""
    halved, same, doubled = row.tokens_per_s
    return max(abs(v / same - 1.0) for v in (halved, doubled, same) if math.isfinite(v))


def _speed_ratio(answer: Answer) -> float:
    """p95 / p05 of the predicted speed of the first architecture, or of the largest model."""
    if answer.architectures:
        p05, _, p95 = answer.architectures[0].speed
        return p95 / p05
    import numpy as np

    from archinfer.physics.decode import speed_range

    region, question = answer.region, answer.question
    at = np.array([int(np.argmax(region.total_high))])
    part = region.slices.take(at)
    largest = part.candidate(question, region.total_high[at], region.total_high_at[at])
    slow, _, fast = speed_range(question.hardware, largest.time, *question.speculation)
    return float(np.ravel(fast)[0] / np.ravel(slow)[0])


def accuracy(answer: Answer) -> str:
    """How uncertain a predicted speed is, and why."""
    low, high = answer.question.speculation
    spread = math.sqrt(_speed_ratio(answer) * low / high)
    text = f"a predicted speed is right within a factor of {spread:.2g} either way (90 %)"
    if high > low:
        text += (
            f"; how many tokens a pass speculative decoding gains is not known ({low:g} to "
            f"{high:g}), which adds a factor of {high / low:.2g}"
        )
    return f"{text}."


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def findings(answer: Answer, kinds: dict[str, str]) -> list[tuple[str, str]]:
    """Label and sentence each: what is likely, what is pinned by what, what is not, how surely.

    Args:
        answer: a feasible one.
        kinds: kind of each constraint by name.
    """
    posterior = answer.posterior
    marginals = posterior.marginals if posterior is not None and posterior.possible else {}
    ends = ends_by_kind(answer, kinds)
    found = []
    if marginals:
        found.append(("Most likely", _likely(answer, marginals)))
    found.append(
        (
            "Pinned by physics",
            f"{_capital(_listed(ends['physics']))}." if ends["physics"] else _nothing(ends),
        )
    )
    for label, by in (
        ("Drawn by physics within habits of design", "within habits"),
        ("Drawn by habits of design only", "habit"),
    ):
        if ends[by]:
            found.append((label, f"{_capital(_listed(ends[by]))}."))
    unsaid = _not_told(answer, marginals)
    if unsaid:
        found.append(("Not told by the speed", unsaid))
    found.append(("How sure", f"{_sizes_sure(marginals)}{_capital(accuracy(answer))}"))
    return found


def _nothing(ends: dict[str, list[str]]) -> str:
    if ends["within habits"] or ends["habit"]:
        return "Nothing: habits of design take part in every end that you did not ask for."
    return "Nothing: every end is one that you asked for or where the search ends."


def _sizes_sure(marginals: dict[str, Marginal]) -> str:
    """How surely the sizes are known, as a sentence with a space behind; "" where all are given."""
    told = [
        f"{math.sqrt(m.p95 / m.p05):.2g} ({NAMES[name]})"
        for name, m in marginals.items()
        if name in ("total_params", "active_params") and not m.given
    ]
    if not told:
        return ""
    return f"Of its median a size lies within a factor of {_listed(told)} with 90 %. "


def _likely(answer: Answer, marginals: dict[str, Marginal]) -> str:
    node = answer.question.hardware.node
    told = []
    beyond = []
    for name, m in marginals.items():
        what = f"{node}s in use" if name == "nodes" else NAMES[name]
        known = m.p05 == m.p95 if name == "nodes" else m.given
        interval = "" if known else f" ({compact(m.p05)} to {compact(m.p95)})"
        told.append(f"{compact(m.p50)} {what}{interval}")
        limits = answer.ranges[name]
        low, middle, high = (_rounded(v) for v in (limits.low.value, m.p50, limits.high.value))
        if not m.given and name != "nodes" and not low <= middle <= high:
            beyond.append(what)
    text = _listed(told)
    text += " (in brackets: 90 % intervals)." if "(" in text else "."
    if beyond:
        text += (
            f" Of {_listed(beyond)} the middle lies beyond the range below: probabilities follow "
            "the shapes of open models, without a hard end."
        )
    return text


def _not_told(answer: Answer, marginals: dict[str, Marginal]) -> str:
    if marginals:
        return _not_identified(answer, marginals)
    hardly = [
        f"twice the {NAMES[row.quantity]} by {change(row.elasticity)}"
        for row in answer.sensitivity
        if most_change(row) < READS
    ]
    if not hardly:
        return ""
    told = _capital(_listed(hardly)).replace(" by ", " change the speed by ", 1)
    return f"{told}."


def _rounded(value: float) -> float:
    """As shown, so that what looks equal is equal."""
    return float(f"{value:.3g}")


def _not_identified(answer: Answer, marginals: dict[str, Marginal]) -> str:
    """What of the posterior the speed did not teach."""
    node = answer.question.hardware.node
    loose = [n for n, m in marginals.items() if not m.identified and not m.given]
    by_nodes = [
        n
        for n, m in marginals.items()
        if m.identified and not m.given and m.nodes_bits > m.speed_bits
    ]
    sentences = []
    if loose:
        told = [f"{NAMES[n]} ({marginals[n].information_bits:.1f} bits)" for n in loose]
        sentences.append(f"Not identified: {_listed(told)}.")
    if by_nodes:
        bits = _listed([f"{marginals[n].speed_bits:.1f}" for n in by_nodes])
        why = (
            f"the number of {node}s, which are assumed to be filled"
            if answer.question.hardware.spatial
            else f"what fits on that many {node}s"
        )
        sentences.append(
            f"Of {_listed([NAMES[n] for n in by_nodes])} it taught {bits} bits; one bit would "
            f"identify a quantity. What is known of them comes from {why}."
        )
    return " ".join(sentences)


def change(ratio: float) -> str:
    """A relative change in whole percent with its sign; none for zero."""
    percent = round(100.0 * ratio) if math.isfinite(ratio) else 0
    return f"{percent:+d} %" if percent else "0 %"
