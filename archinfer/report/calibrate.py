"""What `archinfer calibrate` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archinfer.report.tables import print_table
from archinfer.units import format_quantity
from archinfer.words import seconds

if TYPE_CHECKING:
    from archinfer.calibration.blind import BlindTest
    from archinfer.calibration.calibrate import Calibration
    from archinfer.calibration.fit import Coefficient, Timing

__all__ = ["point_rows", "print_calibration", "sentences", "tables"]

Table = tuple[str, list[str], list[list[str]]]

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
    "compute_efficiency": "peak reached",
    "small_matrix_speed": "speed of small matrices, on one core",
}
_QUANTITIES = {
    "total_params": "total parameters",
    "active_params": "active parameters",
    "layers": "layers",
}


def _show(name: str, value: float) -> str:
    if name.startswith("seconds"):
        # Times of a single byte are far below a nanosecond.
        return f"{value * 1e12:.3g} ps" if value < 1e-9 else seconds(value)
    return f"{value:.1%}"


def _coefficient(name: str, c: Coefficient) -> list[str]:
    return [_COEFFICIENTS[name], _show(name, c.value), _show(name, c.low), _show(name, c.high)]


def _point(p: Timing) -> list[str]:
    return [
        p.point.name,
        f"{p.measured_tokens_per_s:,.4g}",
        f"{p.predicted_tokens_per_s:,.4g}",
        f"{p.error:+.1%}",
    ]


def tables(found: Calibration) -> list[Table]:
    """Every table: title, headings, rows."""
    result: list[Table] = [
        (
            "Fitted, with 90 % intervals",
            ["what", "value", "low", "high"],
            [_coefficient(name, c) for name, c in found.run.fit.coefficients.items()],
        ),
        (
            "Held-out shapes, tokens/s of one sequence",
            ["model", "measured", "predicted", "error"],
            [_point(p) for p in found.run.heldout.points],
        ),
        (
            f"Distinct experts hit by a batch ({found.routing.experts} experts, top "
            f"{found.routing.experts_per_token})",
            ["batch", "counted", "even routing"],
            [
                [f"{b.batch}", f"{b.experts_hit:.1f}", f"{b.even:.1f}"]
                for b in found.routing.batches
            ],
        ),
        (
            "What carries over to other hardware (solve --calibration FILE)",
            ["what", "value", "used", "why"],
            [
                [r.name, f"{r.value:.3g}", "yes" if r.used else "no", r.text]
                for r in found.transferable.rows
            ],
        ),
    ]
    if found.blind is not None:
        result.append(_blind_table(found.blind))
    return result


def _blind_table(blind: BlindTest) -> Table:
    rows = []
    for name, label in _QUANTITIES.items():
        s = blind.quantities[name]
        rows.append(
            [
                label,
                f"{s.coverage_region:.0%}",
                f"x {s.region_width:.3g}",
                f"{s.coverage90:.0%}",
                f"x {s.median_width:.3g}",
                f"x {s.prior_width:.3g}",
                f"{s.information_bits:.2f}",
                "yes" if s.pinned else "no",
            ]
        )
    return (
        f"Blind test of {blind.cases} models: truth inside, and median width",
        ["what", "region", "width", "90 %", "width", "before", "bits", "pinned"],
        rows,
    )


def sentences(found: Calibration) -> list[str]:
    """What the tables do not say."""
    run, bandwidth = found.run, found.bandwidth
    host, held = run.host, run.heldout
    read = format_quantity(host.ceilings.read_bytes_per_s, "bytes_per_s", digits=3)
    multiply = format_quantity(host.ceilings.matmul_flops_per_s, "flops_per_s", digits=3)
    active = format_quantity(bandwidth.active_weight_bytes, "bytes", digits=3)
    lines = [
        f"{host.cpu}, {host.cores} cores; on {host.on_threads} it reads at {read}, multiplies "
        f"float32 matrices at {multiply}.",
        f"Decode with {active} of active weights runs at {bandwidth.fraction:.1%} of "
        "the read bandwidth measured in turns with it"
        + ("; the full run takes about 1 GB" if found.settings.quick else "")
        + (
            f" (other programs ran meanwhile: the median step took {bandwidth.jitter:.0%} more)."
            if bandwidth.jitter > JITTER
            else "."
        ),
        f"Held-out shapes: median error {held.median_error:.1%}, worst {held.worst_error:.1%}; "
        f"{run.rounds} rounds; the median of repeated steps is {run.jitter:.0%} above the "
        "5 % quantile that counts.",
        _range(found),
        "Seconds per byte, FLOP, layer, expert call and token stay on this machine.",
    ]
    if found.blind is not None:
        lines += _blind_sentences(found.blind)
    return lines


def _range(found: Calibration) -> str:
    timed = [p.point for p in (*found.run.fitted.points, *found.run.heldout.points)]
    batches = [p.batch for p in timed]
    contexts = [p.context_tokens for p in timed]
    return (
        f"Timed were batches of {min(batches)} to {max(batches)} and contexts of {min(contexts):,} "
        f"to {max(contexts):,} tokens; what the constants say of larger ones is unchecked."
    )


def _blind_sentences(blind: BlindTest) -> list[str]:
    pinned = [label for n, label in _QUANTITIES.items() if blind.quantities[n].pinned]
    loose = [label for n, label in _QUANTITIES.items() if not blind.quantities[n].pinned]
    said = f"The speed pins {' and '.join(pinned) or 'nothing'} within a factor of 2"
    if loose:
        said += f"; not {' nor '.join(loose)}"
    return [
        f"Blind test: {blind.coverage_region:.0%} of the models lie in the solver's region. {said}."
        " A machine that is bound by memory bandwidth reads the active parameters and waits once "
        "a layer; the experts that a token does not use cost it nothing, so what is said of the "
        "total comes from the prior.",
        f"Family: {blind.scaled.rules_text}.",
    ]


def point_rows(found: Calibration) -> tuple[list[str], list[list[Any]]]:
    """All timed shapes, for CSV."""
    headings = [
        "part", "layers", "hidden_size", "experts", "experts_per_token", "context_tokens",
        "batch", "measured_tokens_per_s", "predicted_tokens_per_s", "error",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for part, points in (("fit", found.run.fitted.points), ("heldout", found.run.heldout.points)):
        for p in points:
            c, at = p.point.config, p.point
            model = [c.layers, c.hidden_size, c.experts, c.experts_per_token]
            speeds = [p.measured_tokens_per_s, p.predicted_tokens_per_s, p.error]
            rows.append([part, *model, at.context_tokens, at.batch, *speeds])
    return headings, rows


def print_calibration(found: Calibration) -> None:
    """Everything, on standard output."""
    from rich.text import Text

    from archinfer.report.tables import new_console

    console = new_console()
    for line in sentences(found)[:5]:
        console.print(Text(line))
    console.print()
    for title, headings, rows in tables(found):
        print_table(console, title, headings, rows)
    for line in sentences(found)[5:]:
        console.print(Text(line))
        console.print()
