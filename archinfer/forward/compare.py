"""One model on several machines: speed of one user, nodes, what binds, and the speed ceiling.

The ceiling is the fastest that any number of nodes could go: every mapping is tried, up to one
layer a stage and the largest group that is ever tried. Past some group the all-reduces grow
faster than the reads shrink, so the ceiling is a property of the machine and the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from archinfer.forward.prediction import Prediction, predict
from archinfer.physics.decode import speed_range
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement, widest_group
from archinfer.physics.placement import candidates, traffic_of
from archinfer.physics.roofline import roofline_tokens_per_s
from archinfer.physics.terms import TERMS, TokenTime
from archinfer.physics.workload import Workload

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware
    from archinfer.models.architecture import Architecture
    from archinfer.models.shape import ModelShape

__all__ = ["BYTES_TERMS", "Ceiling", "Entry", "compare_hardware", "speed_ceiling"]

BYTES_TERMS = ("weights", "kv", "compute")
"""Terms that more or faster memory shortens; what is left of a token's time is latency (the head
reads bytes as well, but few)."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The fastest that any number of nodes could serve one user.

    Attributes:
        tokens_per_s: 5, 50 and 95 %.
        mapping: the mapping, of all the fastest the one with the fewest nodes.
        nodes: nodes that it uses.
        time: seconds of one pass by term.
    """

    tokens_per_s: tuple[float, float, float]
    mapping: Placement
    nodes: int
    time: TokenTime

    @property
    def bottleneck(self) -> str:
        """The term with the largest part of the time: what sets the ceiling."""
        return max(TERMS, key=lambda term: float(getattr(self.time, term)))

    @property
    def latency_share(self) -> float:
        """Part of the time that no bandwidth would shorten."""
        moved = sum(float(getattr(self.time, term)) for term in BYTES_TERMS)
        return 1.0 - moved / float(self.time.total)


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on one machine.

    Attributes:
        model: its name.
        prediction: on the nodes that were asked for, or on the fewest that hold it.
        bandwidth_tokens_per_s: what reading at the peak bandwidth of the nodes that share a layer
            would allow (`archinfer.physics.roofline`).
        ceiling: None where no number of nodes holds the model.
        overlaps: machines whose 5 to 95 % interval for the same model overlaps this one: which
            of the two is faster is not known.
    """

    model: str
    prediction: Prediction
    bandwidth_tokens_per_s: float
    ceiling: Ceiling | None
    overlaps: tuple[str, ...] = ()

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.prediction.hardware

    @property
    def power_w(self) -> float:
        """Power of the nodes in use; nan where the profile has none."""
        return self.prediction.nodes_used * self.hardware.power_w  # type: ignore[return-value]

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `results[]`."""
        p = self.prediction
        fits = bool(p.fits)
        low, middle, high = (float(v) for v in p.speed)
        layers = p.shape.layers
        out: dict[str, Any] = {
            "model": self.model,
            "hardware": self.hardware.name,
            "node": self.hardware.node,
            "usual_software": self.hardware.usual_software or None,
            "weights": p.weights,
            "fits": fits,
            "nodes": int(p.nodes_used),
            "min_nodes": int(p.min_nodes) if np.isfinite(p.min_nodes) else None,
            "mapping": _mapping(p.mapping, layers),
            "tokens_per_s": {"p05": low, "p50": middle, "p95": high},
            "bottleneck": p.bottleneck,
            "bandwidth_tokens_per_s": self.bandwidth_tokens_per_s,
            "power_w": float(self.power_w),
            "memory_bytes": float(p.memory.total),
            "memory_fraction": float(p.memory_fraction),
            "overlaps": list(self.overlaps),
            "ceiling": None,
        }
        c = self.ceiling
        if c is not None:
            low, middle, high = c.tokens_per_s
            out["ceiling"] = {
                "tokens_per_s": {"p05": low, "p50": middle, "p95": high},
                "nodes": c.nodes,
                "mapping": _mapping(c.mapping, layers),
                "bottleneck": c.bottleneck,
                "latency_share": c.latency_share,
                "power_w": float(c.nodes * self.hardware.power_w),
            }
        return out


def _mapping(mapping: Placement, layers: Any) -> dict[str, int]:
    return {
        "tensor_parallel": int(mapping.tensor_parallel),
        "stages": int(mapping.stages(layers)),
        "layers_per_stage": int(mapping.layers_per_stage),
    }


def _workload(p: Prediction) -> Workload:
    return Workload(p.shape, traffic_of(p.deployment, p.weights, p.outside_bits))


def speed_ceiling(p: Prediction) -> Ceiling | None:
    """The fastest mapping on any number of nodes of the model and hardware of `p`.

    Args:
        p: a prediction of one model.

    Returns:
        None where no number of nodes holds the model.
    """
    hardware = p.hardware
    most = int(float(p.shape.layers) * widest_group(hardware))
    found = candidates(hardware, _workload(p), most)
    if not found.fits.any():
        return None
    total = np.where(found.fits, np.asarray(found.time.total, dtype=float), np.inf)
    # Of equally fast mappings the one with the fewest nodes.
    best = int(np.lexsort((found.nodes, np.round(np.log(total), 9)))[0])
    mapping, time = found.at(best)
    asked = p.deployment
    low, middle, high = speed_range(hardware, time, asked.accepted_low, asked.accepted_high)
    return Ceiling((float(low), float(middle), float(high)), mapping, int(found.nodes[best]), time)


def compare_hardware(
    models: Sequence[tuple[str, Architecture | ModelShape]],
    machines: Sequence[Hardware],
    deployments: Sequence[Deployment],
) -> list[Entry]:
    """Every model on every machine, models outermost.

    Args:
        models: names and models.
        machines: profiles.
        deployments: what is asked of each machine (nodes None: the fewest that hold a model).

    Raises:
        InputError: an unknown format.
    """
    out: list[Entry] = []
    for name, model in models:
        mine: list[Entry] = []
        for hardware, deployment in zip(machines, deployments, strict=True):
            found = predict(model, hardware, deployment, changes=False)
            found = replace(found, model=name)
            alone = float(roofline_tokens_per_s(hardware, _workload(found), found.mapping))
            mine.append(Entry(name, found, alone, speed_ceiling(found)))
        out += [replace(entry, overlaps=_overlaps(entry, mine)) for entry in mine]
    return out


def _overlaps(entry: Entry, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Names of the other machines whose interval overlaps; none where the model does not fit."""
    low, _, high = entry.prediction.speed
    return tuple(
        other.hardware.name
        for other in entries
        if other is not entry
        and other.prediction.fits
        and other.prediction.speed[0] <= high
        and low <= other.prediction.speed[2]
    )
