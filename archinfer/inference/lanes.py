"""One architecture deployed more than once: a fast lane on wafers, a usual one on unknown GPUs.

A draw is one architecture. Each further deployment ("lane") adds coordinates of its own, for which
of its candidate machines and formats it has, each as likely, and for nodes, users, contexts,
software and speculation, as `generative` draws them. What was observed there multiplies the
likelihood. Deployments on one machine share its constants; constants of other machines, and errors
of the cost model, count as independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archinfer import special
from archinfer.hardware.profile import Hardware
from archinfer.inference.batch import Batch, Kept
from archinfer.inference.evidence import Deployment, Piece
from archinfer.inference.generative import COORDINATES, DEPLOYED, GenerativeModel
from archinfer.inference.importance import Index
from archinfer.inference.modes import Levels, levels
from archinfer.inference.observing import Predicted, held, predict
from archinfer.inference.scene import Scene
from archinfer.models.shape import FloatArray
from archinfer.record import Record

_CHOSEN = 2
"""Coordinates of a lane before those of `DEPLOYED`: machine and weight format."""
WIDTH = _CHOSEN + len(DEPLOYED)


@dataclass(frozen=True, slots=True, repr=False)
class LaneFound(Record):
    """What is known in the end of a further deployment."""

    name: str
    hardware: dict[str, float]
    """probability of each candidate machine"""
    weights: dict[str, float]
    """probability by format"""
    nodes: Levels
    """in use"""


@dataclass(frozen=True)
class Lane:
    """One further deployment."""

    deployment: Deployment
    models: tuple[GenerativeModel, ...]
    """Of each candidate machine, with the pieces that speak of this deployment."""
    first: int
    """Its first coordinate."""

    def placed(
        self, joint: GenerativeModel, z: FloatArray, cell: Index
    ) -> Iterator[tuple[Index, Batch, Index, Scene]]:
        """Draws of each machine: their places, batch, and within it the deployments by kind."""
        one = self.models[0]
        formats = len(one.question.weights)
        machine, form = self.chosen(z)
        # Cells are numbered by class, format and kind of attention, as `Cells.of` does.
        kinds = len(joint.kinds)
        own_cell = (joint.cells.moe[cell] * formats + form) * kinds + joint.cells.attention[cell]
        own = np.zeros((len(z), COORDINATES))
        shared = min(COORDINATES, joint.space.dimensions)
        own[:, :shared] = z[:, :shared]
        own[:, DEPLOYED] = z[:, self.first + _CHOSEN : self.first + WIDTH]
        for k, model in enumerate(self.models):
            at = np.flatnonzero(machine == k)
            batch = Batch.empty(len(at))
            for index, scene in model.deployed(batch, own[at], own_cell[at]):
                yield at, batch, index, scene

    def chosen(self, z: FloatArray) -> tuple[Index, Index]:
        """Positions of machine and weight format, each as likely as another."""
        counts = np.array([len(self.models), len(self.models[0].question.weights)])
        place = special.ndtr(z[:, self.first : self.first + _CHOSEN]) * counts
        machine, form = np.minimum(place.astype(np.intp), counts - 1).T
        return machine, form

    def held(
        self, joint: JointModel, z: FloatArray, cell: Index, count: int
    ) -> dict[str, FloatArray]:
        """Columns of a batch: draws held against the first `count` pieces; -inf where none fits."""
        found = {name: np.full(len(z), -np.inf) for name in ("log_speed", "log_before")}
        found["deviation"] = np.full(len(z), np.inf)
        pieces = [replace(p, deployment=self.deployment.name) for p in self.models[0].pieces]
        for at, batch, index, scene in self.placed(joint, z, cell):
            expected, places = predict(scene, pieces[:count]), at[index]
            for told, rows in joint.beside(self.deployment.name, scene.hardware, places):
                both = expected.take(rows)
                for one in reversed(told):
                    both = one.found.take(places[rows]).beside(both)
                given = [piece for one in told for piece in one.pieces]
                columns = held(scene.hardware, [*given, *pieces[:count]], both, len(given))
                fits = batch.log_nodes[index[rows]]
                for name in ("log_speed", "log_before")[:count]:
                    columns[name] = columns[name] + fits
                for name, values in columns.items():
                    found[name][places[rows]] = values
            joint.tell(scene.hardware, pieces[:count], expected, places, len(z))
        return found

    def found(self, joint: GenerativeModel, kept: Kept, weights: FloatArray) -> LaneFound:
        """What weighted draws say of it."""
        machine, form = self.chosen(kept.z)
        nodes = np.ones(len(kept.z))
        for at, batch, index, _ in self.placed(joint, kept.z, kept.cell):
            nodes[at[index]] = batch.nodes[index]

        def shares(names: Sequence[str], place: Index) -> dict[str, float]:
            by = np.bincount(place, weights=weights, minlength=len(names))
            return dict(zip(names, map(float, by), strict=True))

        return LaneFound(
            self.deployment.name,
            shares([h.name for h in self.deployment.hardware], machine),
            shares(self.models[0].question.weights, form),
            levels(nodes, weights),
        )


class Told(NamedTuple):
    """What draws predict of the pieces of one deployment that are on one machine."""

    pieces: Sequence[Piece]
    there: NDArray[np.bool_]
    """Which draws have the deployment on that machine; of the others nothing is predicted."""
    found: Predicted


class JointModel(GenerativeModel):
    """The generative model of one architecture with several deployments."""

    lanes: tuple[Lane, ...] = ()
    told: dict[tuple[str, Sequence[str]], dict[str, Told]]
    """Of the draws in hand, by machine with its constants, and by deployment."""

    def add(self, deployment: Deployment, models: tuple[GenerativeModel, ...]) -> None:
        """One more deployment, with a model for each of its candidate machines."""
        first, space = self.space.dimensions, self.space
        explore = np.concatenate([space.explore, np.ones(WIDTH)])
        self.space = replace(space, dimensions=first + WIDTH, explore=explore)
        self.lanes = (*self.lanes, Lane(deployment, models, first))

    def evaluate(
        self, level: int, z: FloatArray, cell: Index, speed: bool = False
    ) -> tuple[FloatArray, Batch]:
        """As of one deployment; the pieces of all deployments come one after the other."""
        self.told = {}
        evidence, batch = super().evaluate(level, z, cell, speed)
        told = self.pieces[: max(level - 1, 0)]
        if told and told[-1].deployment:
            batch.log_before = batch.log_speed.copy()
        for lane in self.lanes:
            name = lane.deployment.name
            count = sum(p.deployment == name for p in told)
            if count:
                own = lane.held(self, z, cell, count)
                last = told[-1].deployment == name
                before = own["log_before"] if last else own["log_speed"]
                # What the first piece there says includes that the model fits there.
                batch.log_before += 0.0 if last and count == 1 else before
                batch.log_speed += own["log_speed"]
                batch.deviation = np.maximum(np.abs(batch.deviation), own["deviation"])
                evidence = evidence + own["log_speed"]
        return evidence, batch

    def _hold(self, batch: Batch, index: Index, scene: Scene, told: Sequence[Piece]) -> None:
        found = predict(scene, told)
        batch.put(index, **held(scene.hardware, told, found))
        self.tell(scene.hardware, told, found, index, len(batch.layers))

    def tell(
        self, machine: Hardware, pieces: Sequence[Piece], found: Predicted, at: Index, count: int
    ) -> None:
        """Keep what draws at some places, of `count`, predict of the pieces of a deployment."""
        told = self.told.setdefault((machine.name, machine.constants()[0]), {})
        if (name := pieces[0].deployment) not in told:
            exposure = np.zeros((count, *found.exposure.shape[1:]))
            kept = Predicted(np.zeros(exposure.shape[:2]), exposure, found.error)
            told[name] = Told(pieces, np.zeros(count, dtype=bool), kept)
        _, there, kept = told[name]
        there[at] = np.isfinite(found.centre).all(axis=1)
        kept.centre[at], kept.exposure[at] = found.centre, found.exposure

    def beside(self, name: str, machine: Hardware, at: Index) -> Iterator[tuple[list[Told], Index]]:
        """Other deployments on a machine, and the rows of `at` that have just these there."""
        here = self.told.get((machine.name, machine.constants()[0]), {})
        others = [told for other, told in here.items() if other != name]
        kinds = np.zeros(len(at), dtype=np.intp)
        for k, told in enumerate(others):
            kinds += told.there[at] << k
        for kind in np.unique(kinds):
            yield [o for k, o in enumerate(others) if kind >> k & 1], np.flatnonzero(kinds == kind)

    def scenes(
        self, z: FloatArray, cell: Index, deployment: str = ""
    ) -> Iterator[tuple[Index, Scene]]:
        """Deployments of draws, of the first one or of that of a name."""
        if not deployment:
            yield from super().scenes(z, cell)
        for lane in self.lanes:
            if lane.deployment.name == deployment:
                for at, batch, index, scene in lane.placed(self, z, cell):
                    fits = np.isfinite(batch.log_nodes[index])
                    yield at[index], replace(scene, software=np.where(fits, scene.software, np.nan))

    def lanes_found(self, kept: Kept, weights: FloatArray) -> tuple[LaneFound, ...]:
        """What weighted draws say of each further deployment."""
        return tuple(lane.found(self, kept, weights) for lane in self.lanes)
