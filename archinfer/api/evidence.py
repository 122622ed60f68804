"""Evidence from files and options: pieces for the inference, and facts that narrow the question."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, log, log1p
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from archinfer import files, strict
from archinfer.api.arguments import check_active
from archinfer.asking import Ask
from archinfer.errors import InputError
from archinfer.files import Document, Faults, Location
from archinfer.hardware.profile import Hardware
from archinfer.inference.evidence import KINDS, Conditions, Deployment, Evidence, Piece
from archinfer.inference.observing import check
from archinfer.models.checkpoint import read_model
from archinfer.models.formats import weight_formats
from archinfer.physics.decode import Z90
from archinfer.question import ASKS
from archinfer.strict import Date, StrictModel, Text

FACTS = ("total", "active", "layers", "nodes")
"""Kinds that narrow the question where they are exact or bounds."""

NAMED = ("weights", "attention")
"""Facts that are names."""

_AT = {
    "observed": "context",
    "observed_max": "context",
    "prefill": "prompt",
    "ttft": "prompt",
    "tokens_per_pass": "context",
}
"""What stands after the @ of an option."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Evidence as an inference and a question take it."""

    pieces: tuple[Piece, ...]
    facts: Mapping[str, Any]
    """Options of a solve that the evidence settles."""
    deployments: tuple[Deployment, ...] = ()


def _ask(kind: str) -> Ask:
    """How the value of a kind is read."""
    name = "observed" if kind == "speed" else kind
    known = ASKS[name].single() if name in ASKS else None
    return known or Ask(dimension=KINDS[kind].dimension, form="number")


_TOKENS = Annotated[float, strict.asked("context", ASKS["context"])]
_RATIO = Annotated[float, strict.asked("spread", Ask(dimension="ratio", form="number"))]


class _Entry(StrictModel):
    """One piece: a kind with its value, the conditions, and how sure it is."""

    weights: Text | None = Field(default=None, description="weight formats, as fp8")
    attention: Literal["gqa", "mqa", "mla"] | None = None
    stated: Literal["measured", "announced", "at least", "at most"] = Field(
        default="measured", description="announced: a best case, as 'up to'"
    )
    spread: _RATIO | None = Field(default=None, description="standard deviation, as 5 %")
    within: (
        Annotated[float, strict.asked("within", Ask(least=1, form="number", dimension="number"))]
        | None
    ) = Field(default=None, description="in place of spread: factor that nine of ten stay within")
    model: Text | None = Field(
        default=None, description="of a public model on the same service: a name or a config.json"
    )
    context: _TOKENS | None = None
    prompt: _TOKENS | None = None
    output: _TOKENS | None = None
    concurrency: Annotated[float, strict.asked("concurrency", ASKS["concurrency"])] | None = Field(
        default=None, description="users at once"
    )
    speculation: Literal["off", "on"] | Annotated[int, Field(ge=1, le=16)] | None = Field(
        default=None, description="off, on, or drafted tokens a pass"
    )
    date: Date | None = Field(default=None, description="when the service was seen")
    source: Text | None = None
    note: Text | None = None


def _kinds() -> dict[str, Any]:
    return {
        kind: (
            Annotated[float, strict.asked(kind, _ask(kind))] | None,
            Field(default=None, description=known.noun),
        )
        for kind, known in KINDS.items()
    }


if TYPE_CHECKING:
    Entry = _Entry
else:
    Entry = create_model("Entry", __base__=_Entry, __doc__=_Entry.__doc__, **_kinds())


class Lane(StrictModel):
    """Another deployment of the same architecture, and what was observed there."""

    name: Text = Field(description="for people, as usual lane")
    hardware: Text | Annotated[list[Text], Field(min_length=1)] = Field(
        description="a profile, or candidates of which each is as likely"
    )
    nodes: Annotated[tuple[float, float], strict.asked("nodes", ASKS["nodes"])] | None = Field(
        default=None, description="nodes that are there, or fewest and most; none: unknown"
    )
    weights: Text | None = Field(default=None, description="weight formats to consider, as fp8")
    evidence: Annotated[list[Entry], Field(min_length=1)]


class EvidenceFile(StrictModel):
    """What was observed, announced and estimated of one service."""

    schema_version: Literal[1]
    service: Text | None = Field(default=None, description="what it is, for people")
    evidence: Annotated[list[Entry], Field(min_length=1)]
    deployments: list[Lane] = Field(
        default=[], description="of the same architecture on other machines"
    )


def read_evidence(path: str | os.PathLike[str]) -> Gathered:
    """The evidence of a file.

    Raises:
        FileError: with line, key, found and expected.
    """
    document, faults = files.load(path), Faults()
    file = strict.validate(document, EvidenceFile)
    pieces: list[Piece] = []
    facts: dict[str, Any] = {}
    for i, entry in enumerate(file.evidence):
        place: Location = ("evidence", i)
        with faults.at(document, place):
            name, value = _taken(document, place, entry)
            if isinstance(value, Piece):
                pieces.append(value)
                continue
            if name in facts:
                raise InputError(f"{name} is said twice")
            both = {"active": (0.0,), "total": (inf,)} | facts | {name: value}
            check_active(both["active"][0], both["total"][-1])
            facts[name] = value
    lanes: list[Deployment] = []
    for k, lane in enumerate(file.deployments):
        with faults.at(document, ("deployments", k, "name")):
            if any(lane.name == other.name for other in file.deployments[:k]):
                raise InputError(f"{lane.name!r} names another one")
        with faults.at(document, ("deployments", k)):
            found, told = _lane(document, k, lane, faults)
            lanes.append(found)
            pieces += told
    faults.tell()
    return Gathered(tuple(pieces), facts, tuple(lanes))


def _lane(document: Document, k: int, lane: Lane, faults: Faults) -> tuple[Deployment, list[Piece]]:
    """One further deployment, and the pieces that speak of it; faults of these are taken up."""
    told = []
    for i, entry in enumerate(lane.evidence):
        at: Location = ("deployments", k, "evidence", i)
        with faults.at(document, at):
            name, value = _taken(document, at, entry)
            if not isinstance(value, Piece):
                where = f"key '{name}' of the deployment" if name in ("nodes", "weights") else (
                    "the evidence of the whole service: it belongs to the architecture"
                )  # fmt: skip
                raise InputError(f"{name}: expected in {where}")
            told.append(replace(value, deployment=lane.name))
    names = [lane.hardware] if isinstance(lane.hardware, str) else lane.hardware
    machines = [Hardware.load(name) for name in names]
    formats = weight_formats(lane.weights or ())
    for machine in machines:
        if lane.nodes is not None:
            machine.check_nodes(int(lane.nodes[1]))
        check(machine, told)
    nodes = None if lane.nodes is None else (int(lane.nodes[0]), int(lane.nodes[1]))
    return Deployment(lane.name, tuple(machines), nodes, formats), told


def _taken(document: Document, place: Location, entry: Any) -> tuple[str, Any]:
    """The piece or the fact of one entry."""
    said = [kind for kind in (*KINDS, *NAMED) if getattr(entry, kind) is not None]
    if len(said) != 1:
        found = " and ".join(said) or "none"
        known = ", ".join((*KINDS, *NAMED))
        raise InputError(f"expected one of {known} in each entry, found {found}")
    (kind,) = said
    if kind in NAMED:
        if kind == "weights":
            weight_formats(entry.weights)
        return kind, getattr(entry, kind)
    if entry.spread is not None and entry.within is not None:
        raise document.error((*place, "within"), "spread and within in one entry: expected one")
    if entry.model is not None:
        if kind != "speed":
            raise document.error((*place, "model"), "model goes with a speed")
        try:
            read_model(entry.model)
        except InputError as error:
            raise document.error((*place, "model"), str(error)) from None
    value, spread = getattr(entry, kind), None
    if entry.spread is not None:
        spread = log1p(entry.spread)
    elif entry.within is not None:
        spread = log(entry.within) / Z90
    if kind in FACTS and not spread and entry.stated != "announced":
        ends = {
            "measured": (value, value),
            "at least": (value, inf),
            "at most": (ASKS[kind].least, value),
        }
        return kind, ends[entry.stated]
    at = Conditions(
        entry.context, entry.concurrency, entry.prompt, entry.output,
        None if entry.speculation is None else str(entry.speculation),
        None if entry.date is None else str(entry.date),
    )  # fmt: skip
    usual = KINDS[kind].spread
    piece = Piece(kind, value, usual if spread is None else spread, entry.stated, at)
    return kind, replace(piece, source=entry.source or "", model=entry.model or "")


def settled(asked: Mapping[str, Any], nodes: Any = None) -> tuple[dict[str, Any], Any]:
    """The options of a solve and its nodes with what the evidence settles.

    Args:
        asked: the options; `evidence` is a file or a record, `observed` one speed or several.
        nodes: as asked for.

    Returns:
        The same, `observed` one number and `evidence` a record; None where one speed of which no
        more is said is all.

    Raises:
        InputError: a value that cannot be, a fact that is said twice, or no speed.
    """
    given = asked["evidence"]
    if given is None or isinstance(given, Evidence):
        file = Gathered((), {}) if given is None else Gathered(given.pieces, {}, given.deployments)
    else:
        file = read_evidence(given)
    observed = [piece for name in _AT for piece in _pieces(name, asked.get(name))]
    pieces = (*observed, *file.pieces)
    base = Evidence(pieces).base
    if pieces and base is None:
        given_by = next((name for name in _AT if asked.get(name) is not None), "evidence")
        raise InputError(f"{given_by}: goes with a speed of one user (observed), and none is given")
    for name in file.facts:
        if (nodes if name == "nodes" else asked[name]) is not None and name not in NAMED:
            raise InputError(f"{name}: said by the option and in the evidence; expected one")
    facts = dict(file.facts)
    nodes = facts.pop("nodes", nodes)
    found = dict(asked) | facts | {"evidence": Evidence(pieces, file.deployments)}
    both = asked.get("observed") is not None and asked.get("observed_max") is not None
    if base is not None and not both:
        # A best case is the most that there is, for the region.
        key = "observed" if base.stated == "measured" else "observed_max"
        if base.stated == "at least":
            raise InputError("evidence: the first speed: expected a measured or a highest one")
        found |= {"observed": None, "observed_max": None, key: base.value}
    if base is None or (len(pieces) == 1 and base == Piece("speed", base.value, 0.0, base.stated)):
        found["evidence"] = None
    return found, nodes


def _pieces(name: str, given: Any) -> Iterator[Piece]:
    """The pieces of one option, each a value with what stands after its @."""
    kind, stated = name, "at most" if name == "observed_max" else "measured"
    kind = "speed" if name in ("observed", "observed_max") else name
    for one in given if isinstance(given, list | tuple) else () if given is None else (given,):
        value, at, where = one.partition("@") if isinstance(one, str) else (one, "", "")
        tokens = ASKS["context"].number(name, where) if at else None
        conditions = Conditions(tokens) if _AT[name] == "context" else Conditions(prompt=tokens)
        yield Piece(kind, ASKS[name].number(name, value), KINDS[kind].spread, stated, conditions)
