"""Strict models of files: nothing unknown, coerced or empty, and each fault with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import CoreSchema, core_schema

from archinfer import units
from archinfer.asking import Ask
from archinfer.errors import InputError, UnitError, foreign_digit, nearest
from archinfer.files import Document, Faults, Location, show

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9.-]*$"
"""What the name of a profile looks like."""
NAME_MOST: Final = 60
"""Most characters of the name of a profile."""

_MAX_GUESSES: Final = 100
_MAX_TOLD: Final = 20

Text = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]
"""A text that says something."""

_DATE = re.compile(r"(\d{4})(?:-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?)?")


def _dated(value: str | int) -> str:
    if not _DATE.fullmatch(text := str(value)):
        raise ValueError("expected a date such as 2025, 2025-07 or 2025-07-31")
    return text


Date = Annotated[str | int, AfterValidator(_dated)]
"""A year, month or day."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Read:
    """Annotation: what a function makes of the value; it raises ValueError or InputError."""

    key: str
    """tells one annotation from another"""
    read: Callable[[Any], Any] = field(repr=False, compare=False)
    schema: dict[str, Any] = field(repr=False, compare=False)
    """of the JSON"""

    def __get_pydantic_core_schema__(self, _: Any, __: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, _: Any, __: Any) -> dict[str, Any]:
        return dict(self.schema)

    def _read(self, found: Any) -> Any:
        try:
            return self.read(found)
        except InputError as error:
            raise ValueError(str(error)) from None


def quantity_schema(dimension: str, before: str = "") -> dict[str, Any]:
    """The JSON Schema of a quantity with its unit; `before` comes before its noun."""
    kind = units.DIMENSIONS[dimension]
    types = ["string", "number"] if "" in kind.units else "string"
    return {"type": types, "description": before + kind.noun, "examples": list(kind.examples)}


def asked(name: str, ask: Ask) -> Read:
    """A number, or a range, as an entry of what can be asked reads it."""
    ranged = ask.form == "range"
    schema = quantity_schema(ask.dimension, "a value or a range: " if ranged else "")
    schema |= {"type": ["string", "number"]} if ranged else {}
    schema |= {"examples": list(ask.examples)} if ask.examples else {}

    def read(found: Any) -> Any:
        # As written: a number without a unit is one only where the unit may be left out.
        text = found if isinstance(found, str) else repr(found)
        try:
            return ask.range(name, text) if ranged else ask.number(name, text)
        except UnitError as error:
            if ranged and isinstance(found, str):
                raise ValueError(str(error).rpartition(": ")[2]) from None
            raise ValueError(units.expected(ask.dimension, error)) from None
        except InputError as error:
            said = str(error).removeprefix(f"{name}: ")
            raise ValueError(said.partition(", found ")[0]) from None

    return Read(name, read, schema)


class StrictModel(BaseModel):
    """Refuses unknown keys, numbers given as text, NaN and infinity, and keys without a value."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _given(cls, found: Any) -> Any:
        # A key without a value is a mistake, not a key left out.
        if found is None:
            raise ValueError("expected a value")
        return found


def validate(document: Document, model: type[Model]) -> Model:
    """The document as an instance of a pydantic model.

    Raises:
        FileError: at the first line that is wrong, with all further faults.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        places = _places(document, model, error)
    left = f" (and {len(places) - _MAX_TOLD:,} more)" if len(places) > _MAX_TOLD else ""
    told = [(p, _fault_message(model, p, f)) for p, f in places[:_MAX_TOLD]]
    told[-1] = told[-1][0], told[-1][1] + left
    raise Faults(document.error(*one) for one in told).together


def _places(
    document: Document, model: type[BaseModel], error: ValidationError
) -> list[tuple[Location, dict[str, Any]]]:
    """All faults by their lines, of each place the first."""
    # Pydantic marks a wrong key of a mapping with a last location "[key]".
    faults = [
        (tuple(part for part in fault["loc"] if part != "[key]"), dict(fault))
        for fault in error.errors(include_url=False)
    ]
    unknown = [place for place, fault in faults if fault["type"] == "extra_forbidden"]
    misspelt = {
        (*place[:-1], _guess(str(place[-1]), _fields_at(model, place[:-1])))
        for place in unknown[:_MAX_GUESSES]
    }
    first: dict[Location, tuple[Location, dict[str, Any]]] = {}
    for place, fault in faults:
        if fault["type"] != "missing":
            # Kinds of a union are no place of the file, and each of them finds a fault.
            known = (place[:end] for end in range(len(place), 0, -1))
            first.setdefault(next((p for p in known if p in document.lines), ()), (place, fault))
        elif place not in misspelt:
            # A misspelt key is one fault, although pydantic also misses the key that was meant.
            first[place] = place, fault
    return sorted(first.values(), key=lambda f: document.line_of(f[0]))


def _guess(key: str, known: Sequence[str]) -> str | None:
    """The known key that was meant; none for the opposite of one."""
    guess = nearest(key, known)
    return None if {key, guess} == {"at_least", "at_most"} else guess


def _fault_message(model: type[BaseModel], place: Location, fault: dict[str, Any]) -> str:
    kind: str = fault["type"]
    key = ".".join(map(str, place))
    known = _fields_at(model, place[:-1])
    if kind == "missing":
        within = f" in {'.'.join(map(str, place[:-1]))!r}" if len(place) > 1 else ""
        return f"missing key {str(place[-1])!r}{within}"
    if kind == "extra_forbidden":
        guess = _guess(str(place[-1]), known)
        hint = f"; did you mean {guess!r}?" if guess else f" (known: {', '.join(known)})"
        return f"unknown key {show(key)}{hint}"
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, Exception):
        wanted = str(cause)
    elif kind in ("model_type", "dict_type", "model_attributes_type"):
        wanted = "expected a mapping"
    elif kind == "list_type":
        wanted = "expected a list"
    elif kind == "string_type":
        wanted = "expected text"
    elif kind.startswith("string_"):
        wanted = _expected_text(kind, fault)
    elif kind == "too_short" and not fault["input"]:
        empty = "mapping" if isinstance(fault["input"], dict) else "list"
        least = fault["ctx"]["min_length"]
        entries = "entry" if least == 1 else "entries"
        named = f"key {show(key)}: " if key else ""
        return f"{named}found an empty {empty}, expected at least {least} {entries}"
    elif kind.startswith("literal"):
        wanted = f"expected {fault['ctx']['expected']}"
        guess = nearest(str(fault["input"]), re.findall(r"'([^']*)'", fault["ctx"]["expected"]))
        wanted += f"; did you mean {guess!r}?" if guess else ""
    else:
        wanted = fault["msg"].replace("Input should be", "expected")
    found = f"found {show(fault['input'])}, "
    wanted += foreign_digit(fault["input"]) if isinstance(fault["input"], str) else ""
    return f"key {show(key)}: {found}{wanted}" if key else f"{found}{wanted}"


def _expected_text(kind: str, fault: dict[str, Any]) -> str:
    if kind == "string_too_long":
        most = fault["ctx"]["max_length"]
        return f"which is {len(fault['input'])} characters, expected at most {most}"
    if kind == "string_pattern_mismatch" and fault["ctx"]["pattern"] == NAME_PATTERN:
        return (
            "expected lower-case letters, digits, '.' and '-', the first a letter or digit, "
            f"at most {NAME_MOST} characters"
        )
    return "expected non-empty text"


def _fields_at(model: type[BaseModel], place: Location) -> list[str]:
    """Names of the fields that the model has at a location; empty where it has none."""
    current: Any = model
    for part in place:
        fields = getattr(_model_in(current, BaseModel), "model_fields", None)
        if fields is None:
            arguments = getattr(current, "__args__", None)
            current = arguments[-1] if arguments else None
        else:
            by_name = {field.alias or name: field for name, field in fields.items()}
            current = by_name[str(part)].annotation if str(part) in by_name else None
    found = _model_in(current, BaseModel)
    if found is None:
        return []
    return [field.alias or name for name, field in found.model_fields.items()]


def _model_in(annotation: Any, base: type[BaseModel]) -> type[BaseModel] | None:
    """The model class of `Model`, `Model | None` or `Annotated[Model, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, base):
        return annotation
    if getattr(annotation, "__origin__", None) in (dict, list, tuple):
        return None
    for argument in getattr(annotation, "__args__", ()):
        if isinstance(argument, type) and issubclass(argument, base):
            return argument
    return None
