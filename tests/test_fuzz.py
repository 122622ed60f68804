"""A small run of the fuzzer: commands and files drawn from fixed seeds, held against invariants."""

import pytest

from tests.tools.fuzz import attempt


# Sixty, and some that once broke it.
@pytest.mark.parametrize(
    "seed", [*range(22_000_000, 22_000_060), 91_000_105, 91_001_104, 91_004_844]
)
def test_nothing_that_is_drawn_breaks_the_command_line(seed: int) -> None:
    tried = attempt(seed)
    assert not tried.wrong, f"archinfer {tried.command}"
