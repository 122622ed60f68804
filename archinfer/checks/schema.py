"""The check file as YAML: its pydantic model, and the checks that span several keys.

A file holds named checks. Each has one subject (`model` on `hardware`, a `solve`, or a profile to
`lint`) and what is expected of it. Nothing is computed here: `checks.run` evaluates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from archinfer import files, strict
from archinfer.api.arguments import read_claim
from archinfer.api.solving import SPEEDS
from archinfer.asking import LAYERS_MOST, Ask
from archinfer.errors import InputError
from archinfer.files import Document, Faults, Location
from archinfer.models.formats import kv_format, split_formats, weight_format
from archinfer.question import ASKS, options
from archinfer.strict import Read, StrictModel, Text


def _of(name: str, ask: Ask | None = None) -> Read:
    """A number, or a range, as the table of what can be asked reads it."""
    return strict.asked(name, ask or ASKS[name])


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
        if isinstance(found, str) and not found.strip():
            raise ValueError("expected a name, a path, or a mapping of total, active, layers")
        return found if isinstance(found, str) else handler(found)


def _format(kind: str, example: str, known: Callable[[str], Any]) -> Read:
    """The name of a format."""

    def read(found: Any) -> str:
        if not isinstance(found, str):
            raise ValueError(f"expected the name of a {kind} such as {example!r}")
        return str(known(found).name)

    return Read(kind, read, {"type": "string", "examples": ["bf16", "fp8"]})


_WEIGHTS = _format("weight format", "fp8", weight_format)
_KV = _format("KV-cache format", "bf16", kv_format)


def _formats(found: Any) -> tuple[str, ...]:
    """One weight format, several with commas between, or a list of them."""
    if not isinstance(found, str | list) or not found:
        raise ValueError("expected weight formats such as 'fp8' or 'bf16,fp8'")
    return tuple(
        dict.fromkeys(
            _WEIGHTS.read(name)
            for name in split_formats(map(str, found) if isinstance(found, list) else found)
        )
    )


Attention = Literal["gqa", "mqa", "mla"]
KINDS: dict[str, Any] = {
    "hardware": Text,
    "software": Text,
    "attention": Attention,
    "weights": Annotated[
        tuple[str, ...],
        Read(
            "weight formats",
            _formats,
            {
                "type": ["string", "array"],
                "items": {"type": "string"},
                "description": "weight formats",
                "examples": ["fp8", "bf16,fp8"],
            },
        ),
    ],
    "kv": Annotated[str, _KV],
    "physics_only": bool,
    "tied": bool,
}
"""Types of what is no number."""

Nodes = Annotated[float, _of("nodes", ASKS["nodes"].single())]
Params = Annotated[float, _of("total", ASKS["total"].single())]
Layers = Annotated[
    float, _of("layers", replace(ASKS["layers"].single(), least=1.0, most=LAYERS_MOST))
]
Speed = Annotated[float, _of("tokens_per_second")]
Probability = Annotated[float, _of("confidence")]
Bytes = Annotated[float, _of("memory", Ask(dimension="bytes", form="number"))]


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


def _claim(text: str) -> str:
    try:
        read_claim(text)
    except InputError as error:
        raise ValueError(str(error).removeprefix("claim: ")) from None
    return text


class ClaimBound(StrictModel):
    """How likely a claim is expected to be, given the nodes and the speed."""

    says: Annotated[Text, AfterValidator(_claim)] = Field(
        description="as --claim: total=2T:4T,active=150B,layers=70:90"
    )
    at_least: Probability = Field(description="probability of all of it")


class Expect(StrictModel):
    """What is expected: of a model the first four, of a solve feasible and the last three."""

    feasible: bool | None = Field(
        default=None, description="a model fits on the nodes; a solve finds any model at all"
    )
    tokens_per_s: SpeedBound | None = None
    nodes: NodesBound | None = Field(default=None, description="fewest nodes that hold it")
    memory: MemoryBound | None = None
    contains: Point | None = Field(default=None, description="some feasible model is like this")
    excludes: Point | None = Field(default=None, description="no feasible model is like this")
    claim: ClaimBound | None = None


NOT_IN_FILES = (
    "like", "mapping", "set", "calibration", "compare", "claim", "architectures", "seed",
    "evidence", "prefill", "ttft", "tokens_per_pass",
)  # fmt: skip
"""Options of a solve that a check file does not take."""


def _solve_keys() -> dict[str, Any]:
    """Keys of a solve, as the table has its options."""
    keys: dict[str, Any] = {}
    for name, (_, use) in options("solve").items():
        if name not in NOT_IN_FILES:
            needed = name in ("hardware", "nodes")
            default = Field(... if needed else use.default, description=use.help)
            keys[name] = (KINDS.get(name) or Annotated[Any, _of(name)], default)
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


_DEPLOYMENT = (
    "hardware", "nodes", "context", "concurrency", "weights", "kv", "speculation", "software",
)  # fmt: skip
_EXPECTED = {
    "model": ("feasible", "tokens_per_s", "nodes", "memory"),
    "solve": ("feasible", "contains", "excludes", "claim"),
}


def _served(name: str) -> Any:
    """Default and help of what says how a model is served."""
    _, use = options("compare")[name]
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
        default=None, description="name in the catalogue, path of a config.json, or totals"
    )
    hardware: Text | None = Field(default=None, description="name or path of a profile")
    nodes: Nodes | None = Field(default=None, description="default: the fewest that hold it")
    context: Annotated[Any, _of("context")] = _served("context")
    concurrency: Annotated[Any, _of("concurrency")] = _served("concurrency")
    weights: Annotated[str | None, _WEIGHTS] = Field(
        default=None, description="default: the format the model comes in; totals need it"
    )
    kv: Annotated[str, _KV] = _served("kv")
    speculation: Annotated[Any, _of("speculation")] = _served("speculation")
    software: Text | None = _served("software")
    solve: Solve | None = None
    lint: Text | None = Field(default=None, description="name or path of a profile")
    expect: Expect | None = None


class CheckFile(StrictModel):
    """Expectations that `archinfer check` holds against the model."""

    schema_version: Literal[1]
    checks: Annotated[list[Check], Field(min_length=1)]


def read_check_file(path: str | os.PathLike[str]) -> tuple[CheckFile, Document]:
    """A check file, with the document that knows the line of each key; or FileError."""
    document, faults = files.load(path), Faults()
    file = strict.validate(document, CheckFile)
    names: dict[str, int] = {}
    for i, check in enumerate(file.checks):
        place: Location = ("checks", i)
        shown = files.show(check.name)
        if (first := names.setdefault(check.name, i)) != i:
            line = document.line_of(("checks", first, "name"))
            faults.append(document.error((*place, "name"), f"name {shown} is taken (line {line})"))
        for where, fault in islice(_faults(check, document.data["checks"][i]), 1):
            faults.append(document.error((*place, *where), f"check {shown}: {fault}"))
    faults.tell()
    return file, document


def _faults(check: Check, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """What is wrong with keys that are right one by one; only the first counts."""
    subjects = [name for name in ("model", "solve", "lint") if name in given]
    if not subjects:
        yield (), "missing one of 'model', 'solve', 'lint'"
    subject = subjects[0]
    if len(subjects) > 1:
        both = f"{subject!r} and {subjects[1]!r} in one check"
        yield (subjects[1],), f"{both}; expected one of them"
    if subject != "model":
        for key in (key for key in _DEPLOYMENT if key in given):
            where = "; it belongs under 'solve'" if subject == "solve" else ""
            yield (key,), f"key {key!r} goes with 'model'{where}"
    elif "hardware" not in given:
        yield (), "missing key 'hardware'"
    elif isinstance(check.model, Totals) and "weights" not in given:
        yield (), "missing key 'weights'; totals alone come in no format"
    if subject == "lint":
        if check.expect is not None:
            yield ("expect",), "key 'expect' has no meaning with 'lint'"
    else:
        yield from _unexpected(check.expect, given, subject)
    if isinstance(check.model, Totals) and check.model.active > check.model.total:
        yield ("model", "active"), "key 'model.active' is more than 'total'"
    if check.solve is not None and all(getattr(check.solve, n) is None for n in SPEEDS):
        yield ("solve",), f"missing one of {', '.join(map(repr, SPEEDS))} in key 'solve'"


def _unexpected(
    expect: Expect | None, given: Mapping[str, Any], subject: str
) -> Iterator[tuple[Location, str]]:
    """Expectations that a subject does not have, or the lack of any."""
    if expect is None:
        yield (), "missing key 'expect'"
    known = _EXPECTED[subject]
    listed = f"(known: {', '.join(known)})"
    if not given["expect"]:
        yield ("expect",), f"nothing is expected {listed}"
    for key in given["expect"]:
        if key not in known:
            yield ("expect", key), f"key 'expect.{key}' has no meaning with {subject!r} {listed}"
    for key in ("contains", "excludes"):
        point = getattr(expect, key)
        if point is not None and not point.values():
            yield ("expect", key), f"key 'expect.{key}': expected one of total, active, layers"
