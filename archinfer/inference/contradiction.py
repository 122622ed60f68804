"""Which piece of evidence would have to be wrong where no model explains all of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archinfer.inference.evidence import KINDS, Piece
from archinfer.inference.narrowing import Outlook
from archinfer.record import Ends, Record
from archinfer.units import format_quantity, plain_number

UNLIKELY = 1e-3
"""Probability of a value as extreme, given all other pieces, below which it contradicts them."""


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
    pieces: Sequence[Piece], without: Callable[[int], Outlook | None]
) -> tuple[Contradiction, ...]:
    """The pieces that the others speak against, the worst first.

    Args:
        pieces: all of the evidence.
        without: what all others leave of the piece at a place; None where they have no posterior.
    """
    found = []
    for place, piece in enumerate(pieces):
        outlook = without(place)
        if outlook is None:
            continue
        (low, _, high), tail = outlook.expected(piece)
        if tail < UNLIKELY:
            factor = max(piece.value / high, low / piece.value, 1.0)
            found.append(
                Contradiction(
                    piece.kind, piece.text, Ends(float(low), float(high)), float(factor), tail
                )
            )
    return tuple(sorted(found, key=lambda c: c.probability))
