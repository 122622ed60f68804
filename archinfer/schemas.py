"""JSON Schemas of the files that archinfer reads and of the JSON that its commands print.

File formats come from the models that validate them, those of outputs from the records that are
printed; the tests hold them against what the commands print, key by key. Keys stay; new ones may
be added, so a reader must ignore keys that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from archinfer.api.evidence import EvidenceFile
from archinfer.calibration.calibrate import Calibration
from archinfer.checks.results import Report
from archinfer.checks.schema import CheckFile
from archinfer.errors import UnknownNameError
from archinfer.fitting.observations import ObservationFile
from archinfer.fitting.validation import Validation
from archinfer.forward.compare import HardwareComparison
from archinfer.forward.deployments import Pareto
from archinfer.forward.prediction import Predictions
from archinfer.hardware.profile import Hardware
from archinfer.hardware.schema import Profile
from archinfer.hardware.starting import ListedHardware
from archinfer.inference.claim import Claim
from archinfer.inference.comparison import Comparison
from archinfer.inference.narrowing import Narrowing
from archinfer.inference.posterior import Posterior
from archinfer.inference.steps import Taught
from archinfer.models.described import DescribedModel, ListedModel
from archinfer.solver.answer import Answer

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Solution(Answer):
    """What a target or an observed speed allows, and what an observed one says."""

    posterior: Posterior | None
    evidence: tuple[Taught, ...]
    comparisons: tuple[Comparison, ...]
    claim: Claim | None

    @property
    def what_would_narrow(self) -> tuple[Narrowing, ...]:
        """by how much further facts would narrow each quantity; empty without an observed speed"""
        return ()


def _hardware_file() -> dict[str, Any]:
    schema = _file_schema(Profile)
    # A profile that says `like` may leave out what the set has.
    sections = {"constants": "Constants", "link": "Link", "scale_up": "ScaleUp"}
    needed = {s: {"required": schema["$defs"][d].pop("required")} for s, d in sections.items()}
    schema |= {"if": {"not": {"required": ["like"]}}, "then": {"properties": needed}}
    return schema


def _file_schema(model: type[BaseModel]) -> dict[str, Any]:
    return _strict(model.model_json_schema())


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a file format: a key may be left out but not be null; titles that repeat the
    key, and defaults that are not of the form in which people write them, are dropped."""
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            result[key] = {name: _strict(inner) for name, inner in value.items()}
        elif key in ("anyOf", "allOf", "oneOf"):
            result[key] = [_strict(c) for c in value if c != {"type": "null"}]
        elif key in ("items", "additionalProperties", "propertyNames") and isinstance(value, dict):
            result[key] = _strict(value)
        elif key not in ("title", "default"):
            result[key] = value
    default = schema.get("default")
    if default is not None and (
        not isinstance(default, (list, tuple)) or "array" in schema.get("type", ())
    ):
        result["default"] = default
    if len(result.get("anyOf", ())) == 1:
        # What is said beside the choice is about this key and comes before what it is.
        result = result.pop("anyOf")[0] | result
    return result


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema: what it describes, and how it is made."""

    text: str
    make: Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Output:
    """The JSON of one command: how it is asked for, and the type of what it prints."""

    command: str
    result: Any


OUTPUTS = {
    "solve": Output("solve", Solution),
    "predict": Output("predict MODEL...", Predictions),
    "compare": Output("compare MODEL...", HardwareComparison),
    "pareto": Output("pareto MODEL", Pareto),
    "models-show": Output("models show MODEL", DescribedModel),
    "models-list": Output("models list", list[ListedModel]),
    "calibrate": Output("calibrate", Calibration),
    "validate": Output("validate", Validation),
    "hardware-show": Output("hardware show NAME", Hardware),
    "hardware-list": Output("hardware list", list[ListedHardware]),
    "check-output": Output("check FILE...", Report),
}
"""Outputs by the name of their schema."""


def _of(output: Output) -> Schema:
    text = f"output of archinfer {output.command} --format json"
    return Schema(text, lambda: TypeAdapter(output.result).json_schema(mode="serialization"))


SCHEMAS: dict[str, Schema] = {
    "hardware": Schema("file: a hardware profile", _hardware_file),
    "observations": Schema("file: speeds for fit and validate", ObservationFile.model_json_schema),
    "evidence": Schema(
        "file: what was observed of one service", lambda: _file_schema(EvidenceFile)
    ),
    "check": Schema("file: expectations for archinfer check", lambda: _file_schema(CheckFile)),
} | {name: _of(output) for name, output in OUTPUTS.items()}
"""Every schema by name."""


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema called `name` (draft 2020-12).

    Raises:
        UnknownNameError: no such schema.
    """
    if name not in SCHEMAS:
        raise UnknownNameError("schema", name, SCHEMAS)
    return {"$schema": DIALECT} | SCHEMAS[name].make()
