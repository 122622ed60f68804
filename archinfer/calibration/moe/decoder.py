"""The forward pass of a Mixture-of-Experts decoder, from token numbers to logits.

Read it from top to bottom, `operations` beside it: the decoder owns the buffers and strings the
operations together. Letters in shapes are those of `operations`. Every operation tells `count`
what it moved and computed; `count` is None when nobody asks.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archinfer.calibration.moe.counters import Counters
from archinfer.calibration.moe.linear import linear
from archinfer.calibration.moe.operations import (
    attend,
    rms_norm,
    rotary_tables,
    rotate,
    route,
    swiglu,
)
from archinfer.calibration.moe.weights import Array, Layer, Weights
from archinfer.errors import InputError

PASS_TOKENS = 64
"""Tokens of one pass during prefill: enough to keep matrix products busy, few enough that the
attention scores of a long prompt need little memory."""


class Decoder:
    """A model at work on B sequences of equal length: weights, KV cache and buffers.

    All memory is allocated here, once. Several decoders may share one `Weights`.

    Args:
        weights: the model.
        batch: sequences B.
        max_tokens: room in the KV cache for each sequence.
        pass_tokens: most tokens, over all sequences, that go through the layers at once.

    Attributes:
        position: tokens in the cache of each sequence.
        logits: of the last pass (B, V); overwritten by the next.
    """

    def __init__(
        self,
        weights: Weights,
        batch: int = 1,
        max_tokens: int = 1024,
        pass_tokens: int = PASS_TOKENS,
    ) -> None:
        for name, value in (("batch", batch), ("max_tokens", max_tokens)):
            if value < 1:
                raise InputError(f"decoder: {name} must be at least 1, not {value}")
        c = weights.config
        self.weights, self.config = weights, c
        self.batch, self.max_tokens = batch, max_tokens
        self.chunk = min(max(pass_tokens // batch, 1), max_tokens)
        self.position = 0
        n = batch * self.chunk
        q_width, kv_width = c.heads * c.head_dim, c.kv_heads * c.head_dim
        shared = c.shared_experts * c.moe_intermediate_size if c.moe_layers else 0
        dense = c.intermediate_size if c.dense_layers else 0
        width = max(shared, dense)
        expert = c.moe_intermediate_size if c.moe_layers else 0
        widest = max(q_width + 2 * kv_width, 2 * width, 2 * expert, c.hidden_size, c.experts)

        def new(*shape: int) -> Array:
            return np.empty(shape, dtype=np.float32)

        self.keys = [new(batch, c.kv_heads, c.head_dim, max_tokens) for _ in range(c.layers)]
        self.values = [new(batch, c.kv_heads, max_tokens, c.head_dim) for _ in range(c.layers)]
        cos, sin = rotary_tables(c, max_tokens)
        self.cos, self.sin = cos[:, None], sin[:, None]  # (max_tokens, 1, 2, D / 2)
        self.mask = np.triu(np.full((self.chunk, self.chunk), -np.inf, np.float32), k=1)
        self.head_norms = [  # of all queries, then all keys (Q + K, D): one operation for both
            np.repeat([layer.query_norm, layer.key_norm], [c.heads, c.kv_heads], axis=0)
            for layer in weights.layers
        ]
        self.x = new(n, c.hidden_size)  # the residual stream
        self.normed = new(n, c.hidden_size)
        self.qkv = new(n, q_width + 2 * kv_width)
        self.turned = new(n, q_width + kv_width)
        self.query = new(n, q_width)
        self.scores = new(c.heads * n * max_tokens)
        self.context = new(n * q_width)  # what attention gathered
        self.merged = new(n, q_width)  # the same, heads side by side
        self.update = new(n, c.hidden_size)  # what a block adds to the residual stream
        self.gate_up = new(n * 2 * width)
        self.inner = new(n * width)
        self.router_scores = new(n, c.experts)
        slots = n * c.experts_per_token if c.moe_layers else 0
        self.expert_in = new(slots, c.hidden_size)
        self.expert_gate_up = new(slots, 2 * expert)
        self.expert_inner = new(slots, expert)
        self.expert_out = new(slots, c.hidden_size)
        self.shared_out = new(n if shared else 0, c.hidden_size)
        self.last = new(batch, c.hidden_size)
        self.logits = new(batch, c.vocab_size)
        self.scratch = new(max(n * widest, batch * c.vocab_size))

    # Three ways in: a prompt, one more token, or both with the choice of tokens in between.

    def prefill(self, prompt: ArrayLike, count: Counters | None = None) -> Array:
        """Read a prompt (B, T), several tokens at a time; logits (B, V) after its last token."""
        tokens = np.asarray(prompt)
        if tokens.ndim != 2 or tokens.shape[0] != self.batch or tokens.shape[1] < 1:
            raise InputError(
                f"decoder: expected a prompt of shape ({self.batch}, tokens), got {tokens.shape}"
            )
        last = self.x
        for at in range(0, tokens.shape[1], self.chunk):
            last = self._layers(tokens[:, at : at + self.chunk], count)
        return self._head(last, count)

    def decode(self, tokens: ArrayLike, count: Counters | None = None) -> Array:
        """Read one more token of each sequence (B); logits (B, V) for the next."""
        new = np.asarray(tokens)
        if new.size != self.batch:
            raise InputError(f"decoder: expected {self.batch} tokens, got {new.size}")
        return self._head(self._layers(new.reshape(self.batch, 1), count), count)

    def greedy(
        self, prompt: ArrayLike, tokens: int, count: Counters | None = None
    ) -> NDArray[np.intp]:
        """The `tokens` likeliest tokens, one after the other, after a prompt: (B, tokens)."""
        chosen = np.empty((self.batch, tokens), dtype=np.intp)
        logits = self.prefill(prompt, count)
        for at in range(tokens):
            if at:
                logits = self.decode(chosen[:, at - 1], count)
            chosen[:, at] = np.argmax(logits, axis=1)
            if count is not None:
                count.operation("choice", chosen, (logits,), reductions=1)
                count.end_head(chosen)
        return chosen

    def reset(self) -> None:
        """Forget all sequences."""
        self.position = 0

    def pretend(self, tokens: int, seed: int = 0) -> None:
        """Fill the cache with noise as if `tokens` tokens had been read: for timing only."""
        if not 0 <= tokens <= self.max_tokens:
            raise InputError(f"decoder: {tokens} tokens do not fit in a cache of {self.max_tokens}")
        rng = np.random.Generator(np.random.SFC64(seed))
        for cache in (*self.keys, *self.values):
            rng.random(out=cache, dtype=np.float32)
            cache -= 0.5
        self.position = tokens

    # T new tokens of every sequence go through all layers.

    def _layers(self, tokens: NDArray[np.integer], count: Counters | None) -> Array:
        """Embed the tokens (B, T) and run the layers; the last token's residual stream (B, H)."""
        self._check(tokens)
        new = tokens.shape[1]
        x = self.x[: tokens.size]  # (N, H)
        if count is not None:
            count.start_pass(tokens.size)
        np.take(self.weights.embedding, tokens.reshape(-1), axis=0, out=x, mode="clip")
        if count is not None:
            count.operation("embedding", x, (), weight_bytes=x.nbytes)
        for number, layer in enumerate(self.weights.layers):
            if count is not None:
                count.start_chain()
            self._attention(number, x, new, count)
            normed = self._norm("norm", x, layer.mlp_norm, self.normed[: len(x)], count)
            update = self.update[: len(x)]
            if self.config.is_moe(number):
                self._moe(layer, normed, update, count)
            else:
                self._mlp("mlp", layer, normed, update, count)
            x += update
            if count is not None:
                count.elementwise(x, x, update)
                count.end_layer(x)
        self.position += new
        return x.reshape(self.batch, new, -1)[:, -1]

    def _check(self, tokens: NDArray[np.integer]) -> None:
        if tokens.dtype.kind not in "iu" or tokens.min() < 0:
            raise InputError("decoder: tokens must be integers from 0")
        if tokens.max() >= self.config.vocab_size:
            raise InputError(
                f"decoder: token {tokens.max()} is outside the vocabulary of "
                f"{self.config.vocab_size}"
            )
        if self.position + tokens.shape[1] > self.max_tokens:
            raise InputError(
                f"decoder: the cache holds {self.max_tokens} tokens; "
                f"{self.position} + {tokens.shape[1]} do not fit"
            )

    def _attention(self, number: int, x: Array, new: int, count: Counters | None) -> None:
        """x += attention(norm(x)), with the cache of this layer; x: (N, H)."""
        c, layer = self.config, self.weights.layers[number]
        n, cached = len(x), self.position + new
        keys, values = self.keys[number][..., :cached], self.values[number][:, :, :cached]
        normed = self._norm("norm", x, layer.attention_norm, self.normed[:n], count)
        qkv = self._linear("qkv", normed, layer.qkv, self.qkv[:n], count)
        unscaled = self._cached(number, qkv, new, count)  # queries (B, Q, T, D)
        query = self.query.reshape(-1)[: unscaled.size].reshape(
            self.batch, c.kv_heads, c.heads // c.kv_heads * new, c.head_dim
        )
        np.multiply(unscaled, c.head_dim**-0.5, out=query.reshape(unscaled.shape))
        scores = self.scores[: c.heads * n * cached].reshape(*query.shape[:-1], cached)
        context = self.context[: query.size].reshape(query.shape)
        attend(query, keys, values, self.mask[:new, :new], scores, context)
        if count is not None:
            flops = 2 * scores.size * c.head_dim
            read = self.batch * c.kv_heads * cached * c.head_dim * keys.itemsize
            count.elementwise(query, qkv)
            count.operation("scores", scores, (query, keys), 1, flops=flops, kv_read_bytes=read)
            count.operation("softmax", scores, (scores,), reductions=2)
            count.operation(
                "context", context, (scores, values), 1, flops=flops, kv_read_bytes=read
            )
        merged = context.reshape(n, -1)  # (N, Q * D): heads side by side
        if new > 1:
            merged = self.merged[:n]
            merged.reshape(self.batch, new, c.heads, c.head_dim)[...] = context.reshape(
                self.batch, c.heads, new, c.head_dim
            ).transpose(0, 2, 1, 3)
        if count is not None:
            count.elementwise(merged, context)
        update = self._linear("output", merged, layer.output, self.update[:n], count)
        x += update
        if count is not None:
            count.elementwise(x, x, update)

    def _cached(self, number: int, qkv: Array, new: int, count: Counters | None) -> Array:
        """Turn queries and keys by their positions and put keys and values into the cache.

        Args:
            qkv: (N, (Q + 2 K) D).

        Returns:
            Queries (B, Q, T, D).
        """
        c, n, start = self.config, len(qkv), self.position
        keys, values = self.keys[number], self.values[number]
        heads = qkv.reshape(self.batch, new, c.heads + 2 * c.kv_heads, c.head_dim)
        unturned = heads[:, :, : c.heads + c.kv_heads]  # queries and keys (B, T, Q + K, D)
        turned = self.turned[:n].reshape(unturned.shape)
        if c.qk_norm:
            rms_norm(unturned, self.head_norms[number], c.rms_norm_eps, turned)
            unturned, turned = turned, unturned
            if count is not None:
                layer = self.weights.layers[number]
                read = layer.query_norm.nbytes + layer.key_norm.nbytes
                count.operation("qk_norm", qkv, (qkv,), reductions=1, weight_bytes=read)
        halves = (*unturned.shape[:-1], 2, c.head_dim // 2)
        cos, sin = self.cos[start : start + new], self.sin[start : start + new]
        rotate(unturned.reshape(halves), cos, sin, turned.reshape(halves))
        by_head = turned.transpose(0, 2, 1, 3)  # (B, Q + K, T, D)
        keys[..., start : start + new] = by_head[:, c.heads :].swapaxes(-1, -2)  # (B, K, D, T)
        values[:, :, start : start + new] = heads[:, :, c.heads + c.kv_heads :].transpose(
            0, 2, 1, 3
        )
        if count is not None:
            written = n * c.kv_heads * c.head_dim * keys.itemsize
            count.operation("cache", keys, (qkv,), kv_write_bytes=written)
            count.operation("cache", values, (qkv,), kv_write_bytes=written)
        return by_head[:, : c.heads]

    def _mlp(self, kind: str, layer: Layer, x: Array, out: Array, count: Counters | None) -> None:
        """out = down(silu(gate(x)) * up(x)): a dense layer's block, or the shared experts."""
        n, width = len(x), layer.down.shape[1]
        gate_up = self.gate_up[: n * 2 * width].reshape(n, 2 * width)
        inner = self.inner[: n * width].reshape(n, width)
        self._linear(kind, x, layer.gate_up, gate_up, count)
        swiglu(gate_up, inner)
        if count is not None:
            count.elementwise(inner, gate_up)
        self._linear(kind, inner, layer.down, out, count)

    def _moe(self, layer: Layer, x: Array, out: Array, count: Counters | None) -> None:
        """out = weighted sum of each token's routed experts + shared experts; x: (N, H)."""
        c = self.config
        scores = self._linear("router", x, layer.router, self.router_scores[: len(x)], count)
        experts, weights = route(scores, layer.router_bias, c)  # (N, k) each
        if count is not None:
            count.operation("route", weights, (scores,), reductions=1)

        # A slot is a token at one of its experts; slots of the same expert stand together.
        slots = experts.size  # N * k
        slotted = self.expert_in[:slots]  # (N * k, H)
        if len(x) == 1:  # every slot an expert of its own
            by_expert = None
            parts = [(e, slice(at, at + 1)) for at, e in enumerate(experts[0].tolist())]
            slotted[...] = x
        else:
            by_expert = np.argsort(experts, axis=None, kind="stable")  # (N * k)
            parts = _same(experts.reshape(-1)[by_expert].tolist())
            np.take(x, by_expert // c.experts_per_token, axis=0, out=slotted, mode="clip")
        if count is not None:
            count.experts_hit.append(len(parts))
            count.expert_calls += len(parts)
            count.operation("dispatch", slotted, (x, weights), dispatch_bytes=slotted.nbytes)

        # Each chosen expert once, for all of its tokens.
        gate_up, inner = self.expert_gate_up[:slots], self.expert_inner[:slots]
        result = self.expert_out[:slots]  # (N * k, H)
        for expert, part in parts:
            weight = layer.expert_gate_up[expert]  # (2 M, H)
            self._linear("experts", slotted[part], weight, gate_up[part], count)
        swiglu(gate_up, inner)
        if count is not None:
            count.elementwise(inner, gate_up)
        for expert, part in parts:
            weight = layer.expert_down[expert]  # (H, M)
            self._linear("experts", inner[part], weight, result[part], count)

        # Back to the order of the tokens, and added up over the experts of each.
        if by_expert is None:
            np.dot(weights, result, out=out)
        else:
            result *= weights.reshape(-1, 1)[by_expert]
            slotted[by_expert] = result
            np.add.reduce(slotted.reshape(len(x), -1, c.hidden_size), axis=1, out=out)
        if count is not None:
            count.operation("combine", out, (result, weights), dispatch_bytes=result.nbytes)

        if c.shared_experts:
            shared = self.shared_out[: len(x)]
            self._mlp("shared_experts", layer, x, shared, count)
            out += shared
            if count is not None:
                count.elementwise(out, out, shared)

    def _head(self, last: Array, count: Counters | None) -> Array:
        """Logits (B, V) of the residual stream of each sequence's last token (B, H)."""
        if count is not None:
            count.start_chain()
        normed = self._norm("norm", last, self.weights.final_norm, self.last, count)
        self._linear("head", normed, self.weights.head, self.logits, count)
        if count is not None:
            count.end_head(self.logits)
        return self.logits

    def _norm(
        self, kind: str, x: Array, weight: Array, out: Array, count: Counters | None
    ) -> Array:
        rms_norm(x, weight, self.config.rms_norm_eps, out)
        if count is not None:
            count.operation(kind, out, (x,), reductions=1, weight_bytes=weight.nbytes)
        return out

    def _linear(
        self, kind: str, x: Array, weight: Array, out: Array, count: Counters | None
    ) -> Array:
        linear(x, weight, out, self.scratch)
        if count is not None:
            count.product(kind, out, (x,), weight, tokens=len(x))
        return out


def _same(experts: list[int]) -> list[tuple[int, slice]]:
    """Each expert of a sorted list, and its places."""
    parts, at = [], 0
    for expert, same in itertools.groupby(experts):
        end = at + len(list(same))
        parts.append((expert, slice(at, end)))
        at = end
    return parts
