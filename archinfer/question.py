"""What can be asked: ONE table, from which every way to ask is made.

An entry states a name, what kind of quantity it is, its bounds, its default and its help, once.
From it come the options of the command line (`cli.options`), the arguments of the Python calls
and their documentation (`api`), the keys of check files with their JSON Schema (`checks.schema`)
and the words of the sentence that says what was assumed (`said`).
"""

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict, TypeVar, get_type_hints

from archinfer import units
from archinfer.errors import InputError, UnitError, shorten

Quantity: TypeAlias = float | str
"""A number in SI units, or a text such as "2T", "128k", "23 kW"."""

Span: TypeAlias = float | str | tuple[float, float]
"""A value, both ends of a range, or a text such as "70:100", "2T:4T", "0.9T:"."""

Range: TypeAlias = tuple[float, float]
"""The low and the high end of a range; an open high end is infinity."""

Command: TypeAlias = Literal["solve", "predict", "compare"]

WHOLE_MOST: Final = 10**15
"""Most tokens of context, users and the like: far above any, and exact as a float."""

NODES_MOST: Final = 100_000
VOCABULARY_MOST: Final = 2**28
"""Most nodes that a question names and that a search for enough of them tries."""

LAYERS_MOST: Final = 10_000
"""Most layers of a model whose depth is given."""

SPEED_MOST: Final = 1e9
"""Most tokens/s of a speed that is asked for or was observed."""

SPARSITY_MOST: Final = 1e6
"""Most total over active parameters that a question asks for."""

DRAFTS_MOST: Final = 16
"""Most tokens that a service is taken to draft for one pass."""

ACCEPTED_MOST: Final = 1.0 + DRAFTS_MOST
"""Tokens gained by a pass whose drafts are all accepted, its own token beside them."""

FOUNDING: Final[dict[str, Any]] = {"hardware": "wse-3", "nodes": 88, "tokens_per_second": 750}
"""The question that is answered where nothing is asked."""

OPEN: Final[Range] = (0.0, math.inf)
"""The range of which nothing is known."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Use:
    """What one command makes of an option."""

    help: str
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One entry of the table."""

    dimension: str = ""
    """A key of `units.DIMENSIONS`; "" for a name, a flag or a list."""
    form: Literal["number", "range", "text", "names", "flag", "integer", "pairs"] = "text"
    least: float = 0.0
    """Smallest value; 0 itself is not allowed, unless `zero`."""
    most: float = math.inf
    zero: bool = False
    whole: bool = False
    wanted: str = ""
    """What messages say was expected, where the bounds alone would not."""
    examples: tuple[str, ...] = ()
    words: str = ""
    """The value in a sentence, `{}` for itself and `(s)` for a plural."""
    metavar: str | None = None
    solve: Use | None = None
    predict: Use | None = None
    compare: Use | None = None

    def use(self, command: str) -> Use | None:
        """What `command` makes of it; None: it does not take it."""
        found: Use | None = getattr(self, command)
        return found

    def single(self) -> "Ask":
        """The same where one number is asked for, and no range."""
        return replace(self, form="number")

    def number(self, name: str, value: Any) -> float:
        """A number, or a text with its unit, in SI units and within the bounds.

        Raises:
            InputError: anything else; names `name`.
        """
        found = _number(name, value, self.dimension)
        self.within(name, found, value)
        return found

    def count(self, name: str, value: Any) -> int:
        """A whole number within the bounds."""
        return int(self.number(name, value))

    def range(self, name: str, value: Any) -> Range:
        """Both ends of a range, or one value for both; None: `OPEN`.

        An open low end is the least that is allowed, an open high end infinity, or the most of
        what is counted.

        Raises:
            InputError: ends that cannot be read, are out of bounds or in the wrong order.
        """
        if value is None:
            return OPEN
        low, high = _ends(name, value, self.dimension, self.least)
        if high == math.inf and self.whole and self.most < math.inf:
            high = self.most
        for end in (low, high):
            if end != math.inf and (end > 0.0 or self.least > 0.0):
                self.within(name, end, value)
        if high == 0.0:
            raise InputError(f"{name}: expected more than 0, found {shorten(value)}")
        return low, high

    def within(self, name: str, value: float, found: Any) -> None:
        """Refuse a value out of bounds; `found` is what was written."""
        low = value < self.least or (value == 0.0 and not self.zero)
        broken = self.whole and value != math.floor(value)
        if not (low or broken or value > self.most):
            return
        percent = ""
        if self.dimension == "ratio" and 1.0 < value <= 100.0 * self.most and "%" not in str(found):
            percent = f"; write '{value:g} %'"
        wanted = self.wanted or self._wanted(low, broken)
        raise InputError(f"{name}: expected {wanted}, found {shorten(found)}{percent}")

    def _wanted(self, low: bool, broken: bool) -> str:
        least, many = max(self.least, 1.0), self.form == "range"
        if broken and many:
            return f"whole numbers such as {' or '.join(self.examples)}"
        if self.whole and (not many or low):
            limited = not many and (self.most < WHOLE_MOST or not (low or broken))
            limit = f"between {least:g} and {self.most:,}" if limited else f"of at least {least:g}"
            return f"a whole number {limit}"
        if low:
            return f"at least {self.least:g}" if self.least else "more than 0"
        unit = " tokens/s" if self.dimension == "tokens_per_s" else ""
        return f"at most {self.most:,.0f}{unit}"


def _ends(name: str, value: Any, dimension: str, lowest: float) -> Range:
    """Both ends of what was written, in SI units."""
    if isinstance(value, str):
        try:
            return units.parse_range(value, dimension, lowest)
        except UnitError as error:
            raise UnitError(f"{name}: {error}") from None
    if not isinstance(value, tuple):
        one = _number(name, value, dimension)
        return one, one
    if len(value) != 2:
        raise InputError(f"{name}: expected (low, high), found {shorten(value)}")
    low = _number(name, value[0], dimension)
    high = math.inf if value[1] == math.inf else _number(name, value[1], dimension)
    if low > high:
        raise InputError(f"{name}: expected the low end first, found {shorten(value)}")
    return low, high


def _number(name: str, value: Any, dimension: str) -> float:
    # A plain number is in SI units already; `units` would ask for the unit of some of them.
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        if not 0.0 <= number < math.inf:
            raise InputError(f"{name}: expected {units.expected(dimension)}, found {value!r}")
        return number
    try:
        return units.parse(value, dimension)
    except UnitError as error:
        raise UnitError(f"{name}: {error}") from None


_CONTEXT = Use("Tokens of context (128k = 128,000).", "8k")
_KV = Use("KV-cache format.", "bf16")
_USERS = Use("Users served at once.", "1")
_MAPPING = Use(
    "Nodes that share a layer and pipeline stages, as tp=8,pp=2. Default: the fastest that fits."
)
_SET = Use("Set a figure of the profile, as link.latency='2 us'.")
_PROFILE = Use("Profile: a name (archinfer hardware list) or a YAML file.", "wse-3")
_TOTAL = "Total parameters of a model without a config, as {}."
_ACTIVE = "Its active parameters, as {}. Default: all (dense)."
_KIND = Use("Its attention: gqa, mqa, mla.", "gqa")
_VOCABULARY = Use("Rows of the family's embedding and head. Default: 131,072, the usual.")
_TIED = Use("The family's head is its embedding, stored and counted once.", False)
_OWN_FORMAT = Use("Weight format. Default: the one the model comes in (bf16 for totals).")


class Subject(TypedDict, total=False):
    """What is asked about: the machine, and the speed."""

    hardware: Annotated[
        Any,
        Ask(
            solve=_PROFILE,
            predict=_PROFILE,
            compare=Use(
                "Profiles, comma-separated: names or YAML files. Default: all that are shipped."
            ),
        ),
    ]
    nodes: Annotated[
        Span | None,
        Ask(
            dimension="whole",
            form="range",
            least=1,
            most=NODES_MOST,
            whole=True,
            examples=("88", "70:100"),
            solve=Use(
                "Nodes that are there, as 88 or 70:100. Default: 88 for a target on wse-3, "
                "else unknown: 1 to 128, or to as many as have the memory of 88 wafers."
            ),
            predict=Use("Nodes that are there. Default: the fewest that hold it."),
            compare=Use(
                "Nodes that are there: one number, or one for each profile, comma-separated. "
                "Default: the fewest that hold the model."
            ),
        ),
    ]
    tokens_per_second: Annotated[
        Quantity | None,
        Ask(
            dimension="tokens_per_s",
            form="number",
            most=SPEED_MOST,
            solve=Use("Target: at least this speed for one user. Default: 750."),
        ),
    ]


class Common(TypedDict, total=False):
    """What every way to ask takes."""

    total: Annotated[
        Span | None,
        Ask(
            dimension="count",
            form="range",
            examples=("2T:4T", "0.9T:"),
            words="total {}",
            solve=Use("Known total parameters, as 2T:4T or 0.9T:."),
            predict=Use(_TOTAL.format("1.6T")),
            compare=Use(_TOTAL.format("3T")),
        ),
    ]
    active: Annotated[
        Span | None,
        Ask(
            dimension="count",
            form="range",
            examples=("150B", "100B:200B"),
            words="active {}",
            solve=Use("Known active parameters, as 150B."),
            predict=Use(_ACTIVE.format("48B")),
            compare=Use(_ACTIVE.format("150B")),
        ),
    ]
    layers: Annotated[
        Span | None,
        Ask(
            dimension="whole",
            form="range",
            whole=True,
            examples=("61", "60:90"),
            words="layers {}",
            solve=Use("Known layers, as 61 or 60:90."),
            predict=Use("Its layers, as 60 or 40:90. Default: what habits of design allow."),
            compare=Use("Its layers, as 88."),
        ),
    ]
    attention: Annotated[
        str | None,
        Ask(
            solve=Use(
                "Attention of the family: gqa, mqa, mla. Default: gqa (the posterior: unknown)."
            ),
            predict=_KIND,
            compare=_KIND,
        ),
    ]
    vocabulary: Annotated[
        Quantity | None,
        Ask(
            dimension="whole",
            form="number",
            least=1,
            most=VOCABULARY_MOST,
            whole=True,
            examples=("32000", "151936"),
            words="a vocabulary of {}",
            solve=_VOCABULARY,
            predict=_VOCABULARY,
            compare=_VOCABULARY,
        ),
    ]
    tied: Annotated[
        bool,
        Ask(form="flag", words="tied embeddings", solve=_TIED, predict=_TIED, compare=_TIED),
    ]
    mapping: Annotated[
        Any,
        Ask(words="mapping {}", solve=_MAPPING, predict=_MAPPING, compare=_MAPPING),
    ]
    context: Annotated[
        Quantity,
        Ask(
            dimension="tokens",
            form="number",
            least=1,
            most=WHOLE_MOST,
            whole=True,
            words="{} tokens of context",
            solve=_CONTEXT,
            predict=_CONTEXT,
            compare=_CONTEXT,
        ),
    ]
    concurrency: Annotated[
        Quantity | None,
        Ask(
            dimension="whole",
            form="number",
            least=1,
            most=WHOLE_MOST,
            whole=True,
            examples=("1", "64"),
            words="{} user(s)",
            solve=Use("Users served at once. Default: 1 (the posterior: unknown, 1 to 32)."),
            predict=_USERS,
            compare=_USERS,
        ),
    ]
    weights: Annotated[
        str | Sequence[str] | None,
        Ask(
            form="names",
            words="weights {}",
            solve=Use("Weight formats to consider, comma-separated.", "bf16,fp8,nvfp4"),
            predict=_OWN_FORMAT,
            compare=_OWN_FORMAT,
        ),
    ]
    kv: Annotated[str, Ask(words="{} KV cache", solve=_KV, predict=_KV, compare=_KV)]
    speculation: Annotated[
        Span | None,
        Ask(
            dimension="accepted",
            form="range",
            least=1,
            most=ACCEPTED_MOST,
            examples=("1", "1:3"),
            words="{} accepted token(s) a pass",
            solve=Use(
                "Accepted tokens a pass, as 1 (none) or 1:3. Default: 1:3 (the posterior: the "
                "profile's fitted law, where it has one)."
            ),
            predict=Use(
                "Accepted tokens a pass, as 1 (none) or 1:3. Default: 1:3 (1:2 with one draft)."
            ),
            compare=Use("Accepted tokens a pass, as 1 (none) or 1:3.", "1"),
        ),
    ]
    set: Annotated[
        Mapping[str, Quantity] | Sequence[str] | None,
        Ask(form="pairs", metavar="KEY=VALUE", words="{} (set by hand)", solve=_SET, predict=_SET),
    ]


class Asked(Common, total=False):
    """What a question takes."""

    observed: Annotated[
        Quantity | None,
        Ask(
            dimension="tokens_per_s",
            form="number",
            most=SPEED_MOST,
            solve=Use("Observed speed of one user: too slow and too fast are both evidence."),
        ),
    ]
    software: Annotated[
        str | None,
        Ask(
            metavar="NAME",
            solve=Use(
                "With an observed speed: the software that made it, usual or one that archinfer "
                "hardware show lists. Default: unknown, each as likely as another."
            ),
        ),
    ]
    sparsity: Annotated[
        Span | None,
        Ask(
            dimension="number",
            form="range",
            least=1,
            most=SPARSITY_MOST,
            wanted=f"total / active between 1 (dense) and {SPARSITY_MOST:,.0f}",
            examples=("1:32",),
            words="total / active {}",
            solve=Use("Total / active as a habit of design. Default: 1:32."),
        ),
    ]
    physics_only: Annotated[bool, Ask(form="flag", solve=Use("Leave out habits of design.", False))]
    throughput: Annotated[
        Quantity | None,
        Ask(
            dimension="tokens_per_s",
            form="number",
            words="at least {} over all users",
            solve=Use("Tokens/s over all users that must be reached."),
        ),
    ]
    max_power: Annotated[
        Quantity | None,
        Ask(
            dimension="watts",
            form="number",
            words="at most {}",
            solve=Use("Most power, as 2 MW."),
        ),
    ]
    max_price: Annotated[
        Quantity | None,
        Ask(
            dimension="dollars_per_hour",
            form="number",
            words="at most {}",
            solve=Use("Most dollars per hour for the nodes in use."),
        ),
    ]
    confidence: Annotated[
        Quantity,
        Ask(
            dimension="ratio",
            form="number",
            least=0.01,
            most=0.99,
            wanted="between 1 % and 99 %",
            words="the speed held with a probability of {}",
            solve=Use("Probability with which a target must hold.", "50 %"),
        ),
    ]
    calibration: Annotated[
        Any,
        Ask(
            metavar="FILE",
            words="measured figures of {}",
            solve=Use(
                "Profile of archinfer calibrate --save: what it measured without a unit of time "
                "(routing, chain of reductions, model error) is used here."
            ),
        ),
    ]


class Solving(Asked, total=False):
    """What a solve takes: a question, and how much of an answer."""

    compare: Annotated[
        Mapping[str, Quantity] | Sequence[str] | None,
        Ask(
            form="pairs",
            metavar="MODEL=SPEED",
            solve=Use(
                "With an observed speed: why it differs from that of a known model on the same "
                "hardware, as gpt-oss-120b=3000."
            ),
        ),
    ]
    architectures: Annotated[
        int, Ask(form="integer", most=100, solve=Use("Concrete architectures to print.", 8))
    ]
    seed: Annotated[int, Ask(form="integer", solve=Use("Seed of the posterior's draws.", 0))]


class Served(Common, total=False):
    """What a prediction takes: how a known model is served."""

    layers_per_node: Annotated[
        Quantity | None,
        Ask(
            dimension="whole",
            form="number",
            least=1,
            most=NODES_MOST,
            whole=True,
            predict=Use("Layers of a node (of a pipeline stage). Default: the fastest."),
        ),
    ]
    tensor_parallel: Annotated[
        Quantity | None,
        Ask(
            dimension="whole",
            form="number",
            least=1,
            most=NODES_MOST,
            whole=True,
            predict=Use("Nodes that share each layer (with --layers-per-node; not on wafers)."),
        ),
    ]
    draft_tokens: Annotated[
        Quantity,
        Ask(
            dimension="whole",
            form="number",
            most=1000,
            zero=True,
            whole=True,
            predict=Use(
                "Drafted tokens that each pass verifies; their time is then in the pass. "
                "Default: 0 (--speculation net of drafting).",
                "0",
            ),
        ),
    ]


def _entries() -> dict[str, tuple[Any, Ask]]:
    found: dict[str, tuple[Any, Ask]] = {}
    for group in (Subject, Solving, Served):
        for name, hint in get_type_hints(group, include_extras=True).items():
            found[name] = (hint.__origin__, hint.__metadata__[0])
    return found


_TABLE: Final = _entries()
_FIRST: Final = ("hardware", "nodes", "tokens_per_second", "observed")

ASKS: Final[dict[str, Ask]] = {name: _TABLE[name][1] for name in dict.fromkeys((*_FIRST, *_TABLE))}
"""Every entry by its name: that of the argument, of the key and, with dashes, of the option."""


def options(command: str) -> dict[str, tuple[Ask, Use]]:
    """The entries that `command` takes, in the order in which they are told."""
    found = ((name, ask, ask.use(command)) for name, ask in ASKS.items())
    return {name: (ask, use) for name, ask, use in found if use is not None}


def check_accepted(low: float, high: float, drafts: int = 0) -> None:
    """Refuse tokens a pass that no decoding gains.

    A pass yields its own token at least, also net of drafting: a service whose drafts cost more
    than they gain drafts none. At most every drafted token is accepted beside it.

    Args:
        low, high: ends of the range.
        drafts: tokens drafted for each pass; 0: unknown, at most `DRAFTS_MOST`.

    Raises:
        InputError: below 1, more than the drafts can give, or low above high.
    """
    drafted = drafts or DRAFTS_MOST
    if not 1.0 <= low <= high <= 1 + drafted:
        found = f"{low:g}" if low == high else f"{low:g}:{high:g}"
        plural = "" if drafted == 1 else "s"
        raise InputError(
            "speculation: expected accepted tokens a pass from 1 (nothing drafted) to "
            f"{1 + drafted} ({drafted} draft{plural} and the pass's own), found {found}"
        )


def read_speculation(value: Any, drafts: int = 0) -> Range:
    """The range of accepted tokens a pass; raises InputError as `check_accepted`."""
    low, high = _ends("speculation", value, "accepted", 1.0)
    check_accepted(low, high, drafts)
    return low, high


def pairs(name: str, value: Any, example: str) -> list[tuple[str, Any]]:
    """(key, value) of a mapping, or of texts such as "link.latency=2 us".

    Raises:
        InputError: a text without both.
    """
    if isinstance(value, Mapping):
        return list(value.items())
    found = []
    for text in [value] if isinstance(value, str) else value or ():
        # A model may be named with "=", a value of a figure may not.
        cut = text.partition if name == "set" else text.rpartition
        key, _, given = (part.strip() for part in cut("="))
        if not key or not given:
            wanted = f"{ASKS[name].metavar} such as {example}"
            raise InputError(f"{name}: expected {wanted}, found {text!r}")
        found.append((key, given))
    return found


def said(name: str, value: Any) -> str:
    """The value of an entry as the sentence of what was assumed says it.

    >>> said("context", 8000), said("concurrency", 1), said("speculation", (1, 3))
    ('8,000 tokens of context', '1 user', '1 to 3 accepted tokens a pass')
    """
    ask = ASKS[name]
    if isinstance(value, tuple) and ask.form == "range":
        low, high = (_amount(ask, end) for end in value)
        text = low if low == high else f"{low} to {high}"
        if low != high and value[1] == math.inf:
            text = f"at least {low}"
        elif low != high and value[0] == 0.0:
            text = f"at most {high}"
    else:
        text = _amount(ask, value)
    return ask.words.replace("(s)", "" if text == "1" else "s").format(text)


def _amount(ask: Ask, value: Any) -> str:
    if ask.form == "names":
        return ", ".join(value)
    if isinstance(value, str):
        return value
    if ask.dimension in ("tokens", "whole"):
        return f"{value:,.0f}" if value < math.inf else "inf"
    if ask.dimension == "tokens_per_s":
        return f"{value:,.6g} tokens/s"
    if ask.dimension in ("accepted", "number"):
        return f"{value:g}"
    return units.format_quantity(value, ask.dimension, 4 if ask.dimension != "count" else 3)


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
        signature = signature.replace(
            parameters=[
                *own,
                *(
                    inspect.Parameter(
                        name,
                        inspect.Parameter.KEYWORD_ONLY,
                        default=use.default,
                        annotation=_TABLE[name][0],
                    )
                    for name, use in more.items()
                ),
            ]
        )

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
