"""The check file as YAML: its pydantic model, and the checks that span several keys.

A file holds named checks. Each has one subject (`model` on `hardware`, a `solve`, or a profile to
`lint`) and what is expected of it. Nothing is computed here: `checks.py` evaluates.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from archinfer import files, strict, units
from archinfer.asking import LAYERS_MOST, Ask
from archinfer.errors import InputError, UnitError, UnknownNameError
from archinfer.files import Document, Location
from archinfer.models.formats import kv_format, weight_format
from archinfer.question import ASKS, options
from archinfer.strict import StrictModel


@dataclass(frozen=True)
class Value:
    """Annotation: a number, or a range, as the table of what can be asked reads it."""

    name: str
    ask: Ask

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        kind = units.DIMENSIONS[self.ask.dimension]
        ranged = self.ask.form == "range"
        return {
            "type": ["string", "number"] if ranged or "" in kind.units else "string",
            "description": f"a value or a range: {kind.noun}" if ranged else kind.noun,
            "examples": list(self.ask.examples or kind.examples),
        }

    def _read(self, found: Any) -> float | tuple[float, float]:
        # As written: a number without a unit is one only where the unit may be left out.
        text = found if isinstance(found, str) else repr(found)
        try:
            if self.ask.form == "range":
                return self.ask.range(self.name, text)
            return self.ask.number(self.name, text)
        except UnitError as error:
            if self.ask.form == "range" and isinstance(found, str):
                raise ValueError(str(error).rpartition(": ")[2]) from None
            raise ValueError(f"expected {units.expected(self.ask.dimension)}") from None
        except InputError as error:
            said = str(error).removeprefix(f"{self.name}: ")
            raise ValueError(said.partition(", found ")[0]) from None


def _value(name: str, ask: Ask | None = None) -> Any:
    """The type of a value of the table, or of one like it."""
    return Annotated[Any, Value(name, ask or ASKS[name])]


class _OrText:
    """Annotation: the mapping itself, or a text that names one."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler(schema)]}

    @staticmethod
    def _read(found: Any, handler: Any) -> Any:
        if isinstance(found, str):
            if not found.strip():
                raise ValueError("expected a name, a path, or a mapping of total, active, layers")
            return found
        return handler(found)


class _WeightFormats:
    """Annotation: one weight format, several with commas between, or a list of them."""

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": ["string", "array"],
            "items": {"type": "string"},
            "description": "weight formats",
            "examples": ["fp8", "bf16,fp8"],
        }

    @staticmethod
    def _read(found: Any) -> tuple[str, ...]:
        names = found.split(",") if isinstance(found, str) else found
        if not isinstance(names, list) or not names:
            raise ValueError("expected weight formats such as 'fp8' or 'bf16,fp8'")
        return tuple(dict.fromkeys(_format(name) for name in names))


def _format(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError("expected the name of a weight format such as 'fp8'")
    try:
        return weight_format(name).name
    except UnknownNameError as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True)
class _Format:
    """Annotation: the name of a weight format (`kv`: of a KV-cache format)."""

    kv: bool = False

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "examples": ["bf16", "fp8"]}

    def _read(self, found: Any) -> str:
        if not self.kv:
            return _format(found)
        if not isinstance(found, str):
            raise ValueError("expected the name of a KV-cache format such as 'bf16'")
        try:
            return kv_format(found).name
        except UnknownNameError as error:
            raise ValueError(str(error)) from None


Text = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]
Attention = Literal["gqa", "mqa", "mla"]
KINDS: dict[str, Any] = {
    "hardware": Text,
    "software": Text,
    "attention": Attention,
    "weights": Annotated[tuple[str, ...], _WeightFormats()],
    "kv": Annotated[str, _Format(kv=True)],
    "physics_only": bool,
    "tied": bool,
}
"""Types of what is no number."""

if TYPE_CHECKING:
    Nodes = float
    Params = float
    Layers = float
    Speed = float
    Probability = float
    Bytes = float
else:
    Nodes = _value("nodes", ASKS["nodes"].single())
    Params = _value("total", ASKS["total"].single())
    Layers = _value("layers", replace(ASKS["layers"].single(), least=1.0, most=LAYERS_MOST))
    Speed = _value("tokens_per_second")
    Probability = _value("confidence")
    Bytes = _value("memory", Ask(dimension="bytes", form="number"))


class Totals(StrictModel):
    """A model of which only its totals are known; the rest follows the family's rules."""

    total: Params = Field(description="all parameters")
    active: Params = Field(description="parameters used for one token")
    layers: Layers = Field(description="decoder layers")
    attention: Attention = "gqa"


class SpeedBound(StrictModel):
    """The least speed of one user that is expected, and how surely."""

    at_least: Speed = Field(description="output tokens per second of one user")
    confidence: Probability = Field(
        default=0.5, description="probability with which the speed must be reached"
    )


class NodesBound(StrictModel):
    """The most nodes that the model is expected to need."""

    at_most: Nodes = Field(description="nodes whose memory must be enough")


class MemoryBound(StrictModel):
    """The most memory that the deployment is expected to take."""

    at_most: Bytes = Field(description="bytes over all nodes: weights, KV cache, activations")


class Point(StrictModel):
    """Values that one feasible model has together; those left out may be anything."""

    total: Params | None = None
    active: Params | None = None
    layers: Layers | None = None

    def values(self) -> dict[str, float]:
        """The values that are given."""
        pairs = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: value for name, value in pairs if value is not None}


class Expect(StrictModel):
    """What is expected: of a model the first four, of a solve feasible, contains, excludes."""

    feasible: bool | None = Field(
        default=None, description="a model fits on the nodes; a solve finds any model at all"
    )
    tokens_per_s: SpeedBound | None = None
    nodes: NodesBound | None = Field(default=None, description="fewest nodes that hold it")
    memory: MemoryBound | None = None
    contains: Point | None = Field(default=None, description="some feasible model is like this")
    excludes: Point | None = Field(default=None, description="no feasible model is like this")


NOT_IN_FILES = ("mapping", "set", "calibration", "compare", "architectures", "seed")
"""Options of a solve that a check file does not take."""


def _solve_keys() -> dict[str, Any]:
    """Keys of a solve, as the table has its options."""
    keys: dict[str, Any] = {}
    for name, (_, use) in options("solve").items():
        if name not in NOT_IN_FILES:
            needed = name in ("hardware", "nodes")
            default = Field(... if needed else use.default, description=use.help)
            keys[name] = (KINDS.get(name) or _value(name), default)
    return keys


if TYPE_CHECKING:
    Solve = StrictModel
else:
    Solve = create_model(
        "Solve",
        __base__=StrictModel,
        __doc__="The options of `archinfer solve`, with underscores.",
        **_solve_keys(),
    )


_DEPLOYMENT = ("hardware", "nodes", "context", "concurrency", "weights", "kv", "speculation")
_OF_MODEL = ("feasible", "tokens_per_s", "nodes", "memory")
_OF_SOLVE = ("feasible", "contains", "excludes")


_CONTEXT, _USERS, _GAIN = (
    Value(name, ASKS[name]) for name in ("context", "concurrency", "speculation")
)


def _served(name: str) -> Any:
    """Default and help of what says how a model is served."""
    use = ASKS[name].use("compare")
    assert use is not None
    return Field(default=use.default, description=use.help)


class Check(StrictModel):
    """One named check: a subject (`model`, `solve` or `lint`) and what is expected of it."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["model", "hardware", "expect"]},
                {"required": ["solve", "expect"]},
                {"required": ["lint"]},
            ]
        }
    )

    name: Text
    model: Annotated[Totals | None, _OrText()] = Field(
        default=None,
        description="name in the catalogue, path of a config.json, or totals",
    )
    hardware: Text | None = Field(default=None, description="name or path of a profile")
    nodes: Nodes | None = Field(default=None, description="default: the fewest that hold it")
    context: Annotated[Any, _CONTEXT] = _served("context")
    concurrency: Annotated[Any, _USERS] = _served("concurrency")
    weights: Annotated[str | None, _Format()] = Field(
        default=None, description="default: the format the model comes in; totals need it"
    )
    kv: Annotated[str, _Format(kv=True)] = _served("kv")
    speculation: Annotated[Any, _GAIN] = _served("speculation")
    solve: Solve | None = None
    lint: Text | None = Field(default=None, description="name or path of a profile")
    expect: Expect | None = None


class CheckFile(StrictModel):
    """Expectations that `archinfer check` holds against the model."""

    schema_version: Literal[1]
    checks: Annotated[list[Check], Field(min_length=1)]


def read_check_file(path: str | os.PathLike[str]) -> tuple[CheckFile, Document]:
    """A check file, with the document that knows the line of each key.

    Raises:
        FileError: with line, key, found and expected.
    """
    document = files.load(path)
    file = strict.validate(document, CheckFile)
    names: dict[str, int] = {}
    for i, check in enumerate(file.checks):
        place = ("checks", i)
        if check.name in names:
            first = document.line_of(("checks", names[check.name], "name"))
            raise document.error(
                (*place, "name"), f"name {files.show(check.name)} is taken (line {first})"
            )
        names[check.name] = i
        _one_subject(check, document, place)
    return file, document


def _one_subject(check: Check, document: Document, place: Location) -> None:
    given = set(document.data["checks"][place[1]])
    subjects = [name for name in ("model", "solve", "lint") if name in given]
    if not subjects:
        raise document.error(place, f"{_in(check)}: missing one of 'model', 'solve', 'lint'")
    subject = subjects[0]
    if len(subjects) > 1:
        raise document.error(
            (*place, subjects[1]),
            f"{_in(check)}: {subject!r} and {subjects[1]!r} in one check; expected one of them",
        )
    if subject != "model":
        for key in _DEPLOYMENT:
            if key in given:
                where = f"; it belongs under {subject!r}" if subject == "solve" else ""
                raise document.error(
                    (*place, key), f"{_in(check)}: key {key!r} goes with 'model'{where}"
                )
    elif "hardware" not in given:
        raise document.error(place, f"{_in(check)}: missing key 'hardware'")
    elif isinstance(check.model, Totals) and "weights" not in given:
        raise document.error(
            place, f"{_in(check)}: missing key 'weights'; totals alone come in no format"
        )
    _expectations(check, document, place, subject)
    if isinstance(check.model, Totals) and check.model.active > check.model.total:
        raise document.error(
            (*place, "model", "active"), f"{_in(check)}: key 'model.active' is more than 'total'"
        )
    if check.solve is not None:
        _solve(check.solve, document, (*place, "solve"))


def _expectations(check: Check, document: Document, place: Location, subject: str) -> None:
    if subject == "lint":
        if check.expect is not None:
            raise document.error(
                (*place, "expect"), f"{_in(check)}: key 'expect' has no meaning with 'lint'"
            )
        return
    if check.expect is None:
        raise document.error(place, f"{_in(check)}: missing key 'expect'")
    known = _OF_MODEL if subject == "model" else _OF_SOLVE
    given = document.data["checks"][place[1]]["expect"]
    if not given:
        raise document.error(
            (*place, "expect"), f"{_in(check)}: nothing is expected (known: {', '.join(known)})"
        )
    for key in given:
        if key not in known:
            raise document.error(
                (*place, "expect", key),
                f"{_in(check)}: key 'expect.{key}' has no meaning with {subject!r} "
                f"(known: {', '.join(known)})",
            )
    for key in ("contains", "excludes"):
        point = getattr(check.expect, key)
        if point is not None and not point.values():
            raise document.error(
                (*place, "expect", key),
                f"{_in(check)}: key 'expect.{key}': expected one of total, active, layers",
            )


def _solve(solve: Any, document: Document, place: Location) -> None:
    if solve.observed is None and solve.tokens_per_second is None:
        raise document.error(place, "missing one of 'tokens_per_second', 'observed' in key 'solve'")
    if solve.observed is not None and solve.tokens_per_second is not None:
        raise document.error(
            (*place, "observed"),
            "key 'solve.observed': 'tokens_per_second' is a target and 'observed' a measurement; "
            "expected one of them",
        )
    if solve.sparsity is not None and solve.physics_only:
        raise document.error(
            (*place, "sparsity"),
            "key 'solve.sparsity' is a habit of design; it does not go with 'physics_only'",
        )


def _in(check: Check) -> str:
    return f"check {files.show(check.name)}"
