"""The speed that one user sees: time of a pass, tokens that it gains, and what is not known.

How a service decodes may be known as a range of tokens gained a pass, or only by the profile's law
of speculation; several programs may run on the machine. What is not known is a mixture of ways,
each with its chance: log(tokens/s) is normal around each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from archinfer import special
from archinfer.hardware.figures import (
    ROUTED_KERNELS,
    SOFTWARE_TIMES,
    USUAL_SOFTWARE,
    SoftwareFactor,
)
from archinfer.hardware.profile import Hardware
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.decode import Z90, decode_time, log_sd
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.physics.speculation import DRAFTS, best_of_drafts
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload


def tokens_per_s(time: TokenTime, accepted_tokens: Number = 1.0) -> Number:
    """Output tokens per second of one user: tokens gained per pass over the time of a pass."""
    return accepted_tokens / time.total


def throughput(time: TokenTime, concurrency: Number, accepted_tokens: Number = 1.0) -> Number:
    """Output tokens per second over all `concurrency` users that a pass is timed for."""
    return concurrency * tokens_per_s(time, accepted_tokens)


def accepted_needed(time: TokenTime, tokens_per_s: Number) -> Number:
    """Tokens that a pass must gain, at central constants, for a speed of one user."""
    return tokens_per_s * time.total


def software_speed(time: TokenTime, factor: Number, routed_kernels: Number = 1.0) -> Number:
    """Speed of a software over that of the usual one, whose pass takes `time`.

        T / (T + (factor - 1) F - factor (1 - routed_kernels) R)

    F: seconds of the pass that go with `SOFTWARE_TIMES`, R: those of kernels of routed experts.

    Args:
        time: of a pass with the usual software.
        factor: fixed times of the software over those of the usual one.
        routed_kernels: kernels that routed experts add, likewise.
    """
    if np.all(np.asarray(factor) == 1.0) and np.all(np.asarray(routed_kernels) == 1.0):
        return 1.0
    ledger = time.scaling
    more = (factor - 1.0) * sum((ledger.get(name, 0.0) for name in SOFTWARE_TIMES), start=0.0)
    fewer = factor * (1.0 - np.asarray(routed_kernels)) * ledger.get(ROUTED_KERNELS, 0.0)
    return 1.0 / (1.0 + (more - fewer) / time.total)


def speed_at(
    hardware: Hardware, time: TokenTime, accepted_high: Number, confidence_z: float
) -> Number:
    """Tokens per second of one user that are reached with a probability.

        accepted_high / T * exp(-z sd(log T))

    The probability is that of the constants and of the model-form error. How many tokens a pass
    gains is no matter of probability but of choice: where a range is given, its high end is what
    the service may gain.

    Args:
        hardware: profile.
        time: of a pass.
        accepted_high: most tokens that a pass gains.
        confidence_z: standard normal quantile of the probability (0: one half).
    """
    central = tokens_per_s(time, accepted_high)
    return central * np.exp(-confidence_z * log_sd(hardware, time)) if confidence_z else central


def speed_range(
    hardware: Hardware, time: TokenTime, accepted_low: Number, accepted_high: Number
) -> tuple[Number, Number, Number]:
    """Tokens per second of one user at 5 %, 50 % and 95 %.

    The constants' uncertainty is log-normal; the accepted tokens of a pass are a plain range,
    whose ends go to the ends of the interval and whose geometric mean to the centre.
    """
    spread = np.exp(Z90 * log_sd(hardware, time))
    return (
        tokens_per_s(time, accepted_low) / spread,
        tokens_per_s(time, np.sqrt(np.asarray(accepted_low) * accepted_high)),
        tokens_per_s(time, accepted_high) * spread,
    )


_USUAL = SoftwareFactor(USUAL_SOFTWARE, 1.0, 0.0)

LEVELS = (0.05, 0.5, 0.95)

_STEPS, _CLOSE = 60, 1e-11
"""Most steps to a quantile, and the last one: of the logarithm of a speed."""


def served_speed(
    hardware: Hardware,
    workload: Workload,
    mapping: Placement,
    time: TokenTime,
    deployment: Deployment,
    levels: Sequence[float] = LEVELS,
) -> tuple[Number, ...]:
    """Quantiles of the tokens per second of one user.

    Args:
        hardware, workload, mapping: as `decode_time`.
        time: of a pass with the deployment's drafted tokens.
        deployment: range of accepted tokens or law of speculation, and software.
        levels: probabilities, ascending. With a range of accepted tokens its ends go to the
            levels below and above one half, its geometric mean to one half.

    Returns:
        One value, or array of the shape of `time`, for each level.
    """
    low, high = deployment.speculation
    accepted = [(high if q > 0.5 else low) if q != 0.5 else np.sqrt(low * high) for q in levels]
    law, softwares = deployment.law, deployment.softwares
    if law is None and not softwares:
        if tuple(levels) == LEVELS:
            return speed_range(hardware, time, low, high)
        sd = log_sd(hardware, time)
        pairs = zip(accepted, special.ndtri(np.asarray(levels)), strict=True)
        return tuple(a * np.exp(z * sd) / time.total for a, z in pairs)
    centre, sd, chance = _ways(hardware, workload, mapping, time, deployment)
    if law is not None:
        accepted = [1.0] * len(levels)
    return tuple(
        a * np.exp(_quantile(centre, sd, chance, q)) for a, q in zip(accepted, levels, strict=True)
    )


def _ways(
    hardware: Hardware,
    workload: Workload,
    mapping: Placement,
    time: TokenTime,
    deployment: Deployment,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How a speed comes about, by software and speculation: centre and spread of log(tokens/s), and
    chance; the ways along a last axis."""
    softwares, law = deployment.softwares or (_USUAL,), deployment.law
    ahead = (1,) * np.ndim(time.total)
    """Software, and drafts, lie along axes before those of the time."""
    factor, routed, software_sd = np.array(
        [(s.factor, s.routed_kernels, s.log_sd) for s in softwares]
    ).T.reshape(3, -1, 1, *ahead)
    at = hardware.with_fixed_times(factor, routed)

    def passes(drafts: FloatArray) -> TokenTime:
        traffic = replace(workload.traffic, draft_tokens=drafts.reshape(-1, *ahead))
        return decode_time(at, replace(workload, traffic=traffic), mapping)

    plain = passes(np.array([float(deployment.draft_tokens)]))
    total = np.asarray(plain.total)
    fixed = sum((plain.scaling.get(name, 0.0) for name in SOFTWARE_TIMES), start=0.0)
    spread = np.hypot(log_sd(hardware, plain), software_sd * fixed / total)
    shape = np.broadcast_shapes(total.shape, factor.shape)
    centre, sd = (np.broadcast_to(x, shape)[:, 0, ..., None] for x in (-np.log(total), spread))
    chance = np.ones(1)
    if law is not None:
        used, weights = _drafted(passes(DRAFTS), law, shape)
        drafting = np.broadcast_to(np.hypot(sd, law.spread_log_sd), used.shape)
        chance = np.concatenate([[1.0 - law.probability], law.probability * weights])
        centre, sd = np.concatenate([centre, used], -1), np.concatenate([sd, drafting], -1)
    chance = np.tile(chance / len(softwares), len(softwares))
    centre, sd = (np.moveaxis(x, 0, -2).reshape(*shape[2:], len(chance)) for x in (centre, sd))
    return centre, sd, chance


def _drafted(
    time: TokenTime, law: SpeculationLaw, shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Logarithm of tokens/s with speculation, a last axis of points, and the weight of each.

    Args:
        time: of passes with `DRAFTS` along the second axis.
        law: of speculation.
        shape: of software and what is timed; 1 along that axis.
    """
    # The cost model's own price of a draft gives way to that of the law.
    verify = np.asarray(time.total - time.draft, dtype=float)
    verify = np.broadcast_to(verify, (shape[0], len(DRAFTS), *shape[2:]))
    verify_s = np.moveaxis(verify, 1, -1)[..., None, None, :]
    # Gauss-Hermite points of standard normals: log-odds of acceptance, logarithm of draft time. The
    # polynomials are imported when they are used.
    (logit, by_logit), (log, by_log) = map(np.polynomial.hermite_e.hermegauss, (7, 3))
    acceptance, draft_s = law.acceptances(logit), law.draft_times_s(log)
    each, _ = best_of_drafts(verify_s, acceptance[:, None, None], draft_s[:, None])
    weights = np.outer(by_logit, by_log).ravel()
    return -np.log(each.reshape(*each.shape[:-2], weights.size)), weights / weights.sum()


def _quantile(centre: FloatArray, sd: FloatArray, chance: FloatArray, level: float) -> FloatArray:
    """Of a mixture of normals along the last axis: Newton's steps, halves where they leave what
    holds it."""
    low = np.min(centre - 6.0 * sd, axis=-1)
    high = np.max(centre + 6.0 * sd, axis=-1)
    mean = np.sum(chance * centre, axis=-1)
    wide = np.sqrt(np.sum(chance * ((centre - mean[..., None]) ** 2 + sd**2), axis=-1))
    found = mean + special.ndtri(level) * wide
    for _ in range(_STEPS):
        z = (found[..., None] - centre) / sd
        excess = special.ndtr(z) @ chance - level
        density = (np.exp(-0.5 * z * z) / sd) @ chance / np.sqrt(2.0 * np.pi)
        low, high = np.where(excess < 0.0, found, low), np.where(excess < 0.0, high, found)
        step = found - excess / np.maximum(density, 1e-300)
        before, inside = found, (step >= low) & (step <= high)
        found = np.where(inside, step, 0.5 * (low + high))
        if np.all(np.abs(found - before) < _CLOSE):
            break
    return np.asarray(found)
