"""Quantities as people write them ("44 GB", "21 PB/s", "2T", "3 us") and base SI numbers.

Rules, without exception:

* Prefixes are decimal: k = 1e3, M = 1e6, G = 1e9, T = 1e12, P = 1e15, E = 1e18. `128k` tokens
  are 128,000. Binary ones must be written: Ki = 1024, Mi, Gi, Ti, Pi, Ei.
* Units are case-sensitive: `B` is bytes and `b` is bits, `M` is mega and `m` is milli. Only kilo
  may be either `k` or `K`.
* Counts (parameters, tokens) use k, M, B (billion; G means the same) and T (trillion).
* No number is negative, and none is infinite or NaN.

Base units: bytes, bytes/s, seconds, watts, hertz, FLOP, FLOP/s, tokens, tokens/s, bits, cycles,
dollars, dollars/hour, dollars/kWh, years, J/byte, J/FLOP; a ratio is a plain number (`91 %` is
0.91).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final, NamedTuple

from archinfer.errors import UnitError, foreign_digit, shorten

_SMALL: Final = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "": 1.0}
_LARGE: Final = {
    "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
}  # fmt: skip
_BINARY: Final = {p + "i": 1024.0**i for i, p in enumerate("KMGTPE", start=1)}
_COUNT: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


def _units(prefixes: dict[str, float], *names: str, scale: float = 1.0) -> dict[str, float]:
    return {prefix + name: factor * scale for prefix, factor in prefixes.items() for name in names}


SPEED_MOST: Final = 1e9
"""Most tokens/s of a user, of a prompt or of all users that a question or a file names."""


class Dimension(NamedTuple):
    """One kind of quantity."""

    noun: str
    """what messages call it, after "is not" or "expected" """
    examples: tuple[str, ...]
    units: dict[str, float]
    """every accepted unit and its factor to the base unit ("" where a plain number is)"""
    shown: tuple[tuple[float, str], ...]
    """(factor, unit with its space) from small to large, for `format_quantity`"""
    plausible: tuple[float, float]
    """Least and most, beside 0, that a figure or a question may name: wider than any machine or
    model, and narrow enough that what is computed from them stays a number"""
    base: str = ""
    """the unit in which `parse` returns it; "" for plain numbers"""


def _shown(unit: str, prefixes: str, first: int = 0) -> tuple[tuple[float, str], ...]:
    return tuple((10.0 ** (3 * (i + first)), f" {p.strip()}{unit}") for i, p in enumerate(prefixes))


_BYTES: Final = _units(_LARGE | _BINARY, "B")
_BITS_PER_S: Final = _units(_LARGE | _BINARY, "b/s", "bit/s", "bps", scale=1 / 8)
_BYTES_PER_S: Final = _units(_LARGE | _BINARY, "B/s", "Bps") | _BITS_PER_S
_OPS: Final = ("FLOP/s", "FLOPs/s", "FLOPS", "OP/s", "OPs/s", "OPS")
_TOKENS_SHOWN: Final = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "B"), (1e12, "T"))
_RENT_SHOWN: Final = ((1.0, " USD/h"), (1e3, "k USD/h"), (1e6, "M USD/h"))
_DOLLARS_SHOWN: Final = ((1.0, " USD"), (1e3, "k USD"), (1e6, "M USD"), (1e9, "B USD"))
_PLAIN: Final = ((1.0, ""),)

DIMENSIONS: Final[dict[str, Dimension]] = {
    "bytes": Dimension(
        "a quantity in bytes", ("44 GB", "44 GiB"),
        _BYTES, _shown("B", " kMGTPE"), (1.0, 1e24), "B",
    ),
    "bytes_per_s": Dimension(
        "a bandwidth in bytes or bits per second", ("21 PB/s", "1.2 Tb/s"),
        _BYTES_PER_S, _shown("B/s", " kMGTPE"), (1.0, 1e24), "B/s",
    ),
    "count": Dimension(
        "a count (k, M, B = billion, T = trillion)", ("2T", "150B"),
        _COUNT, _TOKENS_SHOWN, (1.0, 1e18),
    ),
    "whole": Dimension("a whole number", ("8", "88"), _COUNT, _TOKENS_SHOWN, (1.0, 1e15)),
    "accepted": Dimension(
        "a number of accepted tokens a pass", ("1", "2.5"), {"": 1.0}, _PLAIN, (1e-3, 1e6)
    ),
    "tokens": Dimension(
        "a number of tokens (128k = 128,000; 128Ki = 131,072)", ("128k", "4096"),
        _units(_COUNT | _BINARY, "", "tokens", "token"), _TOKENS_SHOWN, (1.0, 1e15), "tokens",
    ),
    "seconds": Dimension(
        "a time", ("3 us", "5 ms"),
        _units(_SMALL, "s"), _shown("s", "num ", first=-3), (1e-15, 1e6), "s",
    ),
    "watts": Dimension(
        "a power", ("23 kW", "700 W"), _units(_LARGE, "W"), _shown("W", " kMG"), (1e-6, 1e15), "W"
    ),
    "hertz": Dimension(
        "a frequency", ("1.1 GHz", "850 MHz"),
        _units(_LARGE, "Hz"), _shown("Hz", " kMGT"), (1.0, 1e15), "Hz",
    ),
    "flops": Dimension(
        "a number of floating-point operations", ("2 GFLOP",),
        _units(_LARGE, "FLOP", "FLOPs"), _shown("FLOP", " kMGTPE"), (1.0, 1e30), "FLOP",
    ),
    "flops_per_s": Dimension(
        "a rate of operations", ("15.6 PFLOP/s", "624 TOP/s"),
        _units(_LARGE, *_OPS), _shown("FLOP/s", " kMGTPE"), (1.0, 1e27), "FLOP/s",
    ),
    "tokens_per_s": Dimension(
        "a speed in tokens per second", ("750", "1.8k tokens/s"),
        _units(_COUNT, "", "tokens/s", "token/s", "tok/s"),
        ((1.0, " tokens/s"), (1e6, "M tokens/s")), (1e-6, SPEED_MOST), "tokens/s",
    ),
    "bits": Dimension(
        "a number of bits", ("4.5 bits", "8"),
        {"": 1.0, "bit": 1.0, "bits": 1.0, "b": 1.0}, ((1.0, " bits"),), (1e-3, 1e6), "bits",
    ),
    "cycles": Dimension(
        "a number of clock cycles", ("5 cycles", "0.81"),
        {"": 1.0, "cycle": 1.0, "cycles": 1.0}, ((1.0, " cycles"),), (1e-6, 1e9), "cycles",
    ),
    "number": Dimension("a plain number", ("10", "0.5"), {"": 1.0}, _PLAIN, (1e-9, 1e15)),
    "ratio": Dimension(
        "a ratio", ("91 %", "0.91"), {"": 1.0, "%": 0.01}, ((0.01, " %"),), (1e-6, 1e6)
    ),
    "dollars": Dimension(
        "an amount of dollars", ("2.5 USD", "$30k"),
        _units(_COUNT, "USD"), _DOLLARS_SHOWN, (1e-6, 1e15), "USD",
    ),
    "dollars_per_hour": Dimension(
        "dollars per hour", ("2.5 USD/h", "$2.5/h"),
        _units(_COUNT, "USD/h", "USD/hour"), _RENT_SHOWN, (1e-6, 1e15), "USD/h",
    ),
    "dollars_per_kwh": Dimension(
        "a price of energy", ("0.10 USD/kWh",),
        {"USD/kWh": 1.0}, ((1.0, " USD/kWh"),), (1e-6, 1e6), "USD/kWh",
    ),
    "years": Dimension(
        "a time in years", ("4 years",),
        {"years": 1.0, "year": 1.0}, ((1.0, " years"),), (1e-3, 1e3), "years",
    ),
    "joules_per_byte": Dimension(
        "an energy per byte", ("95 pJ/B",),
        {"pJ/B": 1e-12, "nJ/B": 1e-9}, ((1e-12, " pJ/B"),), (1e-18, 1.0), "J/B",
    ),
    "joules_per_flop": Dimension(
        "an energy per operation", ("0.8 pJ/FLOP",),
        {"pJ/FLOP": 1e-12}, ((1e-12, " pJ/FLOP"),), (1e-21, 1.0), "J/FLOP",
    ),
}  # fmt: skip

_NUMBER: Final = re.compile(r"(\d(?:_?\d)*\.?\d*|\.\d+)(e[+-]?\d{1,4})?", re.IGNORECASE | re.ASCII)


def expected(dimension: str, error: UnitError | None = None) -> str:
    """What a message says it wanted: "expected a quantity in bytes such as '44 GB' or '44 GiB'",
    after what was wrong with a quantity that `parse` refused."""
    kind = DIMENSIONS[dimension]
    why = f"{error.why}; " if error is not None and error.why else ""
    return f"{why}expected {kind.noun} such as {' or '.join(map(repr, kind.examples))}"


def check_plausible(value: float, dimension: str) -> None:
    """Refuse what no quantity of its kind is; 0 passes, since some may be.

    Raises:
        UnitError: says between which ends it must lie.
    """
    kind = DIMENSIONS[dimension]
    if value != 0.0 and not kind.plausible[0] <= value <= kind.plausible[1]:
        ends = " and ".join(f"{end:g} {kind.base}".strip() for end in kind.plausible)
        raise UnitError(f"expected between {ends}")


def parse(text: str | float, dimension: str) -> float:
    """The quantity in base SI units.

    Args:
        text: what the user wrote; a bare int or float counts as a text without a unit.
        dimension: a key of DIMENSIONS.

    Raises:
        UnitError: no number, a negative or non-finite one, or a unit of something else;
            the message says what was expected.
    """
    return _parse(text, dimension)[0]


def parse_range(text: str | float, dimension: str, lowest: float = 0.0) -> tuple[float, float]:
    """(low, high) of "70:100", "2T:4T", "0.9T:", ":5" or "88" (both ends alike).

    An open low end is `lowest` (no more than the high one), an open high end is infinity. "2:4T"
    is refused: it could mean either 2 or 2T.

    Raises:
        UnitError: as `parse`; also low above high, or no end at all.
    """
    if not isinstance(text, str) or ":" not in text:
        value = parse(text, dimension)
        return value, value
    low_text, _, high_text = (part.strip() for part in text.partition(":"))
    if not low_text and not high_text:
        raise UnitError(f"{shorten(text)}: a range needs at least one end; expected for example "
                        f"'{DIMENSIONS[dimension].examples[0]}:'")  # fmt: skip
    low, low_unit = _parse(low_text, dimension) if low_text else (lowest, "")
    high, high_unit = _parse(high_text, dimension) if high_text else (math.inf, "")
    if not low_text:
        low = min(low, high)
    if low_text and high_text and low > 0.0 and high_unit and not low_unit:
        raise UnitError(
            f"{shorten(text)}: only one end has a unit; write '{low_text}{high_unit}:{high_text}' "
            f"or give both in plain numbers"
        )
    if low > high:
        raise UnitError(f"{shorten(text)}: the low end is above the high end")
    return low, high


def format_quantity(value: float, dimension: str, digits: int = 4) -> str:
    """The text of a base SI number, with `digits` significant digits; `parse` reads it back.

    Negative numbers keep their sign (a slack can be one) and infinity is "inf"; `parse` takes
    neither.

    Raises:
        ValueError: NaN.
    """
    if math.isnan(value):
        raise ValueError("NaN is not a quantity")
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    sign, size = ("-", -value) if value < 0 else ("", float(value))
    shown = DIMENSIONS[dimension].shown
    rounded = float(f"{size:.{digits}g}")
    factor, unit = shown[0]
    if rounded == 0.0:
        factor, unit = min(shown, key=lambda s: abs(math.log(s[0])))
    for candidate in shown:
        if rounded >= candidate[0] * (1 - 1e-12):
            factor, unit = candidate
    mantissa = f"{size / factor:.{digits}g}"
    if "e" in mantissa and 1.0 <= float(mantissa) < 1e15:
        mantissa = f"{float(mantissa):.0f}"
    return f"{sign}{mantissa}{unit}"


def format_range(low: float, high: float, dimension: str) -> str:
    """A range as one types it: 60:90, 0.9T: where the high end is open, 61 where both are one.

    Raises:
        ValueError: unknown dimension.
    """
    first = format_quantity(low, dimension)
    if low == high:
        return first
    return f"{first}:" if high == math.inf else f"{first}:{format_quantity(high, dimension)}"


def _parse(text: str | float, dimension: str) -> tuple[float, str]:
    kind = DIMENSIONS[dimension]
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise UnitError(f"{shorten(text)} is not {kind.noun}; {_examples(kind)}")
    raw = text if isinstance(text, str) else repr(text)
    body = raw.strip()
    currency = "USD" in "".join(kind.units) and body.startswith("$")
    match = _NUMBER.match(body[1:].lstrip() if currency else body)
    if match is None:
        negative = body.startswith("-")
        found = "a negative number" if negative else f"not {kind.noun}{foreign_digit(body)}"
        raise _refused(raw, found, kind, negative)
    unit = "".join(match.string[match.end() :].split())
    if currency and "USD" not in unit:
        magnitude, slash, per = unit.partition("/")
        unit = f"{magnitude}USD{slash}{per}"
    if unit not in kind.units:
        wrong = _wrong_unit(unit, kind)
        error = UnitError(f"{shorten(raw)}: {wrong}; {_examples(kind)}")
        error.why = wrong if "(" in wrong else ""
        raise error
    number = match.group(0).replace("_", "")
    # Decimal, so that "5 us" is the float nearest to 5e-6 and not 5 times that of 1e-6.
    value = float(Decimal(number) * _exact(kind.units[unit]))
    if not math.isfinite(value):
        raise _refused(raw, "too large a number", kind)
    return value, unit


def _refused(raw: str, found: str, kind: Dimension, known: bool = True) -> UnitError:
    """That a text is no quantity of its kind; `known`: what is wrong with it is."""
    error = UnitError(f"{shorten(raw)} is {found}; {_examples(kind)}")
    error.why = found if known else ""
    return error


def _exact(factor: float) -> Decimal:
    return Decimal(int(factor)) if factor.is_integer() else Decimal(repr(factor))


def _wrong_unit(unit: str, kind: Dimension) -> str:
    if not unit:
        return f"a number without a unit is not {kind.noun}"
    if unit.startswith(":"):
        return f"{shorten(unit)} makes it a range, and one number is expected here"
    strange = foreign_digit(unit)
    if strange:
        return strange.removeprefix("; ")
    same = [u for u in kind.units if u.lower() == unit.lower()]
    if same:
        hint = f" (units are case-sensitive: did you mean {same[0]!r}?)"
    else:
        others = [other.noun for other in DIMENSIONS.values() if unit in other.units]
        hint = f" ({unit!r} is {others[0]})" if others else ""
    return f"unit {shorten(unit)} is not {kind.noun}{hint}"


def _examples(kind: Dimension) -> str:
    return f"expected for example {', '.join(map(repr, kind.examples))}"


def plain_number(value: float, digits: int = 3) -> str:
    """`digits` significant digits, without an exponent below 1e12: 52,400; 150; 0.0123."""
    rounded = float(f"{value:.{digits}g}")
    if 10.0 ** (digits - 1) <= abs(rounded) < 1e12:
        return f"{rounded:,.0f}"
    return f"{rounded:,.{digits}g}"
