"""An exact model architecture: layers, widths, attention, experts -> parameters, KV bytes, steps.

An `Architecture` is built of the small frozen parts of `models.layers`. A layer is a sequence
of residual branches (`Sublayer`), some of them side by side (`Parallel`); the body of a branch is
either a mixer (attention, or a recurrent one) or a feed-forward (`DenseMLP`, `MoE`). Each part
states its parameters, its caches, its recurrent state and its chain of dependent all-reduces;
everything here is a sum over parts.

Conventions of the counts:

- total: the language model: embedding and head (once if tied) and all layers; no vision tower,
  no multi-token-prediction layers, no score-correction bias of a router (a buffer, not a weight).
- active: total minus the routed experts that a token does not use; embedding and head are in.
  Experts without weights ("zero experts") count by the average, all being equally likely.
- n-gram tables are stored but left out of active, but for the rows that one token looks up.
- a multiply-accumulate is one product of two numbers; norms and biases are no matrix products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd, inf

from archinfer.errors import InputError, printable
from archinfer.models.formats import weight_format
from archinfer.models.layers import LayerBlock, MoE, Piece
from archinfer.models.layers.pieces import (
    COMPONENTS,
    MAX_LAYERS,
    MAX_VOCABULARY,
    MAX_WIDTH,
    OUTSIDE_COMPONENTS,
    need,
    size_within,
)
from archinfer.models.shape import Cache, ModelShape
from archinfer.models.storage import Bits, Storage, chosen_bits, layer_group, mean_bits

MAX_COUNT = 2**53
"""Counts up to here are exact as floats; no model comes near."""


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Exact counts, in parameters.

    Attributes:
        total: language model, no vision tower, no multi-token-prediction layers.
        active: total minus the routed experts (and table rows) that a token does not use.
        by_component: total by component; the values add up to `total`.
        active_without_input_embedding: `active` less the input embedding (unless it is the head).
        active_without_embedding_and_head: `active` less both.
    """

    total: int
    active: int
    by_component: dict[str, int]
    active_without_input_embedding: int
    active_without_embedding_and_head: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only language model.

    Attributes:
        name: what to call it.
        blocks: the layers by kind.
        hidden_size, vocab_size: width of the residual stream, rows of the embedding.
        tied: the head is the embedding table.
        has_head: there is a head (a base encoder of features has none).
        head_bias: a bias of the head.
        head_rows: rows of the head where they are not the embedding's.
        final_norm_vectors, outside: weight vectors of the last norm; more outside the layers.
        unread: how many of those `outside` a token does not read (rows of n-gram tables).
        mtp_layers: multi-token-prediction layers of the checkpoint, which are not counted.
        stored: formats the weights come in.
        layer_kinds: components of each layer in order, norms left out (of a config only).
        family, max_context_tokens: the `model_type` it was read as; what its config states.
        warnings, assumed: what was assumed and may be wrong; all that was assumed.
        notes: facts a reader of the counts should know.
    """

    name: str
    blocks: tuple[LayerBlock, ...]
    hidden_size: int
    vocab_size: int
    tied: bool = False
    has_head: bool = True
    head_bias: bool = False
    head_rows: int | None = None
    final_norm_vectors: int = 1
    outside: tuple[Piece, ...] = ()
    unread: int = 0
    mtp_layers: int = 0
    stored: Storage = field(default_factory=Storage)
    layer_kinds: tuple[frozenset[str], ...] = field(default=(), compare=False, repr=False)
    family: str = ""
    max_context_tokens: int | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)
    assumed: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        # It may come from the name of a file, and is printed everywhere.
        object.__setattr__(self, "name", printable(self.name))
        need(len(self.blocks) > 0, "a model must have at least one layer")
        size_within("hidden_size", self.hidden_size, MAX_WIDTH)
        size_within("vocab_size", self.vocab_size, MAX_VOCABULARY)
        size_within("layers", self.layers, MAX_LAYERS)
        total = self.parameters().total
        need(total < MAX_COUNT, f"{total} parameters are more than any model has")

    def __repr__(self) -> str:
        """One short line."""
        return f"Architecture({self.name!r}, {self.layers} layers, {self.weight_format})"

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return sum(b.count for b in self.blocks)

    @property
    def _embedding(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def _shares_table(self) -> bool:
        return self.tied and self.has_head

    @property
    def _head(self) -> int:
        """Parameters of the head's matrix, stored or shared."""
        rows = self.vocab_size if self.head_rows is None else self.head_rows
        return rows * self.hidden_size if self.has_head else 0

    def _outside_pieces(self) -> Iterator[Piece]:
        yield Piece("embedding", self._embedding)
        yield from self.outside
        yield Piece("norm", self.final_norm_vectors * self.hidden_size, vector=True)
        if self.has_head and not self.tied:
            yield Piece("lm_head", self._head)
        if self.head_bias:
            yield Piece("lm_head", self.vocab_size, vector=True)

    def parameters(self) -> ParameterCount:
        """Exact parameter counts.

        active = total - sum over MoE layers (1 - k/E) * routed - unread table rows.
        """
        counts: dict[str, int] = defaultdict(int)
        for number, piece, _ in self._stored_pieces():
            counts[piece.component] += number * piece.count
        unused = Fraction(self.unread)
        for block in self.blocks:
            for ff in block.feed_forwards:
                if isinstance(ff, MoE):
                    routed = block.count * ff.routed_params(self.hidden_size)
                    unused += routed * (1 - ff.experts_per_token / ff.experts)
        total = sum(counts.values())
        active = round(total - unused)  # only zero experts can leave a fraction
        head = counts["lm_head"]
        return ParameterCount(
            total=total,
            active=active,
            by_component={c: counts[c] for c in COMPONENTS if counts[c]},
            active_without_input_embedding=active - self._embedding * (not self._shares_table),
            active_without_embedding_and_head=active - self._embedding - head,
        )

    def mtp_parameters(self) -> int:
        """Estimate of the multi-token-prediction layers that the counts leave out.

        Each is the last MoE layer again, a projection of two hidden vectors to one (2 h^2) and
        three norms (3 h); copies of embedding and head in some checkpoints come on top.
        """
        if not self.mtp_layers:
            return 0
        routed = [b for b in self.blocks if b.moe is not None] or list(self.blocks)
        h = self.hidden_size
        return self.mtp_layers * (routed[-1].parameters(h) + 2 * h * h + 3 * h)

    @property
    def attention_kinds(self) -> dict[str, int]:
        """Kinds of attention or recurrence, and how many layers have each."""
        kinds: dict[str, int] = {}
        for block in self.blocks:
            found = [m.kind for m in block.mixers] or ["no attention"]
            name = found[0] if len(found) == 1 else f"{len(found)} x {found[0]}"
            kinds[name] = kinds.get(name, 0) + block.count
        return kinds

    @property
    def moe(self) -> MoE | None:
        """The routed experts of the first MoE layer."""
        return next((b.moe for b in self.blocks if b.moe is not None), None)

    @property
    def heads(self) -> int:
        """Number that every layer's query heads are a multiple of; 0: none has any."""
        return gcd(*(getattr(m, "heads", 0) for b in self.blocks for m in b.mixers))

    def uneven_heads(self, group: int) -> tuple[int, ...]:
        """Counts of heads that a tensor-parallel group of `group` nodes cannot share evenly."""
        counts = {getattr(m, "heads", group) for b in self.blocks for m in b.mixers}
        return tuple(sorted(n for n in counts if n % group))

    @property
    def weight_format(self) -> str:
        """Name of the format that most of the weights come in.

        Raises:
            InputError: what the file says of it is not known.
        """
        if self.stored.refused:
            raise InputError(f"{self.name}: {self.stored.refused}; state the format with --weights")
        return self.stored.main

    def bits(self, format_name: str | None = None) -> Bits:
        """Bits of each weight in a format (None: the one the weights come in).

        Raises:
            UnknownNameError: no such format.
            InputError: None, and what the file says is not known.
        """
        if format_name is None:
            _ = self.weight_format
            return chosen_bits(self.stored, None)
        stored = replace(self.stored, main="") if self.stored.refused else self.stored
        return chosen_bits(stored, weight_format(format_name))

    def component_bits(self, format_name: str | None = None) -> dict[str, float]:
        """Bits of one weight by component in a format (None: the one the weights come in)."""
        return dict(self.bits(format_name).by_component)

    def shape(self, weights: str | None = None) -> ModelShape:
        """What the cost model sees.

        Args:
            weights: a weight format; where it is the model's own and leaves components inside
                the layers at 16 bits, each group states its mean bits per shared and per
                routed parameter. None: counts only.

        Raises:
            UnknownNameError: no such format.
        """
        bits = None if weights is None else self.bits(weights)
        tables, others = self._outside_groups()
        head = "embedding" if self._shares_table else "lm_head"
        return ModelShape(
            groups=tuple(layer_group(b, self.hidden_size, bits) for b in self.blocks),
            hidden_size=float(self.hidden_size),
            lookup_params=float(sum(p.count for p in tables)),
            head_params=float(self._head),
            tied=self._shares_table,
            extra_params=float(sum(p.count for p in others)),
            inactive_params=float(self.unread),
            lookup_bits=mean_bits(tables, None, bits),
            head_bits=None if bits is None else bits.by_component[head],
            extra_bits=mean_bits(others, None, bits),
            heads=self.heads,
            name=self.name,
        )

    def shape_in(self, weights: str) -> ModelShape:
        """What the cost model sees where everything is in one format, tables and vectors too;
        but for the components that the format names.

        Raises:
            UnknownNameError: no such format.
        """
        form = weight_format(weights)
        if not form.components:
            return self.shape()
        stored = Storage(form.name.split(",")[0], form.components)
        blocks = tuple(replace(b, stored=()) for b in self.blocks)
        return replace(self, blocks=blocks, stored=stored).shape(weights)

    def _outside_groups(self) -> tuple[list[Piece], list[Piece]]:
        """Tables that rows are looked up in, and what else is outside the layers but the head."""
        tables: list[Piece] = []
        others: list[Piece] = []
        for piece in self._outside_pieces():
            if piece.component != "lm_head" or piece.vector:
                looked_up = piece.component in OUTSIDE_COMPONENTS and not piece.vector
                (tables if looked_up else others).append(piece)
        return tables, others

    def _stored_pieces(self) -> Iterator[tuple[int, Piece, LayerBlock | None]]:
        """Every kind of parameter: how often it is there, what it is, the layer it is of."""
        yield from ((1, p, None) for p in self._outside_pieces())
        for block in self.blocks:
            yield from ((block.count, p, block) for p in block.pieces(self.hidden_size))

    def weight_bytes_by_component(self, format_name: str | None = None) -> dict[str, float]:
        """Bytes of each component in a format (None: the one they come in), scales included."""
        bits, found = self.bits(format_name), dict.fromkeys(COMPONENTS, 0.0)
        for number, piece, block in self._stored_pieces():
            found[piece.component] += number * piece.count * bits.of(piece, block)
        return {c: stored / 8 for c, stored in found.items() if stored}

    def weight_formats(self, format_name: str | None = None) -> dict[str, str]:
        """Name of each component's format; of several, widest first, joined by " + "."""
        bits, found = self.bits(format_name), dict[str, set[str]]()
        for _, piece, block in self._stored_pieces():
            if not piece.vector or piece.component == "norm":
                found.setdefault(piece.component, set()).add(bits.format_of(piece, block))
        return {
            c: " + ".join(sorted(found[c], key=lambda f: (-weight_format(f).bits, f)))
            for c in COMPONENTS
            if c in found
        }

    def weight_bytes(self, format_name: str | None = None) -> float:
        """Bytes of all weights in a format (None: the one they come in), scales included."""
        return sum(self.weight_bytes_by_component(format_name).values())

    # What a sequence keeps

    def _caches(self) -> list[tuple[int, Cache]]:
        return [(b.count, c) for b in self.blocks for c in b.caches()]

    def kv_bytes_per_token(self, bits: float = 16) -> float:
        """Bytes one token adds while the context is shorter than every window."""
        return _cached_bytes(self._caches(), bits)

    def kv_bytes_per_token_past_windows(self, bits: float = 16) -> float:
        """Bytes one token adds once every window is full: the layers that keep growing."""
        return _cached_bytes(((n, c) for n, c in self._caches() if c.window_tokens == inf), bits)

    def kv_window_bytes_max(self, bits: float = 16) -> float:
        """Most bytes that the windowed layers hold for one sequence."""
        windowed = [(n, c) for n, c in self._caches() if c.window_tokens != inf]
        return _cached_bytes(((n * int(float(c.window_tokens)), c) for n, c in windowed), bits)

    def state_bytes(self) -> int:
        """Recurrent (32-bit) and convolution (16-bit) state of one sequence, at any context."""
        return sum(b.count * b.state_bytes() for b in self.blocks)

    def indexer_bytes_per_token(self, bits: float = 16) -> float:
        """Bytes of indexer keys one token adds; not in the KV figures."""
        keys = ((b.count, c) for b in self.blocks for c in b.indexer_caches())
        return _cached_bytes(keys, bits)


def _cached_bytes(caches: Iterable[tuple[int, Cache]], bits: float) -> float:
    """Bytes of a number of tokens in caches of each kind."""
    values = (count * Fraction(float(c.values_per_token)) for count, c in caches)
    return float(sum(values, start=Fraction(0)) * Fraction(bits) / 8)
