"""Records: what the engine returns is its own JSON and its own JSON Schema.

A record is a frozen dataclass that derives from `Record`. Its keys are its fields, or what `KEYS`
lists: names of fields and properties, in the order of the JSON; `key=path` takes the value
somewhere else (`hardware=hardware.name`), and `key?` is left out where it is None.

    @dataclass(frozen=True, slots=True)
    class Ceiling(Record):
        \"\"\"The fastest that any number of nodes could serve one user.\"\"\"

        KEYS = ("tokens_per_s", "nodes", "bottleneck")

        tokens_per_s: Quantiles
        nodes: int
        \"\"\"nodes in use\"\"\"
        time: TokenTime

        @property
        def bottleneck(self) -> str:
            \"\"\"the term with the largest part of the time\"\"\"

`record.to_dict()` is plain JSON data: NaN and infinities are None, records and tuples inside become
dicts and lists; named tuples such as `Quantiles` become dicts.

`TypeAdapter(Ceiling)` of pydantic makes the JSON Schema: the annotation of a field or of a
property's result is the type of its key, the docstring under it the description. `Annotated[T,
As(J)]` where the JSON's type J is not the type T of Python; `Nullable` for a number that may be
NaN; a number or an array of numbers is a number. Annotations are read when a schema is made, so
their names must exist in the module. Nothing here imports pydantic.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from html import escape
from importlib import import_module
from itertools import pairwise
from operator import attrgetter
from textwrap import dedent
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

LONG = 30
"""Letters of a value that no `repr` shows."""

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class As:
    """Inside `Annotated`: the type that the JSON has where it is not that of Python."""

    json: Any

    def __get_pydantic_core_schema__(self, _: Any, handler: Any) -> Any:
        return handler.generate_schema(self.json)


@dataclass(frozen=True)
class Described:
    """Inside `Annotated`: what the JSON Schema says of a key."""

    text: str

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        return handler(core) | {"description": self.text}


Nullable = Annotated[float, As(float | None)]
"""A number; NaN or infinite, in JSON null, where it does not exist."""


def as_record(kind: Any, _: Any, handler: Any) -> Any:
    """The schema of a record's class: that of its keys."""
    return handler.generate_schema(_keyed(kind))


def keyed(kind: type[Kind]) -> type[Kind]:
    """Decorator of a named tuple: its JSON is a dict, and its schema that of a record."""
    kind.__get_pydantic_core_schema__ = classmethod(as_record)  # type: ignore[attr-defined]
    return kind


class Record:
    """Base of the frozen dataclasses that commands print; see the module."""

    __slots__ = ()
    KEYS: ClassVar[tuple[str, ...]] = ()
    __get_pydantic_core_schema__ = classmethod(as_record)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON data."""
        kind: Any = type(self)
        found = ((key, plain(key.get(self))) for key in keys(kind))
        return {k.name: value for k, value in found if not (k.optional and value is None)}

    def to_dataframe(self) -> Any:
        """A pandas frame (pandas is not installed along): a row for each result, architecture,
        deployment or published speed in the answer, else one row; `a.b` is key b of key a."""
        pandas: Any = import_module("pandas")
        data = self.to_dict()
        lists = (data.get(name) for name in ("results", "architectures", "deployments", "rows"))
        return pandas.json_normalize(next((rows for rows in lists if rows), [data]))

    def __init_subclass__(cls) -> None:
        """Keep the `repr` below: a dataclass writes none where its class has one."""
        if "__repr__" not in vars(cls):
            cls.__repr__ = Record.__repr__  # type: ignore[method-assign]

    def _repr_html_(self) -> str:
        """A table of the keys, for notebooks; what holds more than one value is counted."""
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(_short(value))}</td></tr>"
            for name, value in self.to_dict().items()
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"

    def __repr__(self) -> str:
        """One short line: the keys that are single values, as far as they fit, without those that
        are computed."""
        kind: Any = type(self)
        own = {f.name for f in fields(kind)}
        stated = (key for key in keys(kind) if "." in key.path or key.path in own)
        named = ((key.name, key.get(self)) for key in stated)
        text = ", ".join(
            f"{name}={value:.5g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in named
            if isinstance(value, str | int | float) and len(str(value)) < LONG
        )
        return f"{type(self).__name__}({text if len(text) < 100 else text[:97] + '...'})"


def _short(value: Any) -> str:
    """One value of a record on one line."""
    if isinstance(value, dict) and not any(isinstance(v, dict | list) for v in value.values()):
        return ", ".join(f"{name} {_short(inner)}" for name, inner in value.items())
    if isinstance(value, dict | list):
        return f"{len(value)} {'keys' if isinstance(value, dict) else 'entries'}"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


@keyed
class Quantiles(NamedTuple):
    """5 %, 50 % and 95 %; null where the model does not fit."""

    p05: Annotated[Any, As(float | None)]
    p50: Annotated[Any, As(float | None)]
    p95: Annotated[Any, As(float | None)]


@keyed
class Ends(NamedTuple):
    """Both ends of a range; null where nothing is in it."""

    low: Nullable
    high: Nullable


def plain(value: Any) -> Any:
    """`value` as JSON data: records are dicts, arrays and tuples lists, NaN and infinity None."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Key(NamedTuple):
    """One key of a record's JSON: its name, where its value is, whether None leaves it out."""

    name: str
    path: str
    optional: bool

    def get(self, record: Record) -> Any:
        """The value in `record`."""
        return attrgetter(self.path)(record)


@cache
def keys(record: Any) -> tuple[Key, ...]:
    """The keys of a class of records."""
    if issubclass(record, Record):
        names = record.KEYS or tuple(f.name for f in fields(record))
    else:
        names = record._fields
    found = []
    for entry in names:
        name, _, path = entry.partition("=")
        optional = name.endswith("?")
        name = name.removesuffix("?")
        found.append(Key(name, path or name, optional))
    return tuple(found)


@cache
def _keyed(record: Any) -> Any:
    """The keys of a record as a TypedDict, which pydantic reads."""
    found: dict[str, Any] = {}
    for key in keys(record):
        hint, text = _about(record, key.path)
        if text:
            hint = Annotated[hint, Described(" ".join(text.split()))]
        found[key.name] = NotRequired[hint] if key.optional else hint
    keyed = TypedDict(record.__name__, found)  # type: ignore[misc]
    keyed.__doc__ = inspect.getdoc(record)
    return keyed


def _about(owner: Any, path: str) -> tuple[Any, str | None]:
    """Type and description of what a path leads to."""
    name, _, rest = path.partition(".")
    member = inspect.getattr_static(owner, name, None)
    function = getattr(member, "fget", None) or getattr(member, "func", None)
    if isinstance(member, property | cached_property) and function is not None:
        hint = get_type_hints(function, include_extras=True)["return"]
        text = inspect.getdoc(function)
    else:
        hint = get_type_hints(owner, include_extras=True)[name]
        text = next((t[name] for c in owner.__mro__ if name in (t := field_texts(c))), None)
    return _about(hint, rest) if rest else (_without_arrays(hint), text)


def _without_arrays(hint: Any) -> Any:
    """One model's type of a field that holds arrays where there are several models."""
    if get_origin(hint) in (Union, UnionType):
        # From NumPy 2.5 on NDArray is an alias with a name of its own.
        arrays = (np.ndarray, NDArray)
        return Union[tuple(a for a in get_args(hint) if get_origin(a) not in arrays)]  # noqa: UP007
    return hint


@cache
def field_texts(owner: type) -> dict[str, str]:
    """The docstring under each field, by the field's name."""
    if owner in (object, tuple):
        return {}
    found = {}
    (node,) = ast.parse(dedent(inspect.getsource(owner))).body
    assert isinstance(node, ast.ClassDef)
    for pair in pairwise(node.body):
        match pair:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found
