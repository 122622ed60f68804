"""Lists of tensors: what a checkpoint really holds, by component.

A safetensors file begins with a JSON object of every tensor's type, shape and place; a GGUF file
lists its tensors likewise (`models.gguf`). Names tell the component.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from archinfer.errors import FileError
from archinfer.models.architecture import Architecture
from archinfer.models.configkeys import read_json_object
from archinfer.models.formats import weight_format
from archinfer.models.layers.pieces import COMPONENTS, KEPT_COMPONENTS
from archinfer.models.storage import Storage
from archinfer.models.tables import table

HEADER_MOST_BYTES = 100_000_000
"""Safetensors' own limit of a header."""


def tensor_table(name: str) -> Any:
    """One of the tables of tensor names and types."""
    return table("tensors.json", name)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint."""

    name: str
    stored_bytes: float
    params: int
    """Its numbers; of packed formats the numbers it is packed in."""
    form: str = ""
    """Weight format, where the file states one."""


def read_safetensors(path: Path) -> list[Tensor]:
    """The tensors that a file's header lists.

    Raises:
        FileError: not a safetensors file.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= HEADER_MOST_BYTES:
                raise FileError(path, "is no safetensors file: its header has no sensible length")
            header = json.loads(file.read(length))
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise FileError(path, "is no safetensors file: its header is no JSON") from None
    found = []
    for name, entry in header.items() if isinstance(header, dict) else ():
        if name == "__metadata__":
            continue
        shape = entry.get("shape") if isinstance(entry, dict) else None
        bits = tensor_table("bits").get(entry.get("dtype")) if isinstance(entry, dict) else None
        numbers = isinstance(shape, list) and all(isinstance(n, int) and n >= 0 for n in shape)
        if not numbers or bits is None:
            raise FileError(path, f"tensor {name!r} has no dtype and shape that are known")
        params = prod(shape or ())
        found.append(Tensor(name, params * bits / 8, params))
    return found


def component_of(name: str, layers: int) -> tuple[str, int | None]:
    """The component that a tensor belongs to, and its layer; "" for what is not counted."""
    if re.search(tensor_table("skipped"), name):
        return "", None
    inside = re.search(tensor_table("layer"), name)
    if inside is None:
        words, rest, number = tensor_table("outside"), name, None
    else:
        words, rest, number = tensor_table("inside"), f".{inside[2]}", int(inside[1])
        if number >= layers:
            return "", number
    found = next((c for pattern, c in words if re.search(pattern, rest)), "other")
    return found, number


def measured(model: Architecture, tensors: Iterable[Tensor]) -> Architecture:
    """The model with its weights in the formats that its tensors really have.

    Components whose tensors are all of one format keep its name; others get the mean bits of
    what is stored, scales and zero points included.
    """
    kinds = _layer_kinds(model)
    held: dict[str, float] = defaultdict(float)
    forms: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for tensor in tensors:
        component, number = component_of(tensor.name, model.layers)
        if not component:
            continue
        if number is not None and component not in kinds[number] and len(kinds[number]) == 1:
            (component,) = kinds[number]
        held[component] += tensor.stored_bytes
        if not tensor.name.endswith(("norm.weight", ".bias")):
            forms[component][tensor.form] += tensor.stored_bytes
    counts = model.parameters().by_component
    formats: dict[str, str] = {}
    for component, count in counts.items():
        if component not in held:
            continue
        bits = held[component] * 8 / count
        named = [f for f in forms[component] if f]
        exact = len(named) == 1 and len(forms[component]) == 1 and component != "norm"
        close = next((f for f in ("bf16", "fp32", "fp8") if weight_format(f).bits == bits), "")
        formats[component] = named[0] if exact else close or f"stored-{bits!r}"
    if not formats:
        return model
    total: dict[str, float] = defaultdict(float)
    for by_form in forms.values():
        for form, stored_bytes in by_form.items():
            total[form] += stored_bytes
    largest = max(formats, key=lambda c: held[c])
    main = max(total, key=lambda f: total[f], default="") or formats[largest]
    if model.tied and "embedding" in formats:
        formats["lm_head"] = formats["embedding"]
    known = model.stored.formats() | formats
    components = tuple((c, f) for c, f in known.items() if f != main)
    stored = Storage(main, components, model.stored.kv, tensor_bytes=sum(held.values()))
    blocks = tuple(replace(b, stored=()) for b in model.blocks)
    return replace(model, blocks=blocks, stored=stored)


def _layer_kinds(model: Architecture) -> list[set[str]]:
    """Components of each layer that are no norms; all of them where layers are of several kinds
    and their order is not kept."""
    if len(model.blocks) == 1 or not model.layer_kinds:
        here = {p.component for b in model.blocks for p in b.pieces(model.hidden_size)} - {"norm"}
        return [here] * model.layers
    return [set(kinds) for kinds in model.layer_kinds]


def by_total(model: Architecture, total_bytes: float) -> Architecture:
    """The model with the bits of its main format such that all weights take `total_bytes`."""
    stored = model.stored
    # Of a format that is not known: tables, norms and routers are at 16 bits.
    kept = tuple((c, "bf16") for c in COMPONENTS if c in KEPT_COMPONENTS)
    guess = Storage("int8", kept, stored.kv)
    known = replace(model, stored=guess) if stored.refused else model
    counts = known.parameters().by_component
    own = known.weight_bytes_by_component()
    inside = [c for c, f in known.stored.formats().items() if f == known.stored.main and c in own]
    rest = sum(size for c, size in own.items() if c not in inside)
    count = sum(counts[c] for c in inside)
    bits = (total_bytes - rest) * 8 / count if count else 0.0
    if not 1.0 <= bits <= 33.0:
        return model
    main = f"stored-{bits!r}"
    blocks = tuple(replace(b, stored=()) for b in known.blocks)
    made = Storage(main, known.stored.components, stored.kv, tensor_bytes=total_bytes)
    return replace(model, blocks=blocks, stored=made)


def index_total(path: Path) -> float | None:
    """`total_size` of a safetensors index, None where it states none."""
    metadata = read_json_object(str(path), most_bytes=HEADER_MOST_BYTES).get("metadata")
    size: Any = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    good = isinstance(size, int | float) and not isinstance(size, bool) and 0 < size < 1e16
    return float(size) if good else None
