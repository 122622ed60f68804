"""Mixers that carry a state of fixed size from token to token: linear attention, selective state
spaces (Mamba 1 and 2), gated recurrences and short convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archinfer.models.layers.pieces import Mixer, Piece

_DELTA_STEPS = ("input projection", "q/k norm", "state times key", "state times query",
                "gated norm", "output projection")  # fmt: skip
"""Dependent all-reduces of a delta rule: what the state holds of a key, then of a query."""


@dataclass(frozen=True, slots=True)
class GatedDelta(Mixer):
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
    KIND = "gated DeltaNet {0.key_heads}:{0.value_heads}"
    DIVIDES = ("key_heads", "value_heads")
    SPLIT = "value_heads"
    steps = _DELTA_STEPS

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

    def state(self) -> tuple[int, int]:
        """key_dim x value_dim per value head, and the last conv - 1 inputs."""
        recurrent = self.value_heads * self.key_dim * self.value_dim
        return recurrent, self._channels * (self.conv - 1)


@dataclass(frozen=True, slots=True)
class KimiDelta(Mixer):
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
    KIND = "Kimi delta attention {0.heads}"
    SPLIT = "heads"
    steps = _DELTA_STEPS

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

    def state(self) -> tuple[int, int]:
        """head_dim squared per head, and the last conv - 1 inputs of q, k and v."""
        wide = self.heads * self.head_dim
        return wide * self.head_dim, 3 * wide * (self.conv - 1)


@dataclass(frozen=True, slots=True)
class Lightning(Mixer):
    """Lightning attention (MiniMax-Text-01): linear attention with a fixed decay.

    Attributes:
        heads, head_dim: heads of q, k and v alike.
    """

    heads: int
    head_dim: int

    TITLE = "linear attention"
    KIND = "lightning attention {0.heads}"
    SPLIT = "heads"
    steps = ("QKV projection", "state times query", "output norm", "output projection")

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, gate and output projections, output norm."""
        wide = self.heads * self.head_dim
        yield Piece("attention", 3 * hidden * wide, module="self_attn.qkv_proj")
        yield Piece("attention", hidden * wide, module="self_attn.output_gate")
        yield Piece("attention", hidden * wide, module="self_attn.out_proj")
        yield Piece("norm", wide, vector=True)

    def state(self) -> tuple[int, int]:
        """head_dim squared per head."""
        return self.heads * self.head_dim**2, 0


@dataclass(frozen=True, slots=True)
class Mamba1(Mixer):
    """Mamba (selective state space, version 1), as in Jamba.

    Attributes:
        inner: channels (`expand` times hidden_size).
        states: state numbers per channel.
        conv: taps of the causal convolution.
        dt_rank: rank of the time-step projection.
        conv_bias, proj_bias: biases.
        inner_norms: norms of time step, B and C.
    """

    inner: int
    states: int
    conv: int
    dt_rank: int
    conv_bias: bool = True
    proj_bias: bool = False
    inner_norms: bool = False

    TITLE = "mamba"
    KIND = "Mamba-1 state {0.states}"
    SPLIT = "inner"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In-, x-, dt- and out-projection, convolution, A, D, inner norms."""
        yield Piece("ssm", 2 * hidden * self.inner, module="mamba.in_proj")
        mixed = self.dt_rank + 2 * self.states
        yield Piece("ssm", self.inner * mixed, module="mamba.x_proj")
        yield Piece("ssm", self.dt_rank * self.inner, module="mamba.dt_proj")
        yield Piece("ssm", hidden * self.inner, module="mamba.out_proj")
        conv = self.inner * (self.conv + int(self.conv_bias))
        yield Piece("ssm", conv + self.inner * (self.states + 2), vector=True)
        if self.proj_bias:
            yield Piece("ssm", 2 * self.inner + hidden, vector=True)
        if self.inner_norms:
            yield Piece("ssm", self.dt_rank + 2 * self.states, vector=True)

    def state(self) -> tuple[int, int]:
        """Numbers per channel, and the last conv - 1 inputs."""
        return self.inner * self.states, self.inner * (self.conv - 1)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        normed = ("dt, B, C norm",) if self.inner_norms else ()
        after = ("dt projection", "state output", "output projection")
        return ("input projection", "x projection", *normed, *after)


@dataclass(frozen=True, slots=True)
class Mamba2(Mixer):
    """Mamba-2, as in Nemotron-H: heads with a scalar decay, B and C shared by groups of heads.

    Attributes:
        heads, head_dim: heads and channels of each.
        states: state numbers per channel.
        groups: groups that share B and C.
        conv: taps of the causal convolution.
        conv_bias, proj_bias: biases.
        gated_norm: norm before the output projection.
    """

    heads: int
    head_dim: int
    states: int
    groups: int
    conv: int
    conv_bias: bool = True
    proj_bias: bool = False
    gated_norm: bool = True

    TITLE = "mamba"
    KIND = "Mamba-2 {0.heads} heads, state {0.states}"
    DIVIDES = ("groups", "heads")
    SPLIT = "heads"

    @property
    def _inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def _channels(self) -> int:
        return self._inner + 2 * self.groups * self.states

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In- and out-projection, convolution, A, D, time-step bias, gated norm."""
        wide = self._inner + self._channels + self.heads
        yield Piece("ssm", hidden * wide, module="mamba.in_proj")
        yield Piece("ssm", self._inner * hidden, module="mamba.out_proj")
        conv = self._channels * (self.conv + int(self.conv_bias))
        yield Piece("ssm", conv + 3 * self.heads, vector=True)
        if self.proj_bias:
            yield Piece("ssm", wide + hidden, vector=True)
        if self.gated_norm:
            yield Piece("norm", self._inner, vector=True)

    def state(self) -> tuple[int, int]:
        """Numbers per channel, and the last conv - 1 inputs."""
        return self._inner * self.states, self._channels * (self.conv - 1)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        normed = ("gated norm",) if self.gated_norm else ()
        return ("input projection", "state output", *normed, "output projection")


@dataclass(frozen=True, slots=True)
class ShortConv(Mixer):
    """Gated short convolution (LFM2): in-projection to three streams, convolution, out.

    Attributes:
        taps: taps of the causal convolution.
        bias: biases of projections and convolution.
        width: channels.
    """

    width: int
    taps: int
    bias: bool = False

    TITLE = "convolution"
    KIND = "short convolution {0.taps}"
    SPLIT = "width"
    steps = ("input projection", "output projection")

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In- and out-projection, taps, biases."""
        yield Piece("ssm", 3 * hidden * self.width, module="conv.in_proj")
        yield Piece("ssm", hidden * self.width, module="conv.out_proj")
        yield Piece("ssm", self.width * self.taps, vector=True)
        if self.bias:
            yield Piece("ssm", 4 * self.width + hidden, vector=True)

    def state(self) -> tuple[int, int]:
        """The last taps - 1 inputs."""
        return 0, self.width * (self.taps - 1)


@dataclass(frozen=True, slots=True)
class RecurrentUnit(Mixer):
    """Real-gated linear recurrent unit (Griffin, RecurrentGemma) with its convolution.

    Attributes:
        width: channels.
        blocks: blocks of the gates' block-diagonal matrices.
        conv: taps of the causal convolution.
    """

    width: int
    blocks: int
    conv: int

    TITLE = "recurrent"
    KIND = "linear recurrent unit {0.width}"
    DIVIDES = ("blocks", "width")
    SPLIT = "width"
    steps = ("input projection", "gates", "output projection")

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Two projections in, one out, the gates' blocks, convolution, biases, decay."""
        yield Piece("ssm", 2 * hidden * self.width, module="temporal_block.linear_x")
        yield Piece("ssm", hidden * self.width, module="temporal_block.linear_out")
        yield Piece("ssm", 2 * self.width * self.width // self.blocks)
        yield Piece("ssm", (self.conv + 1 + 5) * self.width + hidden, vector=True)

    def state(self) -> tuple[int, int]:
        """One number a channel, and the last conv - 1 inputs."""
        return self.width, self.width * (self.conv - 1)
