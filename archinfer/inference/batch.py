"""Draws of deployed models: what the generative model puts together and the posterior weighs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from archinfer.inference.importance import Index
from archinfer.inference.prior import ShapePrior
from archinfer.models.shape import FloatArray, Number

QUANTITIES = ("total_params", "active_params", "layers", "nodes")
"""What is reported; `nodes` are those in use."""


@dataclass(slots=True)
class Batch:
    """Draws: every field has shape (n,)."""

    total_params: FloatArray
    active_params: FloatArray
    layers: FloatArray
    hidden_size: FloatArray
    vocabulary: FloatArray
    """Rows of the head."""
    tied: FloatArray
    """1 where the head is the embedding."""
    nodes: FloatArray
    moe: FloatArray
    weights: FloatArray
    attention: FloatArray
    accepted_tokens: FloatArray
    speculates: FloatArray
    concurrency: FloatArray
    """Users whose caches are in memory at once."""
    held_context_tokens: FloatArray
    """Tokens of context that each holds."""
    context_tokens: FloatArray
    """Tokens of context at which the speed was measured."""
    software: FloatArray
    """Position in the question's `softwares`."""
    software_times: FloatArray
    """Its fixed times as a factor of those of the usual software."""
    software_factor: FloatArray
    """Speed as a factor of that of the usual software."""
    tokens_per_s: FloatArray
    """Predicted, at central constants."""
    throughput: FloatArray
    depth_s: FloatArray
    """This and the next three: parts of the time of a pass, with the usual software."""
    bytes_s: FloatArray
    links_s: FloatArray
    queue_s: FloatArray
    log_conditions: FloatArray
    log_nodes: FloatArray
    log_speed: FloatArray
    """Log density of what was observed."""
    log_before: FloatArray
    """The same without the last piece of evidence."""
    log_scale: FloatArray
    """Scale of Student's t around the logarithm of the predicted speed."""
    deviation: FloatArray
    """log(observed / predicted) in scales; of several pieces the largest, each given the others."""

    @property
    def active_in_layers(self) -> FloatArray:
        """Active parameters without embedding and head."""
        return self.active_params - (2.0 - self.tied) * self.vocabulary * self.hidden_size

    @classmethod
    def empty(cls, count: int) -> Batch:
        """`count` draws of nothing."""
        return cls(**{f.name: np.zeros(count) for f in fields(cls)})

    @classmethod
    def join(cls, parts: Sequence[Batch]) -> Batch:
        """One batch after the other."""
        return cls(
            **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)}
        )

    def take(self, index: Index) -> Batch:
        """The draws at `index`."""
        return Batch(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def put(self, index: Index, **columns: Number) -> None:
        """Set columns at `index`."""
        for name, values in columns.items():
            getattr(self, name)[index] = values


@dataclass(frozen=True, slots=True)
class Kept:
    """Draws, and the points of the unit normal and the cells that they come from."""

    batch: Batch
    z: FloatArray
    cell: Index

    @classmethod
    def join(cls, parts: Sequence[Kept], places: Sequence[Index]) -> Kept:
        """Some draws of each part."""
        taken = list(zip(parts, places, strict=True))
        return cls(
            Batch.join([part.batch.take(at) for part, at in taken]),
            np.concatenate([part.z[at] for part, at in taken]),
            np.concatenate([part.cell[at] for part, at in taken]),
        )


def resampled(weights: FloatArray, count: int) -> Index:
    """Indices of `count` equally weighted draws, systematic."""
    points = (np.arange(count) + 0.5) / count
    at = np.searchsorted(np.cumsum(weights), points)
    return np.asarray(np.minimum(at, len(weights) - 1), dtype=np.intp)


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
