"""Prefill, measured: prompts through the decoder, and the matrix products that they consist of.

A prompt goes through the layers PASS_TOKENS tokens at a time, so almost all of its time is
arithmetic: products of so many tokens with each matrix, and attention. Each shape of product is
timed by itself beside the prompts, in turns with the square product that is the peak.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from archinfer.calibration.bench import Bench, low, rounds
from archinfer.calibration.design import prefill_configs
from archinfer.calibration.measure import PREFILL, Progress, Settings, silent
from archinfer.calibration.moe.config import MoEConfig
from archinfer.calibration.moe.decoder import PASS_TOKENS
from archinfer.hardware.text import rounded
from archinfer.physics.workload import Traffic, flops
from archinfer.record import Record

PROMPTS = (512, 2048)
"""Tokens of the prompts that are timed."""
ROUNDS_LEAST = 2


_NUMBERS = ("efficiency", "log_sd", "product_efficiency", "product_log_sd")


@dataclass(frozen=True, slots=True, repr=False)
class Product(Record):
    """One shape of matrix product: tokens times a weight matrix."""

    tokens: int
    outputs: int
    inputs: int
    flops_per_s: float
    efficiency: float
    """of the square matrix product"""


@dataclass(frozen=True, slots=True, repr=False)
class Prompt(Record):
    """One prompt through one model."""

    KEYS = ("name", "prompt_tokens", "seconds", "tokens_per_s", "efficiency")

    name: str
    prompt_tokens: int
    seconds: float
    tokens_per_s: float
    efficiency: float
    """arithmetic of the prompt over time, of the square matrix product"""
    routed: bool
    """The model has routed experts."""


@dataclass(frozen=True, slots=True, repr=False)
class Prefill(Record):
    """Prompts and the matrix products in them, against the square matrix product."""

    KEYS = (*_NUMBERS, "prompts", "products")

    prompts: tuple[Prompt, ...]
    products: tuple[Product, ...]

    @property
    def efficiency(self) -> float:
        """geometric mean over prompts"""
        return _geometric([p.efficiency for p in self.prompts])[0]

    @property
    def log_sd(self) -> float:
        """its spread over prompts and models, natural logarithm"""
        return _geometric([p.efficiency for p in self.prompts])[1]

    @property
    def product_efficiency(self) -> float:
        """geometric mean over the shapes of products"""
        return _geometric([p.efficiency for p in self.products])[0]

    @property
    def product_log_sd(self) -> float:
        """its spread over shapes, natural logarithm"""
        return _geometric([p.efficiency for p in self.products])[1]

    def constants(self, source: str) -> dict[str, Any]:
        """The profile's constants of prompts: what dense and routed models reach."""
        found = {}
        for key, routed in (("prompt_efficiency", False), ("routed_prompt_efficiency", True)):
            reached = [p.efficiency for p in self.prompts if p.routed is routed]
            if reached:
                mean, log_sd = _geometric(reached)
                value = {"value": rounded(min(mean, 1.0), 4), "log_sd": rounded(log_sd, 4)}
                found[key] = value | {"source": f"measured by {source}"}
        return found

    def to_data(self, source: str) -> dict[str, Any]:
        """The profile's section `prefill`."""
        return {
            **{key: rounded(getattr(self, key), 4) for key in _NUMBERS},
            "prompts": [
                {"model": p.name, "tokens": p.prompt_tokens, "efficiency": rounded(p.efficiency, 4)}
                for p in self.prompts
            ],
            "products": [
                {k: getattr(p, k) for k in ("tokens", "outputs", "inputs")}
                | {"efficiency": rounded(p.efficiency, 4)}
                for p in self.products
            ],
            "source": source,
        }


def _geometric(values: list[float]) -> tuple[float, float]:
    """Geometric mean, and standard deviation of the logarithm."""
    logs = np.log(values)
    return float(np.exp(logs.mean())), float(logs.std(ddof=1)) if len(logs) > 1 else 0.0


def prompt_flops(config: MoEConfig, tokens: int) -> float:
    """Arithmetic of a prompt: its layers, each token over the half of the prompt that it sees on
    average, and the head once."""
    shape = config.shape()
    traffic = Traffic(context_tokens=(tokens + 1) / 2.0)
    layers = sum(float(g.count * flops(g, traffic)) for g in shape.groups)
    return tokens * layers + 2.0 * float(shape.head_params)


def product_shapes(config: MoEConfig) -> Iterator[tuple[int, int, int]]:
    """(tokens, outputs, inputs) of every product in one pass of a prompt, each shape once."""
    c, hidden = config, config.hidden_size
    yield PASS_TOKENS, (c.heads + 2 * c.kv_heads) * c.head_dim, hidden
    yield PASS_TOKENS, hidden, c.heads * c.head_dim
    if c.dense_layers:
        yield PASS_TOKENS, 2 * c.intermediate_size, hidden
        yield PASS_TOKENS, hidden, c.intermediate_size
    if c.moe_layers:
        each = max(round(PASS_TOKENS * c.experts_per_token / c.experts), 1)
        yield each, 2 * c.moe_intermediate_size, hidden
        yield each, hidden, c.moe_intermediate_size


def measure_prefill(bench: Bench, settings: Settings, tell: Progress = silent) -> Prefill:
    """Time prompts and products in turns.

    Args:
        bench: opened, with no models.
        settings: time and seed.
        tell: told how far it is.
    """
    configs = prefill_configs(settings.memory_bytes)
    asked = [(config, tokens) for config in configs for tokens in PROMPTS]
    shapes = list(dict.fromkeys(shape for config in configs for shape in product_shapes(config)))
    prompts: dict[tuple[MoEConfig, int], list[float]] = {key: [] for key in asked}
    products: dict[tuple[int, int, int], list[float]] = {shape: [] for shape in shapes}
    peaks: list[float] = []
    for _ in rounds(bench, settings.times_s[2], ROUNDS_LEAST, partial(tell, PREFILL)):
        for config, tokens in asked:
            prompts[config, tokens].append(bench.prefill_s(config, tokens, settings.seed))
        for shape in shapes:
            products[shape].append(1.0 / bench.product_flops_per_s(*shape))
        peaks.append(1.0 / bench.matmul_flops_per_s())
    bench.free()
    peak = 1.0 / low(peaks)
    timed = [(*key, low(times)) for key, times in prompts.items()]
    rates = [(shape, 1.0 / low(inverse)) for shape, inverse in products.items()]
    return Prefill(
        tuple(
            Prompt(c.name, n, s, n / s, prompt_flops(c, n) / s / peak, c.experts > 0)
            for c, n, s in timed
        ),
        tuple(Product(*shape, rate, rate / peak) for shape, rate in rates),
    )
