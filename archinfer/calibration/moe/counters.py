"""What a forward pass did: bytes and FLOPs by kind of operation, and its dependent reductions.

Conventions, the same as those of the cost model:

- FLOPs: two per multiply-accumulate of matrix products, attention scores and weighted sums;
  element-wise work is not counted.
- Weight bytes: every weight array that an operation reads, once per pass; one row per token of
  the embedding; only those experts that a token chose. The router's score-correction bias is a
  buffer and no weight, as in transformers, and not counted.
- KV bytes: keys and values read for attention, and written.
- Dispatch: activations copied to the experts and their results copied back.
- Reductions: sums or maxima over a dimension that spans the whole layer's weights or context.
  On hardware that spreads a layer over many cores, each one is an all-reduce, and those that
  wait for one another add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Tally:
    """Totals of one kind of operation, or of all."""

    calls: int = 0
    flops: int = 0
    weight_bytes: int = 0
    kv_read_bytes: int = 0
    kv_write_bytes: int = 0
    dispatch_bytes: int = 0

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


@dataclass(slots=True)
class Counters:
    """Counts of all passes it was handed to; `chain_lengths` and `experts_hit` of the last one."""

    by_kind: dict[str, Tally] = field(default_factory=dict)
    """Totals by kind of operation."""
    tokens: int = 0
    """Tokens that went through the layers."""
    expert_calls: int = 0
    """Routed experts that ran, over all layers."""
    experts_hit: list[int] = field(default_factory=list)
    """Distinct routed experts used in each MoE layer of the last pass."""
    chain_lengths: list[int] = field(default_factory=list)
    """Longest chain of dependent reductions in each layer of the last pass."""
    head_chain: int = 0
    """The same from the last layer's output to the last array made from it."""
    _depth: dict[int, int] = field(default_factory=dict)

    def start_pass(self, tokens: int) -> None:
        """A pass of `tokens` tokens begins."""
        self.tokens += tokens
        self.experts_hit = []
        self.chain_lengths = []

    def start_chain(self) -> None:
        """Chains are counted from here: all arrays are at depth 0."""
        self._depth.clear()

    def end_layer(self, x: NDArray[Any]) -> None:
        """A layer ends with `x`: record how deep it is."""
        self.chain_lengths.append(self.depth(x))

    def end_head(self, result: NDArray[Any]) -> None:
        """The pass ends with `result`."""
        self.head_chain = self.depth(result)

    def depth(self, array: NDArray[Any]) -> int:
        """Dependent reductions behind the current content of an array."""
        return self._depth.get(_memory(array), 0)

    def operation(
        self,
        kind: str,
        out: NDArray[Any],
        inputs: tuple[NDArray[Any], ...],
        reductions: int = 0,
        **work: int,
    ) -> None:
        """An operation wrote `out` from `inputs`; views count as the buffer they look into.

        Args:
            kind: name under which it is added up.
            out, inputs: the arrays that ran through the operation (not its weights).
            reductions: dependent reductions inside it.
            work: fields of `Tally`.
        """
        self.by_kind.setdefault(kind, Tally()).add(Tally(calls=1, **work))
        before = max((self.depth(array) for array in inputs), default=0)
        self._depth[_memory(out)] = before + reductions

    def elementwise(self, out: NDArray[Any], *inputs: NDArray[Any]) -> None:
        """`out` was written number by number from `inputs`: no reduction, nothing to add up."""
        self._depth[_memory(out)] = max((self.depth(array) for array in inputs), default=0)

    def product(
        self,
        kind: str,
        out: NDArray[Any],
        inputs: tuple[NDArray[Any], ...],
        weight: NDArray[Any],
        tokens: int,
    ) -> None:
        """A matrix product of `tokens` tokens with a weight matrix: one reduction."""
        self.operation(
            kind,
            out,
            inputs,
            reductions=1,
            flops=2 * tokens * weight.size,
            weight_bytes=weight.nbytes,
        )

    @property
    def total(self) -> Tally:
        """Sum over all kinds."""
        total = Tally()
        for tally in self.by_kind.values():
            total.add(tally)
        return total

    @property
    def chain_length(self) -> int:
        """Longest chain of dependent reductions in any layer of the last pass."""
        return max(self.chain_lengths)


def _memory(array: NDArray[Any]) -> int:
    """Identity of the buffer that an array looks into."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)
