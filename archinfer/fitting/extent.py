"""How far published speeds of a machine reach: beyond, nothing has been held against any."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from archinfer.fitting import observations, serving
from archinfer.fitting.cases import NODES_SPREAD
from archinfer.forward.predict import workload_of
from archinfer.hardware.profile import Hardware
from archinfer.models.catalogue import load
from archinfer.physics.deployment import Deployment
from archinfer.physics.memory import fewest_nodes


@dataclass(frozen=True, slots=True)
class Extent:
    """The largest model and the most nodes among the shipped speeds of a profile."""

    total_params: float
    model: str
    nodes: float
    """published, or where they are not the most that `fitting.cases` assumes"""


@cache
def extent(profile: str) -> Extent | None:
    """That of a shipped profile; None where no row of it names a public model."""
    rows = [(str(r.architecture), r.nodes, r.architecture_model) for r in observations.load()
            if r.profile == profile and r.architecture and r.fitted]  # fmt: skip
    rows += [(r.model, r.nodes, partial(load, r.model)) for r in serving.rows()
             if r.profile == profile]  # fmt: skip
    hardware = Hardware.load(profile)
    found: dict[str, Extent] = {}
    for name, _, read in rows:
        if name not in found:
            workload, _ = workload_of(read(), Deployment())
            enough = NODES_SPREAD * (fewest_nodes(hardware, workload.memory) or 0)
            found[name] = Extent(float(workload.shape.total_params), name, enough)
    if not found:
        return None
    largest = max(found.values(), key=lambda e: e.total_params)
    nodes = max(float(there or found[name].nodes) for name, there, _ in rows)
    return Extent(largest.total_params, largest.model, nodes)
