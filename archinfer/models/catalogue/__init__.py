"""Open models by name: their configs, sources, announced and exact parameter counts.

`models.json` holds each model's Hugging Face config as its maker wrote it (vision towers and
keys that are no strict JSON left out), where it comes from, and the exact counts on record. An
architecture is always read from the config; the counts on record only check it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from archinfer.errors import UnknownNameError
from archinfer.words import percent

if TYPE_CHECKING:
    from archinfer.models.architecture import Architecture

__all__ = ["Entry", "entry", "load", "names", "resolve"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is on record of one model.

    Attributes:
        name: its name here.
        hugging_face: its repository, None where there is none.
        aliases: further names.
        source: where the config comes from.
        counted_by: how the exact counts were made, apart from this code.
        confidence: `high` or `medium`, of the config's figures.
        announced_total, announced_active, announced_source: what the maker says, as written.
        total_params, active_params: exact counts on record.
        why: why the announced figure differs from the count, None where it does not.
        config: the config as its maker wrote it.
    """

    name: str
    hugging_face: str | None
    aliases: tuple[str, ...]
    source: str
    counted_by: str
    confidence: str
    announced_total: str | None
    announced_active: str | None
    announced_source: str | None
    total_params: int
    active_params: int
    why: str | None
    config: dict[str, Any]

    def difference(self, architecture: Architecture) -> str:
        """Why the announced figures differ from the exact ones, in one sentence or more.

        Says which convention of "active" the announced figure follows: makers count the input
        embedding, the head, both or neither.
        """
        counts = architecture.parameters()
        said = []
        total = _first_number(self.announced_total)
        if total is not None and abs(counts.total / total - 1) > _rounding(self.announced_total):
            off = counts.total / total - 1
            word = "above" if off > 0 else "below"
            said.append(f"the count is {percent(abs(off), 1)} {word} the announced total")
        if self.why:
            said.append(self.why)
        active = _first_number(self.announced_active)
        if active is not None and counts.active < counts.total:
            readings = {
                "with embedding and head": counts.active,
                "without the input embedding": counts.active_without_input_embedding,
                "without embedding and head": counts.active_without_embedding_and_head,
            }
            nearest = min(readings, key=lambda k: abs(readings[k] / active - 1))
            said.append(f"announced active fits best {nearest} ({readings[nearest] / 1e9:.2f}B)")
        return "; ".join(said)


_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([BT])(?:\s+average)?")


def _first_number(text: str | None) -> float | None:
    """The first figure in an announcement, the average of a range where one is stated."""
    found = list(_NUMBER.finditer(text or ""))
    if "-" in (text or "") and "average" not in (text or ""):
        return None
    if not found:
        return None
    chosen = next((m for m in found if m.group(0).endswith("average")), found[0])
    return float(chosen.group(1)) * {"B": 1e9, "T": 1e12}[chosen.group(2)]


def _rounding(text: str | None) -> float:
    """Relative unit of an announced figure's last digit: makers round and cut."""
    found = _NUMBER.search(text or "")
    if found is None:
        return 0.0
    digits = len(found.group(1).partition(".")[2])
    return 10.0**-digits / float(found.group(1))


@cache
def _records() -> dict[str, Entry]:
    text = files(__name__).joinpath("models.json").read_text(encoding="utf-8")
    records = {}
    for name, record in json.loads(text).items():
        fields = {**record, "aliases": tuple(record["aliases"])}
        records[name] = Entry(name=name, **fields)
    return records


@cache
def _index() -> dict[str, str]:
    """Every accepted spelling, normalised, and the name it stands for."""
    index: dict[str, str] = {}
    taken = [_normal(name) for name in _records()]
    for name, record in _records().items():
        spellings = [name, *record.aliases]
        if record.hugging_face:
            spellings.append(record.hugging_face)
        for spelling in spellings:
            index.setdefault(_normal(spelling), name)
            bare = _bare(spelling)
            # What several names begin with stands for none of them.
            if bare in taken or sum(other.startswith(f"{bare}-") for other in taken) < 2:
                index.setdefault(bare, name)
    return index


def _normal(name: str) -> str:
    """Lower case, the repository's owner left out, every separator a hyphen."""
    last = name.strip().lower().rsplit("/", 1)[-1]
    return re.sub(r"[\s_\-]+", "-", last).strip("-")


_SUFFIX = re.compile(r"-(instruct|chat|base|it|hf|pt|fp8|bf16|nvfp4|mxfp4|\d{4}|v0\.1|v1)$")
_PREFIX = re.compile(r"^(meta|nvidia)-")


def _bare(name: str) -> str:
    """The normal spelling without marks of a release that do not change the architecture."""
    text = _PREFIX.sub("", _normal(name))
    while (shorter := _SUFFIX.sub("", text)) != text:
        text = shorter
    return text


def names() -> tuple[str, ...]:
    """Names of all models, sorted."""
    return tuple(sorted(_records()))


def resolve(name: str) -> str:
    """The catalogue's name for any accepted spelling ("Llama 3.1 70B", "openai/gpt-oss-120b").

    Raises:
        UnknownNameError: no such model; carries the nearest name.
    """
    index = _index()
    for spelling in (_normal(name), _bare(name)):
        if spelling in index:
            return index[spelling]
    raise UnknownNameError("model", name, names(), "archinfer models list")


def entry(name: str) -> Entry:
    """The record of one model.

    Raises:
        UnknownNameError: no such model.
    """
    return _records()[resolve(name)]


@cache
def load(name: str) -> Architecture:
    """The architecture of one model, read from its config.

    Raises:
        UnknownNameError: no such model.
    """
    from archinfer.models.huggingface import from_config

    record = entry(name)
    return replace(from_config(record.config, record.name), name=record.name)
