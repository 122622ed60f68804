"""What `archinfer calibrate` measured, as a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from archinfer.calibration.blind import BlindTest
from archinfer.calibration.calibrate import Calibration
from archinfer.calibration.fit import Coefficient, Timing
from archinfer.report import document as doc
from archinfer.report.measured import calibrate_chart
from archinfer.units import format_quantity, plain_number
from archinfer.words import QUANTITIES, change, percent, seconds

JITTER = 0.3
"""Share by which a median step may be slower than the fastest ones before it is mentioned."""

_COEFFICIENTS = {
    "seconds_per_weight_byte": "per weight byte",
    "seconds_per_kv_byte": "per KV byte",
    "seconds_per_flop": "per FLOP",
    "seconds_per_layer": "per layer (a chain of 10 steps)",
    "seconds_per_expert_call": "per expert call",
    "seconds_per_token": "per token",
    "bandwidth_efficiency": "bandwidth reached, weights",
    "kv_bandwidth_efficiency": "bandwidth reached, KV cache",
    "compute_efficiency": "peak reached, beyond the reads",
    "compute_overlap": "time of reading that hides arithmetic",
    "small_matrix_speed": "one core's speed, of all cores' (small matrices)",
}
MODEL_QUANTITIES = ("total_params", "active_params", "layers")


def _show(name: str, value: float) -> str:
    if name.startswith("seconds"):
        # Times of a single byte are far below a nanosecond.
        return f"{value * 1e12:.3g} ps" if value < 1e-9 else seconds(value)
    return percent(value, 1)


def _coefficient(name: str, c: Coefficient) -> Sequence[str]:
    return [_COEFFICIENTS[name], _show(name, c.value), _show(name, c.low), _show(name, c.high)]


def _point(p: Timing) -> Sequence[str]:
    return [
        p.point.name,
        plain_number(p.measured_tokens_per_s, 4),
        plain_number(p.predicted_tokens_per_s, 4),
        change(p.error, 1),
    ]


def document(found: Calibration) -> doc.Document:
    """What `archinfer calibrate` measured."""
    *told, last = sentences(found)
    words = [doc.Paragraph(text, where=doc.ALL, tight=True) for text in told]
    chart = doc.Later(lambda: _pictures(found))
    blind = () if found.blind is None else _blind_sentences(found.blind)
    blocks: list[doc.Block] = [
        doc.Section("In words", [*words, doc.Paragraph(last, where=doc.ALL)]),
        doc.Section("Pictures", [chart], doc.PAGE),
        doc.Section("What was measured", list(tables(found))),
        doc.Section("Blind test", [doc.Paragraph(text, where=doc.ALL) for text in blind]),
    ]
    title = "This machine, measured by a decoder that runs on it"
    return doc.Document(title, blocks, titled=doc.PAGE)


def _pictures(found: Calibration) -> Iterator[doc.Block]:
    chart = calibrate_chart(found)
    yield doc.Pictures(lambda: chart.panels, "picture")
    yield doc.Paragraph(chart.caption, "soft", doc.PAGE)


def tables(found: Calibration) -> Iterator[doc.Table]:
    """Every table."""

    table = partial(doc.Table, where=doc.ALL)
    coefficients = [_coefficient(name, c) for name, c in found.run.fit.coefficients.items()]
    headings = ["what", "value", "low", "high"]
    yield table("Fitted, with 90 % intervals", headings, coefficients, "prrr")
    heldout = [_point(p) for p in found.run.heldout.points]
    headings = ["model", "measured", "predicted", "error"]
    yield table("Held-out shapes, tokens/s of one sequence", headings, heldout, "lrrr")
    routing = found.routing
    title = (
        f"Distinct experts hit by a batch ({routing.experts} experts, top "
        f"{routing.experts_per_token})"
    )
    batches: list[Sequence[str]] = [
        (f"{b.batch}", f"{b.experts_hit:.1f}", f"{b.even:.1f}") for b in routing.batches
    ]
    yield table(title, ["batch", "counted", "even routing"], batches, "rrr")
    headings = ["what", "tokens", "tokens/s", "of the peak"]
    prompts: list[Sequence[str]] = [
        (p.name, f"{p.prompt_tokens:,}", plain_number(p.tokens_per_s, 4), percent(p.efficiency))
        for p in found.prefill.prompts
    ]
    products: list[Sequence[str]] = [
        (f"product with {p.outputs:,} x {p.inputs:,}", f"{p.tokens}", "", percent(p.efficiency))
        for p in found.prefill.products
    ]
    yield table("Prompts, and the matrix products in them", headings, prompts + products, "lrrr")
    title = "What carries over to other hardware (solve --calibration FILE)"
    carried: list[Sequence[str]] = [
        (r.name, f"{r.value:.3g}", "yes" if r.used else "no", r.text)
        for r in found.transferable.rows
    ]
    yield table(title, ["what", "value", "used", "why"], carried, "prrp")
    if found.blind is not None:
        title = f"Blind test of {found.blind.cases} models: truth inside, and median width"
        headings = [
            "what",
            "in solve's range",
            "width",
            "in 90 %",
            "width",
            "before",
            "bits",
            "pinned",
        ]
        yield table(title, headings, _blind_rows(found.blind), "prrrrrrr")


def _blind_rows(blind: BlindTest) -> list[Sequence[str]]:
    return [
        (
            label,
            percent(s.coverage_region),
            "none" if math.isnan(s.region_width) else f"x {plain_number(s.region_width)}",
            percent(s.coverage90),
            f"x {plain_number(s.median_width)}",
            f"x {plain_number(s.prior_width)}",
            f"{s.information_bits:.2f}",
            "yes" if s.pinned else "no",
        )
        for label, s in ((QUANTITIES[name], blind.quantities[name]) for name in MODEL_QUANTITIES)
    ]


def sentences(found: Calibration) -> list[str]:
    """What the tables do not say."""
    run, bandwidth = found.run, found.bandwidth
    host, held = run.host, run.heldout
    read = format_quantity(host.ceilings.read_bytes_per_s, "bytes_per_s", digits=3)
    multiply = format_quantity(host.ceilings.matmul_flops_per_s, "flops_per_s", digits=3)
    active = format_quantity(bandwidth.active_weight_bytes, "bytes", digits=3)
    return [
        f"{host.cpu}, {host.cores} cores; on {host.on_threads} it reads at {read}, multiplies "
        f"float32 matrices at {multiply}.",
        f"Decode with {active} of active weights runs at {percent(bandwidth.fraction, 1)} of "
        "the read bandwidth measured in turns with it"
        + ("; the full run takes about 1 GB" if found.settings.quick else "")
        + (
            f" (other programs ran meanwhile: the median step took {percent(bandwidth.jitter)} "
            "more)."
            if bandwidth.jitter > JITTER
            else "."
        ),
        f"Held-out shapes: median error {percent(held.median_error, 1)}, "
        f"worst {percent(held.worst_error, 1)}; "
        f"{run.rounds} rounds, of which the fastest twentieth counts; the usual step took "
        f"{percent(run.jitter)} longer (other programs, the clock of the cores).",
        _range(found),
        "Seconds per byte, FLOP, layer, expert call and token stay on this machine.",
    ]


def _range(found: Calibration) -> str:
    timed = [p.point for p in (*found.run.fitted.points, *found.run.heldout.points)]
    batches = [p.batch for p in timed]
    contexts = [p.context_tokens for p in timed]
    return (
        f"Timed were batches of {min(batches)} to {max(batches)} and contexts of {min(contexts):,} "
        f"to {max(contexts):,} tokens; what the constants say of larger ones is unchecked."
    )


def _blind_sentences(blind: BlindTest) -> list[str]:
    pinned = [QUANTITIES[n] for n in MODEL_QUANTITIES if blind.quantities[n].pinned]
    loose = [QUANTITIES[n] for n in MODEL_QUANTITIES if not blind.quantities[n].pinned]
    said = f"The speed pins {' and '.join(pinned) or 'nothing'} within a factor of 2"
    if loose:
        said += f"; not {' nor '.join(loose)}"
    return [
        "Blind test: solve tells a range of each quantity; total, active and layers together, at "
        "the model's own vocabulary and head, are an answer of solve for "
        f"{percent(blind.coverage_region)} of the models. {said}."
        " A machine that is bound by memory bandwidth reads the active parameters and waits once "
        "a layer; the experts that a token does not use cost it nothing, so what is said of the "
        "total comes from the prior.",
        f"Drawn were {blind.rules}.",
    ]


def csv_rows(found: Calibration) -> list[list[Any]]:
    """All timed shapes for CSV, headings first."""
    parts = {"fit": found.run.fitted.points, "heldout": found.run.heldout.points}
    records = [{"part": part} | p.to_dict() for part, points in parts.items() for p in points]
    return doc.flatten(records, [key for key in records[0] if key != "name"])
