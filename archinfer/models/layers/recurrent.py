"""Mixers that carry a state of fixed size from token to token: linear attention, state spaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archinfer.models.layers.pieces import (
    CONV_STATE_BYTES,
    MAX_HEADS,
    MAX_WIDTH,
    STATE_BYTES,
    Memoryless,
    Piece,
    need,
    size_within,
)
from archinfer.models.shape import Cache

__all__ = ["GatedDelta", "KimiDelta", "Lightning", "Mamba1", "Mamba2", "ShortConv"]

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

    def __post_init__(self) -> None:
        size_within("linear key heads", self.key_heads, MAX_HEADS)
        size_within("linear value heads", self.value_heads, MAX_HEADS)
        size_within("linear key head_dim", self.key_dim, MAX_WIDTH)
        size_within("linear value head_dim", self.value_dim, MAX_WIDTH)
        size_within("convolution taps", self.conv, MAX_WIDTH)
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
        yield Piece("ssm", hidden * (self._channels + value + 2 * self.value_heads))
        yield Piece("ssm", value * hidden)
        yield Piece("ssm", self.conv * self._channels, vector=True)
        yield Piece("ssm", 2 * self.value_heads + self.value_dim, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """key_dim x value_dim per value head, and the last conv - 1 inputs."""
        recurrent = self.value_heads * self.key_dim * self.value_dim
        return recurrent * STATE_BYTES + self._channels * (self.conv - 1) * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each value head."""
        return float(self.value_heads)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        return _DELTA_STEPS


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

    def __post_init__(self) -> None:
        size_within("linear attention heads", self.heads, MAX_HEADS)
        size_within("linear attention head_dim", self.head_dim, MAX_WIDTH)
        size_within("convolution taps", self.conv, MAX_WIDTH)

    @property
    def kind(self) -> str:
        """What the maker calls it."""
        return f"Kimi delta attention {self.heads}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, output, gate, decay and beta projections, convolutions, gated norm."""
        wide = self.heads * self.head_dim
        low_rank = self.head_dim * (hidden + wide)
        gate = hidden * wide if self.full_rank_gate else low_rank
        yield Piece("ssm", 4 * hidden * wide + gate + low_rank + hidden * self.heads)
        yield Piece("ssm", 3 * self.conv * wide, vector=True)
        yield Piece("ssm", self.heads + wide + self.head_dim, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """head_dim squared per head, and the last conv - 1 inputs of q, k and v."""
        wide = self.heads * self.head_dim
        recurrent = wide * self.head_dim * STATE_BYTES
        return recurrent + 3 * wide * (self.conv - 1) * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each head."""
        return float(self.heads)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces; the decay's second matrix runs beside the q/k norm."""
        return _DELTA_STEPS


@dataclass(frozen=True, slots=True)
class Lightning(Memoryless):
    """Lightning attention (MiniMax-Text-01): linear attention with a fixed decay.

    Attributes:
        heads, head_dim: heads of q, k and v alike.
    """

    heads: int
    head_dim: int

    def __post_init__(self) -> None:
        size_within("linear attention heads", self.heads, MAX_HEADS)
        size_within("head_dim", self.head_dim, MAX_WIDTH)

    @property
    def kind(self) -> str:
        """What the maker calls it."""
        return f"lightning attention {self.heads}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """q, k, v, gate and output projections, output norm."""
        wide = self.heads * self.head_dim
        yield Piece("attention", 5 * hidden * wide)
        yield Piece("norm", wide, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """head_dim squared per head."""
        return self.heads * self.head_dim**2 * STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each head."""
        return float(self.heads)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        return ("QKV projection", "state times query", "output norm", "output projection")


@dataclass(frozen=True, slots=True)
class Mamba1(Memoryless):
    """Mamba (selective state space, version 1), as in Jamba.

    Attributes:
        inner: channels (`expand` times hidden_size).
        state: state numbers per channel.
        conv: taps of the causal convolution.
        dt_rank: rank of the time-step projection.
        conv_bias, proj_bias: biases.
        inner_norms: norms of time step, B and C.
    """

    inner: int
    state: int
    conv: int
    dt_rank: int
    conv_bias: bool = True
    proj_bias: bool = False
    inner_norms: bool = False

    def __post_init__(self) -> None:
        size_within("mamba channels", self.inner, MAX_WIDTH)
        size_within("mamba state size", self.state, MAX_WIDTH)
        size_within("convolution taps", self.conv, MAX_WIDTH)
        size_within("mamba time-step rank", self.dt_rank, MAX_WIDTH)

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"Mamba-1 state {self.state}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In-, x-, dt- and out-projection, convolution, A, D, inner norms."""
        yield Piece("ssm", 3 * hidden * self.inner)
        yield Piece("ssm", self.inner * (self.dt_rank + 2 * self.state))
        yield Piece("ssm", self.dt_rank * self.inner)
        conv = self.inner * (self.conv + int(self.conv_bias))
        yield Piece("ssm", conv + self.inner * (self.state + 2), vector=True)
        if self.proj_bias:
            yield Piece("ssm", 2 * self.inner + hidden, vector=True)
        if self.inner_norms:
            yield Piece("ssm", self.dt_rank + 2 * self.state, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """state numbers per channel, and the last conv - 1 inputs."""
        return self.inner * (self.state * STATE_BYTES + (self.conv - 1) * CONV_STATE_BYTES)

    @property
    def state_shards(self) -> float:
        """One for each channel."""
        return float(self.inner)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        normed = ("dt, B, C norm",) if self.inner_norms else ()
        return (
            "input projection",
            "x projection",
            *normed,
            "dt projection",
            "state output",
            "output projection",
        )


@dataclass(frozen=True, slots=True)
class Mamba2(Memoryless):
    """Mamba-2, as in Nemotron-H: heads with a scalar decay, B and C shared by groups of heads.

    Attributes:
        heads, head_dim: heads and channels of each.
        state: state numbers per channel.
        groups: groups that share B and C.
        conv: taps of the causal convolution.
        conv_bias, proj_bias: biases.
        gated_norm: norm before the output projection.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    conv: int
    conv_bias: bool = True
    proj_bias: bool = False
    gated_norm: bool = True

    def __post_init__(self) -> None:
        size_within("mamba heads", self.heads, MAX_HEADS)
        size_within("mamba head_dim", self.head_dim, MAX_WIDTH)
        size_within("mamba state size", self.state, MAX_WIDTH)
        size_within("mamba groups", self.groups, MAX_HEADS)
        size_within("convolution taps", self.conv, MAX_WIDTH)
        need(
            self.heads % self.groups == 0,
            f"{self.groups} mamba groups do not divide {self.heads} mamba heads",
        )

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"Mamba-2 {self.heads} heads, state {self.state}"

    @property
    def _inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def _channels(self) -> int:
        return self._inner + 2 * self.groups * self.state

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In- and out-projection, convolution, A, D, time-step bias, gated norm."""
        wide = self._inner + self._channels + self.heads
        yield Piece("ssm", hidden * wide + self._inner * hidden)
        conv = self._channels * (self.conv + int(self.conv_bias))
        yield Piece("ssm", conv + 3 * self.heads, vector=True)
        if self.proj_bias:
            yield Piece("ssm", wide + hidden, vector=True)
        if self.gated_norm:
            yield Piece("norm", self._inner, vector=True)

    def caches(self) -> tuple[Cache, ...]:
        """None: the past is in the state."""
        return ()

    def state_bytes(self) -> int:
        """state numbers per channel, and the last conv - 1 inputs."""
        recurrent = self._inner * self.state * STATE_BYTES
        return recurrent + self._channels * (self.conv - 1) * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each head."""
        return float(self.heads)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        normed = ("gated norm",) if self.gated_norm else ()
        return ("input projection", "state output", *normed, "output projection")


@dataclass(frozen=True, slots=True)
class ShortConv(Memoryless):
    """Gated short convolution (LFM2): in-projection to three streams, convolution, out.

    Attributes:
        taps: taps of the causal convolution.
        bias: biases of projections and convolution.
        width: channels.
    """

    width: int
    taps: int
    bias: bool = False

    def __post_init__(self) -> None:
        size_within("convolution width", self.width, MAX_WIDTH)
        size_within("convolution taps", self.taps, MAX_WIDTH)

    @property
    def kind(self) -> str:
        """What it is."""
        return f"short convolution {self.taps}"

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """In- and out-projection, taps, biases."""
        yield Piece("ssm", 4 * hidden * self.width)
        yield Piece("ssm", self.width * self.taps, vector=True)
        if self.bias:
            yield Piece("ssm", 4 * self.width + hidden, vector=True)

    def state_bytes(self) -> int:
        """The last taps - 1 inputs."""
        return self.width * (self.taps - 1) * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """One for each channel."""
        return float(self.width)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        return ("input projection", "output projection")
