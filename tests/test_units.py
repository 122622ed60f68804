import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archinfer.errors import UnitError
from archinfer.units import (
    DIMENSIONS,
    check_plausible,
    expected,
    format_quantity,
    parse,
    parse_range,
    plain_number,
)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_every_kind_of_quantity_has_bounds(dimension: str) -> None:
    low, high = DIMENSIONS[dimension].plausible
    for value in (0.0, low, high):
        check_plausible(value, dimension)
    for value in (low / 2.0, high * 2.0, 1e300):
        with pytest.raises(UnitError, match="expected between"):
            check_plausible(value, dimension)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("44 GB", "bytes", 44e9),
        ("44GB", "bytes", 44e9),
        ("48 KiB", "bytes", 49152.0),
        ("48 KB", "bytes", 48e3),
        ("44 GiB", "bytes", 44 * 2**30),
        ("512 B", "bytes", 512.0),
        ("21 PB/s", "bytes_per_s", 21e15),
        ("1.2 Tb/s", "bytes_per_s", 150e9),
        ("1.2 TB/s", "bytes_per_s", 1.2e12),
        ("100 Gbit/s", "bytes_per_s", 12.5e9),
        ("4 TiB/s", "bytes_per_s", 4 * 2**40),
        ("2T", "count", 2e12),
        ("150B", "count", 150e9),
        ("150G", "count", 150e9),
        ("1.5M", "count", 1.5e6),
        ("1_000", "count", 1000.0),
        (88, "count", 88.0),
        (1e9, "count", 1e9),
        ("128k", "tokens", 128_000.0),
        ("128K", "tokens", 128_000.0),
        ("128Ki", "tokens", 131_072.0),
        ("10M tokens", "tokens", 10e6),
        ("3 us", "seconds", 3e-6),
        ("0.2 \u00b5s", "seconds", 0.2e-6),
        ("0.2 \u03bcs", "seconds", 0.2e-6),
        ("5 ms", "seconds", 5e-3),
        ("0 s", "seconds", 0.0),
        ("23 kW", "watts", 23e3),
        ("1.1 GHz", "hertz", 1.1e9),
        ("15.6 PFLOP/s", "flops_per_s", 15.6e15),
        ("125 PFLOPS", "flops_per_s", 125e15),
        ("624 TOP/s", "flops_per_s", 624e12),
        ("2 GFLOP", "flops", 2e9),
        ("750", "tokens_per_s", 750.0),
        ("1.8k tok/s", "tokens_per_s", 1800.0),
        ("4.5 bits", "bits", 4.5),
        ("91 %", "ratio", 0.91),
        ("91%", "ratio", 0.91),
        (0.91, "ratio", 0.91),
        ("5 cycles", "cycles", 5.0),
        ("$2.5M", "dollars", 2.5e6),
        ("2.5M USD", "dollars", 2.5e6),
        ("$3.60/h", "dollars_per_hour", 3.6),
        ("3.6 USD/h", "dollars_per_hour", 3.6),
    ],
)
def test_values(text: str | float, dimension: str, value: float) -> None:
    assert parse(text, dimension) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "dimension", "said"),
    [
        ("44 GX", "bytes", "'44 GX': unit 'GX' is not a quantity in bytes; expected for example"),
        ("44 Gb", "bytes", "did you mean 'GB'"),
        ("44", "bytes", "without a unit"),
        (44, "bytes", "without a unit"),
        ("5m", "count", "did you mean 'M'"),
        ("5b", "count", "did you mean 'B'"),
        ("5 Ms", "seconds", "did you mean 'ms'"),
        ("3 GB", "tokens", "'GB' is a quantity in bytes"),
        ("3 GB", "bytes_per_s", "'GB' is a quantity in bytes"),
        ("2 GFLOP", "flops_per_s", "number of floating-point operations"),
        ("5 %", "number", "'%' is a ratio"),
        ("-5", "count", "negative"),
        ("nan", "count", "'nan' is not"),
        ("inf", "count", "'inf' is not"),
        (math.inf, "count", "'inf' is not"),
        (math.nan, "count", "'nan' is not"),
        ("1e999", "count", "too large"),
        ("", "count", "'' is not"),
        ("1,5", "count", "unit ',5'"),
        (True, "count", "True is not"),
        (None, "count", "None is not"),
        ("\u0661", "count", "is not a count"),
        ("1__0", "count", "unit '__0'"),
        ("$5", "bytes", "is not"),
    ],
)
def test_refusals(text: object, dimension: str, said: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse(text, dimension)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "expected for example" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("70:100", 70, 100),
        ("2T:4T", 2e12, 4e12),
        ("0.9T:", 0.9e12, math.inf),
        (":5", 0, 5),
        ("88", 88, 88),
        (88, 88, 88),
        (" 70 : 100 ", 70, 100),
        ("0:4T", 0, 4e12),
    ],
)
def test_ranges(text: str | float, low: float, high: float) -> None:
    assert parse_range(text, "count") == (low, high)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (":", "at least one end"),
        ("4T:2T", "low end is above"),
        ("2:4T", "write '2T:4T'"),
        ("1:2:3", "':3'"),
        ("a:b", "'a' is not"),
        ("5m:6m", "did you mean 'M'"),
    ],
)
def test_bad_ranges(text: str, said: str) -> None:
    with pytest.raises(UnitError, match=said):
        parse_range(text, "count")


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (44e9, "bytes", "44 GB"),
        (3.872e12, "bytes", "3.872 TB"),
        (21e15, "bytes_per_s", "21 PB/s"),
        (999_999.0, "count", "1M"),
        (2e12, "count", "2T"),
        (88, "count", "88"),
        (2e-7, "seconds", "200 ns"),
        (0.0, "seconds", "0 s"),
        (-3e9, "bytes", "-3 GB"),
        (0.91, "ratio", "91 %"),
        (12345.0, "tokens_per_s", "12340 tokens/s"),
        (2.5e6, "dollars", "2.5M USD"),
        (math.inf, "count", "inf"),
    ],
)
def test_formats(value: float, dimension: str, text: str) -> None:
    assert format_quantity(value, dimension) == text


def test_nan_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="NaN"):
        format_quantity(math.nan, "bytes")


@given(
    st.sampled_from(sorted(DIMENSIONS)),
    st.floats(min_value=1e-12, max_value=1e20),
    st.integers(min_value=4, max_value=15),
)
def test_round_trip(dimension: str, value: float, digits: int) -> None:
    text = format_quantity(value, dimension, digits)
    assert parse(text, dimension) == pytest.approx(value, rel=10.0 ** (1 - digits))


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(52_400.0, 3, "52,400"), (150.0, 2, "150"), (0.01234, 3, "0.0123"), (1.26e22, 3, "1.26e+22"),
     (12.34, 3, "12.3"), (999.9, 3, "1,000"), (5.0, 2, "5"), (0.0, 3, "0")],
)  # fmt: skip
def test_plain_numbers(value: float, digits: int, text: str) -> None:
    assert plain_number(value, digits) == text


@given(st.sampled_from(sorted(DIMENSIONS)), st.text(max_size=20))
def test_any_text_is_read_or_refused(dimension: str, text: str) -> None:
    for read in (parse, parse_range):
        try:
            value = read(text, dimension)
        except UnitError as error:
            assert len(str(error).splitlines()) == 1
        else:
            assert not math.isnan(value[0] if isinstance(value, tuple) else value)


@pytest.mark.parametrize("dimension", sorted(DIMENSIONS))
def test_examples_parse(dimension: str) -> None:
    kind = DIMENSIONS[dimension]
    for example in kind.examples:
        assert parse(example, dimension) > 0
        assert repr(example) in expected(dimension)
    for _, unit in kind.shown:
        assert parse(f"1 {unit}", dimension) > 0
