"""The speed of a known model on known hardware: its mapping, fewest nodes, time, memory.

One model stands on the fastest mapping that fits. A `ModelShape` whose fields are arrays is
evaluated in one pass, on the mapping that is asked for, else on the fewest nodes that hold each, or
spread evenly over all; every figure of its `Prediction` is then an array. Tokens/s are those of
`physics.speed`, seconds of a pass those of `physics.spatial` and `physics.temporal`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from archinfer.forward.changes import what_would_help
from archinfer.forward.evaluation import Evaluation
from archinfer.forward.prediction import Prediction
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray, ModelShape, Number
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import fewest, fewest_nodes
from archinfer.physics.workload import Workload


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
    found = evaluate(model, hardware, Deployment() if deployment is None else deployment)
    if not changes or np.ndim(found.fits):
        return found
    return replace(found, changes=what_would_help(model, found, evaluate))


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


def _usual(found: Evaluation, nodes: int, deployment: Deployment) -> Placement:
    """The fastest mapping of one model with pipelines across servers alone; else the fastest."""
    group = min(server_nodes(found.hardware), nodes)
    wide = found.on(found.mapping.take(np.asarray(found.mapping.tensor_parallel) >= group))
    return (wide if wide.fits.any() else found).best(deployment)


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
    """`predict` without what would help."""
    if not deployment.kv:
        stated = model.stored.kv if isinstance(model, Architecture) else None
        deployment = deployment.with_(kv=stated or "bf16")
    workload, weights = workload_of(model, deployment)
    if any(np.ndim(v) for v in _numbers(workload.shape, deployment.mapping)):
        return _evaluate_arrays(workload, weights, hardware, deployment)
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
        some = deployment.nodes is not None
        mapping = found.best(deployment) if some else _usual(found, nodes, deployment)
    return _prediction(workload, weights, hardware, deployment, nodes, min_nodes, mapping)
