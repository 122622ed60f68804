"""Names of a layer's matrices, and the patterns by which files name some of them.

Files name modules as their own classes do: `model.language_model.layers.3.self_attn.q_proj`,
`backbone.layers.3.mixer.q_proj`, `layers.3.attn.wq_a`; some name every layer, others give globs,
regular expressions or parts of names. A matrix here has one name, as `self_attn.q_proj`, and is
looked for under every name it is known by.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product

from archinfer.errors import InputError, shorten

_CONTAINERS = {
    "self_attn": ("self_attn", "self_attention", "attention", "attn", "mixer", "temporal_block"),
    "linear_attn": ("linear_attn",),
    "mamba": ("mamba", "mixer"),
    "conv": ("conv", "short_conv"),
    "block": ("", "moe"),
    "mlp": ("mlp", "feed_forward", "ffn", "block_sparse_moe", "mixer", "moe"),
}

_PARTS = {
    "shared_experts": ("shared_experts", "shared_expert", "shared_mlp", "share_expert"),
    "experts.0": ("experts.0", "experts"),
    "gate": ("gate", "router", "gate.wg", "router.proj"),
}

_MATRICES = {
    "q_proj": ("q_proj", "qkv_proj", "query_key_value", "Wqkv", "wq"),
    "k_proj": ("k_proj", "qkv_proj", "query_key_value", "Wqkv", "wk"),
    "v_proj": ("v_proj", "qkv_proj", "query_key_value", "Wqkv", "wv"),
    "o_proj": ("o_proj", "out_proj", "dense", "wo"),
    "q_a_proj": ("q_a_proj", "fused_qkv_a_proj"),
    "kv_a_proj_with_mqa": ("kv_a_proj_with_mqa", "fused_qkv_a_proj"),
    "gate_proj": ("gate_proj", "gate_up_proj", "w1", "linear_fc1"),
    "up_proj": ("up_proj", "gate_up_proj", "w3", "fc1", "linear_fc1"),
    "down_proj": ("down_proj", "w2", "fc2", "linear_fc2"),
    # Qwen3-Next's query projection makes the gate too; others have a matrix for it.
    "query_gate": ("gate_proj", "g_proj", "q_proj"),
    "in_proj_qkvz": ("in_proj_qkvz", "in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_ba", "in_proj_b", "in_proj_a"),
}

_OUTSIDE = {
    "embedding": ("model.embed_tokens", "model.embeddings", "embed", "model.wte"),
    "lm_head": ("lm_head", "model.lm_head", "head", "output", "embed_out"),
}

_PREFIX = re.compile(
    r"^(\^?)(?:thinker(?:\\?\.))?(?:language_model\\?\.model|model\\?\.language_model|"
    r"language_model|backbone|transformer|model\\?\.decoder|model\\?\.text_model)(\\?\.)"
)
"""What stands before a decoder's layers in classes that wrap it; all of it is `model.` here."""

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\\?\.(\d+)(?=\\?\.|$)")

_NESTED = re.compile(r"[+*}]\)[+*{]")
"""A repeated group that repeats inside: time without bound on some names."""


@lru_cache(maxsize=4096)
def names_of(module: str) -> tuple[str, ...]:
    """Every name a matrix of a layer is known by, from the layer on."""
    container, _, rest = module.partition(".")
    middle, _, last = rest.rpartition(".")
    parts = _PARTS.get(middle, (middle,)) if middle else ("",)
    # A whole part is named as one where a file means all of it: `mlp.experts`, `mlp.gate`.
    matrices = _MATRICES.get(last) or _PARTS.get(last) or (last,)
    found = product(_CONTAINERS.get(container, (container,)), parts, matrices)
    return tuple(dict.fromkeys(".".join(p for p in name if p) for name in found))


def outside_names(component: str) -> tuple[str, ...]:
    """Names of a matrix outside the layers."""
    return _OUTSIDE.get(component, (component,))


def _runs(name: str) -> Iterator[str]:
    """Every run of whole parts of a dotted name."""
    parts = name.split(".")
    for i in range(len(parts)):
        for j in range(i + 1, len(parts) + 1):
            yield ".".join(parts[i:j])


class _Pattern:
    """One regular expression, or a glob turned into one."""

    def __init__(self, text: str, where: str) -> None:
        self.whole = not text.startswith("re:") and not _is_regex(text)
        # A glob may begin at any part of a name.
        source = rf"(?:.*\.)?{fnmatch.translate(text)}" if self.whole else text.removeprefix("re:")
        if not self.whole and _NESTED.search(source):
            raise InputError(f"{where}: pattern {shorten(text)} nests repetitions; not read")
        try:
            self.found = re.compile(source)
        except re.error as error:
            raise InputError(f"{where}: pattern {shorten(text)} is no regular expression: "
                             f"{error}") from None  # fmt: skip
        anchored = self.whole or text.startswith("re:")
        self.matches = self.found.match if anchored else self.found.search


def _is_regex(text: str) -> bool:
    return text.startswith(".*") or bool(re.search(r"[\\^$()|+{]", text))


class Rules:
    """Which format a file gives to which modules: the first rule that names one counts.

    Args:
        rules: patterns and the name of their format (None: left alone), in order. A pattern is
            `re:` and a regular expression, a regular expression, a glob, or a whole run of parts
            of a name.
        where: what to call the list in messages.

    Raises:
        InputError: a pattern that cannot be used.
    """

    def __init__(self, rules: Iterable[tuple[Sequence[str], str | None]], where: str) -> None:
        self._exact: dict[str, tuple[int, str | None]] = {}
        self._patterns: dict[int | None, list[tuple[int, _Pattern, str | None]]] = {}
        self.formats: set[str] = set()
        for order, (texts, form) in enumerate(rules):
            self.formats |= {form} if form and texts else set()
            for text in texts:
                name = _PREFIX.sub(r"\1model\2", text.strip())
                if name.startswith("re:"):
                    name = "re:" + _PREFIX.sub(r"\1model\2", name[3:])
                if not name.startswith("re:") and not re.search(r"[*?\[\\^$()|+{]", name):
                    self._exact.setdefault(name.removesuffix(".weight"), (order, form))
                    continue
                layer = _LAYER.search(name)
                at = int(layer[1]) if layer and len(layer[1]) < 6 else None
                found = (order, _Pattern(name, where), form)
                self._patterns.setdefault(at, []).append(found)

    def __bool__(self) -> bool:
        return bool(self._exact or self._patterns)

    def find(self, names: Sequence[str], layer: int | None = None) -> tuple[bool, str | None]:
        """Whether a rule names this matrix, and the format it gives.

        Args:
            names: names of the matrix, from the layer on (or whole, outside the layers).
            layer: number of its layer, None outside the layers.
        """
        full = names if layer is None else [f"model.layers.{layer}.{n}" for n in names]
        best: tuple[int, str | None] | None = None
        for name in full if self._exact else ():
            for run in _runs(name):
                hit = self._exact.get(run)
                if hit is not None and (best is None or hit[0] < best[0]):
                    best = hit
        for at in (None, layer) if layer is not None else (None,):
            for order, pattern, form in self._patterns.get(at, ()):
                if best is not None and order >= best[0]:
                    continue
                if any(pattern.matches(name) for name in full):
                    best = (order, form)
        return (False, None) if best is None else (True, best[1])
