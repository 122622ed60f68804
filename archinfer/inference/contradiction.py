"""Which piece of evidence would have to be wrong where no model explains all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from archinfer.asking import OPEN, Range
from archinfer.inference.batch import Kept
from archinfer.inference.evidence import KINDS, Piece
from archinfer.inference.generative import GenerativeModel
from archinfer.inference.importance import Draws
from archinfer.inference.narrowing import Outlook
from archinfer.models.shape import FloatArray
from archinfer.record import Ends, Record
from archinfer.solver.question import Question
from archinfer.units import format_quantity, format_range, plain_number

UNLIKELY = 1e-3
"""Probability of a value as extreme, given all other pieces, below which it contradicts them."""

FAR = 6.0
"""Scales of the noise beyond which a speed is not explained: Student's t with 4 degrees of
freedom has 0.4 % there."""

EXPLAINED = 0.5
"""Least posterior probability that a speed is explained, for an answer to be given."""


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
        return (
            f"{self.piece} would have to be wrong by a factor of {factor} (the others leave {low} "
            f"to {high})"
        )


def contradictions(
    pieces: Sequence[Piece],
    without: Callable[[int], Outlook | None],
    facts: Mapping[str, Range],
    unasked: Callable[[str], FloatArray | None],
) -> tuple[Contradiction, ...]:
    """The pieces and facts that the others speak against, the worst first.

    Args:
        pieces: all of the evidence.
        without: what all others leave of the piece at a place; None where they have no posterior.
        facts: ranges within which something is known to lie, by kind.
        unasked: draws of such a quantity where only the others are known, or None.
    """
    found = []
    for place, piece in enumerate(pieces):
        outlook = without(place)
        if outlook is not None:
            (low, _, high), tail = outlook.expected(piece)
            # Where no draw says what the piece would be, nothing speaks against it.
            if not np.isfinite(low):
                continue
            found.append(_against(piece.kind, piece.text, (piece.value,) * 2, (low, high), tail))
    for kind, (least, most) in facts.items():
        values = unasked(kind)
        if values is not None:
            tail = min(float((values >= least).mean()), float((values <= most).mean()))
            text = f"{KINDS[kind].noun} {format_range(least, most, KINDS[kind].dimension)}"
            low, high = np.quantile(values, (0.05, 0.95))
            found.append(_against(kind, text, (least, most), (low, high), tail))
    unlikely = (c for c in found if c.probability < UNLIKELY)
    return tuple(sorted(unlikely, key=lambda c: (c.probability, -c.factor)))


def known_sizes(question: Question) -> dict[str, Range]:
    """What is known of sizes: held against everything else where things do not go together."""
    found = {name: getattr(question, name) for name in ("total", "active", "layers")}
    return {name: ends for name, ends in found.items() if ends != OPEN}


def _against(kind: str, text: str, said: Range, left: Range, tail: float) -> Contradiction:
    factor = max(said[0] / left[1], left[0] / said[1], 1.0)
    return Contradiction(kind, text, Ends(*map(float, left)), float(factor), tail)


def impossible(model: GenerativeModel, level: int, draws: Draws[Kept]) -> str:
    """Why no draw agrees with the evidence of this level; "" where some do."""
    question = model.question
    node = question.hardware.node
    if level == 0:
        if draws.ess > 0.0:
            return ""
        sizes = known_sizes(question).items()
        known = [f"{name} {format_range(*ends, 'count')}" for name, ends in sizes]
        return f"no model has {' and '.join(known)}: the prior over architectures excludes it"
    if level == 1:
        if draws.ess > 0.0:
            return ""
        plural = "" if question.nodes[1] == 1 else "s"
        text = (
            f"no model within the known ranges fits on {format_range(*question.nodes, 'count')} "
            f"{node}{plural} in any of the formats {', '.join(question.weights)}"
        )
        if question.hardware.spatial:
            text += (
                " and fills them: all are too large, too small, or of too few layers, which are "
                "whole"
            )
        return text
    batch = draws.payload.batch
    if draws.ess > 0.0:
        explained = draws.weights[np.abs(batch.deviation) < FAR].sum()
        if explained > EXPLAINED:
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
