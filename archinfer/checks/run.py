"""Expectations about models and hardware, held against the cost model and the solver.

A check file (`checks.schema`) names what a team counts on. Each expectation becomes one
`Result` with the line it stands on, what was found, and by how much it holds or fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from archinfer.api.serving import predict
from archinfer.api.solving import question as ask
from archinfer.api.solving import solve
from archinfer.asking import Range
from archinfer.checks.results import Remark, Report, Result
from archinfer.checks.schema import (
    Check,
    ClaimBound,
    MemoryBound,
    NodesBound,
    Point,
    SpeedBound,
    Totals,
    read_check_file,
)  # fmt: skip
from archinfer.errors import FileError, InputError
from archinfer.files import Document, Faults, Location
from archinfer.forward.prediction import Prediction
from archinfer.hardware.profile import Hardware
from archinfer.models import catalogue
from archinfer.models.checkpoint import is_model, load_architecture
from archinfer.models.solver_family import FamilyRules, family_shape
from archinfer.solver.conflict import conflict
from archinfer.solver.constraints import constraints
from archinfer.solver.question import Question
from archinfer.solver.region import solve as solve_region
from archinfer.solver.variants import Size, spans
from archinfer.units import format_quantity, plain_number
from archinfer.words import counted


def check(paths: Iterable[str | os.PathLike[str]], evaluate: bool = True) -> Report:
    """Every check of several files; a wrong file does not stop the others.

    Args:
        paths: the files.
        evaluate: False: they are only read, with the profiles and models that they name.
    """
    results: list[Result] = []
    errors: list[Remark] = []
    warnings: list[Remark] = []
    for path in paths:
        try:
            report = run_file(path, evaluate)
            results += report.results
            warnings += report.warnings
        except FileError as error:
            errors += (Remark(e.path, e.line, e.message) for e in (error, *error.further))
    return Report(tuple(results), tuple(errors), tuple(warnings))


def run_file(path: str | os.PathLike[str], evaluate: bool = True) -> Report:
    """Every check of one file, in its order; raises FileError where it is wrong."""
    file, document = read_check_file(path)
    runner, faults = _Runner(document), Faults()
    done = runner.results if evaluate else runner.read
    results: list[Result] = []
    for i, check in enumerate(file.checks):
        with faults.at(document, ("checks", i)):
            results += done(check, i)
    faults.tell()
    return Report(tuple(results), warnings=tuple(dict.fromkeys(runner.warnings)))


class _Finding(NamedTuple):
    passed: bool
    message: str
    margin: float | None


class _Runner:
    """Evaluates the checks of one document; paths in it are relative to its folder."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.folder = Path(document.path).parent
        self.hardware = cache(Hardware.load)
        self.warnings: list[Remark] = []

    def results(self, check: Check, index: int) -> list[Result]:
        """The results of one check, one by expectation, in the order of the file."""
        place: Location = ("checks", index)
        found = [
            Result(check.name, key, self.document.path, self.document.line_of(where), *finding)
            for key, where, finding in self._findings(check, place)
        ]
        return sorted(found, key=lambda r: r.line)

    def read(self, check: Check, index: int) -> list[Result]:
        """No result: what one check names is there, and its options go together."""
        place: Location = ("checks", index)
        if check.solve is not None:
            self._question(check, (*place, "solve"))
        elif check.lint is None:
            self._subject(check, place)
        return []

    def _findings(self, check: Check, place: Location) -> Iterator[tuple[str, Location, _Finding]]:
        if check.lint is not None:
            where = (*place, "lint")
            yield "lint", where, self._lint(check.lint, where)
            return
        subject: Any
        if check.model is not None:
            subject, tests = self._predict(check, place), OF_MODEL
        else:
            subject, tests = self._question(check, (*place, "solve")), OF_SOLVE
        for key, test in tests.items():
            expected = getattr(check.expect, key)
            if expected is not None:
                yield key, (*place, "expect", key), test(subject, expected)
        if check.expect is not None and check.expect.claim is not None:
            found = self._claim(check, check.expect.claim, place)
            yield "claim", (*place, "expect", "claim"), found

    def _claim(self, check: Check, bound: ClaimBound, place: Location) -> _Finding:
        """Whether a claim is as likely as expected; means what `solve --claim` means."""
        hardware, asked = self._asked(check, (*place, "solve"))
        load = partial(solve, hardware, **asked, claim=bound.says, architectures=0)
        found = self._use(place, load).claim.all.probability
        message = (
            f"{bound.says}: {100 * found:.2g} %, expected {100 * bound.at_least:.2g} % or more"
        )
        return _Finding(found >= bound.at_least, message, found / bound.at_least - 1.0)

    def _path(self, text: str, where: Location) -> str:
        """A path of the file, which may lead no further than its repository."""
        path = self.folder / text
        resolved = path.resolve()
        allowed = [self.folder.resolve(), Path.cwd()]
        allowed += [p for p in self.folder.resolve().parents if (p / ".git").exists()][:1]
        if not any(resolved.is_relative_to(folder) for folder in allowed):
            raise self.document.error(
                where,
                f"key {where[-1]!r}: {text!r} leads outside the folder of this file, its "
                f"repository and the working directory",
            )
        return os.path.normpath(path)

    def _use(self, where: Location, load: Callable[[], Any]) -> Any:
        """What `load` returns; its InputError becomes one of this file and line, of the key that
        it begins with if there is one."""
        try:
            return load()
        except InputError as error:
            name, _, said = str(error).partition(": ")
            if (*where, name) in self.document.lines:
                key = f"{where[-1]}.{name}" if where[-1] == "solve" else name
                raise self.document.error((*where, name), f"key {key!r}: {said}") from None
            raise self.document.error(where, f"key {where[-1]!r}: {error}") from None

    def _profile(self, text: str, where: Location) -> str:
        looks_like_path = "/" in text or os.sep in text or text.endswith((".yaml", ".yml"))
        return self._path(text, where) if looks_like_path else text

    def _lint(self, text: str, where: Location) -> _Finding:
        profile = self._profile(text, where)
        try:
            hardware = Hardware.load(profile)
        except InputError as error:
            return _Finding(False, str(error), None)
        estimates = sum(f.estimate for f in hardware.figures)
        message = f"{hardware.name}: {len(hardware.figures)} figures, {estimates} estimates"
        return _Finding(True, message, None)

    def _hardware(self, text: str, where: Location) -> Any:
        profile = self._profile(text, where)
        return self._use(where, lambda: self.hardware(profile))

    def _subject(self, check: Check, place: Location) -> tuple[Any, Any]:
        """The profile and the model of a check."""
        assert check.hardware is not None
        hardware = self._hardware(check.hardware, (*place, "hardware"))
        where = (*place, "model")
        return hardware, self._use(where, lambda: self._model(check, where))

    def _predict(self, check: Check, place: Location) -> Any:
        hardware, model = self._subject(check, place)
        told = ("nodes", "context", "concurrency", "weights", "kv", "speculation", "software")
        asked = {name: getattr(check, name) for name in told}
        return self._use(place, lambda: predict(model, hardware, changes=False, **asked))

    def _model(self, check: Check, where: Location) -> Any:
        model: Totals | str | None = check.model
        if isinstance(model, Totals):
            rules = FamilyRules(attention=model.attention)
            dense = model.active == model.total
            return family_shape(model.total, model.active, model.layers, rules, dense)
        assert model is not None
        if model.endswith(".json") or is_model(str(self.folder / model)):
            architecture = load_architecture(self._path(model, where))
        else:
            architecture = catalogue.load(model)
        for warning in architecture.warnings:
            remark = Remark(self.document.path, self.document.line_of(where), warning)
            self.warnings.append(remark)
        return architecture

    def _asked(self, check: Check, where: Location) -> tuple[Any, dict[str, Any]]:
        """The hardware and the other options of a solve."""
        assert check.solve is not None
        asked = {name: getattr(check.solve, name) for name in type(check.solve).model_fields}
        return self._hardware(asked.pop("hardware"), (*where, "hardware")), asked

    def _question(self, check: Check, where: Location) -> Any:
        hardware, asked = self._asked(check, where)
        return self._use(where, lambda: ask(hardware, **asked))


def _fits(model: Prediction, expected: bool) -> _Finding:
    fits = bool(model.fits)
    taken = float(model.memory_fraction)
    node = model.hardware.node
    used = counted(int(model.nodes_used), node) if fits else ""
    message = (
        f"fits: {100.0 * taken:.3g} % of the usable memory of the fullest {node} on {used}"
        if fits
        else f"does not fit: {model.limit}"
    )
    return _Finding(fits is expected, message, 1.0 - taken if expected else taken - 1.0)


def _speed(model: Prediction, bound: SpeedBound) -> _Finding:
    at = f"at {bound.confidence * 100:g} % confidence"
    wanted = f"at least {plain_number(bound.at_least, 4)} tokens/s"
    if not model.fits:
        return _Finding(False, f"expected {wanted} {at}, but does not fit: {model.limit}", -1.0)
    reached = float(model.reached(bound.confidence))
    message = f"{plain_number(reached, 4)} tokens/s {at}, expected {wanted}"
    return _Finding(reached >= bound.at_least, message, reached / bound.at_least - 1.0)


def _nodes(model: Prediction, bound: NodesBound) -> _Finding:
    limit = f"expected at most {bound.at_most:g}"
    if not np.isfinite(model.min_nodes):
        return _Finding(False, f"no number of nodes holds it, {limit}", None)
    needed = int(model.min_nodes)
    message = f"{counted(needed, model.hardware.node)} hold it, {limit}"
    return _Finding(needed <= bound.at_most, message, 1.0 - needed / bound.at_most)


def _memory(model: Prediction, bound: MemoryBound) -> _Finding:
    taken = float(model.memory.total)
    found, most = (format_quantity(value, "bytes") for value in (taken, bound.at_most))
    message = f"{found}, expected at most {most}"
    return _Finding(taken <= bound.at_most, message, 1.0 - taken / bound.at_most)


def _possible(question: Question, expected: bool) -> _Finding:
    region = solve_region(question)
    headroom = None if question.observed else _headroom(question)
    if region.feasible:
        low, high = (_amount("total", end) for end in spans(region)["total_params"])
        message = f"models of {low} to {high} total parameters are possible"
    else:
        message = "no model is possible"
    if headroom is not None:
        fastest = plain_number(question.tokens_per_s * (1.0 + headroom), 4)
        message += f"; the fastest makes {fastest} tokens/s"
        headroom = headroom if expected else -headroom
    return _Finding(region.feasible is expected, message, headroom)


def _headroom(question: Question) -> float | None:
    """Speed of the fastest model that all other constraints allow, over the target, minus 1.

    The fastest model of a slice has the fewest active and the fewest total parameters in it.
    """
    region = solve_region(question.without("speed"))
    if not region.feasible:
        return None
    fastest = region.slices.candidate(question, region.total_low, region.active_low)
    speed = next(c for c in constraints(question) if c.name == "speed")
    return float(np.exp(np.max(speed.slack(fastest)))) - 1.0


def _contains(question: Question, point: Point) -> _Finding:
    """Whether some feasible model has all values of `point` together."""
    values = point.values()
    inside = all(getattr(question, k)[0] <= v <= getattr(question, k)[1] for k, v in values.items())
    fixed: dict[str, Range] = {name: (value, value) for name, value in values.items()}
    inside = inside and solve_region(question.with_(**fixed)).feasible
    margins: list[float] = []
    found: list[str] = []
    for name, value in values.items():
        others = {k: v for k, v in fixed.items() if k != name}
        region = solve_region(question.with_(**others))
        shown = f"{name} {_amount(name, value)}"
        given = f" with {' and '.join(others)} as given" if others else ""
        if not region.feasible:
            found.append(f"{shown}: nothing is possible{given}")
            continue
        low, high = spans(region)[QUANTITY[name]]
        margins.append(min(value / low - 1.0, 1.0 - value / high))
        found.append(f"{shown}: possible are {_amount(name, low)} to {_amount(name, high)}{given}")
    margin = (min(margins) if inside else max(margins)) if margins else None
    if not inside and not margins:
        nearest = conflict(question.with_(**fixed)).relaxations[:1]
        for relaxation in nearest:
            found.append(f"{' and '.join(relaxation.constraints)}: {relaxation.text}")
            if np.isfinite(relaxation.factor):
                margin = 1.0 / relaxation.factor - 1.0
    if margin is not None and (margin >= 0.0) is not inside and margin != 0.0:
        # Between two parts of the region, or a rounding error from its edge: no distance.
        margin = None
    return _Finding(inside, "; ".join(found), margin)


def _excluded(question: Question, point: Point) -> _Finding:
    """Whether no feasible model has all values of `point` together."""
    found = _contains(question, point)
    margin = None if found.margin is None else -found.margin
    return _Finding(not found.passed, found.message, margin)


def _amount(name: str, value: float) -> str:
    return f"{value:g}" if name == "layers" else format_quantity(value, "count", digits=3)


QUANTITY: dict[str, Size] = {"total": "total_params", "active": "active_params", "layers": "layers"}
"""The key in JSON of what an expectation names."""

OF_MODEL: dict[str, Callable[[Any, Any], _Finding]] = {
    "feasible": _fits,
    "tokens_per_s": _speed,
    "nodes": _nodes,
    "memory": _memory,
}
OF_SOLVE: dict[str, Callable[[Any, Any], _Finding]] = {
    "feasible": _possible,
    "contains": _contains,
    "excludes": _excluded,
}
"""What holds an expectation against a prediction, and against the answer to a question."""
