"""Known models on given hardware: one prediction, or a comparison of machines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias, Unpack

import numpy as np

from archinfer.api.arguments import (
    arguments,
    check_active,
    count,
    mixed_load,
    naming,
    number,
    span,
)
from archinfer.api.solving import Machine, family_rules, machine
from archinfer.asked.served import Common, Served
from archinfer.asking import LAYERS_MOST, Quantity, Span, read_speculation
from archinfer.errors import InputError
from archinfer.forward.compare import Entry, compare_hardware
from archinfer.forward.depths import DepthRange, plausible_layers, predict_depths
from archinfer.forward.predict import predict as predict_on
from archinfer.forward.prediction import Prediction
from archinfer.hardware.figures import USUAL_SOFTWARE
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.checkpoint import read_model
from archinfer.models.formats import kv_format, weight_format
from archinfer.models.shape import FloatArray, ModelShape
from archinfer.models.solver_family import FamilyRules, family_shape
from archinfer.physics.decode import Z90
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Layout, Placement, read_layout
from archinfer.physics.speculation import tokens_per_pass
from archinfer.question import ASKS, options
from archinfer.solver.slices import LAYERS_MAX
from archinfer.words import compact

Model: TypeAlias = Architecture | ModelShape | str | os.PathLike[str]
"""An architecture, a shape, or the name of a model or the path of its config.json."""


@arguments("predict")
def predict(
    model: Model | None = None,
    hardware: Machine = "wse-3",
    deployment: Deployment | None = None,
    *,
    nodes: Quantity | None = None,
    changes: bool = True,
    **asked: Unpack[Served],
) -> Prediction:
    """How fast a known model is, on how many nodes, and what limits it: `archinfer predict`.

    Args:
        model: a name in the catalogue, the path of a config.json, an architecture, or a shape,
            whose fields may be arrays of one shape; None: given by its totals.
        hardware: a profile, its name or its path.
        deployment: how it is served, in place of the arguments that say it.
        nodes: nodes that are there. Default: the fewest that hold it.
        changes: also compute what would help (one model only).

    Returns:
        The prediction. For a model of which only totals are known, and several depths come into
        question, that of the middle one.

    Raises:
        InputError: a value that cannot be; UnitError and UnknownNameError are of this kind.

    >>> found = predict("kimi-k2", "wse-3", nodes=31, weights="fp8")
    >>> bool(found.fits), int(found.min_nodes)
    (True, 31)
    """
    profile, _ = machine(hardware, asked["set"])
    check_subject(model, asked)
    if deployment is None:
        deployment = served(profile, nodes, asked)
    elif nodes is not None or _given("predict", asked):
        raise InputError("deployment: it says how the model is served, and so do other arguments")
    if model is not None:
        return predict_on(named(model), profile, deployment, changes=changes)
    if asked["total"] is None:
        raise InputError("expected a model, or its total")
    return predict_totals(asked, profile, deployment).middle


def predict_totals(
    asked: Mapping[str, Any], profile: Hardware, deployment: Deployment
) -> DepthRange:
    """The prediction of a model known by its totals, at every depth that comes into question."""
    size, used = totals_of(asked)
    rules = family_rules(asked)
    depths = depths_of(asked, used, rules)
    name = name_of_totals(size, used)
    return predict_depths(name, size, used, depths, profile, deployment, rules)


@arguments("compare", "target")
def compare(
    models: Model | Sequence[Model] | None = None,
    hardware: str | Sequence[Machine] | None = None,
    nodes: Quantity | Sequence[Quantity] | None = None,
    **asked: Unpack[Common],
) -> list[Entry]:
    """Known models on several machines, and how fast each could go: `archinfer compare`.

    Args:
        models: one or several, each as `predict` takes it; None: one given by its totals.
        hardware: profiles, their names or paths. Default: all that are shipped.
        nodes: nodes that are there: one number, or one for each profile. Default: the fewest
            that hold the model.

    Returns:
        Every model on every machine, models outermost.

    Raises:
        InputError: as `predict`.

    >>> gpu, wafer = compare("llama-3.1-8b", "h100-sxm,wse-3", speculation=1)
    >>> wafer.prediction.speed.p05 > gpu.prediction.speed.p95
    True
    """
    machines = machines_of(hardware)
    counts = _nodes(nodes, len(machines))
    deployments = [served(m, count, asked) for m, count in zip(machines, counts, strict=True)]
    wanted = models_of(models, asked)
    return compare_hardware([(name_of(m), m) for m in wanted], machines, deployments)


def check_subject(models: Any, asked: Mapping[str, Any]) -> None:
    """Refuse models beside the totals of one."""
    if models and any(asked[name] is not None for name in ("total", "active", "layers")):
        raise InputError(
            "total: total, active and layers describe a model without a config: "
            "expected them, or a model by name or file, not both"
        )


def served(profile: Hardware, nodes: Quantity | None, asked: Mapping[str, Any]) -> Deployment:
    """How a model is served, of the arguments that say it.

    Raises:
        InputError: a value that cannot be, or two that say the same.
    """
    drafts = count("draft_tokens", asked, 0)
    gained = asked["speculation"]
    law = profile.speculation if gained is None and not drafts else None
    if gained is None:
        gained = _usual_gain(profile, drafts)
    low, high = read_speculation(gained, drafts)
    if law is not None:
        low, high = profile.accepted_low, profile.accepted_high
    with naming("software"):
        softwares = profile.softwares(asked.get("software"))
    family_rules(asked)
    mapping = asked["mapping"]
    placement = mapping if isinstance(mapping, Placement) else _placement(profile, asked)
    layout = mapping if isinstance(mapping, Layout) else None
    if isinstance(mapping, str):
        layout = read_layout(mapping, profile.spatial)
    with naming("weights"):
        weights = None if asked["weights"] is None else weight_format(asked["weights"]).name
    with naming("kv"):
        kv = "" if asked["kv"] is None else kv_format(asked["kv"]).name
    if profile.decoder_formats and weights is None and not kv:
        weights = kv = profile.decoder_formats[0]
    context, prompt, answer = mixed_load(asked)
    return Deployment(
        nodes=None if nodes is None else ASKS["nodes"].single().count("nodes", nodes),
        context_tokens=context,
        prompt_tokens=prompt,
        output_tokens=answer,
        concurrency=count("concurrency", asked),
        weights=weights,
        kv=kv,
        accepted_low=low,
        accepted_high=high,
        draft_tokens=drafts,
        mapping=placement,
        layout=layout,
        law=law,
        softwares=() if [s.name for s in softwares] == [USUAL_SOFTWARE] else softwares,
    )


def _usual_gain(profile: Hardware, drafts: int) -> Span:
    """Tokens gained a pass where nobody says: of drafts 5 to 95 % of the profile's law."""
    law = profile.speculation
    if not drafts or law is None:
        return "1" if not drafts else f"1:{min(1 + drafts, 3)}"
    low, high = np.asarray(tokens_per_pass(law.acceptances(np.array([-Z90, Z90])), drafts))
    return float(f"{low:.3g}"), float(f"{high:.3g}")


def loads(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was asked once for each context and number of users of a sweep, contexts outermost."""
    if asked["context"] is None:
        several = str(asked["concurrency"]).split(",")
        return [{**asked, "concurrency": users.strip()} for users in several]
    lists = (str(asked[name]).split(",") for name in ("context", "concurrency"))
    return [
        {**asked, "context": context.strip(), "concurrency": users.strip()}
        for context, users in product(*lists)
    ]


def _placement(profile: Hardware, asked: Mapping[str, Any]) -> Placement | None:
    """The mapping that layers per node and tensor parallel say."""
    if asked.get("layers_per_node") is None and asked.get("tensor_parallel") is None:
        return None
    if asked["mapping"] is not None:
        raise InputError(
            "mapping: it says what layers_per_node and tensor_parallel say; expected one of them"
        )
    layers, shared = count("layers_per_node", asked), count("tensor_parallel", asked, 1)
    if layers is None:
        raise InputError("tensor_parallel: it needs layers_per_node as well")
    if profile.spatial and shared > 1:
        raise InputError(
            f"tensor_parallel: the cores of one {profile.node} share a layer, found {shared}"
        )
    return Placement(float(layers), float(shared))


def named(model: Model) -> Architecture | ModelShape:
    """The model itself, whether by name, by path or as it is."""
    if isinstance(model, Architecture | ModelShape):
        return model
    return read_model(os.fspath(model))[0]


def name_of(model: Architecture | ModelShape) -> str:
    """What a model is called."""
    if isinstance(model, Architecture) or model.name:
        return model.name
    return name_of_totals(float(np.mean(model.total_params)), float(np.mean(model.active_params)))


def name_of_totals(total: float, active: float) -> str:
    """What a model is called of which only these are known."""
    return f"{compact(total)} total, {compact(active)} active"


def machines_of(hardware: str | Sequence[Machine] | None) -> list[Hardware]:
    """Profiles of names with commas or of several; None: all that are shipped.

    Raises:
        InputError: one that is there twice.
    """
    if isinstance(hardware, Hardware):
        return [hardware]
    if hardware is None:
        hardware = Hardware.names()
    if isinstance(hardware, str):
        hardware = [name.strip() for name in hardware.split(",")]
    found: list[Hardware] = []
    for one in hardware:
        profile = machine(one)[0]
        if profile in found:
            raise InputError(f"hardware: {profile.name} is named twice")
        found.append(profile)
    return found


def _nodes(nodes: Quantity | Sequence[Quantity] | None, machines: int) -> Sequence[Quantity | None]:
    """The nodes of each machine."""
    if nodes is None:
        return [None] * machines
    counts = nodes.split(",") if isinstance(nodes, str) else nodes
    if not isinstance(counts, Sequence):
        counts = [counts]
    if len(counts) not in (1, machines):
        raise InputError(
            f"nodes: expected one number or one for each of {machines} profiles, found {nodes!r}"
        )
    return list(counts) * (machines if len(counts) == 1 else 1)


def models_of(
    models: Model | Sequence[Model] | None, asked: Mapping[str, Any]
) -> list[Architecture | ModelShape]:
    """The models that are named, or the one that totals describe."""
    check_subject(models, asked)
    if models:
        if isinstance(models, Architecture | ModelShape | str | os.PathLike):
            return [named(models)]
        several = [named(model) for model in models]
        for i, model in enumerate(several):
            if isinstance(model, Architecture) and model in several[:i]:
                raise InputError(f"{name_of(model)} is named twice")
        return several
    if asked["total"] is None or asked["layers"] is None:
        raise InputError("name a model (archinfer models list), or give its total and layers")
    size, used = totals_of(asked)
    low, high = span("layers", asked)
    if low != high or high > LAYERS_MOST:
        found = f"found {asked['layers']!r}"
        raise InputError(f"layers: expected a whole number between 1 and {LAYERS_MOST:,}, {found}")
    rules = family_rules(asked)
    shape = family_shape(size, used, high, rules, dense=used == size)
    return [replace(shape, name=name_of_totals(size, used))]


def totals_of(asked: Mapping[str, Any]) -> tuple[float, float]:
    """Total and active parameters; no active ones: all of them.

    Raises:
        InputError: nothing, or more active than there are.
    """
    size = number("total", asked)
    used = number("active", asked, size)
    check_active(used, size)
    return size, used


def depths_of(asked: Mapping[str, Any], active: float, rules: FamilyRules) -> FloatArray:
    """The layer counts that come into question for a model known by its totals."""
    if asked["layers"] is None:
        depths = plausible_layers(active, rules)
        if not len(depths):
            name = "total" if asked["active"] is None else "active"
            raise InputError(
                f"{name}: no habit of design says how many layers a model with {compact(active)} "
                "active parameters has; expected more, or layers beside it"
            )
        return depths
    low, high = span("layers", asked)
    if high == np.inf:
        high = float(LAYERS_MAX)
    if high > LAYERS_MAX:
        raise InputError(f"layers: expected at most {LAYERS_MAX}, found {asked['layers']!r}")
    return np.arange(max(low, 1.0), high + 1.0)


def _given(command: str, asked: Mapping[str, Any]) -> bool:
    """Whether any argument differs from its default."""
    return any(asked[name] != use.default for name, (_, use) in options(command).items()
               if name in asked and name != "set")  # fmt: skip
