"""What an answer rests on: the same question under assumptions that a sceptic would name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from archinfer.inference.infer import infer
from archinfer.inference.modes import Alternative, levels
from archinfer.inference.operations import operations
from archinfer.inference.posterior import Posterior
from archinfer.inference.prior import (
    CATALOGUE_PRIOR,
    LARGE_PARAMS,
    ShapePrior,
    announced,
    mixtures,
)
from archinfer.inference.regression import Regression
from archinfer.models.solver_family import Habits
from archinfer.solver.question import Question

SAMPLES = 8192
TARGET_ESS = 800.0

FULL_LEAST = 0.2
"""Least part of the wafers that is needed where operators are taken to leave more room."""


def large_model_prior() -> ShapePrior:
    """The prior with the sparsity of announced mixtures above `LARGE_PARAMS`, whatever the size."""
    large = [m for m in mixtures(announced()) if m.total_params > LARGE_PARAMS]
    found = Regression.fit(np.log([m.total_params / m.active_params for m in large]))
    moe = CATALOGUE_PRIOR.moe
    flat = Regression((*found.coefficients, 0.0), found.sd, ((1.0 / len(large), 0.0), (0.0, 0.0)))
    return replace(CATALOGUE_PRIOR, moe=replace(moe, sparsity=flat))


def _changes(question: Question) -> Iterator[tuple[str, Question, dict[str, Any]]]:
    """Assumption, question and arguments of `infer`; those that change nothing are left out."""
    if question.speculation[1] > 1.0:
        yield "no speculation", question.with_(speculation=(1.0, 1.0)), {}
    low, high = Habits().layers
    if question.layers[0] <= low and question.layers[1] >= high:
        yield f"{low:g} to {high:g} layers, as published", question.with_(layers=(low, high)), {}
    yield "sparsity of large models", question, {"prior": large_model_prior()}
    shipped = operations()
    if question.hardware.spatial:
        roomy = replace(shipped, utilisation=(FULL_LEAST, shipped.utilisation[1]))
        name = f"{question.hardware.node}s {100 * FULL_LEAST:.0f} % full or more"
        yield name, question, {"assumed": roomy}
        full = shipped.users_per_layer_most
        many = {"concurrency": (64.0, 512.0 * full)}
    else:
        many = {"concurrency": (shipped.users_most, 16.0 * shipped.users_most)}
    low, high = many["concurrency"]
    yield f"{low:g} to {high:g} users", question, many


def alternatives(posterior: Posterior, seed: int = 0, **arguments: Any) -> tuple[Alternative, ...]:
    """Total, active and layers under each other assumption.

    Args:
        posterior: of an observed speed.
        seed: of the draws, the same for all.
        arguments: of `infer` that made the posterior.
    """
    found = []
    for name, question, changed in _changes(posterior.question):
        if "concurrency" in changed and arguments.get("concurrency") is not None:
            continue
        other = infer(question, SAMPLES, seed, target_ess=TARGET_ESS, **(arguments | changed))
        columns = ("total_params", "active_params", "layers")
        ranges = {q: levels(*other.density(q)) if other.possible else None for q in columns}
        found.append(Alternative(name, **ranges))
    return tuple(found)
