"""The reports of `solve` and `predict` as self-contained HTML pages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from archinfer.report.findings import (
    NAMES,
    READS,
    change,
    drawn,
    findings,
    free_end,
    given_words,
    kinds,
    kinds_of,
    most_change,
    plain_name,
)
from archinfer.report.markup import Markup, el, join
from archinfer.report.page import Cell, figure, page, provenance, section, table
from archinfer.report.pictures import nodes_panel, posterior_panels, sizes_panel
from archinfer.report.predict_chart import micro, time_panel
from archinfer.words import compact

if TYPE_CHECKING:
    from archinfer.inference.posterior import Marginal, Posterior
    from archinfer.solver.answer import Answer
    from archinfer.solver.region import Bound


LIKELY = (
    "Most likely: probabilities over models shaped like the open ones of today. They replace the "
    "hard habits, so they may reach beyond an end that a habit draws."
)


def solve_page(answer: Answer, command: str = "") -> str:
    """What `archinfer solve` found, as an HTML document.

    Args:
        answer: of the solver, with its posterior where a speed was observed.
        command: the command line that was run, "" to leave it out.
    """
    from archinfer.report.solve import assumptions, headline

    if not answer.feasible:
        return page(
            headline(answer),
            _conflict(answer),
            *_variants(answer),
            _posterior_part(answer),
            _constraints(answer),
            _sources(answer),
            command=command,
        )
    return page(
        headline(answer),
        _lead(answer),
        *_variants(answer),
        el("p", "Assumed: ", assumptions(answer), class_="soft"),
        _open(answer),
        section("What is pinned, by what, and how surely", _pinned(answer)),
        _posterior_part(answer),
        section(
            "Pictures",
            el(
                "div",
                figure(sizes_panel(answer), "sizes"),
                figure(nodes_panel(answer), "nodes"),
                class_="pair",
            ),
        ),
        section("Architectures that would work", _architectures(answer)),
        _token_time(answer),
        _by_weights(answer),
        _constraints(answer),
        _sources(answer),
        command=command,
    )


def _variants(answer: Answer) -> list[Markup]:
    from archinfer.report.solve import variant_lines

    return [el("p", line) for line in variant_lines(answer)]


def _lead(answer: Answer) -> Markup:
    """What to take away, before any table."""
    from archinfer.report.solve import sentence

    told = findings(answer, kinds(answer.question))
    items = [el("li", el("strong", f"{label}: "), text) for label, text in told]
    return el("div", el("p", sentence(answer)), el("ul", items), class_="answer")


def _open(answer: Answer) -> Markup:
    """What the probabilities leave open that the ranges assume."""
    posterior = answer.posterior
    if posterior is None or not posterior.possible:
        return Markup("")
    q = answer.question
    kinds = posterior.attention_probability
    users, _ = posterior.density("concurrency")
    parts = []
    if users.max() > users.min():
        parts.append(f"{users.min():.0f} to {users.max():.0f} users at once")
    if len(kinds) > 1:
        parts.append(f"attention {', '.join(kinds)}")
    if posterior.law is not None:
        parts.append(f"a gain of speculative decoding as fitted to {q.hardware.name}")
    if not parts:
        return Markup("")
    told = Markup("")
    if posterior.software_probability is not None:
        shares = ", ".join(
            f"{name} {100.0 * p:.0f} %" for name, p in posterior.software_probability.items()
        )
        told = el("p", f"Probability of the software that ran: {shares}.", class_="soft")
    said = el("p", f"The probabilities allow more than the ranges: {'; '.join(parts)}.",
              class_="soft")  # fmt: skip
    return join(said, told)


def _end(answer: Answer, name: str, side: str, known: dict[str, str]) -> Markup:
    """An end, the constraint there, of what kind it is, and where habits place it."""
    bound: Bound = getattr(answer.ranges[name], side)
    found = kinds_of(bound.by, known)
    placed: list[Markup] = []
    if drawn(answer, name, side, known) == "within habits":
        if "habit" not in found:
            placed.append(el("span", "within habits", class_="chip habit"))
        placed.append(Markup(f" ({compact(free_end(answer, name, side))} without habits)"))
    chips = [join(el("span", k, class_=f"chip {k}"), " ") for k in found]
    return join(el("strong", compact(bound.value)), ": ", plain_name(bound.by), " ", chips, placed)


def _verdict(answer: Answer, name: str, known: dict[str, str], marginal: Marginal | None) -> Markup:
    """Whether the evidence pins the quantity."""
    if marginal is not None:
        if marginal.given:
            return Markup(given_words(answer.question, name, marginal))
        source = "nodes" if marginal.nodes_bits > marginal.speed_bits else "speed"
        bits = f"{marginal.information_bits:.1f} bits learnt"
        if marginal.identified:
            return join(el("span", f"identified by the {source}", class_="yes"), f" ({bits})")
        return join(el("span", "not identified", class_="no"), f" ({bits})")
    by = {
        words: drawn(answer, name, side, known)
        for words, side in (("above", "high"), ("below", "low"))
    }
    physical = [words for words, kind in by.items() if kind == "physics"]
    if physical:
        return el("span", f"pinned from {' and '.join(physical)} by physics", class_="yes")
    placed = [words for words, kind in by.items() if kind == "within habits"]
    if placed:
        return join(
            el("span", "not pinned", class_="no"),
            f": from {' and '.join(placed)} by physics within habits of design",
        )
    from archinfer.solver.answer import SEARCHED

    interval = answer.ranges[name]
    if interval.high.by == SEARCHED and interval.low.by == SEARCHED:
        return el("span", "not pinned", class_="no")
    asked = known.get(interval.low.by) == known.get(interval.high.by) == "request"
    if asked:
        return Markup("as you asked")
    return join(
        el("span", "not pinned by the hardware or the speed", class_="no"),
        ": only by what is built today",
    )


def _pinned(answer: Answer) -> Markup:
    from archinfer.report.posterior import bits_text, nodes_text

    known = kinds(answer.question)
    posterior = answer.posterior
    marginals = posterior.marginals if posterior is not None and posterior.possible else {}
    headings = ["quantity", "verdict", "at least, set by", "at most, set by"]
    if marginals:
        headings.insert(2, "most likely (90 %)")
    rows: list[list[str | Cell]] = []
    for name in answer.ranges:
        m = marginals.get(name)
        cells: list[str | Cell] = [NAMES[name], _verdict(answer, name, known, m)]
        if m is not None:
            used = " in use" if name == "nodes" else ""
            cells.append(f"{compact(m.p50)}{used} ({compact(m.p05)} to {compact(m.p95)})")
        rows.append([*cells, *(_end(answer, name, side, known) for side in ("low", "high"))])
    caption = "Ranges are exact: each end is where the constraint beside it stops holding"
    legend = el(
        "ul",
        el("li", el("span", "physics", class_="chip physics"), " the hardware cannot do more."),
        el(
            "li",
            el("span", "habit", class_="chip habit"),
            " nobody builds models like that today; --physics-only leaves these out.",
        ),
        el(
            "li",
            el("span", "within habits", class_="chip habit"),
            " physics acts there, but habits place the corner: without them the end moves.",
        ),
        el("li", el("span", "request", class_="chip request"), " you asked for it."),
        el("li", el("span", "search", class_="chip search"), " the solver looks no further."),
    )
    said: list[Markup] = []
    if posterior is not None and marginals:
        said = [el("p", text) for text in (LIKELY, bits_text(posterior), nodes_text(posterior))]
    return join(table(caption, headings, rows), legend, said, _reads(answer, marginals))


def _number(text: str, value: float) -> str | Cell:
    """A cell that sorts by its value; a dash where there is none."""
    return Cell(text, value) if math.isfinite(value) else "-"


def _reads(answer: Answer, marginals: dict[str, Marginal]) -> Markup:
    """What the speed can tell about each quantity."""
    if not answer.sensitivity:
        return Markup("")
    about = answer.architectures[0]
    rows: list[list[str | Cell]] = []
    for s in answer.sensitivity:
        verdict = (
            el("span", "the speed changes with it", class_="yes")
            if most_change(s) >= READS
            else el("span", "the speed hardly changes", class_="no")
        )
        rows.append(
            [
                NAMES.get(s.quantity, s.quantity),
                verdict,
                *(_number(f"{v:,.0f}", v) for v in s.tokens_per_s),
                _number(change(s.elasticity), s.elasticity),
            ]
        )
    caption = (
        "What the speed could tell if all else were known: tokens/s without speculation if one "
        f"quantity changes, around {compact(about.total_params)} total, "
        f"{compact(about.active_params)} active, {about.architecture.layers} layers (fitting or "
        f"not; nodes follow the layers). {_as_is(answer)}"
    )
    headings = ["quantity", "verdict", "halved", "as is", "doubled", "doubling"]
    return join(table(caption, headings, rows), _hidden(answer, marginals))


def _as_is(answer: Answer) -> str:
    """How the speed without speculation reaches the one of the question."""
    asked = answer.question.tokens_per_s
    plain = answer.sensitivity[0].tokens_per_s[1]
    if asked <= plain:
        return f"As is: {plain:,.0f}, more than the {asked:,.0f} of the question"
    return (
        f"As is: {plain:,.0f}, times {asked / plain:.2f} accepted tokens a pass = {asked:,.0f} "
        "of the question"
    )


def _hidden(answer: Answer, marginals: dict[str, Marginal]) -> Markup:
    """Why a speed that reads a quantity may still not identify it."""
    low, high = answer.question.speculation
    read = [
        s.quantity
        for s in answer.sensitivity
        if most_change(s) >= READS
        and s.quantity in marginals
        and not marginals[s.quantity].given
        and marginals[s.quantity].speed_bits < 1.0
    ]
    if not read or high == low:
        return Markup("")
    told = " and ".join(f"{marginals[q].speed_bits:.1f} bits of the {NAMES[q]}" for q in read)
    return el(
        "p",
        f"If all else were known, the speed would tell the {' and '.join(NAMES[q] for q in read)}. "
        f"It is not: the speed taught only {told}, because the unknown gain of speculative "
        "decoding changes it as much.",
    )


def _posterior_part(answer: Answer) -> Markup:
    from archinfer.report.posterior import notes, nuisance_text

    posterior = answer.posterior
    if posterior is None:
        return Markup("")

    title = "What the observation taught"
    if not posterior.possible:
        return section(title, el("p", f"No probability statement: {posterior.reason}."))
    panels = posterior_panels(posterior, legend=False)
    pictures = [figure(p, f"posterior{i}") for i, p in enumerate(panels)]
    words = (
        "Dashed: before, models like the open ones of today on any number of nodes. Blue area: "
        "what the number of nodes and the speed leave, with its median and 90 % interval above. "
        "Where both look alike, the observation taught nothing."
    )
    return section(
        title,
        el("p", words),
        el("div", pictures, class_="four"),
        el("p", nuisance_text(posterior)),
        _narrowing(posterior),
        [el("p", f"Note: {w}.") for w in notes(posterior)],
        [_comparison(c) for c in answer.comparisons],
    )


def _comparison(comparison: Any) -> Markup:
    """Why the speed differs from a known model's."""
    from archinfer.report.posterior import comparison_text

    first, *rest = comparison_text(comparison)
    return join(el("h3", first.strip()), el("ul", [el("li", line.strip()) for line in rest]))


def _narrowing(posterior: Posterior) -> Markup:
    rows: list[list[str | Cell]] = []
    for name, facts in posterior.value_of_facts.items():
        m = posterior.marginals[name]
        width = m.p95 / m.p05
        best = [f for f in facts if f.ratio < 0.95 * width][:3]
        told = (
            ", ".join(f"{f.fact} (x {compact(f.ratio, 2)})" for f in best)
            or "none of those considered"
        )
        words = given_words(posterior.question, name, m) if m.given else told
        rows.append([NAMES[name], Cell(f"x {compact(width, 2)}", width), Cell(words, long=True)])
    headings = ["quantity", "90 % interval spans", "facts that would narrow it, and to what"]
    return table("Which further fact would help most", headings, rows)


def _architectures(answer: Answer) -> Markup:
    from archinfer.report.solve import needs_note, rounding_text, short_rows

    designs = answer.architectures
    if not designs:
        return el("p", "None is listed: none was asked for, or no whole heads and experts fit.")
    headings, texts = short_rows(designs)
    rows: list[list[str | Cell]] = []
    for d, words in zip(designs, texts, strict=True):
        moe = d.moe
        values: list[float | None] = [
            d.total_params,
            d.active_params,
            d.architecture.layers,
            d.nodes,
            d.architecture.hidden_size,
            0 if moe is None else moe.experts,
            None,
            d.speed[1],
            d.accepted_needed,
            d.memory_bytes,
            None,
        ]
        rows.append([w if v is None else Cell(w, v) for w, v in zip(words, values, strict=True)])
    caption = (
        "Sort by any column. experts: used / routed; needs: tokens a pass that speculative "
        "decoding must gain to reach the speed; tokens/s: 5 %, 50 % and 95 %"
        f"{rounding_text(answer)}"
    )
    note = needs_note(answer)
    said = el("p", f"{note[0].upper()}{note[1:]}.") if note else Markup("")
    return join(table(caption, headings, rows, sortable=True), said)


def _token_time(answer: Answer) -> Markup:
    if not answer.architectures:
        return Markup("")
    d = answer.architectures[0]
    node = answer.question.hardware.node
    words = (
        f"The first architecture above: {compact(d.total_params)} total, "
        f"{compact(d.active_params)} active, {d.architecture.layers} layers in {d.weights} on "
        f"{d.nodes} {node}{'' if d.nodes == 1 else 's'}. One pass gives one token without "
        "speculation."
    )
    return section(
        "Time of one pass by term",
        el("p", words),
        figure(time_panel("Time of one pass", d.time_s), "time"),
        _terms_table([("time", d.time_s)]),
    )


def _terms_table(rows: list[tuple[str, dict[str, float]]]) -> Markup:
    """Terms down, models across."""
    from archinfer.forward.prediction import TERM_TEXTS

    used = [t for t in TERM_TEXTS if any(time[t] > 0.0 for _, time in rows)]
    cells: list[list[str | Cell]] = []
    for term in (*used, "total"):
        row: list[str | Cell] = [term]
        for _, time in rows:
            share = "" if term == "total" else f" ({time[term] / time['total']:.0%})"
            row.append(Cell(f"{micro(time[term])}{share}", time[term]))
        cells.append([*row, Cell(TERM_TEXTS.get(term, "one pass"), long=True)])
    headings = ["term", *(name for name, _ in rows), "what it is"]
    return table("Time of one pass by term", headings, cells)


def _by_weights(answer: Answer) -> Markup:
    rows: list[list[str | Cell]] = [
        [
            w,
            Cell(compact(r["total_params"][1]), r["total_params"][1]),
            Cell(compact(r["active_params"][1]), r["active_params"][1]),
            f"{r['layers'][0]:.0f} to {r['layers'][1]:.0f}",
            f"{r['nodes'][0]:.0f} to {r['nodes'][1]:.0f}",
        ]
        for w, r in answer.by_weights.items()
    ]
    headings = ["weights", "most total", "most active", "layers", "nodes there"]
    return section(
        "By weight format", table("Feasible ranges of each weight format", headings, rows)
    )


def _constraints(answer: Answer) -> Markup:
    from archinfer.solver.constraints import constraints

    known = kinds(answer.question)
    rows: list[list[str | Cell]] = [
        [
            c.name,
            el("span", known[c.name], class_=f"chip {known[c.name]}"),
            Cell(c.text, long=True),
        ]
        for c in constraints(answer.question)
    ]
    caption = "Every constraint that was applied"
    return section("Constraints", table(caption, ["constraint", "kind", "what it says"], rows))


def _sources(answer: Answer) -> Markup:
    from archinfer.report.solve import assumptions

    return section(
        "Assumptions and sources",
        el("p", assumptions(answer)),
        [el("p", f"Note: {n}.") for n in answer.notes],
        provenance(answer.question.hardware),
    )


def _conflict(answer: Answer) -> Markup:
    from archinfer.report.solve import assumptions

    conflict = answer.conflict
    assert conflict is not None
    ways = [
        el("li", el("strong", " and ".join(r.constraints)), f": {r.text}")
        for r in conflict.relaxations
    ]
    return join(
        el("p", f"Nothing is feasible: {conflict.text}.", class_="answer"),
        el("p", "Assumed: ", assumptions(answer), class_="soft"),
        section("What would open it", el("ul", ways)) if ways else Markup(""),
    )
