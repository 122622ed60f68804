"""What deployed models predict of each piece of evidence, and how likely all pieces are together.

Each piece y (a logarithm) is predicted as m + e' c + u: m at central constants, c the logarithms of
the machine's constants over their centres with their joint covariance Sigma, e the derivatives that
the cost model gives (to first order, as everywhere), u the error of the model. So all pieces are
together multivariate Student's t with 4 degrees of freedom and the scale matrix

    S = 1.2 (E Sigma E' + U / 2) + D / 2

U: variance of the model's error, of which two pieces of one process (decoding, reading prompts)
share the part in `SHARED`; D: the variances of the measurements. One speed alone has the scale h of
`nuisances.noise_scale`. The constants are integrated out, not drawn: what pieces share of them
cancels in ratios by itself, and nothing is lost to noise of draws. A bound is held against the
conditional distribution given what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from archinfer import special
from archinfer.errors import InputError
from archinfer.hardware.profile import Hardware
from archinfer.inference import pricing
from archinfer.inference.evidence import KINDS, Conditions, Piece
from archinfer.inference.importance import Index
from archinfer.inference.nuisances import SCALE_UNCERTAINTY
from archinfer.inference.operations import operations
from archinfer.inference.scene import GAIN_LOG_SD, Drafting, Scene, reference_scene
from archinfer.inference.statistics import DEGREES
from archinfer.models.shape import FloatArray, Number
from archinfer.phrases import LACKS
from archinfer.physics.decode import decode_time
from archinfer.physics.economy import node_dollars_per_hour, node_power_w
from archinfer.physics.prefill import FIRST_TOKEN_LOG_SD, time_to_first_token
from archinfer.physics.prefill import known as prompts_known
from archinfer.physics.speculation import tokens_per_pass
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload

SHARED = {"decode": 0.7, "prompt": 0.5, "price": 0.7}
"""Part of the variance of the model's error that two observations of one deployment by one process
share: of 75 groups of configurations in archinfer/data/serving.csv (one model, machine, engine,
format and number of nodes; other lengths and users) 0.69 of the mean square error of times per
output token and 0.49 of times to the first. Of prices over costs of output and input of 108 open
models the correlation is 0.70 (`benchmarks/price_over_cost.py`)."""

ANNOUNCED = 0.3
"""Mean, and spread, of the logarithm by which an announced best case exceeds what is measured:
estimate; gpt-oss-120b on wafers was announced at 3,000 tokens/s and independently measured at 2,059
and 1,706 (0.38 and 0.56)."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Logarithms of pieces: centre (n, p), derivatives by constant (n, p, c), errors (p,)."""

    centre: FloatArray
    exposure: FloatArray
    error: FloatArray

    def beside(self, other: Predicted) -> Predicted:
        """Of these pieces, and of others after them."""
        return Predicted(
            np.concatenate([self.centre, other.centre], axis=1),
            np.concatenate([self.exposure, other.exposure], axis=1),
            np.concatenate([self.error, other.error]),
        )

    def take(self, index: Index) -> Predicted:
        """Of some draws."""
        return Predicted(self.centre[index], self.exposure[index], self.error)


def unknown(hardware: Hardware, piece: Piece) -> str:
    """What the profile does not say, without which the piece teaches nothing; "": nothing."""
    kind, process = piece.kind, KINDS[piece.kind].process
    priced = np.all(np.isfinite(node_dollars_per_hour(hardware, hardware.power_w)))
    lacks = {
        "price": process == "price" and not priced,
        "prompt": (process == "prompt" or kind == "input_price") and not prompts_known(hardware),
        "power": kind == "power" and not hardware.power_w > 0.0,
    }
    return next((LACKS[n].format(hardware=hardware.name) for n, yes in lacks.items() if yes), "")


def check(hardware: Hardware, pieces: Sequence[Piece]) -> None:
    """Refuse pieces of which the profile says nothing.

    Raises:
        InputError: names the piece.
    """
    for piece in pieces:
        if missing := unknown(hardware, piece):
            raise InputError(f"{piece.kind}: {missing}")


def predict(scene: Scene, pieces: Sequence[Piece]) -> Predicted:
    """What the draws predict of each piece."""
    count = len(scene.total)
    names = scene.hardware.constants()[0]
    centre = np.empty((count, len(pieces)))
    exposure = np.zeros((count, len(pieces), len(names)))
    error = np.zeros(len(pieces))
    for p, piece in enumerate(pieces):
        value, scaling, error[p] = _OF[KINDS[piece.kind].process](scene, piece)
        with np.errstate(divide="ignore", invalid="ignore"):
            centre[:, p] = np.log(value)
        for c, name in enumerate(names):
            if name in scaling:
                exposure[:, p, c] = scaling[name]
    return Predicted(centre, exposure, error)


_Found = tuple[Number, dict[str, Number], float]


def _workload(scene: Scene, at: Conditions) -> Workload:
    """The workload under the conditions of a piece; what it leaves open is as at the base."""
    traffic = scene.workload.traffic
    context: Number | None = at.context
    if context is None and at.prompt is not None:
        context = at.prompt + (at.output or traffic.output_tokens) / 2.0
    # What memory is kept for has been settled with the nodes.
    changed = replace(
        traffic,
        context_tokens=traffic.context_tokens if context is None else context,
        concurrency=traffic.concurrency if at.concurrency is None else at.concurrency,
        prompt_tokens=traffic.prompt_tokens if at.prompt is None else at.prompt,
        output_tokens=traffic.output_tokens if at.output is None else at.output,
    )
    return replace(scene.workload, traffic=changed)


def _decode(scene: Scene, piece: Piece) -> _Found:
    """Tokens/s of one user, or of all, of the model itself or of a known one."""
    at, error = piece.conditions, scene.hardware.model_error_log_sd
    if piece.model:
        scene = reference_scene(scene, piece.model)
        error = float(np.hypot(error, GAIN_LOG_SD))
    same = _where(at) in (_where(scene.base), _where(Conditions()))
    workload = scene.workload if same else _workload(scene, at)
    time = scene.time if same else decode_time(scene.hardware, workload, scene.mapping)
    gain = scene.gain
    if at.speculation == "off":
        gain = np.ones_like(gain)
    elif scene.drafting is not None and (piece.model or _drafted(at) or not same):
        gain = _gain(scene, scene.drafting, workload, time, at)
    speed = scene.software * gain / np.asarray(time.total)
    if at.speculation is not None and at.speculation != "off":
        speed = np.where(gain > 1.0, speed, np.nan)
    users = workload.traffic.concurrency if piece.kind == "throughput" else 1.0
    total = np.asarray(time.total)
    scaling: dict[str, Number] = {n: -np.asarray(s) / total for n, s in time.scaling.items()}
    return speed * users, scaling, error


def _where(at: Conditions) -> tuple[float | None, ...]:
    return at.context, at.concurrency, at.prompt, at.output


def _drafted(at: Conditions) -> bool:
    return at.speculation is not None and at.speculation.isdigit()


def _gain(
    scene: Scene, drafting: Drafting, workload: Workload, time: TokenTime, at: Conditions
) -> FloatArray:
    """Tokens a pass, net of drafting, where the service drafts as many as it always does."""
    drafts = drafting.drafts
    if _drafted(at):
        drafts = np.where(drafts > 0.0, float(at.speculation or 0.0), 0.0)
    traffic = replace(workload.traffic, draft_tokens=drafts)
    verify = decode_time(scene.hardware, replace(workload, traffic=traffic), scene.mapping)
    each_s = (np.asarray(verify.total) - verify.draft + drafts * drafting.draft_s) / (
        tokens_per_pass(drafting.acceptance, drafts)
    )
    gain = np.maximum(np.asarray(time.total) / each_s * drafting.text, 1.0)
    return np.where(drafts > 0.0, gain, 1.0)


def _prompt(scene: Scene, piece: Piece) -> _Found:
    """Tokens of a prompt read a second, or seconds to the first token."""
    workload = _workload(scene, replace(piece.conditions, context=piece.conditions.prompt))
    if piece.conditions.prompt is None:
        held = workload.traffic.context_tokens
        workload = replace(workload, traffic=replace(workload.traffic, prompt_tokens=held))
    time = time_to_first_token(scene.hardware, workload, scene.mapping, scene.time)
    assert time is not None  # `check` has looked
    error = float(np.hypot(scene.hardware.model_error_log_sd, FIRST_TOKEN_LOG_SD))
    scaling = dict(time.scaling)
    if piece.kind == "ttft":
        total = np.asarray(time.total)
        # What makes prompts fast makes times short: the shared error has the other sign.
        return total, {n: np.asarray(s) / total for n, s in scaling.items()}, -error
    read = np.asarray(time.read)
    scaling.pop("first_token_time", None)
    prompt = np.asarray(workload.traffic.prompt_tokens, dtype=float)
    return prompt / read, {n: -np.asarray(s) / read for n, s in scaling.items()}, error


def _draft(scene: Scene, piece: Piece) -> _Found:
    """Tokens a pass, before what drafting takes."""
    if scene.drafting is None:
        return scene.gain, {}, 0.0
    drafts = scene.drafting.drafts
    passed = tokens_per_pass(scene.drafting.acceptance, drafts) * scene.drafting.text
    return np.where(drafts > 0.0, np.clip(passed, 1.0, 1.0 + drafts), 1.0), {}, 0.0


def _shape(scene: Scene, piece: Piece) -> _Found:
    shape = scene.workload.shape
    values = {
        "total": scene.total,
        "active": scene.active,
        "layers": shape.layers,
        "hidden_size": shape.hidden_size,
    }
    return values[piece.kind], {}, 0.0


def _service(scene: Scene, piece: Piece) -> _Found:
    """Nodes in use, or their power."""
    if piece.kind == "nodes":
        return scene.nodes, {}, 0.0
    each_w = node_power_w(scene.hardware, scene.workload, scene.mapping, scene.time.total)
    return each_w * scene.nodes, {}, 0.0


def _price(scene: Scene, piece: Piece) -> _Found:
    """Dollars for a million output or input tokens."""
    workload = _workload(scene, piece.conditions)
    cost, scaling = pricing.token_dollars(scene.hardware, workload, scene.mapping, piece.kind)
    if piece.kind == "output_price":
        cost = cost / (scene.gain * scene.software)
    over, spread = operations().price_over_cost[piece.kind]
    return over * cost, scaling, spread


_OF = {
    "decode": _decode,
    "prompt": _prompt,
    "draft": _draft,
    "shape": _shape,
    "service": _service,
    "price": _price,
}


@dataclass(frozen=True, slots=True)
class Noise:
    """How observed logarithms scatter about the predicted ones."""

    scale: FloatArray
    """Scale matrices S of Student's t, shape (n, p, p)."""
    residual: FloatArray
    """Observed less predicted, shape (n, p)."""
    bound: tuple[int, ...]
    """1: at most, -1: at least, 0: a value; of each piece."""

    def first(self, count: int) -> Noise:
        """Of the first pieces alone."""
        return Noise(self.scale[:, :count, :count], self.residual[:, :count], self.bound[:count])


def noise(hardware: Hardware, pieces: Sequence[Piece], found: Predicted) -> Noise:
    """Residuals and scale matrices of pieces."""
    by_constants = found.exposure @ hardware.constants()[2] @ found.exposure.swapaxes(1, 2)
    process = [(KINDS[p.kind].process, p.model, p.deployment) for p in pieces]
    shared = np.array([[SHARED.get(a[0], 0.0) * (a == b) for b in process] for a in process])
    np.fill_diagonal(shared, 1.0)
    half = (DEGREES - 2.0) / DEGREES
    own = half * shared * np.outer(found.error, found.error)
    scale = SCALE_UNCERTAINTY * (by_constants + own)
    values = np.log([p.value for p in pieces])
    spreads = np.array([p.spread for p in pieces])
    best = np.array([p.stated == "announced" for p in pieces])
    values = values - ANNOUNCED * best * [KINDS[p.kind].announced for p in pieces]
    scale = scale + half * np.diag(spreads**2 + np.where(best, ANNOUNCED**2, 0.0) + 1e-10)
    bound = tuple({"at most": 1, "at least": -1}.get(p.stated, 0) for p in pieces)
    return Noise(scale, values - found.centre, bound)


def log_likelihood(at: Noise) -> tuple[FloatArray, FloatArray]:
    """Log density of all pieces, without constants of the data, and the largest deviation.

    Returns:
        Shape (n,) each; a deviation is that of one piece from what all others leave, in its scales.
    """
    values = [i for i, b in enumerate(at.bound) if b == 0]
    bounds = [i for i, b in enumerate(at.bound) if b != 0]
    with np.errstate(invalid="ignore"):
        alive = np.asarray(np.isfinite(at.residual).all(axis=1))
    log_p = np.full(len(alive), -np.inf)
    deviation = np.full(len(alive), np.inf)
    residual, scale = at.residual[alive], at.scale[alive]
    given = conditional(scale, residual, values, bounds)
    log_p[alive] = given.log_density
    deviation[alive] = np.abs(given.deviations).max(axis=1, initial=0.0)
    for k, b in enumerate(bounds):
        # at most y: the prediction with its noise lies below.
        t = at.bound[b] * (residual[:, b] - given.mean[:, k]) / np.sqrt(given.variance[:, k])
        with np.errstate(divide="ignore"):
            log_p[alive] += np.log(special.stdtr(given.degrees, t))
        deviation[alive] = np.maximum(deviation[alive], -t)
    return log_p, deviation


def held(
    hardware: Hardware, pieces: Sequence[Piece], found: Predicted, given: int = 0
) -> dict[str, Number]:
    """Columns of a batch: its draws held against pieces of evidence, all together.

    The first `given` pieces are counted already: the density is that of the others given them.
    """
    at = noise(hardware, pieces, found)
    log_p, deviation = log_likelihood(at)
    already = log_likelihood(at.first(given))[0] if given else 0.0
    before = log_likelihood(at.first(len(pieces) - 1))[0] - already if len(pieces) > 1 else 0.0
    return {"log_speed": log_p - already, "log_before": before, "deviation": deviation}


@dataclass(frozen=True, slots=True)
class Given:
    """What some pieces say of the residuals of others."""

    log_density: FloatArray
    """Of those that are given, shape (n,)."""
    deviations: FloatArray
    """Of each of them from what the rest of them leaves, in its scales, shape (n, given)."""
    degrees: float
    mean: FloatArray
    """Of Student's t of each other residual, shape (n, others)."""
    variance: FloatArray
    """Square of its scale."""


def conditional(
    scale: FloatArray, residual: FloatArray, given: Sequence[int], others: Sequence[int]
) -> Given:
    """Density of the given residuals, and what they leave of the others (multivariate t)."""
    count, degrees = len(residual), DEGREES + len(given)
    own = np.einsum("npp->np", scale)[:, others]
    if not len(given):
        nothing = np.zeros((count, 0))
        return Given(np.zeros(count), nothing, degrees, 0.0 * own, own)
    among = scale[:, given][:, :, given]
    inverse = np.linalg.inv(among)
    r = residual[:, given]
    solved = np.einsum("npq,nq->np", inverse, r)
    square = np.einsum("np,np->n", r, solved)
    _, log_det = np.linalg.slogdet(among)
    log_p = -0.5 * log_det - 0.5 * degrees * np.log1p(square / DEGREES)
    deviations = solved / np.sqrt(np.einsum("npp->np", inverse))
    across = scale[:, others][:, :, given]
    mean = np.einsum("nop,np->no", across, solved)
    left = own - np.einsum("nop,npq,noq->no", across, inverse, across)
    grown = ((DEGREES + square) / degrees)[:, None]
    return Given(log_p, deviations, degrees, mean, np.maximum(left, 1e-12) * grown)
