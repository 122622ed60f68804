"""Comparisons of hardware as tables, Markdown, CSV and JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from archinfer.report.text import compact, speeds

if TYPE_CHECKING:
    from archinfer.forward.compare import Entry
    from archinfer.physics.mapping import Placement

__all__ = ["csv_rows", "document", "markdown_rows", "print_entries"]


def document(entries: list[Entry]) -> dict[str, Any]:
    """The JSON document."""
    asked = entries[0].prediction.deployment
    return {
        "question": {
            "context_tokens": asked.context_tokens,
            "concurrency": asked.concurrency,
            "kv": asked.kv,
            "speculation": [asked.accepted_low, asked.accepted_high],
        },
        "results": [e.to_dict() for e in entries],
    }


CSV_HEADINGS = [
    "model", "hardware", "weights", "fits", "nodes", "min_nodes", "tensor_parallel", "stages",
    "tokens_per_s_p05", "tokens_per_s_p50", "tokens_per_s_p95", "bottleneck",
    "bandwidth_tokens_per_s", "power_w", "memory_bytes", "memory_fraction", "ceiling_tokens_per_s",
    "ceiling_nodes", "ceiling_bottleneck", "ceiling_latency_share",
]  # fmt: skip


def csv_rows(entries: list[Entry]) -> tuple[list[str], list[list[Any]]]:
    """Headings and rows of full precision."""
    rows = []
    for entry in entries:
        d = entry.to_dict()
        d |= {f"tokens_per_s_{k}": v for k, v in d["tokens_per_s"].items()} | d["mapping"]
        ceiling = d["ceiling"] or {}
        for key in ("nodes", "bottleneck", "latency_share"):
            d[f"ceiling_{key}"] = ceiling.get(key)
        d["ceiling_tokens_per_s"] = ceiling["tokens_per_s"]["p50"] if ceiling else None
        rows.append([d[h] for h in CSV_HEADINGS])
    return CSV_HEADINGS, rows


HEADINGS = [
    "hardware", "nodes", "tp x pp", "tokens/s 5<50<95 %", "bottleneck", "kW", "full", "ceiling",
    "on", "set by",
]  # fmt: skip


def _layout(mapping: Placement, layers: Any) -> str:
    return f"{int(mapping.tensor_parallel)}x{int(mapping.stages(layers))}"


def _kilowatts(watts: float) -> str:
    return compact(watts / 1e3) if math.isfinite(watts) else "-"


def _cells(entry: Entry) -> list[str]:
    p, c = entry.prediction, entry.ceiling
    fits = bool(p.fits)
    ceiling = ["none", "-", "-"]
    if c is not None:
        share = float(getattr(c.time, c.bottleneck)) / float(c.time.total)
        ceiling = [compact(c.tokens_per_s[1]), f"{c.nodes:,}", f"{c.bottleneck} {share:.0%}"]
    return [
        p.hardware.name,
        f"{int(p.nodes_used):,}" if fits or math.isfinite(p.min_nodes) else "none",
        _layout(p.mapping, p.shape.layers) if fits else "-",
        speeds(*(float(v) for v in p.speed)) if fits else "does not fit",
        p.bottleneck,
        _kilowatts(float(entry.power_w)) if fits else "-",
        f"{float(p.memory_fraction):.0%}" if fits else "-",
        *ceiling,
    ]


def markdown_rows(entries: list[Entry]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows rounded for people, the model in front."""
    return ["model", *HEADINGS], [[e.model, *_cells(e)] for e in entries]


FEW = 4
"""Most machines whose software and overlaps are named one by one under the table."""


def software_text(entries: list[Entry]) -> str:
    """What a difference between the machines may be due to besides the machines; "" for one."""
    machines = list({e.hardware.name: e.hardware for e in entries}.values())
    if len(machines) < 2:
        return ""
    if len(machines) > FEW:
        return (
            "The constants of a profile are those of one software (archinfer hardware show NAME "
            "names it), so machines differ in that as well. Where two intervals overlap, which "
            "of the two is faster is not known."
        )
    said = "; ".join(f"{h.name}: {h.usual_software or 'not said'}" for h in machines)
    text = f"Constants are those of one software each ({said}), so machines differ in that as well."
    pairs = [
        f"{e.hardware.name} and {other}"
        + (f" on {e.model}" if len({x.model for x in entries}) > 1 else "")
        for i, e in enumerate(entries)
        for other in e.overlaps
        if any(x.model == e.model and x.hardware.name == other for x in entries[i + 1 :])
    ]
    if pairs:
        text += f" Intervals overlap, so which is faster is not known: {', '.join(pairs)}."
    return text


def print_entries(entries: list[Entry]) -> None:
    """One table a model."""
    from rich.text import Text

    from archinfer.report.tables import new_console, print_table

    console = new_console()
    for model in dict.fromkeys(e.model for e in entries):
        mine = [e for e in entries if e.model == model]
        p = mine[0].prediction
        asked = p.deployment
        title = (
            f"{model}: {compact(float(p.shape.total_params))} parameters, "
            f"{compact(float(p.shape.active_params))} active, {float(p.shape.layers):.0f} layers, "
            f"{p.weights} weights"
        )
        rows = [_cells(e) for e in mine]
        print_table(console, title, HEADINGS, rows)
    gain = f"{asked.accepted_low:g}"
    if asked.accepted_high > asked.accepted_low:
        gain += f" to {asked.accepted_high:g}"
    users = f"{asked.concurrency:,} user{'' if asked.concurrency == 1 else 's'}"
    nodes = "Nodes as asked" if asked.nodes is not None else "Nodes: the fewest that hold the model"
    console.print(
        Text(
            f"{nodes}; {asked.context_tokens:,} tokens of context, {users}, {gain} accepted "
            f"token{'' if gain == '1' else 's'} a pass. tp x pp: nodes that share a layer x "
            "pipeline stages; full: of the fullest node's usable memory; ceiling: the fastest on "
            "any number of nodes, on how many, and the largest term of its time."
        )
    )
    caveat = software_text(entries)
    if caveat:
        console.print()
        console.print(Text(caveat))
