"""Published decode speeds, of one user or of a serving engine: rows of what was measured, on what.

The shipped rows are `archinfer/data/observations.yaml`; users bring their own files of the same
layout, or tables (CSV) of the layout of `archinfer/data/serving.csv`. Rows are facts only: nothing
here predicts or fits anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, WithJsonSchema, field_validator

from archinfer import files, strict, units
from archinfer.asking import NODES_MOST
from archinfer.errors import FileError, InputError, UnknownNameError, nearest
from archinfer.files import Document
from archinfer.fitting import serving
from archinfer.models import catalogue, checkpoint
from archinfer.models.architecture import Architecture
from archinfer.models.formats import weight_format
from archinfer.strict import Date, Read, quantity_schema

_YEAR = 4
"""Characters of a date that is a year alone."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One published speed; None where it is not published."""

    id: str
    """Unique name of the row."""
    model: str
    """What the source calls the model."""
    architecture: str | None
    """Name in the catalogue, or path of a config.json; None: not public."""
    profile: str | None
    """Name of a hardware profile; None: there is none."""
    tokens_per_s: float
    """Output tokens per second of one user."""
    hardware: str = ""
    """What the source calls the machine."""
    nodes: int | None = None
    """Wafers, GPUs, sockets."""
    batch: float | None = None
    """Sequences in flight; None: a hosted service."""
    speculative: bool | None = None
    """Whether speculative decoding was used."""
    weight_bits: float | None = None
    weights: str | None = None
    """Name of the number format of the weights, in place of their bits."""
    prompt_tokens: float | None = None
    """Of each user of a serving engine: decode passes wait for the others' prompts."""
    output_tokens: float | None = None
    first_token_s: float | None = None
    """Time to the first token, under the load of all users."""
    whole_experts: bool | None = None
    """Whether routed experts stay whole, one node each; None: the faster."""
    attention_replicas: int = 1
    """Copies of the attention's weights, each of which serves its own users."""
    kv_bits: float | None = None
    """Bits of a number in the KV cache; None: 16."""
    context_tokens: float | None = None
    date: str = ""
    """"2025", "2025-07" or "2025-07-31"."""
    measured_by: str = ""
    source_url: str = ""
    source_title: str = ""
    note: str = ""
    confidence: str = ""
    mesh_side: float | None = None
    """Side in cores of the square region that one decode stage used (spatial)."""
    software: str | None = None
    """Name of the software that ran, where rows of one profile differ in it."""
    software_assumed: bool = False
    """It was taken from the date, the row does not name it."""
    draft_tokens: int | None = None
    """Drafted tokens that each pass verified."""
    accepted_tokens: float | None = None
    """Tokens gained per pass."""
    draft_architecture: str | None = None
    """The model that drafts, named as `architecture`."""
    draft_weight_bits: float | None = None
    """Bits of one of its weights; None: the format they come in."""
    fitted: bool = True
    """False: predicted, but not fitted to (the note says why)."""
    origin: str = field(default="", compare=False)
    """The file it was read from."""
    line: int = field(default=1, compare=False)
    key_lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """The line of each key there."""
    shipped: bool = field(default=False, compare=False)
    """It comes with archinfer."""

    def architecture_model(self) -> Architecture:
        """The architecture, from the catalogue or from the config.json beside the file.

        Raises:
            InputError: the row names none.
            FileError: it names one that is not there.
        """
        if self.architecture is None:
            raise InputError(f"observation {self.id!r} names no architecture")
        return self._model(self.architecture, "architecture")

    def draft_model(self) -> Architecture | None:
        """The model that drafts; raises FileError as `architecture_model`."""
        if self.draft_architecture is None:
            return None
        return self._model(self.draft_architecture, "draft_architecture")

    def fault(self, key: str, message: str) -> FileError:
        """What is wrong with one key of the row, ready to raise."""
        line = self.key_lines.get(key, self.line)
        return FileError(self.origin or self.id, f"key {key!r}: {message}", line)

    def _model(self, name: str, key: str) -> Architecture:
        path = Path(self.origin).parent / name
        if _is_path(name) and path.exists():
            return checkpoint.load_architecture(os.fspath(path))
        try:
            return catalogue.load(name)
        except UnknownNameError as error:
            hint = f"; did you mean {error.nearest!r}?" if error.nearest else ""
            file = f", and there is no file {os.fspath(path)}" if _is_path(name) else ""
            raise self.fault(
                key,
                f"found {files.show(name)}, expected a model of the catalogue or the path of a "
                f"config.json{file}{hint}",
            ) from None


def _is_path(text: str) -> bool:
    return text.endswith(".json") or "/" in text or os.sep in text


class _Source(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    url: str | None = None
    title: str | None = None


_MOST = units.DIMENSIONS["tokens"].plausible[1]
_Positive = Annotated[float, Field(gt=0, le=_MOST, strict=False, allow_inf_nan=False)]
_Whole = Annotated[int, Field(ge=1, le=NODES_MOST)]
_Seconds = Annotated[
    float,
    Read("seconds", partial(units.parse, dimension="seconds"), quantity_schema("seconds")),
    Field(gt=0),
]
_Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]


class Row(BaseModel):
    """One speed."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: _Name
    model: _Name
    architecture: _Name | None
    hardware: str | None = None
    profile: _Name | None
    nodes: _Whole | None = None
    batch: _Positive | None = None
    tokens_per_s: (
        Annotated[float, Field(gt=0, le=units.SPEED_MOST, strict=False, allow_inf_nan=False)] | None
    ) = None
    time_per_output_token: _Seconds | None = Field(
        None, description="in place of tokens_per_s: the first token left out"
    )
    time_to_first_token: _Seconds | None = None
    prompt_tokens: _Positive | None = Field(None, description="of each user of a serving engine")
    output_tokens: _Positive | None = None
    weights: _Name | None = Field(None, description="number format, in place of weight_bits")
    speculative: Annotated[bool | None, WithJsonSchema({"enum": [True, False, "unknown"]})] = None
    weight_bits: Annotated[float, Field(gt=0, le=64, strict=False)] | None = None
    kv_bits: Annotated[float, Field(gt=0, le=64, strict=False)] | None = None
    context_tokens: _Positive | None = None
    date: Date | None = None
    measured_by: str | None = None
    source: _Source | None = None
    note: str | None = None
    confidence: Literal["high", "medium", "low"] | None = None
    mesh_side: Annotated[float, Field(ge=1, le=1e5, strict=False)] | None = None
    software: _Name | None = None
    draft_tokens: Annotated[int, Field(ge=1, le=1000)] | None = None
    accepted_tokens: Annotated[float, Field(ge=1, le=1000, strict=False)] | None = None
    draft_architecture: _Name | None = None
    draft_weight_bits: Annotated[float, Field(gt=0, le=64, strict=False)] | None = None
    fitted: bool = True

    @field_validator(
        "tokens_per_s", "weight_bits", "kv_bits", "context_tokens", "batch", "mesh_side",
        "prompt_tokens", "output_tokens", "accepted_tokens", "draft_weight_bits", mode="before",
    )  # fmt: skip
    @classmethod
    def _number(cls, value: Any) -> Any:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError("expected a number")
        return value

    @field_validator("nodes", "draft_tokens", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise ValueError("expected a whole number")
        return value

    @field_validator("speculative", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, bool) and value != "unknown":
            raise ValueError("expected true, false or unknown")
        return None if value == "unknown" else value


class ObservationFile(RootModel[list[Row]]):
    """Speeds that were published or measured: one row each."""


def read(path: str | os.PathLike[str]) -> list[Observation]:
    """The rows of a file, in its order.

    Raises:
        FileError: at the first line that is wrong.
    """
    if os.fspath(path).endswith(".csv"):
        # None that mostly queued or drafted.
        return [of_engine(row, os.fspath(path), line) for line, row in serving.table(path)]
    document = files.load(path)
    if not isinstance(document.data, list):
        found = files.show(document.data)
        raise document.error((), f"found {found}, expected a list of observations")
    lines: list[dict[files.Location, int]] = [{} for _ in document.data]
    for place, line in document.lines.items():
        if place:
            lines[int(place[0])][place[1:]] = line
    rows: list[Observation] = []
    first: dict[str, int] = {}
    for data, known in zip(document.data, lines, strict=True):
        one = Document(document.path, data, known)
        row = _observation(strict.validate(one, Row), one)
        if row.id in first:
            raise one.error(
                ("id",), f"key 'id': {row.id!r} is there twice (first on line {first[row.id]})"
            )
        first[row.id] = row.line
        rows.append(row)
    return software_by_date(rows, rows)


def load(path: str | os.PathLike[str] | None = None) -> list[Observation]:
    """The shipped rows; with a path the file's rows as well, which replace those of equal id."""
    return list(_shipped()) if path is None else combine(_shipped(), read(path))


@cache
def _shipped() -> tuple[Observation, ...]:
    with resources.as_file(resources.files("archinfer") / "data" / "observations.yaml") as path:
        return tuple(replace(row, shipped=True) for row in read(path))


def combine(rows: Iterable[Observation], more: Iterable[Observation]) -> list[Observation]:
    """`rows` and `more`; a row of `more` takes the place of the one with the same id."""
    joined = {row.id: row for row in rows} | {row.id: row for row in more}
    out = list(joined.values())
    return software_by_date(out, out)


def of_profile(
    rows: Iterable[Observation], profile: str, profiles: Sequence[str]
) -> list[Observation]:
    """Rows of one profile, and users' own that name one unknown, so that `usable` can say so."""
    return [
        r
        for r in rows
        if r.profile == profile
        or (not r.shipped and r.profile is not None and r.profile not in profiles)
    ]


def usable(
    rows: Iterable[Observation], profiles: Sequence[str]
) -> tuple[list[Observation], list[str]]:
    """Rows that a prediction can be made for, and one warning for each row left out."""
    kept: list[Observation] = []
    warnings: list[str] = []
    for row in rows:
        # Whose file it is, its user knows best; of the shipped one the id says all.
        place = "" if row.shipped else f"{row.origin}:{row.line}: "
        where = f"{place}observation {row.id!r} skipped:"
        if row.profile is None:
            warnings.append(f"{where} no hardware profile named")
        elif row.profile not in profiles:
            guess = nearest(row.profile, profiles)
            hint = f"; did you mean {guess!r}?" if guess else ""
            warnings.append(f"{where} no hardware profile {row.profile!r}{hint}")
        elif row.architecture is None:
            warnings.append(f"{where} its architecture is not public")
        else:
            kept.append(row)
    return kept, warnings


def software_by_date(
    rows: Iterable[Observation], known: Iterable[Observation]
) -> list[Observation]:
    """Gives `rows` that name no software the one whose dates, among `known`, span theirs.

    Dates that are a year alone neither span nor are spanned: they may be any day of it. Where the
    spans of several software hold a date, that says nothing.
    """
    spans: dict[tuple[str | None, str], list[str]] = {}
    for row in known:
        if row.software is not None and not row.software_assumed and len(row.date) > _YEAR:
            spans.setdefault((row.profile, row.software), []).append(row.date)
    out: list[Observation] = []
    for row in rows:
        fits = [
            name
            for (profile, name), dates in spans.items()
            if profile == row.profile
            and len(row.date) > _YEAR
            and min(dates) <= row.date <= max(dates)
        ]
        if row.software is None and len(fits) == 1:
            row = replace(row, software=fits[0], software_assumed=True)
        out.append(row)
    return out


def of_engine(row: serving.ServingRow, origin: str = "", line: int = 1) -> Observation:
    """A configuration of a serving engine."""
    return Observation(
        id=row.id,
        model=row.model,
        architecture=row.model,
        profile=row.profile,
        tokens_per_s=1.0 / row.per_token_s,
        nodes=row.nodes,
        batch=row.concurrency,
        speculative=False,
        weights=row.weights,
        kv_bits=weight_format(serving.cache_format(row.weights, row.profile)).bits,
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
        first_token_s=row.first_token_s if row.first_token_s > 0.0 else None,
        whole_experts=row.whole_experts,
        attention_replicas=row.attention_replicas,
        software=serving.ENGINES.get(row.engine, row.engine),
        origin=origin,
        line=line,
    )


def _observation(row: Row, document: Document) -> Observation:
    aside = {"source", "time_per_output_token", "time_to_first_token"}
    values = row.model_dump(exclude=aside) | {"first_token_s": row.time_to_first_token}
    if (row.tokens_per_s is None) == (row.time_per_output_token is None):
        message = "expected one of the keys 'tokens_per_s' and 'time_per_output_token'"
        raise document.error((), message)
    if row.time_per_output_token is not None:
        values["tokens_per_s"] = 1.0 / row.time_per_output_token
    for text in ("hardware", "measured_by", "note", "confidence", "date"):
        values[text] = values[text] or ""
    source = row.source or _Source()
    return Observation(
        **values,
        source_url=source.url or "",
        source_title=source.title or "",
        origin=document.path,
        line=document.line_of(()),
        key_lines={
            str(place[0]): line for place, line in document.lines.items() if len(place) == 1
        },
    )
