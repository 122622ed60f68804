"""A small run of the fuzzer: commands and files drawn from fixed seeds, held against invariants."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
import fuzz

pytestmark = pytest.mark.usefixtures("few_draws")

SEEDS = range(22_000_000, 22_000_060)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_is_drawn_breaks_the_command_line(seed: int) -> None:
    _, command, wrong, _ = fuzz.attempt(seed)
    assert not wrong, f"archinfer {command}"
