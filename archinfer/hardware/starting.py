"""Shipped profiles as a list, and one to start from: every figure explained and to be checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from archinfer import files
from archinfer.errors import InputError
from archinfer.hardware.figures import KEYS, PEAK, SYNC, Node, key_of
from archinfer.hardware.profile import Hardware
from archinfer.record import Record, field_texts
from archinfer.strict import NAME_MOST, NAME_PATTERN

SECTIONS = ("memory", "compute", "fabric", "link", "scale_up", "power", "energy", "constants")

_TABLES = {
    SYNC: "seconds of one small all-reduce by nodes that take part",
    PEAK[:-1]: "dense peak of one node by number format",
    "accepted_tokens_per_pass": "tokens that a pass may gain; low: without speculation",
}
_HEAD = """\
# {name}, begun as {like}: replace each value that differs, and say where it comes from.
#   archinfer hardware lint {name}.yaml
#   archinfer predict llama-3.1-70b --hardware {name}.yaml
# value: with its unit. source: where it was read; "estimate, ..." where it was not.
# log_sd: standard deviation of its natural logarithm, where it is not sure (0.1: about 10 %).
schema_version: 1
name: {name}
title: {title}
node: {node}
execution: {execution}
"""


@dataclass(frozen=True, slots=True)
class ListedHardware(Record):
    """One shipped profile."""

    KEYS = ("name=hardware.name", "title=hardware.title", "execution=hardware.execution")

    hardware: Hardware


def starting_profile(name: str, like: str) -> str:
    """The text of a profile called `name` with the figures of the profile `like`.

    Figures keep their values; their sources say that they are another machine's. What `like`
    borrows from the constants of its kind is listed, not copied: it goes on being borrowed.

    Raises:
        InputError: `name` is not what a profile may be called.
        UnknownNameError: there is no profile `like`.
    """
    if not re.fullmatch(NAME_PATTERN, name) or len(name) > NAME_MOST:
        raise InputError(
            f"name: found {name!r}, expected lower-case letters, digits, '.' and '-', at most "
            f"{NAME_MOST}"
        )
    hardware = Hardware.load(like)
    data: dict[str, Any] = files.load(hardware.origin).data
    lines = [
        _HEAD.format(
            name=name,
            like=hardware.name,
            title=json.dumps(f"{name}, figures of {hardware.name}"),
            node=json.dumps(hardware.node),
            execution=hardware.execution,
        ).rstrip()
    ]
    if "like" in data:
        lines.append(f"like: {data['like']}  # whose constants stand in for those not given here")
    sd = {figure.key: figure.log_sd for figure in hardware.provenance}
    for section in (s for s in SECTIONS if s in data):
        if section == "power":
            lines += _figure("power", data[section], "power", sd, hardware.name, 0)
            continue
        lines.append(f"{section}:")
        for key, found in data[section].items():
            full = key if section == "constants" else f"{section}.{key}"
            lines += _figure(key, found, full, sd, hardware.name, 2)
        if section == "constants" and "like" in data:
            lines += _borrowed(hardware, data)
    return "\n".join(lines) + "\n"


def _figure(
    key: str, found: dict[str, Any], full: str, sd: dict[str, float], like: str, indent: int
) -> Iterator[str]:
    """The lines of one figure, or of a table of figures."""
    at, deeper = " " * indent, " " * (indent + 2)
    yield f"{at}{key}:  # {_meaning(full)}"
    if full == PEAK[:-1]:
        for number_format, figure in found.items():
            yield f"{deeper}{number_format}:"
            yield f"{deeper}  value: {figure['value']}"
            yield f"{deeper}  source: estimate, as {like}"
        return
    for part in ("value", "low", "high"):
        value = found.get(part)
        if isinstance(value, dict):
            yield f"{deeper}{part}:"
            yield from (f"{deeper}  {size}: {seconds}" for size, seconds in value.items())
        elif value is not None:
            yield f"{deeper}{part}: {value}"
    if sd.get(full):
        yield f"{deeper}log_sd: {sd[full]:.3g}"
    yield f"{deeper}source: estimate, as {like}"


def _borrowed(hardware: Hardware, data: dict[str, Any]) -> Iterator[str]:
    """Constants that the set of its kind gives, as comments."""
    own = {*data["constants"], *(f"link.{k}" for k in data.get("link", {}))}
    own |= {f"scale_up.{k}" for k in data.get("scale_up", {})}
    taken = [
        f for f in hardware.provenance
        if f.key not in own and (f.log_sd > 0.0 or f.key in (SYNC, "model_error"))
    ]  # fmt: skip
    if taken:
        yield f"  # Borrowed from the constants of {data['like']}; one stated here goes first:"
    for figure in taken:
        spread = f", log_sd {figure.log_sd:.2g}" if figure.log_sd else ""
        yield f"  #   {figure.key}: {figure.text}{spread} ({_meaning(figure.key)})"


def _meaning(key: str) -> str:
    """What a figure is, in one line."""
    text = _TABLES.get(key)
    if text is None and key in KEYS:
        text = field_texts(Node).get(key_of(key).attribute)
    return " ".join(text.split()) if text else key.rpartition(".")[2].replace("_", " ")
