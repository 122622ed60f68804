"""The solver's answer as a document: what is possible, what draws it, and how surely."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from archinfer.asking import OPEN
from archinfer.errors import InputError
from archinfer.hardware.profile import Hardware
from archinfer.models.solver_family import Habits
from archinfer.report import document as doc
from archinfer.report import evidence
from archinfer.report import posterior as taught
from archinfer.report.architectures import architectures, one_pass
from archinfer.report.chart import Chart, Panel
from archinfer.report.ends import pinned
from archinfer.report.nodes_chart import nodes_panel
from archinfer.report.posterior_chart import posterior_panels
from archinfer.report.predict_model import family_text
from archinfer.report.sizes_chart import sizes_panel
from archinfer.report.sources import caption, provenance
from archinfer.report.verdict import at_most, near_miss, tested, verdict
from archinfer.solver.answer import Answer
from archinfer.solver.constraints import constraints
from archinfer.solver.drawn import kinds, reads
from archinfer.solver.outline import totals_by_depth
from archinfer.solver.question import Question
from archinfer.solver.variants import Sensitivity
from archinfer.units import format_quantity, plain_number
from archinfer.words import QUANTITIES as NAMES
from archinfer.words import capital, change, compact, counted, gain, listed, load, size

PLUS = doc.EXPLAIN | doc.PAGE
MORE = "--explain adds formats, sensitivity, a map, constraints, sources of figures."
QUANTITIES = NAMES | {"nodes": "nodes there"}


def headline(answer: Answer) -> str:
    """The question in one sentence."""
    question = answer.question
    low, high = question.nodes
    node = f"{question.hardware.name} {question.hardware.node}"
    where = counted(high, node) if low == high else f"{low:,} to {counted(high, node)}"
    if not question.nodes_known:
        where = f"an unknown number of {node}s"
    speed = f"{plain_number(question.tokens_per_s, 6)} tokens/s"
    asked = f"{speed} observed" if question.observed else f"at least {speed} for one user"
    if question.ceiling:
        asked = f"at most {speed}, as announced,"
    more = len(answer.evidence) - 1
    if more > 0:
        asked = f"{asked.rstrip(',')}, with {counted(more, 'more observation')},"
    return f"Which models fit {asked} on {where}?"


def assumptions(answer: Answer) -> str:
    """What was assumed, in one paragraph."""
    q = answer.question
    gained, likely = gain(*q.speculation), answer.posterior or answer.claim
    if likely is not None and likely.law:
        told = "probabilities" if answer.posterior is not None else "claim"
        gained += f" in the region, the fitted law in the {told}"
    elif likely is not None and q.speculation[0] < q.speculation[1]:
        gained += " in the region and in the probabilities"
    drawn = " in the region, unknown in the probabilities" if answer.posterior is not None else ""
    parts = [
        f"{load(q.context_tokens, q.concurrency)}, {family_text(q.rules)}{drawn}",
        *_usable(q.hardware),
        f"weights {', '.join(q.weights)}",
        f"{q.kv} KV cache",
        gained,
        *_software(q),
        "physics only, since no model within habits of design has this speed (habits are those of "
        "models from 1B parameters on); ranges hold any vocabulary and head of the probabilities"
        if answer.beyond_habits
        else "physics only"
        if q.habits is None
        else "habits of design (--physics-only: none)",
        *(
            f"{name} {_limits(*getattr(q, name))}"
            for name in ("total", "active", "layers")
            if getattr(q, name) != OPEN
        ),
        *_asked_for(q),
        *(f"{change} (set by hand)" for change in q.overrides),
    ]
    return "; ".join(parts) + "."


def _usable(hardware: Hardware) -> Iterator[str]:
    """How much of the memory of a node a model can have, where it is not all of it."""
    usable, there = float(hardware.usable_bytes), float(hardware.memory_capacity_bytes)
    if size(usable) != size(there):
        yield f"{size(usable)} of {size(there)} a {hardware.node} usable"


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


def _asked_for(q: Question) -> Iterator[str]:
    """What was asked beyond the defaults, in words."""
    if q.habits is not None and q.habits.sparsity != Habits().sparsity:
        yield f"total / active {_limits(*q.habits.sparsity)}"
    if q.layout is not None:
        yield f"mapping {q.layout.text}"
    if q.confidence_z != 0.0 and not q.observed:
        most = "" if q.speculation[0] == q.speculation[1] else " with the most accepted tokens"
        yield f"the speed held with a probability of {100.0 * q.confidence:.3g} %{most}"
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


def chart(answer: Answer) -> Chart:
    """Sizes, depth against nodes and, for an observed speed, what it taught."""
    if not answer.feasible:
        raise InputError("nothing is feasible: there is no region to draw")
    rows: list[tuple[Panel, ...]] = [(sizes_panel(answer), nodes_panel(answer))]
    posterior = answer.posterior
    if posterior is not None and posterior.possible:
        rows.append(posterior_panels(posterior))
    source = caption(answer.question.hardware)
    return Chart(headline(answer), tuple(rows), source, (1.2, 1.0))


def document(answer: Answer) -> doc.Document:
    """What `archinfer solve` found."""
    assumed = doc.Paragraph(assumptions(answer), where=doc.ALL)
    parts = _feasible(answer) if answer.feasible else _infeasible(answer)
    title = headline(answer)
    first, *rest = parts
    claim = [] if answer.claim is None else [tested(answer.claim)]
    blocks = [first, *claim, assumed, *rest, *_sources(answer)]
    return doc.Document(title, blocks, titled=doc.ALL)


def _infeasible(answer: Answer) -> Iterator[doc.Block]:
    conflict = answer.conflict
    assert conflict is not None
    ways = [(doc.Span(" and ".join(r.constraints)), f": {r.text}") for r in conflict.relaxations]
    yield doc.Lead([f"Nothing is feasible: {conflict.text}."], where=doc.ALL)
    yield doc.Section("What would open it", [doc.Items(ways, where=doc.ALL)] if ways else [])
    yield from near_miss(answer)
    yield from _variants(answer)
    yield from _taught(answer)


def _feasible(answer: Answer) -> Iterator[doc.Block]:
    yield verdict(answer)
    yield from _variants(answer)
    yield from _left_open(answer)
    observed = answer.posterior is not None
    ranges: list[doc.Block] = [
        *_ranges(answer),
        doc.Later(lambda: pinned(answer)),
        _by_weights(answer),
    ]
    notes = [doc.Paragraph(f"Note: {n}.", where=PLUS) for n in answer.notes]
    region = doc.Section(
        "What is pinned, by what, and how surely", [*ranges, *notes], folded=observed
    )
    yield from (*_taught(answer), region) if observed else (region,)
    pictures = doc.Pictures(lambda: (sizes_panel(answer), nodes_panel(answer)), "region")
    yield doc.Section("Pictures", [pictures], doc.PAGE)
    yield doc.Section("Architectures that would work", list(architectures(answer)))
    yield doc.Later(lambda: _explained(answer), PLUS)
    yield doc.Paragraph(MORE, where=doc.SCREEN)


def _explained(answer: Answer) -> Iterator[doc.Block]:
    if answer.sensitivity:
        yield doc.Section("What the speed reads", list(_reads(answer)), folded=True)
    yield _map(answer)
    yield from one_pass(answer)
    yield from _constraints(answer)


def _taught(answer: Answer) -> Iterator[doc.Block]:
    if answer.posterior is not None:
        blocks = [
            *taught.blocks(answer.posterior, answer.comparisons),
            *evidence.blocks(answer.posterior),
        ]
        yield doc.Section("What the observation taught", blocks)


def _variants(answer: Answer) -> Iterator[doc.Block]:
    """What other means would allow, one line each."""
    for v in answer.variants:
        found = "nothing"
        if v.feasible:
            least, most = v.ranges["layers"]
            depth = f"{least:.0f} to " if least < most else ""
            found = (
                f"up to {at_most(v.ranges['total_params'][1], v.ranges['active_params'][1])}, "
                f"{depth}{counted(most, 'layer')}"
            )
        last = v is answer.variants[-1]
        yield doc.Paragraph(f"{capital(v.text)}: {found}.", where=doc.ALL, tight=not last)


def _left_open(answer: Answer) -> Iterator[doc.Block]:
    """What the probabilities leave open that the ranges assume."""
    posterior = answer.posterior
    if posterior is None or not posterior.possible:
        return
    kinds = posterior.attention_probability
    users, _ = posterior.density("concurrency")
    parts = []
    if users.max() > users.min():
        parts.append(f"{users.min():.0f} to {users.max():.0f} users at once")
    if len(kinds) > 1:
        parts.append(f"attention {', '.join(kinds)}")
    if posterior.law is not None:
        parts.append(f"a gain of speculative decoding as fitted to {answer.question.hardware.name}")
    if parts:
        text = f"The probabilities allow more than the ranges: {'; '.join(parts)}."
        yield doc.Paragraph(text, "soft", doc.PAGE)


def _ranges(answer: Answer) -> Iterator[doc.Block]:
    told = dict(answer.ranges)
    if told["nodes"].low.by == told["nodes"].high.by:
        # As asked, or as far as was searched: the headline says it.
        del told["nodes"]
    rows = [
        (QUANTITIES[name], compact(i.low.value), i.low.by, compact(i.high.value), i.high.by)
        for name, i in told.items()
    ]
    title = f"{_ranges_of(answer)}, and what draws each end"
    headings = ("", "low", "bound by", "high", "bound by")
    yield doc.Table(title, headings, rows, "prwrw", doc.SCREEN | doc.MARKDOWN)


def _ranges_of(answer: Answer) -> str:
    """What the ranges rest on, where more is known than they can hold."""
    posterior = answer.posterior
    if posterior is None or posterior.told_by == "speed":
        return "Ranges"
    return "Ranges by the first speed and exact facts alone"


def _by_weights(answer: Answer) -> doc.Table:
    rows = [
        (
            w,
            doc.number(r["total_params"][1], compact(r["total_params"][1])),
            doc.number(r["active_params"][1], compact(r["active_params"][1])),
            f"{r['layers'][0]:.0f} to {r['layers'][1]:.0f}",
            f"{r['nodes'][0]:,.0f} to {r['nodes'][1]:,.0f}",
        )
        for w, r in answer.by_weights.items()
    ]
    headings = ("weights", "most total", "most active", "layers", "nodes there")
    return doc.Table("By weight format", headings, rows, "lrrrr", PLUS)


def _reads(answer: Answer) -> Iterator[doc.Block]:
    """What the speed can tell about each quantity."""
    about = answer.example
    assert about is not None
    title = (
        "What the speed reads: tokens/s (without speculation) if one quantity changes, around "
        f"{compact(about.total_params)} total, {compact(about.active_params)} active, "
        f"{counted(about.architecture.layers, 'layer')} (fitting or not; nodes follow the layers)"
    )
    rows = [_sensitivity(row) for row in answer.sensitivity]
    yield doc.Table(title, ("", "halved", "as is", "doubled", "doubling"), rows, "prrrr", PLUS)
    yield doc.Paragraph(_as_is(answer), where=doc.PAGE)
    yield from _hidden(answer)


def _sensitivity(row: Sensitivity) -> Sequence[str | doc.Cell]:
    verdict = (
        doc.Span("the speed changes with it", "yes")
        if reads(row)
        else doc.Span("the speed hardly changes", "no")
    )
    return (
        doc.Cell(QUANTITIES[row.quantity], more=(": ", verdict)),
        *(_known(f"{v:,.0f}", v) for v in row.tokens_per_s),
        _known(change(row.elasticity), row.elasticity),
    )


def _known(text: str, value: float) -> str | doc.Cell:
    """The number, or a dash where there is none."""
    return doc.number(value, text) if math.isfinite(value) else "-"


def _as_is(answer: Answer) -> str:
    """How the speed without speculation reaches the one of the question."""
    asked = answer.question.tokens_per_s
    plain = answer.sensitivity[0].tokens_per_s[1]
    if asked <= plain:
        return f"As is: {plain:,.0f}, more than the {asked:,.0f} of the question."
    return (
        f"As is: {plain:,.0f}, times {asked / plain:.2f} accepted tokens a pass = {asked:,.0f} "
        "of the question."
    )


def _hidden(answer: Answer) -> Iterator[doc.Block]:
    """Why a speed that reads a quantity may still not identify it."""
    posterior = answer.posterior
    marginals = posterior.marginals if posterior is not None and posterior.possible else {}
    low, high = answer.question.speculation
    read = [
        row.quantity
        for row in answer.sensitivity
        if reads(row)
        and row.quantity in marginals
        and not marginals[row.quantity].given
        and marginals[row.quantity].speed_bits < 1.0
    ]
    if not read or high == low:
        return
    bits = " and ".join(f"{marginals[q].speed_bits:.1f} bits of the {NAMES[q]}" for q in read)
    told = posterior.told_by if posterior is not None else "speed"
    yield doc.Paragraph(
        f"If all else were known, the speed would tell the "
        f"{listed([NAMES[q] for q in read])}. It is not: the {told} taught only {bits}, "
        "because the unknown gain of speculative decoding changes it as much.",
        where=doc.PAGE,
    )


def _map(answer: Answer) -> doc.TextMap:
    depths, totals = totals_by_depth(answer.region)
    return doc.TextMap(
        "Feasible total parameters over layers",
        tuple(totals),
        depths.tolist(),
        [low.tolist() for low, _ in totals.values()],
        [high.tolist() for _, high in totals.values()],
        "layers",
        "each also holds what the marks before it hold",
        doc.EXPLAIN,
    )


def _constraints(answer: Answer) -> Iterator[doc.Block]:
    known = kinds(answer.question)
    rows = [
        (c.name, doc.Cell((doc.Span(known[c.name], f"chip {known[c.name]}"),)), c.text)
        for c in constraints(answer.question)
    ]
    where = doc.EXPLAIN | doc.PAGE
    table = doc.Table("Constraints", ("what", "kind", "why"), rows, "plp", where)
    yield doc.Section("Constraints", [table], where, folded=True)


def _sources(answer: Answer) -> Iterator[doc.Block]:
    question = answer.question
    # A price plays no part in an answer that did not ask for one.
    silent = () if question.price_per_hour is not None else ("price.", "compute.peak")
    where = PLUS if answer.feasible else doc.PAGE
    if not answer.feasible:
        yield doc.Later(lambda: _constraints(answer))
    sources = doc.Later(lambda: provenance(question.hardware, where, silent), where)
    yield doc.Section("Sources", [sources], where, folded=True)
