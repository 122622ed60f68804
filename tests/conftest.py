"""Settings that every test shares."""

import os
from collections.abc import Iterator

# One process a core runs the tests: threads of matrix products would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from archinfer.inference import alternatives
from archinfer.inference.infer import infer

# A shared machine may stall for longer than any deadline; no test here is about time.
settings.register_profile("archinfer", deadline=None)
settings.load_profile("archinfer")


@pytest.fixture(scope="module")
def few_draws() -> Iterator[None]:
    """Posteriors of few draws: for modules that assert what is said of one, and no figure of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(infer, "__defaults__", (2048, 0))
        patch.setitem(infer.__kwdefaults__, "target_ess", 300.0)
        patch.setattr(alternatives, "SAMPLES", 512)
        patch.setattr(alternatives, "TARGET_ESS", 50.0)
        yield
