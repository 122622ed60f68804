"""Predictions as a document: one model in full, or several side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator

from archinfer.report import document as doc
from archinfer.report.predict_chart import panels, times_s
from archinfer.report.predict_model import (
    Row,
    about,
    answers,
    changes,
    decoding,
    full,
    layers_text,
    least,
    notes,
    time_table,
    usual,
)
from archinfer.report.sources import provenance
from archinfer.words import compact, counted, load, percent, seconds, size, speed, speeds

COLUMNS = (
    "model", "hardware", "total_params=parameters.total", "active_params=parameters.active",
    "layers", "weights", "fits", "nodes", "nodes_used", "min_nodes", "layers_per_node",
    "tensor_parallel", "tokens_per_s_p05=tokens_per_s.p05", "tokens_per_s_p50=tokens_per_s.p50",
    "tokens_per_s_p95=tokens_per_s.p95",
    "tokens_per_s_without_speculation=tokens_per_s_without_speculation.p50", "time_s=time_s.total",
    "memory_bytes=memory_bytes.total", "memory_fraction", "bottleneck",
)  # fmt: skip

csv_rows = doc.rows_of(COLUMNS, lambda rows: [row.record for row in rows])


def document(rows: list[Row], overrides: tuple[str, ...] = ()) -> doc.Document:
    """What `archinfer predict` found of models on one machine, with figures set by hand."""
    many = len(rows) > 1
    hardware = rows[0].result.hardware
    assumed = doc.Paragraph(assumptions(rows[0], overrides))
    fitting = [row for row in rows if row.result.fits]
    blocks: list[doc.Block] = [doc.Lead([_sentence(row) for row in rows])]
    if many:
        blocks.append(assumed)
    else:
        blocks += [doc.Paragraph(about(rows[0]), tight=True), assumed]
    blocks.append(doc.Section("Speed, nodes and memory", _in_short(rows, fitting)))
    if fitting:
        pictures = doc.Pictures(lambda: panels(rows), "picture")
        blocks.append(doc.Section("Pictures", [pictures], doc.PAGE))
    blocks.append(doc.Section("Time of one pass by term", list(_times(fitting, many)), folded=many))
    if many:
        models = [
            doc.Section(row.name, list(full(row, doc.PAGE)), doc.PAGE, folded=True) for row in rows
        ]
        blocks.append(doc.Section("The models", models, doc.PAGE))
    else:
        help_ = list(changes(rows[0].result, doc.SHOWN))
        blocks.append(doc.Section("What would help", help_))
        blocks.append(doc.Section("Notes", list(notes(rows[0], doc.SHOWN))))
    sources = doc.Later(
        lambda: provenance(hardware, doc.EXPLAIN | doc.PAGE), doc.EXPLAIN | doc.PAGE
    )
    blocks.append(doc.Section("Sources", [sources], doc.EXPLAIN | doc.PAGE, folded=True))
    who = f"{len(rows)} models" if many else rows[0].name
    return doc.Document(
        _title_of_many(rows) if many else f"{rows[0].name} on {_where(rows[0])}",
        blocks,
        page_title=f"How fast: {who} on {hardware.name}",
    )


def _title_of_many(rows: list[Row]) -> str:
    hardware, nodes = rows[0].result.hardware, rows[0].result.deployment.nodes
    count = "the fewest nodes that hold each" if nodes is None else f"{nodes:,} {hardware.node}s"
    return f"{len(rows)} models on {hardware.name}, {count}"


def _where(row: Row) -> str:
    """The nodes of one model."""
    p = row.result
    node = f"{p.hardware.name} {p.hardware.node}"
    if row.depths is not None and p.deployment.nodes is None and p.fits:
        low, high = row.depths.nodes
        return f"{low:,.0f} to {high:,.0f} {node}s (the fewest that hold it)"
    chosen = "the fewest that hold it" if p.fits else "no number of them is enough"
    if p.fits and p.nodes > p.min_nodes:
        chosen = f"{p.min_nodes:,.0f} hold it, which software does not share layers over"
    forced = p.deployment.forced(p.shape.layers) is not None
    asked = "" if p.deployment.nodes is not None or forced else f" ({chosen})"
    return f"{counted(int(p.nodes), node)}{asked}"


def _sentence(row: Row) -> str:
    p = row.result
    count = counted(int(p.nodes), p.hardware.node)
    if not p.fits:
        return f"{row.name} does not fit on {count}: {p.limit}."
    low, middle, high = row.plain_speed
    text = (
        f"{row.name} on {count}: {speed(middle)} tokens/s for one user without speculation "
        f"(90 % interval {speed(low)} to {speed(high)}). What limits it most: {p.bottleneck}, "
        f"that is {p.limit}."
    )
    asked = p.deployment
    low, middle, high = row.speed
    if asked.law is not None:
        text += (
            f" With what is known of its services' speculation: {speed(middle)} "
            f"({speed(low)} to {speed(high)})."
        )
    elif asked.accepted_high > 1.0:
        text += (
            f" Speculative decoding that gains {asked.accepted_low:g} to "
            f"{asked.accepted_high:g} tokens a pass: about {speed(middle)}, up to {speed(high)}."
        )
    return text


def assumptions(row: Row, overrides: tuple[str, ...]) -> str:
    """What was assumed, in one paragraph."""
    asked = row.result.deployment
    text, software = decoding(row.result.hardware, asked)
    parts = [
        load(asked.context_tokens, asked.concurrency),
        f"{asked.kv} KV cache",
        text + (f"; software {software}" if software else ""),
        *(f"{change} (set by hand)" for change in overrides),
    ]
    return "; ".join(parts) + "."


def _in_short(rows: list[Row], fitting: list[Row]) -> list[doc.Block]:
    """Speed, nodes and memory: a table of models, and of one model the words."""
    many = len(rows) > 1
    table = _table(rows, (doc.ALL if many else doc.MARKDOWN | doc.PAGE))
    if not many:
        return [table, *_how_sure(fitting), *answers(rows[0], doc.SHOWN)]
    lost = [
        doc.Paragraph(f"{r.name} does not fit: {r.result.limit}.", where=doc.SCREEN, tight=True)
        for r in rows
        if not r.result.fits
    ]
    return [table, *_how_sure(fitting), *lost]


HEADINGS = (
    "model", "total", "active", "layers", "weights", "nodes", "least", "tokens/s 5<50<95 %",
    "plain", "memory", "full", "limit",
)  # fmt: skip
DROP = (
    "memory", "full", "layers", "weights", "least", "limit", "plain", "total", "nodes", "active",
)  # fmt: skip


def _table(rows: list[Row], where: doc.Where) -> doc.Table:
    return doc.Table(
        "least: fewest nodes; plain: without speculation; full: the fullest node",
        HEADINGS,
        [_cells(row) for row in rows],
        "lrrrlrrrrrrl",
        where,
        drop=DROP,
        sortable=len(rows) > 1,
    )


def _cells(row: Row) -> list[str | doc.Cell]:
    p = row.result
    idle = "" if p.nodes_used == p.nodes else f" of {p.nodes:.0f}"
    used = f"{p.nodes_used:.0f}{idle}"
    middle, plain = (row.speed[1], row.plain_speed[1]) if p.fits else (0.0, 0.0)
    return [
        row.name,
        doc.number(float(p.shape.total_params), compact(float(p.shape.total_params))),
        doc.number(float(p.shape.active_params), compact(float(p.shape.active_params))),
        doc.number(float(p.shape.layers), layers_text(row)),
        p.weights,
        doc.number(float(p.nodes_used), used),
        doc.number(float(p.min_nodes), least(p)),
        doc.number(middle, speeds(*row.speed) if p.fits else "does not fit"),
        doc.number(plain, f"{plain:,.0f}" if p.fits else "-"),
        doc.number(float(p.memory.total), size(float(p.memory.total))),
        doc.number(float(p.memory_fraction), percent(float(p.memory_fraction))),
        p.bottleneck,
    ]


def _how_sure(rows: list[Row]) -> Iterator[doc.Block]:
    if not rows:
        return
    spreads = [math.sqrt(row.plain_speed[2] / row.plain_speed[0]) for row in rows]
    low, high = f"{min(spreads):.2g}", f"{max(spreads):.2g}"
    factor = low if low == high else f"{low} to {high}"
    yield doc.Paragraph(
        f"How sure: without speculation a speed is right within a factor of {factor} either way "
        "(90 %), from the fitted constants and the model's own error.",
        where=doc.PAGE,
    )


def _times(fitting: list[Row], many: bool) -> Iterator[doc.Block]:
    where = doc.EXPLAIN | doc.PAGE if many else doc.SHOWN
    for row in fitting:
        p = row.result
        if many:
            yield doc.Paragraph(row.name, "strong", where, tight=True)
        depth = "" if row.depths is None else f" at {counted(float(p.shape.layers), 'layer')}"
        title = f"One pass takes {seconds(float(p.time.total))}{depth}{usual(p)}"
        yield time_table(title, times_s(p), where)
