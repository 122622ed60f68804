"""The standard laws and their truncation, against SciPy's distributions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from archinfer.inference.statistics import LAWS, LawName, settled, truncated

SCIPY = {"normal": stats.norm(), "student": stats.t(4)}


@pytest.mark.parametrize("law", LAWS)
def test_cumulative_and_its_inverse(law: LawName) -> None:
    below, at = LAWS[law]
    tail = np.geomspace(1e-3, 30.0, 200)
    x = np.concatenate((-tail[::-1], [0.0], tail))
    exact = SCIPY[law].cdf(x)
    assert below(x) == pytest.approx(exact, rel=1e-12)
    p = np.concatenate((np.geomspace(1e-12, 0.5, 200), 1.0 - np.geomspace(0.4999, 1e-6, 200)))
    assert at(p) == pytest.approx(SCIPY[law].ppf(p), rel=1e-7, abs=1e-12)


@given(
    st.sampled_from(["normal", "student"]),
    st.floats(-3, 3),
    st.floats(0.1, 3),
    st.floats(-9, 9),
    st.floats(0.01, 8),
)
def test_truncated(law: LawName, mean: float, sd: float, low: float, width: float) -> None:
    z = np.linspace(-3, 3, 61)
    values, log_mass = truncated(z, mean, sd, low, low + width, law)
    exact = SCIPY[law]
    a, b = (low - mean) / sd, (low + width - mean) / sd
    mass = exact.cdf(b) - exact.cdf(a) if a < 0 else exact.sf(a) - exact.sf(b)
    assert np.exp(log_mass) == pytest.approx(mass, rel=1e-8)
    if mass > 1e-12:
        assert np.all(values >= low - 1e-6 * sd) and np.all(values <= low + width + 1e-6 * sd)
        assert np.all(np.diff(values) >= -1e-9)
    if mass > 1e-6 and a < 0:
        below = (exact.cdf((values - mean) / sd) - exact.cdf(a)) / mass
        assert below == pytest.approx(stats.norm.cdf(z), abs=1e-6)


def test_nothing_inside_an_empty_interval() -> None:
    values, log_mass = truncated(np.zeros(2), 0.0, 1.0, np.array([2.0, -np.inf]), -1.0)
    assert values[0] == 2.0 and log_mass[0] == -np.inf
    assert values[1] < -1.0 and log_mass[1] == pytest.approx(stats.norm.logcdf(-1.0))


def test_settled_digits_are_those_of_the_standard_error() -> None:
    """Of n standard normals the median has 1.2533 / sqrt(n): 0.0125 of 10,000, twice that is 0.05
    at the next 1, 2 or 5."""
    values = 10.0 + stats.norm().ppf((np.arange(10_000) + 0.5) / 10_000)
    found = settled(values + 0.013, np.full(10_000, 1e-4), (0.5,))
    assert found == pytest.approx([10.0])
    few = settled(values[::100] + 0.4, np.full(100, 1e-2), (0.5,))
    assert few == pytest.approx([10.5])
    assert settled(np.array([1.0, 100.0]), np.full(2, 0.5), (0.2, 0.95)) == pytest.approx(
        [1.0, 100.0]
    )
