"""Deployments of a model as records: what was asked of them, what each does, the best ones."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

from archinfer.forward.prediction import Change
from archinfer.hardware.profile import Hardware
from archinfer.models.shape import Number
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.record import Ends, Nullable, Quantiles, Record


@dataclass(frozen=True, slots=True)
class Stages(Record):
    """Which nodes hold which layers."""

    tensor_parallel: int
    """nodes that share each layer"""
    stages: int
    """pipeline stages"""
    layers_per_stage: int
    data_parallel: bool = False
    """each node has users of its own and shares the routed experts alone"""

    @property
    def placement(self) -> Placement:
        """The same for the cost model."""
        held, group = float(self.layers_per_stage), float(self.tensor_parallel)
        return Placement(held, group, None, self.data_parallel)

    @property
    def text(self) -> str:
        """As it is typed: `tp=8,pp=2`, or `dp=8,pp=2` with data-parallel attention."""
        return self.placement.text(self.stages * self.layers_per_stage)

    @classmethod
    def of(cls, mapping: Placement, layers: Number) -> Stages:
        """Those of a mapping of so many layers."""
        return cls(
            int(mapping.tensor_parallel),
            int(mapping.stages(layers)),
            int(mapping.layers_per_stage),
            bool(mapping.data_parallel),
        )


@dataclass(frozen=True, slots=True)
class Plan(Record):
    """What deployments are asked to do."""

    prompt_tokens: int
    output_tokens: int
    users: int | None
    """to be served at once; null: any number"""
    nodes: tuple[int, int]
    """fewest and most nodes of a deployment"""
    target_tokens_per_s: float | None
    """that one user shall see at least"""
    time_to_first_token_s: float | None
    """at most"""
    max_dollars_per_million_output_tokens: float | None
    confidence: float
    """probability with which target and time to first token shall hold"""
    utilisation: float
    """part of the time that the nodes are in use, which all of it pays"""

    @property
    def context_tokens(self) -> int:
        """tokens of context of the passes of an answer, in the mean"""
        return self.prompt_tokens + max(self.output_tokens // 2, 1)

    @property
    def z(self) -> float:
        """Standard normal quantile of the confidence."""
        return NormalDist().inv_cdf(self.confidence)

    @property
    def aims(self) -> bool:
        """Whether there is anything to meet."""
        limits = (self.time_to_first_token_s, self.max_dollars_per_million_output_tokens)
        return any(v is not None for v in (self.target_tokens_per_s, *limits))


@dataclass(frozen=True, slots=True)
class Choice(Record):
    """One deployment of the model."""

    KEYS = (
        "hardware=hardware.name", "node=hardware.node", "weights", "nodes", "copies", "mapping",
        "users", "tokens_per_s_per_user", "tokens_per_s_per_node", "time_to_first_token_s",
        "dollars_per_hour", "dollars_per_million_output_tokens", "dollars_per_million_tokens",
        "dollars_per_million_output_tokens_range=dollars_range", "joules_per_token",
        "joules_per_token_range=joules_range", "power_w", "power_basis", "memory_fraction",
        "limit", "misses_by", "chance",
    )  # fmt: skip

    hardware: Hardware
    weights: str
    nodes: int
    """of all copies"""
    copies: int
    """equal groups of nodes, each with a copy of the model and its share of the users"""
    mapping: Stages
    """of one copy"""
    users: int
    """served at once, over all copies"""
    tokens_per_s_per_user: Quantiles
    tokens_per_s_per_node: Quantiles
    """output tokens"""
    time_to_first_token_s: Quantiles
    """null: the profile does not say how fast prompts are read"""
    dollars_per_hour: Nullable
    """of all nodes"""
    dollars_per_million_output_tokens: Nullable
    """null: the profile states no price"""
    dollars_per_million_tokens: Nullable
    """the same spread over prompts and answers alike"""
    joules_per_token: Nullable
    """energy of the nodes for each output token, its part of the prompt included"""
    power_w: Nullable
    """mean power of all nodes"""
    power_basis: str
    """activity: idle power and the energy of bytes and FLOPs, without the rest of the servers;
    nameplate: the most that nodes with their share of the system draw"""
    memory_fraction: float
    """of the fullest node"""
    limit: str
    """the term with the largest part of a pass"""
    misses_by: Nullable
    """factor by which it misses what was asked, over all of it together; 1: it meets it"""
    chance: Nullable
    """probability that a user sees the target speed; null without a target"""

    def _slower(self, part: float) -> Ends:
        """What `part` of a figure that falls with the speed makes of it at 95 % and at 5 %."""
        low, middle, high = self.tokens_per_s_per_user
        return Ends(*(part * middle / speed + 1.0 - part for speed in (high, low)))

    @property
    def dollars_range(self) -> Ends:
        """5 % and 95 % of the dollars for a million output tokens: the nodes are paid by the hour,
        so a token costs what its time does"""
        return Ends(*(self.dollars_per_million_output_tokens * v for v in self._slower(1.0)))

    @property
    def joules_range(self) -> Ends:
        """5 % and 95 % of the joules of a token: idle power goes with the time of a token, the
        energy of its bytes and FLOPs does not; the energies themselves count as exact"""
        idle = 1.0
        if self.power_basis == "activity":
            idle = min(self.nodes * self.hardware.idle_power_w / self.power_w, 1.0)
        return Ends(*(self.joules_per_token * v for v in self._slower(idle)))


@dataclass(frozen=True, slots=True)
class Found(Record):
    """What deployments of one machine can do."""

    KEYS = (
        "hardware=hardware.name", "front", "cheapest", "fewest", "nearest",
        "speculation=deployment.speculation", "speculation_by_law=deployment.by_law",
        "software=deployment.software",
    )  # fmt: skip

    hardware: Hardware
    deployment: Deployment
    """what is assumed of speculation and software"""
    front: tuple[Choice, ...]
    """not beaten in both tokens/s of a user and of a node, the fastest for a user first"""
    cheapest: Choice | None
    """that meets what was asked, by dollars a token (by nodes where no price is known)"""
    fewest: Choice | None
    """nodes that meet it"""
    nearest: Choice | None
    """where none does: the one that misses by the smallest factor"""


@dataclass(frozen=True, slots=True)
class Pareto(Record):
    """Deployments of a model on several machines, and the cheapest that meets what was asked."""

    model: str
    question: Plan
    deployments: tuple[Choice, ...]
    """the front of every machine"""
    machines: tuple[Found, ...]
    cheapest: Choice | None
    """of all machines"""
    nearest: Choice | None
    """of all machines, where none meets it"""
    what_would_help: tuple[Change, ...]
    """the nearest one, the best first"""
