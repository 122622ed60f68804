"""Deployed draws, as observations are predicted, and known models that the same service runs.

Of a known model machine, software, users, context and text are those of each draw, and so are the
constants, whose errors both models share: what is common to a service is learnt from its known
models. The reference has the nodes that hold it, with the room that `comparison` gives it, and as
many drafts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.inference.evidence import Conditions
from archinfer.models.checkpoint import read_model
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray, ModelShape
from archinfer.physics.decode import decode_time
from archinfer.physics.mapping import Placement
from archinfer.physics.memory import fewest
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload

SPARE = 1.25
"""Nodes of a reference over the fewest that hold it: estimate."""

GAIN_LOG_SD = 0.25
"""Spread of the gain by speculation from model to model of one service, natural logarithm:
estimate, half of what acceptance differs by from model to model (archinfer/data/priors.yaml)."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """How each draw speculates; fields of shape (n,)."""

    drafts: FloatArray
    """Tokens drafted a pass; 0: none."""
    acceptance: FloatArray
    draft_s: FloatArray
    text: FloatArray
    """Factor of the text that was written."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Deployed draws of one kind of attention; arrays of shape (n,)."""

    hardware: Hardware
    workload: Workload
    mapping: Placement
    time: TokenTime
    """Of a pass under the conditions of `base`."""
    gain: FloatArray
    """Tokens a pass, net of drafting, at that time."""
    drafting: Drafting | None
    """None: `gain` is given, whatever the time."""
    software: FloatArray
    base: Conditions
    total: FloatArray
    active: FloatArray
    nodes: FloatArray


@cache
def _shape(name: str) -> tuple[ModelShape, str]:
    architecture, _ = read_model(name)
    weights = weight_format(architecture.weight_format).name
    return architecture.shape(weights), weights


def reference_scene(scene: Scene, name: str) -> Scene:
    """The scene with a known model in place of the unknown one; errors as `read_model`."""
    shape, weights = _shape(name)
    form = weight_format(weights)
    traffic = replace(scene.workload.traffic, weight_bits=form.bits, weights_only=form.weights_only)
    workload = Workload(shape, traffic)
    nodes, mapping = fewest(scene.hardware, workload.memory)
    if scene.hardware.spatial:
        stages = np.clip(np.floor(SPARE * nodes), 1.0, float(shape.layers))
        mapping = Placement(np.ceil(float(shape.layers) / stages))
    time = decode_time(scene.hardware, workload, mapping)
    return replace(scene, workload=workload, mapping=mapping, time=time, nodes=nodes)
