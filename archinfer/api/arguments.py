"""Arguments of functions, made from the table of what can be asked."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from archinfer import units
from archinfer.asked.served import OUTPUT_USUAL
from archinfer.asking import Range
from archinfer.errors import FileError, InputError, UnknownNameError
from archinfer.question import ASKS, TYPES, options

CLAIMED: Final = ("total", "active", "layers")
"""Quantities that a claim may name."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def arguments(command: str, *without: str) -> Callable[[_Function], _Function]:
    """Decorator: the entries that `command` takes as the keyword arguments of a function.

    The function declares them as `**asked: Unpack[...]` and is called with all of them, those
    left out at their default; `inspect.signature` and `help` show each by name.

    Args:
        command: whose entries.
        without: entries that the function does not take.
    """

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        taken = {p.name for p in own} | set(without)
        more = {name: use for name, (_, use) in options(command).items() if name not in taken}
        made = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=u.default, annotation=TYPES[name]
            )
            for name, u in more.items()
        ]
        signature = signature.replace(parameters=[*own, *made])

        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            for name, use in more.items():
                if bound.arguments[name] is None:
                    bound.arguments[name] = use.default
            return function(*bound.args, **bound.kwargs)

        lines = "".join(f"\n        {name}: {use.help}" for name, use in more.items())
        before, end, after = (function.__doc__ or "").partition("\n\n    Returns:")
        called.__doc__ = f"{before}{lines}{end}{after}"
        called.__signature__ = signature  # type: ignore[attr-defined]
        return called  # type: ignore[return-value]

    return decorate


def number(name: str, asked: Mapping[str, Any], default: Any = None) -> Any:
    """The number asked for under a name, in SI units; None where neither it nor a default is."""
    value = default if asked.get(name) is None else asked[name]
    return None if value is None else ASKS[name].number(name, value)


def count(name: str, asked: Mapping[str, Any], default: Any = None) -> Any:
    """The same of a whole number."""
    found = number(name, asked, default)
    return None if found is None else int(found)


def mixed_load(asked: Mapping[str, Any], context: Any = "8k") -> tuple[int, int | None, int]:
    """Tokens of context, of a prompt where one is said, and of an answer."""
    prompt, answer = count("prompt", asked), count("output", asked, OUTPUT_USUAL)
    usual = context if prompt is None else prompt + answer // 2
    tokens = count("context", asked, usual)
    if prompt is not None and prompt > tokens:
        raise InputError(f"prompt: expected at most the context ({tokens:,}), found {prompt:,}")
    said = asked.get("output") not in (None, OUTPUT_USUAL)
    if prompt is None and said and answer // 2 >= tokens:
        raise InputError(
            f"output: expected less than twice the context ({tokens:,}, half an answer is in it), "
            f"found {answer:,}"
        )
    return tokens, prompt, answer


def span(name: str, asked: Mapping[str, Any]) -> Range:
    """The range asked for under a name."""
    return ASKS[name].range(name, asked[name])


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors of what is done inside begin with the argument that they are about."""
    try:
        yield
    except InputError as error:
        said = str(error)
        named = said.startswith(name) or said.partition(":")[0] in ASKS
        if not named and not isinstance(error, FileError):
            error.args = (f"{name}: {said}", *error.args[1:])
        raise


def pairs(name: str, value: Any, example: str) -> list[tuple[str, Any]]:
    """(key, value) of a mapping, or of texts such as "link.latency=2 us".

    Raises:
        InputError: a text without both.

    >>> pairs("set", "link.latency=2 us", "link.latency='2 us'")
    [('link.latency', '2 us')]
    """
    if isinstance(value, Mapping):
        return list(value.items())
    found = []
    texts = [value] if isinstance(value, str) else value or ()
    if name == "claim":
        texts = [part for text in texts for part in text.split(",")]
    for text in texts:
        # A model may be named with "=", a value of a figure may not.
        cut = text.partition if name == "set" else text.rpartition
        key, _, given = (part.strip() for part in cut("="))
        if not key or not given:
            wanted = f"{ASKS[name].metavar} such as {example}"
            raise InputError(f"{name}: expected {wanted}, found {text!r}")
        found.append((key, given))
    return found


def read_claim(value: Any) -> dict[str, Range]:
    """What is claimed of total, active and layers; empty for None.

    >>> read_claim("total=2T:4T,layers=61")
    {'total': (2000000000000.0, 4000000000000.0), 'layers': (61.0, 61.0)}

    Raises:
        InputError: another quantity, one twice, or a range that cannot be.
    """
    found: dict[str, Range] = {}
    for key, given in pairs("claim", value, "total=2T:4T"):
        if key not in CLAIMED:
            with naming("claim"):
                raise UnknownNameError("quantity", key, CLAIMED)
        if key in found:
            raise InputError(f"claim: {key} is claimed twice")
        found[key] = ASKS[key].range(f"claim: {key}", given)
    return found


def check_active(active: float, total: float) -> None:
    """Refuse more active parameters than there are."""
    if active > total:
        said = [units.format_quantity(v, "count") for v in (total, active)]
        raise InputError(f"active: expected at most the total ({said[0]}), found {said[1]}")
