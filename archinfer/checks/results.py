"""What came of checks: one record for each expectation, and what is wrong with a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from archinfer.record import As, Record

Expectation: TypeAlias = Annotated[
    str,
    As(
        Literal[
            "feasible", "tokens_per_s", "nodes", "memory", "contains", "excludes", "claim", "lint"
        ]
    ),
]


@dataclass(frozen=True)
class Result(Record):
    """One expectation, held against the model."""

    name: str
    """of the check"""
    expectation: Expectation
    file: str
    line: int
    passed: bool
    message: str
    """what was found and what was expected, on one line"""
    margin: float | None
    """relative distance to the limit, positive where it holds (0.2: a fifth to spare); null: there
    is none"""


@dataclass(frozen=True)
class Remark(Record):
    """What is wrong with a check file, or to be known of a model that it names."""

    file: str
    line: int | None
    message: str


@dataclass(frozen=True)
class Report(Record):
    """What came of one or more check files."""

    KEYS = ("results", "passed", "failed", "errors", "warnings")

    results: tuple[Result, ...]
    errors: tuple[Remark, ...] = ()
    """files that are wrong; exit code 2"""
    warnings: tuple[Remark, ...] = ()
    """what to know of the models that are named"""

    @property
    def passed(self) -> int:
        """Expectations that hold."""
        return sum(r.passed for r in self.results)

    @property
    def failed(self) -> int:
        """Expectations that do not."""
        return len(self.results) - self.passed

    @property
    def exit_code(self) -> int:
        """0: all hold; 1: some fail; 2: a file is wrong."""
        return 2 if self.errors else 1 if self.failed else 0
