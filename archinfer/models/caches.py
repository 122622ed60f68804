"""What a model keeps for every sequence: keys, values, indexer keys, recurrent state."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import inf

from archinfer.models.layers.block import LayerBlock
from archinfer.models.shape import Cache


class CacheFigures:
    """The figures of a model with layers `blocks`."""

    __slots__ = ()

    blocks: tuple[LayerBlock, ...]

    def _per_token_values(self, caches: Iterable[tuple[int, Cache]]) -> Fraction:
        values = (count * Fraction(float(c.values_per_token)) for count, c in caches)
        return sum(values, start=Fraction(0))

    def _caches(self) -> list[tuple[int, Cache]]:
        return [(b.count, c) for b in self.blocks for c in b.caches()]

    def _indexer_caches(self) -> list[tuple[int, Cache]]:
        return [(b.count, c) for b in self.blocks for c in b.indexer_caches()]

    def kv_bytes_per_token(self, bits: float = 16) -> float:
        """Bytes one token adds while the context is shorter than every window."""
        return float(self._per_token_values(self._caches()) * Fraction(bits) / 8)

    def kv_bytes_per_token_past_windows(self, bits: float = 16) -> float:
        """Bytes one token adds once every window is full: the layers that keep growing."""
        growing = [(n, c) for n, c in self._caches() if c.window_tokens == inf]
        return float(self._per_token_values(growing) * Fraction(bits) / 8)

    def kv_window_bytes_max(self, bits: float = 16) -> float:
        """Most bytes that the windowed layers hold for one sequence."""
        held = (
            n * Fraction(float(c.values_per_token)) * int(float(c.window_tokens))
            for n, c in self._caches()
            if c.window_tokens != inf
        )
        return float(sum(held, start=Fraction(0)) * Fraction(bits) / 8)

    def state_bytes(self) -> int:
        """Recurrent (32-bit) and convolution (16-bit) state of one sequence, at any context."""
        return sum(b.count * b.state_bytes() for b in self.blocks)

    def indexer_bytes_per_token(self, bits: float = 16) -> float:
        """Bytes of indexer keys one token adds; not in the KV figures."""
        return float(self._per_token_values(self._indexer_caches()) * Fraction(bits) / 8)
