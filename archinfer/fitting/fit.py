"""Fits the constants of a profile that no data sheet gives to published speeds.

Configurations of serving engines come first: each came about in one way, and there are hundreds of
a few models (`archinfer.fitting.pooled`). What they leave is the prior of the single speeds. These
are a mixture: a speed of which the number of nodes or the use of speculation is not known could
have come about in several ways, each with its chance, and the likelihood sums over them. The noise
of log(speed) is Student's t with 4 degrees of freedom, so that no single row can pull the fit away.
Constants live in log space with normal priors, so all of them stay physically possible. The
covariance is that of the Laplace approximation at the maximum of the posterior.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from archinfer import special
from archinfer.fitting.cases import Case, prepare_all
from archinfer.fitting.laplace import laplace
from archinfer.fitting.observations import Observation
from archinfer.fitting.pooled import SOFTWARE, Pool
from archinfer.fitting.prior import Prior, fit_prior
from archinfer.hardware.figures import KEYS, Figure, SoftwareFactor
from archinfer.hardware.profile import Hardware
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.inference.statistics import DEGREES, log_density
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.decode import decode_time
from archinfer.physics.mapping import Placement
from archinfer.physics.speculation import speculative_time

SPECULATION = ("spread", "acceptance", "acceptance_sd", "draft_time", "probability")
_NORMAL_POINTS, _NORMAL_WEIGHTS = hermegauss(5)
"""Gauss-Hermite points of a standard normal: how acceptance of one model differs from the mean."""


@dataclass(frozen=True)
class FitModel:
    """Speeds as a function of parameters, for one profile."""

    hardware: Hardware
    names: tuple[str, ...]
    """Constants by their profile key (logarithms), `software:NAME` (logarithm of its fixed
    times over the usual), `noise` (logarithm), and, where any row may have used speculation,
    `spread`, `acceptance_sd`, `draft_time` (logarithms), `acceptance`, `probability` (log-odds)."""
    constants: int
    """How many of them are constants of the profile."""
    mean: FloatArray
    root: FloatArray
    """Of the prior: its covariance is `root @ root.T`, shape (p, p)."""

    @property
    def sd(self) -> FloatArray:
        """Of the prior."""
        return np.asarray(np.linalg.norm(self.root, axis=1))

    @classmethod
    def of(
        cls,
        hardware: Hardware,
        cases: Sequence[Case],
        prior: Prior | None = None,
        software: Iterable[str] = (),
    ) -> FitModel:
        """The parameters that `cases` and further `software` need, with their prior."""
        prior = fit_prior(hardware) if prior is None else prior
        beliefs = dict(prior.constants)
        count = len(beliefs)
        named = {c.row.software for c in cases if c.row.software is not None} | set(software)
        other = (0.0, prior.software_log_sd)
        beliefs |= {SOFTWARE + name: prior.software.get(name, other) for name in sorted(named)}
        beliefs["noise"] = prior.noise
        if any(c.row.speculative is not False and c.row.accepted_tokens is None for c in cases):
            beliefs |= {name: getattr(prior, name) for name in SPECULATION}
        mean, sd = np.array(list(beliefs.values())).T
        return cls(hardware, tuple(beliefs), count, mean, np.diag(sd))

    def prior_value(self, name: str) -> float:
        """The prior's centre of a parameter, in its own space."""
        return _own_space(name, float(self.mean[self.names.index(name)]))

    def column(self, theta: FloatArray, name: str) -> FloatArray:
        """One parameter of each of n vectors, shape (n, 1)."""
        return theta[:, self.names.index(name)][:, None]

    def components(
        self, theta: FloatArray, case: Case, deviate: Number = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The ways in which a case's speed can come about.

        Args:
            theta: n parameter vectors, shape (n, p).
            deviate: how far the log-odds of acceptance of the case's model are from the mean, in
                standard deviations; a number, shape (n, 1), or several as (d, 1, 1).

        Returns:
            Centre and scale of log(tokens/s), logarithm of the chance; (n, ways) or (d, n, ways).
        """
        shape = (*np.shape(deviate)[:-2], len(theta), len(case.nodes))
        row, noise = case.row, np.exp(self.column(theta, "noise"))
        ways: list[tuple[FloatArray, FloatArray, FloatArray]] = []

        def add(time: Number, scale: FloatArray, log_gain: Number, log_chance: Number) -> None:
            centre = log_gain - np.log(np.broadcast_to(time, shape))
            chance = np.broadcast_to(case.log_weight, shape) - log_chance
            ways.append((centre, np.broadcast_to(scale, shape), chance))

        if row.draft_tokens is not None and row.accepted_tokens is not None:
            pass_s = self.pass_s(theta, case, row.draft_tokens)
            add(pass_s, noise, np.log(row.accepted_tokens), 0.0)
        else:
            maybe = row.speculative is None
            logit = self.column(theta, "probability") if maybe else np.zeros(1)
            if row.speculative is not True:
                unused = np.logaddexp(0.0, logit) if maybe else 0.0
                add(self.pass_s(theta, case), noise, 0.0, unused)
            if row.speculative is not False:
                spread = np.hypot(noise, np.exp(self.column(theta, "spread")))
                used = np.logaddexp(0.0, -logit) if maybe else 0.0
                add(self.speculative_s(theta, case, deviate), spread, 0.0, used)
        centre, scale, chance = (np.concatenate(x, axis=-1) for x in zip(*ways, strict=True))
        return centre, scale, chance

    def _at(self, theta: FloatArray, case: Case, axes: int = 1) -> Hardware:
        """The profile at n vectors, with the software of a case.

        Constants have shape (n, 1), or with more `axes` of length 1.
        """
        shape = (len(theta),) + (1,) * axes
        values, names = np.exp(theta[:, : self.constants]).T, self.names[: self.constants]
        at = {n: np.minimum(v, KEYS[n].most) for n, v in zip(names, values, strict=True)}
        hardware = self.hardware.with_constants({n: v.reshape(shape) for n, v in at.items()})
        software = SOFTWARE + (case.row.software or "")
        if software not in self.names:
            return hardware
        return hardware.with_fixed_times(
            np.exp(self.column(theta, software)).reshape(shape),
            self.hardware.routed_kernels_with(case.row.software),
        )

    def pass_s(self, theta: FloatArray, case: Case, draft_tokens: float = 0) -> Number:
        """Seconds of a pass, shape (n, mappings)."""
        drafting = replace(case.workload.traffic, draft_tokens=draft_tokens)
        workload = replace(case.workload, traffic=drafting)
        return decode_time(self._at(theta, case), workload, case.mapping, case.side).total

    def speculative_s(self, theta: FloatArray, case: Case, deviate: Number) -> Number:
        """Seconds of a token with speculation, shape (n, mappings)."""
        draft_s = case.draft_time_s(self._at(theta, case))
        if draft_s is None:
            draft_s = np.exp(self.column(theta, "draft_time"))
        between = np.exp(self.column(theta, "acceptance_sd"))
        log_odds = self.column(theta, "acceptance") + between * deviate
        return speculative_time(
            self._at(theta, case, 2),
            case.workload,
            _column(case.mapping),
            np.asarray(special.expit(log_odds))[..., None],
            np.asarray(draft_s)[..., None],
            case.side,
        )

    def _log_likelihoods(
        self, theta: FloatArray, case: Case, deviate: Number = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Centres, and logarithms of chance and density at the observed speed, as `components`."""
        centre, scale, chance = self.components(theta, case, deviate)
        log_t = log_density((case.log_speed - centre) / scale) - np.log(scale)
        return centre, chance + log_t

    def negative_log_posterior(self, theta: FloatArray, cases: Sequence[Case]) -> FloatArray:
        """Up to a constant; theta (n, p) -> (n,).

        The rows of one model share its acceptance, which is summed over.
        """

        def log_likelihood(case: Case, deviate: Number = 0.0) -> FloatArray:
            log_p = self._log_likelihoods(theta, case, deviate)[1]
            return np.asarray(np.logaddexp.reduce(log_p, axis=-1))

        away = np.linalg.solve(self.root, (theta - self.mean).T)
        out = 0.5 * np.sum(away**2, axis=0)
        together: dict[tuple[float, ...], list[Case]] = {}
        for case in cases:
            if case.row.speculative is False or case.row.accepted_tokens is not None:
                out = out - log_likelihood(case)
            else:
                together.setdefault(case.model_key, []).append(case)
        log_weights = np.log(_NORMAL_WEIGHTS / _NORMAL_WEIGHTS.sum())
        deviates = _NORMAL_POINTS[:, None, None]
        for own in together.values():
            each = np.sum([log_likelihood(case, deviates) for case in own], axis=0)
            out = out - np.logaddexp.reduce(log_weights[:, None] + each, axis=0)
        return np.asarray(out)

    def fit(self, cases: Sequence[Case], start: FloatArray | None = None) -> Fit:
        """The maximum of the posterior of `cases` and its Laplace covariance; `start`: parameters
        to begin at, else the prior's mean."""
        served = [c for c in cases if c.served]
        single = [c for c in cases if not c.served]
        before = self._after(served, start) if served else self
        ids = tuple(case.row.id for case in cases)
        if not single:
            return Fit(self, before.mean, before.root @ before.root.T, ids)
        begin = np.zeros(len(self.names))
        if start is not None and before is self:
            begin = np.asarray(np.linalg.solve(self.root, start - self.mean))

        def objective(z: FloatArray) -> FloatArray:
            return before.negative_log_posterior(before.mean + z @ before.root.T, single)

        z, inverse = laplace(objective, begin)
        covariance = before.root @ inverse @ before.root.T
        return Fit(self, before.mean + before.root @ z, covariance, ids)

    def _after(self, cases: Sequence[Case], start: FloatArray | None) -> FitModel:
        """The same with what configurations of serving engines leave as the prior."""
        known = [i for i, name in enumerate(self.names) if name not in ("noise", *SPECULATION)]
        pool = Pool(cases, [self.names[i] for i in known], lambda _: self.hardware)
        covariance = self.root @ self.root.T
        of = np.ix_(known, known)
        begin = None if start is None else start[known]
        found = pool.fit(self.mean[known], covariance[of], start=begin)
        covariance[of] = found.covariance
        mean = self.mean.copy()
        mean[known] = found.theta
        i = self.names.index("noise")
        mean[i], sd = pool.noise(found, float(mean[i]), float(self.sd[i]))
        covariance[i, i] = sd**2
        return replace(self, mean=mean, root=np.asarray(np.linalg.cholesky(covariance)))


@dataclass(frozen=True)
class Fit:
    """Parameters, most likely values (p,), with their covariance (p, p)."""

    model: FitModel
    mode: FloatArray
    covariance: FloatArray
    ids: tuple[str, ...]
    """The rows that were fitted to."""

    def value(self, name: str) -> float:
        """A parameter in its own space (log-odds turned into a chance, logarithms undone)."""
        return _own_space(name, float(self.mode[self.model.names.index(name)]))

    def sd(self, name: str) -> float:
        """Its standard deviation, in the space of the fit."""
        i = self.model.names.index(name)
        return float(np.sqrt(self.covariance[i, i]))

    @property
    def constants(self) -> dict[str, float]:
        """The constants of the profile, in SI units; no share is above 1."""
        names = self.model.names[: self.model.constants]
        return {name: min(self.value(name), KEYS[name].most) for name in names}

    @property
    def noise_log_sd(self) -> float:
        """Spread of log(speed) that the constants do not explain."""
        return self.value("noise") * float(np.sqrt(DEGREES / (DEGREES - 2.0)))

    @property
    def constants_covariance(self) -> FloatArray:
        """Of the logarithms of the profile's constants."""
        return self.covariance[: self.model.constants, : self.model.constants]

    @property
    def software(self) -> tuple[SoftwareFactor, ...]:
        """Fixed times of each other software over the usual, with the sd of the logarithm."""
        plain = (n.removeprefix(SOFTWARE) for n in self.model.names if n.startswith(SOFTWARE))
        routed = self.model.hardware.routed_kernels_with
        return tuple(
            SoftwareFactor(n, self.value(SOFTWARE + n), self.sd(SOFTWARE + n), routed(n))
            for n in plain
        )

    @property
    def speculation(self) -> SpeculationLaw | None:
        """The law of speculation; None where no row may have used any."""
        if "acceptance" not in self.model.names:
            return None
        return SpeculationLaw(
            acceptance=self.value("acceptance"),
            # Of a model not fitted to: its own deviation, and what is not known of the mean.
            acceptance_logit_sd=float(np.hypot(self.sd("acceptance"), self.value("acceptance_sd"))),
            draft_time_s=self.value("draft_time"),
            draft_time_log_sd=self.sd("draft_time"),
            probability=self.value("probability"),
            spread_log_sd=self.value("spread"),
            source=self._source,
        )

    @property
    def _source(self) -> str:
        return f"fit to {len(self.ids)} published speeds"

    @property
    def hardware(self) -> Hardware:
        """The profile with the fitted constants, their covariance, model error and speculation."""
        base, values, covariance = self.model.hardware, self.constants, self.constants_covariance
        figures: list[Figure] = []
        for figure in base.figures:
            if (key := figure.key) in values:
                sd = float(np.sqrt(covariance.diagonal()[list(values).index(key)]))
                figure = replace(figure, value=values[key], log_sd=sd, source=self._source)
            elif figure.key == "model_error":
                figure = replace(figure, value=self.noise_log_sd, source=self._source)
            figures.append(figure)
        return replace(
            base.with_constants(values),
            model_error_log_sd=self.noise_log_sd,
            figures=tuple(figures),
            covariance_names=tuple(values),
            log_covariance=tuple(tuple(float(x) for x in row) for row in covariance),
            speculation=self.speculation,
            software=self.software,
        )

    def machine(self, case: Case) -> Hardware:
        """At the most likely values, with the software of a case."""
        return self.model._at(self.mode[None, :], case)

    def draws(self, case: Case, count: int, seed: int) -> FloatArray:
        """Predicted log(tokens/s) of a case, everything uncertain drawn; shape (count,)."""
        rng = np.random.default_rng(seed)
        theta = self.mode + _normal(rng, count, self.covariance)
        deviate = rng.standard_normal((count, 1))
        centre, scale, chance = self.model.components(theta, case, deviate)
        share = np.exp(chance - np.logaddexp.reduce(chance, axis=1)[:, None])
        way = (share.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1)
        way = np.minimum(way, share.shape[1] - 1)
        row = np.arange(count)
        noise = rng.standard_t(DEGREES, size=count)
        return np.asarray(centre[row, way] + scale[row, way] * noise)

    def residuals(self, cases: Sequence[Case]) -> FloatArray:
        """log(observed / predicted) of each case, in the way that explains it best."""
        out = []
        for case in cases:
            centre, log_likelihood = self.model._log_likelihoods(self.mode[None, :], case)
            out.append(case.log_speed - float(centre[0, int(np.argmax(log_likelihood))]))
        return np.array(out)


def fit_rows(
    hardware: Hardware,
    rows: Sequence[Observation],
    prior: Prior | None = None,
    software: Iterable[str] = (),
) -> tuple[Fit, list[Case]]:
    """Fits a profile to observations of it; returns the fit and the prepared cases.

    Software that no row runs keeps the speed and spread of the prior.
    """
    prior = fit_prior(hardware) if prior is None else prior
    centre = {name: float(np.exp(mean)) for name, (mean, _) in prior.constants.items()}
    # The mapping that is fastest is chosen with the prior's constants, once.
    hardware = hardware.with_constants(centre)
    cases = prepare_all(rows, hardware)
    return FitModel.of(hardware, cases, prior, software).fit(cases), cases


def quantiles(
    draws: FloatArray, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
) -> FloatArray:
    """Quantiles of draws of log(tokens/s), in tokens/s."""
    return np.asarray(np.exp(np.quantile(draws, levels)))


def without_model(fit: Fit, cases: Sequence[Case], left_out: Case) -> Fit:
    """The same fit without any row of the left-out case's architecture."""
    kept = [c for c in cases if c.model_key != left_out.model_key]
    return fit.model.fit(kept, fit.mode)


def _column(mapping: Placement) -> Placement:
    """The mappings down a column, so that numbers of drafts go along the rows."""
    return replace(
        mapping,
        layers_per_stage=np.asarray(mapping.layers_per_stage)[:, None],
        tensor_parallel=np.asarray(mapping.tensor_parallel)[:, None],
    )


def _own_space(name: str, at: float) -> float:
    odds = name in ("acceptance", "probability")
    return float(special.expit(at) if odds else np.exp(at))


def _normal(rng: np.random.Generator, count: int, covariance: FloatArray) -> FloatArray:
    """Draws about zero; directions without variance are allowed."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(rng.standard_normal((count, len(covariance))) @ root.T)
