"""Why one model answers slower than another: depth, bytes, links or speculation, and how likely.

The logarithm of the ratio of two speeds is a sum: of the ratio of the times of a pass, split
over its terms by the logarithmic mean (Ang's LMDI: exact, no remainder, no order of terms), of
the ratio of tokens gained per pass (with its part of the spread between texts, where a law of
speculation states one), and of what the cost model does not explain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archinfer.errors import InputError
from archinfer.forward.predict import evaluate
from archinfer.inference.batch import Batch, resampled
from archinfer.inference.importance import normal_points
from archinfer.inference.nuisances import NO_SPECULATION, drawn_speculation, noise_scale
from archinfer.inference.posterior import Posterior
from archinfer.inference.statistics import log_density
from archinfer.models.shape import FloatArray, ModelShape
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.physics.speculation import speculative_time
from archinfer.physics.speed import software_speed
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload
from archinfer.record import Record

CAUSES = ("depth", "active bytes", "links", "queue", "speculation", "unexplained")
_SPARE = 2.5
"""The reference may use up to this many times the nodes that it needs, as in the prior."""


def log_mean(a: FloatArray, b: FloatArray) -> FloatArray:
    """Logarithmic mean (a - b) / (log a - log b) of positive numbers; a where both are equal."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    x = np.log(a / b)
    small = np.abs(x) < 1e-6
    return np.asarray(np.where(small, np.sqrt(a * b), (a - b) / np.where(small, 1.0, x)))


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Record):
    """Why the observed speed differs from that of a known model on the same hardware."""

    reference: str
    reference_tokens_per_s: float
    speed_ratio: float
    """reference over observed; above 1: the unknown model is slower"""
    probability: dict[str, float]
    """that the unknown model has more active parameters (`larger`), more layers (`deeper`), more
    parameters in all (`more parameters`), uses no speculation (`no speculation`), or gains fewer
    tokens a pass (`less speculation`)"""
    factor: dict[str, float]
    """how much slower each cause makes it (geometric mean over the posterior; below 1:
    faster); the product is `speed_ratio`"""
    share: dict[str, float] | None
    """of the logarithm of `speed_ratio`, by cause; may be negative or above 1; null where the
    speeds are equal"""
    main_cause: dict[str, float]
    """probability that a cause is the largest in the direction of the ratio"""


def _plain_gains(low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Tokens per pass and their prior: none, or log-uniform in the range."""
    grid = np.geomspace(max(low, 1.0) if low <= 1.0 else low, high, 400)
    prior = np.full(len(grid), 1.0 / len(grid))
    if low <= 1.0 < high:
        prior = np.concatenate(([NO_SPECULATION], (1.0 - NO_SPECULATION) * prior))
        grid = np.concatenate(([1.0], grid))
    return grid, prior


@dataclass(frozen=True, slots=True)
class _Deployed:
    """The reference as it is served."""

    workload: Workload
    mapping: Placement
    time: TokenTime


def _reference_accepted(
    posterior: Posterior,
    deployed: _Deployed,
    tokens_per_s: float,
    count: int,
) -> tuple[FloatArray, float]:
    """Tokens per pass of the reference, `count` draws: the same prior, its own speed and text.

    With the logarithm of the chance of that speed.
    """
    question = posterior.question
    pass_s = float(deployed.time.total)
    if posterior.law is None:
        gains, prior = _plain_gains(*question.speculation)
    else:
        z = normal_points(4000, 3, np.random.default_rng(0))
        used, acceptance, draft_s = drawn_speculation(
            posterior.law, question.speculation, z[:, 0], z[:, 1]
        )
        each_s = speculative_time(
            question.hardware,
            deployed.workload,
            deployed.mapping,
            acceptance[:, None],
            draft_s[:, None],
        )
        text = np.exp(posterior.law.spread_log_sd * z[:, 2])
        gains = np.where(used, np.maximum(text * pass_s / each_s, 1.0), 1.0)
        prior = np.full(len(gains), 1.0 / len(gains))
    scale = noise_scale(question.hardware, deployed.time)
    deviation = np.log(tokens_per_s * pass_s / gains) / scale
    log_p = np.log(prior) + log_density(deviation) - np.log(scale)
    chance = float(np.logaddexp.reduce(log_p))
    p = np.exp(log_p - log_p.max())
    index = resampled(p / p.sum(), count)
    index = np.random.default_rng(1).permutation(index)
    return gains[index], chance


def _deploy(
    posterior: Posterior, reference: ModelShape, weights: str, nodes: int | None
) -> _Deployed:
    """The fastest mapping of the reference; InputError where no number of nodes holds it."""
    question = posterior.question
    hardware = question.hardware
    name = reference.name or "the reference"
    asked = Deployment(context_tokens=int(question.context_tokens), weights=weights, kv=question.kv)
    found = evaluate(reference, hardware, asked.with_(nodes=nodes))
    if not np.isfinite(found.min_nodes):
        raise InputError(f"{name} fits on no number of nodes")
    if nodes is None:
        spare = int(np.floor(_SPARE * found.min_nodes))
        found = evaluate(reference, hardware, asked.with_(nodes=spare))
    if not found.fits:
        raise InputError(f"{name} needs {found.min_nodes} {hardware.node}s, found {nodes}")
    return _Deployed(found.workload, found.mapping, found.time)


def _seconds_by_cause(time: TokenTime) -> dict[str, float]:
    return {
        "depth": float(time.reductions + time.fixed),
        "active bytes": float(time.weights + time.kv + time.compute + time.head),
        "links": float(time.links),
        "queue": float(time.queue + time.draft),
    }


def _pass_parts(d: Batch, known: TokenTime) -> dict[str, FloatArray]:
    """Parts of log(time of a pass of each draw / that of the reference), by cause."""
    own_s = d.software_factor * d.accepted_tokens / d.tokens_per_s
    mean_s = log_mean(own_s, np.full(len(own_s), float(known.total)))
    of_draws = {
        "depth": d.depth_s,
        "active bytes": d.bytes_s,
        "links": d.links_s,
        "queue": d.queue_s,
    }
    return {
        cause: (of_draws[cause] - seconds) / mean_s
        for cause, seconds in _seconds_by_cause(known).items()
    }


def compare_with(
    posterior: Posterior,
    reference: ModelShape,
    reference_tokens_per_s: float,
    *,
    weights: str = "bf16",
    nodes: int | None = None,
) -> Comparison:
    """Why the model of `posterior` has another speed than a known one.

    Both run the same software; where several come into question the reference's speed tells
    which one, too.

    Args:
        posterior: of an observed speed.
        reference: a model (numbers, no arrays).
        reference_tokens_per_s: its speed on the same hardware.
        weights: its weight format.
        nodes: its nodes; None: up to 2.5 times the fewest that hold it, the fastest mapping.

    Raises:
        InputError: the posterior has no observed speed or is empty, or no number of nodes holds
            the reference.
    """
    question = posterior.question
    if not posterior.possible or not question.observed:
        raise InputError("a comparison needs a posterior of an observed speed")
    deployed = _deploy(posterior, reference, weights, nodes)
    kept = np.flatnonzero(posterior.weights > 0.0)
    d, w = posterior.draws.take(kept), posterior.weights[kept]
    parts = _pass_parts(d, deployed.time)
    accepted, chance = np.empty((2, len(kept)))
    for k, (_, factor, _, routed_kernels) in enumerate(question.softwares):
        runs = np.flatnonzero(d.software == k)
        if len(runs):
            usual_tokens_per_s = reference_tokens_per_s / float(
                software_speed(deployed.time, factor, routed_kernels)
            )
            accepted[runs], chance[runs] = _reference_accepted(
                posterior, deployed, usual_tokens_per_s, len(runs)
            )
    if len(question.softwares) > 1:
        w = w * np.exp(chance - chance.max())
        w /= w.sum()
    parts["speculation"] = np.log(accepted / d.accepted_tokens)
    log_ratio = float(np.log(reference_tokens_per_s / question.tokens_per_s))
    parts["unexplained"] = log_ratio - np.sum(list(parts.values()), axis=0)
    events = {
        "larger": d.active_params > reference.active_params,
        "more parameters": d.total_params > reference.total_params,
        "deeper": d.layers > reference.layers,
        "no speculation": d.speculates == 0.0,
        "less speculation": d.accepted_tokens < accepted,
    }
    probability = {name: float(w[np.asarray(event)].sum()) for name, event in events.items()}
    causes = np.stack([parts[cause] for cause in CAUSES])
    return _summary(reference.name, reference_tokens_per_s, log_ratio, probability, causes, w)


def _summary(
    reference: str,
    reference_tokens_per_s: float,
    log_ratio: float,
    probability: dict[str, float],
    causes: FloatArray,
    w: FloatArray,
) -> Comparison:
    """What `causes`, parts of the log ratio of shape (causes, n) with weights (n,), say."""
    mean = (causes * w).sum(axis=1)
    largest = np.argmax(causes * (1.0 if log_ratio >= 0.0 else -1.0), axis=0)
    main = np.bincount(largest, weights=w, minlength=len(CAUSES))

    def by_cause(values: FloatArray) -> dict[str, float]:
        return dict(zip(CAUSES, (float(v) for v in values), strict=True))

    return Comparison(
        reference=reference,
        reference_tokens_per_s=reference_tokens_per_s,
        speed_ratio=float(np.exp(log_ratio)),
        probability=probability,
        factor=by_cause(np.exp(mean)),
        share=by_cause(mean / log_ratio) if log_ratio != 0.0 else None,
        main_cause=by_cause(main.astype(float)),
    )
