"""Mixers that carry a state of fixed size from token to token: linear attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archinfer.models.layers.pieces import (
    CONV_STATE_BYTES,
    STATE_BYTES,
    Memoryless,
    Piece,
    Sized,
    need,
)

_DELTA_STEPS = (
    "input projection",
    "q/k norm",
    "state times key",
    "state times query",
    "gated norm",
    "output projection",
)
"""Dependent all-reduces of a delta rule: what the state holds of a key, then of a query."""


@dataclass(frozen=True, slots=True)
class GatedDelta(Memoryless):
    """Gated DeltaNet (Qwen3-Next, Qwen3.5): a matrix state per value head.

    Attributes:
        key_heads, key_dim, value_heads, value_dim: heads and their widths.
        conv: taps of the causal convolution over q, k and v.
    """

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    conv: int

    TITLE = "linear attention"
    SPLIT = "value_heads"
    steps = _DELTA_STEPS

    def __post_init__(self) -> None:
        Sized.__post_init__(self)
        need(
            self.value_heads % self.key_heads == 0,
            f"{self.key_heads} linear key heads do not divide {self.value_heads} value heads",
        )

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"gated DeltaNet {self.key_heads}:{self.value_heads}"

    @property
    def _channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, z and output projections, decay and beta, convolution, gated norm."""
        value = self.value_heads * self.value_dim
        mixed = self._channels + value
        yield Piece("ssm", hidden * mixed, module="linear_attn.in_proj_qkvz")
        yield Piece("ssm", hidden * 2 * self.value_heads, module="linear_attn.in_proj_ba")
        yield Piece("ssm", value * hidden, module="linear_attn.out_proj")
        yield Piece("ssm", self.conv * self._channels, vector=True)
        yield Piece("ssm", 2 * self.value_heads + self.value_dim, vector=True)

    def state_bytes(self) -> int:
        """key_dim x value_dim per value head, and the last conv - 1 inputs."""
        recurrent = self.value_heads * self.key_dim * self.value_dim
        return recurrent * STATE_BYTES + self._channels * (self.conv - 1) * CONV_STATE_BYTES


@dataclass(frozen=True, slots=True)
class KimiDelta(Memoryless):
    """Kimi Delta Attention: DeltaNet with a decay per channel.

    Attributes:
        heads, head_dim: heads of q, k and v alike.
        conv: taps of the three causal convolutions.
        full_rank_gate: the output gate is one matrix (else low-rank through head_dim).
    """

    heads: int
    head_dim: int
    conv: int
    full_rank_gate: bool = False

    TITLE = "linear attention"
    SPLIT = "heads"
    steps = _DELTA_STEPS

    @property
    def kind(self) -> str:
        """What the maker calls it."""
        return f"Kimi delta attention {self.heads}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, output, gate, decay and beta projections, convolutions, gated norm."""
        wide = self.heads * self.head_dim
        low_rank = self.head_dim * (hidden + wide)
        gate = hidden * wide if self.full_rank_gate else low_rank
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield Piece("ssm", hidden * wide, module=f"self_attn.{name}")
        yield Piece("ssm", gate, module="self_attn.g_proj")
        yield Piece("ssm", low_rank, module="self_attn.f_proj")
        yield Piece("ssm", hidden * self.heads, module="self_attn.b_proj")
        yield Piece("ssm", 3 * self.conv * wide, vector=True)
        yield Piece("ssm", self.heads + wide + self.head_dim, vector=True)

    def state_bytes(self) -> int:
        """head_dim squared per head, and the last conv - 1 inputs of q, k and v."""
        wide = self.heads * self.head_dim
        recurrent = wide * self.head_dim * STATE_BYTES
        return recurrent + 3 * wide * (self.conv - 1) * CONV_STATE_BYTES


@dataclass(frozen=True, slots=True)
class Lightning(Memoryless):
    """Lightning attention (MiniMax-Text-01): linear attention with a fixed decay.

    Attributes:
        heads, head_dim: heads of q, k and v alike.
    """

    heads: int
    head_dim: int

    TITLE = "linear attention"
    SPLIT = "heads"
    steps = ("QKV projection", "state times query", "output norm", "output projection")

    @property
    def kind(self) -> str:
        """What the maker calls it."""
        return f"lightning attention {self.heads}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, gate and output projections, output norm."""
        wide = self.heads * self.head_dim
        yield Piece("attention", 3 * hidden * wide, module="self_attn.qkv_proj")
        yield Piece("attention", hidden * wide, module="self_attn.output_gate")
        yield Piece("attention", hidden * wide, module="self_attn.out_proj")
        yield Piece("norm", wide, vector=True)

    def state_bytes(self) -> int:
        """head_dim squared per head."""
        return self.heads * self.head_dim**2 * STATE_BYTES
