"""A decoder layer: residual branches in sequence or side by side, and equal layers together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import TypeAlias

from archinfer.models.layers.feedforward import DenseMLP, MoE
from archinfer.models.layers.pieces import MAX_LAYERS, Mixer, Piece, size_within
from archinfer.models.shape import Cache

FeedForward: TypeAlias = DenseMLP | MoE


@dataclass(frozen=True, slots=True)
class Sublayer:
    """One residual branch: norms before, a body, norms after.

    Attributes:
        body: a mixer or a feed-forward.
        norms_before, norms_after: norms on the branch's path.
        norm_vectors: weight vectors of hidden_size in each norm (1 RMSNorm, 2 LayerNorm with
            bias, 0 without weights).
    """

    body: Mixer | FeedForward
    norms_before: int = 1
    norms_after: int = 0
    norm_vectors: int = 1

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Norms and body."""
        norms = (self.norms_before + self.norms_after) * self.norm_vectors
        if norms:
            yield Piece("norm", norms * hidden, vector=True)
        yield from self.body.pieces(hidden)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces of the branch in order."""
        before = ("norm",) * self.norms_before
        after = ("post-norm",) * self.norms_after
        return (*before, *self.body.steps, *after)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Branches that do not wait for each other: each a sequence of sublayers."""

    branches: tuple[tuple[Sublayer, ...], ...]

    @property
    def steps(self) -> tuple[str, ...]:
        """The longest branch's steps."""
        return max((_chain(b) for b in self.branches), key=len)


def _chain(parts: Iterable[Sublayer | Parallel]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(p.steps for p in parts))


@dataclass(frozen=True, slots=True)
class LayerBlock:
    """`count` equal decoder layers.

    Attributes:
        count: how many.
        parts: the layer's branches in order.
        extra: parameters that belong to no branch (hyper-connections, layer scales).
        stored: matrices whose weight format is not that of their component, and the format.
    """

    count: int
    parts: tuple[Sublayer | Parallel, ...]
    extra: tuple[Piece, ...] = ()
    stored: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        size_within("layers", self.count, MAX_LAYERS)

    @classmethod
    def of(cls, count: int, mixer: Mixer | None, feed_forward: FeedForward | None) -> LayerBlock:
        """The usual layer: norm, mixer, norm, feed-forward; None leaves a branch out."""
        bodies = [b for b in (mixer, feed_forward) if b is not None]
        return cls(count, tuple(Sublayer(b) for b in bodies))

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """Every branch, parallel ones included."""
        branches = (((p,),) if isinstance(p, Sublayer) else p.branches for p in self.parts)
        return tuple(chain.from_iterable(chain.from_iterable(branches)))

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """Attention and recurrent bodies, in order."""
        return tuple(s.body for s in self.sublayers if isinstance(s.body, Mixer))

    @property
    def feed_forwards(self) -> tuple[FeedForward, ...]:
        """Feed-forward bodies, in order."""
        return tuple(s.body for s in self.sublayers if isinstance(s.body, (DenseMLP, MoE)))

    @property
    def moe(self) -> MoE | None:
        """The routed experts of the layer."""
        return next((f for f in self.feed_forwards if isinstance(f, MoE)), None)

    @property
    def steps(self) -> tuple[str, ...]:
        """The longest chain of dependent all-reduces of one layer, step by step."""
        return _chain(self.parts)

    @property
    def reductions(self) -> int:
        """Length of that chain."""
        return len(self.steps)

    def pieces(self, hidden: int) -> tuple[Piece, ...]:
        """Parameters of ONE layer."""
        body = chain.from_iterable(s.pieces(hidden) for s in self.sublayers)
        return (*body, *self.extra)

    def parameters(self, hidden: int) -> int:
        """Parameters of ONE layer."""
        return sum(p.count for p in self.pieces(hidden))

    def caches(self) -> tuple[Cache, ...]:
        """Key-value caches of ONE layer, without the indexer's keys."""
        return tuple(chain.from_iterable(m.caches() for m in self.mixers))

    def indexer_caches(self) -> tuple[Cache, ...]:
        """Indexer keys of ONE layer."""
        return tuple(chain.from_iterable(m.indexer_caches() for m in self.mixers))

    def state_bytes(self) -> int:
        """Recurrent and convolution state of ONE layer, per sequence."""
        return sum(m.state_bytes() for m in self.mixers)

    @property
    def state_shards(self) -> float:
        """Ways in which the state can be split: those of the mixer with the fewest."""
        return min((m.state_shards for m in self.mixers if m.state_bytes()), default=inf)


def group_layers(layers: Sequence[LayerBlock]) -> tuple[LayerBlock, ...]:
    """Equal layers merged, in order of first appearance."""
    counts: dict[tuple[object, ...], LayerBlock] = {}
    for block in layers:
        key = (block.parts, block.extra, block.stored)
        seen = counts.get(key)
        counts[key] = block if seen is None else replace(seen, count=seen.count + block.count)
    return tuple(counts.values())
