"""How services are run, as `archinfer/data/priors.yaml` states it."""

from __future__ import annotations

from functools import cache
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field

from archinfer import files, strict, units


class _Between(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: str
    least: str | float = 1
    most: str | float = 1


class _Factor(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: str
    value: float
    log_sd: float = 0.0


class _Operations(BaseModel):
    model_config = ConfigDict(extra="forbid")

    users_per_layer: _Between
    users: _Between
    held_context: _Between
    measured_context: _Between
    utilisation: _Between
    priced_users: _Factor
    output_price: _Factor
    input_price: _Factor


class _File(BaseModel):
    operations: _Operations = Field()


class Operations(BaseModel):
    """What is assumed of a service that nobody describes; ranges are log-uniform."""

    model_config = ConfigDict(frozen=True)

    users_per_layer_most: float
    """Most users at once on spatial hardware, for each layer: a full pipeline is 1."""
    users_most: float
    """The same on temporal hardware, whatever the model."""
    held_context: tuple[float, float]
    """Tokens of context that each user holds."""
    measured_context_least: float
    """Least context at which a speed was measured; the most is what a user holds."""
    utilisation: tuple[float, float]
    """Part of the nodes meant for a model that it needs (spatial hardware)."""
    priced_users: float
    """Users of one deployment at whose cost prices are looked at (temporal hardware)."""
    price_over_cost: dict[str, tuple[float, float]]
    """By kind of price: median of price over cost, and the spread of its logarithm."""


@cache
def operations() -> Operations:
    """The shipped assumptions."""
    with resources.as_file(resources.files("archinfer") / "data" / "priors.yaml") as path:
        found = strict.validate(files.load(path), _File).operations
    tokens, share = found.held_context, found.utilisation
    return Operations(
        users_per_layer_most=units.parse(found.users_per_layer.most, "number"),
        users_most=units.parse(found.users.most, "number"),
        held_context=(units.parse(tokens.least, "number"), units.parse(tokens.most, "number")),
        measured_context_least=units.parse(found.measured_context.least, "number"),
        utilisation=(units.parse(share.least, "ratio"), units.parse(share.most, "ratio")),
        priced_users=found.priced_users.value,
        price_over_cost={
            "output_price": (found.output_price.value, found.output_price.log_sd),
            "input_price": (found.input_price.value, found.input_price.log_sd),
        },
    )
