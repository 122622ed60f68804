"""The time to the first token with its uncertainty, alone and under the load of other users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import Number
from archinfer.physics import decode
from archinfer.physics.mapping import Placement
from archinfer.physics.prefill import FIRST_TOKEN_LOG_SD, PromptTime, time_to_first_token
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload
from archinfer.record import Quantiles, Record


@dataclass(frozen=True, slots=True)
class FirstToken(Record):
    """Time to the first token, and how fast prompts are read."""

    KEYS = ("prompt_tokens", "alone_s", "under_load_s", "prompt_tokens_per_s", "time_s")

    prompt_tokens: int
    """tokens of the prompt"""
    alone_s: Quantiles
    """seconds from a request to its first token, one user alone"""
    under_load_s: Quantiles
    """the same with all users' prompts"""
    prompt_tokens_per_s: Quantiles
    """tokens of prompts read per second, of one prompt alone"""
    time_s: PromptTime
    """seconds under load by term"""


def first_token_spread(hardware: Hardware, time: PromptTime) -> Number:
    """Factor either way within which the time to the first token lies with 90 %."""
    return np.exp(decode.Z90 * np.hypot(decode.log_sd(hardware, time), FIRST_TOKEN_LOG_SD))


def first_token(
    hardware: Hardware, workload: Workload, mapping: Placement, step: TokenTime
) -> FirstToken | None:
    """Time to the first token with its uncertainty; arguments as `time_to_first_token`."""
    time = time_to_first_token(hardware, workload, mapping, step)
    if time is None:
        return None
    spread = first_token_spread(hardware, time)
    traffic = workload.traffic
    asked = traffic.context_tokens if traffic.prompt_tokens is None else traffic.prompt_tokens
    tokens = int(np.asarray(asked).item())

    def around(value: Number) -> Quantiles:
        return Quantiles(float(value / spread), float(value), float(value * spread))

    read = time.arithmetic + time.attention + time.reductions + time.fixed
    return FirstToken(tokens, around(time.alone), around(time.total), around(tokens / read), time)
