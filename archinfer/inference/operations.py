"""How services are run, as `archinfer/data/priors.yaml` states it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from archinfer import files, units
from archinfer.asking import Range


@dataclass(frozen=True, slots=True)
class Operations:
    """What is assumed of a service that nobody describes; ranges are log-uniform."""

    users_per_layer_most: float
    """Most users at once on spatial hardware, for each layer: a full pipeline is 1."""
    users_most: float
    """The same on temporal hardware, whatever the model."""
    held_context: Range
    """Tokens of context that each user holds."""
    measured_context_least: float
    """Least context at which a speed was measured; the most is what a user holds."""
    utilisation: Range
    """Part of the nodes meant for a model that it needs (spatial hardware)."""
    priced_users: float
    """Users of one deployment at whose cost prices are looked at (temporal hardware)."""
    price_over_cost: dict[str, tuple[float, float]]
    """By kind of price: median of price over cost, and the spread of its logarithm."""


@cache
def operations() -> Operations:
    """The shipped assumptions."""
    with resources.as_file(resources.files("archinfer") / "data" / "priors.yaml") as path:
        stated = files.load(path).data["operations"]

    def at(name: str, end: str, dimension: str = "number") -> float:
        return units.parse(stated[name][end], dimension)

    prices = ("output_price", "input_price")
    return Operations(
        at("users_per_layer", "most"),
        at("users", "most"),
        (at("held_context", "least"), at("held_context", "most")),
        at("measured_context", "least"),
        (at("utilisation", "least", "ratio"), at("utilisation", "most", "ratio")),
        at("priced_users", "value"),
        {name: (at(name, "value"), at(name, "log_sd")) for name in prices},
    )
