"""The cheapest way to serve a known model: every deployment on several machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from archinfer.api.arguments import arguments, count, number, pairs
from archinfer.api.serving import Model, machines_of, models_of, name_of, served
from archinfer.api.solving import Machine
from archinfer.asked.served import Planned
from archinfer.asking import NODES_MOST, Span
from archinfer.errors import InputError, UnitError, UnknownNameError
from archinfer.forward.deployments import Pareto, Plan
from archinfer.forward.pareto import pareto as pareto_on
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.formats import split_formats
from archinfer.question import ASKS

NODES_USUAL = (1, 64)
"""Nodes that are tried where nobody says how many there are."""

PROMPT_USUAL = 8000
"""Tokens of a prompt where nobody says."""


@arguments("pareto")
def pareto(
    model: Model | None = None,
    hardware: str | Sequence[Machine] | None = None,
    *,
    nodes: Span | None = None,
    **asked: Unpack[Planned],
) -> Pareto:
    """What users get, nodes make and tokens cost, by deployment: `archinfer pareto`.

    Args:
        model: as `predict` takes it; None: given by its totals.
        hardware: profiles, their names or paths. Default: all that are shipped.
        nodes: nodes of a deployment, as 8 or "1:64". Default: 1 to 64.

    Returns:
        Every deployment that no other beats in both speed and throughput, and the cheapest one that
        meets what was asked.

    Raises:
        InputError: as `predict`.

    >>> found = pareto("llama-3.1-70b", "h100-sxm", nodes="1:8", target=50)
    >>> found.cheapest.nodes, found.cheapest.tokens_per_s_per_user.p50 >= 50
    (4, True)
    """
    plan = plan_of(nodes, asked)
    machines = priced(machines_of(hardware), asked["price"])
    (wanted,) = models_of(model, asked)
    stated = wanted.stored.kv if isinstance(wanted, Architecture) else None
    given = asked | {"context": plan.context_tokens, "concurrency": 1, "prompt": plan.prompt_tokens}
    weights = asked["weights"]
    names = [None] if weights is None else split_formats(weights)
    deployments = []
    for machine in machines:
        mine = [served(machine, None, given | {"weights": w}) for w in names]
        deployments.append((machine, [d.with_(kv=d.kv or stated or "bf16") for d in mine]))
    return pareto_on(wanted, name_of(wanted), deployments, plan)


def plan_of(nodes: Span | None, asked: Mapping[str, Any]) -> Plan:
    """What is asked of deployments.

    Raises:
        InputError: a value that cannot be, or a context that does not hold its prompt and answer.
    """

    output, prompt, context = (count(name, asked) for name in ("output", "prompt", "context"))
    if context is not None:
        if prompt is not None:
            raise InputError("context: it is the prompt and half the answer; expected one of them")
        if context <= output // 2:
            raise InputError(f"context: expected more than half the answer of {output:,} tokens")
        prompt = context - output // 2
    low, high = NODES_USUAL if nodes is None else ASKS["nodes"].range("nodes", nodes)
    return Plan(
        prompt_tokens=PROMPT_USUAL if prompt is None else prompt,
        output_tokens=output,
        users=count("concurrency", asked),
        nodes=(int(max(low, 1)), int(min(high, NODES_MOST))),
        target_tokens_per_s=number("target", asked),
        time_to_first_token_s=number("ttft", asked),
        max_dollars_per_million_output_tokens=number("max_cost", asked),
        confidence=number("confidence", asked),
        utilisation=number("utilisation", asked),
    )


def priced(machines: Sequence[Hardware], prices: Any) -> list[Hardware]:
    """The machines with the prices that were given, rent a node and hour or purchase.

    Raises:
        InputError: a profile that is not asked about, or no price.
    """
    found = {machine.name: machine for machine in machines}
    for name, price in pairs("price", prices, "b200=4USD/h"):
        if name not in found:
            raise UnknownNameError("hardware of a price", name, found)
        try:
            found[name] = found[name].with_value("price.rent", price)
        except UnitError:
            try:
                bought = found[name].with_value("price.purchase", price)
            except UnitError:
                raise InputError(
                    f"price: {name}: expected rent such as '4 USD/h' or a purchase such as "
                    f"'30k USD', found {price!r}"
                ) from None
            found[name] = replace(bought, price_dollars_per_hour=np.nan)
    return list(found.values())
