"""The discrete choices of a draw and how likely each combination is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archinfer.inference.importance import Index
from archinfer.inference.prior import ShapePrior
from archinfer.models.shape import FloatArray


@dataclass(frozen=True, slots=True)
class Cells:
    """The discrete choices: dense or mixture-of-experts, weight format, attention kind."""

    moe: Index
    weights: Index
    attention: Index
    probability: FloatArray

    @staticmethod
    def of(
        prior: ShapePrior, formats: Sequence[float], kinds: Sequence[tuple[str, float]]
    ) -> Cells:
        """All combinations, each as likely as its parts; kinds of attention by name."""
        moe, weights, attention = (
            x.ravel()
            for x in np.meshgrid(
                np.arange(2), np.arange(len(formats)), np.arange(len(kinds)), indexing="ij"
            )
        )
        shares = np.array([c.share for c in prior.classes])
        formats_p = np.asarray(formats, dtype=float)
        kinds_p = np.array([p for _, p in kinds])
        probability = shares[moe] * formats_p[weights] * kinds_p[attention]
        return Cells(moe, weights, attention, probability / probability.sum())
