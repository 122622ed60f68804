"""What a reader should take away from an answer: a few labelled sentences, the same every time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from archinfer.report.text import compact

if TYPE_CHECKING:
    from archinfer.answer import Answer, Sensitivity
    from archinfer.posterior import Marginal
    from archinfer.solver import Bound

__all__ = [
    "NAMES",
    "READS",
    "accuracy",
    "change",
    "ends_by_kind",
    "findings",
    "kinds_of",
    "most_change",
    "plain_name",
]

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


def kinds_of(by: str, kinds: dict[str, str]) -> list[str]:
    """Kinds of the constraints that draw an end together, each once."""
    names = (
        name
        for part in by.split(", or ")
        for half in part.split(" with ")
        for name in half.split(" and ")
    )
    return list(dict.fromkeys(kinds[name] for name in names if name in kinds))


def ends_by_kind(answer: Answer, kinds: dict[str, str]) -> tuple[list[str], list[str]]:
    """The ends of the ranges in words: those that physics draws, those that only habits draw."""
    physical: list[str] = []
    habitual: list[str] = []
    for name, interval in answer.ranges.items():
        for side, end in (("at most", interval.high), ("at least", interval.low)):
            found = kinds_of(end.by, kinds)
            if "request" in found or not found:
                continue
            (physical if found == ["physics"] else habitual).append(_end(name, side, end))
    return physical, habitual


def _end(name: str, side: str, end: Bound) -> str:
    return f"{side} {compact(end.value)} {NAMES[name]} ({plain_name(end.by)})"


def most_change(row: Sensitivity) -> float:
    """Largest relative change of the speed when the quantity is halved or doubled."""
    halved, same, doubled = row.tokens_per_s
    return max(abs(v / same - 1.0) for v in (halved, doubled, same) if math.isfinite(v))


def accuracy(answer: Answer) -> str:
    """How uncertain a predicted speed is, and why; "" without an architecture to say it of."""
    if not answer.architectures:
        return ""
    low, high = answer.question.speculation
    p05, _, p95 = answer.architectures[0].speed
    spread = math.sqrt(p95 / p05 * low / high)
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
    physical, habitual = ends_by_kind(answer, kinds)
    found = []
    if marginals:
        found.append(("Most likely", _likely(answer, marginals)))
    found.append(
        (
            "Pinned by physics",
            f"{_capital(_listed(physical))}." if physical else "Nothing: every end is a habit's.",
        )
    )
    if habitual:
        found.append(("Drawn by habits of design only", f"{_capital(_listed(habitual))}."))
    unsaid = _not_told(answer, marginals)
    if unsaid:
        found.append(("Not told by the speed", unsaid))
    sure = accuracy(answer)
    if sure:
        found.append(("How sure", _capital(sure)))
    return found


def _likely(answer: Answer, marginals: dict[str, Marginal]) -> str:
    node = answer.question.hardware.node
    told = []
    beyond = []
    for name, m in marginals.items():
        what = f"{node}s in use" if name == "nodes" else NAMES[name]
        interval = "" if m.given else f" ({compact(m.p05)} to {compact(m.p95)})"
        told.append(f"{compact(m.p50)} {what}{interval}")
        limits = answer.ranges[name]
        if name != "nodes" and not limits.low.value <= m.p50 <= limits.high.value:
            beyond.append(what)
    text = f"{_listed(told)} (in brackets: 90 % intervals)."
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
    return f"It would change with {_listed(hardly)}." if hardly else ""


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
