"""Evidence as data: what was observed, announced or estimated of one service, piece by piece.

A piece is a number with its kind, its conditions and its spread; what each kind means, and how it
would be measured, stands in `KINDS`. Predictions of each kind are in `observing`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, TypeAlias

from archinfer.asking import Range
from archinfer.hardware.profile import Hardware
from archinfer.record import As, Record
from archinfer.units import format_quantity
from archinfer.words import counted

Stated: TypeAlias = Annotated[str, As(Literal["measured", "announced", "at least", "at most"])]

Process: TypeAlias = Literal["decode", "prompt", "draft", "shape", "service", "price"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of observation."""

    dimension: str
    """key of `units.DIMENSIONS`"""
    noun: str
    process: Process
    """whose error of the model it shares"""
    spread: float = 0.0
    """standard deviation of its logarithm where none is stated, beside the model's error"""
    how: str = ""
    """how one would measure it"""
    announced: float = 1.0
    """1 where an announcement flatters by a large number, -1 by a small one"""


KINDS: Final[dict[str, Kind]] = {
    "speed": Kind(
        "tokens_per_s", "speed", "decode", 0.0,
        "stream 500 tokens at {} of context, five times, and divide by the time after the first",
    ),
    "throughput": Kind(
        "tokens_per_s", "tokens/s over all users", "decode", 0.1, "the provider's own figures",
    ),
    "prefill": Kind(
        "tokens_per_s", "prefill", "prompt", 0.05,
        "time the first token of two prompts, the second {} longer, five times each",
    ),
    "ttft": Kind(
        "seconds", "time to first token", "prompt", 0.1,
        "time to first token of a prompt of {}, five times, at a quiet hour", -1.0,
    ),
    "tokens_per_pass": Kind(
        "accepted", "tokens a pass", "draft", 0.05,
        "count the tokens of each chunk of a stream, over 2,000 tokens",
    ),
    "nodes": Kind("whole", "nodes in use", "service", 0.1, "the provider's own figures"),
    "power": Kind("watts", "power of all nodes", "service", 0.2, "permits and bills of the site"),
    "output_price": Kind(
        "dollars", "price of a million output tokens", "price", 0.0, "the provider's price list",
    ),
    "input_price": Kind(
        "dollars", "price of a million input tokens", "price", 0.0, "the provider's price list",
    ),
    "total": Kind("count", "total parameters", "shape", 0.0, "release notes, or knowledge probes"),
    "active": Kind("count", "active parameters", "shape", 0.0, "release notes"),
    "layers": Kind("whole", "layers", "shape", 0.0, "release notes"),
    "hidden_size": Kind("whole", "hidden size", "shape", 0.0, "rank of the logits"),
}  # fmt: skip
"""Kinds of numbers; spreads are estimates of what repeated measurements of one service leave."""


@dataclass(frozen=True, slots=True)
class Conditions(Record):
    """Under which a piece was observed; null: not known."""

    context: float | None = None
    """tokens of context"""
    concurrency: float | None = None
    """users at once"""
    prompt: float | None = None
    """tokens of the prompt"""
    output: float | None = None
    """tokens of the answer"""
    speculation: str | None = None
    """off, on, or the number of drafted tokens"""
    date: str | None = None

    @property
    def text(self) -> str:
        """The known ones, in words."""
        parts = [
            f"at {_tokens(self.context)} of context" if self.context else "",
            f"at {_tokens(self.prompt)}" if self.prompt else "",
            counted(int(self.concurrency), "user") if self.concurrency else "",
            f"speculation {self.speculation}" if self.speculation else "",
        ]
        return ", ".join(part for part in parts if part)


def _tokens(value: float) -> str:
    return format_quantity(value, "tokens")


@dataclass(frozen=True, slots=True)
class Piece(Record):
    """One observation."""

    kind: str
    value: float
    """in SI units"""
    spread: float = 0.0
    """standard deviation of its logarithm, beside the error of the model"""
    stated: Stated = "measured"
    """measured; announced ("up to", the best case); or a bound"""
    conditions: Conditions = field(default_factory=Conditions)
    source: str = ""
    """who says so"""
    model: str = ""
    """of a known model on the same service; "": of the one in question"""
    deployment: str = ""
    """name of the further deployment that it speaks of; "": the first one"""

    @property
    def text(self) -> str:
        """In words, as 750 tokens/s at 8k of context."""
        kind = KINDS[self.kind]
        value = format_quantity(self.value, kind.dimension)
        said = {"measured": "", "announced": "up to "}.get(self.stated, f"{self.stated} ")
        under = f" {self.conditions.text}" if self.conditions.text else ""
        of = f" of {self.model}" if self.model else ""
        where = f" ({self.deployment})" if self.deployment else ""
        return f"{kind.noun}{of} {said}{value}{under}{where}"

    @property
    def is_bound(self) -> bool:
        """Whether only one side of the value is said."""
        return self.stated in ("at least", "at most")


@dataclass(frozen=True, slots=True)
class Deployment:
    """Another deployment of the same architecture."""

    name: str
    hardware: tuple[Hardware, ...]
    """candidates, each as likely"""
    nodes: tuple[int, int] | None = None
    """fewest and most; None: unknown"""
    weights: tuple[str, ...] = ()
    """formats to consider, each as likely; none: those of the question"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All pieces that speak of one service, in the order in which they are taken."""

    pieces: tuple[Piece, ...]
    """those of the first deployment first, then those of each further one"""
    deployments: tuple[Deployment, ...] = ()

    def of(self, deployment: str) -> Evidence:
        """The pieces of one deployment alone, as if it were the first."""
        mine = (p for p in self.pieces if p.deployment == deployment)
        return Evidence(tuple(replace(p, deployment="") for p in mine))

    @property
    def date(self) -> str | None:
        """When the service was seen first, where a piece says so."""
        dates = [p.conditions.date for p in self.pieces if p.conditions.date and not p.model]
        return min(dates, default=None)

    @property
    def base(self) -> Piece | None:
        """The first speed, under whose conditions the service is taken to run."""
        mine = (p for p in self.pieces if not p.deployment)
        return next((p for p in mine if p.kind == "speed" and not p.model), None)

    @property
    def conditions(self) -> Conditions:
        """Those of the first speed; nothing known where there is none."""
        return self.base.conditions if self.base else Conditions()

    def served(
        self, concurrency: Range | None, context: Range | None
    ) -> tuple[Range | None, Range | None]:
        """Users that memory is kept for, and context of the first speed, where pieces say so.

        Args:
            concurrency, context: what is known besides; None: nothing.
        """
        mine = (p for p in self.pieces if not p.deployment)
        users = [p.conditions.concurrency for p in mine if p.conditions.concurrency]
        if concurrency is None and users and self.conditions.concurrency:
            concurrency = (max(users), max(users))
        if context is None and self.conditions.context:
            context = (self.conditions.context,) * 2
        return concurrency, context
