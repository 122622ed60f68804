"""One model on several machines: speed of one user, nodes, what binds, and the speed ceiling.

The ceiling is the fastest that one copy of the model with all its users could go on any number of
nodes: every mapping is tried, up to one layer a stage and the largest group that is ever tried.
Past some group the all-reduces grow faster than the reads shrink, so the ceiling is a property of
the machine and the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from archinfer.forward.deployments import Pareto, Stages
from archinfer.forward.evaluation import Evaluation
from archinfer.forward.predict import evaluate
from archinfer.forward.prediction import Prediction
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.shape import ModelShape
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement, widest_group
from archinfer.physics.roofline import roofline_tokens_per_s
from archinfer.physics.speed import served_speed
from archinfer.physics.terms import TERMS, TokenTime
from archinfer.record import Nullable, Quantiles, Record

BYTES_TERMS = ("weights", "kv", "compute")
"""Terms that more or faster memory shortens; what is left of a token's time is latency (the head
reads bytes as well, but few)."""


@dataclass(frozen=True, slots=True)
class Ceiling(Record):
    """The most that more nodes of this hardware can reach with one copy that serves all users."""

    KEYS = (
        "tokens_per_s", "nodes", "mapping=placed", "bottleneck", "latency_share", "power_w",
    )  # fmt: skip

    tokens_per_s: Quantiles
    mapping: Placement
    """of all the fastest mappings the one with the fewest nodes"""
    placed: Stages
    """the same in whole numbers"""
    nodes: int
    time: TokenTime
    """seconds of one pass by term"""
    power_w: Nullable

    @property
    def bottleneck(self) -> str:
        """the term with the largest part of the time: what sets the ceiling"""
        return max(TERMS, key=lambda term: float(getattr(self.time, term)))

    @property
    def latency_share(self) -> float:
        """of the time of a pass that no bandwidth shortens"""
        moved = sum(float(getattr(self.time, term)) for term in BYTES_TERMS)
        return 1.0 - moved / float(self.time.total)


@dataclass(frozen=True, slots=True)
class Entry(Record):
    """One model on one machine."""

    KEYS = (
        "model", "hardware=hardware.name", "node=hardware.node",
        "usual_software=hardware.usual_software", "weights=prediction.weights",
        "fits=prediction.fits", "nodes=prediction.nodes_used", "min_nodes=prediction.min_nodes",
        "mapping", "tokens_per_s=prediction.speed", "bottleneck=prediction.bottleneck",
        "bandwidth_tokens_per_s", "power_w",
        "tokens_per_s_all_users=prediction.throughput",
        "power_at_load_w=prediction.power_at_load_w",
        "joules_per_token=prediction.joules_per_token",
        "dollars_per_million_output_tokens=prediction.dollars_per_million_output_tokens",
        "basis=hardware.basis", "memory_bytes=prediction.memory.total",
        "memory_fraction=prediction.memory_fraction", "assumed?=prediction.assumed", "overlaps",
        "ceiling", "speculation=prediction.deployment.speculation",
        "speculation_by_law=prediction.deployment.by_law",
        "software=prediction.deployment.software",
    )  # fmt: skip

    model: str
    prediction: Prediction
    """on the nodes that were asked for, or on the fewest that hold it"""
    bandwidth_tokens_per_s: Nullable
    """if only reading took time, at the peak bandwidth of the nodes that share a layer
    (`archinfer.physics.roofline`)"""
    ceiling: Ceiling | None
    """null where no number of nodes holds the model"""
    overlaps: tuple[str, ...] = ()
    """hardware whose 5 to 95 % interval overlaps this one: which of the two is faster is not
    known"""

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.prediction.hardware

    @property
    def mapping(self) -> Stages:
        """Which nodes hold which layers."""
        return Stages.of(self.prediction.mapping, self.prediction.shape.layers)

    @property
    def power_w(self) -> Nullable:
        """Power of the nodes in use; null: the profile states none"""
        return float(self.prediction.nodes_used * self.hardware.power_w)


@dataclass(frozen=True, slots=True)
class Compared(Record):
    """What was asked of every machine."""

    KEYS = (
        "context_tokens=deployment.context_tokens", "concurrency=deployment.concurrency",
        "kv=deployment.kv", "speculation=deployment.speculation",
    )  # fmt: skip

    deployment: Deployment


@dataclass(frozen=True, slots=True)
class HardwareComparison(Record):
    """Models on machines, models outermost."""

    KEYS = ("question", "results", "plans")

    results: tuple[Entry, ...]
    plans: tuple[Pareto, ...] = ()
    """with a target: of each model the deployments that meet it, fewest nodes and cheapest"""

    @property
    def question(self) -> Compared:
        """What was asked of every machine."""
        return Compared(self.results[0].prediction.deployment)


def speed_ceiling(p: Prediction) -> Ceiling | None:
    """The fastest mapping on any number of nodes of the model and hardware of `p`.

    Args:
        p: a prediction of one model.

    Returns:
        None where no number of nodes holds the model.
    """
    hardware = p.hardware
    most = int(float(p.shape.layers) * widest_group(hardware))
    found = Evaluation.everywhere(hardware, p.workload, most)
    if not found.fits.any():
        return None
    one = found.on(found.best(p.deployment))
    nodes = int(one.nodes)
    speeds = served_speed(hardware, one.workload, one.mapping, one.time, p.deployment)
    return Ceiling(
        Quantiles(*map(float, speeds)),
        one.mapping,
        Stages.of(one.mapping, p.shape.layers),
        nodes,
        one.time,
        float(nodes * hardware.power_w),
    )


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
            found = evaluate(model, hardware, deployment)
            found = replace(found, model=name)
            alone = float(roofline_tokens_per_s(hardware, found.workload, found.mapping))
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
