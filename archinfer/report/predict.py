"""Predictions as a page, a comparison table, Markdown, CSV and JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archinfer.report.tables import new_console, print_table
from archinfer.report.text import bar, compact, seconds, speeds, unicode_ok

if TYPE_CHECKING:
    from rich.console import Console

    from archinfer.forward.prediction import Change, DepthRange, Prediction
    from archinfer.hardware.profile import Hardware
    from archinfer.models.architecture import Architecture

__all__ = [
    "Row",
    "about",
    "assumptions",
    "csv_rows",
    "document",
    "layout_text",
    "least_text",
    "print_comparison",
    "print_page",
    "short_rows",
    "useful_changes",
]

CHANGES_SHOWN = 5
SMALLEST_GAIN = 0.005
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

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `results[]`."""
        found = (self.depths or self.result).to_dict()
        return found | {"model": self.name, "notes": list(self.notes)}


def document(rows: list[Row], hardware: Hardware, overrides: tuple[str, ...]) -> dict[str, Any]:
    """The JSON document."""
    return {
        "results": [row.to_dict() for row in rows],
        "overrides": list(overrides),
        "provenance": hardware.provenance(),
    }


CSV_HEADINGS = [
    "model", "hardware", "total_params", "active_params", "layers", "weights", "fits", "nodes",
    "nodes_used", "min_nodes", "layers_per_node", "tensor_parallel", "tokens_per_s_p05",
    "tokens_per_s_p50", "tokens_per_s_p95", "tokens_per_s_without_speculation", "time_s",
    "memory_bytes", "memory_fraction", "bottleneck",
]  # fmt: skip


def csv_rows(rows: list[Row]) -> tuple[list[str], list[list[Any]]]:
    """Headings and rows of full precision."""
    out = []
    for row in rows:
        d = row.to_dict()
        d |= {f"tokens_per_s_{k}": v for k, v in d["tokens_per_s"].items()}
        d["tokens_per_s_without_speculation"] = d["tokens_per_s_without_speculation"]["p50"]
        d |= {f"{k}_params": v for k, v in d["parameters"].items()}
        d["time_s"] = d["time_s"]["total"]
        d["memory_bytes"] = d["memory_bytes"]["total"]
        out.append([d[h] for h in CSV_HEADINGS])
    return CSV_HEADINGS, out


def short_rows(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows rounded for people."""
    headings = [
        "model", "total", "active", "layers", "weights", "nodes", "least", "tokens/s 5<50<95 %",
        "plain", "memory", "full", "limit",
    ]  # fmt: skip
    out = []
    for row in rows:
        p = row.result
        used = f"{p.nodes_used:.0f}"
        out.append(
            [
                row.name,
                compact(float(p.shape.total_params)),
                compact(float(p.shape.active_params)),
                _layers(row),
                p.weights,
                used if p.nodes_used == p.nodes else f"{used} of {p.nodes:.0f}",
                f"{p.min_nodes:.0f}" if math.isfinite(p.min_nodes) else "none",
                speeds(*row.speed) if p.fits else "does not fit",
                f"{row.plain_speed[1]:,.0f}" if p.fits else "-",
                _bytes(float(p.memory.total)),
                f"{float(p.memory_fraction):.0%}",
                p.bottleneck,
            ]
        )
    return headings, out


def _layers(row: Row) -> str:
    if row.depths is None:
        return f"{row.result.shape.layers:.0f}"
    low, high = row.depths.layers
    return f"{low:.0f} to {high:.0f}"


def _bytes(value: float) -> str:
    from archinfer.units import format_quantity

    return format_quantity(value, "bytes", digits=3)


def assumptions(row: Row, overrides: tuple[str, ...]) -> str:
    """What was assumed, in one paragraph."""
    asked = row.result.deployment
    low, high = asked.accepted_low, asked.accepted_high
    gain = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    users = f"{asked.concurrency:,} user{'' if asked.concurrency == 1 else 's'}"
    parts = [
        f"{asked.context_tokens:,} tokens of context, {users}",
        f"{asked.kv} KV cache",
        f"{gain} accepted token{'' if low == high == 1 else 's'} a pass",
        *(f"{change} (set by hand)" for change in overrides),
    ]
    return "; ".join(parts) + "."


def about(row: Row) -> str:
    """The model in one paragraph."""
    p = row.result
    shape = p.shape
    parts = [
        f"{compact(float(shape.total_params), 4)} parameters, "
        f"{compact(float(shape.active_params), 4)} active",
        f"{_layers(row)} layers",
    ]
    if row.architecture is not None:
        parts.append(f"hidden size {shape.hidden_size:.0f}")
        moe = row.architecture.moe
        if moe is not None:
            parts.append(f"{moe.top_k} of {moe.experts} experts")
        kinds = row.architecture.attention_kinds
        total = sum(kinds.values())
        parts += [k if n == total else f"{n} x {k}" for k, n in kinds.items()]
        own = "the model's own" if p.deployment.weights is None else "as asked"
        parts.append(f"weights in {p.weights} ({own})")
    else:
        parts.append(f"weights in {p.weights}")
    return "; ".join(parts) + "."


def layout_text(p: Prediction) -> str:
    """Which nodes hold what."""
    node = p.hardware.node
    used, held = int(p.nodes_used), int(p.mapping.layers_per_stage)
    text = f"{used:,} {node}{'' if used == 1 else 's'}"
    if p.nodes_used < p.nodes:
        text += f" of {int(p.nodes):,} in use"
    if p.hardware.spatial:
        text += f", {held} layer{'' if held == 1 else 's'} on the fullest"
        if p.fits and math.isfinite(float(p.time.side)):
            text += f", regions {float(p.time.side):.0f} cores wide"
        return text
    stages = int(p.mapping.stages(p.shape.layers))
    plural = "" if stages == 1 else "s"
    group = int(p.mapping.tensor_parallel)
    layout = f"tp={group},pp={stages}"
    return f"{text}, {stages} stage{plural} of {group} ({layout}), {held} layers each"


def least_text(row: Row) -> str:
    """The fewest nodes that hold the model."""
    node = row.result.hardware.node
    low, high = row.depths.min_nodes if row.depths else (row.result.min_nodes,) * 2
    if not math.isfinite(float(low)):
        return f"no number of {node}s holds it"
    count = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    layout = ""
    if row.depths is None and row.result.hardware.spatial:
        held = math.ceil(float(row.result.shape.layers) / float(low))
        layout = f" ({held} layer{'' if held == 1 else 's'} each)"
    return f"{count} {node}{'' if high == 1 else 's'}{layout}"


def print_page(row: Row, overrides: tuple[str, ...], explain: bool) -> None:
    """One model, in full."""
    from rich.text import Text

    console = new_console()
    p = row.result
    node = p.hardware.node
    count = int(p.nodes)
    chosen = "the fewest that hold it" if p.fits else "no number of them is enough"
    forced = p.deployment.forced(p.shape.layers) is not None
    asked = "" if p.deployment.nodes is not None or forced else f" ({chosen})"
    if row.depths is not None and p.deployment.nodes is None and p.fits:
        low, high = row.depths.nodes
        where = f"{low:,.0f} to {high:,.0f} {p.hardware.name} {node}s (the fewest that hold it)"
    else:
        where = f"{count:,} {p.hardware.name} {node}{'' if count == 1 else 's'}{asked}"
    console.print(Text(f"{row.name} on {where}", style="bold"))
    console.print(Text(about(row)))
    console.print(Text(assumptions(row, overrides)))
    console.print()
    if p.fits:
        _pairs(console, _answers(row))
    else:
        console.print(Text(f"Does not fit: {p.limit}.", style="bold"))
        console.print()
    _memory(console, row)
    if row.depths is not None:
        _by_depth(console, row.depths)
        too_full = [p for p in row.depths.predictions if not p.fits]
        if p.fits and too_full:
            last = too_full[-1]
            console.print(Text(f"With {last.shape.layers:.0f} layers: {last.limit}."))
            console.print()
    if p.fits:
        _time(console, p, explain, middle=row.depths is not None)
    _changes(console, p)
    for note in row.notes:
        console.print(Text(f"- {note}"))
    if explain:
        console.print()
        _print_provenance(console, p.hardware)


def _answers(row: Row) -> list[tuple[str, str]]:
    p = row.result
    asked = p.deployment
    found = []
    if asked.accepted_high > 1.0:
        low, high = asked.accepted_low, asked.accepted_high
        gain = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        found.append((f"tokens/s, {gain} accepted a pass", speeds(*row.speed)))
    found.append(("tokens/s without speculation", speeds(*row.plain_speed)))
    found.append(("layout", layout_text(p)))
    found.append(("fewest nodes", least_text(row)))
    found.append(("limited by", f"{p.bottleneck} ({p.limit})"))
    return found


def _pairs(console: Console, pairs: list[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=console.width >= 60)
    table.add_column(overflow="fold")
    for left, right in pairs:
        table.add_row(Text(left), Text(right, style="bold"))
    console.print(table)
    console.print(Text("(5 % < 50 % < 95 %, one user)"))
    console.print()


def _memory(console: Console, row: Row) -> None:
    from rich.text import Text

    m = row.result.memory
    held = float(m.kv_held(row.result.mapping.tensor_parallel))
    copies = ""
    if held > 1.001 * float(m.kv):
        copies = f" (with the copies on the nodes that share a layer: {_bytes(held)})"
    console.print(
        Text(
            f"Memory: weights {_bytes(float(m.weights))}, KV cache {_bytes(float(m.kv))}{copies}, "
            f"buffers {_bytes(float(m.other))}; {float(row.result.memory_fraction):.0%} of what "
            f"the fullest {row.result.hardware.node} has."
        )
    )
    console.print()


def _terms(p: Prediction) -> list[tuple[str, float, float]]:
    from archinfer.forward.prediction import TERM_TEXTS

    total = float(p.time.total)
    found = [(t, float(getattr(p.time, t))) for t in TERM_TEXTS]
    return [(t, v, v / total) for t, v in sorted(found, key=lambda x: -x[1]) if v > 0.0]


def _time(console: Console, p: Prediction, explain: bool, middle: bool) -> None:
    from archinfer.forward.prediction import TERM_TEXTS

    blocks = unicode_ok()
    depth = f" at {p.shape.layers:.0f} layers" if middle else ""
    title = f"One pass takes {seconds(float(p.time.total))}{depth}"
    width = max(8, min(30, console.width - 64))
    headings = ["", "time", "share", "what"]
    rows = [[t, seconds(v), f"{share:.1%}", TERM_TEXTS[t]] for t, v, share in _terms(p)]
    if explain:
        headings.insert(3, "")
        for row, (_, _, share) in zip(rows, _terms(p), strict=True):
            row.insert(3, bar(share, width, blocks))
    print_table(console, title, headings, rows)


def _by_depth(console: Console, depths: DepthRange) -> None:
    count = len(depths.predictions)
    shown = min(count, DEPTHS_SHOWN)
    picked = sorted({round(i * (count - 1) / max(shown - 1, 1)) for i in range(shown)})
    rows = []
    for p in (depths.predictions[i] for i in picked):
        rows.append(
            [
                f"{p.shape.layers:.0f}",
                compact(float(p.shape.hidden_size)),
                f"{p.nodes_used:.0f}",
                f"{p.min_nodes:.0f}" if math.isfinite(p.min_nodes) else "none",
                speeds(*(float(v) for v in p.speed)) if p.fits else "does not fit",
                f"{p.plain_speed[1]:,.0f}" if p.fits else "-",
                p.bottleneck,
            ]
        )
    headings = ["layers", "hidden", "nodes", "least", "tokens/s 5<50<95 %", "plain", "limit"]
    print_table(console, "By number of layers", headings, rows)


def useful_changes(p: Prediction) -> list[Change]:
    """Changes that make it fit, or that gain something where it does."""
    if not p.fits:
        return [c for c in p.changes if c.fits]
    return [c for c in p.changes if c.fits and c.gain >= SMALLEST_GAIN]


def _changes(console: Console, p: Prediction) -> None:
    found = useful_changes(p)[:CHANGES_SHOWN]
    if not found:
        return
    if p.fits:
        title = "What would help most (against the speed without speculation)"
        rows = [[c.text, f"{c.gain:+.0%}", f"{c.tokens_per_s:,.0f}"] for c in found]
        print_table(console, title, ["", "gain", "tokens/s"], rows)
        return
    rows = [[c.text, f"{c.tokens_per_s:,.0f}"] for c in found]
    print_table(console, "What would make it fit", ["", "tokens/s"], rows)


def print_comparison(rows: list[Row], overrides: tuple[str, ...], explain: bool) -> None:
    """Several models side by side."""
    from rich.text import Text

    console = new_console()
    hardware = rows[0].result.hardware
    nodes = rows[0].result.deployment.nodes
    count = "the fewest nodes that hold each" if nodes is None else f"{nodes:,} {hardware.node}s"
    console.print(Text(f"{len(rows)} models on {hardware.name}, {count}", style="bold"))
    console.print(Text(assumptions(rows[0], overrides)))
    console.print()
    headings, cells = short_rows(rows)
    print_table(
        console,
        "least: fewest nodes; plain: without speculation; full: the fullest node",
        headings,
        cells,
        optional=("memory", "full", "layers", "weights", "least"),
    )
    for entry in rows:
        if not entry.result.fits:
            console.print(Text(f"{entry.name} does not fit: {entry.result.limit}."))
    if explain:
        for entry in rows:
            if entry.result.fits:
                console.print(Text(entry.name, style="bold"))
                _time(console, entry.result, True, middle=entry.depths is not None)
        _print_provenance(console, hardware)


def _print_provenance(console: Console, hardware: Hardware) -> None:
    rows = []
    for figure in hardware.provenance():
        if figure["log_sd"] or figure["estimate"] or figure["source"] == "set by hand":
            sure = f"x {math.exp(figure['log_sd']):.2f}" if figure["log_sd"] else ""
            rows.append([figure["key"], figure["text"], sure, figure["source"]])
    print_table(
        console,
        f"Figures of {hardware.name} that are fitted, estimated or set by hand "
        f"(all: archinfer hardware show {hardware.name})",
        ["what", "value", "1 sd", "source"],
        rows,
    )
