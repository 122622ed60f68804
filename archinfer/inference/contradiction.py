"""Which piece of evidence would have to be wrong where no model explains all of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from archinfer.asking import OPEN, Range
from archinfer.inference.batch import Kept
from archinfer.inference.evidence import KINDS, Piece
from archinfer.inference.generative import GenerativeModel
from archinfer.inference.importance import Draws
from archinfer.record import Ends, Record
from archinfer.solver.question import Question
from archinfer.units import format_quantity, format_range, plain_number

UNLIKELY = 1e-3
"""Probability of a value as extreme, given all other pieces, below which it contradicts them: the
rate of false alarms. Of services that are as the model says, one of a thousand a piece is taken for
a contradiction."""

FAR = 6.0
"""Scales of the noise beyond which a speed is not explained: Student's t with 4 degrees of
freedom has 0.4 % there. No reason to refuse an answer unless the speed is `UNLIKELY` as well."""

EXPLAINED = 0.5
"""Least posterior probability that a speed is explained, for an answer to be given."""

PAIRS_OF = 8
"""Most pieces of which pairs are looked at: each pair is a posterior of its own."""


@dataclass(frozen=True, slots=True, repr=False)
class Contradiction(Record):
    """One piece against all others."""

    kind: str
    piece: str
    expected: Ends
    """what all others leave of it: 5 % and 95 %"""
    factor: float
    """by which it would have to be wrong to lie within that"""
    probability: float
    """of a value as extreme, given all others"""
    beside: str
    """another piece that would have to be wrong as well; empty: this one alone"""

    @property
    def hopeless(self) -> bool:
        """Whether it lies further beyond what the others leave than that is wide."""
        return self.factor > self.expected[1] / self.expected[0]

    @property
    def text(self) -> str:
        """As half a sentence."""
        dimension = KINDS[self.kind].dimension
        low, high = (format_quantity(float(f"{end:.2g}"), dimension) for end in self.expected)
        factor = plain_number(self.factor, 2)
        beside = f", beside {self.beside}," if self.beside else ""
        wrong = f"would have to be wrong by a factor of {factor}"
        return f"{self.piece}{beside} {wrong} (the others leave {low} to {high})"


@dataclass(frozen=True, slots=True)
class Suspect:
    """What may be wrong: a piece, or a range within which something is known to lie."""

    kind: str
    text: str
    said: Range
    piece: Piece | None = None
    """None: a range."""

    @classmethod
    def of(cls, pieces: Sequence[Piece], question: Question) -> tuple[Suspect, ...]:
        """All pieces of evidence and all known ranges."""
        ranges = (
            (k, f"{KINDS[k].noun} {format_range(*ends, KINDS[k].dimension)}", ends)
            for k, ends in known_sizes(question).items()
        )
        told = (cls(p.kind, p.text, (p.value, p.value), p) for p in pieces)
        return (*told, *(cls(*known) for known in ranges))


@dataclass(frozen=True, slots=True)
class Left:
    """What is left where some suspects are not believed."""

    expected: tuple[tuple[Range, float], ...]
    """of each of them: 5 % and 95 %, and the probability of a value as extreme as said"""
    agreement: float
    """least probability of a value as extreme among the others, each given those before it"""


def contradictions(
    suspects: Sequence[Suspect], without: Callable[[tuple[Suspect, ...]], Left | None]
) -> tuple[Contradiction, ...]:
    """The pieces and ranges that the others speak against, the worst first.

    Where no single one is to blame, since the others do not go together without it either, the two
    without which they do.

    Args:
        suspects: everything that may be wrong.
        without: what all others leave of some of them; None where they have no posterior.
    """
    alone = [(s, left) for s in suspects if (left := without((s,)))]
    found = [_against(s, left.expected[0], "") for s, left in alone]
    if 2 < len(suspects) <= PAIRS_OF and all(left.agreement < UNLIKELY for _, left in alone):
        pairs = ((two, left) for two in combinations(suspects, 2) if (left := without(two)))
        two, left = max(pairs, key=lambda pair: pair[1].agreement, default=((), None))
        if left is not None and left.agreement >= UNLIKELY:
            others = reversed([s.text for s in two])
            found = list(map(_against, two, left.expected, others))
    # Where no draw says what a piece would be, nothing speaks against it.
    unlikely = (c for c in found if c.probability < UNLIKELY and np.isfinite(c.expected[0]))
    return tuple(sorted(unlikely, key=lambda c: (c.probability, -c.factor)))


def _against(suspect: Suspect, left: tuple[Range, float], beside: str) -> Contradiction:
    (low, high), tail = left
    factor = max(suspect.said[0] / high, low / suspect.said[1], 1.0)
    ends = Ends(float(low), float(high))
    return Contradiction(suspect.kind, suspect.text, ends, float(factor), tail, beside)


def known_sizes(question: Question) -> dict[str, Range]:
    """What is known of sizes: held against everything else where things do not go together."""
    found = {name: getattr(question, name) for name in ("total", "active", "layers")}
    return {name: ends for name, ends in found.items() if ends != OPEN}


def impossible(model: GenerativeModel, level: int, draws: Draws[Kept]) -> str:
    """Why no draw agrees with the evidence of this level; "" where some do."""
    question = model.question
    node = question.hardware.node
    if level < 2 and draws.ess > 0.0:
        return ""
    if level == 0:
        sizes = known_sizes(question).items()
        known = [f"{name} {format_range(*ends, 'count')}" for name, ends in sizes]
        return f"no model has {' and '.join(known)}: the prior over architectures excludes it"
    if level == 1:
        plural = "" if question.nodes[1] == 1 else "s"
        text = (
            f"no model within the known ranges fits on {format_range(*question.nodes, 'count')} "
            f"{node}{plural} in any of the formats {', '.join(question.weights)}"
        )
        if question.hardware.spatial:
            text += " and fills them: all are too large, too small, or of too few layers, "
            text += "which are whole"
        return text
    batch = draws.payload.batch
    if draws.ess > 0.0 and draws.weights[np.abs(batch.deviation) < FAR].sum() > EXPLAINED:
        return ""
    if model.pieces:
        last = model.pieces[level - 2]
        given = " and ".join(p.text for p in model.pieces[: level - 2])
        beside = f" beside {given}" if given else ""
        return f"no model of the prior explains {last.text}{beside}"
    slow, fast = np.quantile(batch.tokens_per_s[np.isfinite(draws.log_weights)], (0.05, 0.95))
    speed = ("at most " if question.ceiling else "") + plain_number(question.tokens_per_s, 6)
    return (
        f"no model that fits answers at {speed} tokens/s: those "
        f"tried reach {slow:,.0f} to {fast:,.0f}, and noise of more than {FAR:g} of its "
        "scales would have to make up the rest"
    )
