"""The speed of a known model on known hardware: time by term, memory, nodes, what would help.

`predict` takes one model, or a `ModelShape` whose fields are arrays: then every figure of the
`Prediction` is an array, computed in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from archinfer.errors import InputError
from archinfer.hardware.figures import Figure
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.family import FamilyRules, family_shape
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray, ModelShape, Number
from archinfer.physics.decode import decode_time, speed_range
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.physics.placement import candidates, fewest, fewest_nodes, traffic_of
from archinfer.physics.terms import TERMS, TokenTime, combined, memory_fraction
from archinfer.physics.workload import Memory, Workload
from archinfer.record import As, Ends, Nullable, Quantiles, Record

__all__ = [
    "LIMITS",
    "TERM_TEXTS",
    "Change",
    "DepthRange",
    "Prediction",
    "even_mapping",
    "plausible_layers",
    "predict",
    "predict_depths",
    "what_would_help",
]

TERM_TEXTS = {
    "weights": "reading and multiplying the active weights",
    "kv": "reading the KV cache and multiplying with it",
    "compute": "arithmetic beyond the memory time",
    "reductions": "the chain of dependent all-reduces of each layer",
    "fixed": "the time a layer takes whatever its size",
    "links": "crossings from node to node",
    "head": "the LM head",
    "queue": "waiting for the other users' tokens",
    "draft": "drafting tokens",
}
"""What each term of the time is, in words."""

LIMITS = ("capacity", "kv cache", "nodes")
"""What stops a model that does not fit: all of its bytes, its KV cache alone, a forced mapping
that takes more nodes than there are."""

MORE_NODES = 2
"""How many times the nodes a faster mapping is looked for on."""

DRAFTED, ACCEPTED = 2, 2.0
"""The speculation among the changes: two drafted tokens, two gained a pass. DeepSeek-R1 on eight
B200 gained 2.58 with two drafted (TensorRT-LLM's published figures), so this is a careful one."""

SMALLEST_GAIN = 0.005
"""Relative gain from which a change counts as one."""

NARROWER = ("fp8", "nvfp4")
"""Weight formats tried among the changes."""


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


@dataclass(frozen=True)
class Prediction(Record):
    """What the cost model says of one model on one deployment, or of arrays of models."""

    KEYS = (
        "model", "hardware=hardware.name", "parameters", "layers", "hidden_size", "weights",
        "kv=deployment.kv", "context_tokens=deployment.context_tokens",
        "concurrency=deployment.concurrency", "speculation=deployment.speculation", "fits",
        "nodes", "nodes_used", "min_nodes", "layers_per_node=mapping.layers_per_stage",
        "tensor_parallel=mapping.tensor_parallel", "tokens_per_s=speed",
        "tokens_per_s_without_speculation=plain_speed", "time_s", "memory_bytes=memory",
        "kv_held_bytes", "memory_fraction", "region_side", "bottleneck", "limit",
        "what_would_help=changes", "notes", "weight_formats?", "assumed?", "range?", "by_layers?",
    )  # fmt: skip

    model: str
    """its name"""
    hardware: Hardware
    deployment: Deployment
    shape: ModelShape
    """what the cost model was given"""
    weights: str
    """weight format"""
    weight_bits: float
    outside_bits: float
    """bits of embedding and head"""
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
    memory: Memory
    """over all nodes"""
    memory_fraction: Number
    """of the fullest node's usable memory"""
    fits: bool | NDArray[np.bool_]
    """whether the mapping fits the memory and the nodes"""
    changes: tuple[Change, ...] = ()
    """what would help, the best first; empty for arrays"""
    notes: tuple[str, ...] = ()
    """what to know before the figures are used"""
    weight_formats: dict[str, str] | None = None
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
    def time_s(self) -> TokenTime:
        """Seconds of a pass by term; null where the model does not fit."""
        if self.fits:
            return self.time
        return TokenTime(**dict.fromkeys((*TERMS, "side"), np.nan), ledger=dict)

    @property
    def kv_held_bytes(self) -> Number:
        """memory_bytes.kv with the copies on the nodes of a tensor-parallel group that cannot
        split it further (the fullest node counts for all)"""
        return self.memory.kv_held(self.mapping.tensor_parallel)

    @property
    def region_side(self) -> Nullable:
        """side of a layer's region in cores (spatial)"""
        return float(self.time.side) if self.fits else np.nan

    @property
    def nodes_used(self) -> Annotated[Number, As(int)]:
        """Nodes of the mapping."""
        found = self.mapping.nodes(self.shape.layers)
        return int(found) if np.ndim(found) == 0 else found

    def _where_fits(self, speed: tuple[Number, Number, Number]) -> Quantiles:
        found = (np.where(self.fits, v, np.nan) for v in speed)
        return Quantiles(*(float(v) if np.ndim(v) == 0 else v for v in found))

    @property
    def speed(self) -> Quantiles:
        """Tokens/s of one user at 5, 50 and 95 % (`physics.decode.speed_range`); nan: no fit."""
        if self.speed_ is not None:
            return self.speed_
        asked = self.deployment
        return self._where_fits(
            speed_range(self.hardware, self.time, asked.accepted_low, asked.accepted_high)
        )

    @property
    def plain_speed(self) -> Quantiles:
        """The same without speculation."""
        if self.plain_speed_ is not None:
            return self.plain_speed_
        return self._where_fits(speed_range(self.hardware, self.plain_time, 1.0, 1.0))

    @property
    def bottleneck(self) -> Annotated[Any, As(str)]:
        """a term of time_s, the one with the largest part, or the limit that is exceeded"""
        terms = np.stack(np.broadcast_arrays(*(getattr(self.time, t) for t in TERMS)))
        slowest = np.asarray(TERMS)[np.argmax(terms, axis=0)]
        alone = memory_fraction(self.hardware, replace(self.memory, weights=0.0), self.mapping)
        stopped = np.where(np.asarray(alone) > 1.0, LIMITS[1], LIMITS[0])
        stopped = np.where(np.asarray(self.memory_fraction) <= 1.0, LIMITS[2], stopped)
        found = np.where(self.fits, slowest, stopped)
        return str(found) if np.ndim(found) == 0 else found

    @property
    def limit(self) -> str:
        """what binds, in words"""
        name = self.bottleneck
        node = self.hardware.node
        if name in TERM_TEXTS:
            share = float(getattr(self.time, name)) / float(self.time.total)
            return f"{TERM_TEXTS[name]}; {share:.0%} of the time of a pass"
        there = f"{int(self.nodes):,} {node}{'' if self.nodes == 1 else 's'}"
        if name == LIMITS[2]:
            return f"the mapping takes {int(self.nodes_used):,} {node}s; there are {there}"
        alone = name == LIMITS[1]
        what = "KV cache and buffers alone" if alone else "weights, KV cache and buffers"
        more = (
            f"at least {int(self.min_nodes):,} {node}s hold it"
            if np.isfinite(self.min_nodes)
            else f"one layer alone is more than a {node} holds, so no number of them is enough"
        )
        return (
            f"{what} take {self.taken_of_limit:.4g} times the usable memory of the fullest "
            f"{node} on {there}; {more}"
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
            stored = replace(stored, weights=0.0)
        return float(memory_fraction(self.hardware, stored, self.mapping))


def _whole(value: Number) -> int:
    return round(float(value))


def even_mapping(hardware: Hardware, layers: Number, nodes: Number) -> Placement:
    """Whole layers spread evenly over all nodes: ceil(L / stages) a stage.

    On spatial hardware a node is a stage. On temporal hardware a stage is a tensor-parallel
    group, the widest power of two that the nodes and one scale-up domain allow.
    """
    nodes = np.asarray(nodes, dtype=float)
    group: Number = 1.0
    if not hardware.spatial:
        group = 2.0 ** np.floor(np.log2(np.minimum(nodes, hardware.scale_up_size)))
    stages = np.maximum(np.floor(nodes / group), 1.0)
    return Placement(np.ceil(np.asarray(layers, dtype=float) / stages), group)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A model and a deployment in the cost model's terms."""

    workload: Workload
    weights: str


def _asked(model: Architecture | ModelShape, deployment: Deployment) -> _Asked:
    if isinstance(model, Architecture):
        weights = weight_format(deployment.weights or model.weight_format).name
        shape = model.shape(weights)
        outside_bits = model.component_bits(weights)["lm_head"]
    else:
        weights = weight_format(deployment.weights or "bf16").name
        shape = model
        outside_bits = weight_format(weights).bits
    return _Asked(Workload(shape, traffic_of(deployment, weights, outside_bits)), weights)


def _numbers(shape: ModelShape, mapping: Placement | None) -> Iterator[Number]:
    yield from (shape.total_params, shape.layers, shape.hidden_size, shape.head_params)
    for group in shape.groups:
        yield from (group.experts, group.experts_per_token, group.reductions, group.state_bytes)
        for cache in group.caches:
            yield from (cache.values_per_token, cache.macs_per_token, cache.window_tokens)
    if mapping is not None:
        yield from (mapping.layers_per_stage, mapping.tensor_parallel)


def predict(
    model: Architecture | ModelShape,
    hardware: Hardware,
    deployment: Deployment | None = None,
    *,
    changes: bool = True,
) -> Prediction:
    """The speed of one user, time by term, memory and nodes of a model on hardware.

    Args:
        model: an architecture; or a shape, whose fields may be arrays of one shape.
        hardware: profile.
        deployment: what is asked; None: everything at its default. Weights None: the format
            the architecture comes in, parts that it leaves unquantised included; bf16 for a
            bare shape, all of which is in the one format. A format that is not the model's own
            leaves embedding and head at 16 bits. Nodes None: the fewest that hold the model.
        changes: also compute what would help (one model only).

    Returns:
        For one model the fastest mapping that fits (the least too full one where none does).
        For arrays the deployment's mapping, else `even_mapping`: all nodes, ceil(L / nodes)
        layers each; no search.

    Raises:
        InputError: an unknown format.
    """
    deployment = Deployment() if deployment is None else deployment
    asked = _asked(model, deployment)
    if any(np.ndim(v) for v in _numbers(asked.workload.shape, deployment.mapping)):
        sizes = {np.shape(v) for v in _numbers(asked.workload.shape, deployment.mapping)} - {()}
        (size,) = next(iter(sizes)) if len(sizes) == 1 and len(next(iter(sizes))) == 1 else (0,)
        if size > BLOCK:
            return _predict_blocks(asked, hardware, deployment, size)
        return _predict_arrays(asked, hardware, deployment)
    found = _predict_one(asked, hardware, deployment)
    if isinstance(model, Architecture):
        formats = model.weight_formats(asked.weights)
        found = replace(found, weight_formats=formats, assumed=model.assumed)
    if not changes:
        return found
    return replace(found, changes=what_would_help(model, found))


def _prediction(
    asked: _Asked,
    hardware: Hardware,
    deployment: Deployment,
    nodes: Number,
    min_nodes: Number,
    mapping: Placement,
) -> Prediction:
    workload = asked.workload
    shape, traffic = workload.shape, workload.traffic
    time = decode_time(hardware, workload, mapping)
    plain = time
    if deployment.draft_tokens:
        without = replace(traffic, draft_tokens=0)
        plain = decode_time(hardware, replace(workload, traffic=without), mapping)
    fraction = memory_fraction(hardware, workload.memory, mapping)
    fits = (np.asarray(fraction) <= 1.0) & (mapping.nodes(shape.layers) <= np.asarray(nodes))
    assert traffic.outside_bits is not None
    return Prediction(
        model=shape.name,
        hardware=hardware,
        deployment=deployment,
        shape=shape,
        weights=asked.weights,
        weight_bits=float(traffic.weight_bits),
        outside_bits=float(traffic.outside_bits),
        nodes=nodes,
        min_nodes=min_nodes,
        mapping=mapping,
        time=time,
        plain_time=plain,
        memory=workload.memory,
        memory_fraction=fraction,
        fits=bool(fits) if np.ndim(fits) == 0 else fits,
    )


@dataclass(frozen=True, slots=True)
class Predictions(Record):
    """Several models predicted on one profile."""

    results: tuple[Prediction, ...]
    overrides: tuple[str, ...]
    """figures of the profile that were set by hand"""
    provenance: tuple[Figure, ...]


BLOCK = 16384
"""Architectures evaluated at a time: the temporaries of a block stay in the processor's cache,
which makes a sweep of a million about twice as fast as in one piece."""


def _cut(value: Any, size: int, part: slice) -> Any:
    """Every array of `size` entries inside nested dataclasses and tuples, cut to `part`."""
    if isinstance(value, np.ndarray):
        return value[part] if value.shape == (size,) else value
    if isinstance(value, tuple):
        return tuple(_cut(v, size, part) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{f.name: _cut(getattr(value, f.name), size, part) for f in fields(value)}
        )
    return value


def _joined(parts: list[Any], lengths: list[int]) -> Any:
    """The blocks' values as one array; numbers that no block varies stay numbers."""
    first = parts[0]
    if isinstance(first, (np.ndarray, np.generic, float, int)) and not isinstance(first, bool):
        if not any(np.ndim(p) for p in parts) and all(p == first or p != p for p in parts):
            return first
        return np.concatenate(
            [np.broadcast_to(p, (n,)) for p, n in zip(parts, lengths, strict=True)]
        )
    if isinstance(first, dict):
        return {key: _joined([p[key] for p in parts], lengths) for key in first}
    if isinstance(first, TokenTime):
        return combined(parts, lambda values: _joined(values, lengths))
    if isinstance(first, Memory | Placement):
        return replace(
            first,
            **{
                f.name: _joined([getattr(p, f.name) for p in parts], lengths) for f in fields(first)
            },
        )
    return first


def _predict_blocks(
    asked: _Asked, hardware: Hardware, deployment: Deployment, size: int
) -> Prediction:
    """`_predict_arrays` in blocks; fields equal to those of one piece."""
    starts = range(0, size, BLOCK)
    found = [
        _predict_arrays(
            _cut(asked, size, slice(at, at + BLOCK)),
            hardware,
            _cut(deployment, size, slice(at, at + BLOCK)),
        )
        for at in starts
    ]
    lengths = [min(BLOCK, size - at) for at in starts]
    whole = ["nodes", "min_nodes", "mapping", "time", "memory_fraction", "fits"]
    plain_is_time = found[0].plain_time is found[0].time
    if not plain_is_time:
        whole.append("plain_time")
    speeds = [p.speed for p in found]
    speed_ = Quantiles(*(_joined([s[i] for s in speeds], lengths) for i in range(3)))
    joined = {name: _joined([getattr(p, name) for p in found], lengths) for name in whole}
    if plain_is_time:
        joined["plain_time"] = joined["time"]
    return replace(
        found[0],
        shape=asked.workload.shape,
        deployment=deployment,
        memory=asked.workload.memory,
        **joined,
        speed_=speed_,
    )


def _predict_arrays(asked: _Asked, hardware: Hardware, deployment: Deployment) -> Prediction:
    min_nodes, smallest = fewest(hardware, asked.workload.memory)
    layers = np.asarray(asked.workload.shape.layers, dtype=float)
    nodes: FloatArray
    if deployment.nodes is None:
        mapping = deployment.forced(layers) or smallest
        nodes = np.asarray(mapping.nodes(layers), dtype=float)
    else:
        nodes = np.asarray(float(deployment.nodes))
        mapping = deployment.forced(layers) or even_mapping(hardware, layers, nodes)
    return _prediction(asked, hardware, deployment, nodes, min_nodes, mapping)


def _predict_one(asked: _Asked, hardware: Hardware, deployment: Deployment) -> Prediction:
    shape = asked.workload.shape
    least = fewest_nodes(hardware, asked.workload.memory)
    min_nodes = np.inf if least is None else least
    layers = int(float(shape.layers))
    mapping = deployment.forced(layers)
    if mapping is not None:
        nodes = deployment.nodes or int(mapping.nodes(layers))
        return _prediction(asked, hardware, deployment, nodes, min_nodes, mapping)
    # Where no number of nodes is enough, one layer each is the least too full.
    nodes = deployment.nodes or (layers if least is None else least)
    found = candidates(hardware, asked.workload, nodes)
    score = np.where(found.fits, found.time.total, np.inf)
    best = int(np.argmin(score if found.fits.any() else found.fraction))
    mapping, _ = found.at(best)
    return _prediction(asked, hardware, deployment, nodes, min_nodes, mapping)


def _trials(
    model: Architecture | ModelShape, now: Prediction
) -> Iterator[tuple[str, str, Hardware, Deployment, float]]:
    """Changes worth trying: name, words, hardware, deployment, tokens gained a pass."""
    hardware = now.hardware
    deployment = now.deployment.with_(
        nodes=int(now.nodes), draft_tokens=0, weights=now.weights, mapping=None, layout=None
    )
    node = hardware.node
    used = int(now.nodes_used)

    def with_figure(key: str, factor: float, attribute: str) -> Hardware:
        return hardware.with_constants({key: factor * getattr(hardware, attribute)})

    nodes = int(now.nodes)
    more = [nodes + 1, MORE_NODES * nodes]
    if now.min_nodes > nodes and np.isfinite(now.min_nodes):
        more = [int(now.min_nodes), MORE_NODES * int(now.min_nodes)]
    for count in dict.fromkeys(more):
        yield f"{count} nodes", "", hardware, deployment.with_(nodes=count), 1.0
    for name in NARROWER:
        if weight_format(name).bits < 0.95 * now.weight_bits:
            text = f"{name} weights"
            yield name, text, hardware, deployment.with_(weights=name), 1.0
    context = deployment.context_tokens
    if float(now.memory.kv) > 0.0 and context > 1:
        text = f"half the context ({context // 2:,} tokens)"
        yield "context", text, hardware, deployment.with_(context_tokens=context // 2), 1.0
        if deployment.kv_bits > 8.0:
            yield "kv", "fp8 KV cache", hardware, deployment.with_(kv="fp8"), 1.0
    users = deployment.concurrency
    if users > 1:
        text = f"half the users ({users // 2:,})"
        yield "users", text, hardware, deployment.with_(concurrency=users // 2), 1.0
    if used > 1:
        changed = with_figure("link.latency", 0.5, "link_latency_s")
        yield "link latency", f"half the latency from {node} to {node}", changed, deployment, 1.0
    if hardware.spatial:
        changed = with_figure("compute.clock", 1.1, "clock_hz")
        yield "clock", "10 % more clock", changed, deployment, 1.0
        changed = with_figure("cycles_per_weight", 0.5, "cycles_per_weight")
        yield "cycles per weight", "half the cycles per weight", changed, deployment, 1.0
    else:
        changed = with_figure("memory.bandwidth", 1.1, "bandwidth_bytes_per_s")
        yield "bandwidth", "10 % more memory bandwidth", changed, deployment, 1.0
    changed = with_figure("reductions_per_layer", 0.8, "reductions_per_layer")
    yield "reductions", "a fifth fewer dependent all-reduces", changed, deployment, 1.0
    changed = with_figure("fixed_time_per_layer", 0.5, "fixed_time_per_layer_s")
    yield "fixed time", "half the fixed time of a layer", changed, deployment, 1.0
    text = f"speculative decoding that gains {ACCEPTED:g} tokens a pass from {DRAFTED} drafted"
    drafting = deployment.with_(draft_tokens=DRAFTED, accepted_low=ACCEPTED, accepted_high=ACCEPTED)
    yield "speculation", text, hardware, drafting, ACCEPTED


def what_would_help(model: Architecture | ModelShape, now: Prediction) -> tuple[Change, ...]:
    """Each change alone, by its gain over `now` without speculation, the best first.

    The mapping is chosen anew each time. Where the model does not fit, the changes after which
    it does come first.

    Args:
        model: what `now` predicts.
        now: a prediction of one model.
    """
    before = 1.0 / float(now.plain_time.total) if now.fits else np.nan
    found: list[Change] = []
    for name, text, hardware, deployment, gained in _trials(model, now):
        then = _predict_one(_asked(model, deployment), hardware, deployment)
        used = int(then.nodes_used)
        speed = gained / float(then.time.total) if then.fits else np.nan
        if not text:
            if used == int(now.nodes_used):
                continue
            name = "nodes"
            held, group = then.mapping.layers_per_stage, then.mapping.tensor_parallel
            layout = f"{held:.0f} layer{'' if held == 1 else 's'} each"
            if not then.hardware.spatial:
                layout = f"tensor-parallel {group:.0f}, {layout.replace('each', 'a stage')}"
            text = f"{used:,} {hardware.node}s ({layout})"
        change = Change(
            name, text, float(speed), float(speed / before - 1.0), bool(then.fits), used
        )
        if change.text not in {c.text for c in found}:
            found.append(change)

    def key(change: Change) -> tuple[bool, float]:
        value = change.gain if now.fits else change.tokens_per_s
        return (not change.fits, -value if np.isfinite(value) else np.inf)

    return tuple(sorted(found, key=key))


@dataclass(frozen=True)
class DepthRange:
    """Predictions of one (total, active) over a range of layers.

    Attributes:
        predictions: one a layer count, ascending.
        middle: the one that stands for all: at the geometric middle of the depths that fit (of
            all where none does), with its changes.
    """

    predictions: tuple[Prediction, ...]
    middle: Prediction

    @property
    def fits(self) -> tuple[Prediction, ...]:
        """Those that fit."""
        return tuple(p for p in self.predictions if p.fits)

    def ends(self, values: list[float]) -> Ends:
        """Least and largest of the finite values; nan where there is none."""
        finite = [v for v in values if np.isfinite(v)]
        return Ends(min(finite), max(finite)) if finite else Ends(np.nan, np.nan)

    @property
    def layers(self) -> Ends:
        """Fewest and most layers."""
        return self.ends([float(p.shape.layers) for p in self.predictions])

    @property
    def min_nodes(self) -> Ends:
        """Fewest nodes over the depths."""
        return self.ends([float(p.min_nodes) for p in self.predictions])

    @property
    def nodes(self) -> Ends:
        """Nodes in use over the depths that fit."""
        return self.ends([float(p.nodes_used) for p in self.fits])

    @property
    def speed(self) -> Quantiles:
        """Tokens/s: least 5 %, middle depth's 50 %, largest 95 % over the depths that fit."""
        return self._over([p.speed for p in self.fits], self.middle.speed)

    @property
    def plain_speed(self) -> Quantiles:
        """The same without speculation."""
        return self._over([p.plain_speed for p in self.fits], self.middle.plain_speed)

    def _over(self, speeds: list[Quantiles], middle: Quantiles) -> Quantiles:
        low, _ = self.ends([float(s[0]) for s in speeds])
        _, high = self.ends([float(s[2]) for s in speeds])
        return Quantiles(low, middle.p50, high)

    @property
    def central_speed(self) -> Ends:
        """Least and largest central speed over the depths that fit."""
        return self.ends([float(p.speed[1]) for p in self.fits])

    @property
    def prediction(self) -> Prediction:
        """That of the middle depth, its intervals widened over all, with every depth."""
        spans = Spans(self.layers, self.nodes, self.min_nodes, self.central_speed)
        return replace(
            self.middle,
            speed_=self.speed,
            plain_speed_=self.plain_speed,
            range=spans,
            by_layers=tuple(Depth(p) for p in self.predictions),
        )


def plausible_layers(active_params: float, hardware: Hardware, rules: FamilyRules) -> FloatArray:
    """Layer counts that habits of design allow a model with so many active parameters.

    Hidden size over layers and active parameters over layers and hidden size squared are within
    what is built (`archinfer.solver.question.Habits`). Empty where no depth is.
    """
    from archinfer.solver.constraints import shape_limits
    from archinfer.solver.question import Question

    question = Question(hardware=hardware, rules=rules)
    assert question.habits is not None
    low, high = question.habits.layers
    depths = np.arange(np.ceil(low), np.floor(high) + 1.0)
    least, most = shape_limits(question, depths)
    return depths[(least <= active_params) & (active_params <= most)]


def predict_depths(
    name: str,
    total_params: float,
    active_params: float,
    layers: FloatArray,
    hardware: Hardware,
    deployment: Deployment,
    rules: FamilyRules | None = None,
) -> DepthRange:
    """A model known by its totals alone, at each of several layer counts.

    Args:
        name: what to call it.
        total_params, active_params: its parameters.
        layers: whole numbers, ascending.
        hardware, deployment: as for `predict`.
        rules: the family that gives everything else; None: its defaults.

    Raises:
        InputError: more active parameters than parameters, or no layers.
    """
    rules = FamilyRules() if rules is None else rules
    if active_params > total_params:
        raise InputError(
            f"active parameters ({active_params:g}) cannot exceed the total ({total_params:g})"
        )
    if not len(layers):
        raise InputError("no layer count to predict for")

    def shape(depth: float) -> ModelShape:
        dense = total_params == active_params
        found = family_shape(total_params, active_params, depth, rules, dense)
        return replace(found, name=name)

    found = tuple(predict(shape(float(v)), hardware, deployment, changes=False) for v in layers)
    depths = [float(p.shape.layers) for p in found if p.fits] or [float(v) for v in layers]
    middle = min(depths, key=lambda v: abs(np.log(v * v / (depths[0] * depths[-1]))))
    return DepthRange(found, predict(shape(middle), hardware, deployment))
