"""The solver's family scaled down to models of which one decode step takes milliseconds.

The same share of routed experts and number of experts a token, multi-query attention with heads
of 128, a vocabulary of 2,048. Models are drawn from its prior and made of whole sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from archinfer.calibration.moe.config import MoEConfig
from archinfer.inference.prior import ClassPrior, Regression, ShapePrior
from archinfer.models.family import FamilyRules, Habits

HEAD = 128


def _line(*coefficients: float, sd: float) -> Regression:
    size = len(coefficients)
    return Regression(coefficients, sd, tuple((0.0,) * size for _ in range(size)))


@dataclass(frozen=True, slots=True)
class Scaled:
    """The scaled-down family. Logarithms are natural."""

    rules: FamilyRules
    """Shape rules, as the solver takes them."""
    habits: Habits
    """Ranges of what is built, as the solver takes them."""
    active_median: float
    active_log_sd: float
    layers_median: float
    layers_exponent: float
    """Layers grow with this power of the active parameters."""
    layers_log_sd: float
    per_layer_log_sd: float
    """Of active parameters a layer in units of hidden_size^2."""
    sparsity_median: float
    """Of total over active parameters, at least 1."""
    sparsity_log_sd: float
    context_tokens: int
    """Context at which decode is timed."""

    @property
    def prior(self) -> ShapePrior:
        """The same as `infer` takes it."""
        log_active, log_ratio = np.log([self.active_median, self.sparsity_median]).tolist()
        variance = self.active_log_sd**2 + self.sparsity_log_sd**2
        # Total and sparsity, of normal active parameters and a normal sparsity beside them.
        slope = self.sparsity_log_sd**2 / variance
        log_total = log_active + log_ratio
        moe = ClassPrior(
            share=1.0,
            size_mean=log_total,
            size_sd=float(np.sqrt(variance)),
            depth=_line(
                float(np.log(self.layers_median)) - self.layers_exponent * log_active,
                self.layers_exponent,
                sd=self.layers_log_sd,
            ),
            per_layer=_line(
                float(np.log(self.rules.params_per_layer)), 0.0, 0.0, sd=self.per_layer_log_sd
            ),
            sparsity=_line(
                log_ratio - slope * log_total,
                slope,
                sd=self.sparsity_log_sd * float(np.sqrt(1.0 - slope)),
            ),
        )
        # No model is dense: the class is there because a prior has two.
        dense = ClassPrior(0.0, moe.size_mean, moe.size_sd, moe.depth, moe.per_layer)
        return ShapePrior(dense, moe, ((self.rules.attention, 1.0),))

    @property
    def rules_text(self) -> str:
        """the family in words"""
        h = self.habits
        return (
            f"multi-query attention with heads of {HEAD}, vocabulary "
            f"{self.rules.vocab_size:,.0f}, {self.rules.routed_share:.0%} of a layer's active "
            f"parameters in {self.rules.experts_per_token:.0f} routed experts a token; active "
            f"about {self.active_median / 1e6:.0f}M (log sd {self.active_log_sd:g}), layers "
            f"about {self.layers_median:g} (log sd {self.layers_log_sd:g}), total / active about "
            f"{self.sparsity_median:g} (log sd {self.sparsity_log_sd:g}); habits: "
            f"{h.layers[0]:g} to {h.layers[1]:g} layers, hidden size / layers "
            f"{h.aspect[0]:g} to {h.aspect[1]:g}, total / active {h.sparsity[0]:g} to "
            f"{h.sparsity[1]:g}; float32, context {self.context_tokens}"
        )


SCALED: Final = Scaled(
    rules=FamilyRules(attention="mqa", vocab_size=2048.0),
    habits=Habits(
        sparsity=(1.0, 8.0), aspect=(12.0, 200.0), params_per_layer=(6.0, 30.0), layers=(2.0, 30.0)
    ),
    active_median=14e6,
    active_log_sd=0.6,
    layers_median=6.0,
    layers_exponent=0.33,
    layers_log_sd=0.34,
    per_layer_log_sd=0.25,
    sparsity_median=2.2,
    sparsity_log_sd=0.35,
    context_tokens=256,
)
"""Spreads and exponent are about those of the catalogue's mixture-of-experts models; sizes are
scaled so that a step spends most of its time reading and a visible part on its layers."""


def draw(scaled: Scaled, rng: np.random.Generator) -> MoEConfig:
    """A model of the family with whole sizes, near a draw of its prior."""
    own = scaled.prior.moe

    def sample(line: Regression, *x: float) -> float:
        mean, sd = line.predict(*(np.array([v]) for v in x))
        return float(mean[0] + sd[0] * rng.standard_normal())

    log_total = own.size_mean + own.size_sd * rng.standard_normal()
    assert own.sparsity is not None
    log_ratio = -1.0
    while log_ratio < 0.0:
        log_ratio = sample(own.sparsity, log_total)
    log_active = log_total - log_ratio
    layers = max(round(float(np.exp(sample(own.depth, log_active)))), 1)
    per_layer = float(np.exp(sample(own.per_layer, log_active, float(np.log(layers)))))
    active, total = float(np.exp(log_active)), float(np.exp(log_total))
    return _whole(active, total, layers, per_layer, scaled.rules)


def _whole(
    active: float, total: float, layers: int, per_layer: float, rules: FamilyRules
) -> MoEConfig:
    """The nearest model of whole heads, experts and widths."""
    vocab, top = int(rules.vocab_size), int(rules.experts_per_token)
    width = replace(rules, params_per_layer=per_layer).hidden_size(active, layers)
    hidden = max(round(float(width) / HEAD), 2) * HEAD
    layer = max((active - 2.0 * vocab * hidden) / layers, hidden * hidden)
    routed = rules.routed_share * layer
    experts = max(round(top * (routed + (total - active) / layers) / routed), top)
    attention = 2.0 * hidden * hidden + 2.0 * hidden * HEAD + hidden * experts
    expert = max(routed / (top * 3.0 * hidden), 8.0)
    shared = max(round((layer - routed - attention) / (3.0 * hidden * expert)), 0)
    # The width of an expert takes up what whole numbers of heads and shared experts leave.
    expert_width = max(round((layer - attention) / (3.0 * hidden * (top + shared))), 8)
    return MoEConfig(
        vocab,
        hidden,
        layers,
        hidden // HEAD,
        1,
        HEAD,
        moe_intermediate_size=expert_width,
        experts=experts,
        experts_per_token=top,
        shared_experts=shared,
    )
