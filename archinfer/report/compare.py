"""Comparisons of hardware as a document."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from archinfer.forward.compare import Entry
from archinfer.forward.deployments import Pareto
from archinfer.report import document as doc
from archinfer.report.pareto import answer, best, pareto_chart
from archinfer.report.predict_model import FEW, assumed
from archinfer.report.warned import beyond
from archinfer.words import compact, counted, figure, listed, load, percent, span, speed, speeds

COLUMNS = (
    "model", "hardware", "weights", "fits", "nodes", "min_nodes",
    "tensor_parallel=mapping.tensor_parallel", "stages=mapping.stages",
    "tokens_per_s_p05=tokens_per_s.p05", "tokens_per_s_p50=tokens_per_s.p50",
    "tokens_per_s_p95=tokens_per_s.p95", "bottleneck", "bandwidth_tokens_per_s", "power_w",
    "tokens_per_s_all_users=tokens_per_s_all_users.p50", "power_at_load_w", "joules_per_token",
    "dollars_per_million_output_tokens", "basis",
    "memory_bytes", "memory_fraction", "ceiling_tokens_per_s=ceiling.tokens_per_s.p50",
    "ceiling_nodes=ceiling.nodes", "ceiling_bottleneck=ceiling.bottleneck",
    "ceiling_latency_share=ceiling.latency_share",
)  # fmt: skip

HEADINGS = (
    "model", "hardware", "nodes", "tp x pp", "tokens/s 5<50<95 %", "gain", "basis",
    "bottleneck", "kW", "full", "ceiling", "on", "set by",
)  # fmt: skip
ALIGN = "llrrrlllrrrrl"
DROP = ("tp x pp", "on", "kW", "full", "set by", "bottleneck", "ceiling", "nodes", "gain")

FEWEST = "Nodes: the fewest that hold the model, of GPUs 1, 2, 4, 8 or servers that form a pipeline"

csv_rows = doc.rows_of(COLUMNS)


def document(
    entries: list[Entry], plans: Sequence[Pareto] = (), drawn: Callable[[], Pareto] | None = None
) -> doc.Document:
    """What `archinfer compare` found: a table a model, what meets a target, what `drawn` draws."""
    blocks: list[doc.Block] = [
        doc.Table("", HEADINGS, [_cells(e) for e in entries], ALIGN, doc.MARKDOWN)
    ]
    for model in dict.fromkeys(e.model for e in entries):
        mine = [e for e in entries if e.model == model]
        rows = [_cells(e)[1:] for e in mine]
        title = _title(mine[0])
        blocks.append(doc.Table(title, HEADINGS[1:], rows, ALIGN[1:], drop=DROP))
    served = [(e.hardware, e.prediction.deployment) for e in entries]
    few = len({hardware.name for hardware, _ in served}) <= FEW
    where = doc.SHOWN if few else doc.PAGE
    table = assumed(served, "constants fitted to", lambda h: h.usual_software or "not said", where)
    blocks += [doc.Paragraph(_reading(entries)), table]
    for plan in plans:
        blocks += [doc.Paragraph(f"{plan.model}: {answer(plan)}", "strong", doc.ALL), *best(plan)]
    if plans or entries[0].prediction.deployment.concurrency > 1:
        blocks.append(_throughput(entries))
    far = [f"{e.model}: {text}" for e in entries for text in beyond(e.prediction)]
    if far:
        blocks.append(doc.Items(tuple(dict.fromkeys(far)), where=doc.ALL, bullet="- "))
    caveat = _software(entries)
    if caveat:
        blocks.append(doc.Paragraph(caveat))
    if drawn is not None:
        panels = doc.Pictures(lambda: pareto_chart(drawn()).panels, "picture")
        blocks.append(doc.Section("Pictures", [panels], doc.PAGE))
    named = [{e.model: 0 for e in entries}, {e.hardware.name: 0 for e in entries}]
    return doc.Document("", blocks, page_title=" on ".join(listed(list(n)) for n in named))


def _throughput(entries: list[Entry]) -> doc.Table:
    """Throughput beside speed, what a token costs, and where the constants come from."""

    def row(entry: Entry) -> list[str]:
        p = entry.prediction
        whole = float(p.throughput.p50)
        figures = (p.dollars_per_million_output_tokens, p.joules_per_token)
        told = [figure(v) for v in figures]
        speeds_ = (float(p.speed.p50), whole, whole / int(p.nodes_used))
        made = [speed(v) if p.fits else "-" for v in speeds_]
        return [entry.model, p.hardware.name, f"{p.nodes_used:,}", *made, *told, p.hardware.basis]

    headings = (
        "model", "hardware", "nodes", "a user", "all users", "a node", "$/M out", "J/token",
        "constants",
    )  # fmt: skip
    title = "Output tokens/s, cost and energy on these nodes"
    drop = ("constants", "nodes", "J/token", "a user", "all users", "a node")
    rows = [row(e) for e in entries]
    return doc.Table(title, headings, rows, "llrrrrrrl", doc.ALL, drop=drop)


def _title(entry: Entry) -> str:
    p = entry.prediction
    return (
        f"{entry.model}: {compact(float(p.shape.total_params))} parameters, "
        f"{compact(float(p.shape.active_params))} active, "
        f"{counted(float(p.shape.layers), 'layer')}, {p.weights} weights"
    )


def _cells(entry: Entry) -> list[str | doc.Cell]:
    p, c = entry.prediction, entry.ceiling
    fits = bool(p.fits)
    ceiling: list[str] = ["none", "-", "-"]
    if c is not None:
        share = float(getattr(c.time, c.bottleneck)) / float(c.time.total)
        ceiling = [compact(c.tokens_per_s[1]), f"{c.nodes:,}", f"{c.bottleneck} {percent(share)}"]
    kind = "dp " if p.mapping.data_parallel else ""
    layout = f"{kind}{int(p.mapping.tensor_parallel)}x{int(p.mapping.stages(p.shape.layers))}"
    power = compact(float(entry.power_w) / 1e3)
    return [
        entry.model,
        p.hardware.name,
        f"{int(p.nodes_used):,}" if fits or math.isfinite(p.min_nodes) else "none",
        layout if fits else "-",
        speeds(*(float(v) for v in p.speed)) if fits else "does not fit",
        "law" if p.deployment.law is not None else span(*p.deployment.speculation),
        p.hardware.basis.replace("estimated", "estimate"),
        p.bottleneck,
        power if fits else "-",
        percent(float(p.memory_fraction)) if fits else "-",
        *ceiling,
    ]


def _reading(entries: list[Entry]) -> str:
    """What was assumed, and what the columns mean."""
    asked = entries[0].prediction.deployment
    nodes = "Nodes as asked" if asked.nodes is not None else FEWEST
    copies = ""
    if asked.concurrency > 1:
        copies = (
            " Several copies, each with some of the users, can be faster than that (--target and "
            "archinfer pareto count them)."
        )
    return (
        f"{nodes}; {load(asked.context_tokens, asked.concurrency)}. tp x pp: "
        "nodes that share a layer x pipeline stages; basis of the constants: measured on the "
        "machine, fitted to its published speeds, or estimated; full: of the fullest node's usable "
        "memory; ceiling: the fastest that one copy of the model serves all users on any number of "
        f"nodes, on how many, and the largest term of its time.{copies}"
    )


def _software(entries: list[Entry]) -> str:
    """What a difference between the machines may be due to besides the machines; "" for none."""
    machines = list({e.hardware.name: e.hardware for e in entries}.values())
    if len(machines) < 2:
        return ""
    if len(machines) > FEW:
        return (
            "Machines differ in their usual software as well, to which their constants were fitted "
            "(archinfer hardware show NAME names it), and in what is known of their speculation "
            "(not with --speculation 1 --software usual). Where two intervals overlap, which of "
            "the two is faster is not known."
        )
    pairs = [
        f"{e.hardware.name} and {other}"
        + (f" on {e.model}" if len({x.model for x in entries}) > 1 else "")
        for i, e in enumerate(entries)
        for other in e.overlaps
        if any(x.model == e.model and x.hardware.name == other for x in entries[i + 1 :])
    ]
    if not pairs:
        return ""
    return f"Intervals overlap, so which is faster is not known: {', '.join(pairs)}."
