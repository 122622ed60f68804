"""The one evaluation of models on mappings: best mapping, fewest nodes, time, memory, speed.

One model stands on the fastest mapping that fits. Arrays of models are evaluated in one pass on the
mapping that is asked for, else on the fewest nodes that hold each, or spread evenly over all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from archinfer.forward.evaluation import Evaluation
from archinfer.forward.prediction import Prediction
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray, ModelShape, Number
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import Memory, fewest, fewest_nodes
from archinfer.physics.terms import TokenTime, combined
from archinfer.physics.workload import Workload
from archinfer.record import Quantiles

BLOCK = 16384
"""Architectures evaluated at a time: the temporaries of a block stay in the processor's cache,
which makes a sweep of a million about twice as fast as in one piece."""


SERVER = 8
"""Nodes of a server whose cards no faster network joins: estimate, as many as boards for
accelerators have slots."""


def server_nodes(hardware: Hardware) -> int:
    """Nodes without a pipeline between them: of a scale-up domain, else `SERVER`; a power of 2."""
    if hardware.spatial or hardware.alone:
        return 1
    return 1 << int(np.log2(hardware.scale_up_size if hardware.scale_up_size > 1.0 else SERVER))


def whole_groups(hardware: Hardware, least: int) -> int:
    """Nodes of the smallest group that software shares layers over and that has at least so many.

    Engines share each layer over 1, 2, 4, ... nodes of a server, or over whole servers: a
    pipeline of single nodes would hold a model on fewer, and be slower than any that is run.
    """
    server = server_nodes(hardware)
    if least > server:
        return -(-least // server) * server
    return 1 << (least - 1).bit_length()


def _usual(found: Evaluation, nodes: int) -> Placement:
    """The fastest mapping of one model with pipelines across servers alone; else the fastest."""
    group = min(server_nodes(found.hardware), nodes)
    wide = found.on(found.mapping.take(np.asarray(found.mapping.tensor_parallel) >= group))
    return (wide if wide.fits.any() else found).best


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


def workload_of(model: Architecture | ModelShape, deployment: Deployment) -> tuple[Workload, str]:
    """A model and what is asked of it, in the cost model's terms, and the weight format."""
    if isinstance(model, Architecture):
        weights = weight_format(deployment.weights or model.weight_format).name
        shape = model.shape(weights)
        outside_bits = model.component_bits(weights)["lm_head"]
    else:
        weights = weight_format(deployment.weights or "bf16").name
        shape = model
        outside_bits = weight_format(weights).bits
    return Workload(shape, deployment.traffic(weights, outside_bits)), weights


def _numbers(shape: ModelShape, mapping: Placement | None) -> Iterator[Number]:
    yield from (shape.total_params, shape.layers, shape.hidden_size, shape.head_params)
    for group in shape.groups:
        yield from (group.experts, group.experts_per_token, group.reductions, group.state_bytes)
        for cache in group.caches:
            yield from (cache.values_per_token, cache.macs_per_token, cache.window_tokens)
    if mapping is not None:
        yield from (mapping.layers_per_stage, mapping.tensor_parallel)


def evaluate(
    model: Architecture | ModelShape, hardware: Hardware, deployment: Deployment
) -> Prediction:
    """The one evaluation of a model on a deployment; arguments as those of `predict`."""
    if not deployment.kv:
        stated = model.stored.kv if isinstance(model, Architecture) else None
        deployment = deployment.with_(kv=stated or "bf16")
    workload, weights = workload_of(model, deployment)
    sizes = {np.shape(v) for v in _numbers(workload.shape, deployment.mapping)} - {()}
    if sizes:
        (size,) = next(iter(sizes)) if len(sizes) == 1 and len(next(iter(sizes))) == 1 else (0,)
        whole = _in_blocks if size > BLOCK else _evaluate_arrays
        return whole(workload, weights, hardware, deployment)
    found = _evaluate_one(workload, weights, hardware, deployment)
    if isinstance(model, Architecture):
        formats = model.weight_formats(weights)
        return replace(found, weight_formats=formats, assumed=model.assumed)
    return found


def _prediction(
    workload: Workload,
    weights: str,
    hardware: Hardware,
    deployment: Deployment,
    nodes: Number,
    min_nodes: Number,
    mapping: Placement,
) -> Prediction:
    found = Evaluation(hardware, workload, mapping)
    plain = found.time
    if deployment.draft_tokens:
        without = replace(workload.traffic, draft_tokens=0)
        plain = Evaluation(hardware, replace(workload, traffic=without), mapping).time
    fits = found.fits & (np.asarray(found.nodes) <= np.asarray(nodes))
    return Prediction(
        model=workload.shape.name,
        hardware=hardware,
        deployment=deployment,
        workload=workload,
        weights=weights,
        nodes=nodes,
        min_nodes=min_nodes,
        mapping=mapping,
        time=found.time,
        plain_time=plain,
        memory_fraction=found.memory_fraction,
        fits=bool(fits) if np.ndim(fits) == 0 else fits,
    )


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


def _in_blocks(
    workload: Workload, weights: str, hardware: Hardware, deployment: Deployment
) -> Prediction:
    """`_evaluate_arrays` in blocks; fields equal to those of one piece."""
    size = max(np.size(v) for v in _numbers(workload.shape, deployment.mapping))
    parts = [slice(at, min(at + BLOCK, size)) for at in range(0, size, BLOCK)]
    found = [
        _evaluate_arrays(
            _cut(workload, size, part), weights, hardware, _cut(deployment, size, part)
        )
        for part in parts
    ]
    lengths = [part.stop - part.start for part in parts]
    whole = ["nodes", "min_nodes", "mapping", "time", "memory_fraction", "fits"]
    speeds = [p.speed for p in found]
    joined = {name: _joined([getattr(p, name) for p in found], lengths) for name in whole}
    if found[0].plain_time is found[0].time:
        joined["plain_time"] = joined["time"]
    else:
        joined["plain_time"] = _joined([p.plain_time for p in found], lengths)
    speed_ = Quantiles(*(_joined([s[i] for s in speeds], lengths) for i in range(3)))
    return replace(found[0], workload=workload, deployment=deployment, **joined, speed_=speed_)


def _evaluate_arrays(
    workload: Workload, weights: str, hardware: Hardware, deployment: Deployment
) -> Prediction:
    """Models on the mapping asked for, else on the fewest nodes or spread evenly over all."""
    min_nodes, smallest = fewest(hardware, workload.memory)
    layers = np.asarray(workload.shape.layers, dtype=float)
    nodes: FloatArray
    if deployment.nodes is None:
        mapping = deployment.forced(layers) or smallest
        nodes = np.asarray(mapping.nodes(layers), dtype=float)
    else:
        nodes = np.asarray(float(deployment.nodes))
        mapping = deployment.forced(layers) or even_mapping(hardware, layers, nodes)
    return _prediction(workload, weights, hardware, deployment, nodes, min_nodes, mapping)


def _evaluate_one(
    workload: Workload, weights: str, hardware: Hardware, deployment: Deployment
) -> Prediction:
    """One model on the mapping asked for, else on the fastest that fits."""
    hardware.check_nodes(deployment.nodes or 1)
    least = fewest_nodes(hardware, workload.memory)
    min_nodes = np.inf if least is None else least
    layers = int(float(workload.shape.layers))
    mapping = deployment.forced(layers)
    if mapping is not None:
        nodes = deployment.nodes or int(mapping.nodes(layers))
    else:
        # Where no number of nodes is enough, one layer each is the least too full.
        most = 1 if hardware.alone else layers
        nodes = deployment.nodes or (most if least is None else whole_groups(hardware, least))
        found = Evaluation.everywhere(hardware, workload, nodes)
        mapping = found.best if deployment.nodes else _usual(found, nodes)
    return _prediction(workload, weights, hardware, deployment, nodes, min_nodes, mapping)
