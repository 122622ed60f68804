"""Parameters by component, and the limits of a sensible size, for every part of a layer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from math import inf
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from archinfer.errors import InputError
from archinfer.models.shape import Cache
from archinfer.record import As

COMPONENTS = (
    "embedding", "attention", "indexer", "ssm", "dense_mlp", "experts", "shared", "latent",
    "router", "norm", "hyper", "ngram_table", "ngram_projection", "other", "lm_head",
)  # fmt: skip
"""Every component a count is broken into, in the order of printing."""

Component: TypeAlias = Annotated[str, As(Literal[COMPONENTS])]

OUTSIDE_COMPONENTS = frozenset({"embedding", "lm_head", "ngram_table"})
"""Tables that usually stay at 16 bits when the layers are stored in fewer."""

KEPT_COMPONENTS = OUTSIDE_COMPONENTS | {"norm", "router"}
"""What stays at 16 bits when the matrices of the layers are stored in fewer: the tables, routers,
and every vector (norms, biases, sinks), which counts as a norm here. The released files of
gpt-oss, DeepSeek-V3 and others are so; their quantisers convert the matrices of linear layers."""

STATE_BYTES = 4
"""Recurrent state is kept at 32 bits (`mamba_ssm_cache_dtype`, fla's recurrent kernels)."""

CONV_STATE_BYTES = 2
"""The convolution's last inputs are activations: 16 bits."""

MAX_WIDTH = 2**24
MAX_HEADS = 2**14
MAX_LAYERS = 10_000
MAX_VOCABULARY = 2**28
MAX_EXPERTS = 2**20
MAX_WINDOW = 2**40


@dataclass(frozen=True, slots=True)
class Piece:
    """`count` parameters of one component; `vector`: outside matrix products.

    `module` is the matrix's name inside its layer, as transformers' classes have it; files name
    what they quantise, or leave alone, by it.
    """

    component: str
    count: int
    vector: bool = False
    module: str = ""


def need(ok: bool, message: str) -> None:
    """Refuse with `message` where `ok` is false."""
    if not ok:
        raise InputError(message)


def size_within(what: str, value: object, high: int, low: int = 1) -> None:
    """Refuse what is no whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{what} must be a whole number, found {value!r}")
    if not low <= value <= high:
        raise InputError(f"{what} must be between {low} and {high}, found {value}")


_LIMITS = {"experts": MAX_EXPERTS, "zero_experts": MAX_EXPERTS, "top_k": MAX_WINDOW,
           "window": MAX_WINDOW, "ratio": MAX_WINDOW}  # fmt: skip
_WORDS = {("attention", "kv_heads"): "key-value heads", ("expert", "experts"): "experts",
          ("expert", "top_k"): "experts per token"}  # fmt: skip
_FROM_ZERO = {"zero_experts", "shared_width", "nope_dim", "rope_dim", "ratio"}


@cache
def _sizes(part: type[Any]) -> tuple[tuple[str, str, int, int, bool], ...]:
    """Name, words, bounds of each size of a part, and whether it may be absent."""
    found = []
    for one in fields(part):
        if one.type in ("int", "int | None"):
            name = one.name
            high = MAX_HEADS if name.endswith("heads") else _LIMITS.get(name, MAX_WIDTH)
            words = _WORDS.get((part.TITLE, name), f"{part.TITLE} {name}")
            found.append((name, words, high, int(name not in _FROM_ZERO), one.type != "int"))
    return tuple(found)


class Sized:
    """A part of a layer, whose sizes are whole numbers within what a model may have."""

    __slots__ = ()

    TITLE: ClassVar[str] = ""
    """What its sizes are called after."""

    DIVIDES: ClassVar[tuple[str, str] | None] = None
    """Two sizes of which the first must divide the second."""

    def __post_init__(self) -> None:
        part: Any = type(self)
        for name, words, high, low, absent in _sizes(part):
            value = getattr(self, name)
            if value is not None or not absent:
                size_within(words, value, high, low)
        if self.DIVIDES is not None:
            few, many = (getattr(self, name) for name in self.DIVIDES)
            words, of = (_WORDS.get((self.TITLE, n), n.replace("_", " ")) for n in self.DIVIDES)
            need(many % few == 0, f"{few} {words} do not divide {many} {of}")


class Mixer(Sized):
    """A mixer without the kinds of memory that it does not name itself."""

    __slots__ = ()

    KIND: ClassVar[str] = ""
    """What people call it, with its sizes."""

    SPLIT: ClassVar[str] = ""
    """The field whose heads or channels tensor parallelism shares; "": there is no state."""

    @property
    def kind(self) -> str:
        """What people call it."""
        return self.KIND.format(self)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces in order, the branch's own norm not included."""
        raise NotImplementedError

    def pieces(self, hidden: int) -> Iterable[Piece]:
        """Its parameters, where the residual stream is `hidden` wide."""
        raise NotImplementedError

    def caches(self) -> tuple[Cache, ...]:
        """Keys and values of one layer: none."""
        return ()

    def indexer_caches(self) -> tuple[Cache, ...]:
        """Keys of a sparse-attention indexer, where there is one."""
        indexer = getattr(self, "indexer", None)
        return () if indexer is None else tuple(indexer.caches())

    def state(self) -> tuple[int, int]:
        """Numbers of a sequence's recurrent state, and of inputs that a convolution keeps."""
        return 0, 0

    def state_bytes(self) -> int:
        """Recurrent and convolution state of a sequence."""
        recurrent, inputs = self.state()
        return recurrent * STATE_BYTES + inputs * CONV_STATE_BYTES

    @property
    def state_shards(self) -> float:
        """Ways in which tensor parallelism can split the state: by its heads or channels."""
        return float(getattr(self, self.SPLIT)) if self.SPLIT else inf
