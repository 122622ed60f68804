"""The check file as YAML: its pydantic model, and the checks that span several keys.

A file holds named checks. Each has one subject (`model` on `hardware`, a `solve`, or a profile to
`lint`) and what is expected of it. Nothing is computed here: `checks.py` evaluates.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from archinfer import units, yamlfile
from archinfer.errors import UnitError, UnknownNameError
from archinfer.models.formats import kv_format, weight_format
from archinfer.question import ACCEPTED_MOST
from archinfer.strict import StrictModel
from archinfer.yamlfile import Document, Location

__all__ = ["Check", "CheckFile", "Expect", "Point", "Solve", "Totals", "read_check_file"]


@dataclass(frozen=True)
class Quantity:
    """Annotation: a number of one dimension, read into base SI units.

    Attributes:
        dimension: a key of `units.DIMENSIONS`.
        low, high: smallest and largest value that is allowed.
        whole: no fraction.
        examples: for editors; those of the dimension where there are none.
    """

    dimension: str
    low: float = 0.0
    high: float = float("inf")
    whole: bool = False
    examples: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        kind = units.DIMENSIONS[self.dimension]
        types = ["string", "number"] if "" in kind.units else "string"
        return {"type": types, "description": kind.noun, "examples": self._examples()}

    def _examples(self) -> list[str]:
        return list(self.examples or units.DIMENSIONS[self.dimension].examples)

    def _read(self, found: Any) -> float:
        try:
            value = units.parse(found, self.dimension)
        except UnitError:
            raise ValueError(f"expected {units.expected(self.dimension)}") from None
        self._within(value)
        return value

    def _within(self, value: float) -> None:
        show = units.format_quantity
        if value <= 0.0 or value < self.low:
            least = f"at least {show(self.low, self.dimension)}" if self.low else "more than 0"
            raise ValueError(f"expected {least}")
        if value > self.high and value != float("inf"):
            raise ValueError(f"expected at most {show(self.high, self.dimension)}")
        if self.whole and value != float("inf") and not value.is_integer():
            raise ValueError("expected a whole number")


@dataclass(frozen=True)
class Span(Quantity):
    """Annotation: a range such as `70:100`, `2T:4T`, `0.9T:`, or one value for both ends."""

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read_span)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": ["string", "number"],
            "description": f"a value or a range: {units.DIMENSIONS[self.dimension].noun}",
            "examples": self._examples(),
        }

    def _read_span(self, found: Any) -> tuple[float, float]:
        try:
            low, high = units.parse_range(found, self.dimension, self.low)
        except UnitError as error:
            raise ValueError(str(error).partition(": ")[2] or str(error)) from None
        if low or self.low > 0.0:
            self._within(low)
        self._within(high)
        return low, high


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
Nodes = Annotated[float, Quantity("count", low=1.0, high=1e6, whole=True, examples=("88",))]
Tokens = Annotated[float, Quantity("tokens", low=1.0, high=1e9, whole=True)]
Users = Annotated[float, Quantity("count", low=1.0, high=1e9, whole=True, examples=("1", "64"))]
Params = Annotated[float, Quantity("count", low=1.0)]
Layers = Annotated[float, Quantity("count", low=1.0, high=1e5, whole=True, examples=("88",))]
Speed = Annotated[float, Quantity("tokens_per_s")]
Probability = Annotated[float, Quantity("ratio", low=0.01, high=0.99)]
Accepted = Annotated[
    tuple[float, float], Span("number", low=1.0, high=ACCEPTED_MOST, examples=("1", "1:3"))
]


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

    at_most: Annotated[float, Quantity("bytes")] = Field(
        description="bytes over all nodes: weights, KV cache, activations"
    )


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


class Solve(StrictModel):
    """The options of `archinfer solve`, with underscores."""

    hardware: Text = Field(description="name or path of a profile")
    nodes: Annotated[
        tuple[float, float], Span("count", low=1.0, high=1e5, whole=True, examples=("88", "70:100"))
    ] = Field(description="nodes that are there")
    tokens_per_second: Speed | None = Field(default=None, description="target of one user")
    observed: Speed | None = Field(default=None, description="measured, instead of a target")
    context: Tokens = 8000.0
    concurrency: Users = 1.0
    weights: Annotated[tuple[str, ...], _WeightFormats()] = ("bf16", "fp8", "nvfp4")
    kv: Annotated[str, _Format(kv=True)] = "bf16"
    attention: Attention = "gqa"
    total: Annotated[tuple[float, float] | None, Span("count", examples=("2T:4T", "0.9T:"))] = None
    active: Annotated[tuple[float, float] | None, Span("count", examples=("150B", "100B:200B"))] = (
        None
    )
    layers: Annotated[tuple[float, float] | None, Span("count", examples=("61", "60:90"))] = None
    speculation: Accepted = (1.0, 3.0)
    software: Text | None = Field(
        default=None, description="that made an observed speed: usual, or one the profile lists"
    )
    sparsity: Annotated[tuple[float, float] | None, Span("number", examples=("1:32",))] = None
    physics_only: bool = False
    throughput: Speed | None = None
    max_power: Annotated[float | None, Quantity("watts")] = None
    max_price: Annotated[float | None, Quantity("dollars_per_hour")] = None
    confidence: Probability = 0.5


_DEPLOYMENT = ("hardware", "nodes", "context", "concurrency", "weights", "kv", "speculation")
_OF_MODEL = ("feasible", "tokens_per_s", "nodes", "memory")
_OF_SOLVE = ("feasible", "contains", "excludes")


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
    context: Tokens = 8000.0
    concurrency: Users = 1.0
    weights: Annotated[str | None, _Format()] = Field(
        default=None, description="default: the format the model comes in; totals need it"
    )
    kv: Annotated[str, _Format(kv=True)] = "bf16"
    speculation: Accepted = Field(
        default=(1.0, 1.0), description="accepted tokens a pass; 1: no speculative decoding"
    )
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
    document = yamlfile.load(path)
    file = yamlfile.validate(document, CheckFile)
    names: dict[str, int] = {}
    for i, check in enumerate(file.checks):
        place = ("checks", i)
        if check.name in names:
            first = document.line_of(("checks", names[check.name], "name"))
            raise document.error(
                (*place, "name"), f"name {yamlfile.show(check.name)} is taken (line {first})"
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


def _solve(solve: Solve, document: Document, place: Location) -> None:
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
    return f"check {yamlfile.show(check.name)}"
