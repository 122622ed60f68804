"""What a reader should take away from an answer: a few labelled sentences, the same every time."""

from __future__ import annotations

import math

from archinfer.inference.posterior import Marginal
from archinfer.solver.answer import Answer
from archinfer.solver.drawn import drawn, free_end, kinds, kinds_of, reads, speed_spread
from archinfer.solver.question import Question
from archinfer.units import plain_number
from archinfer.words import QUANTITIES, capital, change, compact, listed

NEARLY = 0.8
"""Share of the nodes asked for from which those in use are nearly all of them."""

SHORT_NAMES = {"definition": "total = active"}
WITHIN = "within habits"
_PLAIN = {"speed (not faster)": "not faster than observed"}


def plain_name(by: str) -> str:
    """What draws an end, as a reader may take it."""
    for name, words in _PLAIN.items():
        by = by.replace(name, words)
    return by


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
            told[by].append(f"{words} {compact(end.value)} {QUANTITIES[name]} ({why})")
    return told


def end_name(answer: Answer, name: str, side: str) -> str:
    """What draws an end of a range, with its kind where it is of one."""
    by: str = getattr(answer.ranges[name], side).by
    known = kinds(answer.question)
    found = kinds_of(by, known)
    if drawn(answer, name, side, known) == "within habits" and "habit" not in found:
        return f"{plain_name(by)} ({WITHIN})"
    # Of several together the names alone fill the height.
    if len(found) > 1:
        return plain_name(by)
    kind = f" ({found[0]})" if found else ""
    return f"{SHORT_NAMES.get(by, plain_name(by))}{kind}"


def given_words(question: Question, name: str, marginal: Marginal) -> str:
    """Verdict on a quantity that the question states."""
    if name != "nodes":
        return "given by you"
    asked = question.nodes[1]
    if marginal.p05 >= asked:
        return "as asked"
    return "nearly as asked" if marginal.p50 >= NEARLY * asked else "fewer than asked"


PINNED, NARROWED = 2.0, 5.0
"""Ratio of the ends of a 90 % interval below which a quantity counts as pinned, as narrowed."""


def identified_words(marginal: Marginal) -> str:
    """Whether the evidence identifies a quantity that was not given: how far, and which does."""
    if not marginal.identified:
        return "not identified"
    width = marginal.p95 / marginal.p05
    by = "nodes" if marginal.nodes_bits > marginal.speed_bits else "speed"
    how = "pinned" if width < PINNED else "narrowed" if width < NARROWED else "identified"
    return f"{how} within x {plain_number(width, 2)} by the {by}"


def verdict(question: Question, name: str, marginal: Marginal) -> str:
    """What is known of a quantity, in words."""
    if marginal.given:
        return given_words(question, name, marginal)
    return identified_words(marginal)


def accuracy(answer: Answer) -> str:
    """How uncertain a predicted speed is, and why."""
    low, high = answer.question.speculation
    spread = speed_spread(answer)
    text = f"a predicted speed is right within a factor of {spread:.2g} either way (90 %)"
    if high > low:
        text += (
            f"; how many tokens a pass speculative decoding gains is not known ({low:g} to "
            f"{high:g}), which adds a factor of {high / low:.2g}"
        )
    return f"{text}."


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
            f"{capital(listed(ends['physics']))}." if ends["physics"] else _nothing(ends),
        )
    )
    for label, by in (
        ("Drawn by physics within habits of design", "within habits"),
        ("Drawn by habits of design only", "habit"),
    ):
        if ends[by]:
            found.append((label, f"{capital(listed(ends[by]))}."))
    unsaid = _not_told(answer, marginals)
    if unsaid:
        found.append(("Not told by the speed", unsaid))
    found.append(("How sure", f"{_sizes_sure(marginals)}{capital(accuracy(answer))}"))
    return found


def _nothing(ends: dict[str, list[str]]) -> str:
    if ends["within habits"] or ends["habit"]:
        return "Nothing: habits of design take part in every end that you did not ask for."
    return "Nothing: every end is one that you asked for or where the search ends."


def _sizes_sure(marginals: dict[str, Marginal]) -> str:
    """How surely the sizes are known, as a sentence with a space behind; "" where all are given."""
    told = [
        f"{math.sqrt(m.p95 / m.p05):.2g} ({QUANTITIES[name]})"
        for name, m in marginals.items()
        if name in ("total_params", "active_params") and not m.given
    ]
    if not told:
        return ""
    return f"Of its median a size lies within a factor of {listed(told)} with 90 %. "


def _likely(answer: Answer, marginals: dict[str, Marginal]) -> str:
    node = answer.question.hardware.node
    posterior = answer.posterior
    assert posterior is not None and posterior.most_likely is not None
    told = []
    beyond = []
    for name, m in marginals.items():
        # One architecture of the likeliest hump, in the hump's own ranges.
        one = float(getattr(posterior.most_likely, name))
        within = getattr(posterior.modes[0], name) if posterior.modes else m
        what = f"{node}s in use" if name == "nodes" else QUANTITIES[name]
        known = within.p05 == within.p95 if name == "nodes" else m.given
        interval = "" if known else f" ({compact(within.p05)} to {compact(within.p95)})"
        told.append(f"{compact(one)} {what}{interval}")
        limits = answer.ranges[name]
        low, middle, high = (_rounded(v) for v in (limits.low.value, one, limits.high.value))
        if not m.given and name != "nodes" and not low <= middle <= high:
            beyond.append(what)
    text = listed(told)
    text += " (in brackets: 90 % intervals)." if "(" in text else "."
    if beyond:
        text += (
            f" Of {listed(beyond)} the middle lies beyond the range below: probabilities follow "
            "the shapes of open models, without a hard end."
        )
    return text


def _not_told(answer: Answer, marginals: dict[str, Marginal]) -> str:
    if marginals:
        return _not_identified(answer, marginals)
    hardly = [
        f"twice the {QUANTITIES[row.quantity]} by {change(row.elasticity)}"
        for row in answer.sensitivity
        if not reads(row)
    ]
    if not hardly:
        return ""
    told = capital(listed(hardly)).replace(" by ", " change the speed by ", 1)
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
        told = [f"{QUANTITIES[n]} ({marginals[n].information_bits:.1f} bits)" for n in loose]
        sentences.append(f"Not identified: {listed(told)}.")
    if by_nodes:
        bits = listed([f"{marginals[n].speed_bits:.1f}" for n in by_nodes])
        why = (
            f"the number of {node}s, which are assumed to be filled"
            if answer.question.hardware.spatial
            else f"what fits on that many {node}s"
        )
        sentences.append(
            f"Of {listed([QUANTITIES[n] for n in by_nodes])} it taught {bits} bits; one bit would "
            f"identify a quantity. What is known of them comes from {why}."
        )
    return " ".join(sentences)
