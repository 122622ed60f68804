"""Measured configurations of serving engines against predictions of the shipped profiles.

`archinfer/data/serving.csv` holds time per output token and to the first token by engine, weights,
lengths, users and parallelism (SemiAnalysis InferenceX and NVIDIA, as published in
ai-dynamo/aiconfigurator). Rows of which most of the time was queueing, and those that drafted
tokens, are left out: nobody says how many were accepted.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from archinfer import files
from archinfer.errors import FileError
from archinfer.hardware.profile import Hardware
from archinfer.physics.decode import Z90
from archinfer.record import Record

DECODING = 0.7
"""Least share of a request's time that went to decode passes."""

ENGINES = {"trtllm": "tensorrt-llm"}
"""Engines of the rows that profiles call by another name."""

WIDE_INTEGERS = {"int4": "int4-g128"}
"""Formats that the rows call by a shorter name."""


@dataclass(frozen=True, slots=True)
class ServingRow:
    """One measured configuration."""

    id: str
    model: str
    profile: str
    engine: str
    weights: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    nodes: int
    whole_experts: bool
    first_token_s: float
    per_token_s: float
    engine_version: str = ""
    attention_replicas: int = 1
    """copies of the attention's weights, each of which serves its own users"""


@dataclass(frozen=True, slots=True)
class Compared:
    """A configuration with its prediction."""

    row: ServingRow
    error: float
    """logarithm of predicted over measured time per output token"""
    log_sd: float
    """its standard deviation, as predicted"""
    first_token_error: float = np.nan
    """logarithm of predicted over measured time to the first token"""


@dataclass(frozen=True, slots=True)
class Accuracy(Record):
    """How far predictions of some configurations are off."""

    name: str
    rows: int
    median_factor: float
    """median of the larger of predicted and measured time per output token over the smaller"""
    p90_factor: float
    """the factor that nine rows of ten stay within"""
    bias: float
    """median of predicted over measured"""
    coverage90: float
    """share of rows inside their 90 % intervals"""
    first_token_median_factor: float | None
    """as `median_factor`, of the time to the first token"""


@dataclass(frozen=True, slots=True)
class ServingAccuracy(Record):
    """Predictions of all configurations, by what they have in common."""

    all: Accuracy
    machines: tuple[Accuracy, ...]
    models: tuple[Accuracy, ...]
    engines: tuple[Accuracy, ...]
    users: tuple[Accuracy, ...]


@cache
def rows() -> tuple[ServingRow, ...]:
    """The shipped configurations without drafts that mostly decoded."""
    with resources.as_file(resources.files("archinfer") / "data" / "serving.csv") as path:
        return tuple(row for _, row in table(path))


def table(path: str | os.PathLike[str]) -> list[tuple[int, ServingRow]]:
    """Configurations of a table without drafts that mostly decoded, each with its line.

    Raises:
        FileError: a column is missing, or a cell is no number.
    """
    text = files.text(path)
    found: list[tuple[int, ServingRow]] = []
    for line, cells in enumerate(csv.DictReader(text.splitlines()), 2):
        try:
            if float(cells["decode_share"] or 0.0) >= DECODING and cells["mtp"] == "no":
                found.append((line, _row(cells)))
        except KeyError as missing:
            raise FileError(path, f"column {missing} is missing", 1) from None
        except (TypeError, ValueError) as wrong:
            raise FileError(
                path, f"expected a number in each column of numbers: {wrong}", line
            ) from None
    return found


def _row(found: dict[str, str]) -> ServingRow:
    return ServingRow(
        id=found["id"],
        model=found["model"],
        profile=found["profile"],
        engine=found["engine"],
        weights=WIDE_INTEGERS.get(found["weights"], found["weights"]),
        prompt_tokens=int(found["isl"]),
        output_tokens=int(found["osl"]),
        concurrency=int(found["concurrency"]),
        nodes=int(found["tp"]) * int(found["attention_dp"]),
        whole_experts=int(found["moe_ep"]) > 1,
        first_token_s=float(found["ttft_ms"] or "nan") / 1e3,
        per_token_s=float(found["tpot_ms"]) / 1e3,
        engine_version=found["engine_version"],
        attention_replicas=int(found["attention_dp"]),
    )


def cache_format(weights: str, profile: str) -> str:
    """In what keys and values are cached: 8 bits where weights have 8 bits or fewer that products
    take as they are, as engines are told, else 16."""
    narrow = weights.startswith(("fp8", "nvfp4"))
    native = weights == "mxfp4" and "fp4" in dict(Hardware.load(profile).peaks_flops)
    return "fp8" if narrow or native else "bf16"


def accuracy(name: str, found: Sequence[Compared]) -> Accuracy:
    """How far the predictions of `found` are off."""
    errors = np.array([c.error for c in found])
    inside = np.abs(errors) <= Z90 * np.array([c.log_sd for c in found])
    first = np.array([c.first_token_error for c in found])
    known = first[np.isfinite(first)]
    return Accuracy(
        name,
        len(found),
        float(np.exp(np.median(np.abs(errors)))),
        float(np.exp(np.quantile(np.abs(errors), 0.9))),
        float(np.exp(np.median(errors))),
        float(inside.mean()),
        float(np.exp(np.median(np.abs(known)))) if len(known) else None,
    )


def by(
    key: Callable[[ServingRow], str], found: Sequence[Compared], names: Iterable[str] | None = None
) -> tuple[Accuracy, ...]:
    """The accuracy of each group of rows of one `key`."""
    groups: dict[str, list[Compared]] = {name: [] for name in names or ()}
    for one in found:
        groups.setdefault(key(one.row), []).append(one)
    order = list(groups) if names is not None else sorted(groups)
    return tuple(accuracy(name, groups[name]) for name in order if groups[name])


USERS = ("1 to 4 users", "5 to 16 users", "17 to 64 users", "65 to 256 users", "more users")


def users(row: ServingRow) -> str:
    """The bin of a number of users."""
    return USERS[int(np.searchsorted((4, 16, 64, 256), row.concurrency))]


def grouped(found: Sequence[Compared]) -> ServingAccuracy:
    """The accuracy of `found` by machine, model, engine and users."""
    return ServingAccuracy(
        accuracy("all", found),
        by(lambda r: r.profile, found),
        by(lambda r: r.model, found),
        by(lambda r: r.engine, found),
        by(users, found, USERS),
    )
