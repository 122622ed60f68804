"""What the cost model says of a model on a deployment, as records.

`archinfer.forward.predict` fills them; of several models at once every figure is an array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from archinfer import phrases
from archinfer.forward.room import Room, room
from archinfer.hardware.figures import Figure
from archinfer.hardware.profile import Hardware
from archinfer.models.layers.pieces import Component
from archinfer.models.shape import ModelShape, Number
from archinfer.physics.decode import Z90, decode_time
from archinfer.physics.deployment import Deployment
from archinfer.physics.economy import node_dollars_per_hour, node_power_w, token_dollars
from archinfer.physics.firsttoken import FirstToken, first_token
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import RESERVE_LOG_SD, Memory, fit_chance, memory_fraction
from archinfer.physics.speed import LEVELS, served_speed
from archinfer.physics.terms import TERMS, TokenTime, no_switches
from archinfer.physics.workload import Workload
from archinfer.record import As, Ends, Nullable, Quantiles, Record
from archinfer.units import format_quantity, plain_number
from archinfer.words import counted, percent

LIMITS = ("capacity", "kv cache", "nodes")
"""What stops a model that does not fit: all of its bytes, its KV cache alone, a forced mapping
that takes more nodes than there are."""

SMALLEST_GAIN = 0.005
"""Relative gain from which a change counts as one."""


@dataclass(frozen=True, slots=True)
class Change(Record):
    """One change of the deployment or the hardware, and the speed after it."""

    name: str
    text: str
    """what changes, in words"""
    tokens_per_s: Nullable
    """central speed without speculation after the change (with the accepted tokens, where
    speculation is the change); null where it does not fit"""
    gain: Nullable
    """that speed over the present one, minus 1; null where either does not fit"""
    fits: bool
    nodes: int
    """nodes then in use"""


@dataclass(frozen=True, slots=True)
class Parameters(Record):
    """Parameters, all of them and those that one token uses."""

    total: int
    active: int


@dataclass(frozen=True, slots=True)
class Depth(Record):
    """The prediction at one layer count."""

    KEYS = (
        "layers=prediction.layers", "fits=prediction.fits", "nodes=prediction.nodes",
        "min_nodes=prediction.min_nodes", "tokens_per_s=prediction.speed",
        "bottleneck=prediction.bottleneck",
    )  # fmt: skip

    prediction: Prediction


@dataclass(frozen=True, slots=True)
class Spans(Record):
    """Least and largest figures over the layer counts that come into question."""

    layers: Ends
    nodes: Ends
    """nodes in use over the depths that fit"""
    min_nodes: Ends
    tokens_per_s: Ends
    """central speeds over the depths that fit"""


@dataclass(frozen=True, slots=True)
class Copies(Record):
    """Equal copies of the model on nodes that one copy leaves idle."""

    copies: int
    users: int
    """of the fullest copy"""
    tokens_per_s: Quantiles
    """of one user"""


SURE = 0.05
"""Probability of the unlikely side below which whether a model fits goes without saying."""

FACTOR = math.exp(Z90 * RESERVE_LOG_SD)
"""Within which the runtime's part of the memory is known, with 90 %."""


@dataclass(frozen=True)
class Prediction(Record):
    """What the cost model says of one model on one deployment, or of arrays of models."""

    KEYS = (
        "model", "hardware=hardware.name", "parameters", "layers", "hidden_size", "weights",
        "kv=deployment.kv", "context_tokens=deployment.context_tokens",
        "concurrency=deployment.concurrency", "speculation=deployment.speculation",
        "speculation_by_law=deployment.by_law", "software=deployment.software", "fits",
        "fits_chance", "nodes", "nodes_used", "min_nodes",
        "layers_per_node=mapping.layers_per_stage",
        "tensor_parallel=mapping.tensor_parallel", "data_parallel", "tokens_per_s=speed",
        "tokens_per_s_all_users=throughput", "power_at_load_w", "joules_per_token",
        "dollars_per_million_output_tokens",
        "tokens_per_s_without_speculation=plain_speed", "time_s", "memory_bytes=memory",
        "kv_held_bytes", "memory_fraction", "room", "copies", "region_side", "bottleneck", "limit",
        "what_would_help=changes", "first_token?", "notes", "weight_formats?", "assumed?",
        "range?", "by_layers?",
    )  # fmt: skip

    model: str
    """its name"""
    hardware: Hardware
    deployment: Deployment
    workload: Workload
    """what the cost model was given"""
    weights: str
    """weight format"""
    nodes: Annotated[Number, As(int)]
    """nodes that are there (the fewest that hold the model where none were asked)"""
    min_nodes: Annotated[Number, As(int | None)]
    """fewest nodes that hold it; null: no number does"""
    mapping: Placement
    """which nodes hold which layers"""
    time: TokenTime
    """seconds of one pass by term, as if the memory sufficed"""
    plain_time: TokenTime
    """the same without drafted tokens"""
    memory_fraction: Number
    """of the fullest node's usable memory"""
    fits: bool | NDArray[np.bool_]
    """whether the mapping fits the memory and the nodes"""
    changes: tuple[Change, ...] = ()
    """what would help, the best first; empty for arrays"""
    notes: tuple[str, ...] = ()
    """what to know before the figures are used"""
    weight_formats: dict[Component, str] | None = None
    """by component, where the model has a config"""
    assumed: tuple[str, ...] | None = None
    """what the model's file does not say"""
    speed_: Quantiles | None = None
    """`speed` where it was computed with the rest (a sweep in blocks, a range of layers)"""
    plain_speed_: Quantiles | None = None
    """`plain_speed` likewise"""
    range: Spans | None = None
    """where the layers are a range"""
    by_layers: tuple[Depth, ...] | None = None
    """the prediction at each layer count, where the layers are a range"""

    @property
    def fits_chance(self) -> Annotated[Number, As(float | None)]:
        """probability that it fits, as far as the runtime's part of the memory is known; null: the
        profile does not state it"""
        return fit_chance(self.hardware, self.memory, self.mapping)

    @property
    def sure_to_fit(self) -> str:
        """How likely it fits, in words; "" where that is as good as certain, or not known."""
        chance = float(self.fits_chance)
        if not SURE < chance < 1.0 - SURE:
            return ""
        word = "likely" if chance >= 0.5 else "unlikely"
        reserve = format_quantity(float(self.hardware.reserve_bytes), "bytes")
        return (
            f"that it fits is {word} ({100.0 * chance:.0f} %): the runtime takes about {reserve} "
            f"of each {self.hardware.node}, known within a factor of {FACTOR:.0f}"
        )

    @property
    def shape(self) -> ModelShape:
        """The model as the cost model sees it."""
        return self.workload.shape

    @property
    def weight_bits(self) -> Number:
        """Bits of a weight of the format."""
        return self.workload.traffic.weight_bits

    @property
    def memory(self) -> Memory:
        """over all nodes"""
        return self.workload.memory

    @property
    def parameters(self) -> Parameters:
        """Total and active parameters of one model."""
        return Parameters(_whole(self.shape.total_params), _whole(self.shape.active_params))

    @property
    def layers(self) -> int:
        """Decoder layers of one model."""
        return _whole(self.shape.layers)

    @property
    def hidden_size(self) -> int:
        """Width of one model."""
        return _whole(self.shape.hidden_size)

    @property
    def data_parallel(self) -> Annotated[Any, As(bool)]:
        """whether each node has users of its own and shares the routed experts alone"""
        return self.mapping.data_parallel

    @property
    def time_s(self) -> TokenTime:
        """Seconds of a pass by term; null where the model does not fit."""
        if self.fits:
            return self.time
        nothing = dict.fromkeys((*TERMS, "side"), np.nan)
        return TokenTime(**nothing, ledger=dict, switches=no_switches)

    @property
    def kv_held_bytes(self) -> Number:
        """memory_bytes.kv with the copies on the nodes of a tensor-parallel group that cannot
        split it further (the fullest node counts for all)"""
        return self.memory.kv_held(self.mapping)

    @property
    def room(self) -> Room:
        """what the memory has room for"""
        forced = self.deployment.forced(self.shape.layers)
        return room(self.hardware, self.workload, int(self.nodes), forced)

    @property
    def copies(self) -> Copies | None:
        """more copies on nodes that the mapping leaves idle, which share the users; null: there is
        room for one, or one user, or they are not faster"""
        if np.ndim(self.fits) or not self.fits:
            return None
        users = self.deployment.concurrency
        each = -(-users // min(int(self.nodes // self.nodes_used), users))
        if each == users:
            return None
        traffic = replace(self.workload.traffic, concurrency=each)
        fewer = replace(self.workload, traffic=traffic)
        time = decode_time(self.hardware, fewer, self.mapping)
        speed = served_speed(self.hardware, fewer, self.mapping, time, self.deployment)
        if speed[1] <= self.speed.p50:
            return None
        return Copies(-(-users // each), each, Quantiles(*map(float, speed)))

    @property
    def throughput(self) -> Quantiles:
        """tokens/s over all users"""
        return Quantiles(*(self.deployment.concurrency * v for v in self.speed))

    @property
    def power_at_load_w(self) -> Nullable:
        """mean power of the nodes in use (`physics.economy`: by activity, of the accelerators
        alone, where the profile states energies; else the nameplate's)"""
        if not self.fits:
            return np.nan
        each = node_power_w(self.hardware, self.workload, self.mapping, self.time.total)
        return float(each * self.nodes_used)

    @property
    def joules_per_token(self) -> Nullable:
        """energy of an output token at that power"""
        return float(self.power_at_load_w / self.throughput.p50)

    @property
    def dollars_per_million_output_tokens(self) -> Nullable:
        """of the nodes in use, busy all the time; null: the profile states no price"""
        hourly = node_dollars_per_hour(self.hardware, self.power_at_load_w / self.nodes_used)
        return float(token_dollars(hourly * self.nodes_used, self.throughput.p50))

    @property
    def region_side(self) -> Nullable:
        """side of a layer's region in cores (spatial)"""
        return float(self.time.side) if self.fits else np.nan

    @property
    def nodes_used(self) -> Annotated[Number, As(int)]:
        """Nodes of the mapping."""
        found = self.mapping.nodes(self.shape.layers)
        return int(found) if np.ndim(found) == 0 else found

    def _where_fits(self, speed: Sequence[Number]) -> Quantiles:
        found = (np.where(self.fits, v, np.nan) for v in speed)
        return Quantiles(*(float(v) if np.ndim(v) == 0 else v for v in found))

    @cached_property
    def speed(self) -> Quantiles:
        """Tokens/s of one user at 5, 50 and 95 % (`physics.speed`); nan: no fit."""
        if self.speed_ is not None:
            return self.speed_
        return self._where_fits(self.speeds(LEVELS))

    def speeds(self, levels: Sequence[float]) -> tuple[Number, ...]:
        """Tokens/s of one user at some probabilities, as if it fitted."""
        return served_speed(
            self.hardware, self.workload, self.mapping, self.time, self.deployment, levels
        )

    def reached(self, confidence: float) -> Number:
        """Tokens/s of one user that are reached with a probability, as a target counts them: of a
        range of accepted tokens the service may gain the high end (`physics.speed.speed_at`)."""
        asked = self.deployment
        most = replace(self, deployment=asked.with_(accepted_low=asked.accepted_high))
        return most.speeds((1.0 - confidence,))[0]

    @property
    def first_token(self) -> FirstToken | None:
        """time to the first token (the time per output token leaves it out); null: the profile
        does not say how fast prompts are read"""
        if np.ndim(self.fits) or not self.fits:
            return None
        return first_token(self.hardware, self.workload, self.mapping, self.plain_time)

    @cached_property
    def plain_speed(self) -> Quantiles:
        """The same without speculation."""
        if self.plain_speed_ is not None:
            return self.plain_speed_
        alone = replace(self, time=self.plain_time, deployment=self.deployment.plain)
        return self._where_fits(alone.speeds(LEVELS))

    @property
    def bottleneck(self) -> Annotated[Any, As(str)]:
        """a term of time_s, the one with the largest part, or the limit that is exceeded"""
        terms = np.stack(np.broadcast_arrays(*(getattr(self.time, t) for t in TERMS)))
        slowest = np.asarray(TERMS)[np.argmax(terms, axis=0)]
        alone = memory_fraction(self.hardware, self.memory.without_weights, self.mapping)
        stopped = np.where(np.asarray(alone) > 1.0, LIMITS[1], LIMITS[0])
        stopped = np.where(np.asarray(self.memory_fraction) <= 1.0, LIMITS[2], stopped)
        found = np.where(self.fits, slowest, stopped)
        return str(found) if np.ndim(found) == 0 else found

    @property
    def limit(self) -> str:
        """what binds, in words"""
        name, node = self.bottleneck, self.hardware.node
        if name in phrases.TERM_TEXTS:
            share = percent(float(getattr(self.time, name)) / float(self.time.total))
            return phrases.LIMITS["term"].format(term=phrases.TERM_TEXTS[name], share=share)
        there = counted(float(self.nodes), node)
        if name == LIMITS[2]:
            used = int(self.nodes_used)
            return phrases.LIMITS[name].format(used=used, node=node, there=there)
        enough = "least" if np.isfinite(self.min_nodes) else "never"
        more = phrases.LIMITS["alone" if self.hardware.alone else enough].format(
            hardware=self.hardware.name, node=node, least=float(self.min_nodes)
        )
        return phrases.LIMITS[name].format(
            times=plain_number(self.taken_of_limit, 4), node=node, there=there, more=more
        )

    @property
    def useful_changes(self) -> tuple[Change, ...]:
        """The changes that make it fit, or that gain something where it does."""
        return tuple(
            c for c in self.changes if c.fits and (not self.fits or c.gain >= SMALLEST_GAIN)
        )

    @property
    def taken_of_limit(self) -> float:
        """How many times the memory of the exceeded limit is needed (one model)."""
        stored = self.memory
        if self.bottleneck == LIMITS[1]:
            stored = stored.without_weights
        return float(memory_fraction(self.hardware, stored, self.mapping))


def _whole(value: Number) -> int:
    return round(float(value))


@dataclass(frozen=True, slots=True)
class Predictions(Record):
    """Several models predicted on one profile."""

    results: tuple[Prediction, ...]
    overrides: tuple[str, ...]
    """figures of the profile that were set by hand"""
    provenance: tuple[Figure, ...]
