"""Reading prompts: the time to the first token, and what others' prompts cost a decode pass.

    T_first = overhead + (arithmetic + all-reduces + F x fixed time of the layers) (1 + q (B - 1))
              + one decode pass

- A prompt is arithmetic: two FLOPs for each active weight and token, and attention over the half
  of the prompt that a token sees on average. Layers with routed experts reach less of the peak,
  since each expert gets few tokens.
- A pass that reads prompts is not one captured graph, so its fixed time is F times that of a
  decode pass; up to `PASS_TOKENS` tokens of prompts share one pass.
- B users whose requests come one after the other slow each other's decode passes by
  (B - 1) / output prompts each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import LayerGroup, ModelShape, Number
from archinfer.physics.mapping import Placement
from archinfer.physics.nodegroup import NodeGroup, node_group, payload_s
from archinfer.physics.terms import Ledger, TokenTime
from archinfer.physics.workload import ACTIVATION_BYTES, Workload
from archinfer.record import Record

PROMPT_CONSTANTS = (
    "prompt_efficiency", "routed_prompt_efficiency", "prompt_pass_factor", "first_token_time",
)  # fmt: skip
"""Constants of a profile that only prompts depend on."""

PASS_TOKENS = 8192
"""Tokens of prompts that one pass reads at most: the default budget of vLLM and TensorRT-LLM."""

WAIT_PER_USER = 0.065
"""Part of the time of a prompt that each other user adds to the time to the first token (1,500
configurations of serving engines, archinfer/data/serving.csv; a fifth less above 16 users)."""

RING_EFFICIENCY = 0.52
"""Part of the scale-up bandwidth that all-reduces of whole prompts reach (times to the first token
of archinfer/data/serving.csv by tensor parallelism)."""

FIRST_TOKEN_LOG_SD = 0.37
"""Spread of times to the first token that the model does not explain, natural logarithm: 90 % of
226 configurations with at most 4 users lie within 1.85, their model left out."""


@dataclass(frozen=True, slots=True)
class PromptWork:
    """Seconds that one prompt takes, and what a pass with prompts takes whatever their length."""

    matrices: Number
    attention: Number
    reductions: Number
    fixed: Number
    """Of one pass."""
    ledger: Ledger
    """Of `matrices` and `attention`."""
    fixed_ledger: Ledger

    @property
    def arithmetic(self) -> Number:
        """Arithmetic alone."""
        return self.matrices + self.attention


def prompt_macs(group: LayerGroup, prompt_tokens: Number) -> Number:
    """Multiply-accumulates of attention for one token of a prompt, on average."""
    macs: Number = 0.0
    for cache in group.caches:
        own = cache.prompt_macs_per_token
        each = cache.macs_per_token if own is None else own
        seen = np.minimum(np.minimum(prompt_tokens / 2.0, cache.window_tokens), cache.read_tokens)
        macs = macs + each * seen
    return macs


def _efficiencies(hardware: Hardware) -> tuple[tuple[str, Number], tuple[str, Number]]:
    """Constant and part of the peak that prompts reach in dense and in routed layers."""
    dense = ("compute_efficiency", hardware.compute_efficiency)
    if not np.all(np.isnan(hardware.prompt_efficiency)):
        dense = ("prompt_efficiency", hardware.prompt_efficiency)
    routed = dense
    if not np.all(np.isnan(hardware.routed_prompt_efficiency)):
        routed = ("routed_prompt_efficiency", hardware.routed_prompt_efficiency)
    return dense, routed


def prompt_work(
    on: NodeGroup, shape: ModelShape, prompt_tokens: Number, alone: bool = False
) -> PromptWork:
    """One prompt of `prompt_tokens` on a tensor-parallel group, every layer one after the other.

    Args:
        on: the group.
        shape: the model.
        prompt_tokens: of the prompt.
        alone: nodes that have users of their own leave all but the experts of a prompt to one;
            else its part of the time of many prompts, which fill all nodes.
    """
    hardware, traffic = on.hardware, on.traffic
    dense, routed = _efficiencies(hardware)
    matrices: Number = 0.0
    attention: Number = 0.0
    fixed: Number = 0.0
    added: Number = 0.0
    seconds: dict[str, Number] = {}
    own = on.copies if alone else 1.0
    wide = on.peak(16.0) * dense[1] * on.nodes / own
    for group in shape.groups:
        experts = np.asarray(np.asarray(group.routed_params) > 0.0)
        flops = (
            2.0
            * prompt_tokens
            * ((group.shared_params - group.vector_params) * own + group.routed_active_params)
        )
        at = on.peak(traffic.weight_bits) * on.nodes
        for (constant, part), here in ((routed, experts), (dense, ~experts)):
            if np.any(here):
                products = group.count * np.where(here, flops / (at * part), 0.0)
                matrices = matrices + products
                seconds[constant] = seconds.get(constant, 0.0) - products
        scores = group.count * (2.0 * prompt_tokens * prompt_macs(group, prompt_tokens) / wide)
        attention = attention + scores
        seconds[dense[0]] = seconds.get(dense[0], 0.0) - scores
        kernels, more = on.kernels_s(group, experts)
        fixed, added = fixed + group.count * kernels, added + group.count * more
    factor = hardware.prompt_pass_factor
    sent_bytes = prompt_tokens * shape.hidden_size * ACTIVATION_BYTES
    sent = payload_s(hardware, on.nodes, sent_bytes, in_rings=True) / RING_EFFICIENCY
    by_experts = "routed_kernels" if on.counts_kernels else "routed_layer_factor"
    return PromptWork(
        matrices,
        attention,
        shape.layers * hardware.reductions_per_layer * sent,
        factor * fixed,
        lambda: seconds,
        lambda: {
            "fixed_time_per_layer": factor * fixed,
            by_experts: factor * added,
            "prompt_pass_factor": factor * fixed,
        },
    )  # fmt: skip


def known(hardware: Hardware) -> bool:
    """Whether the profile says how long prompts take."""
    constant = hardware.prompt_efficiency if hardware.spatial else hardware.prompt_pass_factor
    return not bool(np.all(np.isnan(constant)))


def others_prompts(on: NodeGroup, workload: Workload) -> tuple[Number, Ledger]:
    """Seconds that a decode pass waits for the prompts of the other users.

    Each of B users brings a prompt for each `output_tokens` of its passes. Prompts that come
    together share a pass, whose fixed time counts once.
    """
    traffic = workload.traffic
    if traffic.prompt_tokens is None or not known(on.hardware):
        return 0.0, dict
    users = np.asarray(traffic.concurrency, dtype=float)
    if not np.any(users > 1.0):
        return 0.0, dict
    work = prompt_work(on, workload.shape, traffic.prompt_tokens)
    per_pass = np.maximum(users - 1.0, 0.0) / traffic.output_tokens
    together = users * traffic.prompt_tokens / PASS_TOKENS / traffic.output_tokens
    passes = np.minimum(per_pass, together)

    def ledger() -> dict[str, Number]:
        sums: dict[str, Number] = {name: per_pass * s for name, s in work.ledger().items()}
        for name, s in work.fixed_ledger().items():
            sums[name] = sums.get(name, 0.0) + passes * s
        return sums

    return per_pass * work.arithmetic + passes * work.fixed, ledger


@dataclass(frozen=True)
class PromptTime(Record):
    """Seconds from a request to its first token, by term; `total` is their sum."""

    KEYS = ("arithmetic", "attention", "reductions", "fixed", "overhead", "wait", "step", "total")

    arithmetic: Number
    """multiplying the weights with the prompt's tokens"""
    attention: Number
    """attention over the prompt"""
    reductions: Number
    """all-reduces among the nodes that share a layer"""
    fixed: Number
    """passes, whatever their tokens"""
    overhead: Number
    """the server's own work on a request"""
    wait: Number
    """waiting for the prompts of the other users"""
    step: Number
    """the pass that gives the first token"""
    ledger: Ledger = field(repr=False, compare=False)

    @property
    def alone(self) -> Number:
        """Seconds of one user alone, all terms but `wait`."""
        return self.total - self.wait

    @property
    def read(self) -> Number:
        """Seconds of reading the prompt itself."""
        return self.arithmetic + self.attention + self.reductions + self.fixed

    @property
    def total(self) -> Number:
        """seconds from the request to its first token"""
        return self.read + self.overhead + self.wait + self.step

    @property
    def scaling(self) -> Mapping[str, Number]:
        """dT / d log(constant) in seconds for each uncertain constant."""
        return self.ledger()


def time_to_first_token(
    hardware: Hardware, workload: Workload, mapping: Placement, step: TokenTime
) -> PromptTime | None:
    """Time to the first token; None where the profile does not say how fast prompts are read.

    Args:
        hardware, workload, mapping: as `archinfer.physics.decode.decode_time`; the prompt is the
            traffic's, or its whole context.
        step: the decode pass.
    """
    if not known(hardware):
        return None
    traffic = workload.traffic
    prompt = traffic.context_tokens if traffic.prompt_tokens is None else traffic.prompt_tokens
    if hardware.spatial:
        return _spatial(hardware, workload, mapping, prompt, step)
    work = prompt_work(node_group(hardware, workload, mapping), workload.shape, prompt, alone=True)
    passes = np.maximum(prompt / PASS_TOKENS, 1.0)
    others = np.maximum(np.asarray(traffic.concurrency, dtype=float) - 1.0, 0.0)
    slower = 1.0 + WAIT_PER_USER * others
    fixed = passes * work.fixed
    read = work.arithmetic + work.reductions + fixed
    alone = step.total - step.prompts

    def ledger() -> dict[str, Number]:
        sums: dict[str, Number] = {name: slower * s for name, s in work.ledger().items()}
        sums["reductions_per_layer"] = slower * work.reductions
        sums["first_token_time"] = hardware.first_token_time_s + 0.0 * read
        for name, s in work.fixed_ledger().items():
            sums[name] = sums.get(name, 0.0) + slower * passes * s
        return sums

    return PromptTime(
        work.matrices, work.attention, work.reductions, fixed, hardware.first_token_time_s,
        WAIT_PER_USER * others * read, alone, ledger,
    )  # fmt: skip


def _spatial(
    hardware: Hardware, workload: Workload, mapping: Placement, prompt: Number, step: TokenTime
) -> PromptTime:
    """All layers work on different parts of a prompt at a time; the last part takes a pass."""
    shape = workload.shape
    nodes = mapping.nodes(shape.layers)
    at = hardware.peak_flops("fp16") * hardware.prompt_efficiency * nodes
    flops = sum(
        (g.count * (g.shared_params - g.vector_params + g.routed_active_params)
         for g in shape.groups), start=0.0,
    )  # fmt: skip
    macs = sum((g.count * prompt_macs(g, prompt) for g in shape.groups), start=0.0)
    matrices, attention = 2.0 * prompt * flops / at, 2.0 * prompt * macs / at
    return PromptTime(
        matrices, attention, 0.0, 0.0, hardware.first_token_time_s, 0.0, step.total,
        lambda: {"prompt_efficiency": -(matrices + attention)},
    )  # fmt: skip
