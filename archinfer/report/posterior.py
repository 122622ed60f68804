"""What an observed speed says, as blocks of the answer's document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from archinfer.inference.batch import QUANTITIES
from archinfer.inference.comparison import Comparison
from archinfer.inference.modes import Levels
from archinfer.inference.operations import operations
from archinfer.inference.posterior import Marginal, Posterior
from archinfer.inference.statistics import quantiles
from archinfer.report import document as doc
from archinfer.report.ends import identified_words
from archinfer.report.posterior_chart import posterior_panels
from archinfer.units import plain_number
from archinfer.words import QUANTITIES_IN_USE, SIZES, compact, counted, percent

FACTS_SHOWN = 2
FULL = doc.EXPLAIN | doc.PAGE | doc.MARKDOWN
TITLE = "Probabilities over models like those built today, and bits taught (nodes, {})"
FACTS_TITLE = "Which fact would narrow it (90 % interval as a factor, now and expected then)"
COMPARISON_TITLE = "Against models whose shape is known"
READING = (
    "Dashed: before, models like the open ones of today on any number of nodes. Blue area: "
    "what nodes and observations leave, with its median and 90 % interval above. "
    "Where both look alike, the observation taught nothing."
)
HEADINGS = (
    "", "5 %", "25 %", "50 %", "75 %", "95 %", "bits", "nodes", "{}", "verdict",
)  # fmt: skip
MODES_TITLE = "By layers in the fullest {}: probability, and 90 % ranges within"
MODES_HEADINGS = ("", "probability", *(SIZES.get(q, QUANTITIES_IN_USE[q]) for q in QUANTITIES))
TAKEN_TITLE = "What else the probabilities take: 5 % < 50 % < 95 %, or each with its probability"
_SIZES = QUANTITIES[:3]
BOTH_LEAST = 0.02
"""Probability of speculation, and of none, from which on their medians are told apart."""
DEEPER_LEAST = 0.25
"""Probability beyond the habits of depth from which on it is said."""
ALTERNATIVES_TITLE = "What the answer rests on: medians (and widths of 90 %) if one assumed instead"
ALTERNATIVES = ("", *SIZES.values())
CHANCES = {
    "larger": "more active parameters",
    "more parameters": "more parameters in all",
    "deeper": "more layers",
}


CAUSES = {
    "depth": "depth",
    "active bytes": "bytes to read",
    "links": "crossings of links",
    "queue": "waiting for other users",
    "speculation": "gain by speculation",
}
"""Causes of `archinfer.inference.comparison` that are more or less of something."""


def blocks(posterior: Posterior, comparisons: Sequence[Comparison]) -> Iterator[doc.Block]:
    """The posterior, what would narrow it, and how the model compares with known ones."""
    if posterior.possible:
        yield from _found(posterior)
    else:
        yield doc.Paragraph(f"No probability statement: {posterior.reason}.", where=doc.ALL)
    if comparisons:
        lines = [line for comparison in comparisons for line in comparison_text(comparison)]
        yield doc.Items(lines, COMPARISON_TITLE, doc.ALL)


def _found(posterior: Posterior) -> Iterator[doc.Block]:
    told = posterior.told_by
    drop: Sequence[str] = ("25 %", "75 %", "nodes", told, "bits")
    headings = [heading.format(told) for heading in HEADINGS]
    yield doc.Table(
        TITLE.format(told),
        headings,
        _rows(posterior),
        "prrrrrrrrw",
        doc.ALL,
        drop=drop,
    )
    if len(posterior.modes) > 1:
        title = MODES_TITLE.format(posterior.question.hardware.node)
        rows = _modes(posterior)
        drop = MODES_HEADINGS[:2:-1]
        yield doc.Table(title, MODES_HEADINGS, rows, "prrrrr", doc.ALL, drop=drop)
    yield doc.Paragraph(likeliest_text(posterior), where=FULL)
    more: list[doc.Block] = [
        doc.Later(lambda: _rests_on(posterior), FULL),
        doc.Table(TAKEN_TITLE, ("", ""), [*taken(posterior)], "ww", FULL),
        doc.Paragraph(bits_text(posterior), where=FULL, tight=True),
        doc.Paragraph(nodes_text(posterior), where=FULL),
    ]
    yield doc.Section("What these probabilities rest on", more, FULL, folded=True)
    yield doc.Paragraph(READING, where=doc.PAGE)
    yield doc.Pictures(
        lambda: posterior_panels(posterior, legend=False), "posterior", layout="four"
    )
    if not posterior.pieces:
        lines = [*verdicts(posterior), *plain_or_speculated(posterior)]
        yield doc.Items(lines, FACTS_TITLE, doc.ALL)
    for note in notes(posterior):
        yield doc.Paragraph(f"Note: {note}.", where=doc.ALL)


def _rows(posterior: Posterior) -> list[Sequence[str]]:
    """Quantiles of each quantity and what taught them."""
    return [
        (
            SIZES.get(name, name),
            *(compact(v) for v in (m.p05, m.p25, m.p50, m.p75, m.p95)),
            f"{m.information_bits:.1f}",
            f"{m.nodes_bits:.1f}",
            f"{m.speed_bits:.1f}",
            "given" if m.given else identified_words(m).replace("within ", "").replace("the ", ""),
        )
        for name, m in posterior.marginals.items()
    ]


def _modes(posterior: Posterior) -> list[Sequence[str]]:
    """Each hump with its probability and its own 90 % ranges."""

    def ends(name: str, one: Levels) -> str:
        low, high = one.p05, one.p95
        if name in ("layers", "nodes"):
            low, high = math.floor(low), math.ceil(high)
        return f"{compact(low)} to {compact(high)}"

    return [
        (
            mode.layers_per_node,
            percent(mode.probability),
            *(ends(name, getattr(mode, name)) for name in QUANTITIES),
        )
        for mode in posterior.modes
    ]


def _rests_on(posterior: Posterior) -> Iterator[doc.Block]:
    if posterior.alternatives:
        rows = _alternatives(posterior)
        yield doc.Table(ALTERNATIVES_TITLE, ALTERNATIVES, rows, "wrrr", FULL)


def _alternatives(posterior: Posterior) -> list[Sequence[str]]:
    """Median and width under each other assumption, the answer's own first."""

    def cell(one: Levels | Marginal | None) -> str:
        if one is None:
            return "nothing fits"
        return f"{compact(one.p50, 2)} (x {plain_number(one.p95 / one.p05, 2)})"

    own = [posterior.marginals[q] for q in _SIZES]
    return [
        ("as above", *(cell(m) for m in own)),
        *((a.assumption, *(cell(getattr(a, q)) for q in _SIZES)) for a in posterior.alternatives),
    ]


def likeliest_text(posterior: Posterior) -> str:
    """The likeliest architecture, its numbers belonging together."""
    one = posterior.most_likely
    assert one is not None
    node = posterior.question.hardware.node
    kind = f"{compact(one.active_params, 2)} active" if one.mixture_of_experts else "dense"
    return (
        f"Most likely, as one architecture: {compact(one.total_params, 2)} parameters, {kind}, "
        f"{counted(one.layers, 'layer')} {compact(one.hidden_size, 2)} wide, {one.attention}, on "
        f"{counted(one.nodes, node)} in {one.weights}; {one.accepted_tokens:.2g} accepted tokens a "
        f"pass, {counted(one.concurrency, 'user')} of {compact(one.held_context_tokens, 1)} tokens."
    )


def taken(posterior: Posterior) -> Iterator[tuple[str, str]]:
    """What is taken of all that nobody has stated: names with ranges or probabilities."""

    def ends(of: Levels) -> str:
        low, middle, high = map(compact, (of.p05, of.p50, of.p95))
        return low if low == high else f"{low} < {middle} < {high}"

    question = posterior.question
    source = "as given" if question.speculation[0] == question.speculation[1] else "a range"
    if posterior.law is not None:
        source = "the profile's law of speculation, net of drafting"
    for name, levels in (
        ("accepted tokens a pass", posterior.accepted_tokens),
        ("users at once", posterior.users),
        ("tokens of context each", posterior.held_context_tokens),
        ("active without embedding and head", posterior.active_in_layers),
        ("vocabulary", posterior.vocabulary),
    ):
        assert levels is not None
        said = f" ({source})" if name.startswith("accepted") else ""
        yield name, ends(levels) + said
    tied = posterior.tied_probability
    for name, shares in (
        ("weights", posterior.weights_probability),
        ("attention", posterior.attention_probability),
        ("software", posterior.software_probability),
        (f"layers a {question.hardware.node}", posterior.layers_per_node_probability),
        ("head", {"tied": tied, "of its own": 1.0 - tied}),
    ):
        if shares:
            yield name, ", ".join(f"{one}: {percent(p)}" for one, p in shares.items())
    yield "effective sample size", f"{posterior.ess:,.0f}"


def notes(posterior: Posterior) -> list[str]:
    """What to know before the posterior is trusted, without full stops."""
    habits = posterior.question.habits
    found = []
    deepest = math.inf if habits is None else habits.layers[1]
    deeper = float(posterior.weights[posterior.draws.layers > deepest].sum())
    if deeper >= DEEPER_LEAST:
        found.append(
            f"{percent(deeper)} of it is deeper than the {deepest:.0f} layers of habit: "
            "large models may be"
        )
    return [*found, *posterior.warnings]


def plain_or_speculated(posterior: Posterior) -> Iterator[str]:
    """Why a faster speed need not mean fewer active parameters: speculation may have made it."""
    draws, weights = posterior.draws, posterior.weights
    used = draws.speculates > 0.0
    share = float(weights[used].sum())
    if not BOTH_LEAST < share < 1.0 - BOTH_LEAST:
        return
    middles = [
        float(quantiles(draws.active_params[mine], weights[mine] / weights[mine].sum(), (0.5,))[0])
        for mine in (used, ~used)
    ]
    yield (
        "speculation may have made the speed: "
        f"{compact(middles[0], 2)} active with it ({percent(share)}), "
        f"{compact(middles[1], 2)} without"
    )


def bits_text(posterior: Posterior) -> str:
    """What a bit is here, and why bits do not add up."""
    return (
        "Bits: what the evidence taught about a quantity beyond the prior. One halves what is "
        "plausible; with less than one a width is mostly the prior's. The quantities depend on "
        "each other, so their bits do not add up; about everything at once, speculation, formats "
        f"and users included, the {posterior.told_by} taught {posterior.speed_bits:.1f}."
    )


def nodes_text(posterior: Posterior) -> str:
    """What the prior assumes of the nodes: a belief about operators, not a measurement."""
    hardware = posterior.question.hardware
    nodes = f"{hardware.node}s"
    if not hardware.spatial:
        return (
            f"Nodes: any number of {nodes} that holds the model is taken as likely as another, so "
            "they tell of the total only what fits."
        )
    low, high = operations().utilisation
    return (
        f"Nodes: operators are taken to fill their {nodes}, needing {100 * low:.0f} to "
        f"{100 * high:.0f} % of those in use and leaving few idle. This is assumed, not "
        f"measured: what is said to be told by nodes is wrong where {nodes} stand half empty."
    )


def verdicts(posterior: Posterior) -> list[str]:
    """Sentences: how wide each quantity is left, and which fact would narrow each quantity most."""
    lines = []
    for name, m in posterior.marginals.items():
        facts = [n for n in posterior.what_would_narrow if n.quantity == name]
        if m.given or not facts:
            continue
        width = m.p95 / m.p05
        best = [f for f in facts if f.width_after < 0.95 * width][:FACTS_SHOWN]
        told = (
            ", ".join(f"{f.fact} x {plain_number(f.width_after, 2)}" for f in best)
            if best
            else "none of the facts considered helps much"
        )
        lines.append(
            f"{SIZES.get(name, QUANTITIES_IN_USE[name])} (x {plain_number(width, 2)}): {told}"
        )
    return lines


def comparison_text(comparison: Comparison) -> list[str]:
    """Why the observed model has another speed than a known one, in sentences."""
    ratio = comparison.speed_ratio
    slower = ratio >= 1.0
    causes = sorted(comparison.main_cause.items(), key=lambda item: -item[1])
    chances = ", ".join(
        f"{CHANCES.get(name, name)} {percent(p)}" for name, p in comparison.probability.items()
    )
    parts = ", ".join(
        f"{name} x {f if slower else 1.0 / f:.2f}"
        for name, f in comparison.factor.items()
        if abs(f - 1.0) > 0.005
    )
    first, chance = causes[0]
    times = plain_number(ratio if slower else 1.0 / ratio, 2)

    def cause(name: str) -> str:
        if name not in CAUSES:
            return "something that the cost model does not know"
        # Less speculation makes a model slower, less of anything else faster.
        more = slower != (name == "speculation")
        return f"{'more' if more else 'less'} {CAUSES[name]}"

    return [
        f"{comparison.reference} answers at "
        f"{plain_number(comparison.reference_tokens_per_s, 4)} tokens/s, "
        f"{times} times as {'fast' if slower else 'slow'}.",
        f"Main cause: {cause(first)} with {percent(chance)}"
        + "".join(f", {cause(name)} with {percent(p)}" for name, p in causes[1:3] if p > 0.02)
        + f". By factors: {parts}.",
        f"Compared with it: {chances}.",
    ]
