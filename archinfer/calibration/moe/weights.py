"""The numbers of a model: float32, seeded, one contiguous block of memory per layer.

A decode step reads each weight once, from the start of a layer to its end, so the arrays lie in
the order in which they are used. Matrices are (outputs, inputs), row by row: a product with one
token is then a row-wise dot product that streams through memory. Where that makes short rows of a
matrix that threads share (an expert's way down from a small width), it lies the other way round.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archinfer.calibration.moe.config import MoEConfig
from archinfer.calibration.threads import shared_from

Array: TypeAlias = NDArray[np.float32]

BLOCK = 1 << 22
"""Numbers drawn from one seed: small against a layer, so that threads share the work."""
LONG_ROW = 1024
"""Numbers in a row from which on OpenBLAS reads at full speed."""
LINE = 16
"""Float32 numbers in a cache line of 64 bytes."""
BEHIND = 4
"""Numbers from the start of a cache line to that of every array, as malloc places it: loads that
cross lines let one core of an AMD EPYC read at 28 to 31 GB/s, others at 20."""


@dataclass(slots=True)
class Layer:
    """Weights of one decoder layer. Arrays that it has no use for are empty."""

    attention_norm: Array  # (hidden)
    qkv: Array  # ((heads + 2 kv_heads) * head_dim, hidden): all queries, all keys, all values
    query_norm: Array  # (head_dim), empty without qk_norm
    key_norm: Array  # (head_dim), empty without qk_norm
    output: Array  # (hidden, heads * head_dim)
    mlp_norm: Array  # (hidden)
    router: Array  # (experts, hidden), empty in a dense layer
    router_bias: Array  # (experts), empty unless scoring is sigmoid
    gate_up: Array  # dense: (2 intermediate, hidden); MoE: the shared experts side by side
    down: Array  # dense: (hidden, intermediate); MoE: the shared experts side by side
    expert_gate_up: Array  # (experts, 2 moe_intermediate, hidden): gate rows, then up rows
    expert_down: Array  # (experts, hidden, moe_intermediate)

    def named(self) -> Iterator[tuple[str, Array]]:
        """Name and array of all weights that exist, in the order of memory."""
        for name in self.__slots__:
            array = getattr(self, name)
            if array.size:
                yield name, array


def layer_shapes(config: MoEConfig, layer: int) -> dict[str, tuple[int, ...]]:
    """Shape of every array of layer number `layer`; a leading 0 where it has none."""
    c = config
    h, moe = c.hidden_size, c.is_moe(layer)
    experts = c.experts if moe else 0
    width = c.shared_experts * c.moe_intermediate_size if moe else c.intermediate_size
    head = c.head_dim if c.qk_norm else 0
    return {
        "attention_norm": (h,),
        "qkv": ((c.heads + 2 * c.kv_heads) * c.head_dim, h),
        "query_norm": (head,),
        "key_norm": (head,),
        "output": (h, c.heads * c.head_dim),
        "mlp_norm": (h,),
        "router": (experts, h),
        "router_bias": (experts if c.scoring == "sigmoid" else 0,),
        "gate_up": (2 * width, h),
        "down": (h, width),
        "expert_gate_up": (experts, 2 * c.moe_intermediate_size, h),
        "expert_down": (experts, h, c.moe_intermediate_size),
    }


@dataclass(slots=True)
class Weights:
    """All weights of a model."""

    config: MoEConfig
    embedding: Array  # (vocab, hidden)
    layers: list[Layer]
    final_norm: Array  # (hidden)
    head: Array  # (vocab, hidden); the embedding itself where they are tied

    @classmethod
    def empty(cls, config: MoEConfig) -> Weights:
        """Memory for a model, one block for each layer and one for the rest; no values yet."""
        rows = (config.vocab_size, config.hidden_size)
        head_rows = 0 if config.tie_word_embeddings else config.vocab_size
        layers = [Layer(**_carve(layer_shapes(config, number))) for number in range(config.layers)]
        rest = _carve(
            {
                "embedding": rows,
                "final_norm": (config.hidden_size,),
                "head": (head_rows, config.hidden_size),
            }
        )
        head = rest["embedding"] if config.tie_word_embeddings else rest["head"]
        return cls(config, rest["embedding"], layers, rest["final_norm"], head)

    @classmethod
    def random(cls, config: MoEConfig, seed: int = 0) -> Weights:
        """A model with seeded random weights: the same seed gives the same numbers everywhere.

        Matrices are uniform with mean 0 and variance 1 / inputs, so that activations keep their
        size; norms are uniform in 0.8 to 1.2, the embedding has variance 1, the router's bias
        is within 0.1. Numbers are drawn in place, block by block, each block from its own seed:
        no second copy of anything, and the number of threads changes nothing.
        """
        weights = cls.empty(config)
        jobs: list[tuple[Array, float, float, tuple[int, int, int]]] = []
        for number, (name, array) in enumerate(weights.named()):
            kind = name.rsplit(".", 1)[-1]
            if kind.endswith("norm"):
                mean, half_width = 1.0, 0.2
            elif kind == "router_bias":
                mean, half_width = 0.0, 0.1
            else:
                variance = 1.0 if kind == "embedding" else 1.0 / array.shape[-1]
                mean, half_width = 0.0, math.sqrt(3.0 * variance)
            flat = (array if array.flags.c_contiguous else array.swapaxes(-1, -2)).reshape(-1)
            jobs += [
                (flat[at : at + BLOCK], mean, half_width, (seed, number, at // BLOCK))
                for at in range(0, flat.size, BLOCK)
            ]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for _ in pool.map(lambda job: _fill(*job), jobs):
                pass
        return weights

    def named(self) -> Iterator[tuple[str, Array]]:
        """Name and array of all stored weights; `layers.3.qkv` for those of a layer."""
        yield "embedding", self.embedding
        for number, layer in enumerate(self.layers):
            for name, array in layer.named():
                yield f"layers.{number}.{name}", array
        yield "final_norm", self.final_norm
        if not self.config.tie_word_embeddings:
            yield "head", self.head

    @property
    def params(self) -> int:
        """Stored parameters, without the router's score-correction bias (a buffer)."""
        return sum(a.size for name, a in self.named() if not name.endswith("router_bias"))


def _carve(shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    """Arrays of these shapes, one after another in one block, each `BEHIND` the start of a line."""
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    room = sum(-(-size // LINE) * LINE for size in sizes.values())
    block = np.empty(room + LINE, dtype=np.float32)
    at = (BEHIND - block.ctypes.data // block.itemsize) % LINE
    arrays = {}
    for name, shape in shapes.items():
        memory = block[at : at + sizes[name]]
        # Rows of the embedding are looked up, one by one.
        if name != "embedding" and _turned(shape):
            arrays[name] = memory.reshape(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2)
        else:
            arrays[name] = memory.reshape(shape)
        at += -(-sizes[name] // LINE) * LINE
    return arrays


def _turned(shape: tuple[int, ...]) -> bool:
    """Whether a matrix lies with its outputs side by side: threads share it, its rows are short."""
    if len(shape) < 2 or not shape[-1] < LONG_ROW <= shape[-2]:
        return False
    return 0 < shared_from() <= shape[-1] * shape[-2]


def _fill(out: Array, mean: float, half_width: float, seed: tuple[int, int, int]) -> None:
    """Fill a contiguous array with numbers uniform in mean +- half_width."""
    np.random.Generator(np.random.SFC64(seed)).random(out=out, dtype=np.float32)
    out *= 2.0 * half_width
    out += mean - half_width
