"""A profile read from its file, with what it borrows, and the checks that span several keys."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

import numpy as np

from archinfer import files, strict
from archinfer.errors import nearest
from archinfer.files import Document, Location
from archinfer.hardware.figures import KEYS, TABLES, USUAL_SOFTWARE
from archinfer.hardware.schema import Accepted, Profile

Fault: TypeAlias = tuple[Location, str]


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
        if section not in ("covariance", "software")
        for key in _borrow(data.get(section), section, figures)
    ]
    own = data.setdefault("software", {})
    if isinstance(own, dict):
        data["software"] = own | {
            n: s for n, s in _sets()[name]["software"].items() if n not in own
        }
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
    for check in (_execution_faults, _value_faults, _covariance_faults):
        for place, fault in check(profile):
            raise document.error(place, fault)
    return profile


def _execution_faults(profile: Profile) -> Iterator[Fault]:
    """Figures of one kind of hardware that are missing, and those of the other that are there."""
    linked = profile.execution == "spatial" or profile.link is not None
    if linked and _at(profile, ("constants", "reductions_per_layer")) is None:
        text = "missing key 'reductions_per_layer' in 'constants'"
        yield ("constants",), f"{text}; machines that work together need it"
    # A section all of whose figures are of one kind is needed, or foreign, as a whole.
    if profile.execution == "spatial" and profile.link is None:
        yield ("link",), "missing key 'link'; execution spatial needs it"
    checked: set[Location] = set()
    for key, figure in KEYS.items():
        place = _place(key)
        section = {k.only for k in (KEYS | TABLES).values() if _place(k.name)[0] == place[0]}
        if len(section) == 1:
            place = place[:1]
        if figure.only is None or place in checked:
            continue
        checked.add(place)
        there = _at(profile, place) is not None
        name, execution = ".".join(place), profile.execution
        if there and figure.only != execution:
            yield place, f"key {name!r} has no meaning for {execution} execution"
        if not there and execution == figure.only == "spatial":
            within = f" in {place[0]!r}" if len(place) > 1 else ""
            yield place, f"missing key {place[-1]!r}{within}; execution {execution} needs it"


def _value_faults(profile: Profile) -> Iterator[Fault]:
    place = ("constants", "accepted_tokens_per_pass", "low")
    accepted: Accepted = _at(profile, place[:2])
    if accepted.low > accepted.high:
        found = f"found {accepted.low:g}, expected at most high = {accepted.high:g}"
        yield place, f"key '{'.'.join(place)}': {found}"
    if USUAL_SOFTWARE in (profile.software or {}):
        text = "is the software that the constants describe; expected the name of another"
        yield ("software", USUAL_SOFTWARE), f"key 'software': {USUAL_SOFTWARE!r} {text}"
    for figure in profile.figures():
        if figure.value == 0.0 and figure.log_sd > 0.0:
            where = (*_place(figure.key), "log_sd")
            found = f"found {figure.log_sd:g}, expected 0: a value of zero has no logarithm"
            yield where, f"key '{'.'.join(where)}': {found}"


def _covariance_faults(profile: Profile) -> Iterator[Fault]:
    if profile.covariance is None:
        return
    names, rows = profile.joint_covariance()
    present = {figure.key for figure in profile.figures()}
    known = [key for key, spec in KEYS.items() if key in present and spec.uncertain]
    for i, name in enumerate(names):
        where = ("covariance", "names", i)
        if name not in known:
            guess = nearest(name, known)
            hint = f"; did you mean {guess!r}?" if guess else f" (known: {', '.join(known)})"
            yield where, f"key 'covariance.names': unknown constant {name!r}{hint}"
        if name in names[:i]:
            yield where, f"key 'covariance.names': {name!r} is named twice"
    place = ("covariance", "log_covariance")
    size, fault = len(names), "key 'covariance.log_covariance': expected"
    if len(rows) != size or any(len(row) != size for row in rows):
        found = f"found {len(rows)} of {[len(r) for r in rows][:9]}"
        yield place, f"{fault} {size} rows of {size} numbers, {found}"
    matrix = np.asarray(rows)
    scale = np.abs(matrix).max()
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * scale):
        yield place, f"{fault} a symmetric matrix"
    if np.linalg.eigvalsh(matrix).min() < -1e-6 * scale:
        yield place, f"{fault} a positive semidefinite matrix"


def _place(key: str) -> tuple[str, ...]:
    parts = tuple(key.split("."))
    return parts if len(parts) > 1 or key == "power" else ("constants", key)


def _at(profile: Profile, place: tuple[str, ...]) -> Any:
    found: Any = profile
    for part in place:
        found = getattr(found, part, None)
    return found
