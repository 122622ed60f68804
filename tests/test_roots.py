import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize.elementwise import find_root

from archinfer.solver.jumps import Jumping, ends_of_several, highest
from archinfer.solver.roots import last_nonnegative


def test_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    slope, bend, shift = rng.uniform(0.1, 5.0, (3, 500))

    def f(x: np.ndarray, i: np.ndarray) -> np.ndarray:
        return shift[i] - slope[i] * x - bend[i] * np.expm1(x)

    low, high = np.full(500, -3.0), np.full(500, 10.0)
    ours = last_nonnegative(f, low, high)
    theirs = find_root(lambda x, i: f(x, i.astype(int)), (low, high), args=(np.arange(500.0),)).x
    assert np.allclose(ours, theirs, rtol=0, atol=1e-10)
    assert (f(ours, np.arange(500)) >= 0.0).all()


# Steps of 1e-6: the cube of anything smaller underflows, and its sign with it.
SIX_DIGITS = st.floats(-5, 5).map(lambda x: round(x, 6))


@given(SIX_DIGITS, SIX_DIGITS, st.sampled_from(["step", "flat", "cube"]), st.floats(0, 9))
def test_ends_and_plateaus(start: float, at: float, kind: str, width: float) -> None:
    shapes = {
        "step": lambda x: np.where(x <= at, 1.0, -1.0),
        "flat": lambda x: np.minimum(at - x, 0.0) + 0.0,
        "cube": lambda x: (at - x) ** 3,
    }
    low, high = np.array([start]), np.array([start + width])
    found = last_nonnegative(lambda x, _: shapes[kind](x), low, high)[0]
    if start > at:
        assert found == -np.inf
    else:
        # (at - x)^3 underflows to zero a little above `at`.
        assert found == pytest.approx(min(at, start + width), abs=1e-6)


def test_empty_bracket() -> None:
    found = last_nonnegative(lambda x, _: x, np.array([1.0]), np.array([0.0]))
    assert found[0] == -np.inf


@pytest.mark.parametrize("jump", np.linspace(0.21, 2.93, 23))
def test_ends_beyond_a_jump_of_any_place(jump: float) -> None:
    """Falls below 0 at 0.1, is 1e-3 above it where it jumps, and falls again: known ends."""

    def both(x: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        return np.where(x > jump, jump + 1e-3 - x, 0.1 - x), [x - jump]

    function, low, high = Jumping.parts(both), np.array([0.0, 0.2]), np.array([3.0, 3.0])
    first, last = ends_of_several(function, low, high, 6)
    assert last == pytest.approx([jump + 1e-3] * 2, abs=1e-10)
    assert first == pytest.approx([0.0, jump], abs=1e-9)
    x, most = highest(function, low[1:], high[1:], np.array([0]), 6)
    assert x == pytest.approx([jump], abs=1e-6)
    assert most == pytest.approx([1e-3], abs=1e-6)


def test_a_maximum_between_steps_that_reaches_0() -> None:
    def both(x: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        return 1e-6 - (x - 1.234) ** 2, []

    ends = ends_of_several(Jumping.parts(both), np.array([0.0]), np.array([3.0]), 6)
    assert np.concatenate(ends) == pytest.approx([1.233, 1.235], abs=1e-9)
