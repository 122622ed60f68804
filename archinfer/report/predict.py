"""Predictions as a document: one model in full, or several side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from archinfer.forward.depths import DepthRange
from archinfer.forward.prediction import TERM_TEXTS, Change, Prediction, Predictions
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.report.document import (
    ALL,
    EXPLAIN,
    MARKDOWN,
    PAGE,
    SCREEN,
    SHOWN,
    Block,
    Cell,
    Document,
    Items,
    Later,
    Lead,
    Pairs,
    Paragraph,
    Pictures,
    Section,
    Table,
    Where,
    flatten,
    number,
)
from archinfer.report.predict_chart import panels, times_s
from archinfer.report.sources import provenance
from archinfer.words import compact, counted, seconds, size, span, speed, speeds

CHANGES_SHOWN = 5
DEPTHS_SHOWN = 7


@dataclass(frozen=True)
class Row:
    """One model's prediction with what to say about the model.

    Attributes:
        name: as the user knows it.
        result: the prediction; of the middle depth where layers are a range.
        depths: all depths, None where the layers are known.
        architecture: None where only totals are known.
        warnings, notes: about the model.
    """

    name: str
    result: Prediction
    depths: DepthRange | None = None
    architecture: Architecture | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def speed(self) -> tuple[float, float, float]:
        """Tokens/s with speculation."""
        low, middle, high = (self.depths or self.result).speed
        return float(low), float(middle), float(high)

    @property
    def plain_speed(self) -> tuple[float, float, float]:
        """Tokens/s without speculation."""
        low, middle, high = (self.depths or self.result).plain_speed
        return float(low), float(middle), float(high)

    @property
    def record(self) -> Prediction:
        """The prediction with its notes, over all depths."""
        found = self.result if self.depths is None else self.depths.prediction
        return replace(found, model=self.name, notes=self.notes)


def record(rows: list[Row], hardware: Hardware, overrides: tuple[str, ...]) -> Predictions:
    """The JSON document."""
    return Predictions(tuple(row.record for row in rows), overrides, hardware.provenance)


COLUMNS = (
    "model", "hardware", "total_params=parameters.total", "active_params=parameters.active",
    "layers", "weights", "fits", "nodes", "nodes_used", "min_nodes", "layers_per_node",
    "tensor_parallel", "tokens_per_s_p05=tokens_per_s.p05", "tokens_per_s_p50=tokens_per_s.p50",
    "tokens_per_s_p95=tokens_per_s.p95",
    "tokens_per_s_without_speculation=tokens_per_s_without_speculation.p50", "time_s=time_s.total",
    "memory_bytes=memory_bytes.total", "memory_fraction", "bottleneck",
)  # fmt: skip


def csv_rows(rows: list[Row]) -> list[list[Any]]:
    """Rows of full precision for CSV, headings first."""
    return flatten((row.record.to_dict() for row in rows), COLUMNS)


def document(rows: list[Row], overrides: tuple[str, ...] = ()) -> Document:
    """What `archinfer predict` found.

    Args:
        rows: one model each, on the same hardware.
        overrides: figures of the profile set by hand.
    """
    many = len(rows) > 1
    hardware = rows[0].result.hardware
    assumed = Paragraph(_assumptions(rows[0], overrides))
    fitting = [row for row in rows if row.result.fits]
    blocks: list[Block] = [Lead([_sentence(row) for row in rows])]
    if many:
        blocks.append(assumed)
    else:
        blocks += [Paragraph(_about(rows[0]), tight=True), assumed]
    blocks.append(Section("Speed, nodes and memory", _in_short(rows, fitting)))
    if fitting:
        pictures = Later(lambda: [Pictures(panels(rows), "picture")])
        blocks.append(Section("Pictures", [pictures], PAGE))
    blocks.append(Section("Time of one pass by term", list(_times(fitting, many))))
    if many:
        models = [Section(row.name, list(_model(row, PAGE)), PAGE) for row in rows]
        blocks.append(Section("The models", models, PAGE))
    else:
        blocks += _help(rows[0].result, SHOWN)
        blocks += _notes(rows[0], SHOWN)
    sources = Later(lambda: provenance(hardware, EXPLAIN | PAGE), EXPLAIN | PAGE)
    blocks.append(Section("Sources", [sources], EXPLAIN | PAGE))
    who = f"{len(rows)} models" if many else rows[0].name
    return Document(
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
    if asked.accepted_high > 1.0:
        _, middle, high = row.speed
        text += (
            f" Speculative decoding that gains {asked.accepted_low:g} to "
            f"{asked.accepted_high:g} tokens a pass: about {speed(middle)}, up to {speed(high)}."
        )
    return text


def _assumptions(row: Row, overrides: tuple[str, ...]) -> str:
    """What was assumed, in one paragraph."""
    asked = row.result.deployment
    low, high = asked.accepted_low, asked.accepted_high
    parts = [
        f"{asked.context_tokens:,} tokens of context, {counted(asked.concurrency, 'user')}",
        f"{asked.kv} KV cache",
        f"{span(low, high)} accepted token{'' if low == high == 1 else 's'} a pass",
        *(f"{change} (set by hand)" for change in overrides),
    ]
    return "; ".join(parts) + "."


def _about(row: Row) -> str:
    """The model in one paragraph."""
    p = row.result
    shape = p.shape
    parts = [
        f"{compact(float(shape.total_params), 4)} parameters, "
        f"{compact(float(shape.active_params), 4)} active",
        f"{_layers(row)} layers",
    ]
    weights = f"weights in {p.weights}"
    if row.architecture is not None:
        parts.append(f"hidden size {shape.hidden_size:.0f}")
        moe = row.architecture.moe
        if moe is not None:
            parts.append(f"{moe.top_k} of {moe.experts} experts")
        kinds = row.architecture.attention_kinds
        total = sum(kinds.values())
        parts += [k if n == total else f"{n} x {k}" for k, n in kinds.items()]
        weights += " (the model's own)" if p.deployment.weights is None else " (as asked)"
    return "; ".join([*parts, weights]) + "."


def _layers(row: Row) -> str:
    if row.depths is None:
        return f"{row.result.shape.layers:.0f}"
    low, high = row.depths.layers
    return f"{low:.0f} to {high:.0f}"


def _in_short(rows: list[Row], fitting: list[Row]) -> list[Block]:
    """Speed, nodes and memory: a table of models, and of one model the words."""
    many = len(rows) > 1
    table = _table(rows, (ALL if many else MARKDOWN | PAGE))
    if not many:
        return [table, *_how_sure(fitting), *_answers(rows[0], SHOWN)]
    lost = [
        Paragraph(f"{r.name} does not fit: {r.result.limit}.", where=SCREEN, tight=True)
        for r in rows
        if not r.result.fits
    ]
    return [table, *_how_sure(fitting), *lost]


def _table(rows: list[Row], where: Where) -> Table:
    headings = (
        "model", "total", "active", "layers", "weights", "nodes", "least", "tokens/s 5<50<95 %",
        "plain", "memory", "full", "limit",
    )  # fmt: skip
    return Table(
        "least: fewest nodes; plain: without speculation; full: the fullest node",
        headings,
        [_cells(row) for row in rows],
        "lrrrlrrrrrrl",
        where,
        drop=("memory", "full", "layers", "weights", "least"),
        sortable=len(rows) > 1,
    )


def _cells(row: Row) -> list[str | Cell]:
    p = row.result
    idle = "" if p.nodes_used == p.nodes else f" of {p.nodes:.0f}"
    used = f"{p.nodes_used:.0f}{idle}"
    middle, plain = (row.speed[1], row.plain_speed[1]) if p.fits else (0.0, 0.0)
    return [
        row.name,
        number(float(p.shape.total_params), compact(float(p.shape.total_params))),
        number(float(p.shape.active_params), compact(float(p.shape.active_params))),
        number(float(p.shape.layers), _layers(row)),
        p.weights,
        number(float(p.nodes_used), used),
        number(float(p.min_nodes), _least(p)),
        number(middle, speeds(*row.speed) if p.fits else "does not fit"),
        number(plain, f"{plain:,.0f}" if p.fits else "-"),
        number(float(p.memory.total), size(float(p.memory.total))),
        number(float(p.memory_fraction), f"{float(p.memory_fraction):.0%}"),
        p.bottleneck,
    ]


def _least(p: Prediction) -> str:
    return f"{p.min_nodes:.0f}" if math.isfinite(p.min_nodes) else "none"


def _how_sure(rows: list[Row]) -> Iterator[Block]:
    if not rows:
        return
    spreads = [math.sqrt(row.plain_speed[2] / row.plain_speed[0]) for row in rows]
    low, high = f"{min(spreads):.2g}", f"{max(spreads):.2g}"
    factor = low if low == high else f"{low} to {high}"
    yield Paragraph(
        f"How sure: without speculation a speed is right within a factor of {factor} either way "
        "(90 %), from the fitted constants and the model's own error.",
        where=PAGE,
    )


def _model(row: Row, where: Where) -> Iterator[Block]:
    """One of several models in full."""
    yield Paragraph(_about(row), where=where)
    yield from _answers(row, where)
    yield from _help(row.result, where)
    yield from _notes(row, where)


def _answers(row: Row, where: Where) -> Iterator[Block]:
    p = row.result
    if not p.fits:
        yield Paragraph(f"Does not fit: {p.limit}.", "strong", where)
    else:
        asked = p.deployment
        found = []
        if asked.accepted_high > 1.0:
            gain = span(asked.accepted_low, asked.accepted_high)
            found.append((f"tokens/s, {gain} accepted a pass", speeds(*row.speed)))
        found += [
            ("tokens/s without speculation", speeds(*row.plain_speed)),
            ("layout", _layout(p)),
            ("fewest nodes", _fewest(row)),
            ("limited by", f"{p.bottleneck} ({p.limit})"),
        ]
        yield Pairs(found, "(5 % < 50 % < 95 %, one user)", where)
    yield Paragraph(_memory(p), where=where)
    if row.depths is not None:
        yield _by_depth(row.depths, where)
        too_full = [other for other in row.depths.predictions if not other.fits]
        if p.fits and too_full:
            last = too_full[-1]
            yield Paragraph(f"With {last.shape.layers:.0f} layers: {last.limit}.", where=where)


def _layout(p: Prediction) -> str:
    """Which nodes hold what."""
    node = p.hardware.node
    held = int(p.mapping.layers_per_stage)
    text = counted(int(p.nodes_used), node)
    if p.nodes_used < p.nodes:
        text += f" of {int(p.nodes):,} in use"
    if p.hardware.spatial:
        text += f", {counted(held, 'layer')} on the fullest"
        if p.fits and math.isfinite(float(p.time.side)):
            text += f", regions {float(p.time.side):.0f} cores wide"
        return text
    stages = int(p.mapping.stages(p.shape.layers))
    plural = "" if stages == 1 else "s"
    group = int(p.mapping.tensor_parallel)
    layout = f"tp={group},pp={stages}"
    return f"{text}, {stages} stage{plural} of {group} ({layout}), {held} layers each"


def _fewest(row: Row) -> str:
    """The fewest nodes that hold the model."""
    node = row.result.hardware.node
    low, high = row.depths.min_nodes if row.depths else (row.result.min_nodes,) * 2
    if not math.isfinite(float(low)):
        return f"no number of {node}s holds it"
    count = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    layout = ""
    if row.depths is None and row.result.hardware.spatial:
        held = math.ceil(float(row.result.shape.layers) / float(low))
        layout = f" ({counted(held, 'layer')} each)"
    return f"{count} {node}{'' if high == 1 else 's'}{layout}"


def _memory(p: Prediction) -> str:
    m = p.memory
    held = float(m.kv_held(p.mapping.tensor_parallel))
    copies = ""
    if held > 1.001 * float(m.kv):
        copies = f" (with the copies on the nodes that share a layer: {size(held)})"
    return (
        f"Memory: weights {size(float(m.weights))}, KV cache {size(float(m.kv))}{copies}, "
        f"buffers {size(float(m.other))}; {float(p.memory_fraction):.0%} of what "
        f"the fullest {p.hardware.node} has."
    )


def _by_depth(depths: DepthRange, where: Where) -> Table:
    count = len(depths.predictions)
    few = min(count, DEPTHS_SHOWN)
    picked = sorted({round(i * (count - 1) / max(few - 1, 1)) for i in range(few)})
    rows = [
        (
            f"{p.shape.layers:.0f}",
            compact(float(p.shape.hidden_size)),
            f"{p.nodes_used:.0f}",
            _least(p),
            speeds(*(float(v) for v in p.speed)) if p.fits else "does not fit",
            f"{p.plain_speed[1]:,.0f}" if p.fits else "-",
            p.bottleneck,
        )
        for p in (depths.predictions[i] for i in picked)
    ]
    headings = ("layers", "hidden", "nodes", "least", "tokens/s 5<50<95 %", "plain", "limit")
    return Table("By number of layers", headings, rows, "rrrrrrl", where)


def _times(fitting: list[Row], many: bool) -> Iterator[Block]:
    where = EXPLAIN | PAGE if many else SHOWN
    for row in fitting:
        p = row.result
        if many:
            yield Paragraph(row.name, "strong", where, tight=True)
        depth = "" if row.depths is None else f" at {p.shape.layers:.0f} layers"
        title = f"One pass takes {seconds(float(p.time.total))}{depth}"
        yield time_table(title, times_s(p), where)


def time_table(title: str, time_s: dict[str, float], where: Where = SHOWN) -> Table:
    """The time of one pass by term, the longest first.

    Args:
        title: of the table.
        time_s: seconds by term, and their "total".
        where: media that show it.
    """
    total = time_s["total"]
    rows = [
        (term, number(s, seconds(s)), f"{s / total:.1%}", number(s / total, ""), TERM_TEXTS[term])
        for term, s in sorted(time_s.items(), key=lambda x: -x[1])
        if s > 0.0 and term != "total"
    ]
    return Table(title, ("", "time", "share", "", "what"), rows, "prrbp", where)


def _help(p: Prediction, where: Where) -> Iterator[Block]:
    found = p.useful_changes
    if not found:
        return

    def row(c: Change) -> Sequence[str | Cell]:
        gained = [number(c.gain, f"{c.gain:+.0%}")] if p.fits else []
        return [c.text, *gained, number(c.tokens_per_s, f"{c.tokens_per_s:,.0f}")]

    rows = [row(c) for c in found]
    if p.fits:
        title = "What would help most (against the speed without speculation)"
        yield Table(title, ("", "gain", "tokens/s"), rows, "prr", where, most=CHANGES_SHOWN)
    else:
        title = "What would make it fit"
        yield Table(title, ("", "tokens/s"), rows, "pr", where, most=CHANGES_SHOWN)


def _notes(row: Row, where: Where) -> Iterator[Block]:
    if row.notes:
        yield Items(row.notes, where=where, bullet="- ")
    if row.warnings:
        yield Items(row.warnings, where=PAGE)
