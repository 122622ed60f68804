"""Mutates configs at random and holds what is read of them against transformers' classes.

Two steps, since the library lives in an environment of its own (see transformers_counts.py):

    python tests/tools/mutated_configs.py write mutated.json 2000 [SEED]   (or: drops)
    reference/bin/python tests/tools/transformers_counts.py counts.json --configs mutated.json
    python tests/tools/mutated_configs.py compare counts.json

A key is dropped, renamed, nested, given another type or another size; `drops` leaves out every
key of every config in turn. What is read without a warning must be what the class counts; what is
refused is refused in one line.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from archinfer.errors import InputError
from archinfer.models import catalogue
from archinfer.models.architecture import Architecture
from archinfer.models.huggingface import from_config
from archinfer.models.tables import harmless_keys, may_be_size

FIXTURES = Path(__file__).parents[1] / "fixtures" / "configs"

OTHERS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, "x", "", [], {}, [1, [2]], {"a": 1}, "64", [None], 10**20,
    [[3]], {"0": 1},
)  # fmt: skip


def sources() -> dict[str, dict[str, Any]]:
    """Configs by name: the catalogue's, and those of the tests."""
    # Grok's files call themselves `git`, which is another model to the library.
    names = [name for name in catalogue.names() if not name.startswith("grok")]
    found = {name: catalogue.entry(name).config for name in names}
    for file in ("beyond.json", "families.json"):
        found |= {n: entry[2] for n, entry in json.loads((FIXTURES / file).read_text()).items()}
    return found


def mutate(config: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], str]:
    """One change, and what it is; inside a nested object now and then."""
    new = copy.deepcopy(config)
    at = new
    inner = [k for k, v in new.items() if isinstance(v, dict) and v]
    if inner and rng.random() < 0.4:
        at = new[rng.choice(inner)]
    key = rng.choice(sorted(at))
    kind = rng.choice(("drop", "rename", "nest", "type", "size", "item"))
    value = at[key]
    if kind == "drop":
        del at[key]
    elif kind == "rename":
        at[key + rng.choice(("_", "s", "_size", "2"))] = at.pop(key)
    elif kind == "nest":
        at[key] = {key: value}
    elif kind == "item" and isinstance(value, list) and value:
        value[rng.randrange(len(value))] = rng.choice(OTHERS)
    elif kind == "size" and isinstance(value, int) and not isinstance(value, bool) and value:
        at[key] = rng.choice((value * 2, max(value // 2, 1), value + 1))
    elif kind == "size" and isinstance(value, bool):
        at[key] = not value
    else:
        at[key] = rng.choice(OTHERS)
    return new, f"{kind} {key}"


def drops() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every config without each of its keys that may be a size."""
    for name, config in sources().items():
        paths = [(), *((k,) for k, v in config.items() if isinstance(v, dict))]
        for path in paths:
            for key in config[path[0]] if path else config:
                if key == "model_type" or not may_be_size(key) or key in harmless_keys():
                    continue
                new = copy.deepcopy(config)
                del (new[path[0]] if path else new)[key]
                yield f"{name}: drop {key}", new


def mutations(number: int, seed: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Configs with one change each."""
    rng, configs = random.Random(seed), sources()
    for count in range(number):
        name = rng.choice(sorted(configs))
        new, change = mutate(configs[name], rng)
        yield f"{count} {name}: {change}", new


def read(config: dict[str, Any], name: str) -> Architecture | None:
    """The architecture, or None where it is refused in one line.

    Raises:
        AssertionError: the refusal is not one line.
    """
    try:
        found = from_config(config, name)
        found.shape()
        if not found.stored.refused:
            found.shape(found.weight_format)
            found.weight_formats()
        return found
    except InputError as error:
        assert "\n" not in str(error), str(error)
        return None


def write(path: Path, made: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Those of the configs that are read without a warning."""
    kept: dict[str, dict[str, Any]] = {}
    number = refused = warned = 0
    for label, new in made:
        found = read(new, label)
        number += 1
        refused += found is None
        warned += found is not None and bool(found.warnings)
        if found is not None and not found.warnings:
            kept[label] = new
    path.write_text(json.dumps(kept))
    print(f"{number} mutations: {refused} refused, {warned} with a warning, {len(kept)} read")


def compare(path: Path) -> None:
    """Every config that both count: equal, or printed."""
    found = json.loads(path.read_text())
    counted = {n: e for n, e in found.items() if "total" in e}
    wrong = 0
    for name, entry in counted.items():
        model = read(entry["config"], name)
        if model is None or model.warnings:
            continue
        total = model.parameters().total
        if total != entry["total"]:
            wrong += 1
            print(f"{name}: {total:,} read, {entry['total']:,} by the class")
    print(
        f"{len(counted)} counted by both, {wrong} differ; {len(found) - len(counted)} by one only"
    )


if __name__ == "__main__":
    if sys.argv[1] == "write":
        asked, *seed = sys.argv[3:]
        made = drops() if asked == "drops" else mutations(int(asked), *map(int, seed))
        write(Path(sys.argv[2]), made)
    else:
        compare(Path(sys.argv[2]))
