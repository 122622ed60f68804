"""JSON Schemas of the files that archinfer reads and of the JSON that its commands print.

File formats come from the models that validate them. The models of outputs stand here; the tests
hold them against what the commands print, key by key. Keys stay; new ones may be added, so a
reader must ignore keys that it does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field, TypeAdapter

from archinfer.api.evidence import EvidenceFile
from archinfer.calibration.calibrate import Calibration
from archinfer.checks.results import Report
from archinfer.checks.schema import CheckFile
from archinfer.errors import UnknownNameError
from archinfer.fitting.observations import ObservationFile
from archinfer.fitting.validation import PublishedSpeed
from archinfer.forward.compare import HardwareComparison
from archinfer.forward.deployments import Pareto
from archinfer.forward.prediction import Predictions
from archinfer.hardware.profile import Hardware, ListedHardware
from archinfer.hardware.schema import Profile
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


class ErrorSummary(BaseModel):
    """Of |ratio - 1| on the larger side: exp(|ln ratio|) - 1; null without rows."""

    median_abs_error: float | None
    worst_abs_error: float | None


class CoverageSummary(ErrorSummary):
    """Errors, and how often intervals hold the observed speed."""

    coverage50: float | None = Field(description="share of rows inside the 50 % interval")
    coverage90: float | None = Field(description="share of rows inside the 90 % interval")


class FitErrors(BaseModel):
    """How well constants meet the rows that they were fitted to."""

    rows: float
    rms_error: float
    worst_error: float


class TransferRow(BaseModel):
    """One published speed, predicted by constants of another machine."""

    id: str
    observed: float
    predicted: float
    error: float


class TransferOutput(BaseModel):
    """Constants fitted on one machine and put on another without a refit."""

    source: str = Field(alias="from", description="profile whose rows were fitted")
    target: str = Field(alias="to")
    fitted_on: int = Field(description="rows")
    constants: dict[str, float]
    rows: list[TransferRow]
    worst_abs_error: float


class InverseQuantity(BaseModel):
    """The true value and what was inferred; quantiles are missing where nothing was possible."""

    truth: float
    inside50: bool
    inside90: bool
    p05: float | None = None
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None
    p95: float | None = None
    ratio90: float | None = Field(default=None, description="p95 / p05")
    information_bits: float | None = None


class InverseRow(BaseModel):
    """One published speed and what it says of the architecture behind it."""

    id: str
    tokens_per_s: float
    nodes: int | None = Field(description="null: not published")
    software: str | None = Field(description="known to have run; null: not known")
    possible: bool
    ess: float
    total_params: InverseQuantity
    active_params: InverseQuantity
    layers: InverseQuantity


class ByQuantity(BaseModel):
    """One number for each quantity of an architecture; null without rows."""

    total_params: float | None
    active_params: float | None
    layers: float | None


class InverseOutput(BaseModel):
    """From each speed back to the architecture; null without rows."""

    rows: list[InverseRow]
    models: int = Field(description="architectures among the rows")
    coverage50: ByQuantity = Field(description="share of rows inside the 50 % interval")
    coverage90: ByQuantity = Field(description="share of rows inside the 90 % interval")
    coverage50_by_model: ByQuantity = Field(description="mean over models of their rows' share")
    coverage90_by_model: ByQuantity = Field(description="mean over models of their rows' share")
    median_width: ByQuantity = Field(description="median of p95 / p05")


class ValidateOutput(BaseModel):
    """`archinfer validate --format json`."""

    method: str = Field(description="how the rows were predicted")
    rows: tuple[PublishedSpeed, ...]
    summary: CoverageSummary
    baselines: dict[Literal["roofline", "constant_per_layer"], ErrorSummary]
    fit: dict[str, FitErrors] = Field(description="the fit to all rows, by profile")
    transfer: TransferOutput | None
    inverse: InverseOutput | None = Field(description="null with --no-inverse")


def _hardware_file() -> dict[str, Any]:
    schema = _file_schema(Profile)
    # A profile that says `like` may leave out what the set has.
    sections = {"constants": "Constants", "link": "Link", "scale_up": "ScaleUp"}
    needed = {s: {"required": schema["$defs"][d].pop("required")} for s, d in sections.items()}
    schema |= {"if": {"not": {"required": ["like"]}}, "then": {"properties": needed}}
    return schema


def _file_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    short = _short_names(schema["$defs"])
    text = json.dumps(_strict(schema))
    for name in sorted(short, key=len, reverse=True):
        text = text.replace(f'"#/$defs/{name}"', f'"#/$defs/{short[name]}"')
    found: dict[str, Any] = json.loads(text)
    found["$defs"] = {short[name]: value for name, value in found["$defs"].items()}
    return found


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Pydantic names a generic model by its arguments; a number is enough to tell them apart."""
    short: dict[str, str] = {}
    for name in names:
        generic = re.match(r"(?:\w+__)?([A-Z][a-z]+)_(?:Annotated|dict)", name)
        if generic is None:
            short[name] = name
        else:
            count = sum(s.startswith(generic[1]) for s in short.values())
            short[name] = f"{generic[1]}{count + 1}"
    return short


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
    "validate": Output("validate", ValidateOutput),
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
