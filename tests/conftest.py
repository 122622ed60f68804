"""Settings that every test shares."""

import os
from collections.abc import Iterator

# One process a core runs the tests: threads of matrix products would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from tests.few import answered_once, few_draws

# A shared machine may stall for longer than any deadline; no test here is about time.
settings.register_profile("archinfer", deadline=None)
settings.load_profile("archinfer")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares one long computation comes first: workers take over from each other's ends, where
    they would compute it twice."""
    items.sort(key=lambda item: item.path.stem != "test_validate")


@pytest.fixture(scope="session", autouse=True)
def _no_window() -> None:
    """A width is that of a test that sets one: processes of pytest-xdist have one of their own."""
    os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="module", name="answered_once")
def commands_that_are_answered_once() -> Iterator[None]:
    """For modules that look at the same answers in several forms."""
    with answered_once():
        yield


@pytest.fixture(scope="module", name="few_draws")
def posteriors_of_few_draws(answered_once: None) -> Iterator[None]:
    """For modules that assert what is said of a posterior, and no figure of it."""
    with few_draws():
        yield
