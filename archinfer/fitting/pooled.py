"""Measured times of many configurations as one model of the constants: what a fit evaluates.

Rows of one model and one cell (its machine, engine and weight format) err alike, so they share an
effect; hundreds of configurations of six models say far less than hundreds of models would. Times
to the first token of few users are rows of their own, with noise of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from archinfer.fitting import serving
from archinfer.fitting.cases import Case, prepare
from archinfer.fitting.logfit import Effects, LogFit, Scale, fit_logs, indicators
from archinfer.fitting.observations import of_engine
from archinfer.fitting.serving import Compared, ServingAccuracy, ServingRow
from archinfer.hardware.figures import KEYS, SOFTWARE_TIMES
from archinfer.hardware.profile import Hardware
from archinfer.inference.statistics import DEGREES
from archinfer.models import catalogue
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.decode import decode_time, log_sd
from archinfer.physics.mapping import Placement
from archinfer.physics.prefill import FIRST_TOKEN_LOG_SD, PromptTime, time_to_first_token
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload

SOFTWARE = "software:"

MODEL_SD, CELL_SD, NOISE = 0.02, 0.05, 0.10
"""Standard deviations of the effects of a model and of a cell, and scale of the noise, natural
logarithm: those with which a model that is left out is predicted best (benchmarks/gpu_constants.py;
cells of 0.12 with models of 0.05 err by 1.106 in place of 1.098)."""

FIRST_USERS = 4.0
"""Users up to which times to the first token are fitted: more wait for each other."""

FIRST_CELL_SD = 0.3
"""As `CELL_SD`, of times to the first token: estimate."""

OUTSIDE, DOUBTFUL = 0.05, 0.1
"""What a row counts that is slowed by something that the model does not have (more than 256 users,
attention copied over nodes), and a speed that its source doubts."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that differ in numbers only, evaluated in one call."""

    index: NDArray[np.intp]
    hardware: Hardware
    workload: Workload
    mapping: Placement
    software: NDArray[np.intp]
    """Position among the names of the factor of its fixed times; -1: the usual ones."""
    routed_kernels: FloatArray
    """Kernels that its routed experts add over those of the usual software."""
    first: bool
    """Times to the first token in place of those of a pass."""

    def timed(self, hardware: Hardware) -> TokenTime | PromptTime:
        """What was measured, as predicted for the machine."""
        found = decode_time(hardware, self.workload, self.mapping)
        first = self.first and time_to_first_token(hardware, self.workload, self.mapping, found)
        return first or found


def _doubt(case: Case) -> float:
    row = case.row
    if (row.batch or 1.0) > 256.0 or row.attention_replicas > 1:
        return OUTSIDE
    return DOUBTFUL if row.confidence == "low" else 1.0


def _kind(case: Case) -> tuple[object, ...]:
    """Equal for cases that differ in numbers only."""
    row, traffic = case.row, case.workload.traffic
    return (
        case.model_key, row.architecture, row.profile, row.weights, traffic.weight_bits,
        traffic.kv_bits, case.mapping.whole_experts, row.attention_replicas > 1,
        row.prompt_tokens is None, bool(row.draft_tokens), case.side is None,
    )  # fmt: skip


class Pool:
    """Logarithms of the times of all rows by the logarithms of the constants."""

    def __init__(
        self,
        cases: Sequence[Case],
        names: Sequence[str],
        machine: Callable[[str], Hardware],
        first_users: float = FIRST_USERS,
    ) -> None:
        """Rows of `cases`, each of which came about in one way.

        Args:
            cases: measured speeds, and times to the first token of at most `first_users`.
            names: of the constants; `software:NAME` is the factor of the fixed times.
            machine: gives the profile of a name.
        """
        self.names = tuple(names)
        first = [
            i
            for i, c in enumerate(cases)
            if c.row.first_token_s and (c.row.batch or 1.0) <= first_users
        ]
        self.cases = [*cases, *(cases[i] for i in first)]
        self.first_row = {i: len(cases) + at for at, i in enumerate(first)}
        """The row of the time to the first token of a case that has one."""
        self.first = np.arange(len(self.cases)) >= len(cases)
        groups: dict[tuple[object, ...], list[int]] = {}
        for i, c in enumerate(self.cases):
            groups.setdefault((*_kind(c), self.first[i]), []).append(i)
        self.blocks = [self._block(index, machine) for index in groups.values()]
        per_token_s = [(c.row.accepted_tokens or 1.0) / c.row.tokens_per_s for c in cases]
        first_s = [cases[i].row.first_token_s or np.nan for i in first]
        self.measured = np.log(np.array([*per_token_s, *first_s]))
        scale = NOISE / (FIRST_TOKEN_LOG_SD * np.sqrt(0.5))
        self.weight = np.array([_doubt(c) for c in self.cases]) * np.where(self.first, scale, 1.0)
        self.models = np.array([str(c.model_key) for c in self.cases])
        self.machines = np.array([str(c.row.profile) for c in self.cases])
        rows = zip(self.cases, self.models, self.first, strict=True)
        self.cells = np.array(
            [f"{at} {m} {c.row.profile} {c.row.software} {c.row.weights}" for c, m, at in rows]
        )

    @property
    def effects(self) -> Effects:
        """Of models and of cells."""
        kinds, firsts = np.unique(self.cells), self.cells[self.first]
        sd = np.where(np.isin(kinds, firsts), FIRST_CELL_SD, CELL_SD)
        models = np.full(len(np.unique(self.models)), MODEL_SD)
        member = np.hstack([indicators(self.models), indicators(self.cells)])
        return Effects(member, np.concatenate([models, sd]))

    def _block(self, index: Sequence[int], machine: Callable[[str], Hardware]) -> Block:
        own = [self.cases[i] for i in index]
        one = own[0]

        def column(of: Callable[[Case], object]) -> FloatArray:
            return np.array([of(c) for c in own], dtype=float)

        traffic = one.workload.traffic
        traffic = replace(
            traffic,
            context_tokens=column(lambda c: c.workload.traffic.context_tokens),
            concurrency=column(lambda c: c.workload.traffic.concurrency),
            prompt_tokens=None if traffic.prompt_tokens is None
            else column(lambda c: c.workload.traffic.prompt_tokens),
            output_tokens=column(lambda c: c.workload.traffic.output_tokens),
            draft_tokens=column(lambda c: c.row.draft_tokens) if one.row.draft_tokens else 0,
        )  # fmt: skip
        mapping = replace(
            one.mapping,
            layers_per_stage=column(lambda c: np.ravel(c.mapping.layers_per_stage)[0]),
            tensor_parallel=column(lambda c: np.ravel(c.mapping.tensor_parallel)[0]),
            data_parallel=one.row.attention_replicas > 1,
        )
        factors = [SOFTWARE + (c.row.software or "") for c in own]
        software = [self.names.index(f) if f in self.names else -1 for f in factors]
        hardware = machine(str(one.row.profile))
        return Block(
            np.array(index), hardware, replace(one.workload, traffic=traffic), mapping,
            np.array(software), column(lambda c: hardware.routed_kernels_with(c.row.software)),
            bool(self.first[index[0]]),
        )  # fmt: skip

    def machine(self, block: Block, constants: Mapping[str, float]) -> Hardware:
        """The block's machine with these constants."""
        return block.hardware.with_constants(constants)

    def ledger(
        self, block: Block, scaling: Mapping[str, Number], constants: Mapping[str, float]
    ) -> Mapping[str, Number]:
        """Seconds by constant."""
        return scaling

    def __call__(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logarithms of times (n,) and derivatives (n, k)."""
        values = dict(zip(self.names, np.exp(theta), strict=True))
        constants = {n: v for n, v in values.items() if not n.startswith(SOFTWARE)}
        factors = np.append(np.exp(theta), 1.0)
        log_s, slope = np.empty(len(self.cases)), np.zeros((len(self.cases), len(self.names)))
        for b in self.blocks:
            hardware = self.machine(b, constants)
            hardware = hardware.with_fixed_times(factors[b.software], b.routed_kernels)
            timed = b.timed(hardware)
            total = np.asarray(timed.total)
            log_s[b.index] = np.log(total)
            ledger = self.ledger(b, timed.scaling, constants)
            for j, name in enumerate(self.names):
                slope[b.index, j] = ledger.get(name, 0.0) / total
            own = np.flatnonzero(b.software >= 0)
            fixed = sum((ledger.get(name, 0.0) for name in SOFTWARE_TIMES), start=0.0 * total)
            slope[b.index[own], b.software[own]] = (fixed / total)[own]
        return log_s, slope

    def fit(
        self,
        mean: FloatArray,
        covariance: FloatArray,
        kept: FloatArray | bool = True,
        start: FloatArray | None = None,
    ) -> LogFit:
        """The constants from the rows that are `kept`, with a prior's mean and covariance."""
        most = [KEYS[n].most if n in KEYS else np.inf for n in self.names]
        return fit_logs(
            self, self.measured, mean, covariance, Scale(NOISE), weight=self.weight * kept,
            effects=self.effects, upper=np.log(most), start=start,
        )  # fmt: skip

    def noise(self, found: LogFit, mean: float, sd: float) -> tuple[float, float]:
        """Logarithm of the scale of what a fit leaves of a model's speeds, and its spread.

        Rows of a cell err alike: each cell tells of it once.

        Args:
            found: the fit.
            mean, sd: belief before.
        """
        own = ~self.first & (self.weight == 1.0)
        errors = np.array(
            [np.median(found.difference[own & (self.cells == c)]) for c in set(self.cells[own])]
        )
        rows = 0.5 / sd**2
        squares = rows * np.exp(2.0 * mean) + (DEGREES - 2.0) / DEGREES * float(errors @ errors)
        rows += len(errors)
        return 0.5 * float(np.log(squares / rows)), float(np.sqrt(0.5 / rows))


def compared(rows: Sequence[ServingRow]) -> list[Compared]:
    """Configurations of serving engines as the shipped profiles predict them."""
    cases = [prepare(of_engine(r), Hardware.load(r.profile), catalogue.load(r.model)) for r in rows]
    pool = Pool(cases, (), Hardware.load, np.inf)
    log_s, sd = np.empty((2, len(pool.cases)))
    for b in pool.blocks:
        timed = b.timed(b.hardware)
        log_s[b.index], sd[b.index] = np.log(timed.total), log_sd(b.hardware, timed)
    error = [*map(float, log_s - pool.measured), np.nan]
    first = pool.first_row
    return [
        Compared(r, error[i], float(sd[i]), error[first.get(i, -1)]) for i, r in enumerate(rows)
    ]


def serving_accuracy(given: Sequence[ServingRow] | None = None) -> ServingAccuracy:
    """Predictions of the shipped profiles against all configurations, or `given` ones."""
    return serving.grouped(compared(serving.rows() if given is None else given))
