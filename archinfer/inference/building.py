"""The generative model of a question: which formats, kinds and laws come into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from archinfer.asking import Range
from archinfer.errors import InputError
from archinfer.hardware.profile import Hardware
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.evidence import Deployment, Evidence
from archinfer.inference.generative import GenerativeModel
from archinfer.inference.lanes import JointModel
from archinfer.inference.observing import check
from archinfer.inference.operations import Operations, operations
from archinfer.inference.prior import ShapePrior, year_of
from archinfer.models.solver_family import ATTENTION_KINDS, attention_rule
from archinfer.solver.question import Question, nodes_unknown


def generative_model(
    question: Question,
    prior: ShapePrior,
    weights_prior: Mapping[str, float] | None,
    attention: Sequence[str] | None,
    concurrency: Range | None,
    read_context: Range | None,
    law: SpeculationLaw | Literal["profile"] | None = "profile",
    assumed: Operations | None = None,
    evidence: Evidence | None = None,
) -> GenerativeModel:
    """The generative model of a question; arguments and errors as `infer`."""
    if law == "profile":
        law = _profile_law(question)
    formats = [1.0] * len(question.weights)
    if weights_prior is not None:
        formats = [float(weights_prior.get(w, 0.0)) for w in question.weights]
        if min(formats) < 0.0 or sum(formats) <= 0.0:
            raise InputError("weights_prior gives none of the question's weight formats any weight")
    chosen = tuple(ATTENTION_KINDS) if attention is None else tuple(attention)
    for name in chosen:
        attention_rule(name)
    shares = dict(prior.attention)
    kinds = [(k, shares[k]) for k in chosen]
    if not kinds:
        raise InputError("at least one attention kind is needed")
    for name, asked in (("concurrency", concurrency), ("read_context", read_context)):
        if asked is not None and not 1.0 <= asked[0] <= asked[1] < np.inf:
            raise InputError(
                f"{name} must be a range of at least 1, found {asked[0]:g}:{asked[1]:g}"
            )
    if evidence is not None:
        check(question.hardware, [p for p in evidence.pieces if not p.deployment])
        concurrency, read_context = evidence.served(concurrency, read_context)
        if evidence.date is not None:
            prior = prior.at(year_of(evidence.date))
    common = question, prior, formats, kinds, concurrency, read_context, law
    if evidence is None or not evidence.deployments:
        pieces = () if evidence is None else evidence.pieces
        return GenerativeModel(*common, assumed or operations(), pieces)
    joint = JointModel(*common, assumed or operations(), evidence.pieces)
    for lane in evidence.deployments:
        models = tuple(
            generative_model(
                _lane(question, lane, machine), prior, None, attention, None, None,
                assumed=assumed, evidence=evidence.of(lane.name),
            )
            for machine in lane.hardware
        )  # fmt: skip
        joint.add(lane, models)
    return joint


def _lane(question: Question, lane: Deployment, machine: Hardware) -> Question:
    """What is asked of a further deployment: the same architecture elsewhere."""
    return Question(
        machine,
        lane.nodes or nodes_unknown(machine),
        observed=True,
        weights=lane.weights or question.weights,
        kv=question.kv,
        rules=question.rules,
        habits=question.habits,
        total=question.total,
        active=question.active,
        layers=question.layers,
        nodes_known=lane.nodes is not None,
        tables_known=question.tables_known,
    )


def _profile_law(question: Question) -> SpeculationLaw | None:
    hardware = question.hardware
    defaults = (Question(hardware).speculation, (hardware.accepted_low, hardware.accepted_high))
    return hardware.speculation if question.speculation in defaults else None
