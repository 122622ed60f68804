"""Posteriors of few draws: where it is asserted what is said of one, and no figure of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from archinfer.inference import alternatives
from archinfer.inference.infer import infer

assert infer.__kwdefaults__ is not None


@contextmanager
def few_draws() -> Iterator[None]:
    """As long as it lasts."""
    with (
        patch.object(infer, "__defaults__", (2048, 0)),
        patch.dict(infer.__kwdefaults__, target_ess=300.0),
        patch.object(alternatives, "SAMPLES", 512),
        patch.object(alternatives, "TARGET_ESS", 50.0),
    ):
        yield
