"""How one entry of what can be asked is read: its kind, its bounds and what messages say."""

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from archinfer import units
from archinfer.errors import InputError, UnitError, foreign_digit, shorten

Quantity: TypeAlias = float | str
"""A number in SI units, or a text such as "2T", "128k", "23 kW"."""

Span: TypeAlias = float | str | tuple[float, float]
"""A value, both ends of a range, or a text such as "70:100", "2T:4T", "0.9T:"."""

Range: TypeAlias = tuple[float, float]
"""The low and the high end of a range; an open high end is infinity."""

WHOLE_MOST: Final = 10**15
"""Most tokens of context, users and the like: far above any, and exact as a float."""

NODES_MOST: Final = 100_000
"""Most nodes that a question names and that a search for enough of them tries."""

VOCABULARY_MOST: Final = 2**28
"""Most rows of an embedding that a question names."""

LAYERS_MOST: Final = 10_000
"""Most layers of a model whose depth is given."""

SPEED: Final[dict[str, Any]] = {
    "dimension": "tokens_per_s", "form": "number", "most": units.SPEED_MOST,
}  # fmt: skip
"""What every speed has in common."""

SPARSITY_MOST: Final = 1e6
"""Most total over active parameters that a question asks for."""

DRAFTS_MOST: Final = 16
"""Most tokens that a service is taken to draft for one pass."""

ACCEPTED_MOST: Final = 1.0 + DRAFTS_MOST
"""Tokens gained by a pass whose drafts are all accepted, its own token beside them."""

SEED_MOST: Final = 2**63 - 1

OPEN: Final[Range] = (0.0, math.inf)
"""The range of which nothing is known."""


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
    form: Literal[
        "number", "several", "range", "text", "names", "flag", "switch", "integer", "pairs"
    ] = "text"
    least: float = 0.0
    """Smallest value; 0 itself is not allowed, unless `zero`."""
    most: float = math.inf
    zero: bool = False
    closed: bool = False
    """Whether an open high end of a range is `most`; else it is infinity."""
    whole: bool = False
    wanted: str = ""
    """What messages say was expected, where the bounds alone would not."""
    examples: tuple[str, ...] = ()
    metavar: str | None = None
    swept: bool = False
    """predict takes several, with commas"""
    also: tuple[str, ...] = ()
    """Further names of its option."""
    solve: Use | str | None = None
    """What the command makes of it; a text: its help, where it has no default. So the others."""
    predict: Use | str | None = None
    compare: Use | str | None = None
    pareto: Use | str | None = None
    calibrate: Use | str | None = None
    fit: Use | str | None = None
    validate: Use | str | None = None

    def use(self, command: str) -> Use | None:
        """What `command` makes of it; None: it does not take it."""
        found: Use | str | None = getattr(self, command)
        return Use(found) if isinstance(found, str) else found

    def single(self) -> "Ask":
        """The same where one number is asked for, and no range."""
        return replace(self, form="number")

    def number(self, name: str, value: Any) -> float:
        """A number, or a text with its unit, in SI units and within the bounds.

        Raises:
            InputError: anything else; names `name`.
        """
        try:
            found = _number(name, value, self.dimension)
        except UnitError:
            if self.swept and isinstance(value, str) and "," in value:
                raise InputError(
                    f"{name}: expected one value, found {shorten(value)}; archinfer predict takes "
                    "several"
                ) from None
            raise
        self.within(name, found, value)
        return found

    def count(self, name: str, value: Any) -> int:
        """A whole number within the bounds."""
        return int(self.number(name, value))

    def integer(self, name: str, text: str) -> int:
        """A whole number in digits alone, within the bounds."""
        short = text.strip()
        found = int(short) if short.isascii() and short.isdigit() and len(short) < 25 else -1
        if not self.least <= found <= self.most:
            wanted = f"a whole number between {self.least:g} and {self.most:,}"
            said = f"{shorten(text)}{foreign_digit(text)}"
            raise InputError(f"{name}: expected {wanted}, found {said}")
        return found

    def early(self, name: str, given: Any) -> Any:
        """The value of an option as it goes on; what cannot be is refused before any work.

        What stands after an @, and one of several values with commas, is read by the command.
        """
        if self.form == "integer":
            return self.integer(name, given)
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, str) and not {"@", ","} & {*one}:
                if self.form in ("number", "several"):
                    self.number(name, one)
                elif name == "speculation":
                    _ends(name, one, self.dimension, self.least)
                elif self.form == "range":
                    self.range(name, one)
        return given

    def range(self, name: str, value: Any) -> Range:
        """Both ends of a range, or one value for both; None: `OPEN`.

        An open low end is the least that is allowed, an open high end infinity, or the most where
        the range is `closed`.

        Raises:
            InputError: ends that cannot be read, are out of bounds or in the wrong order.
        """
        if value is None:
            return OPEN
        low, high = _ends(name, value, self.dimension, self.least)
        if high == math.inf and self.closed:
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
            self._plausible(name, value, found)
            return
        percent = ""
        if self.dimension == "ratio" and 1.0 < value <= 100.0 * self.most and "%" not in str(found):
            percent = f"; write '{value:g} %'"
        wanted = self.wanted or self._wanted(low, broken)
        raise InputError(f"{name}: expected {wanted}, found {shorten(found)}{percent}")

    def _plausible(self, name: str, value: float, found: Any) -> None:
        try:
            units.check_plausible(value, self.dimension)
        except UnitError as error:
            raise InputError(f"{name}: {error}, found {shorten(found)}") from None

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
            error.args = (f"{name}: {error}",)
            raise
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
            raise InputError(f"{name}: {units.expected(dimension)}, found {value!r}")
        return number
    try:
        return units.parse(value, dimension)
    except UnitError as error:
        error.args = (f"{name}: {error}",)
        raise


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
