"""`solve` as a function of plain numbers or of texts with units, for programs and check files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeAlias

from archinfer import units
from archinfer.errors import InputError, UnitError
from archinfer.hardware.profile import Hardware
from archinfer.limits import SPARSITY_MOST, SPEED_MOST, WHOLE_MOST
from archinfer.models.family import FamilyRules
from archinfer.models.formats import weight_format
from archinfer.solver.answer import Answer, answer
from archinfer.solver.question import ANY, Habits, Question, Range

__all__ = ["Quantity", "Span", "question", "read_speed", "solve"]

Quantity: TypeAlias = float | str
"""A number in SI units, or a text such as "2T", "128k", "23 kW"."""

Span: TypeAlias = float | str | tuple[float, float]
"""A value, both ends of a range, or a text such as "70:100", "2T:4T", "0.9T:"."""


def solve(
    hardware: Hardware | str,
    nodes: Span,
    tokens_per_second: Quantity | None = None,
    *,
    observed: Quantity | None = None,
    context: Quantity = 8000,
    concurrency: Quantity = 1,
    weights: str | Sequence[str] = ("bf16", "fp8", "nvfp4"),
    kv: str = "bf16",
    attention: str = "gqa",
    total: Span | None = None,
    active: Span | None = None,
    layers: Span | None = None,
    speculation: Span = (1.0, 3.0),
    sparsity: Span | None = None,
    physics_only: bool = False,
    throughput: Quantity | None = None,
    max_power: Quantity | None = None,
    max_price: Quantity | None = None,
    confidence: Quantity = 0.5,
    software: str | None = None,
    architectures: int = 8,
) -> Answer:
    """Which models a number of nodes and a speed allow: `archinfer solve` in one call.

    Args:
        hardware: a profile, its name or its path.
        nodes: nodes that are there, or fewest and most.
        tokens_per_second: target: at least this speed for one user.
        observed: measured speed of one user, instead of a target.
        context, concurrency: tokens of context, and users whose KV caches must fit.
        weights: weight formats to consider: names, or one text with commas.
        kv, attention: KV-cache format; gqa, mqa or mla.
        total, active, layers: what is known of the model.
        speculation: accepted tokens a pass; 1: no speculative decoding.
        sparsity: total over active parameters as a habit of design.
        physics_only: leave out habits of design.
        throughput: tokens/s over all users that must be reached.
        max_power, max_price: most watts, most dollars per hour.
        confidence: probability with which a target must hold.
        software: that made an observed speed: "usual", or one that the profile lists; None: not
            known, so that each comes into question.
        architectures: how many concrete architectures to look for.

    Returns:
        The answer; `feasible` is False where nothing is possible.

    Raises:
        InputError: a value that cannot be; UnitError and UnknownNameError are of this kind.

    >>> found = solve("wse-3", nodes=88, tokens_per_second=750, weights="fp8", architectures=0)
    >>> found.feasible, found.ranges["total_params"].high.by
    (True, 'capacity')
    """
    asked = question(
        hardware,
        nodes,
        tokens_per_second,
        observed=observed,
        context=context,
        concurrency=concurrency,
        weights=weights,
        kv=kv,
        attention=attention,
        total=total,
        active=active,
        layers=layers,
        speculation=speculation,
        sparsity=sparsity,
        physics_only=physics_only,
        throughput=throughput,
        max_power=max_power,
        max_price=max_price,
        confidence=confidence,
        software=software,
    )
    return answer(asked, architectures)


def question(
    hardware: Hardware | str,
    nodes: Span,
    tokens_per_second: Quantity | None = None,
    *,
    observed: Quantity | None = None,
    context: Quantity = 8000,
    concurrency: Quantity = 1,
    weights: str | Sequence[str] = ("bf16", "fp8", "nvfp4"),
    kv: str = "bf16",
    attention: str = "gqa",
    total: Span | None = None,
    active: Span | None = None,
    layers: Span | None = None,
    speculation: Span = (1.0, 3.0),
    sparsity: Span | None = None,
    physics_only: bool = False,
    throughput: Quantity | None = None,
    max_power: Quantity | None = None,
    max_price: Quantity | None = None,
    confidence: Quantity = 0.5,
    software: str | None = None,
) -> Question:
    """The question that `solve` asks; arguments and exceptions are the same."""
    if (tokens_per_second is None) == (observed is None):
        raise InputError(
            "tokens_per_second is a target and observed a measurement: expected one of them"
        )
    profile = hardware if isinstance(hardware, Hardware) else Hardware.load(hardware)
    if max_power is not None and not profile.power_w > 0.0:
        raise InputError(f"max_power: the profile {profile.name} states no power")
    if max_price is not None and not profile.price_dollars_per_hour > 0.0:
        raise InputError(
            f"max_price: the profile {profile.name} states no price per hour "
            "(set price.rent, as '30 USD/h')"
        )
    if physics_only and sparsity is not None:
        raise InputError("sparsity is a habit of design: it does not go with physics_only")
    habits = None if physics_only else Habits()
    if sparsity is not None:
        habits = Habits(sparsity=_sparsity(sparsity))
    certainty = _number("confidence", confidence, "ratio")
    if not 0.01 <= certainty <= 0.99:
        forgotten = 1.0 < certainty <= 99.0 and "%" not in str(confidence)
        percent = f"; write '{certainty:g} %'" if forgotten else ""
        raise InputError(
            f"confidence: expected between 1 % and 99 %, found {confidence!r}{percent}"
        )
    if observed is not None and certainty != 0.5:
        raise InputError(
            "confidence: goes with a target; an observed speed is held against the 90 % interval "
            f"of each model, found {confidence!r}"
        )
    if observed is None and software is not None:
        raise InputError(
            "software: goes with an observed speed; a target is answered for the usual software "
            "first and then for each faster one"
        )
    names = weights.split(",") if isinstance(weights, str) else weights
    fewest, most = _span("nodes", nodes, "whole")
    totals, actives = _span("total", total, "count"), _span("active", active, "count")
    if actives[0] > totals[1]:
        said = [units.format_quantity(v, "count") for v in (totals[1], actives[0])]
        raise InputError(f"active: expected at most the total ({said[0]}), found {said[1]}")
    speed = tokens_per_second if observed is None else observed
    assert speed is not None
    return Question(
        hardware=profile,
        nodes=(_whole("nodes", fewest), _whole("nodes", most)),
        tokens_per_s=read_speed("tokens_per_second" if observed is None else "observed", speed),
        observed=observed is not None,
        context_tokens=_whole("context", _number("context", context, "tokens")),
        concurrency=_whole("concurrency", _number("concurrency", concurrency, "whole")),
        weights=tuple(dict.fromkeys(weight_format(name).name for name in names)),
        kv=kv,
        rules=FamilyRules(attention=attention),
        speculation=_span("speculation", speculation, "accepted", lowest=1.0),
        habits=habits,
        total=totals,
        active=actives,
        layers=_whole_span("layers", layers),
        throughput_tokens_per_s=None
        if throughput is None
        else _more_than_0("throughput", throughput, "tokens_per_s"),
        power_w=_optional("max_power", max_power, "watts"),
        price_per_hour=_optional("max_price", max_price, "dollars_per_hour"),
        software=software,
        # Exactly the centre for one half, so that no uncertainty enters the default.
        confidence_z=0.0 if certainty == 0.5 else NormalDist().inv_cdf(certainty),
    )


def _number(key: str, value: Quantity, dimension: str) -> float:
    # A plain number is in SI units already; `units` would ask for the unit of some of them.
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not 0.0 <= value < math.inf:
            raise InputError(f"{key}: expected {units.expected(dimension)}, found {value!r}")
        return float(value)
    try:
        return units.parse(value, dimension)
    except UnitError as error:
        raise UnitError(f"{key}: {error}") from None


def _more_than_0(key: str, value: Quantity, dimension: str) -> float:
    number = _number(key, value, dimension)
    if number <= 0.0:
        raise InputError(f"{key}: expected more than 0, found {value!r}")
    return number


def read_speed(key: str, value: Quantity) -> float:
    """Tokens/s of a speed that is asked for or was observed.

    Raises:
        InputError: nothing, or more than any; names `key`.
    """
    speed = _more_than_0(key, value, "tokens_per_s")
    if speed > SPEED_MOST:
        raise InputError(f"{key}: expected at most {SPEED_MOST:,.0f} tokens/s, found {value!r}")
    return speed


def _sparsity(value: Span) -> Range:
    """Total over active parameters, 1 for a dense model, where an open low end begins."""
    low, high = _span("sparsity", value, "number", lowest=1.0)
    if not (1.0 <= low <= high and (high <= SPARSITY_MOST or high == math.inf)):
        raise InputError(
            f"sparsity: expected total / active between 1 (dense) and {SPARSITY_MOST:,.0f}, "
            f"found {value!r}"
        )
    return low, high


def _whole_span(key: str, value: Span | None) -> Range:
    low, high = _span(key, value, "whole")
    if any(end != math.inf and end != math.floor(end) for end in (low, high)):
        raise InputError(f"{key}: expected whole numbers such as 61 or 60:90, found {value!r}")
    return low, high


def _optional(key: str, value: Quantity | None, dimension: str) -> float | None:
    return None if value is None else _number(key, value, dimension)


def _span(key: str, value: Span | None, dimension: str, lowest: float = 0.0) -> Range:
    if value is None:
        return ANY
    if isinstance(value, str):
        try:
            return units.parse_range(value, dimension, lowest)
        except UnitError as error:
            raise UnitError(f"{key}: {error}") from None
    if not isinstance(value, tuple):
        one = _number(key, value, dimension)
        return one, one
    if len(value) != 2:
        raise InputError(f"{key}: expected (low, high), found {value!r}")
    low, high = value
    return (
        _number(key, low, dimension),
        math.inf if high == math.inf else _number(key, high, dimension),
    )


def _whole(key: str, value: float) -> int:
    if value > WHOLE_MOST:
        raise InputError(
            f"{key}: expected a whole number of at most {WHOLE_MOST:,}, found {value:g}"
        )
    if not math.isfinite(value) or value != math.floor(value) or value < 1:
        raise InputError(f"{key}: expected a whole number of at least 1, found {value:g}")
    return int(value)
