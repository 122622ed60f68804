"""What an observed speed says about a model: the posterior over its size, depth and nodes.

Prior: shapes (`prior`), how an operator deploys them, and plain ranges for what a speed
table leaves out. Evidence: the number of nodes, where it is known, and
the speed: Student's t around the logarithm of the cost model's, with the spread of the profile's
constants (their joint covariance, to first order) and of its model error, heavy-tailed as the
noise to which the profile is fitted.

How an operator deploys a model, and what else a speed table leaves out, is stated with its sources
in `archinfer/data/priors.yaml`; docs/model.md tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from archinfer.asking import OPEN, Range
from archinfer.errors import InputError
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.batch import Batch, Kept, resampled
from archinfer.inference.building import generative_model
from archinfer.inference.contradiction import (
    UNLIKELY,
    Contradiction,
    Left,
    Suspect,
    contradictions,
    impossible,
    known_sizes,
)
from archinfer.inference.evidence import Evidence, Piece
from archinfer.inference.generative import GenerativeModel
from archinfer.inference.importance import Draws, Index, Proposal, adapt
from archinfer.inference.lanes import JointModel
from archinfer.inference.narrowing import SAME, Draw, outlooks, what_would_narrow
from archinfer.inference.operations import Operations
from archinfer.inference.posterior import ExpectedSpeed, Posterior
from archinfer.inference.prior import CATALOGUE_PRIOR, ShapePrior
from archinfer.inference.steps import bits, steps
from archinfer.models.shape import FloatArray
from archinfer.solver.question import Question
from archinfer.units import plain_number

ESS_FLOOR = 1000.0

TAIL = 1e-3
"""Probability of a speed as extreme as the observed one, given the nodes, below which the answer
carries a warning: it then rests on the tails of the prior."""

ENOUGH_ESS = {"one": 6000.0, "several": 5000.0}
"""Effective sample size with one piece of evidence and with several, whose draws take longer:
quantiles at 5 and 95 % then move by 1 to 3 % from seed to seed."""

LADDER_ESS = 400.0
"""Effective sample size of the posteriors between the first piece of evidence and all."""


def infer(
    question: Question,
    samples: int = 16_384,
    seed: int = 0,
    *,
    target_ess: float | None = None,
    prior: ShapePrior = CATALOGUE_PRIOR,
    weights_prior: MappingOf[str, float] | None = None,
    attention: Sequence[str] | None = None,
    concurrency: Range | None = None,
    read_context: Range | None = None,
    law: SpeculationLaw | Literal["profile"] | None = "profile",
    assumed: Operations | None = None,
    evidence: Evidence | None = None,
) -> Posterior:
    """The posterior over total, active, layers and nodes.

    Args:
        question: hardware, speed, nodes, and what is known. The speed counts as evidence where
            `observed`; otherwise the answer is the prior with the nodes. Habits are not used:
            the prior takes their place. `total`, `active` and `layers` are conditions.
        samples: draws of one stage.
        seed: of the random shifts; the answer is a function of question and seed.
        target_ess: effective sample size at which stages stop; None: `ENOUGH_ESS`.
        prior: over shapes.
        weights_prior: probability of each weight format; None: equal.
        attention: attention kinds to consider, a priori as often as in the catalogue;
            None: all.
        concurrency: users at once, log-uniform; None: as `assumed`, or more than one if asked for.
        read_context: context of the measured speed, log-uniform; None: as `assumed`.
        assumed: how services are run; None: as shipped.
        law: of speculation, in place of the question's range of tokens per pass, of which only
            "none" (1:1) and "surely some" (a low end above 1) count then. "profile": the one
            that the profile was fitted with, if any, where the range is the default or the
            profile's; a range that somebody chose counts as it stands. None: so it does always.
        evidence: pieces that are all to be explained, the question's speed among them where it
            counts; None: that speed alone.

    Raises:
        InputError: an empty or unknown choice of formats or kinds, or ranges that are none.
    """

    def build(question: Question, evidence: Evidence | None) -> GenerativeModel:
        return generative_model(
            question, prior, weights_prior, attention, concurrency, read_context, law, assumed,
            evidence,
        )  # fmt: skip

    model = build(question, evidence)
    target_ess = target_ess or ENOUGH_ESS["several" if len(model.pieces) > 1 else "one"]
    stages, reason = _sampled(model, samples, target_ess, np.random.default_rng(seed))
    found: tuple[Contradiction, ...] = ()
    if reason or _strained(model, stages):
        found = _contradictions(build, model, evidence or Evidence(()))
        # One speed alone is against nothing but the prior, of which a warning tells.
        several = len(model.pieces) > 1 or bool(known_sizes(question))
        if not reason and several and any(c.hopeless for c in found):
            reason = f"what is known does not go together: {found[0].text}"
    posterior = _posterior(model, stages, reason, found)
    return posterior if reason else replace(posterior, warnings=_warnings(posterior, target_ess))


def _posterior(
    model: GenerativeModel,
    stages: list[Draws[Kept]],
    reason: str,
    found: tuple[Contradiction, ...],
) -> Posterior:
    """What the draws say, or why there are none; `found`: contradictions of the evidence."""
    last = stages[-1]
    common: dict[str, Any] = {
        "question": model.question,
        "possible": not reason,
        "reason": reason,
        "samples": last.drawn,
        "stages": last.stages,
        "kinds": tuple(k for k, _ in model.kinds),
        "draws": last.payload.batch,
        "law": model.law,
        "pieces": model.pieces,
        "contradictions": found,
    }
    if reason:
        return Posterior(ess=0.0, weights=np.zeros(len(last.log_weights)), **common)
    levels = [(d.payload.batch, d.weights, d.log_evidence) for d in stages]
    return Posterior(
        ess=last.ess,
        weights=last.weights,
        prior=(stages[0].payload.batch, stages[0].weights),
        with_nodes=(stages[1].payload.batch, stages[1].weights),
        predictive=_predictive(model, stages[1]),
        speed_bits=bits(levels[1], levels[-1], True) if len(stages) > 2 else 0.0,
        steps=steps(model.pieces, levels),
        lanes=partial(model.lanes_found, last.payload, last.weights)
        if isinstance(model, JointModel)
        else None,
        placed=partial(_placed, model, len(stages) - 1, last.payload),
        narrow=partial(what_would_narrow, _draw(model, last, model.observed, 2048)),
        **common,
    )


def _placed(
    model: GenerativeModel, level: int, kept: Kept, weights: FloatArray, like: int
) -> Batch | None:
    """The mean coordinates of draws in the cell of one of them; None where that cannot be."""
    mean = np.einsum("n,nd->d", weights, kept.z)
    evidence, batch = model.evaluate(level, mean[None], kept.cell[[like]], speed=True)
    return batch if np.isfinite(evidence[0]) else None


def _sampled(
    model: GenerativeModel, samples: int, target_ess: float, rng: np.random.Generator
) -> tuple[list[Draws[Kept]], str]:
    """Draws of each level of evidence, and why the last of them has none ("" where it has)."""
    if samples < 256:
        raise InputError(f"samples must be at least 256, found {samples}")
    levels: list[Draws[Kept]] = []
    start: Proposal | None = None
    pieces = len(model.pieces) or int(model.question.observed)
    for level in range(2 + pieces):
        # Levels between are a ladder to the last, and tell what each piece taught.
        between = 1 < level < 1 + pieces
        size = (samples // 4, LADDER_ESS) if between else (samples, target_ess)

        def evaluate(z: FloatArray, cell: Index, level: int = level) -> tuple[FloatArray, Kept]:
            evidence, batch = model.evaluate(level, z, cell)
            return evidence, Kept(batch, z, cell)

        levels.append(adapt(model.space, evaluate, *size, rng, start, Kept.join))
        reason = impossible(model, level, levels[-1])
        without = level < 2 or levels[-1].ess == 0.0
        if reason and (without or _tail(model, levels, level - 2) < UNLIKELY):
            return levels, reason
        start = levels[-1].proposal
    return levels, ""


def _draw(
    model: GenerativeModel, level: Draws[Kept], pieces: tuple[Piece, ...], count: int = 1024
) -> Draw:
    """Equally weighted draws of one level."""
    index, kept = resampled(level.weights, count), level.payload
    return Draw(model, kept.z[index], kept.cell[index], kept.batch.take(index), pieces)


def _tail(model: GenerativeModel, stages: Sequence[Draws[Kept]], k: int) -> float:
    """Two-sided probability of a piece of evidence after all before it."""
    before, piece = model.observed[:k], model.observed[k]
    (outlook,) = outlooks(_draw(model, stages[k + 1], before), [piece])
    (low, *_), tail = outlook.expected(piece)
    return tail if np.isfinite(low) else 1.0


def _agreement(model: GenerativeModel, stages: Sequence[Draws[Kept]]) -> float:
    """The least of them."""
    return min((_tail(model, stages, k) for k in range(len(stages) - 2)), default=1.0)


def _strained(model: GenerativeModel, stages: Sequence[Draws[Kept]]) -> bool:
    """Whether noise alone explains a piece, or one is unlikely after those before it."""
    explained = not impossible(model, len(stages) - 1, stages[-1])
    return not explained or _agreement(model, stages) < UNLIKELY


def _contradictions(
    build: Callable[[Question, Evidence], GenerativeModel],
    model: GenerativeModel,
    evidence: Evidence,
) -> tuple[Contradiction, ...]:
    """Each piece and each known range against all others."""

    def without(out: tuple[Suspect, ...]) -> Left | None:
        kept = tuple(p for p in model.observed if not any(p is s.piece for s in out))
        unknown = {s.kind: OPEN for s in out if s.piece is None}
        asked = model.question.with_(observed=bool(kept), **unknown)
        others = build(asked, replace(evidence, pieces=kept))
        stages, reason = _sampled(others, 2048, 200.0, np.random.default_rng(0))
        if reason:
            return None
        draw = _draw(others, stages[-1], kept)
        return Left(tuple(_expected(draw, s) for s in out), _agreement(others, stages))

    return contradictions(Suspect.of(model.observed, model.question), without)


def _expected(draw: Draw, suspect: Suspect) -> tuple[Range, float]:
    """What draws that know nothing of it leave, and the probability of what is said."""
    if suspect.piece is not None:
        (low, _, high), tail = outlooks(draw, [suspect.piece])[0].expected(suspect.piece)
        return (low, high), tail
    values, (least, most) = getattr(draw.batch, SAME[suspect.kind]), suspect.said
    low, high = np.quantile(values, (0.05, 0.95))
    return (low, high), min(float((values >= least).mean()), float((values <= most).mean()))


def _predictive(model: GenerativeModel, draws: Draws[Kept]) -> ExpectedSpeed:
    """Speeds to expect of draws that know the nodes."""
    outlook = outlooks(_draw(model, draws, (), 2048), [model.speed])[0]
    (p05, p50, p95), tail = outlook.expected(model.speed)
    return ExpectedSpeed(float(p05), float(p50), float(p95), tail)


def _warnings(posterior: Posterior, target_ess: float) -> tuple[str, ...]:
    warnings = []
    expected = posterior.predictive
    question = posterior.question
    assert expected is not None
    if question.observed and expected.tail < TAIL:
        warnings.append(
            f"{plain_number(question.tokens_per_s, 6)} tokens/s is far from what models of the "
            f"prior reach on these nodes ({expected.p05:,.0f} to {expected.p95:,.0f}): the answer "
            "rests on the tails of the prior, or something else limits the speed"
        )
    asked = {
        "throughput": question.throughput_tokens_per_s,
        "cost": question.max_token_dollars,
        "power": question.power_w,
        "price": question.price_per_hour,
        "mapping": question.layout,
    }
    unused = [option for option, value in asked.items() if value is not None]
    if unused:
        warnings.append(
            f"what was asked of {' and '.join(unused)} bounds the ranges but is no evidence here"
        )
    warnings += [f"the observations do not go together: {c.text}" for c in posterior.contradictions]
    if posterior.ess < min(ESS_FLOOR, target_ess):
        warnings.append(
            f"effective sample size {posterior.ess:.0f} is below {ESS_FLOOR:.0f}: "
            "more samples needed"
        )
    return tuple(warnings)
