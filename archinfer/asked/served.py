"""A machine, and a known model on it: what predict, compare, pareto and solve ask of both."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypedDict

from archinfer.asking import (
    ACCEPTED_MOST,
    LAYERS_MOST,
    NODES_MOST,
    SPEED,
    VOCABULARY_MOST,
    WHOLE_MOST,
    Ask,
    Quantity,
    Span,
    Use,
)


def _all(found: Use | str) -> dict[str, Any]:
    """The same for every command."""
    return dict.fromkeys(("solve", "predict", "compare", "pareto"), found)


def _served(found: Use | str) -> dict[str, Any]:
    """The same for every command about a known model."""
    return dict.fromkeys(("predict", "compare", "pareto"), found)


_WHOLE: Final[dict[str, Any]] = {"form": "number", "least": 1, "most": WHOLE_MOST, "whole": True}
_TOKENS: Final[dict[str, Any]] = _WHOLE | {"dimension": "tokens"}
_NODES: Final[dict[str, Any]] = _WHOLE | {"dimension": "whole", "most": NODES_MOST, "closed": True}
_SIZE: Final[dict[str, Any]] = {"dimension": "count", "form": "range"}
_PROFILES = "Profiles, comma-separated: names or YAML files. Default: all that are shipped."
_PROFILE = Use("Profile: a name (archinfer hardware list) or a YAML file.", "wse-3")
_OWN_FORMAT = (
    "Weight format, as int4 or int4,embedding=int8,head=bf16. Default: the one the model comes in "
    "(bf16 for totals)."
)
_OWN_CACHE = "KV-cache format. Default: the one the model's file states, else bf16."
_OWN_CACHES = {"predict": _OWN_CACHE, "pareto": _OWN_CACHE}
_CONTEXT = Use("Tokens of context (128k = 128,000).", "8k")
_CONTEXTS = (
    "Tokens of context (128k = 128,000); several for a sweep, as 8k,32k,128k. Default: 8k; with "
    "--prompt that and half an answer."
)
_USERS = Use("Users served at once.", "1")
_SEVERAL_USERS = Use("Users served at once; several for a sweep, as 1,8,32.", "1")
OUTPUT_USUAL = "1k"
_ANSWER = Use("Tokens of a user's answer.", OUTPUT_USUAL)
_PROMPT = "Tokens of a user's prompt. Default: the context less half an answer."
_TARGET = "Tokens/s that one user shall see at least, as 100."
MAX_COST = "Dollars for a million output tokens at most, as 2USD."
_SET = "Set a figure of the profile, as link.latency='2 us'."
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
            fit=_PROFILE,
            validate="Profile whose speeds to predict. Default: wse-3; with --test: every row's "
            "own.",
        ),
    ]
    nodes: Annotated[
        Span | None,
        Ask(
            **(_NODES | {"form": "range"}),
            examples=("88", "70:100"),
            solve="Nodes that are there, as 88 or 70:100. Default: 88 for a target on wse-3, "
            "else unknown: 1 to 128, or to as many as have the memory of 88 wafers.",
            predict="Nodes that are there. Default: the fewest that hold it.",
            compare="Nodes that are there: one number, or one for each profile, comma-separated. "
            "Default: the fewest that hold the model.",
            pareto="Nodes that are there for all copies together, as 8 or 1:64. Default: 1 to 64.",
        ),
    ]
    tokens_per_second: Annotated[
        Quantity | None,
        Ask(**SPEED, solve="Target: at least this speed for one user. Default: 750."),
    ]


class Common(TypedDict, total=False):
    """What every way to ask takes."""

    total: Annotated[
        Span | None,
        Ask(
            **_SIZE,
            examples=("2T:4T", "0.9T:"),
            solve="Known total parameters, as 2T:4T or 0.9T:.",
            **_served("Total parameters of a model without a config, as 3T."),
        ),
    ]
    active: Annotated[
        Span | None,
        Ask(
            **_SIZE,
            examples=("150B", "100B:200B"),
            solve="Known active parameters, as 150B.",
            **_served("Its active parameters, as 150B. Default: all (dense)."),
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
            solve="Known layers, as 61 or 60:90.",
            predict="Its layers, as 60 or 40:90. Default: what habits of design allow.",
            compare="Its layers, as 88.",
            pareto="Its layers, as 88.",
        ),
    ]
    attention: Annotated[
        str | None,
        Ask(
            solve="Attention of the family: gqa, mqa, mla. Default: gqa (the posterior: unknown).",
            **_served(Use("Its attention: gqa, mqa, mla.", "gqa")),
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
            **_all(Use("The family's head is its embedding, stored and counted once.", False)),
        ),
    ]
    mapping: Annotated[
        Any,
        Ask(
            **_all(
                "Nodes that share a layer and pipeline stages, as tp=8,pp=2; dp=8,pp=2: nodes that "
                "share routed experts alone, each with users of its own. Default: the fastest that "
                "fits."
            )
        ),
    ]
    context: Annotated[
        Quantity | None,
        Ask(
            **_TOKENS,
            swept=True,
            solve="Tokens of context (128k = 128,000). With an observed speed what every user "
            "holds; SPEED@CONTEXT says what was read. Default: 8k (the posterior: unknown, 1k to "
            "64k).",
            predict=_CONTEXTS,
            compare=_CONTEXT,
            pareto="Tokens of context, half an answer in them; the prompt is the rest. Default: "
            "the prompt and half an answer.",
        ),
    ]
    prompt: Annotated[
        Quantity | None,
        Ask(
            **_TOKENS,
            solve=f"{_PROMPT} A target's.",
            predict=_PROMPT,
            pareto="Tokens of a user's prompt. Default: 8k.",
        ),
    ]
    output: Annotated[
        Quantity | None, Ask(**_TOKENS, solve=_ANSWER, predict=_ANSWER, pareto=_ANSWER)
    ]
    concurrency: Annotated[
        Quantity | None,
        Ask(
            dimension="whole",
            **_WHOLE,
            swept=True,
            examples=("1", "64"),
            also=("users",),
            solve="Users served at once. Default: 1 (the posterior: unknown, 1 to a full "
            "pipeline).",
            predict=_SEVERAL_USERS,
            compare=_USERS,
            pareto="Users to be served at once. Default: any number.",
        ),
    ]
    weights: Annotated[
        str | Sequence[str] | None,
        Ask(
            form="names",
            solve=Use("Weight formats to consider, comma-separated.", "bf16,fp8,nvfp4"),
            predict=_OWN_FORMAT,
            compare=_OWN_FORMAT,
            pareto="Weight formats to consider. Default: the one the model comes in.",
        ),
    ]
    kv: Annotated[str | None, Ask(**_all(Use("KV-cache format.", "bf16")) | _OWN_CACHES)]
    speculation: Annotated[
        Span | None,
        Ask(
            dimension="accepted",
            form="range",
            least=1,
            most=ACCEPTED_MOST,
            examples=("1", "1:3"),
            solve=f"{_GAIN} Default: 1:3 (the posterior: the profile's fitted law, where it "
            "has one).",
            **_served(f"{_GAIN} Default: the profile's fitted law of speculation; without one: 1."),
        ),
    ]
    software: Annotated[
        str | None,
        Ask(
            metavar="NAME",
            solve="With an observed speed: the software that made it, usual or one that archinfer "
            "hardware show lists. Default: unknown, each as likely as another.",
            **_served(
                "The software that runs, usual or one that archinfer hardware show lists. Default: "
                "unknown, each as likely as another."
            ),
        ),
    ]
    set: Annotated[
        Mapping[str, Quantity] | Sequence[str] | None,
        Ask(form="pairs", metavar="KEY=VALUE", solve=_SET, predict=_SET),
    ]


class Sure(TypedDict, total=False):
    """How sure a target must be met, and at what cost."""

    max_cost: Annotated[
        Quantity | None, Ask(dimension="dollars", form="number", solve=MAX_COST, pareto=MAX_COST)
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
    ttft: Annotated[
        Quantity | None,
        Ask(
            dimension="seconds",
            form="number",
            solve="Observed time to the first token of a prompt, as 1.2s@30k.",
            pareto="Time to the first token at most, as 2s.",
        ),
    ]


class Served(Common, total=False):
    """What a prediction takes: how a known model is served."""

    layers_per_node: Annotated[
        Quantity | None,
        Ask(**_NODES, predict="Layers of a node (of a pipeline stage). Default: the fastest."),
    ]
    tensor_parallel: Annotated[
        Quantity | None,
        Ask(
            **_NODES, predict="Nodes that share each layer (with --layers-per-node; not on wafers)."
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

    target: Annotated[Quantity | None, Ask(**SPEED, compare=_TARGET, pareto=_TARGET)]
    price: Annotated[
        Mapping[str, Quantity] | Sequence[str] | None,
        Ask(
            form="pairs",
            metavar="PROFILE=PRICE",
            pareto="Rent of a node, as b200=4USD/h, or its purchase, as wse-3='2M USD'.",
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
