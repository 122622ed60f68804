"""The solver's answer as tables for a terminal, Markdown and CSV."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from archinfer.report.findings import change
from archinfer.report.tables import new_console, print_table
from archinfer.report.terminal import bar, unicode_ok
from archinfer.report.text import region_map
from archinfer.solver.question import Habits
from archinfer.units import format_quantity
from archinfer.words import compact, seconds, speeds

if TYPE_CHECKING:
    from rich.console import Console

    from archinfer.solver.answer import Answer
    from archinfer.solver.designs import Design
    from archinfer.solver.question import Question

__all__ = ["architecture_rows", "assumptions", "headline", "map_rows", "print_answer", "sentence"]

QUANTITIES = {
    "total_params": "total parameters",
    "active_params": "active parameters",
    "layers": "layers",
    "nodes": "nodes there",
}


def headline(answer: Answer) -> str:
    """The question in one sentence."""
    q = answer.question
    low, high = q.nodes
    count = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    plural = "" if high == 1 else "s"
    where = f"{count} {q.hardware.name} {q.hardware.node}{plural}"
    if not q.nodes_known:
        where = f"an unknown number of {q.hardware.name} {q.hardware.node}s"
    verb = "was observed at" if q.observed else "shall make at least"
    return f"Which models fit: one user {verb} {q.tokens_per_s:,.6g} tokens/s on {where}?"


def assumptions(answer: Answer) -> str:
    """What was assumed, in one paragraph."""
    from archinfer.models.family import attention_rule

    q = answer.question
    low, high = q.speculation
    gain = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    gain += f" accepted token{'' if low == high == 1 else 's'} a pass"
    if answer.posterior is not None:
        from archinfer.report.posterior import speculation_text

        gain = f"{gain} {speculation_text(answer.posterior)}".rstrip()
    habits = (
        "physics only"
        if q.habits is None
        else "within habits of design (--physics-only leaves them out)"
    )
    parts = [
        f"{q.context_tokens:,} tokens of context, {q.concurrency:,} "
        + ("user" if q.concurrency == 1 else "users"),
        f"weights {', '.join(q.weights)}",
        f"{q.kv} KV cache, {attention_rule(q.rules.attention).text}",
        gain,
        *_software(q),
        habits,
    ]
    for name in ("total", "active", "layers"):
        limits = getattr(q, name)
        if limits != (0.0, math.inf):
            parts.append(f"{name} {_span(*limits)}")
    parts += _asked(q)
    parts += [f"{change} (set by hand)" for change in q.overrides]
    return "; ".join(parts) + "."


def _software(q: Question) -> list[str]:
    """Which software may have made an observed speed, where the profile knows several."""
    if not q.observed or not q.hardware.software:
        return []
    if q.software is not None:
        factor = q.softwares[0][1]
        return [
            f"software: {q.software}"
            + (f" ({factor:.2g} times the usual)" if factor != 1.0 else "")
        ]
    slow, fast = (f"{q.softwares[end][1]:.2g}" for end in (0, -1))
    span = f"usual to {fast} times as fast" if slow == "1" else f"{slow} to {fast} times the usual"
    return [f"software: {span} (--software fixes it)"]


def _asked(q: Question) -> list[str]:
    """What was asked beyond the defaults, in words."""
    parts = []
    if q.habits is not None and q.habits.sparsity != Habits().sparsity:
        parts.append(f"total / active {_span(*q.habits.sparsity)}")
    if q.layout is not None:
        parts.append(f"mapping {q.layout.text}")
    if q.confidence_z != 0.0 and not q.observed:
        parts.append(f"the speed held with a probability of {100.0 * q.confidence:.3g} %")
    if q.throughput_tokens_per_s is not None:
        parts.append(f"at least {q.throughput_tokens_per_s:,.6g} tokens/s over all users")
    if q.power_w is not None:
        parts.append(f"at most {format_quantity(q.power_w, 'watts')}")
    if q.price_per_hour is not None:
        parts.append(f"at most {format_quantity(q.price_per_hour, 'dollars_per_hour')}")
    if q.calibration is not None:
        parts.append(f"measured figures of {q.calibration}")
    return parts


def _span(low: float, high: float) -> str:
    """A range in words."""
    if low == high:
        return compact(low)
    if math.isinf(high):
        return f"at least {compact(low)}"
    return f"{compact(low)} to {compact(high)}" if low > 0 else f"at most {compact(high)}"


def sentence(answer: Answer) -> str:
    """The answer in one sentence."""
    if not answer.feasible:
        return "Nothing is feasible."
    total, active = answer.ranges["total_params"], answer.ranges["active_params"]
    layers = answer.ranges["layers"]
    return (
        f"Feasible: up to {compact(total.high.value)} total parameters ({total.high.by}) and "
        f"{compact(active.high.value)} active ({active.high.by}), {layers.low.value:.0f} to "
        f"{layers.high.value:.0f} layers."
    )


def variant_lines(answer: Answer) -> list[str]:
    """What other means would allow, one line each."""
    lines = []
    for v in answer.variants:
        found = "nothing"
        if v.feasible:
            layers = v.ranges["layers"]
            found = (
                f"up to {compact(v.ranges['total_params'][1])} total and "
                f"{compact(v.ranges['active_params'][1])} active, "
                + (f"{layers[0]:.0f} to " if layers[0] < layers[1] else "")
                + f"{layers[1]:.0f} layer{'' if layers[1] == 1 else 's'}"
            )
        lines.append(f"{v.text[0].upper()}{v.text[1:]}: {found}.")
    return lines


def architecture_rows(designs: tuple[Design, ...]) -> tuple[list[str], list[list[Any]]]:
    """Headings and rows of full precision, for CSV."""
    headings = [
        "total_params",
        "active_params",
        "layers",
        "nodes",
        "hidden_size",
        "experts",
        "experts_per_token",
        "weights",
        "tokens_per_s_p05",
        "tokens_per_s_p50",
        "tokens_per_s_p95",
        "accepted_tokens_needed",
        "memory_bytes",
        "bottleneck",
    ]
    rows = []
    for design in designs:
        d = design.to_dict()
        d |= {f"tokens_per_s_{k}": v for k, v in d["tokens_per_s"].items()}
        rows.append([d[h] for h in headings])
    return headings, rows


def _nodes_text(design: Design) -> str:
    """Nodes, and where they share layers how."""
    group = round(float(design.mapping.tensor_parallel))
    return f"{design.nodes:,}" if group == 1 else f"{design.nodes:,} (tp {group:,})"


def short_rows(designs: tuple[Design, ...]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows rounded for people."""
    headings = [
        "total",
        "active",
        "layers",
        "nodes",
        "hidden",
        "experts",
        "weights",
        "tokens/s 5<50<95 %",
        "needs",
        "memory",
        "bottleneck",
    ]
    rows = []
    for d in designs:
        moe = d.moe
        rows.append(
            [
                compact(d.total_params),
                compact(d.active_params),
                str(d.architecture.layers),
                _nodes_text(d),
                str(d.architecture.hidden_size),
                "dense" if moe is None else f"{moe.top_k}/{moe.experts}",
                d.weights,
                speeds(*d.speed),
                f"{d.accepted_needed:.2f}",
                f"{d.memory_bytes / 1e12:.3g} TB",
                d.bottleneck,
            ]
        )
    return headings, rows


def rounding_text(answer: Answer) -> str:
    """How far architectures may miss a single size that was asked for; "" where none was."""
    from archinfer.solver.designs import rounded

    wide, single = rounded(answer.question)
    if not single:
        return ""
    asked: float = getattr(answer.question, single[0])[0]
    off = 100.0 * (getattr(wide, single[0])[1] / asked - 1.0)
    return f"; within {off:.2g} % of the {' and '.join(single)} parameters asked"


def needs_note(answer: Answer) -> str:
    """Why architectures are listed that need more or fewer accepted tokens than were allowed."""
    q = answer.question
    low, high = q.speculation
    allowed = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    if not q.observed:
        return ""
    slow, fast = q.softwares[0][1], q.softwares[-1][1]

    def all_within(low: float, high: float) -> bool:
        return all(low <= d.accepted_needed <= high for d in answer.architectures)

    if all_within(low, high):
        return ""
    if slow == fast == 1.0:
        return (
            f"where needs lies outside {allowed}, the middle of the predicted speeds misses the "
            "one observed; their 90 % interval still reaches it"
        )
    told = (
        "tokens/s and needs are those of the usual software; where needs lies outside "
        f"{allowed}, other software makes up the difference"
    )
    return told if all_within(low * slow, high * fast) else f"{told}, or the spread of the speeds"


def map_rows(answer: Answer, width: int, height: int, blocks: bool) -> tuple[list[str], str]:
    """Text map of feasible totals over layers, and its legend."""
    region = answer.region
    depths = np.unique(region.slices.layers)
    marks = "█▓▒░·" if blocks else "#x=-."
    tops: list[list[float]] = []
    bottoms: list[list[float]] = []
    letters: list[str] = []
    legend: list[str] = []
    for position, name in enumerate(region.question.weights):
        mine = region.slices.weights == position
        if not mine.any():
            continue
        at = np.searchsorted(depths, region.slices.layers[mine])
        top, bottom = np.full(len(depths), -np.inf), np.full(len(depths), np.inf)
        np.maximum.at(top, at, region.total_high[mine])
        np.minimum.at(bottom, at, region.total_low[mine])
        none = ~np.isfinite(top)
        top[none], bottom[none] = np.nan, np.nan
        mark = marks[min(len(letters), len(marks) - 1)]
        tops.append(top.tolist())
        bottoms.append(bottom.tolist())
        letters.append(mark)
        legend.append(f"{mark} {name}")
    rows = region_map(depths.tolist(), tops, bottoms, letters, width, height)
    return rows, "  ".join(legend) + "   (each also holds what the marks before it hold)"


def print_answer(answer: Answer, explain: bool = False) -> None:
    """The whole answer on standard output."""
    from rich.text import Text

    console = new_console()
    blocks = unicode_ok()
    console.print(Text(headline(answer), style="bold"))
    console.print(Text(assumptions(answer)))
    console.print()
    if not answer.feasible:
        _print_conflict(console, answer)
        _print_variants(console, answer)
        _print_posterior(console, answer)
        return
    console.print(Text(sentence(answer), style="bold"))
    console.print()
    _print_variants(console, answer)
    rows = [
        [
            QUANTITIES[name],
            compact(i.low.value),
            i.low.by,
            compact(i.high.value),
            i.high.by,
        ]
        for name, i in answer.ranges.items()
    ]
    print_table(
        console,
        "Ranges, and what draws each end",
        ["", "low", "bound by", "high", "bound by"],
        rows,
    )
    print_table(
        console,
        "By weight format",
        ["weights", "most total", "most active", "layers", "nodes there"],
        [
            [
                w,
                compact(r["total_params"][1]),
                compact(r["active_params"][1]),
                f"{r['layers'][0]:.0f} to {r['layers'][1]:.0f}",
                f"{r['nodes'][0]:,.0f} to {r['nodes'][1]:,.0f}",
            ]
            for w, r in answer.by_weights.items()
        ],
    )
    for note in answer.notes:
        console.print(Text(f"Note: {note}."))
        console.print()
    _print_posterior(console, answer)
    _print_architectures(console, answer)
    _print_sensitivity(console, answer)
    width = max(20, min(console.width, 80) - 9)
    picture, legend = map_rows(answer, width, 12, blocks)
    console.print(Text("Feasible total parameters over layers", style="bold"))
    for row in picture:
        console.print(Text(row), no_wrap=True, overflow="crop")
    console.print(Text(legend))
    console.print()
    if explain:
        _print_explanation(console, answer, blocks)
    _print_provenance(console, answer)


def _print_variants(console: Console, answer: Answer) -> None:
    from rich.text import Text

    lines = variant_lines(answer)
    for line in lines:
        console.print(Text(line))
    if lines:
        console.print()


def _print_architectures(console: Console, answer: Answer) -> None:
    from rich.text import Text

    headings, rows = short_rows(answer.architectures)
    if not rows:
        if not answer.architectures_wanted:
            return
        console.print("No buildable architecture of whole heads and experts lies in the region.\n")
        return
    title = (
        "Architectures that would work (experts: used/routed; needs: accepted tokens a pass"
        f"{rounding_text(answer)})"
    )
    print_table(console, title, headings, rows, optional=("hidden", "memory"))
    note = needs_note(answer)
    if note:
        console.print(Text(f"{note[0].upper()}{note[1:]}."))
        console.print()


def _print_sensitivity(console: Console, answer: Answer) -> None:
    if not answer.sensitivity:
        return
    about = answer.architectures[0]
    title = (
        "What the speed reads: tokens/s (without speculation) if one quantity changes, around "
        f"{compact(about.total_params)} total, {compact(about.active_params)} active, "
        f"{about.architecture.layers} layers (fitting or not; nodes follow the layers)"
    )
    rows = [
        [
            QUANTITIES.get(s.quantity, s.quantity),
            *(_known(f"{v:,.0f}", v) for v in s.tokens_per_s),
            _known(change(s.elasticity), s.elasticity),
        ]
        for s in answer.sensitivity
    ]
    print_table(console, title, ["", "halved", "as is", "doubled", "doubling"], rows)


def _known(text: str, value: float) -> str:
    """The text, or a dash where there is no value."""
    return text if math.isfinite(value) else "-"


def _print_posterior(console: Console, answer: Answer) -> None:
    if answer.posterior is None:
        return
    from archinfer.report.posterior import print_posterior

    print_posterior(console, answer.posterior)
    if answer.comparisons:
        from rich.text import Text

        from archinfer.report.posterior import COMPARISON_TITLE, comparison_text

        console.print(Text(COMPARISON_TITLE, style="bold"))
        for comparison in answer.comparisons:
            for line in comparison_text(comparison):
                console.print(Text(f"  {line}"))
        console.print()


def _print_conflict(console: Console, answer: Answer) -> None:
    from rich.text import Text

    conflict = answer.conflict
    assert conflict is not None
    console.print(Text(f"Nothing is feasible: {conflict.text}.", style="bold"))
    for relaxation in conflict.relaxations:
        names = " and ".join(relaxation.constraints)
        console.print(Text(f"  {names}: {relaxation.text}"))
    console.print()


def _print_explanation(console: Console, answer: Answer, blocks: bool) -> None:
    from rich.text import Text

    hardware = answer.question.hardware
    for design in answer.architectures[:1]:
        total = design.time_s["total"]
        side = (
            f", regions {design.region_side:.0f} cores wide"
            if math.isfinite(design.region_side)
            else ""
        )
        console.print(
            Text(
                f"One pass of {compact(design.total_params)} total / "
                f"{compact(design.active_params)} active in {design.weights}: {seconds(total)} on "
                f"{design.nodes} {hardware.node}{'s' if design.nodes > 1 else ''}, "
                f"{design.mapping.layers_per_stage:.0f} layer(s) each{side}",
                style="bold",
            )
        )
        for term, value in design.time_s.items():
            if term == "total" or value <= 0.0:
                continue
            share = value / total
            console.print(
                Text(
                    f"  {term:<11}{seconds(value):>9} {100 * share:5.1f} % {bar(share, 30, blocks)}"
                )
            )
        console.print()
    from archinfer.solver.constraints import constraints

    print_table(
        console,
        "Constraints",
        ["what", "kind", "why"],
        [[c.name, c.kind, c.text] for c in constraints(answer.question)],
    )


def _print_provenance(console: Console, answer: Answer) -> None:
    rows = []
    # A price plays no part in an answer that did not ask for one.
    silent = () if answer.question.price_per_hour is not None else ("price.", "compute.peak")
    for figure in answer.question.hardware.provenance:
        if figure.key.startswith(silent) and figure.source != "set by hand":
            continue
        by_hand = figure.source == "set by hand"
        carried = figure.source.startswith("calibration ")
        if figure.log_sd or figure.estimate or by_hand or carried:
            sure = f"x {math.exp(figure.log_sd):.2f}" if figure.log_sd else ""
            rows.append([figure.key, figure.text, sure, figure.source])
    print_table(
        console,
        f"Figures of {answer.question.hardware.name} that are fitted, estimated or set by hand "
        f"(all: archinfer hardware show {answer.question.hardware.name})",
        ["what", "value", "1 sd", "source"],
        rows,
    )


def print_answer_markdown(answer: Answer) -> None:
    """The answer as Markdown on standard output."""
    from archinfer.cli.common import print_markdown

    print(f"# {headline(answer)}\n\n{assumptions(answer)}\n\n**{sentence(answer)}**\n")
    if not answer.feasible:
        assert answer.conflict is not None
        print(f"{answer.conflict.text.capitalize()}:\n")
        for relaxation in answer.conflict.relaxations:
            print(f"- {' and '.join(relaxation.constraints)}: {relaxation.text}")
        if answer.variants:
            print("\n" + "\n\n".join(variant_lines(answer)))
        _print_posterior_markdown(answer)
        return
    if answer.variants:
        print("\n\n".join(variant_lines(answer)) + "\n")
    print_markdown(
        ["quantity", "low", "bound by", "high", "bound by"],
        [
            [QUANTITIES[n], compact(i.low.value), i.low.by, compact(i.high.value), i.high.by]
            for n, i in answer.ranges.items()
        ],
    )
    _print_posterior_markdown(answer)
    if answer.architectures:
        print()
        headings, short = short_rows(answer.architectures)
        print_markdown(headings, [list(row) for row in short])
        note = needs_note(answer)
        if note:
            print(f"\n{note[0].upper()}{note[1:]}.")


def _print_posterior_markdown(answer: Answer) -> None:
    posterior = answer.posterior
    if posterior is None:
        return
    from archinfer.cli.common import print_markdown
    from archinfer.report import posterior as told

    print()
    if posterior.possible:
        headings, rows = told.posterior_rows(posterior)
        print(f"**{told.TITLE}**\n")
        print_markdown(headings, [list(row) for row in rows])
        print(f"\n{told.nuisance_text(posterior)}")
        print(f"\n{told.bits_text(posterior)}\n\n{told.nodes_text(posterior)}")
        print(f"\n**{told.FACTS_TITLE}**\n")
        for line in told.verdicts(posterior):
            print(f"- {line}")
        for note in told.notes(posterior):
            print(f"\nNote: {note}.")
    else:
        print(f"No probability statement: {posterior.reason}.")
    if answer.comparisons:
        print(f"\n**{told.COMPARISON_TITLE}**\n")
        for comparison in answer.comparisons:
            for line in told.comparison_text(comparison):
                print(f"- {line}")
