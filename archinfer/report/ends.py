"""What is pinned, by what and how surely: a row a quantity, an end a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from archinfer.inference.posterior import Marginal
from archinfer.report import document as doc
from archinfer.solver.answer import SEARCHED, Answer
from archinfer.solver.drawn import drawn, free_end, kinds, kinds_of
from archinfer.solver.question import Question
from archinfer.solver.region import Bound
from archinfer.units import plain_number
from archinfer.words import QUANTITIES, compact

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


def end_name(answer: Answer, name: str, side: str) -> str:
    """What draws an end of a range, with its kind where it is of one."""
    by: str = getattr(answer.ranges[name], side).by
    known = kinds(answer.question)
    found = kinds_of(by, known)
    if drawn(answer, name, side, known) == WITHIN and "habit" not in found:
        return f"{plain_name(by)} ({WITHIN})"
    # Of several together the names alone fill the height.
    if len(found) > 1:
        return plain_name(by)
    kind = f" ({found[0]})" if found else ""
    return f"{SHORT_NAMES.get(by, plain_name(by))}{kind}"


PINNED, NARROWED = 2.0, 5.0
"""Ratio of the ends of a 90 % interval below which a quantity counts as pinned, as narrowed."""


def known_words(question: Question, name: str, marginal: Marginal) -> str:
    """What is known of a quantity that the question states or the evidence may identify."""
    if not marginal.given:
        return identified_words(marginal)
    if name != "nodes":
        return "given by you"
    asked = question.nodes[1]
    if marginal.p05 >= asked:
        return "as asked"
    return "nearly as asked" if marginal.p50 >= NEARLY * asked else "fewer than asked"


def identified_words(marginal: Marginal) -> str:
    """How wide a quantity that was not given is left, and what carries that."""
    width = marginal.p95 / marginal.p05
    carried = f"by the {marginal.told_by if marginal.identified else 'prior'}"
    return f"{pinned_word(marginal)} within x {plain_number(width, 2)} {carried}".lstrip()


def pinned_word(marginal: Marginal) -> str:
    """Whether a quantity is pinned, or at least narrowed."""
    width = marginal.p95 / marginal.p05
    return "pinned" if width < PINNED else "narrowed" if width < NARROWED else ""


CAPTION = "Ranges are exact: each end is where the constraint beside it stops holding"
LIKELY = (
    "Most likely: probabilities over models shaped like the open ones of today. They replace the "
    "hard habits, so they may reach beyond an end that a habit draws."
)
LEGEND: Sequence[doc.Words] = (
    (doc.Span("physics", "chip physics"), " the hardware cannot do more."),
    (
        doc.Span("habit", "chip habit"),
        " nobody builds models like that today; --physics-only leaves these out.",
    ),
    (
        doc.Span(WITHIN, "chip habit"),
        " physics acts there, but habits place the corner: without them the end moves.",
    ),
    (doc.Span("request", "chip request"), " you asked for it."),
    (doc.Span("search", "chip search"), " the solver looks no further."),
)


def pinned(answer: Answer) -> Iterator[doc.Block]:
    """The ranges of a feasible answer with what draws each end, and what is likely."""
    known = kinds(answer.question)
    posterior = answer.posterior
    marginals = posterior.marginals if posterior is not None and posterior.possible else {}
    headings = ["quantity", "verdict", "at least, set by", "at most, set by"]
    if marginals:
        headings.insert(2, "median (90 %)")
    rows = [_row(answer, name, known, marginals) for name in answer.ranges]
    yield doc.Table(CAPTION, headings, rows, "w" * len(headings), doc.PAGE)
    yield doc.Items(LEGEND, where=doc.PAGE)
    if marginals:
        yield doc.Paragraph(LIKELY, where=doc.PAGE)


def _row(
    answer: Answer, name: str, known: dict[str, str], marginals: Mapping[str, Marginal]
) -> list[doc.Words]:
    m = marginals.get(name)
    cells: list[doc.Words] = [QUANTITIES[name], _verdict(answer, name, known, m)]
    if m is not None:
        used = " in use" if name == "nodes" else ""
        cells.append(f"{compact(m.p50)}{used} ({compact(m.p05)} to {compact(m.p95)})")
    return [*cells, *(_end(answer, name, side, known) for side in ("low", "high"))]


def _end(answer: Answer, name: str, side: str, known: dict[str, str]) -> doc.Words:
    """An end, the constraint there, of what kind it is, and where habits place it."""
    bound: Bound = getattr(answer.ranges[name], side)
    found = kinds_of(bound.by, known)
    words: list[str | doc.Span] = [doc.Span(compact(bound.value)), f": {plain_name(bound.by)} "]
    for kind in found:
        words += [doc.Span(kind, f"chip {kind}"), " "]
    if drawn(answer, name, side, known) == WITHIN:
        if "habit" not in found:
            words.append(doc.Span(WITHIN, "chip habit"))
        words.append(f" ({compact(free_end(answer, name, side))} without habits)")
    return tuple(words)


def _verdict(answer: Answer, name: str, known: dict[str, str], m: Marginal | None) -> doc.Words:
    """Whether the evidence pins the quantity."""
    if m is None:
        return _without_posterior(answer, name, known)
    told = known_words(answer.question, name, m)
    if m.given:
        return told
    style = "yes" if m.identified else "no"
    return doc.Span(told, style), f" ({m.information_bits:.1f} bits learnt)"


def _without_posterior(answer: Answer, name: str, known: dict[str, str]) -> doc.Words:
    sides = (("above", "high"), ("below", "low"))
    by = {words: drawn(answer, name, side, known) for words, side in sides}
    physical = [words for words, kind in by.items() if kind == "physics"]
    if physical:
        return (doc.Span(f"pinned from {' and '.join(physical)} by physics", "yes"),)
    placed = [words for words, kind in by.items() if kind == WITHIN]
    if placed:
        where = f": from {' and '.join(placed)} by physics within habits of design"
        return doc.Span("not pinned", "no"), where
    interval = answer.ranges[name]
    if interval.high.by == SEARCHED and interval.low.by == SEARCHED:
        return (doc.Span("not pinned", "no"),)
    if known.get(interval.low.by) == known.get(interval.high.by) == "request":
        return "as you asked"
    return doc.Span(
        "not pinned by the hardware or the speed", "no"
    ), ": only by what is built today"
