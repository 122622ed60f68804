"""How a model is served: nodes, mapping, context, users, number formats, speculation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from archinfer.asking import check_accepted
from archinfer.errors import InputError
from archinfer.hardware.figures import SoftwareFactor
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.models.formats import kv_format, weight_format
from archinfer.models.shape import Number
from archinfer.physics.mapping import Layout, Placement
from archinfer.physics.workload import Traffic

_LEAST = (
    ("nodes", 1),
    ("context_tokens", 1),
    ("concurrency", 1),
    ("prompt_tokens", 1),
    ("output_tokens", 1),
)


def usual_prompt(context_tokens: int, prompt_tokens: int | None, output_tokens: int) -> int:
    """Tokens of a user's prompt: what the context holds beside half an answer, if nobody says."""
    if prompt_tokens is not None:
        return prompt_tokens
    return max(context_tokens - output_tokens // 2, 1)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is asked of a model and the hardware under it.

    Attributes:
        nodes: nodes that are there (the mapping may leave some idle); None: the fewest that
            hold the model.
        context_tokens: tokens of context whose keys and values a decode step sees.
        concurrency: sequences served at once; each keeps its own KV cache.
        prompt_tokens, output_tokens: tokens of a user's prompt and of an answer; prompt None: what
            the context holds beside half an answer.
        weights: weight format (`archinfer.models.formats`); None: the format the model comes in.
        kv: KV-cache format; "": the one that the model's file states, else bf16.
        draft_tokens: drafted tokens that each pass verifies (0: no speculative decoding).
        accepted_low, accepted_high: range of the tokens gained per pass, net of drafting.
        law: what is known of a service's speculation; it then goes before the range, which tells
            what is usual.
        softwares: software that comes into question, each as likely as another; (): the usual
            one.
        mapping: a forced mapping; None: the fastest one that fits.
        layout: a forced mapping for any number of layers; `mapping` goes first.
    """

    nodes: int | None = None
    context_tokens: int = 8000
    concurrency: int = 1
    weights: str | None = None
    kv: str = ""
    draft_tokens: int = 0
    accepted_low: float = 1.0
    accepted_high: float = 1.0
    mapping: Placement | None = None
    layout: Layout | None = None
    prompt_tokens: int | None = None
    output_tokens: int = 1000
    law: SpeculationLaw | None = None
    softwares: tuple[SoftwareFactor, ...] = ()

    def __post_init__(self) -> None:
        for key, low in _LEAST:
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
        if self.kv:
            kv_format(self.kv)

    @property
    def prompt(self) -> int:
        """Tokens of a user's prompt."""
        return usual_prompt(self.context_tokens, self.prompt_tokens, self.output_tokens)

    def forced(self, layers: Number) -> Placement | None:
        """The mapping that is forced on a model with so many layers; None: the fastest."""
        if self.mapping is not None or self.layout is None:
            return self.mapping
        return self.layout.mapping(layers)

    @property
    def speculation(self) -> tuple[float, float]:
        """Range of the tokens gained a pass, net of drafting."""
        return self.accepted_low, self.accepted_high

    @property
    def by_law(self) -> bool:
        """whether what speculation gains follows the profile's fitted law, of whose services the
        range of tokens gained a pass then is"""
        return self.law is not None

    @property
    def software(self) -> tuple[str, ...]:
        """that comes into question, each as likely as another; empty: the usual one"""
        return tuple(s.name for s in self.softwares)

    @property
    def plain(self) -> Deployment:
        """The same without speculation."""
        return replace(self, law=None, accepted_low=1.0, accepted_high=1.0, draft_tokens=0)

    @property
    def kv_bits(self) -> float:
        """Bits of one stored key or value number."""
        return kv_format(self.kv or "bf16").bits

    def traffic(self, weights: str, outside_bits: float | None) -> Traffic:
        """What is asked of a pass.

        Args:
            weights: weight format.
            outside_bits: bits of embedding and head; None: as the weights.
        """
        form = weight_format(weights)
        return Traffic(
            context_tokens=self.context_tokens,
            concurrency=self.concurrency,
            weight_bits=form.bits,
            outside_bits=outside_bits,
            kv_bits=self.kv_bits,
            draft_tokens=self.draft_tokens,
            weights_only=form.weights_only,
            prompt_tokens=self.prompt,
            output_tokens=self.output_tokens,
        )

    def with_(self, **changes: Any) -> Deployment:
        """A copy with some fields changed."""
        return replace(self, **changes)
