"""How well the inverse works where the truth is known: sizes inferred from speeds, held against it.

    python benchmarks/inverse_accuracy.py [--write] [--samples 2048] [--models a,b] [--seconds 600]

Each model is taken for unknown, its maker's models left out of the fit of the machine's constants
and of the prior. Machine, nodes (where published), weight format, users and lengths are known, and
the software where the profile lists it. Evidence:

- one speed: of few users with a short prompt;
- two observations: and the speed of many users;
- all: and both speeds with a long prompt, and the times to the first token of both prompts.

Cases: serving engines (archinfer/data/serving.csv), of each model on each machine its most measured
configuration; single users of GPUs (archinfer/data/single_user.csv), one speed of each model on
each machine; wafers (archinfer/data/observations.yaml), one speed of each model and number of
wafers.

Rivals: the prior's median; a regression of the size on speed and price of the model as it is hosted
(archinfer/data/announced_models.csv), makers left out, which knows no hardware; and bandwidth over
bytes: active = bandwidth x nodes / speed / bytes of a parameter. `--write` puts the tables into
docs/validation.md.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import chain

import gpu_constants as gpu
import numpy as np
import page

from archinfer.fitting import observations, serving
from archinfer.fitting.fit import Fit, fit_rows
from archinfer.fitting.logfit import LogFit
from archinfer.fitting.serving import ServingRow
from archinfer.fitting.validation import inverse_cases
from archinfer.hardware.profile import Hardware
from archinfer.inference.evidence import KINDS, Conditions, Evidence, Piece
from archinfer.inference.infer import infer
from archinfer.inference.posterior import Posterior
from archinfer.inference.prior import (
    ShapePrior,
    announced,
    features,
    fit_prior,
    same_shape,
    year_of,
)
from archinfer.inference.regression import Regression
from archinfer.inference.statistics import quantiles
from archinfer.models import catalogue
from archinfer.models.formats import weight_format
from archinfer.models.shape import ModelShape
from archinfer.solver.question import Question

SIZES = ("active_params", "total_params", "layers")
MANY = 64
"""Most users of the second observation."""
EVIDENCE = ("one speed", "two observations", "all")
RIVALS = ("the prior's median", "speed and price as hosted", "bandwidth over bytes")
MAKERS = {
    "llama": "meta", "nemotron": "nvidia", "qwen": "alibaba", "qwq": "alibaba",
    "deepseek": "deepseek", "gpt-oss": "openai", "kimi": "kimi", "glm": "zai", "gemma": "google",
    "mistral": "mistral", "mixtral": "mistral", "minimax": "minimax", "jamba": "ai21-labs",
    "grok": "xai", "hunyuan": "tencent", "hy3": "tencent", "step": "stepfun", "ernie": "baidu",
    "longcat": "longcat", "arctic": "snowflake",
}  # fmt: skip
"""Makers as announced_models.csv calls them, by the first of these that a model's name holds."""


def maker(model: str) -> str:
    """Who made a model; a distillation counts to what it was distilled into."""
    name = model.lower()
    return next((m for part, m in MAKERS.items() if part in name), name)


@dataclass(frozen=True, slots=True)
class Known:
    """A model of known size with what is observed of it."""

    group: str
    name: str
    maker: str
    shape: ModelShape
    question: Question
    evidence: dict[str, Evidence | None]
    """By its name in `EVIDENCE`; None: the speed of the question alone."""
    date: str = ""
    """Of the observation, where it is published."""


@dataclass(slots=True)
class Inferred:
    """What is said of one case: by evidence or rival, the median of each size (and its range)."""

    known: Known
    medians: dict[str, dict[str, float]]
    ranges: dict[str, dict[str, tuple[float, float, float, float]]]
    """p05, p25, p75, p95."""

    def factor(self, by: str, size: str) -> float:
        """The larger of estimate and truth over the smaller; nan: not estimated."""
        estimate = self.medians.get(by, {}).get(size, np.nan)
        return float(np.exp(abs(np.log(estimate / truth(self.known, size)))))


def truth(known: Known, size: str) -> float:
    return float(getattr(known.shape, size))


def gpu_fits(makers: Collection[str]) -> dict[str, LogFit]:
    """The constants of GPUs, fitted without each maker's rows, and what profiles would state."""
    found = gpu.cases()
    narrow, wide = gpu.Model(found), gpu.Model(found, "bf16")
    whole = gpu.fit(narrow)
    made = np.array([maker(str(c.row.architecture)) for c in narrow.cases])
    out = {}
    kv = gpu.NAMES.index(gpu.KV)
    for one in makers:
        kept = made != one
        own = gpu.fit(narrow, kept, whole.theta)
        priors = gpu.PRIORS | {gpu.KV: gpu.KV16}
        other = gpu.fit(wide, kept, whole.theta, priors).theta[kv]
        kv_sd = (other - own.theta[kv]) / 2.0
        own.theta[kv] += kv_sd
        out[one] = replace(own, covariance=gpu.stated(own.covariance, float(kv_sd)))
    return out


def with_fit(hardware: Hardware, fit: LogFit) -> Hardware:
    """A profile with the constants of a fit and their covariance."""
    names = (*gpu.NAMES, gpu.REDUCTIONS)
    machine = gpu.at(hardware, dict(zip(names, np.exp(fit.theta[: len(names)]), strict=True)))
    place = {name: i for i, name in enumerate(names)}
    rows = [place[name] for name in hardware.covariance_names]
    software = tuple(
        s._replace(factor=float(np.exp(fit.theta[i])), log_sd=float(np.sqrt(fit.covariance[i, i])))
        for s in hardware.software
        if (i := place.get(gpu.SOFTWARE + s.name)) is not None
    )
    matrix = fit.covariance[np.ix_(rows, rows)]
    return replace(machine, log_covariance=tuple(map(tuple, matrix.tolist())), software=software)


def piece(kind: str, row: ServingRow) -> Piece:
    """A speed or a time to the first token, as a row has it."""
    at = Conditions(
        float(row.prompt_tokens + row.output_tokens // 2), float(row.concurrency),
        float(row.prompt_tokens), float(row.output_tokens),
    )  # fmt: skip
    value = 1.0 / row.per_token_s if kind == "speed" else row.first_token_s
    return Piece(kind, value, KINDS[kind].spread, conditions=at)


def observed(rows: Sequence[ServingRow]) -> dict[str, Evidence | None]:
    """The three sets of evidence of one configuration."""

    def chosen(prompt: int) -> tuple[ServingRow, ServingRow]:
        own = [r for r in rows if r.prompt_tokens == prompt and r.concurrency <= MANY]
        near = [(r.concurrency, -abs(np.log(r.output_tokens / 1000.0)), r.id) for r in own]
        few = min(own, key=lambda r: (r.concurrency, abs(np.log(r.output_tokens / 1000.0)), r.id))
        return few, own[near.index(max(near))]

    prompts = sorted({r.prompt_tokens for r in rows if r.concurrency <= MANY})
    (few, many), (few_long, many_long) = chosen(prompts[0]), chosen(prompts[-1])
    speeds = [piece("speed", r) for r in (few, many, few_long, many_long)]
    first = [piece("ttft", r) for r in (few, few_long) if np.isfinite(r.first_token_s)]
    sets = speeds[:1], speeds[:2], [*speeds, *first]
    return {name: Evidence(tuple(s)) for name, s in zip(EVIDENCE, sets, strict=True)}


def question(hardware: Hardware, row: ServingRow, software: str | None) -> Question:
    """What is known but for the model."""
    listed = {"usual", *(s.name for s in hardware.software)}
    return Question(
        hardware,
        nodes=(row.nodes, row.nodes),
        tokens_per_s=1.0 / row.per_token_s,
        observed=True,
        context_tokens=row.prompt_tokens + row.output_tokens // 2,
        context_known=True,
        weights=(row.weights,),
        kv=serving.cache_format(row.weights, row.profile),
        speculation=(1.0, 1.0),
        software=software if software in listed else None,
    )


def gpu_cases(models: Collection[str] | None) -> Iterator[Known]:
    """Serving engines, then single users; of `models` alone, or of all."""
    groups: dict[tuple[str, ...], list[gpu.Case]] = defaultdict(list)
    for case in gpu.cases():
        r = case.row
        if (models is None or r.model in models) and not case.doubtful and not case.draft_tokens:
            cell = () if case.single else (r.engine, r.weights, str(r.nodes), str(r.whole_experts))
            groups[(r.model, r.profile, *cell)].append(case)
    fits = gpu_fits({maker(key[0]) for key in groups})
    taken = set()
    for key, own in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        name, profile = key[:2]
        first, single = own[0], own[0].single
        if (name, profile, single) in taken:
            continue
        taken.add((name, profile, single))
        hardware = with_fit(Hardware.load(profile), fits[maker(name)])
        rows = [c.row for c in own]
        evidence = observed(rows)
        row = first.row if single else next(
            r for r in rows
            if piece("speed", r) == evidence["one speed"].pieces[0]  # type: ignore[union-attr]
        )  # fmt: skip
        if single:
            at = Conditions(float(first.context_tokens), float(row.concurrency))
            speed = Piece("speed", 1.0 / row.per_token_s, conditions=at)
            evidence = {"one speed": Evidence((speed,))}
        asked = question(hardware, row, first.software)
        if single:
            asked = asked.with_(context_tokens=first.context_tokens)
        group = "single users of GPUs" if single else "serving engines"
        label = "/".join((name, profile, row.engine, row.weights, str(row.nodes)))
        yield Known(group, label, maker(name), catalogue.load(name).shape(), asked, evidence)


def wafer_cases(models: Collection[str] | None, profile: str = "wse-3") -> Iterator[Known]:
    """One speed of each model and number of wafers; of `models` alone, or of all."""
    names = Hardware.names()
    of = observations.of_profile(observations.load(), profile, names)
    rows = [r for r in observations.usable(of, names)[0] if r.fitted]
    whole, cases = fit_rows(Hardware.load(profile), rows)
    fits: dict[str, Fit] = {}
    seen = set()
    for case in cases:
        row = case.row
        name, own = str(row.architecture), maker(str(row.architecture))
        key = (case.model_key, row.nodes, row.speculative)
        if key in seen or (models is not None and name not in models):
            continue
        seen.add(key)
        if own not in fits:
            kept = [c for c in cases if maker(str(c.row.architecture)) != own]
            fits[own] = whole.model.fit(kept, whole.mode)
        for found in inverse_cases([(case, fits[own])]):
            evidence: dict[str, Evidence | None] = {"one speed": None}
            asked = found.question()
            yield Known("wafers", found.id, own, found.shape, asked, evidence, found.date)


@cache
def prior_without(own: str, model: ModelShape) -> ShapePrior:
    """The prior without the models of a maker, and others of the same shape."""
    catalogued = {n: features(catalogue.load(n).shape()) for n in catalogue.names()}
    self = features(model)
    total, active = float(model.total_params), float(model.active_params)
    return fit_prior(
        [f for n, f in catalogued.items() if maker(n) != own and not same_shape(f, self)],
        [a for a in announced() if a.maker != own and not a.same(total, active)],
    )


@cache
def hosted() -> list[dict[str, str]]:
    """Models with speed and price as they are hosted."""
    text = (resources.files("archinfer") / "data" / "announced_models.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [r for r in rows if r["output_tokens_per_s"] and r["output_dollars"]]


def blind(known: Known) -> dict[str, float]:
    """Active and total parameters by a regression on speed and price; {}: it is not hosted."""

    def inputs(rows: Sequence[dict[str, str]]) -> list[np.ndarray]:
        keys = ("output_tokens_per_s", "output_dollars")
        return [np.log([float(r[key]) for r in rows]) for key in keys]

    def size(r: dict[str, str], which: str) -> float:
        return 1e9 * float(r[which + "_billions"])

    def off(r: dict[str, str]) -> float:
        pairs = (("total", known.shape.total_params), ("active", known.shape.active_params))
        return max(abs(float(np.log(size(r, which) / float(t)))) for which, t in pairs)

    own = [r for r in hosted() if r["maker"] == known.maker and off(r) < 0.15]
    others = [r for r in hosted() if r["maker"] != known.maker]
    if not own:
        return {}
    found = {}
    for which in ("active", "total"):
        line = Regression.fit(np.log([size(r, which) for r in others]), *inputs(others))
        found[which + "_params"] = float(np.exp(np.mean(line.predict(*inputs(own))[0])))
    return found


def inferred(known: Known, samples: int, seed: int = 0) -> Inferred:
    """What each set of evidence and each rival says of one case."""
    asked, out = known.question, Inferred(known, {}, {})
    prior = prior_without(known.maker, known.shape)
    if known.date:
        prior = prior.at(year_of(known.date))
    law = asked.hardware.speculation
    for name, evidence in known.evidence.items():
        posterior = infer(
            asked, samples, seed, target_ess=300.0, prior=prior, law=law, evidence=evidence
        )
        out.ranges[name] = _ranges(posterior)
        if posterior.possible:
            out.medians[name] = {s: float(posterior.quantiles(s, (0.5,))[0]) for s in SIZES}
            assert posterior.prior is not None
            batch, weights = posterior.prior
            out.medians[RIVALS[0]] = {
                s: float(quantiles(getattr(batch, s), weights, (0.5,))[0]) for s in SIZES
            }
    out.medians[RIVALS[1]] = blind(known)
    moved = float(asked.hardware.bandwidth_bytes_per_s) * asked.nodes[0] / asked.tokens_per_s
    bits = weight_format(asked.weights[0]).bits
    out.medians[RIVALS[2]] = {"active_params": moved * 8.0 / bits}
    return out


def _ranges(posterior: Posterior) -> dict[str, tuple[float, float, float, float]]:
    if not posterior.possible:
        return {}
    levels = (0.05, 0.25, 0.75, 0.95)
    return {s: tuple(posterior.quantiles(s, levels).tolist()) for s in SIZES}  # type: ignore[misc]


def tables(found: Sequence[Inferred]) -> str:
    """Errors beside those of the rivals; then coverage and widths."""
    words = [s.removesuffix("_params") for s in SIZES]
    errors = [["group", "from", "cases", *(f"{w}, {m}" for w in words for m in ("median", "p90"))]]
    ranges = [["group", "from", *(f"{w}, {m}" for w in words
                                  for m in ("in 50 %", "in 90 %", "p95 / p05"))]]  # fmt: skip
    groups = list(dict.fromkeys(f.known.group for f in found))
    for group in groups:
        own = [f for f in found if f.known.group == group]
        for by in (*EVIDENCE, *RIVALS):
            told = [f for f in own if f.medians.get(by)]
            if not told:
                continue
            cells = []
            for size in SIZES:
                off = np.array([f.factor(by, size) for f in told])
                finite = bool(np.isfinite(off).all())
                cells += [f"{np.quantile(off, q):.2f}" if finite else "" for q in (0.5, 0.9)]
            errors.append([group, by, str(len(told)), *cells])
        for by in EVIDENCE:
            asked = [f for f in own if by in f.ranges]
            if not asked:
                continue
            cells = []
            for size in SIZES:
                # A case that nothing explains is held by no interval.
                told = [(f.ranges[by][size], truth(f.known, size)) for f in asked if f.ranges[by]]
                for low, high in ((1, 2), (0, 3)):
                    held = sum(r[low] <= t <= r[high] for r, t in told) / len(asked)
                    cells.append(f"{100 * held:.0f} %")
                cells.append(f"{np.median([r[3] / r[0] for r, _ in told]):.2f}" if told else "")
            ranges.append([group, by, *cells])
    return "\n\n".join(map(_markdown, (errors, ranges)))


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "| --- " * len(rows[0]) + "|", *lines[1:]])


def lines(one: Inferred) -> Iterator[str]:
    """One case for people who look for what misses."""
    for by, ranges in one.ranges.items():
        said = []
        for size, (low, _, _, high) in ranges.items():
            true = truth(one.known, size)
            missed = "" if low <= true <= high else ", missed"
            median = one.medians[by][size]
            said.append(f"{size} {median:.3g} ({low:.3g} to {high:.3g}), truly {true:.3g}{missed}")
        yield f"{one.known.name}, {by}: {'; '.join(said) or 'impossible'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--models", help="of these alone, as names of the catalogue with commas")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no case after these")
    asked = parser.parse_args()
    models = asked.models.split(",") if asked.models else None
    began, started = time.process_time(), time.monotonic()
    found: list[Inferred] = []
    for known in chain(gpu_cases(models), wafer_cases(models)):
        if time.monotonic() - started > asked.seconds:
            break
        found.append(one := inferred(known, asked.samples))
        print(*lines(one), sep="\n", file=sys.stderr, flush=True)
    text = tables(found)
    print(text)
    seconds = time.process_time() - began
    print(f"{seconds:.0f} s of processor time", file=sys.stderr)
    if asked.write:
        command = " ".join(["python", "benchmarks/inverse_accuracy.py", *sys.argv[1:]])
        page.write("inverse_accuracy", command, seconds, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
