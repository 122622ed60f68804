"""Which shapes are timed: models that differ in depth, width, experts, context and batch.

Models of the fit and held-out ones never share a width. All models of a run are in memory at
once, so that their timings can be taken in turns; what does not fit in the budget is left out
and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archinfer.calibration.moe.config import MoEConfig
from archinfer.models.shape import ModelShape
from archinfer.physics.workload import Traffic, Workload

BITS = 32
"""Bits of a weight and of a number in the KV cache: the forward pass is float32."""

VOCAB = 2048
ROOM_TOKENS = 16
"""Tokens of the KV cache beyond the context, for the steps that are timed."""
OVERHEAD_BYTES = 200e6
"""Interpreter, libraries and the decoders' small buffers."""


@dataclass(frozen=True, slots=True)
class Point:
    """One timing: a model that decodes `batch` sequences at a context."""

    config: MoEConfig
    context_tokens: int
    batch: int = 1
    heldout: bool = False

    @property
    def name(self) -> str:
        """Short description, for people."""
        return f"{self.config.name}, context {self.context_tokens}, batch {self.batch}"

    @property
    def shape(self) -> ModelShape:
        """The model as the cost model sees it."""
        return self.config.shape()

    @property
    def workload(self) -> Workload:
        """Model, context, batch and formats as the cost model sees them."""
        return Workload(self.shape, Traffic(self.context_tokens, self.batch, BITS, None, BITS))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is timed within a memory budget."""

    points: tuple[Point, ...]
    """What fits, in order of the design."""
    skipped: tuple[Point, ...]
    """What does not."""
    buffer_bytes: float
    """Memory for the read ceiling."""
    taken_bytes: float
    """Memory of all points, buffer and interpreter together."""


def model_bytes(config: MoEConfig) -> float:
    """Bytes of a model's weights."""
    return float(config.shape().total_params) * BITS / 8.0


def point_bytes(point: Point) -> float:
    """Bytes that a point takes beside its model: KV cache, attention scores and buffers."""
    c = point.config
    room = point.context_tokens + ROOM_TOKENS
    cache = 2 * c.kv_heads * c.head_dim * room * c.layers
    scores = c.heads * room
    widest = max(c.hidden_size, 2 * c.intermediate_size, 2 * c.moe_intermediate_size, c.vocab_size)
    slots = c.experts_per_token * (2 * c.hidden_size + 3 * c.moe_intermediate_size)
    rotary = 2 * c.head_dim * room
    return 4.0 * (point.batch * (cache + scores + 16 * widest + slots) + rotary)


def _moe(
    hidden: int,
    layers: int,
    width: int,
    experts: int,
    top: int,
    shared: int = 0,
    kv_heads: int = 1,
    head_dim: int = 128,
) -> MoEConfig:
    return MoEConfig(
        VOCAB,
        hidden,
        layers,
        hidden // head_dim,
        kv_heads,
        head_dim,
        moe_intermediate_size=width,
        experts=experts,
        experts_per_token=top,
        shared_experts=shared,
    )


def _points(quick: bool) -> list[Point]:
    """The design: most telling first, so that a small budget keeps contrasts."""
    deep = _moe(256, 10, 96, 16, 8, shared=4)
    wide = _moe(1024, 2, 1024, 4, 2, kv_heads=4)
    calls = _moe(512, 4, 160, 16, 8, shared=4, kv_heads=2)
    plain = MoEConfig(VOCAB, 768, 3, 12, 4, 64, intermediate_size=2304)
    few = _moe(512, 3, 768, 6, 2, kv_heads=8, head_dim=64)
    middle = _moe(1024, 2, 256, 12, 6, shared=4)
    single = _moe(256, 6, 384, 8, 1, kv_heads=2, head_dim=64)
    broad = _moe(2048, 1, 768, 4, 2, kv_heads=2)
    first = _moe(640, 3, 192, 12, 6, shared=4)
    second = _moe(1152, 2, 640, 6, 3, shared=1, kv_heads=3)
    third = _moe(384, 6, 192, 8, 4, shared=2, kv_heads=3)
    timed = [
        (deep, 64, 1), (wide, 64, 1), (few, 2048, 1), (calls, 64, 1), (first, 256, 1),
        (plain, 64, 1), (few, 64, 4), (second, 128, 1), (wide, 512, 2), (calls, 1024, 1),
        (middle, 64, 1), (third, 512, 1), (few, 1024, 2), (first, 1024, 2),
        (single, 64, 1), (third, 128, 4), (broad, 64, 1), (plain, 2048, 1),
    ]  # fmt: skip
    if not quick:
        timed += [
            (middle, 2048, 1), (single, 128, 4), (deep, 512, 2), (broad, 256, 2), (second, 2048, 1),
            (calls, 256, 4), (plain, 512, 2), (deep, 2048, 1), (wide, 128, 4), (second, 512, 2),
            (first, 64, 4), (third, 2048, 1),
        ]  # fmt: skip
    unseen = first, second, third
    return [Point(model, context, batch, model in unseen) for model, context, batch in timed]


def plan(memory_bytes: float, quick: bool, points: Sequence[Point] | None = None) -> Plan:
    """The design within `memory_bytes`, which it never exceeds.

    Args:
        memory_bytes: for everything that a run holds at once.
        quick: the smaller design.
        points: another design, in order of importance.
    """
    wanted = tuple(_points(quick) if points is None else points)
    buffer_bytes = min(0.4e9 if quick else 0.8e9, 0.25 * memory_bytes)
    taken = OVERHEAD_BYTES + buffer_bytes
    planned: set[MoEConfig] = set()
    kept, skipped = [], []
    for point in wanted:
        more = point_bytes(point)
        if point.config not in planned:
            more += model_bytes(point.config)
        if taken + more > memory_bytes:
            skipped.append(point)
            continue
        taken += more
        planned.add(point.config)
        kept.append(point)
    return Plan(tuple(kept), tuple(skipped), buffer_bytes, taken)


def bandwidth_config(memory_bytes: float, quick: bool) -> MoEConfig:
    """The model whose decode is held against the read ceiling: about 1 GB of active weights,
    0.3 GB where the run is quick, less where the budget asks for it."""
    for layers in range(2 if quick else 7, 0, -1):
        config = _moe(2048, layers, 2048, 3, 2, kv_heads=4)
        if model_bytes(config) + OVERHEAD_BYTES <= 0.75 * memory_bytes:
            return config
    return _moe(1024, 1, 1024, 3, 2, kv_heads=4)


def prefill_configs(memory_bytes: float) -> tuple[MoEConfig, ...]:
    """The models whose prompts are timed: dense, few large experts, many small ones; fewer where
    the budget asks for it."""
    wanted = (
        MoEConfig(VOCAB, 768, 2, 12, 4, 64, intermediate_size=2304),
        _moe(1024, 1, 1024, 4, 2, kv_heads=4),
        _moe(640, 2, 192, 12, 6, shared=4),
    )
    most = (memory_bytes - OVERHEAD_BYTES) / 2.0
    return tuple(c for c in wanted if model_bytes(c) <= most) or wanted[:1]


def routing_config() -> MoEConfig:
    """A small model with many experts, to see how evenly a router spreads tokens."""
    return _moe(256, 6, 32, 64, 8, kv_heads=2, head_dim=64)
