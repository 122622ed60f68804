"""Which models a speed allows: what solve asks beside machine and model."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from archinfer.asked.served import Common, Sure
from archinfer.asking import (
    ACCEPTED_MOST,
    SEED_MOST,
    SPARSITY_MOST,
    SPEED,
    Ask,
    Quantity,
    Span,
    Use,
)


class Asked(Common, Sure, total=False):
    """What a question takes."""

    observed: Annotated[
        Quantity | Sequence[Quantity] | None,
        Ask(
            **(SPEED | {"form": "several"}),
            metavar="SPEED[@CONTEXT]",
            solve="Observed speed of one user: too slow and too fast are both evidence. Again for "
            "each further context, as 750@8k and 610@128k.",
        ),
    ]
    prefill: Annotated[
        Quantity | None,
        Ask(
            **SPEED,
            metavar="SPEED[@PROMPT]",
            solve="Tokens of a prompt read a second, as 9000@32k.",
        ),
    ]
    tokens_per_pass: Annotated[
        Quantity | None,
        Ask(
            dimension="accepted",
            form="number",
            least=1,
            most=ACCEPTED_MOST,
            solve="Tokens that arrive in one chunk of a stream, as 2.4.",
        ),
    ]
    evidence: Annotated[
        Any,
        Ask(
            metavar="FILE",
            solve="All that was observed of one service (YAML; archinfer evidence --init writes an "
            "example).",
        ),
    ]
    observed_max: Annotated[
        Quantity | None,
        Ask(
            **SPEED,
            solve='Announced ceiling of one user\'s speed ("up to 750"): only too fast is '
            "evidence.",
        ),
    ]
    like: Annotated[
        str | None,
        Ask(
            metavar="NAME",
            solve="Known model whose attention, vocabulary and formats the family takes, where no "
            "other is said: deepseek-v3.",
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
            solve="Total / active as a habit of design. Default: 1:32.",
        ),
    ]
    physics_only: Annotated[bool, Ask(form="flag", solve=Use("Leave out habits of design.", False))]
    throughput: Annotated[
        Quantity | None, Ask(**SPEED, solve="Tokens/s over all users that must be reached.")
    ]
    max_power: Annotated[
        Quantity | None, Ask(dimension="watts", form="number", solve="Most power, as 2MW.")
    ]
    max_price: Annotated[
        Quantity | None,
        Ask(
            dimension="dollars_per_hour",
            form="number",
            solve="Most dollars per hour for the nodes in use.",
        ),
    ]
    calibration: Annotated[
        Any,
        Ask(
            metavar="FILE",
            solve="Profile of archinfer calibrate --save: what it measured without a unit of time "
            "(routing, chain of reductions, model error) is used here.",
        ),
    ]


class Solving(Asked, total=False):
    """What a solve takes: a question, and how much of an answer."""

    compare: Annotated[
        Mapping[str, Quantity] | Sequence[str] | None,
        Ask(
            form="pairs",
            metavar="MODEL=SPEED",
            solve="With an observed speed: why it differs from that of a known model on the same "
            "hardware, as gpt-oss-120b=3000.",
        ),
    ]
    claim: Annotated[
        Mapping[str, Span] | str | Sequence[str] | None,
        Ask(
            form="pairs",
            metavar="KEY=VALUE,...",
            solve="What somebody claims of total, active and layers, to be put to the test, as "
            "total=2T:4T,active=150B,layers=70:90. A target then counts as observed.",
        ),
    ]
    architectures: Annotated[
        int, Ask(form="integer", most=100, solve=Use("Concrete architectures to print.", 8))
    ]
    seed: Annotated[
        int,
        Ask(
            form="integer",
            most=SEED_MOST,
            solve=Use("Seed of the posterior's draws.", 0),
            calibrate=Use("Seed of weights, order and blind models.", 0),
        ),
    ]
