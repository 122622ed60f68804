"""Numbers and small phrases as they are shown: each format once, for every answer and message."""

from __future__ import annotations

import math
from collections.abc import Sequence

from archinfer.units import format_quantity, plain_number

QUANTITIES = {
    "total_params": "total parameters",
    "active_params": "active parameters",
    "layers": "layers",
    "nodes": "nodes",
}
"""What every answer calls the quantities of a model, by their keys in JSON."""

QUANTITIES_IN_USE = QUANTITIES | {"nodes": "nodes in use"}
"""The same of models that were drawn, whose nodes are those in use."""

SIZES = {"total_params": "total", "active_params": "active", "layers": "layers"}
"""The same in a column or a short line."""

_STEPS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def compact(value: float, digits: int = 3) -> str:
    """A count in at most `digits` significant digits: 3.52T, 120B, 88."""
    if not math.isfinite(value):
        return "-"
    rounded = float(f"{value:.{digits}g}")
    for factor, letter in _STEPS:
        if rounded >= factor and (letter != "k" or rounded >= 1e4):
            scaled = rounded / factor
            return f"{scaled:{',.0f' if scaled >= 100 else f'.{digits}g'}}{letter}"
    return f"{rounded:{',.0f' if rounded >= 100 else f'.{digits}g'}}"


def figure(value: float, digits: int = 3) -> str:
    """Any number in so many digits; a dash where there is none."""
    return plain_number(value, digits) if math.isfinite(value) else "-"


def seconds(value: float) -> str:
    """A time to three digits with its unit."""
    return format_quantity(value, "seconds", digits=3)


def size(value_bytes: float) -> str:
    """A number of bytes to three digits with its unit."""
    return format_quantity(value_bytes, "bytes", digits=3)


def speed(tokens_per_s: float) -> str:
    """A speed to three digits: 2,020."""
    rounded = float(f"{tokens_per_s:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


def speeds(p05: float, p50: float, p95: float) -> str:
    """A speed with its 90 % interval, as in `320 < 799 < 2,020`."""
    return f"{speed(p05)} < {speed(p50)} < {speed(p95)}"


def span(low: float, high: float) -> str:
    """Both ends, or the one number: `1 to 3`."""
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def counted(count: float, noun: str) -> str:
    """How many: `1 wafer`, `1,024 wafers`."""
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"


def load(context_tokens: int, users: int) -> str:
    """What is served at once: `8,000 tokens of context, 1 user`."""
    return f"{context_tokens:,} tokens of context, {counted(users, 'user')}"


def gain(low: float, high: float) -> str:
    """What speculation is taken to gain: `1 to 3 accepted tokens a pass`."""
    return f"{span(low, high)} accepted token{'' if low == high == 1 else 's'} a pass"


def change(ratio: float, digits: int = 0) -> str:
    """A relative change in percent with its sign; none for zero."""
    shown = round(100.0 * ratio, digits) if math.isfinite(ratio) else 0.0
    return f"{shown:+,.{digits}f} %" if shown else f"{0.0:.{digits}f} %"


def percent(share: float, digits: int = 0) -> str:
    """A share in percent with so many decimals: `84 %`.

    >>> percent(0.843), percent(0.897, 1)
    ('84 %', '89.7 %')
    """
    return f"{100.0 * share:,.{digits}f} %"


def listed(words: Sequence[str]) -> str:
    """`one, two and three`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def capital(text: str) -> str:
    """The text with its first letter in upper case, the rest as it is."""
    return text[:1].upper() + text[1:]
