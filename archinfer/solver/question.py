"""What a user asks of the solver: hardware, speed and everything that is known or assumed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archinfer.asking import NODES_MOST, OPEN, Range, check_accepted
from archinfer.errors import InputError
from archinfer.hardware.figures import USUAL_SOFTWARE, SoftwareFactor
from archinfer.hardware.profile import Hardware
from archinfer.models.formats import kv_format, weight_format
from archinfer.models.shape import Number
from archinfer.models.solver_family import FamilyRules, Habits, attention_rule
from archinfer.physics.mapping import Layout
from archinfer.physics.workload import Traffic
from archinfer.question import ASKS

POINT_TOLERANCE = 0.025
"""A single figure for total or active parameters stands for all that round to it: +-2.5 %."""

UNKNOWN_NODES = 128
UNKNOWN_MEMORY_BYTES = 88 * 44e9
"""Memory of the founding example, 88 wafers of 44 GB: where nodes are not known, at least as many
are looked at as have that much together."""


def nodes_unknown(hardware: Hardware) -> tuple[int, int]:
    """Fewest and most nodes to look at where nobody says how many there are."""
    if hardware.alone:
        return 1, 1
    enough = np.ceil(UNKNOWN_MEMORY_BYTES / np.asarray(hardware.usable_bytes, dtype=float))
    return 1, max(UNKNOWN_NODES, min(int(enough), NODES_MOST))


def what_rounds_to(limits: Range) -> Range:
    """A single figure of size widened by `POINT_TOLERANCE`; a range stays as it is."""
    low, high = limits
    if low == high:
        return low * (1.0 - POINT_TOLERANCE), high * (1.0 + POINT_TOLERANCE)
    return limits


_NUMBERS = {
    "tokens_per_second": "tokens_per_s", "context": "context_tokens", "concurrency": "concurrency",
}  # fmt: skip
"""Fields by what is asked, as the table of options names and bounds it."""


@dataclass(frozen=True)
class Question:
    """One question to the solver."""

    hardware: Hardware
    nodes: tuple[int, int] = (88, 88)
    """fewest and most nodes that are there"""
    tokens_per_s: float = 750.0
    """speed of one user"""
    observed: bool = False
    """it was measured, so a model that is too fast is excluded as well; else a target to reach"""
    ceiling: bool = False
    """the observed speed is announced as the most there is ("up to"): slower is possible too"""
    context_tokens: int = 8000
    """context whose KV caches must fit, of every user"""
    concurrency: int = 1
    weights: tuple[str, ...] = ("bf16", "fp8", "nvfp4")
    """weight formats to consider"""
    kv: str = "bf16"
    rules: FamilyRules = field(default_factory=FamilyRules)
    speculation: Range = (1.0, 3.0)
    """tokens gained per pass"""
    habits: Habits | None = field(default_factory=Habits)
    """ranges of what is built; None: physics alone"""
    total: Range = OPEN
    active: Range = OPEN
    layers: Range = OPEN
    throughput_tokens_per_s: float | None = None
    """total speed over all users to reach"""
    max_token_dollars: float | None = None
    power_w: float | None = None
    price_per_hour: float | None = None
    confidence_z: float = 0.0
    """standard normal quantile at which a target must hold (0: central)"""
    disabled: frozenset[str] = frozenset()
    """names of constraints left out (used to find out which one binds)"""
    layout: Layout | None = None
    """a forced mapping"""
    overrides: tuple[str, ...] = ()
    """figures of the profile that the user has changed, as `key = value`"""
    calibration: str | None = None
    """file whose measured figures the hardware and the rules hold"""
    nodes_known: bool = True
    """the nodes were asked for; False: they only say where the search ends"""
    software: str | None = None
    """what made an observed speed, "usual" or one that the profile lists; null: unknown"""
    tables_known: frozenset[str] = frozenset()
    """of "vocabulary" and "tied", what was asked for; the posterior draws the others"""
    prompt_tokens: int | None = None
    """of every other user, for which decode passes wait; null: they wait for nobody's"""
    output_tokens: int = 1000
    """of an answer"""
    context_known: bool = False
    """the context was asked for; False: the posterior draws it"""

    def __post_init__(self) -> None:
        for name in ("nodes", "total", "active", "layers"):
            ASKS[name].range(name, getattr(self, name))
        for name, field_name in _NUMBERS.items():
            ASKS[name].number(name, getattr(self, field_name))
        check_accepted(*self.speculation)
        if not self.weights:
            raise InputError("at least one weight format is needed")
        for name in self.weights:
            weight_format(name)
        kv_format(self.kv)
        self.hardware.softwares(self.software)
        attention_rule(self.rules.attention)

    @property
    def kv_bits(self) -> float:
        """Bits of one number in the KV cache."""
        return kv_format(self.kv).bits

    def traffic(self, weight_bits: Number, weights_only: bool | NDArray[np.bool_]) -> Traffic:
        """What is asked of a pass with such weights; arguments as of `Traffic`."""
        return Traffic(
            self.context_tokens, self.concurrency, weight_bits, None, self.kv_bits,
            weights_only=weights_only, prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
        )  # fmt: skip

    @property
    def softwares(self) -> tuple[SoftwareFactor, ...]:
        """Software that comes into question, slowest first: as `Hardware.software`.

        The usual one alone where a speed is a target, or where the profile lists no other.
        """
        named = self.software or (None if self.observed else USUAL_SOFTWARE)
        return self.hardware.softwares(named)

    @property
    def sparsity_asked(self) -> Range:
        """Total over active parameters where the question narrows the habit; else any from 1."""
        usual = self.habits is None or self.habits.sparsity == Habits().sparsity
        return (1.0, np.inf) if self.habits is None or usual else self.habits.sparsity

    @property
    def confidence(self) -> float:
        """Probability with which a target must hold."""
        return NormalDist().cdf(self.confidence_z)

    def with_(self, **changes: Any) -> Question:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def without(self, *names: str) -> Question:
        """The same question without the constraints called `names`."""
        return replace(self, disabled=self.disabled | set(names))
