"""Concrete architectures that would work, and the time of one pass of the first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from archinfer.models.formats import weight_format
from archinfer.report import document as doc
from archinfer.report.predict_chart import time_panel
from archinfer.report.predict_model import FULL, time_table
from archinfer.solver.answer import Answer
from archinfer.solver.designs import Design, rounded
from archinfer.units import plain_number
from archinfer.words import capital, compact, counted, listed, percent, seconds, span, speeds

COLUMNS = (
    "total_params", "active_params", "layers", "nodes", "hidden_size", "experts",
    "experts_per_token", "weights", "tokens_per_s_p05=tokens_per_s.p05",
    "tokens_per_s_p50=tokens_per_s.p50", "tokens_per_s_p95=tokens_per_s.p95",
    "accepted_tokens_needed", "memory_bytes", "bottleneck",
)  # fmt: skip

LIMITED = (
    ("W", "power_at_load_w", "power_w"),
    ("$/M out", "dollars_per_million_output_tokens", "max_token_dollars"),
)
"""Heading, figure of a design, and the question's limit of it."""

csv_rows = doc.rows_of(COLUMNS, lambda answer: answer.architectures)


def architectures(answer: Answer) -> Iterator[doc.Block]:
    """The architectures as a table, with what needs explaining."""
    designs = answer.architectures
    if not designs:
        where = doc.SHOWN if answer.architectures_wanted else doc.PAGE
        text = (
            "No buildable architecture of whole heads and experts lies in the region."
            if answer.architectures_wanted
            else "None is listed: none was asked for."
        )
        yield doc.Paragraph(text, where=where)
        return
    # Figures that were limited, before what sets the time.
    limited = [(h, key) for h, key, asked in LIMITED if getattr(answer.question, asked) is not None]
    headings = (
        "total", "active", "layers", "nodes", "hidden", "experts", "weights",
        "tokens/s 5<50<95 %", "needs", "memory", *(heading for heading, _ in limited), "bottleneck",
    )  # fmt: skip
    title = (
        f"Architectures (experts: used/routed; needs: accepted tokens a pass{_rounding(answer)})"
    )
    rows = [_design(d, [key for _, key in limited]) for d in designs]
    drop = ("hidden", "memory", "experts", "bottleneck", "weights", "nodes", "needs")
    # Of an observed speed the probabilities say it first.
    where = doc.ALL if answer.posterior is None else doc.EXPLAIN | doc.PAGE | doc.MARKDOWN
    sides = f"rrrrrrlrrr{'r' * len(limited)}l"
    yield doc.Table(title, headings, rows, sides, where, drop=drop, sortable=True)
    notes = [*_needs(answer), *_memory(answer)]
    if notes:
        yield doc.Paragraph(" ".join(f"{capital(note)}." for note in notes), where=where)


def _design(d: Design, limited: Sequence[str]) -> Sequence[str | doc.Cell]:
    moe, arch = d.moe, d.architecture
    # Nodes, and where they share layers how.
    group = round(float(d.mapping.tensor_parallel))
    needs = f"{d.accepted_needed:.2f}" if d.accepted_needed > 1.0 else "none"
    shared = "" if group == 1 else f" ({'dp' if d.mapping.data_parallel else 'tp'} {group:,})"
    return (
        doc.number(d.total_params, compact(d.total_params)),
        doc.number(d.active_params, compact(d.active_params)),
        doc.number(arch.layers, str(arch.layers)),
        doc.number(d.nodes, f"{d.nodes:,}{shared}"),
        doc.number(arch.hidden_size, str(arch.hidden_size)),
        doc.number(moe.experts, f"{moe.top_k}/{moe.experts}") if moe else doc.number(0, "dense"),
        d.weights,
        doc.number(d.speed[1], speeds(*d.speed)),
        doc.number(d.accepted_needed, needs),
        doc.number(d.memory_bytes, f"{d.memory_bytes / 1e12:.3g} TB"),
        *(doc.number(getattr(d, key), plain_number(getattr(d, key))) for key in limited),
        d.bottleneck,
    )


def _rounding(answer: Answer) -> str:
    """How far architectures may miss a single size that was asked for; "" where none was."""
    wide, single = rounded(answer.question)
    if not single:
        return ""
    asked: float = getattr(answer.question, single[0])[0]
    off = 100.0 * (getattr(wide, single[0])[1] / asked - 1.0)
    return f"; within {off:.2g} % of the {' and '.join(single)} parameters asked"


WIDE = 15.0
"""Bits from which a format is a wide one."""


def _memory(answer: Answer) -> Iterator[str]:
    """Which designs fill their memory, and which formats save nothing else."""
    hardware = answer.question.hardware
    full = [compact(d.total_params) for d in answer.architectures if d.memory_fraction > FULL]
    if full:
        yield f"filled above {percent(FULL)} of the memory: {listed(list(dict.fromkeys(full)))}"
    narrow = [w for w in answer.question.weights if weight_format(w).bits < WIDE]
    if narrow and hardware.spatial and not {"fp8", "fp4"} & dict(hardware.peaks_flops).keys():
        yield f"weights in {listed(narrow)} save memory, no cycles on this machine"


def _needs(answer: Answer) -> Iterator[str]:
    """Why architectures are listed whose speed misses, or that need more or fewer accepted tokens
    than were allowed."""
    q = answer.question
    low, high = q.speculation
    needed = [d.accepted_needed for d in answer.architectures]
    if q.ceiling or (q.observed and all(low <= one <= high for one in needed)):
        return
    if not q.observed:
        middle = math.sqrt(low * high)
        if max(needed) > middle:
            yield (
                f"where needs is above {middle:.2f} (the middle of {span(low, high)}), the middle "
                "of tokens/s misses the target, which takes that many accepted tokens a pass"
            )
        return
    text = (
        "tokens/s and needs are those of the usual software; where needs lies outside "
        f"{span(low, high)}, other software makes up the difference, or the spread of the speeds"
    )
    if q.softwares[0][1] == q.softwares[-1][1] == 1.0:
        text = (
            f"where needs lies outside {span(low, high)}, the middle of the predicted speeds "
            "misses the one observed; their 90 % interval still reaches it"
        )
    yield text


def one_pass(answer: Answer) -> Iterator[doc.Block]:
    """The time of the first architecture."""
    where = doc.EXPLAIN | doc.PAGE
    if answer.architectures:
        d = answer.architectures[0]
        wide = math.isfinite(d.region_side)
        side = f", regions {d.region_side:.0f} cores wide" if wide else ""
        title = (
            f"One pass of {compact(d.total_params)} total / {compact(d.active_params)} active in "
            f"{d.weights}: {seconds(d.time_s['total'])} on "
            f"{counted(d.nodes, answer.question.hardware.node)}, "
            f"{d.mapping.layers_per_stage:.0f} layer(s) each{side}"
        )
        picture = doc.Pictures(
            lambda: [time_panel("Time of one pass", d.time_s)], "time", layout=""
        )
        blocks: list[doc.Block] = [time_table(title, d.time_s, where), picture]
        yield doc.Section("Time of one pass by term", blocks, where, folded=True)
