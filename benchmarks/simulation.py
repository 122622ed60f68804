"""Deployments drawn from the prior, and what one would observe of them: truth to test against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from archinfer.errors import InputError
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.batch import Batch
from archinfer.inference.building import generative_model
from archinfer.inference.evidence import Evidence, Piece
from archinfer.inference.generative import GenerativeModel
from archinfer.inference.importance import Index
from archinfer.inference.nuisances import IDLE_LOG_MEAN, IDLE_MOST, NODES_CAP
from archinfer.inference.observing import noise, predict
from archinfer.inference.prior import CATALOGUE_PRIOR, ShapePrior
from archinfer.inference.scene import Scene
from archinfer.inference.statistics import DEGREES
from archinfer.models.shape import FloatArray
from archinfer.solver.question import Question


@dataclass(frozen=True)
class Simulated:
    """Deployments drawn from the prior, each with the question that its speed would raise."""

    truth: Batch
    questions: tuple[Question, ...]
    seen: FloatArray
    """Values of the pieces of evidence, shape (count, pieces)."""


def simulate(
    question: Question,
    count: int,
    seed: int = 0,
    *,
    known_nodes: bool = True,
    prior: ShapePrior = CATALOGUE_PRIOR,
    law: SpeculationLaw | Literal["profile"] | None = "profile",
    evidence: Evidence | None = None,
) -> Simulated:
    """Models, deployments and measured speeds as `infer` believes they arise.

    Args:
        question: hardware, context, formats, speculation and known ranges.
        count: draws.
        seed: of the generator.
        known_nodes: spatial hardware: each draw's question states the nodes that are there, and
            those of the question are not used. Otherwise, and on temporal hardware, draws are
            deployments on the nodes of the question, and each draw's question has them.
        prior, law: as for `infer`.
        evidence: pieces of which values are drawn too, all together, with the first one as the
            speed of each question; their own values do not matter.

    Raises:
        InputError: nothing of the prior lies in the known ranges and fits.
    """
    spatial, rng = question.hardware.spatial, np.random.default_rng(seed)
    asked = question.with_(observed=True, nodes=(1, NODES_CAP) if spatial else question.nodes)
    model = generative_model(asked, prior, None, None, None, None, law, None, evidence)
    found: list[tuple[Batch, FloatArray, FloatArray]] = []
    # Few draws have a stated number of wafers.
    size = max(count, 64) * (16 if spatial and not known_nodes else 1)
    limits = (1, NODES_CAP) if known_nodes or not spatial else question.nodes
    for _ in range(1000):
        found.append(_drawn(model, limits, size, rng))
        if sum(len(there) for _, there, _ in found) >= count:
            break
    else:
        raise InputError("nothing of the prior lies in the known ranges and fits")
    truth = Batch.join([batch for batch, _, _ in found]).take(np.arange(count))
    values = np.concatenate([seen for _, _, seen in found])[:count]
    speeds = truth.tokens_per_s * np.exp(truth.log_scale * rng.standard_t(DEGREES, count))
    there = np.concatenate([n for _, n, _ in found])[:count]
    own = spatial and known_nodes
    known = [(int(n), int(n)) if own else question.nodes for n in there]
    speeds = speeds if evidence is None else values[:, 0]
    questions = (
        asked.with_(tokens_per_s=float(v), nodes=n) for n, v in zip(known, speeds, strict=True)
    )
    return Simulated(truth, tuple(questions), values)


def _drawn(
    model: GenerativeModel, limits: tuple[int, int], size: int, rng: np.random.Generator
) -> tuple[Batch, FloatArray, FloatArray]:
    """Deployments of `size` draws that can be, on so many nodes that are there, the nodes, and what
    is seen of each."""
    space = model.space
    z = rng.standard_normal((size, space.dimensions))
    cell = rng.choice(len(space.cell_probability), len(z), p=space.cell_probability)
    _, batch = model.evaluate(1, z, cell, speed=True)
    idle = np.exp(np.minimum(IDLE_LOG_MEAN * rng.exponential(size=len(z)), np.log(IDLE_MOST)))
    nodes = np.floor(batch.nodes * idle)
    # Draws within the known ranges are kept in proportion to the mass of the ranges.
    kept = (batch.log_nodes > -np.inf) & (np.log(rng.random(len(z))) < batch.log_conditions)
    if model.question.hardware.spatial:
        kept &= (nodes >= limits[0]) & (nodes <= limits[1])
    seen = _seen(model, z, cell, kept, rng)
    # Further deployments are there where the model fits.
    kept &= np.isfinite(seen).all(axis=1)
    return batch.take(np.flatnonzero(kept)), nodes[kept], seen[kept]


def _values(scene: Scene, pieces: list[Piece], rng: np.random.Generator) -> FloatArray:
    """Values of pieces as each draw would show them, with all their noise, shape (n, p)."""
    found = predict(scene, pieces)
    at = noise(scene.hardware, pieces, found)
    count, many = found.centre.shape
    normal = rng.standard_normal((count, many))
    # Normals over the root of a chi-square are Student's t, one chi-square for all of a draw.
    wide = np.sqrt(DEGREES / rng.chisquare(DEGREES, count))
    added = np.einsum("npq,nq->np", np.linalg.cholesky(at.scale), normal) * wide[:, None]
    return np.asarray(np.exp(found.centre + added))


def _seen(
    model: GenerativeModel,
    z: FloatArray,
    cell: Index,
    kept: NDArray[np.bool_],
    rng: np.random.Generator,
) -> FloatArray:
    """Values of the pieces of evidence as kept draws would show them, shape (n, pieces)."""
    found = np.full((len(z), len(model.pieces)), np.nan)
    at = np.flatnonzero(kept)
    names = [piece.deployment for piece in model.pieces]
    for name in dict.fromkeys(names):
        places = np.flatnonzero([other == name for other in names])
        for index, scene in model.scenes(z[at], cell[at], name):
            pieces = [model.pieces[i] for i in places]
            found[np.ix_(at[index], places)] = _values(scene, pieces, rng)
    return found
