"""In which formats a checkpoint's weights are: by component, and by matrix where they differ.

A component (attention, routed experts, embedding, ...) has one format; a layer names those of its
matrices that have another. Vectors (norms, biases, sinks) are kept as norms are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from archinfer.models.formats import WeightFormat, weight_format
from archinfer.models.layers.block import LayerBlock
from archinfer.models.layers.pieces import COMPONENTS, KEPT_COMPONENTS, Piece
from archinfer.models.modules import names_of, outside_names
from archinfer.models.quantmethods import Recipe
from archinfer.models.shape import LayerGroup


@dataclass(frozen=True, slots=True)
class Storage:
    """The formats of a checkpoint."""

    main: str = "bf16"
    """Format of most of what is quantised; the dtype's where nothing is."""
    components: tuple[tuple[str, str], ...] = ()
    """Components in another format, and its name."""
    kv: str | None = None
    """Format of the KV cache that the file states."""
    refused: str = ""
    """Why the formats are not known."""
    tensor_bytes: float | None = None
    """Bytes of all tensors as the checkpoint's own headers or index state them."""

    def formats(self) -> dict[str, str]:
        """The format of every component."""
        return dict.fromkeys(COMPONENTS, self.main) | dict(self.components)


@dataclass(frozen=True, slots=True)
class Bits:
    """Bits of each stored number of a model."""

    formats: Mapping[str, str]
    """Format by component."""
    exceptions: bool = False
    """Whether what the layers say of single matrices counts."""
    set_apart: frozenset[str] = frozenset()
    """Components whose format somebody chose, whatever the file says."""
    main: str = "bf16"
    """What a deployment takes for the format of everything that says nothing."""
    by_component: Mapping[str, float] = field(init=False)

    def __post_init__(self) -> None:
        bits = {c: weight_format(f).bits for c, f in self.formats.items()}
        object.__setattr__(self, "by_component", bits)

    def format_of(self, piece: Piece, block: LayerBlock | None = None) -> str:
        """The format of one matrix, or of the vectors of a component."""
        if self.exceptions and block is not None and piece.component not in self.set_apart:
            for module, name in block.stored:
                if module == piece.module:
                    return name
        return self.formats[piece.component]

    def of(self, piece: Piece, block: LayerBlock | None = None) -> float:
        """Bits of one parameter; a vector has at least the bits of a norm."""
        if piece.vector:
            return max(self.by_component[piece.component], self.by_component["norm"])
        return weight_format(self.format_of(piece, block)).bits


def wide(name: str) -> str:
    """A format of at least 16 bits: what is not quantised has them."""
    return name if weight_format(name).bits >= 16.0 else "bf16"


def chosen_bits(stored: Storage, chosen: WeightFormat | None) -> Bits:
    """The bits of a model in a format that somebody chose, or (None) in the file's own.

    A format of fewer than 16 bits leaves `KEPT_COMPONENTS` at 16 bits, unless it is the file's
    own and the file says otherwise, or `chosen` names them.
    """
    if chosen is None or weight_format(chosen.name.split(",")[0]).name == stored.main:
        formats, own = stored.formats(), True
    else:
        first = chosen.name.split(",")[0]
        formats = dict.fromkeys(COMPONENTS, first) | dict.fromkeys(KEPT_COMPONENTS, wide(first))
        own = False
    apart = dict(chosen.components) if chosen is not None else {}
    main = stored.main if own else chosen.name.split(",")[0] if chosen else ""
    return Bits(formats | apart, own, frozenset(apart), main)


def store(
    recipe: Recipe, layers: Sequence[LayerBlock], hidden: int, outside: Iterable[str], tied: bool
) -> tuple[list[LayerBlock], Storage]:
    """What a recipe makes of a model's layers.

    Args:
        recipe: how the file says that its weights are stored.
        layers: the decoder's layers one by one, in order.
        hidden: width of the residual stream.
        outside: components outside the layers.
        tied: the head is the embedding table, and stored as that is.

    Returns:
        The layers, each naming the matrices whose format is not their component's; the formats.
    """
    usual = {c: _usual(recipe, c) for c in COMPONENTS}
    for component in outside:
        named, form = recipe.rules.find(outside_names(component))
        if named:
            usual[component] = form or wide(recipe.base)
    found: list[dict[str, tuple[str, str]]] = []
    sizes: dict[tuple[str, str], int] = defaultdict(int)
    for number, block in enumerate(layers):
        here: dict[str, tuple[str, str]] = {}
        for piece in block.pieces(hidden):
            if piece.vector:
                continue
            form = usual[piece.component]
            if recipe.rules and piece.module:
                named, own = recipe.rules.find(names_of(piece.module), number)
                form = (own or _base(recipe, piece.component)) if named else form
            here[piece.module] = (piece.component, form)
            sizes[piece.component, form] += block.count * piece.count
        found.append(here)
    for component in {c for c, _ in sizes}:
        held = {f: n for (c, f), n in sizes.items() if c == component}
        usual[component] = max(held, key=lambda f: held[f])
    if tied:
        usual["lm_head"] = usual["embedding"]
    done = [
        replace(
            block, stored=tuple(sorted((m, f) for m, (c, f) in here.items() if m and f != usual[c]))
        )
        for block, here in zip(layers, found, strict=True)
    ]
    narrow: dict[str, int] = defaultdict(int)
    for (_, form), count in sizes.items():
        narrow[form] += count * (form != recipe.base)
    main = max(narrow, key=lambda f: narrow[f], default=recipe.base)
    main = main if narrow[main] else recipe.base
    components = tuple((c, f) for c, f in usual.items() if f != main)
    refused = recipe.refused
    if recipe.main is None and recipe.rules.formats and main == recipe.base:
        refused = refused or "its quantization names no matrix that is known"
    return done, Storage(main, components, recipe.kv, refused)


def _base(recipe: Recipe, component: str) -> str:
    return wide(recipe.base) if component in KEPT_COMPONENTS else recipe.base


def _usual(recipe: Recipe, component: str) -> str:
    own = recipe.components.get(component)
    if own is None and recipe.main is not None and component in recipe.covers:
        own = recipe.main
    return own or _base(recipe, component)


def mean_bits(pieces: Sequence[Piece], block: LayerBlock | None, bits: Bits | None) -> float | None:
    """Mean bits of one parameter over `pieces` of a layer; None where there are none."""
    count = sum(p.count for p in pieces)
    if bits is None or not count:
        return None
    return sum(p.count * bits.of(p, block) for p in pieces) / count


def layer_group(block: LayerBlock, hidden: int, bits: Bits | None) -> LayerGroup:
    """One kind of layer as the cost model sees it; with bits of its own where they are not those
    of the main format."""
    pieces = block.pieces(hidden)
    routed = [p for p in pieces if p.component == "experts"]
    shared = [p for p in pieces if p.component != "experts"]
    own = None
    if bits is not None and {bits.of(p, block) for p in pieces} != {weight_format(bits.main).bits}:
        own = bits
    moe = block.moe
    return LayerGroup(
        count=float(block.count),
        shared_params=float(sum(p.count for p in shared)),
        vector_params=float(sum(p.count for p in shared if p.vector)),
        routed_params=float(sum(p.count for p in routed)),
        experts=1.0 if moe is None else float(moe.experts),
        experts_per_token=1.0 if moe is None else float(moe.experts_per_token),
        caches=(*block.caches(), *block.indexer_caches()),
        state_bytes=float(block.state_bytes()),
        state_shards=block.state_shards,
        reductions=float(block.reductions),
        fused_steps=float(sum(step == "q/k norm" for step in block.steps)),
        matrices=tuple(float(p.count) for p in shared if not p.vector),
        expert_matrices=()
        if moe is None
        else tuple(p.count / moe.experts for p in routed if not p.vector),
        shared_bits=mean_bits(shared, block, own),
        routed_bits=mean_bits(routed, block, own),
    )
