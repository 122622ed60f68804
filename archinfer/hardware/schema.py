"""The hardware profile as YAML: its pydantic model; `hardware.reading` reads files.

Each figure is a mapping `{value: "44 GB", source: "...", log_sd: 0.1, note: "..."}`; value and
source are required, because a figure without a source is of no use to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, GetCoreSchemaHandler, create_model

from archinfer.asking import ACCEPTED_MOST
from archinfer.hardware.figures import KEYS, SYNC, TABLES, Figure, NumberFormat, key_of
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.strict import NAME_MOST, NAME_PATTERN, Read, StrictModel, Text, quantity_schema

LogSd = Annotated[float, Field(ge=0, le=3, strict=False)]


class Chain(StrictModel):
    """Dependent reductions of one layer, counted while it ran."""

    dense: Annotated[int, Field(ge=1)]
    moe: Annotated[int, Field(ge=1)]


class Calibration(StrictModel):
    """What a measurement with archinfer calibrate says about other hardware as well."""

    evenness: Annotated[float, Field(gt=0, le=1, strict=False)] = Field(
        description="share of experts that, evenly used, would be hit as often as was counted"
    )
    chain: Chain = Field(description="counted dependent reductions of a layer")
    bandwidth_fraction: Annotated[float, Field(gt=0, strict=False)] = Field(
        description="part of the read bandwidth that decode of a large model reaches"
    )
    model_error: LogSd = Field(description="spread of log(time) about the fitted cost model")
    source: Text


Share = Annotated[float, Field(gt=0, strict=False)]
Count = Annotated[int, Field(ge=1)]


class Prompt(StrictModel):
    """One prompt through one model."""

    model: Text
    tokens: Count
    efficiency: Share


class Product(StrictModel):
    """One shape of matrix product: tokens times a matrix of outputs x inputs."""

    tokens: Count
    outputs: Count
    inputs: Count
    efficiency: Share


class Prefill(StrictModel):
    """How fast prompts are read, as parts of the peak of matrix products."""

    efficiency: Share = Field(description="of whole prompts, geometric mean")
    log_sd: LogSd = Field(description="its spread over prompts and models, natural logarithm")
    product_efficiency: Share = Field(description="of the matrix products alone, geometric mean")
    product_log_sd: LogSd = Field(description="its spread over shapes, natural logarithm")
    prompts: list[Prompt]
    products: list[Product]
    source: Text


GroupSize = Annotated[int, Field(ge=1)]


Chance = Annotated[float, Field(gt=0, lt=1, strict=False)]


@dataclass(frozen=True)
class _Of:
    """Annotation of a figure: its value is text with a unit, read as the table has `key`."""

    key: str
    table: bool = False
    """of several sizes of groups, each with a value"""

    def __get_pydantic_core_schema__(self, figure: Any, handler: GetCoreSchemaHandler) -> Any:
        key = KEYS.get(self.key) or TABLES[self.key]
        value: Any = Annotated[float, Read(self.key, key.read, quantity_schema(key.dimension))]
        if self.table:
            value = Annotated[dict[GroupSize, value], Field(min_length=1)]
        # One class serves all figures: a class for each takes longer than reading a profile.
        found: Any = dict(handler.resolve_ref_schema(handler(figure)))
        del found["ref"]
        fields: Any = found["schema"]["fields"]
        given: Any = fields["value"]["schema"] | {"schema": handler.generate_schema(value)}
        fields = fields | {"value": fields["value"] | {"schema": given}}
        return found | {"schema": found["schema"] | {"fields": fields}}


class Exact(StrictModel):
    """A figure that counts as exact."""

    value: Any
    source: Text = Field(description="where it comes from; begins with 'estimate' if nowhere")
    note: Text | None = None


class Uncertain(Exact):
    """A figure that may be uncertain."""

    log_sd: LogSd = Field(
        default=0.0, description="standard deviation of the natural logarithm of the value"
    )


class Accepted(StrictModel):
    """The range of accepted tokens a pass to expect where nobody says more."""

    low: Annotated[float, Field(ge=1, le=ACCEPTED_MOST, strict=False)]
    high: Annotated[float, Field(ge=1, le=ACCEPTED_MOST, strict=False)]
    source: Text
    note: Text | None = None


def _section(section: str, text: str, last: bool = False, **others: Any) -> Any:
    """A section: its figures of the table, and others before the optional ones, or `last`."""
    prefix = "" if section == "constants" else section
    fields: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for key, figure in KEYS.items():
        before, _, plain = key.rpartition(".")
        if key == "power" or before != prefix:
            continue
        kind: Any = Annotated[Uncertain if figure.uncertain else Exact, _Of(key)]
        if figure.optional:
            optional[plain] = (kind | None, None)
        else:
            fields[plain] = (kind, ...)
    fields |= (optional | others) if last else (others | optional)
    name = section.title().replace("_", "")
    return create_model(name, __base__=StrictModel, __doc__=text, **fields)


if TYPE_CHECKING:
    Memory = StrictModel
    Compute = StrictModel
    Fabric = StrictModel
    Link = StrictModel
    ScaleUp = StrictModel
    Price = StrictModel
    Energy = StrictModel
    Constants = StrictModel
else:
    _PEAKS = dict[NumberFormat, Annotated[Exact, _Of("compute.peak")]]
    Memory = _section("memory", "Memory of one node.")
    Compute = _section(
        "compute",
        "Arithmetic of one node: peaks by number format; cores and clock of spatial hardware.",
        peak=(Annotated[_PEAKS, Field(min_length=1)], ...),
    )
    Fabric = _section(
        "fabric", "The network of cores on one node: cycles of a hop and of a dependent step."
    )
    Link = _section("link", "From node to node along a pipeline.")
    ScaleUp = _section(
        "scale_up",
        "The nodes that share a fast network: how many, how fast, and the time of an all-reduce.",
        last=True,
        sync_latency=(Annotated[Exact, _Of(SYNC, table=True)], ...),
    )
    Price = _section("price", "What one node costs.")
    Energy = _section("energy", "What one node draws: idle, and by what it does.")
    Constants = _section(
        "constants",
        "Constants of the cost model that no datasheet gives.",
        accepted_tokens_per_pass=(Accepted, ...),
    )


class Covariance(StrictModel):
    """Joint covariance of the natural logarithms of constants, in the order of `names`."""

    names: Annotated[list[Text], Field(min_length=1)]
    log_covariance: list[list[Annotated[float, Field(strict=False)]]]
    source: Text


class Fit(StrictModel):
    """How the constants were fitted; for people to read."""

    command: Text
    observations: Annotated[int, Field(ge=0)]
    residual: Text | Annotated[float, Field(strict=False)] | None = None
    note: Text | None = None


class Speculation(StrictModel):
    """Speculative decoding as the services of this hardware use it."""

    acceptance: Chance = Field(description="chance that a drafted token is accepted")
    acceptance_logit_sd: LogSd = Field(description="standard deviation of its log-odds")
    draft_time: Annotated[Uncertain, _Of("fixed_time_per_token")]
    probability: Chance = Field(
        description="chance that a speed without a word on it was reached with speculation"
    )
    spread: LogSd = Field(description="spread of the gain from text to text, natural logarithm")
    source: Text


class Software(StrictModel):
    """Other software than the usual, by what it does to times that no bandwidth bounds."""

    fixed_time_factor: Annotated[float, Field(gt=0, strict=False)] = Field(
        description="its fixed times of a layer, a token and a sequence over those of the usual"
    )
    log_sd: LogSd
    routed_kernels_factor: Annotated[float, Field(gt=0, strict=False)] = Field(
        default=1.0,
        description="kernels that its routed experts add to a layer over those of the usual: few "
        "where products pick experts by index and no token is sorted",
    )
    source: Text


class Profile(StrictModel):
    """A hardware profile."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=NAME_MOST)]
    title: Text
    node: Text = Field(description="what one node is called: wafer, GPU, socket")
    execution: Literal["spatial", "temporal"]
    note: Text | None = None
    like: Text | None = Field(
        default=None,
        description="set of constants (archinfer/data/constants.yaml) that stands in for those "
        "that are not given",
    )
    usual_software: Text | None = Field(
        default=None, description="the software whose speeds the constants describe"
    )
    memory: Memory
    compute: Compute
    fabric: Fabric | None = None
    link: Link | None = Field(default=None, description="left out: a machine that stands alone")
    scale_up: ScaleUp | None = None
    power: Annotated[Exact, _Of("power")] | None = None
    price: Price | None = None
    energy: Energy | None = None
    constants: Constants
    covariance: Covariance | None = None
    speculation: Speculation | None = None
    software: dict[Text, Software] | None = None
    fit: Fit | None = None
    calibration: Calibration | None = None
    prefill: Prefill | None = None

    def figures(self) -> Iterator[Figure]:
        """Every figure, in the order of the file format."""
        for section in (
            "memory", "compute", "fabric", "link", "scale_up", "power", "price", "energy",
            "constants",
        ):  # fmt: skip
            found = getattr(self, section)
            if isinstance(found, Exact):
                yield _one(section, found)
            elif found is not None:
                yield from _figures(found, "" if section == "constants" else f"{section}.")

    def joint_covariance(self) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
        """Names and covariance matrix; both empty where the file gives none."""
        if self.covariance is None:
            return (), ()
        names = tuple(name.removeprefix("constants.") for name in self.covariance.names)
        return names, tuple(map(tuple, self.covariance.log_covariance))

    def speculation_law(self) -> SpeculationLaw | None:
        """Speculative decoding as fitted; None where the file has none."""
        if self.speculation is None:
            return None
        law = dict(self.speculation)
        draft = law.pop("draft_time")
        return SpeculationLaw(
            draft_time_s=draft.value,
            draft_time_log_sd=draft.log_sd,
            spread_log_sd=law.pop("spread"),
            **law,
        )


def _figures(group: BaseModel, prefix: str) -> Iterator[Figure]:
    for name in type(group).model_fields:
        found = getattr(group, name)
        if isinstance(found, dict):
            for number_format, figure in found.items():
                yield _one(f"{prefix}{name}.{number_format}", figure)
        elif found is not None:
            yield _one(f"{prefix}{name}", found)


def _one(key: str, found: Exact | Accepted) -> Figure:
    note = found.note or ""
    if isinstance(found, Accepted):
        return Figure(key, ((found.low, found.high),), "number", found.source, note=note)
    value = found.value
    if isinstance(value, dict):
        value = tuple(sorted((float(size), seconds) for size, seconds in value.items()))
    log_sd = found.log_sd if isinstance(found, Uncertain) else 0.0
    return Figure(key, value, key_of(key).dimension, found.source, log_sd, note)
