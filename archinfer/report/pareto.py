"""Deployments of a model as a document, rows and a picture: the cheapest first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from archinfer.forward.deployments import Choice, Found, Pareto, Plan
from archinfer.forward.predict import SERVER
from archinfer.hardware.profile import Hardware
from archinfer.report import chart
from archinfer.report import document as doc
from archinfer.report.predict_model import assumed
from archinfer.units import format_quantity
from archinfer.words import change, counted, figure, listed, percent, seconds, speed, speeds

COLUMNS = (
    "hardware", "weights", "nodes", "copies", "tensor_parallel=mapping.tensor_parallel",
    "stages=mapping.stages", "users", "tokens_per_s_per_user_p05=tokens_per_s_per_user.p05",
    "tokens_per_s_per_user_p50=tokens_per_s_per_user.p50",
    "tokens_per_s_per_user_p95=tokens_per_s_per_user.p95",
    "tokens_per_s_per_node_p50=tokens_per_s_per_node.p50",
    "time_to_first_token_s_p50=time_to_first_token_s.p50", "dollars_per_hour",
    "dollars_per_million_output_tokens", "dollars_per_million_tokens", "joules_per_token",
    "power_w", "power_basis", "memory_fraction", "limit", "misses_by", "chance",
)  # fmt: skip

HEADINGS = (
    "hardware", "weights", "nodes", "copies x mapping", "users", "tokens/s a user 5<50<95 %",
    "a node", "first token", "$/M out", "$/M all", "J/token", "W a node", "limit",
)  # fmt: skip
ALIGN = "llrrrrrrrrrrl"
DROP = (
    "weights", "$/M all", "W a node", "copies x mapping", "limit", "J/token", "first token",
    "$/M out", "users",
)  # fmt: skip
BEST = ("", *HEADINGS, "$/M out 5<95 %", "target met")
FEW = 8
"""Deployments of a front that a terminal shows."""

csv_rows = doc.rows_of(COLUMNS, lambda found: found.deployments)


def document(found: Pareto) -> doc.Document:
    """The answer first, then each machine's best, then the fronts."""
    plan = found.question
    blocks: list[doc.Block] = [doc.Paragraph(_asked(plan), where=doc.ALL)]
    if plan.aims or not found.deployments:
        blocks.append(doc.Paragraph(answer(found), "strong", doc.ALL))
        if found.what_would_help:
            blocks.append(_help(found))
        blocks.append(doc.Section("The best of each machine", list(best(found))))
    fronts = [_front(f) for f in found.machines if f.front]
    blocks.append(doc.Section("Speed against throughput", fronts))
    if found.deployments:
        pictures = doc.Pictures(lambda: pareto_chart(found).panels, "picture")
        blocks.append(doc.Section("Picture", [pictures], doc.PAGE))
    blocks += [_assumed(found), doc.Paragraph(_reading(found), where=doc.ALL)]
    return doc.Document(
        f"Deployments of {found.model} on {listed([f.hardware.name for f in found.machines])}",
        blocks,
    )


def _asked(plan: Plan) -> str:
    fewest, last = plan.nodes
    parts = [
        f"{plan.prompt_tokens:,} tokens of prompt and {plan.output_tokens:,} of answer (half of it "
        f"written: {plan.context_tokens:,} of context)",
        "any number of users" if plan.users is None else counted(plan.users, "user"),
        counted(last, "node") if fewest == last else f"{fewest:,} to {last:,} nodes",
    ]
    if plan.target_tokens_per_s is not None:
        parts.append(f"at least {speed(plan.target_tokens_per_s)} tokens/s a user")
    if plan.time_to_first_token_s is not None:
        parts.append(f"first token within {seconds(plan.time_to_first_token_s)}")
    if plan.max_dollars_per_million_output_tokens is not None:
        parts.append(f"at most ${plan.max_dollars_per_million_output_tokens:g} a million out")
    if plan.aims and plan.confidence != 0.5:
        parts.append(f"with a probability of {percent(plan.confidence)}")
    return "; ".join(parts) + "."


def _where(c: Choice) -> str:
    node = counted(c.nodes, f"{c.hardware.name} {c.hardware.node}") + _servers(c)
    copies = "" if c.copies == 1 else f" in {c.copies:,} copies"
    return f"{node}{copies} ({_mapping(c)}, {c.weights})"


def _servers(c: Choice) -> str:
    """Whole servers, or wider domains, that the nodes are."""
    held = 0.0 if c.hardware.spatial else c.hardware.scale_up_size
    if held <= 1.0 or c.nodes % held:
        return ""
    noun = "server" if held <= SERVER else f"scale-up domain of {held:.0f}"
    return f" ({counted(c.nodes / held, noun)})"


def _mapping(c: Choice) -> str:
    copies = "" if c.copies == 1 else f"{c.copies:,} x "
    return f"{copies}{c.mapping.text}"


def _does(c: Choice) -> str:
    """What a deployment does, in one sentence's part."""
    first = c.time_to_first_token_s.p50
    parts = [f"{speeds(*c.tokens_per_s_per_user)} tokens/s for each of {counted(c.users, 'user')}"]
    if not math.isnan(c.chance):
        parts[0] += f" (target met with a probability of {percent(c.chance)})"
    parts.append("first token not known" if math.isnan(first) else f"first token {seconds(first)}")
    if not math.isnan(c.dollars_per_million_output_tokens):
        low, high = map(figure, c.dollars_range)
        cost = figure(c.dollars_per_million_output_tokens)
        parts.append(f"${cost} ({low} to {high}) a million output tokens")
        parts.append(f"${figure(c.dollars_per_hour, 4)} an hour")
    return ", ".join(parts)


def answer(found: Pareto) -> str:
    """The cheapest deployment, or the nearest miss, in words."""
    if found.cheapest is not None:
        priced = not math.isnan(found.cheapest.dollars_per_million_output_tokens)
        what = "Cheapest that meets it" if priced else "Most for its nodes of those that meet it"
        return f"{what}: {_where(found.cheapest)}: {_does(found.cheapest)}."
    if found.nearest is None:
        return (
            "Nothing holds the model and the caches of its users on these nodes: --nodes sets how "
            "many there are, --users and --weights what they hold."
        )
    missed = found.nearest.misses_by
    by = f"by a factor of {figure(missed)}" if math.isfinite(missed) else "in something not known"
    told = f"{_where(found.nearest)}: {_does(found.nearest)}"
    return f"Nothing meets it. The nearest misses {by}: {told}."


def _help(found: Pareto) -> doc.Table:
    rows = [(c.text, doc.number(c.gain, change(c.gain))) for c in found.what_would_help[:5]]
    return doc.Table("What would help the nearest", ("", "speed"), rows, "pr", doc.ALL)


def best(found: Pareto) -> Iterator[doc.Block]:
    """The cheapest and the fewest nodes of each machine, or its nearest miss."""
    named = (("cheapest", "cheapest"), ("fewest", "fewest nodes"), ("nearest", "nearest miss"))
    rows = [
        (word, *_cells(choice), *_sure(choice))
        for f in found.machines
        for name, word in named
        if (choice := getattr(f, name)) is not None
        and (name == "cheapest" or f.cheapest is None or choice.nodes < f.cheapest.nodes)
    ]
    if rows:
        title = "The best of each machine"
        drop = (*DROP[:6], BEST[-2], *DROP[6:])
        yield doc.Table(title, BEST, rows, "l" + ALIGN + "rr", doc.ALL, drop=drop)
    last = found.question.nodes[1]
    edge = [
        f.hardware.name
        for f in found.machines
        if (choice := f.cheapest or f.nearest) is not None and choice.nodes == last
    ]
    if edge:
        yield doc.Paragraph(
            f"With all {last:,} nodes that were looked at, so more may do better (--nodes): "
            f"{listed(edge)}.",
            where=doc.ALL,
        )
    lost = [f.hardware.name for f in found.machines if not f.front]
    if lost:
        yield doc.Paragraph(
            f"On these nodes nothing holds the load: {listed(lost)}.", where=doc.ALL
        )


def _front(found: Found) -> doc.Table:
    title = f"{found.hardware.name}: not beaten in both speed of a user and of a node"
    rows = [_cells(c)[1:] for c in found.front]
    kept = _thinned(rows, FEW)
    return doc.Table(title, HEADINGS[1:], kept, ALIGN[1:], doc.ALL, drop=DROP, sortable=True)


def _thinned(rows: Sequence[Any], most: int) -> list[Any]:
    """At most so many rows, first and last among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def _cells(c: Choice) -> list[str | doc.Cell]:
    first, made = c.time_to_first_token_s.p50, c.tokens_per_s_per_node.p50
    basis = "" if c.power_basis == "activity" else " (nameplate)"
    joules = figure(c.joules_per_token) + (basis if math.isfinite(c.joules_per_token) else "")
    watts, dollars = c.power_w / c.nodes, c.dollars_per_million_output_tokens
    return [
        c.hardware.name,
        c.weights,
        doc.number(c.nodes, f"{c.nodes:,}"),
        _mapping(c),
        doc.number(c.users, f"{c.users:,}"),
        doc.number(c.tokens_per_s_per_user.p50, speeds(*c.tokens_per_s_per_user)),
        doc.number(made, speed(made)),
        doc.number(first, "-" if math.isnan(first) else seconds(first)),
        doc.number(dollars, figure(dollars)),
        doc.number(c.dollars_per_million_tokens, figure(c.dollars_per_million_tokens)),
        doc.number(c.joules_per_token, joules),
        doc.number(watts, "-" if math.isnan(watts) else f"{watts:,.0f}"),
        c.limit,
    ]


def _sure(c: Choice) -> list[str | doc.Cell]:
    """How sure cost and target are."""
    low, high = c.dollars_range
    span = "-" if math.isnan(low) else f"{figure(low)} < {figure(high)}"
    met = "-" if math.isnan(c.chance) else percent(c.chance)
    return [doc.number(low, span), doc.number(c.chance, met)]


def _price(hardware: Hardware) -> str:
    """What a node costs, and by what power."""
    rent, bought = hardware.price_dollars_per_hour, hardware.price_dollars
    used = "price.rent" if math.isfinite(rent) else "price.purchase"
    guessed = any(f.estimate for f in hardware.figures if f.key == used)
    sure = " (an estimate)" if guessed else ""
    if math.isfinite(rent):
        return f"{format_quantity(rent, 'dollars_per_hour')}{sure} rent"
    if math.isfinite(bought):
        return (
            f"{format_quantity(bought, 'dollars')}{sure} over {hardware.life_years:g} years and "
            f"power at {hardware.dollars_per_kwh:g} USD/kWh"
        )
    return f"not known (--price {hardware.name}=...)"


def _assumed(found: Pareto) -> doc.Table:
    served = [(f.hardware, f.deployment) for f in found.machines]
    return assumed(served, "price of a node", _price, doc.ALL)


def _reading(found: Pareto) -> str:
    plan = found.question
    return (
        "Prices have sources (archinfer hardware show NAME), for nodes in use "
        f"{percent(plan.utilisation)} of the time; they count as exact: ranges of dollars are "
        "those of speed. $/M out: for a million output tokens, their prompts included; $/M all: "
        "the same over prompts and answers at "
        f"{plan.prompt_tokens:,} to {plan.output_tokens:,}. "
        "J/token: energy of an output token from idle power and that of bytes and FLOPs, without "
        "the rest of the servers; (nameplate): from the most that a node with its share of the "
        "system draws. Speeds are 5 % < 50 % < 95 %."
    )


def pareto_chart(found: Pareto) -> chart.Chart:
    """Tokens/s of one user against tokens/s of one node, and against dollars, by machine."""
    machines = [f for f in found.machines if f.front]
    names = listed([f.hardware.name for f in machines])
    speeds_ = [c.tokens_per_s_per_user.p50 for c in found.deployments]
    x_axis = chart.around("tokens/s of one user", speeds_)
    target = found.question.target_tokens_per_s
    panels = []
    for title, label, value, corner in (
        ("Speed of a user against throughput", "output tokens/s of one node", _per_node,
         "lower left"),
        ("What a token costs", "USD for a million output tokens", _dollars, "upper left"),
    ):  # fmt: skip
        drawn: list[chart.Line] = []
        for f in machines:
            points = [(c.tokens_per_s_per_user.p50, value(c)) for c in f.front]
            x, y = zip(*[(0.0, 0.0), *(p for p in points if math.isfinite(p[1]))], strict=True)
            drawn.append((f.hardware.name, x[1:], y[1:], ()))
        ends = [v for line in drawn for v in line[2]]
        if not ends:
            continue
        y_axis = chart.around(label, ends, 1.5)
        marks = chart.lines(drawn, 2.5)
        if target is not None and x_axis.low < target < x_axis.high:
            line = chart.Curve([target, target], [y_axis.low, y_axis.high], "grey", (2.0, 2.0), 1.0)
            marks.append(line)
        text = f"{title} of {found.model} on {names}."
        panels.append(chart.Panel(title, text, x_axis, y_axis, tuple(marks), corner))
    rows = "; ".join(", ".join(map(str, filter(None, row))) for row in _assumed(found).rows)
    caption = f"Assumed: {rows}. {_reading(found)}"
    return chart.Chart(f"{found.model} on {names}", (tuple(panels),), caption)


def _per_node(choice: Choice) -> float:
    return float(choice.tokens_per_s_per_node.p50)


def _dollars(choice: Choice) -> float:
    return float(choice.dollars_per_million_output_tokens)
