"""How families of ordinary decoders differ from Llama."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from archinfer.models.tables import table


@dataclass(frozen=True)
class Style:
    """How a family of ordinary decoders differs from Llama.

    Attributes:
        qkv_bias, o_bias: a key that switches the bias, or a fixed answer.
        bias_default: what the keys are where a file leaves them out.
        o_bias_default, mlp_bias_default: the same for those keys alone (None: bias_default).
        qk_norm: kind of q/k norm, and the key that switches it ("": always).
        norms_before, norms_after, norm_vectors: norms of each branch; the key that switches one
            after it.
        parallel: attention and feed-forward side by side under one norm, and the key that says so;
            own_norms: each under its own.
        head_bias, vocab: a key that switches a bias of the head; the key of its rows.
        shared_width: keys that hold the width of all shared experts together.
        matrices: matrices of a feed-forward.
        mlp_bias: key of its biases, or a fixed answer.
        expert_width: experts are as wide as `intermediate_size` says.
        shared_gate: the shared expert has a one-row gate.
        tied: the head is tied where the file does not say.
        window: which layers are windowed where `layer_types` does not say: "none", "all",
            "switched" (only with use_sliding_window), or every layer but each n-th ("every").
        window_default, window_every: class defaults of `sliding_window` and n.
        gate: output gate of the attention.
        sinks: attention sinks.
        whole_heads: all heads together are as wide as the hidden size.
        defaults: class defaults of keys that released files are known to leave out.
        decoys: keys that the family's code does not use.
        only: keys that the family's code is known with one value of; another is refused.
    """

    qkv_bias: str | bool = False
    o_bias: str | bool = False
    bias_default: bool = False
    o_bias_default: bool | None = None
    mlp_bias_default: bool | None = None
    qk_norm: Literal["none", "head", "projection", "unweighted"] = "none"
    qk_norm_key: str = ""
    qk_norm_default: bool = True
    norms_before: int = 1
    norms_after: int = 0
    norms_after_key: str = ""
    norm_vectors: int = 1
    final_norm_vectors: int | None = None
    parallel: bool = False
    parallel_key: str = ""
    own_norms: bool = False
    head_bias: str = ""
    vocab: str = "vocab_size"
    shared_width: tuple[str, ...] = ()
    matrices: int = 3
    mlp_bias: str | bool = False
    expert_width: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False
    tied: bool = False
    window: Literal["none", "all", "switched", "every"] = "none"
    window_default: int | None = None
    window_every: int = 0
    gate: Literal["none", "full", "head"] = "none"
    sinks: bool = False
    whole_heads: bool = False
    defaults: dict[str, int] = field(default_factory=dict)
    decoys: tuple[str, ...] = ()
    only: dict[str, Any] = field(default_factory=dict)


def _families(name: str) -> dict[str, Any]:
    """families.json: what the families' modelling code does, a row each."""
    found: dict[str, Any] = table("readers/families.json", name)
    return found


@cache
def styles() -> dict[str, Style]:
    """Styles by `model_type`."""

    def style(row: dict[str, Any]) -> Style:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        return Style(**fields)

    return {name: style(row) for name, row in _families("styles").items()}


def same_as() -> dict[str, str]:
    """Model types that read like another, and which."""
    return dict(_families("same_as"))


def family_of_class(name: object) -> str | None:
    """The family of a class, for files without a usable `model_type`."""
    return _families("classes").get(name) if isinstance(name, str) else None
