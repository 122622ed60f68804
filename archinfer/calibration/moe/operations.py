"""The operations of a decoder, each a function on arrays. Letters in shapes:

B sequences      T new tokens of each    N = B * T tokens in this pass
S tokens in the cache, the new ones included
H hidden size    Q query heads    K key-value heads    G = Q / K    D head size
E experts        k experts per token    M width of an expert    V vocabulary
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from archinfer.calibration.moe.config import MoEConfig
from archinfer.calibration.moe.weights import Array


def rms_norm(x: Array, weight: Array, eps: float, out: Array) -> None:
    """out = x / sqrt(mean(x^2) + eps) * weight over the last dimension (Zhang, Sennrich 2019)."""
    if len(x) == 1 and x.ndim == 2:  # of one token a number, with fewer calls
        row = x[0]
        np.multiply(x, weight, out=out)
        out *= 1.0 / math.sqrt(float(row.dot(row)) / len(row) + eps)
        return
    scale = np.matmul(x[..., None, :], x[..., :, None])[..., 0]  # (..., 1)
    scale *= 1.0 / x.shape[-1]
    scale += eps
    np.sqrt(scale, out=scale)
    np.divide(x, scale, out=out)
    out *= weight


def rotary_tables(config: MoEConfig, tokens: int) -> tuple[Array, Array]:
    """Cosine and signed sine of position * theta^(-2 i / D), each (tokens, 2, D / 2) (Su et al.
    2021): for the first half of a head, minus the sine, and for the second.
    """
    half = config.head_dim // 2
    frequency = config.rope_theta ** (-np.arange(half) / half)  # (D / 2)
    angle = np.arange(tokens)[:, None] * frequency  # (tokens, D / 2)
    cos, sin = np.cos(angle), np.sin(angle)
    return (
        np.stack([cos, cos], axis=1).astype(np.float32),
        np.stack([-sin, sin], axis=1).astype(np.float32),
    )


def rotate(heads: Array, cos: Array, sin: Array, out: Array) -> None:
    """out = each pair (i, i + D/2) of every head, turned by its position's angle.

    Args:
        heads: (B, T, heads, 2, D / 2), overwritten.
        cos, sin: (T, 1, 2, D / 2), of `rotary_tables`.
        out: as `heads`.
    """
    np.multiply(heads[..., ::-1, :], sin, out=out)
    heads *= cos
    out += heads


def softmax(x: Array) -> None:
    """Softmax over the last dimension, in place: a maximum, then a sum."""
    x -= np.maximum.reduce(x, axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= np.add.reduce(x, axis=-1, keepdims=True)


def attend(
    query: Array, keys: Array, values: Array, mask: Array, scores: Array, out: Array
) -> None:
    """Causal attention of T new tokens over S cached ones, the new ones last.

    Args:
        query: (B, K, G * T, D), already divided by sqrt(D); row g * T + t is token t.
        keys: (B, K, D, S), so that BLAS reads long rows of them.
        values: (B, K, S, D).
        mask: (T, T), minus infinity where a token would see a later one.
        scores: (B, K, G * T, S), overwritten.
        out: (B, K, G * T, D).
    """
    batch, groups, _, cached = scores.shape
    new = len(mask)
    np.matmul(query, keys, out=scores)
    if new > 1:
        by_token = scores.reshape(batch, groups, -1, new, cached)
        by_token[..., cached - new :] += mask
    softmax(scores)
    np.matmul(scores, values, out=out)


def swiglu(gate_up: Array, out: Array) -> None:
    """out = silu(gate) * up (Shazeer 2020). gate_up: (N, 2 M), overwritten; out: (N, M).

    silu(g) = g / (1 + exp(-g)) = g/2 (1 + tanh(g/2)), which cannot overflow.
    """
    width = out.shape[1]
    gate, up = gate_up[:, :width], gate_up[:, width:]
    gate *= 0.5
    np.tanh(gate, out=out)
    out += 1.0
    out *= gate
    out *= up


def route(scores: Array, bias: Array, config: MoEConfig) -> tuple[NDArray[np.intp], Array]:
    """The k experts of each token and their weights.

    Args:
        scores: router logits (N, E), overwritten.
        bias: (E) added for the selection only, with sigmoid scoring.

    Returns:
        Experts (N, k), in no particular order, and their weights (N, k).
    """
    c = config
    if c.scoring == "softmax":
        choice = scores  # a softmax keeps their order
    else:
        scores *= 0.5
        np.tanh(scores, out=scores)
        scores += 1.0
        scores *= 0.5  # sigmoid(z) = (1 + tanh(z / 2)) / 2
        choice = scores + bias
    if c.groups_per_token < c.expert_groups:
        choice = _keep_best_groups(choice, c)
    dropped = c.experts - c.experts_per_token
    experts = np.argsort(choice, axis=1, kind="stable")[:, dropped:]
    if c.scoring == "softmax" and not c.norm_topk_prob:
        softmax(scores)
    weights = scores[np.arange(len(scores))[:, None], experts]
    if c.norm_topk_prob and c.scoring == "softmax":
        softmax(weights)  # over the chosen ones: as that over all, divided by their sum
    elif c.norm_topk_prob:
        weights /= np.add.reduce(weights, axis=1, keepdims=True)
    if c.routed_scaling_factor != 1.0:
        weights *= c.routed_scaling_factor
    return experts, weights


def _keep_best_groups(choice: Array, config: MoEConfig) -> Array:
    """Scores (N, E) with minus infinity outside the best groups of each token.

    A group is worth its best expert (softmax, DeepSeek-V2) or its best two (sigmoid, V3).
    """
    groups, kept = config.expert_groups, config.groups_per_token
    grouped = choice.reshape(len(choice), groups, -1)  # (N, groups, E / groups)
    if config.scoring == "softmax":
        worth = grouped.max(axis=2)
    else:
        worth = np.sort(grouped, axis=2)[..., -2:].sum(axis=2)
    dropped = np.argpartition(worth, groups - kept, axis=1)[:, : groups - kept]
    limited = grouped.copy()
    np.put_along_axis(limited, dropped[:, :, None], -np.inf, axis=1)
    return limited.reshape(choice.shape)
