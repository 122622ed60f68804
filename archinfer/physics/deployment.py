"""How a model is served: nodes, mapping, context, users, number formats, speculation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from archinfer.errors import InputError
from archinfer.models.formats import kv_format, weight_format
from archinfer.models.shape import Number
from archinfer.physics.mapping import Layout, Placement

DRAFTS_MOST = 16
"""Most tokens that a service is taken to draft for one pass."""

ACCEPTED_MOST = 1.0 + DRAFTS_MOST
"""Tokens gained by a pass whose drafts are all accepted, its own token beside them."""


def check_accepted(low: float, high: float, drafts: int = 0) -> None:
    """Refuse tokens a pass that no decoding gains.

    A pass yields its own token at least, also net of drafting: a service whose drafts cost more
    than they gain drafts none. At most every drafted token is accepted beside it.

    Args:
        low, high: ends of the range.
        drafts: tokens drafted for each pass; 0: unknown, at most `DRAFTS_MOST`.

    Raises:
        InputError: below 1, more than the drafts can give, or low above high.
    """
    drafted = drafts or DRAFTS_MOST
    if not 1.0 <= low <= high <= 1 + drafted:
        found = f"{low:g}" if low == high else f"{low:g}:{high:g}"
        plural = "" if drafted == 1 else "s"
        raise InputError(
            "speculation: expected accepted tokens a pass from 1 (nothing drafted) to "
            f"{1 + drafted} ({drafted} draft{plural} and the pass's own), found {found}"
        )


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is asked of a model and the hardware under it.

    Attributes:
        nodes: nodes that are there (the mapping may leave some idle); None: the fewest that
            hold the model.
        context_tokens: tokens of context whose keys and values a decode step sees.
        concurrency: sequences served at once; each keeps its own KV cache.
        weights: weight format (`archinfer.models.formats`); None: the format the model comes in.
        kv: KV-cache format.
        draft_tokens: drafted tokens that each pass verifies (0: no speculative decoding).
        accepted_low, accepted_high: range of the tokens gained per pass, net of drafting.
        mapping: a forced mapping; None: the fastest one that fits.
        layout: a forced mapping for any number of layers; `mapping` goes first.
    """

    nodes: int | None = None
    context_tokens: int = 8000
    concurrency: int = 1
    weights: str | None = None
    kv: str = "bf16"
    draft_tokens: int = 0
    accepted_low: float = 1.0
    accepted_high: float = 1.0
    mapping: Placement | None = None
    layout: Layout | None = None

    def __post_init__(self) -> None:
        for key, low in (("nodes", 1), ("context_tokens", 1), ("concurrency", 1)):
            value = getattr(self, key)
            if value is None:
                continue
            if not value >= low or value != int(value):
                raise InputError(f"{key} must be a whole number of at least {low}, found {value}")
        if self.draft_tokens < 0:
            raise InputError(f"draft_tokens must not be negative, found {self.draft_tokens}")
        check_accepted(self.accepted_low, self.accepted_high, self.draft_tokens)
        if self.weights is not None:
            weight_format(self.weights)
        kv_format(self.kv)

    def forced(self, layers: Number) -> Placement | None:
        """The mapping that is forced on a model with so many layers; None: the fastest."""
        if self.mapping is not None or self.layout is None:
            return self.mapping
        return self.layout.mapping(layers)

    @property
    def kv_bits(self) -> float:
        """Bits of one stored key or value number."""
        return kv_format(self.kv).bits

    def with_(self, **changes: Any) -> Deployment:
        """A copy with some fields changed."""
        return replace(self, **changes)
