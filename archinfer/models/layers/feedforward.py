"""Feed-forward bodies: dense, and mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from archinfer.models.layers.pieces import Piece, Sized, need


def _matrices(count: int) -> tuple[str, ...]:
    return ("gate_proj", "up_proj", "down_proj")[-count:]


@dataclass(frozen=True, slots=True)
class DenseMLP(Sized):
    """A feed-forward of width `width`: gate, up and down (3 matrices) or up and down (2).

    Attributes:
        width: its inner width.
        matrices: 3 (gated) or 2.
        bias: a bias on each matrix.
        component: what it is counted as.
    """

    width: int
    matrices: int = 3
    bias: bool = False
    component: str = "dense_mlp"

    TITLE = "feed-forward"

    def __post_init__(self) -> None:
        Sized.__post_init__(self)
        need(self.matrices in (1, 2, 3), f"a feed-forward has 2 or 3 matrices, not {self.matrices}")

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Matrices and biases."""
        inside = "shared_experts." if self.component == "shared" else ""
        for name in _matrices(self.matrices):
            yield Piece(self.component, hidden * self.width, module=f"mlp.{inside}{name}")
        if self.bias:
            yield Piece(self.component, (self.matrices - 1) * self.width + hidden, vector=True)

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces, the branch's own norm not included."""
        up = "up and gate projection" if self.matrices == 3 else "up projection"
        return (up, "down projection")


@dataclass(frozen=True, slots=True)
class MoE(Sized):
    """Routed experts, perhaps with shared ones beside them.

    Attributes:
        experts, top_k, width: routed experts, how many a token uses, inner width of each.
        zero_experts: further choices of the router that have no weights.
        matrices: 3 (gated) or 2, of experts and shared experts alike.
        bias: biases inside the routed experts.
        router_bias: a bias of the router's matrix (not its score-correction buffer).
        latent: width of the space the experts work in (None: hidden_size).
        latent_norm: a norm of the experts' output in that space.
        shared_width: inner width of all shared experts together (0: none).
        shared_bias, shared_gate: biases of the shared experts; a one-row gate on their
            output (counted with the router).
        extra: further parameters of the family.
    """

    experts: int
    top_k: int
    width: int
    zero_experts: int = 0
    matrices: int = 3
    bias: bool = False
    router_bias: bool = False
    latent: int | None = None
    latent_norm: bool = False
    shared_width: int = 0
    shared_bias: bool = False
    shared_gate: bool = False
    router: bool = True
    extra: tuple[Piece, ...] = ()
    container: str = "mlp"
    """What its modules stand in; "block": the layer itself."""

    TITLE = "expert"

    def __post_init__(self) -> None:
        Sized.__post_init__(self)
        choices = self.experts + self.zero_experts
        need(self.top_k <= choices, f"a token cannot use {self.top_k} experts of {choices}")
        need(self.matrices in (2, 3), f"an expert has 2 or 3 matrices, not {self.matrices}")

    @property
    def experts_per_token(self) -> Fraction:
        """Mean number of experts with weights that a token uses."""
        return Fraction(self.top_k * self.experts, self.experts + self.zero_experts)

    def routed_params(self, hidden: int) -> int:
        """Parameters of all routed experts."""
        return sum(piece.count for piece in self._routed_pieces(hidden))

    def _routed_pieces(self, hidden: int) -> Iterator[Piece]:
        outer = hidden if self.latent is None else self.latent
        for name in _matrices(self.matrices):
            count = self.experts * outer * self.width
            yield Piece("experts", count, module=f"{self.container}.experts.0.{name}")
        if self.bias:
            count = (self.matrices - 1) * self.width + outer
            yield Piece("experts", self.experts * count, vector=True)

    def pieces(self, hidden: int) -> Iterator[Piece]:
        """Everything, the routed experts as component `experts`."""
        yield from self._routed_pieces(hidden)
        rows = self.experts + self.zero_experts
        if self.router:
            yield Piece("router", rows * hidden, module=f"{self.container}.gate")
        if self.router_bias:
            yield Piece("router", rows, vector=True)
        if self.latent is not None:
            yield Piece("latent", hidden * self.latent, module=f"{self.container}.fc1_latent_proj")
            yield Piece("latent", hidden * self.latent, module=f"{self.container}.fc2_latent_proj")
            if self.latent_norm:
                yield Piece("latent", self.latent, vector=True)
        if self.shared_width:
            for name in _matrices(self.matrices):
                matrix = hidden * self.shared_width
                yield Piece("shared", matrix, module=f"{self.container}.shared_experts.{name}")
            if self.shared_bias:
                count = (self.matrices - 1) * self.shared_width + hidden
                yield Piece("shared", count, vector=True)
            if self.shared_gate:
                yield Piece("router", hidden, module=f"{self.container}.shared_expert_gate")
        yield from self.extra

    @property
    def steps(self) -> tuple[str, ...]:
        """Dependent all-reduces; shared experts and the latent's entry run beside the router."""
        up = "up and gate projection" if self.matrices == 3 else "up projection"
        normed = ("latent norm",) if self.latent_norm else ()
        back = () if self.latent is None else (*normed, "latent up-projection")
        return ("router", "router softmax and top-k", up, "down projection", *back)
