"""Speculative decoding: what drafted tokens gain, less what drafting and verifying them cost.

    seconds per token = (T(g) + g t_draft) / n(g),   n(g) = (1 - a^(g+1)) / (1 - a)

T(g) is a pass that verifies g drafted tokens beside its own: it reads every expert that any of
the 1 + g tokens uses, so mixtures of experts pay more for it than dense models. a is the chance
that a drafted token is accepted, t_draft the time to draft one. The service is taken to draft as
many tokens as is best (Leviathan, Kalman, Matias, "Fast Inference from Transformers via
Speculative Decoding", ICML 2023, equation 1 and theorem 3.8): a fast, small model gains little,
because its drafts take nearly as long as its own tokens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from archinfer.asking import DRAFTS_MOST
from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.decode import decode_time
from archinfer.physics.mapping import Placement
from archinfer.physics.workload import Workload

DRAFTS = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, DRAFTS_MOST])
"""Numbers of drafted tokens that a service chooses from."""


def tokens_per_pass(acceptance: Number, draft_tokens: Number) -> Number:
    """Mean tokens gained by a pass that verifies `draft_tokens`: (1 - a^(g+1)) / (1 - a)."""
    a = np.minimum(np.asarray(acceptance, dtype=float), 1.0 - 1e-9)
    return np.asarray((1.0 - a ** (np.asarray(draft_tokens) + 1.0)) / (1.0 - a))


def speculative_time(
    hardware: Hardware,
    workload: Workload,
    mapping: Placement,
    acceptance: Number,
    draft_time_s: Number,
    side: Number | None = None,
) -> FloatArray:
    """Seconds per output token of one user with the best number of drafted tokens.

    Args:
        hardware, mapping, acceptance, draft_time_s: numbers, or arrays that broadcast together
            and whose last axis has length 1 (the number of drafts is laid along it).
        workload: as `decode.decode_time`; its `draft_tokens` are not looked at.
        side: as `decode.decode_time`.

    Returns:
        The broadcast shape without that last axis.
    """
    return best_drafts(hardware, workload, mapping, acceptance, draft_time_s, side)[0]


def best_drafts(
    hardware: Hardware,
    workload: Workload,
    mapping: Placement,
    acceptance: Number,
    draft_time_s: Number,
    side: Number | None = None,
) -> tuple[FloatArray, FloatArray]:
    """`speculative_time`, and the number of drafted tokens that gives it."""
    drafting = replace(workload.traffic, draft_tokens=DRAFTS)
    time = decode_time(hardware, replace(workload, traffic=drafting), mapping, side)
    # The cost model's own price of a draft gives way to the one asked for.
    return best_of_drafts(time.total - time.draft, acceptance, draft_time_s)


def best_of_drafts(
    verify_s: Number, acceptance: Number, draft_time_s: Number
) -> tuple[FloatArray, FloatArray]:
    """As `best_drafts`; seconds of passes with each of `DRAFTS` lie along the last axis."""
    each = np.asarray((verify_s + DRAFTS * draft_time_s) / tokens_per_pass(acceptance, DRAFTS))
    best = np.asarray(each.argmin(axis=-1))
    return np.take_along_axis(each, best[..., None], -1)[..., 0], DRAFTS[best]
