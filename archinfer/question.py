"""What can be asked: ONE table, from which every way to ask is made.

An entry states a name, what kind of quantity it is, its bounds, its default and its help, once.
From it come the options of the command line (`cli.options`), the arguments of the Python calls
and their documentation (`api`) and the keys of check files with their JSON Schema
(`checks.schema`). How an entry is read stands in `asking`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypedDict, get_type_hints

from archinfer.asking import (
    ACCEPTED_MOST,
    LAYERS_MOST,
    NODES_MOST,
    SPARSITY_MOST,
    SPEED_MOST,
    VOCABULARY_MOST,
    WHOLE_MOST,
    Ask,
    Quantity,
    Span,
    Use,
)

FOUNDING: Final[dict[str, Any]] = {"hardware": "wse-3", "nodes": 88, "tokens_per_second": 750}
"""The question that is answered where nothing is asked."""


def _all(text: str, default: Any = None) -> dict[str, Any]:
    """The same for every command."""
    return dict.fromkeys(("solve", "predict", "compare", "pareto"), Use(text, default))


_WHOLE: Final[dict[str, Any]] = {"form": "number", "least": 1, "most": WHOLE_MOST, "whole": True}
_SPEED: Final[dict[str, Any]] = {"dimension": "tokens_per_s", "form": "number", "most": SPEED_MOST}
_NODES: Final[dict[str, Any]] = _WHOLE | {"dimension": "whole", "most": NODES_MOST, "closed": True}
_PROFILES = Use("Profiles, comma-separated: names or YAML files. Default: all that are shipped.")
_PROFILE = Use("Profile: a name (archinfer hardware list) or a YAML file.", "wse-3")
_TOTAL = Use("Total parameters of a model without a config, as 3T.")
_ACTIVE = Use("Its active parameters, as 150B. Default: all (dense).")
_KIND = Use("Its attention: gqa, mqa, mla.", "gqa")
_OWN_FORMAT = Use(
    "Weight format, as int4 or int4,embedding=int8,head=bf16. Default: the one the model comes in "
    "(bf16 for totals)."
)
_OWN_CACHE = Use("KV-cache format. Default: the one the model's file states, else bf16.")
_OWN_CACHES = {"predict": _OWN_CACHE, "pareto": _OWN_CACHE}
_CONTEXT = Use("Tokens of context (128k = 128,000).", "8k")
_CONTEXTS = Use(
    "Tokens of context (128k = 128,000); several for a sweep, as 8k,32k,128k. Default: 8k; with "
    "--prompt that and half an answer."
)
_USERS = Use("Users served at once.", "1")
_SEVERAL_USERS = Use("Users served at once; several for a sweep, as 1,8,32.", "1")
_ANSWER = Use("Tokens of a user's answer.", "1k")
_TARGET = Use("Tokens/s that one user shall see at least, as 100.")
_MAX_COST = Use("Dollars for a million output tokens at most, as 2USD.")
_SET = Use("Set a figure of the profile, as link.latency='2 us'.")
_CONFIDENCE = Use("Probability with which a target must hold.", "50 %")
_GAIN = "Accepted tokens a pass, as 1 (none) or 1:3."


class Subject(TypedDict, total=False):
    """What is asked about: the machine, and the speed."""

    hardware: Annotated[
        Any,
        Ask(
            solve=_PROFILE,
            predict=_PROFILE,
            compare=_PROFILES,
            pareto=_PROFILES,
        ),
    ]
    nodes: Annotated[
        Span | None,
        Ask(
            **(_NODES | {"form": "range"}),
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
            pareto=Use(
                "Nodes that are there for all copies together, as 8 or 1:64. Default: 1 to 64."
            ),
        ),
    ]
    tokens_per_second: Annotated[
        Quantity | None,
        Ask(**_SPEED, solve=Use("Target: at least this speed for one user. Default: 750.")),
    ]


class Common(TypedDict, total=False):
    """What every way to ask takes."""

    total: Annotated[
        Span | None,
        Ask(
            dimension="count",
            form="range",
            examples=("2T:4T", "0.9T:"),
            solve=Use("Known total parameters, as 2T:4T or 0.9T:."),
            predict=Use("Total parameters of a model without a config, as 1.6T."),
            compare=_TOTAL,
            pareto=_TOTAL,
        ),
    ]
    active: Annotated[
        Span | None,
        Ask(
            dimension="count",
            form="range",
            examples=("150B", "100B:200B"),
            solve=Use("Known active parameters, as 150B."),
            predict=Use("Its active parameters, as 48B. Default: all (dense)."),
            compare=_ACTIVE,
            pareto=_ACTIVE,
        ),
    ]
    layers: Annotated[
        Span | None,
        Ask(
            dimension="whole",
            form="range",
            most=LAYERS_MOST,
            whole=True,
            examples=("61", "60:90"),
            solve=Use("Known layers, as 61 or 60:90."),
            predict=Use("Its layers, as 60 or 40:90. Default: what habits of design allow."),
            compare=Use("Its layers, as 88."),
            pareto=Use("Its layers, as 88."),
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
            pareto=_KIND,
        ),
    ]
    vocabulary: Annotated[
        Quantity | None,
        Ask(
            dimension="whole",
            **(_WHOLE | {"most": VOCABULARY_MOST}),
            examples=("32000", "151936"),
            **_all("Rows of the family's embedding and head. Default: 131,072, the usual."),
        ),
    ]
    tied: Annotated[
        bool,
        Ask(
            form="flag",
            **_all("The family's head is its embedding, stored and counted once.", False),
        ),
    ]
    mapping: Annotated[
        Any,
        Ask(
            **_all(
                "Nodes that share a layer and pipeline stages, as tp=8,pp=2. Default: the fastest "
                "that fits."
            )
        ),
    ]
    context: Annotated[
        Quantity | None,
        Ask(
            dimension="tokens",
            **_WHOLE,
            solve=Use(
                "Tokens of context (128k = 128,000). Default: 8k (the posterior: unknown, 1k to "
                "64k)."
            ),
            predict=_CONTEXTS,
            compare=_CONTEXT,
            pareto=Use("Tokens of context held at the end of an answer; the prompt is the rest."),
        ),
    ]
    prompt: Annotated[
        Quantity | None,
        Ask(
            dimension="tokens",
            **_WHOLE,
            predict=Use("Tokens of a user's prompt. Default: the context less half an answer."),
            pareto=Use("Tokens of a user's prompt. Default: 8k."),
        ),
    ]
    output: Annotated[
        Quantity | None,
        Ask(dimension="tokens", **_WHOLE, predict=_ANSWER, pareto=_ANSWER),
    ]
    concurrency: Annotated[
        Quantity | None,
        Ask(
            dimension="whole",
            **_WHOLE,
            examples=("1", "64"),
            also=("users",),
            solve=Use(
                "Users served at once. Default: 1 (the posterior: unknown, 1 to a full pipeline)."
            ),
            predict=_SEVERAL_USERS,
            compare=_USERS,
            pareto=Use("Users to be served at once. Default: any number."),
        ),
    ]
    weights: Annotated[
        str | Sequence[str] | None,
        Ask(
            form="names",
            solve=Use("Weight formats to consider, comma-separated.", "bf16,fp8,nvfp4"),
            predict=_OWN_FORMAT,
            compare=_OWN_FORMAT,
            pareto=Use("Weight formats to consider. Default: the one the model comes in."),
        ),
    ]
    kv: Annotated[str | None, Ask(**_all("KV-cache format.", "bf16") | _OWN_CACHES)]
    speculation: Annotated[
        Span | None,
        Ask(
            dimension="accepted",
            form="range",
            least=1,
            most=ACCEPTED_MOST,
            examples=("1", "1:3"),
            solve=Use(
                f"{_GAIN} Default: 1:3 (the posterior: the profile's fitted law, where it has one)."
            ),
            predict=Use(f"{_GAIN} Default: 1:3 (1:2 with one draft)."),
            compare=Use(_GAIN, "1"),
            pareto=Use(_GAIN, "1"),
        ),
    ]
    set: Annotated[
        Mapping[str, Quantity] | Sequence[str] | None,
        Ask(form="pairs", metavar="KEY=VALUE", solve=_SET, predict=_SET),
    ]


class Sure(TypedDict, total=False):
    """How sure a target must be met, and at what cost."""

    max_cost: Annotated[
        Quantity | None,
        Ask(dimension="dollars", form="number", solve=_MAX_COST, pareto=_MAX_COST),
    ]

    confidence: Annotated[
        Quantity,
        Ask(
            dimension="ratio",
            form="number",
            least=0.01,
            most=0.99,
            wanted="between 1 % and 99 %",
            solve=_CONFIDENCE,
            pareto=_CONFIDENCE,
        ),
    ]


class Asked(Common, Sure, total=False):
    """What a question takes."""

    observed: Annotated[
        Quantity | None,
        Ask(
            **_SPEED,
            solve=Use("Observed speed of one user: too slow and too fast are both evidence."),
        ),
    ]
    observed_max: Annotated[
        Quantity | None,
        Ask(
            **_SPEED,
            solve=Use(
                'Announced ceiling of one user\'s speed ("up to 750"): only too fast is evidence.'
            ),
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
            solve=Use("Total / active as a habit of design. Default: 1:32."),
        ),
    ]
    physics_only: Annotated[bool, Ask(form="flag", solve=Use("Leave out habits of design.", False))]
    throughput: Annotated[
        Quantity | None,
        Ask(
            dimension="tokens_per_s",
            form="number",
            solve=Use("Tokens/s over all users that must be reached."),
        ),
    ]
    max_power: Annotated[
        Quantity | None,
        Ask(dimension="watts", form="number", solve=Use("Most power, as 2 MW.")),
    ]
    max_price: Annotated[
        Quantity | None,
        Ask(
            dimension="dollars_per_hour",
            form="number",
            solve=Use("Most dollars per hour for the nodes in use."),
        ),
    ]
    calibration: Annotated[
        Any,
        Ask(
            metavar="FILE",
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
    claim: Annotated[
        Mapping[str, Span] | str | Sequence[str] | None,
        Ask(
            form="pairs",
            metavar="KEY=VALUE,...",
            solve=Use(
                "What somebody claims of total, active and layers, to be put to the test, as "
                "total=2T:4T,active=150B,layers=70:90. A target then counts as observed."
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
            **_NODES,
            predict=Use("Layers of a node (of a pipeline stage). Default: the fastest."),
        ),
    ]
    tensor_parallel: Annotated[
        Quantity | None,
        Ask(
            **_NODES,
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


class Planned(Common, Sure, total=False):
    """What a plan takes: the load, and what a deployment has to meet."""

    target: Annotated[
        Quantity | None,
        Ask(**_SPEED, compare=_TARGET, pareto=_TARGET),
    ]
    ttft: Annotated[
        Quantity | None,
        Ask(
            dimension="seconds",
            form="number",
            pareto=Use("Time to the first token at most, as 2s."),
        ),
    ]
    price: Annotated[
        Mapping[str, Quantity] | Sequence[str] | None,
        Ask(
            form="pairs",
            metavar="PROFILE=PRICE",
            pareto=Use("Rent of a node, as b200=4USD/h, or its purchase, as wse-3='2M USD'."),
        ),
    ]
    utilisation: Annotated[
        Quantity,
        Ask(
            dimension="ratio",
            form="number",
            most=1.0,
            pareto=Use("Part of the time that the nodes are in use; all of it is paid.", "100%"),
        ),
    ]


def _entries() -> dict[str, tuple[Any, Ask]]:
    found: dict[str, tuple[Any, Ask]] = {}
    for group in (Subject, Solving, Served, Planned):
        for name, hint in get_type_hints(group, include_extras=True).items():
            found[name] = (hint.__origin__, hint.__metadata__[0])
    return found


_TABLE: Final = _entries()
_FIRST: Final = ("hardware", "nodes", "tokens_per_second", "observed", "observed_max")

TYPES: Final[dict[str, Any]] = {name: kind for name, (kind, _) in _TABLE.items()}
"""The type of every argument."""

ASKS: Final[dict[str, Ask]] = {name: _TABLE[name][1] for name in dict.fromkeys((*_FIRST, *_TABLE))}
"""Every entry by its name: that of the argument, of the key and, with dashes, of the option."""


def options(command: str) -> dict[str, tuple[Ask, Use]]:
    """The entries that `command` takes, in the order in which they are told."""
    found = ((name, ask, ask.use(command)) for name, ask in ASKS.items())
    return {name: (ask, use) for name, ask, use in found if use is not None}
