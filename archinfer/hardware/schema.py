"""The hardware profile as YAML: its pydantic model, and the checks that span several keys.

Each figure is a mapping `{value: "44 GB", source: "...", log_sd: 0.1, note: "..."}`; value and
source are required, because a figure without a source is of no use to anybody.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, Field, create_model

from archinfer import files, strict
from archinfer.asking import ACCEPTED_MOST
from archinfer.errors import nearest
from archinfer.files import Document
from archinfer.hardware.calibrated import Calibration, LogSd, Prefill
from archinfer.hardware.figures import KEYS, SYNC, TABLES, USUAL_SOFTWARE, Figure, key_of
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.strict import (
    NAME_MOST,
    NAME_PATTERN,
    Read,
    StrictModel,
    Text,
    quantity_schema,
)

NumberFormat = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]
GroupSize = Annotated[int, Field(ge=1)]


Chance = Annotated[float, Field(gt=0, lt=1, strict=False)]
Value = TypeVar("Value")


def _read(name: str) -> Read:
    """Text with a unit, read into SI units as the table has it."""
    key = KEYS.get(name) or TABLES[name]
    return Read(name, key.read, quantity_schema(key.dimension))


class Exact(StrictModel, Generic[Value]):
    """A figure that counts as exact."""

    value: Value
    source: Text = Field(description="where it comes from; begins with 'estimate' if nowhere")
    note: Text | None = None


class Uncertain(Exact[Value], Generic[Value]):
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


def _section(name: str, text: str, prefix: str, last: bool = False, **others: Any) -> Any:
    """The model of a section: the figures of the table that begin with `prefix`, and others.

    The others come between those that must be there and those that may, or `last`.
    """
    fields: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for key, figure in KEYS.items():
        section, _, plain = key.rpartition(".")
        if key == "power" or section != prefix:
            continue
        number: Any = Annotated[float, _read(key)]
        kind: Any = Uncertain[number] if figure.uncertain else Exact[number]
        if figure.optional:
            optional[plain] = (kind | None, None)
        else:
            fields[plain] = (kind, ...)
    fields |= (optional | others) if last else (others | optional)
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
    _PEAKS = dict[NumberFormat, Exact[Annotated[float, _read("compute.peak")]]]
    _TIMES = Annotated[dict[GroupSize, Annotated[float, _read(SYNC)]], Field(min_length=1)]
    Memory = _section("Memory", "Memory of one node.", "memory")
    Compute = _section(
        "Compute",
        "Arithmetic of one node: peaks by number format; cores and clock of spatial hardware.",
        "compute",
        peak=(Annotated[_PEAKS, Field(min_length=1)], ...),
    )
    Fabric = _section(
        "Fabric",
        "The network of cores on one node: cycles of a hop and of a dependent step.",
        "fabric",
    )
    Link = _section("Link", "From node to node along a pipeline.", "link")
    ScaleUp = _section(
        "ScaleUp",
        "The nodes that share a fast network: how many, how fast, and the time of an all-reduce.",
        "scale_up",
        last=True,
        sync_latency=(Exact[_TIMES], ...),
    )
    Price = _section("Price", "What one node costs.", "price")
    Energy = _section("Energy", "What one node draws: idle, and by what it does.", "energy")
    Constants = _section(
        "Constants",
        "Constants of the cost model that no datasheet gives.",
        "",
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
    draft_time: Uncertain[Annotated[float, _read("fixed_time_per_token")]]
    probability: Chance = Field(
        description="chance that a speed without a word on it was reached with speculation"
    )
    spread: LogSd = Field(description="spread of the gain from text to text, natural logarithm")
    source: Text


class Software(StrictModel):
    """Speed of other software than the usual, as a factor."""

    factor: Annotated[float, Field(gt=0, strict=False)]
    log_sd: LogSd
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
    power: Exact[Annotated[float, _read("power")]] | None = None
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
        for section in ("memory", "compute", "fabric", "link", "scale_up"):
            group: BaseModel | None = getattr(self, section)
            if group is not None:
                yield from _figures(group, f"{section}.")
        if self.power is not None:
            yield _one("power", self.power)
        for name in ("price", "energy"):
            if getattr(self, name) is not None:
                yield from _figures(getattr(self, name), f"{name}.")
        yield from _figures(self.constants, "")

    def joint_covariance(self) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
        """Names and covariance matrix; both empty where the file gives none."""
        if self.covariance is None:
            return (), ()
        names = tuple(name.removeprefix("constants.") for name in self.covariance.names)
        return names, tuple(tuple(row) for row in self.covariance.log_covariance)

    def speculation_law(self) -> SpeculationLaw | None:
        """Speculative decoding as fitted; None where the file has none."""
        s = self.speculation
        if s is None:
            return None
        return SpeculationLaw(
            acceptance=s.acceptance,
            acceptance_logit_sd=s.acceptance_logit_sd,
            draft_time_s=s.draft_time.value,
            draft_time_log_sd=s.draft_time.log_sd,
            probability=s.probability,
            spread_log_sd=s.spread,
            source=s.source,
        )


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Reads and checks one profile.

    Raises:
        FileError: with line, key, found and expected.
    """
    return profile_of(files.load(path))


@cache
def _sets() -> dict[str, Any]:
    """Constants by kind of machine (`archinfer/data/constants.yaml`)."""
    with resources.as_file(resources.files("archinfer") / "data" / "constants.yaml") as path:
        found: dict[str, Any] = files.load(path).data
    return found


def with_borrowed(document: Document) -> Document:
    """The document with what its `like` set says wherever it says nothing itself."""
    name = document.data.get("like") if isinstance(document.data, dict) else None
    if not isinstance(name, str):
        return document
    if name not in _sets():
        guess = nearest(name, _sets())
        hint = f"; did you mean {guess!r}?" if guess else f" (known: {', '.join(_sets())})"
        raise document.error(("like",), f"key 'like': unknown set of constants {name!r}{hint}")
    data = copy.deepcopy(document.data)
    data.setdefault("constants", {})
    taken = [
        key
        for section, figures in _sets()[name].items()
        if section != "covariance"
        for key in _borrow(data.get(section), section, figures)
    ]
    if "covariance" not in data:
        data["covariance"] = _part_of(_sets()[name]["covariance"], taken)
    return replace(document, data=data)


def _borrow(own: Any, section: str, figures: dict[str, Any]) -> Iterator[str]:
    """Puts figures in a section of a profile that lacks them; yields the names of these."""
    if not isinstance(own, dict):
        return
    for key, figure in figures.items():
        if key not in own:
            own[key] = copy.deepcopy(figure)
            yield key if section == "constants" else f"{section}.{key}"


def _part_of(covariance: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The rows and columns of a covariance that belong to `names`."""
    kept = [i for i, name in enumerate(covariance["names"]) if name in names]
    rows = [[covariance["log_covariance"][i][j] for j in kept] for i in kept]
    return covariance | {"names": [covariance["names"][i] for i in kept], "log_covariance": rows}


def profile_of(document: Document) -> Profile:
    """Checks one profile; raises FileError."""
    document = with_borrowed(document)
    profile = strict.validate(document, Profile)
    _check_execution(profile, document)
    _check_values(profile, document)
    _check_covariance(profile, document)
    return profile


def _figures(group: BaseModel, prefix: str) -> Iterator[Figure]:
    for name in type(group).model_fields:
        found = getattr(group, name)
        if isinstance(found, dict):
            for number_format, figure in found.items():
                yield _one(f"{prefix}{name}.{number_format}", figure)
        elif found is not None:
            yield _one(f"{prefix}{name}", found)


def _one(key: str, found: Exact[Any] | Accepted) -> Figure:
    note = found.note or ""
    if isinstance(found, Accepted):
        return Figure(key, ((found.low, found.high),), "number", found.source, note=note)
    value = found.value
    if isinstance(value, dict):
        value = tuple(sorted((float(size), seconds) for size, seconds in value.items()))
    log_sd = found.log_sd if isinstance(found, Uncertain) else 0.0
    return Figure(key, value, key_of(key).dimension, found.source, log_sd, note)


def _check_execution(profile: Profile, document: Document) -> None:
    """Figures of one kind of hardware are there, and those of the other are not.

    A section all of whose figures are of one kind is needed, or foreign, as a whole.
    """
    if profile.execution == "spatial" and profile.link is None:
        raise document.error(("link",), "missing key 'link'; execution spatial needs it")
    checked: set[tuple[str, ...]] = set()
    for key, figure in KEYS.items():
        place = _place(key)
        section = [k.only for k in (KEYS | TABLES).values() if _place(k.name)[0] == place[0]]
        if len(set(section)) == 1:
            place = place[:1]
        if figure.only is None or place in checked:
            continue
        checked.add(place)
        there = _at(profile, place) is not None
        name, execution = ".".join(place), profile.execution
        if there and figure.only != execution:
            raise document.error(place, f"key {name!r} has no meaning for {execution} execution")
        if not there and execution == figure.only == "spatial":
            within = f" in {place[0]!r}" if len(place) > 1 else ""
            raise document.error(
                place, f"missing key {place[-1]!r}{within}; execution {execution} needs it"
            )


def _check_values(profile: Profile, document: Document) -> None:
    accepted: Accepted = _at(profile, ("constants", "accepted_tokens_per_pass"))
    if accepted.low > accepted.high:
        raise document.error(
            ("constants", "accepted_tokens_per_pass", "low"),
            f"key 'constants.accepted_tokens_per_pass.low': found {accepted.low:g}, "
            f"expected at most high = {accepted.high:g}",
        )
    if USUAL_SOFTWARE in (profile.software or {}):
        raise document.error(
            ("software", USUAL_SOFTWARE),
            f"key 'software': {USUAL_SOFTWARE!r} is the software that the constants describe; "
            "expected the name of another",
        )
    for figure in profile.figures():
        zero = figure.value == 0.0
        if zero and figure.log_sd > 0.0:
            place = _place(figure.key)
            raise document.error(
                (*place, "log_sd"),
                f"key '{'.'.join(place)}.log_sd': found {figure.log_sd:g}, expected 0: "
                f"a value of zero has no logarithm",
            )


def _check_covariance(profile: Profile, document: Document) -> None:
    found = profile.covariance
    if found is None:
        return
    names, rows = profile.joint_covariance()
    present = {figure.key for figure in profile.figures()}
    known = [key for key, spec in KEYS.items() if key in present and spec.uncertain]
    for i, name in enumerate(names):
        where = ("covariance", "names", i)
        if name not in known:
            guess = nearest(name, known)
            hint = f"; did you mean {guess!r}?" if guess else f" (known: {', '.join(known)})"
            raise document.error(where, f"key 'covariance.names': unknown constant {name!r}{hint}")
        if name in names[:i]:
            raise document.error(where, f"key 'covariance.names': {name!r} is named twice")
    place = ("covariance", "log_covariance")
    size = len(names)
    fault = f"key 'covariance.log_covariance': expected {size} rows of {size} numbers"
    if len(rows) != size or any(len(row) != size for row in rows):
        raise document.error(place, f"{fault}, found {len(rows)} of {[len(r) for r in rows][:9]}")
    matrix = np.asarray(rows)
    scale = np.abs(matrix).max()
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * scale):
        raise document.error(place, "key 'covariance.log_covariance': expected a symmetric matrix")
    if np.linalg.eigvalsh(matrix).min() < -1e-6 * scale:
        raise document.error(
            place, "key 'covariance.log_covariance': expected a positive semidefinite matrix"
        )


def _place(key: str) -> tuple[str, ...]:
    parts = tuple(key.split("."))
    return parts if len(parts) > 1 or key == "power" else ("constants", key)


def _at(profile: Profile, place: tuple[str, ...]) -> Any:
    found: Any = profile
    for part in place:
        found = getattr(found, part, None)
    return found
