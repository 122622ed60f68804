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

from pydantic import BaseModel, Field, RootModel, TypeAdapter

from archinfer.calibration.calibrate import Calibration
from archinfer.errors import UnknownNameError
from archinfer.forward.prediction import Predictions
from archinfer.hardware.profile import Figure, Hardware
from archinfer.inference.comparison import Comparison
from archinfer.inference.posterior import Posterior
from archinfer.physics.terms import TokenTime
from archinfer.record import Ends, Quantiles

__all__ = ["SCHEMAS", "Schema", "json_schema"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Levels(BaseModel):
    """Five quantiles, from 5 % to 95 %."""

    p05: float
    p25: float
    p50: float
    p75: float
    p95: float


class HardwareListRow(BaseModel):
    """One shipped profile."""

    name: str
    title: str
    execution: Literal["spatial", "temporal"]


class HardwareListOutput(RootModel[list[HardwareListRow]]):
    """`archinfer hardware list --format json`."""


class QuestionOutput(BaseModel):
    """The question as it was understood."""

    hardware: str
    nodes: tuple[int, int] = Field(description="fewest and most")
    nodes_known: bool = Field(description="asked for; false: where the search ended")
    tokens_per_s: float
    mode: Literal["target", "observed"]
    context_tokens: int
    concurrency: int
    weights: list[str] = Field(description="weight formats considered")
    kv: str = Field(description="KV-cache format")
    attention: str = Field(description="gqa, mqa or mla")
    speculation: tuple[float, float] = Field(description="accepted tokens a pass, of the region")
    posterior_speculation: Literal["law", "range"] | None = Field(
        description="accepted tokens a pass of the posterior: by the profile's fitted law of "
        "speculation, or the same range; null without a posterior"
    )
    software: str | None = Field(
        description="that made an observed speed: usual, or one that the profile lists; null: not "
        "said"
    )
    software_factor: tuple[float, float] = Field(
        description="speed of the slowest and fastest software that comes into question over that "
        "of the usual; both 1 for a target"
    )
    physics_only: bool = Field(description="habits of design left out")
    total: list[float | None] | None = Field(
        description="[low, high] known of all parameters; high null: open; null: nothing known"
    )
    active: list[float | None] | None = Field(description="the same of active parameters")
    layers: list[float | None] | None = Field(description="the same of layers")
    sparsity: list[float | None] | None = Field(
        description="[low, high] of total over active; high null: open; null: physics_only"
    )
    confidence: float | None = Field(
        description="probability with which a target must hold; null where observed"
    )
    throughput_tokens_per_s: float | None = Field(description="asked over all users")
    max_power_w: float | None
    max_price_per_hour: float | None = Field(description="dollars")
    mapping: str | None = Field(description="forced, as tp=8,pp=2; null: the fastest that fits")
    overrides: list[str] = Field(description="figures set by hand, as key = value")
    calibration: str | None = Field(description="file given with --calibration")


class Bounded(BaseModel):
    """Both ends of a range, with the constraint that draws each."""

    low: float
    high: float
    low_bound_by: str = Field(description="the constraint that draws this edge")
    high_bound_by: str


class Ranges(BaseModel):
    """Each null where nothing is feasible."""

    total_params: Bounded | None
    active_params: Bounded | None
    layers: Bounded | None
    nodes: Bounded | None


class WeightsRanges(BaseModel):
    """Ranges of what is feasible in one weight format."""

    total_params: Ends
    active_params: Ends
    layers: Ends
    nodes: Ends


class ArchitectureOutput(BaseModel):
    """A concrete architecture inside the feasible region."""

    name: str
    total_params: float
    active_params: float
    layers: int
    nodes: int = Field(description="nodes in use")
    layers_per_node: float = Field(description="of the fullest node")
    tensor_parallel: float = Field(description="nodes that share each layer")
    hidden_size: int
    experts: int = Field(description="routed experts of a layer; 0: dense")
    experts_per_token: int
    expert_width: int | None
    attention: str
    weights: str
    tokens_per_s: Quantiles
    accepted_tokens_needed: float = Field(description="accepted tokens a pass to reach the speed")
    memory_bytes: float = Field(description="over all nodes")
    memory_fraction: float | None = Field(description="of the fullest node's usable memory")
    time_s: TokenTime
    bottleneck: str = Field(description="the term with the largest part of the time")


class ThreeSpeeds(BaseModel):
    """Tokens/s of one user with one quantity halved, unchanged and doubled."""

    halved: float | None
    same: float
    doubled: float | None


class SensitivityOutput(BaseModel):
    """What a speed tells of one quantity."""

    quantity: str
    tokens_per_s: ThreeSpeeds = Field(
        description="without speculation, with the quantity halved, as it is, doubled; null: no "
        "model (more active parameters than there are)"
    )


class RelaxationOutput(BaseModel):
    """One way to open an empty region."""

    constraints: list[str] = Field(description="the one to relax, or the two together")
    kind: str = Field(description="physics, habit or request")
    factor: float | None = Field(description="how far the closest model is from it; null for two")
    factors: list[float] = Field(
        description="the same for each constraint; of two, of the model that misses both least"
    )
    text: str


class ConflictOutput(BaseModel):
    """Why nothing is feasible."""

    text: str
    relaxations: list[RelaxationOutput]


class ConstraintOutput(BaseModel):
    """One constraint that was applied."""

    name: str
    kind: str = Field(description="physics, habit or request")
    text: str


class VariantRanges(BaseModel):
    """What is feasible under one variant of the question."""

    total_params: Ends
    active_params: Ends
    layers: Ends


class VariantOutput(BaseModel):
    """The question again with other speculation or software."""

    name: str = Field(description="no speculation, or the name of a software")
    text: str
    feasible: bool
    ranges: VariantRanges | None = Field(description="null where nothing is feasible")


class SolveOutput(BaseModel):
    """`archinfer solve --format json`."""

    question: QuestionOutput
    feasible: bool
    ranges: Ranges
    by_weights: dict[str, WeightsRanges] = Field(description="the ranges of each weight format")
    architectures: list[ArchitectureOutput]
    sensitivity: list[SensitivityOutput]
    posterior: Posterior | None = Field(description="null without --observed")
    comparisons: list[Comparison] = Field(description="one for each --compare")
    variants: list[VariantOutput] = Field(
        description="what a target allows without speculation, and with faster software that the "
        "profile knows; empty with --observed"
    )
    conflict: ConflictOutput | None = Field(description="null where something is feasible")
    constraints: list[ConstraintOutput]
    notes: list[str]
    provenance: tuple[Figure, ...]


class TotalAndActive(BaseModel):
    """Parameters, all of them and those that one token uses."""

    total: int
    active: int


class ModelParameters(TotalAndActive):
    """Exact counts of parameters."""

    by_component: dict[str, int]
    active_without_input_embedding: int
    active_without_embedding_and_head: int
    multi_token_prediction_not_counted: int


class ReductionsOutput(BaseModel):
    """The chain of dependent reductions of layers of one kind."""

    layers: int
    reductions: int
    steps: list[str]


class AnnouncedOutput(BaseModel):
    """What the maker says of the size, as written."""

    total: str | None
    active: str | None
    source: str | None
    difference: str | None


class ModelOutput(BaseModel):
    """`archinfer models show MODEL --format json`."""

    name: str
    family: str
    hugging_face: str | None
    parameters: ModelParameters
    kv_bytes_per_token: float = Field(description="16-bit cache, every layer that has one")
    kv_bytes_per_token_by_format: dict[str, float]
    kv_bytes_per_token_past_windows: float
    kv_window_bytes_max: float
    indexer_bytes_per_token: float
    state_bytes: float = Field(description="recurrent state of a sequence")
    layers: int
    hidden_size: int
    vocab_size: int
    tied_head: bool
    attention: dict[str, int] = Field(description="layers by kind")
    experts: int | None
    experts_per_token: float | None
    weight_format: str
    weight_bytes: float
    weight_formats: dict[str, str] = Field(description="by component; several joined by ' + '")
    weight_bytes_by_component: dict[str, float]
    kv_format: str | None = Field(description="of the KV cache, where the model's file states one")
    assumed: list[str] = Field(description="what the model's file does not say")
    reductions_per_layer: list[ReductionsOutput]
    max_context_tokens: int | None
    announced: AnnouncedOutput | None
    source: str | None
    counted_by: str | None
    confidence: str | None
    notes: list[str]
    warnings: list[str]
    conventions: dict[str, str]


class ModelListRow(BaseModel):
    """One model of the catalogue."""

    name: str
    total_params: int
    active_params: int
    layers: int
    hidden_size: int
    experts: int | None
    experts_per_token: float | None
    kv_bytes_per_token: float
    weight_format: str
    announced_total: str | None
    announced_active: str | None
    hugging_face: str | None
    confidence: str | None


class ModelListOutput(RootModel[list[ModelListRow]]):
    """`archinfer models list --format json`."""


class CheckResult(BaseModel):
    """One expectation, held against the model."""

    name: str = Field(description="of the check")
    expectation: Literal[
        "feasible", "tokens_per_s", "nodes", "memory", "contains", "excludes", "lint"
    ]
    file: str
    line: int
    passed: bool
    message: str
    margin: float | None = Field(
        description="relative distance to the limit, positive where it holds; null: there is none"
    )


class CheckRemark(BaseModel):
    """Something to say about a check file."""

    file: str
    line: int | None
    message: str


class CheckOutput(BaseModel):
    """`archinfer check FILE... --format json`."""

    results: list[CheckResult]
    passed: int
    failed: int
    errors: list[CheckRemark] = Field(description="files that are wrong; exit code 2")
    warnings: list[CheckRemark] = Field(description="what to know of the models that are named")


class ErrorSummary(BaseModel):
    """Of |ratio - 1| on the larger side: exp(|ln ratio|) - 1; null without rows."""

    median_abs_error: float | None
    worst_abs_error: float | None


class CoverageSummary(ErrorSummary):
    """Errors, and how often intervals hold the observed speed."""

    coverage50: float | None = Field(description="share of rows inside the 50 % interval")
    coverage90: float | None = Field(description="share of rows inside the 90 % interval")


class ValidateRow(BaseModel):
    """One published speed and its prediction."""

    id: str = Field(description="of the observation")
    model: str
    hardware: str
    observed: float = Field(description="tokens/s of one user")
    predicted: Levels = Field(description="by a fit that has not seen this model")
    ratio: float = Field(description="observed over predicted p50")
    error: float = Field(description="exp(|ln ratio|) - 1")
    nodes: tuple[float, float] = Field(description="fewest and most that it may have run on")
    speculative: bool | None = Field(description="null: not known")
    fits: bool
    counted: bool = Field(description="enters the summaries")
    baselines: dict[str, float] = Field(description="predictions of each baseline in tokens/s")
    software: str | None = Field(description="that ran, where the row tells; null: the usual one")
    software_assumed: bool = Field(description="taken from the date: the row does not name it")


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
    rows: list[ValidateRow]
    summary: CoverageSummary
    baselines: dict[Literal["roofline", "constant_per_layer"], ErrorSummary]
    fit: dict[str, FitErrors] = Field(description="the fit to all rows, by profile")
    transfer: TransferOutput | None
    inverse: InverseOutput | None = Field(description="null with --no-inverse")


class MappingOutput(BaseModel):
    """Which nodes hold which layers."""

    tensor_parallel: int = Field(description="nodes that share each layer")
    stages: int = Field(description="pipeline stages")
    layers_per_stage: int


class CeilingOutput(BaseModel):
    """The most that more nodes of this hardware can reach for one user."""

    tokens_per_s: Quantiles
    nodes: int
    mapping: MappingOutput
    bottleneck: str
    latency_share: float = Field(description="of the time of a pass that no bandwidth shortens")
    power_w: float | None


class CompareRow(BaseModel):
    """One model on one machine."""

    model: str
    hardware: str
    node: str
    usual_software: str | None = Field(
        description="the software whose speeds the profile describes; null: not said"
    )
    weights: str
    fits: bool
    nodes: int = Field(description="nodes in use")
    min_nodes: int | None = Field(description="fewest that hold it; null: no number does")
    mapping: MappingOutput
    tokens_per_s: Quantiles
    bottleneck: str
    bandwidth_tokens_per_s: float | None = Field(
        description="if only reading took time, at peak bandwidth"
    )
    power_w: float | None = Field(description="null: the profile states none")
    memory_bytes: float
    memory_fraction: float
    overlaps: list[str] = Field(
        description="hardware whose 5 to 95 % interval overlaps this one: which of the two is "
        "faster is not known"
    )
    ceiling: CeilingOutput | None


class CompareQuestion(BaseModel):
    """What was asked of every machine."""

    context_tokens: int
    concurrency: int
    kv: str
    speculation: tuple[float, float]


class CompareOutput(BaseModel):
    """`archinfer compare MODEL... --format json`."""

    question: CompareQuestion
    results: list[CompareRow]


def _hardware_file() -> dict[str, Any]:
    from archinfer.hardware.schema import Profile

    return _file_schema(Profile)


def _check_file() -> dict[str, Any]:
    from archinfer.checks.schema import CheckFile

    return _file_schema(CheckFile)


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
    "solve": Output("solve", SolveOutput),
    "predict": Output("predict MODEL...", Predictions),
    "compare": Output("compare MODEL...", CompareOutput),
    "models-show": Output("models show MODEL", ModelOutput),
    "models-list": Output("models list", ModelListOutput),
    "calibrate": Output("calibrate", Calibration),
    "validate": Output("validate", ValidateOutput),
    "hardware-show": Output("hardware show NAME", Hardware),
    "hardware-list": Output("hardware list", HardwareListOutput),
    "check-output": Output("check FILE...", CheckOutput),
}
"""Outputs by the name of their schema."""


def _of(output: Output) -> Schema:
    text = f"output of archinfer {output.command} --format json"
    return Schema(text, lambda: TypeAdapter(output.result).json_schema(mode="serialization"))


SCHEMAS: dict[str, Schema] = {
    "hardware": Schema("file: a hardware profile", _hardware_file),
    "check": Schema("file: expectations for archinfer check", _check_file),
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
