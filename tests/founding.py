"""The founding question, as tests of inferences ask it."""

from __future__ import annotations

from functools import cache

from archinfer.hardware.profile import Hardware
from archinfer.solver.question import Question


@cache
def wafer() -> Hardware:
    return Hardware.load("wse-3")


def founding(**changes: object) -> Question:
    return Question(wafer(), observed=True).with_(**changes)
