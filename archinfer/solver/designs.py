"""Concrete, buildable architectures inside a feasible region: whole heads, experts and widths."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np

from archinfer.arrays import distinct
from archinfer.errors import InputError
from archinfer.models.architecture import Architecture
from archinfer.models.formats import weight_format
from archinfer.models.layers import Attention, DenseMLP, LatentAttention, LayerBlock, Mixer, MoE
from archinfer.models.solver_family import FamilyRules
from archinfer.physics.mapping import Placement
from archinfer.physics.terms import TERMS, TokenTime
from archinfer.record import As, Nullable, Quantiles, Record
from archinfer.solver.constraints import Candidate, slacks
from archinfer.solver.question import Question, what_rounds_to
from archinfer.solver.region import Region, solve
from archinfer.solver.slices import placements

HEAD_DIM = 128
WIDTH_STEP = 128
TOP_K = 8
SHARED_EXPERTS = 1
_DENSE_BELOW = 1.5
"""Sparsity under which a model is built dense: a handful of experts saves nothing."""


@dataclass(frozen=True)
class Design(Record):
    """A concrete architecture inside the feasible region, on a mapping."""

    KEYS = (
        "name=architecture.name", "total_params", "active_params", "layers=architecture.layers",
        "nodes", "layers_per_node=mapping.layers_per_stage",
        "tensor_parallel=mapping.tensor_parallel", "data_parallel=mapping.data_parallel",
        "hidden_size=architecture.hidden_size",
        "experts", "experts_per_token", "expert_width", "attention", "weights",
        "tokens_per_s=speed", "accepted_tokens_needed=accepted_needed", "memory_bytes",
        "memory_fraction", "time_s", "bottleneck", "power_at_load_w",
        "dollars_per_million_output_tokens",
    )  # fmt: skip

    architecture: Architecture
    weights: str
    nodes_available: int
    mapping: Placement
    nodes: int
    """nodes in use"""
    total_params: float
    active_params: float
    speed: Quantiles
    """tokens/s of one user"""
    accepted_needed: float
    """accepted tokens a pass to reach the speed (`physics.speed.accepted_needed`)"""
    time_s: Annotated[dict[str, float], As(TokenTime)]
    memory_bytes: float
    """over all nodes"""
    memory_fraction: Nullable
    """of the fullest node's usable memory"""
    power_at_load_w: Nullable
    """mean power of the nodes in use (`physics.economy`); null: the profile states none"""
    dollars_per_million_output_tokens: Nullable
    """of the nodes in use, busy all the time; null: the profile states no price"""
    region_side: float
    slack: dict[str, float]

    @property
    def feasible(self) -> bool:
        """Every constraint holds."""
        return min(self.slack.values()) >= 0.0

    @property
    def bottleneck(self) -> str:
        """the term with the largest part of the time"""
        return max(TERMS, key=lambda term: self.time_s[term])

    @property
    def moe(self) -> MoE | None:
        """The routed experts, None for a dense model."""
        return self.architecture.moe

    @property
    def experts(self) -> int:
        """routed experts of a layer; 0: dense"""
        return 0 if self.moe is None else self.moe.experts

    @property
    def experts_per_token(self) -> int:
        """routed experts that one token uses; 0: dense"""
        return 0 if self.moe is None else self.moe.top_k

    @property
    def expert_width(self) -> int | None:
        """width of one expert; null: dense"""
        return None if self.moe is None else self.moe.width

    @property
    def attention(self) -> str:
        """kind of attention"""
        return next(iter(self.architecture.attention_kinds))


def _mixer(kind: str, hidden: int, shared: int) -> Mixer:
    # Heads in eights, so that eight key-value heads divide them; hidden_size need not be
    # heads * head_dim (GLM-4.5, gpt-oss, Qwen3 have more).
    step = 8 * (shared // (shared & -shared))
    heads = max(step, step * round(hidden / HEAD_DIM / step))
    if kind == "mla":
        return LatentAttention(
            heads=heads, kv_rank=512, nope_dim=128, rope_dim=64, v_head_dim=HEAD_DIM,
            query_rank=1536,
        )  # fmt: skip
    return Attention(heads=heads, kv_heads=1 if kind == "mqa" else 8, head_dim=HEAD_DIM)


def build(
    total: float, active: float, layers: int, question: Question, shared: int = 1
) -> Architecture | None:
    """An architecture of whole sizes with at most these totals and close to them.

    Hidden size: the family's, to a multiple of 128 (512 above 4096). MoE: 8 routed experts and a
    shared one of the same width a token, the width a multiple of 128, as many experts as `total`
    allows. Heads of which `shared` nodes can take equal parts.

    Returns:
        None where no whole sizes come near (an expert narrower than 128), or where they are
        beyond what a model may have.
    """
    rules = question.rules
    hidden = float(rules.hidden_size(active, layers))
    if question.habits is not None:
        aspect = question.habits.aspect
        hidden = float(np.clip(hidden, aspect[0] * layers, aspect[1] * layers))
    step = WIDTH_STEP * (4 if hidden > 4096 else 1)
    width = max(step, step * round(hidden / step))
    return _layers(total, active, layers, width, rules, shared)


def _layers(
    total: float, active: float, layers: int, hidden: int, rules: FamilyRules, shared: int
) -> Architecture | None:
    def model(feed_forward: DenseMLP | MoE, mixer: Mixer) -> Architecture:
        block = LayerBlock.of(layers, mixer, feed_forward)
        return Architecture(
            name="", blocks=(block,), hidden_size=hidden, vocab_size=int(rules.vocab_size),
            tied=rules.tied,
        )  # fmt: skip

    try:
        mixer = _mixer(rules.attention, hidden, shared)
        bare = model(DenseMLP(1), mixer).parameters()
        matrix = 3.0 * hidden
        room = (active - bare.total) / layers + matrix
        if total < _DENSE_BELOW * active:
            width = int(room / matrix) // WIDTH_STEP * WIDTH_STEP
            return model(DenseMLP(width), mixer) if width >= WIDTH_STEP else None
        used = TOP_K + SHARED_EXPERTS
        # The router has a row per expert; its size follows from the count, found second.
        experts = TOP_K
        for _ in range(2):
            width = int((room - experts * hidden) / (matrix * used)) // WIDTH_STEP * WIDTH_STEP
            if width < WIDTH_STEP:
                return None
            stored = (total - bare.total) / layers + matrix - SHARED_EXPERTS * width * matrix
            experts = int(stored / (matrix * width + hidden))
        if experts <= TOP_K:
            return None
        experts = experts // 8 * 8 if experts >= 16 else experts
        return model(MoE(experts, TOP_K, width, shared_width=SHARED_EXPERTS * width), mixer)
    except InputError:
        return None


def fastest(architecture: Architecture, question: Question, weights: str) -> Design:
    """The architecture in a weight format on the fastest mapping of the question's nodes on which
    every constraint holds; on the fastest of all where none is."""
    count, form = architecture.parameters(), weight_format(weights)
    depth, mapping = placements(
        question, np.array([float(architecture.layers)]), architecture.heads, bool(architecture.moe)
    )
    n = len(depth)
    candidate = Candidate.of(
        question,
        float(count.total),
        float(count.active),
        depth,
        mapping,
        question.traffic(form.bits, form.weights_only),
        architecture.shape_in(weights),
    )
    slack = {k: np.broadcast_to(v, (n,)) for k, v in slacks(candidate).items()}
    time, speeds = candidate.time, candidate.speed(question.speculation)
    worst = np.min(np.stack(list(slack.values())), axis=0)
    best = int(np.lexsort((np.broadcast_to(time.total, (n,)), worst < 0.0))[0])

    def at(value: Any) -> float:
        return float(np.broadcast_to(value, (n,))[best])

    return Design(
        architecture=architecture,
        weights=weights,
        nodes_available=question.nodes[1],
        mapping=mapping.one(best),
        nodes=int(at(candidate.nodes)),
        total_params=float(count.total),
        active_params=float(count.active),
        speed=Quantiles(*map(at, speeds)),
        accepted_needed=at(candidate.accepted_needed),
        time_s={term: at(getattr(time, term)) for term in (*TERMS, "total")},
        memory_bytes=at(candidate.memory.total),
        memory_fraction=at(candidate.memory_fraction) if "capacity" in slack else np.nan,
        power_at_load_w=at(candidate.power_w),
        dollars_per_million_output_tokens=at(candidate.token_dollars),
        region_side=at(time.side),
        slack={k: at(v) for k, v in slack.items()},
    )


def rounded(question: Question) -> tuple[Question, tuple[str, ...]]:
    """The question with single figures of size widened to all that round to them.

    Whole heads and experts meet no size to the last digit.

    Returns:
        The question, the same where there is no such figure, and which of "total" and "active"
        were widened.
    """
    single = tuple(
        n for n in ("total", "active") if getattr(question, n)[0] == getattr(question, n)[1]
    )
    if not single:
        return question, ()
    return question.with_(**{n: what_rounds_to(getattr(question, n)) for n in single}), single


def designs(region: Region, count: int = 8) -> list[Design]:
    """Up to `count` concrete architectures spread over the region, each one really feasible.

    For each weight format: near the largest total, near the most active parameters, and at
    depths between. A target that whole sizes miss is moved inwards until one fits. A single
    figure of total or active parameters stands for what rounds to it (`rounded`). The largest
    come first; of an observed speed those that come nearest to it.
    """
    question, single = rounded(region.question)
    if single:
        region = solve(question)
    found: list[Design] = []
    seen: set[tuple[int, int, int, str]] = set()
    for slot, spread in _targets(region):
        if len(found) == count:
            break
        design = _near(region, slot, spread)
        if design is None:
            continue
        key = (
            design.architecture.layers,
            design.architecture.hidden_size,
            round(40 * np.log(design.total_params)),
            design.weights,
        )
        if key not in seen:
            seen.add(key)
            found.append(design)
    if question.observed:
        return sorted(found, key=lambda d: abs(np.log(d.speed[1] / question.tokens_per_s)))
    return sorted(found, key=lambda d: -d.total_params)


def _targets(region: Region) -> list[tuple[int, tuple[float, float]]]:
    """(slice, (share of log A, share of log N) in its intervals), the most telling first."""
    question, slices = region.question, region.slices
    rounds: list[list[tuple[int, tuple[float, float]]]] = []
    for w in range(len(question.weights)):
        mine = np.flatnonzero(slices.weights == w)
        if not len(mine):
            continue
        mixed = mine[~slices.dense[mine]]
        mine = mixed if len(mixed) else mine
        largest = int(mine[np.argmax(region.total_high[mine])])
        widest = int(mine[np.argmax(region.active_high[mine])])
        depths = distinct(slices.layers[mine])
        middle = []
        for q in (0.35, 0.7):
            depth = depths[int(q * (len(depths) - 1))]
            at = mine[slices.layers[mine] == depth]
            middle.append((int(at[np.argmax(region.total_high[at])]), (0.55, 0.9)))
        rounds.append([(largest, (-1.0, 1.0)), middle[1], middle[0], (widest, (1.0, 0.8))])
    return [row[i] for i in range(4) for row in rounds]


def _near(region: Region, slot: int, spread: tuple[float, float]) -> Design | None:
    question, slices = region.question, region.slices
    layers = int(slices.layers[slot])
    shared = int(slices.mapping.one(slot).heads_split)
    weights = question.weights[int(slices.weights[slot])]
    low, high = np.log(region.active_low[slot]), np.log(region.active_high[slot])
    share_a, share_n = spread
    shares: tuple[float, ...] = (share_a,)
    if share_a < 0.0:
        # At the largest total any A between there and the top will do: one a third of the way, or
        # more, where the experts of so few are too many or too narrow.
        low = max(low, np.log(region.total_high_at[slot]))
        shares = (0.35, 0.6, 0.85)
    for back, share in product((0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), shares):
        x = np.exp(low + (high - low) * min(max(share - back * (2 * share - 1), 0.0), 1.0))
        n_low, n_high = region.total_interval(np.array([x]), np.array([slot]))
        if not n_low[0] <= n_high[0]:
            continue
        y = np.log(n_low[0]) + (np.log(n_high[0]) - np.log(n_low[0])) * (share_n - 0.3 * back)
        total = float(np.exp(y)) * (1.0 - back / 20.0)
        made = build(total, float(x), layers, question, shared)
        if made is None:
            continue
        best = fastest(made, question, weights)
        if best.feasible:
            return best
    return None
