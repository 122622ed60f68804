"""Which models a speed on hardware allows, and how likely each is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Any, TypeAlias, Unpack

from archinfer.api.arguments import (
    arguments,
    check_active,
    count,
    mixed_load,
    naming,
    number,
    pairs,
    read_claim,
    span,
)
from archinfer.api.evidence import settled
from archinfer.asked.solved import Asked, Solving
from archinfer.asking import Quantity, Span, read_speculation
from archinfer.calibration.transfer import apply, read_calibration
from archinfer.errors import InputError
from archinfer.hardware.profile import Hardware
from archinfer.inference.alternatives import alternatives
from archinfer.inference.claim import examine
from archinfer.inference.comparison import Comparison, compare_with
from archinfer.inference.evidence import Evidence
from archinfer.inference.infer import infer as infer_from
from archinfer.inference.posterior import Posterior
from archinfer.models.checkpoint import read_model
from archinfer.models.formats import kv_format, weight_format, weight_formats
from archinfer.models.solver_family import ATTENTION_KINDS, FamilyRules, Habits, attention_rule
from archinfer.phrases import LACKS
from archinfer.physics.deployment import usual_prompt
from archinfer.physics.economy import node_dollars_per_hour
from archinfer.physics.mapping import Layout, read_layout
from archinfer.question import ASKS, FOUNDING
from archinfer.question import options as options_of
from archinfer.solver.answer import Answer, answer, answer_of_any
from archinfer.solver.question import Question, nodes_unknown

Machine: TypeAlias = Hardware | str | os.PathLike[str]
"""A profile, its name or its path."""


@arguments("solve")
def solve(
    hardware: Machine = "wse-3",
    nodes: Span | None = None,
    tokens_per_second: Quantity | None = None,
    **asked: Unpack[Solving],
) -> Answer:
    """Which models a number of nodes and a speed allow: `archinfer solve` in one call.

    With an observed speed the answer holds the posterior, and its comparisons, as well.

    Args:
        hardware: a profile, its name or its path.
        nodes: nodes that are there, or fewest and most.
        tokens_per_second: target: at least this speed for one user. Default: 750.

    Returns:
        The answer; `feasible` is False where nothing is possible.

    Raises:
        InputError: a value that cannot be; UnitError and UnknownNameError are of this kind.

    >>> found = solve("wse-3", nodes=88, tokens_per_second=750, weights="fp8", architectures=0)
    >>> found.feasible, found.ranges["total_params"].high.by
    (True, 'capacity')
    """
    compared = pairs("compare", asked["compare"], "gpt-oss-120b=3000")
    known, nodes = settled(_like(asked), nodes)
    question = _question(hardware, nodes, tokens_per_second, known)
    if compared and (question.ceiling or not question.observed):
        raise InputError("compare: explains an observed speed, and none is given")
    claimed = read_claim(asked["claim"])
    found = answer(question, asked["architectures"])
    if not question.observed and not claimed:
        return found
    # A claim says that the speed is there, and not that it is the least.
    posterior = _posterior(question.with_(observed=True), known)
    claim = examine(posterior, claimed) if claimed else None
    if not question.observed:
        return replace(found, claim=claim)
    if posterior.possible:
        found = _beyond_habits(found, posterior, asked["architectures"])
        others = partial(alternatives, posterior, asked["seed"], **_known(question, known))
        posterior = replace(posterior, others=others)
    return replace(
        found,
        posterior=posterior,
        evidence=posterior.evidence,
        claim=claim,
        comparisons=tuple(_compared(posterior, model, speed) for model, speed in compared),
    )


def _beyond_habits(found: Answer, posterior: Posterior, architectures: int) -> Answer:
    """The same without habits, where these alone exclude what the posterior holds."""
    if found.feasible:
        return found
    wider = answer_of_any(posterior.without_habits, architectures)
    return found if wider is None else replace(wider, beyond_habits=True)


@arguments("solve", "architectures", "seed", "compare", "claim")
def question(
    hardware: Machine = "wse-3",
    nodes: Span | None = None,
    tokens_per_second: Quantity | None = None,
    **asked: Unpack[Asked],
) -> Question:
    """The question that `solve` asks.

    Args:
        hardware: a profile, its name or its path.
        nodes: nodes that are there, or fewest and most.
        tokens_per_second: target: at least this speed for one user. Default: 750.

    Returns:
        The question, for `infer` and for the solver.

    Raises:
        InputError: as `solve`.
    """
    known, nodes = settled(_like(asked), nodes)
    return _question(hardware, nodes, tokens_per_second, known)


def infer(question: Question | Machine, nodes: Span | None = None, **options: Any) -> Posterior:
    """The posterior over total, active, layers and nodes.

    Args:
        question: what is asked; or a profile, its name or its path, from which and from the
            options the question is made as `solve` makes it.
        nodes: nodes that are there, where `question` is a profile.
        options: of a question made before those of `archinfer.inference.infer.infer` (samples,
            seed, target_ess, prior, law ...); else those of `solve`, `observed` among them.

    Returns:
        The posterior; the prior with the nodes where no speed was observed.

    Raises:
        InputError: as `solve`.

    >>> found = infer("wse-3", nodes=88, observed=750)
    >>> found.possible, bool(found.quantiles("layers")[0] >= 1)
    (True, True)
    """
    if isinstance(question, Question):
        return infer_from(question, **options)
    defaults = {name: use.default for name, (_, use) in options_of("solve").items()}
    asked = dict(_like(defaults | options))
    speed = asked.pop("tokens_per_second")
    asked, nodes = settled(asked, nodes)
    return _posterior(_question(question, nodes, speed, asked), asked)


def _like(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was asked, with attention, vocabulary and formats of the model that `like` names."""
    if asked["like"] is None:
        return asked
    with naming("like"):
        model, _ = read_model(asked["like"])
    kinds = model.attention_kinds
    most = max(kinds, key=lambda kind: kinds[kind], default="")
    own = {
        "attention": next((k for k in ATTENTION_KINDS if most.lower().startswith(k)), None),
        "vocabulary": model.vocab_size,
        "tied": model.tied,
        "weights": model.weight_format,
        "kv": model.stored.kv,
    }
    usual = {name: use.default for name, (_, use) in options_of("solve").items()}
    left = {k: v for k, v in own.items() if v is not None and asked[k] == usual[k]}
    return {**asked, **left}


def _question(
    hardware: Machine,
    nodes: Span | None,
    tokens_per_second: Quantity | None,
    asked: Mapping[str, Any],
) -> Question:
    """The question of arguments that are all there."""
    sparsity = asked["sparsity"]
    key, speed = _speed(tokens_per_second, asked)
    at, observed = (asked["evidence"] or Evidence(())).conditions, key != "tokens_per_second"
    if asked["physics_only"] and sparsity is not None:
        raise InputError("sparsity: a habit of design, which physics_only leaves out")
    profile, overrides = machine(hardware, asked["set"])
    with naming("software"):
        profile.softwares(asked["software"])
    total, active = span("total", asked), span("active", asked)
    check_active(active[0], total[1])
    context, prompt, answer = mixed_load(asked, at.context or "8k")
    habits = None if asked["physics_only"] else Habits()
    if sparsity is not None:
        habits = Habits(sparsity=span("sparsity", asked))
    found = Question(
        hardware=profile,
        **_nodes(profile, hardware, nodes, observed),
        tokens_per_s=ASKS[key].number(key, speed),
        observed=observed,
        ceiling=key == "observed_max",
        context_tokens=context,
        prompt_tokens=None if observed else usual_prompt(context, prompt, answer),
        output_tokens=answer,
        context_known=asked["context"] is not None,
        concurrency=count("concurrency", asked, at.concurrency or 1),
        **_numbers(profile, asked),
        rules=family_rules(asked),
        tables_known=frozenset(key for key in ("vocabulary", "tied") if asked[key]),
        speculation=read_speculation(
            _USUAL_GAIN[profile.speculates]
            if asked["speculation"] is None
            else asked["speculation"]
        ),
        habits=habits,
        total=total,
        active=active,
        layers=span("layers", asked),
        throughput_tokens_per_s=number("throughput", asked),
        power_w=number("max_power", asked),
        price_per_hour=number("max_price", asked),
        max_token_dollars=number("max_cost", asked),
        software=asked["software"],
        confidence_z=_confidence_z(asked),
        overrides=overrides,
    )
    _check_goes_together(found, asked)
    if asked["mapping"] is not None:
        found = found.with_(layout=_layout(found, asked["mapping"]))
    if asked["calibration"] is None:
        return found
    if not (path := os.fspath(asked["calibration"])):
        raise InputError("calibration: expected a file, found ''")
    return apply(found, read_calibration(path), path)


_USUAL_GAIN = {True: "1:3", False: "1"}
"""Tokens gained per pass where nothing is said, by whether the machine's software speculates."""


def _nodes(
    profile: Hardware, hardware: Machine, nodes: Span | None, observed: bool
) -> dict[str, Any]:
    """Fewest and most nodes of a question, and whether somebody said so."""
    known = nodes is not None
    if nodes is None:
        named = hardware.name if isinstance(hardware, Hardware) else hardware
        founding = named == FOUNDING["hardware"] and not observed
        known = founding or profile.alone
        nodes = FOUNDING["nodes"] if founding else nodes_unknown(profile)
    fewest, most = ASKS["nodes"].range("nodes", nodes)
    profile.check_nodes(int(most))
    return {"nodes": (int(fewest), int(most)), "nodes_known": known}


def family_rules(asked: Mapping[str, Any]) -> FamilyRules:
    """The rules by which models of the family follow from their totals."""
    with naming("attention"):
        attention_rule("gqa" if asked["attention"] is None else asked["attention"])
    rules = FamilyRules(attention=asked["attention"] or "gqa", tied=asked["tied"])
    return replace(rules, vocab_size=number("vocabulary", asked, rules.vocab_size))


SPEEDS = {"tokens_per_second": "a target", "observed": "a measurement", "observed_max": "a ceiling"}
"""Speeds of one user that a question may have, one of them."""


def _speed(tokens_per_second: Quantity | None, asked: Mapping[str, Any]) -> tuple[str, Quantity]:
    """The speed that was given, the founding target where none was, and which kind it is."""
    values = {**asked, "tokens_per_second": tokens_per_second}
    given = [(name, values[name]) for name in SPEEDS if values.get(name) is not None]
    if len(given) > 1:
        (first, _), (second, _) = given[1], given[0]
        raise InputError(
            f"{first}: {SPEEDS[first]}, and {second} {SPEEDS[second]}: expected one of them"
        )
    return given[0] if given else ("tokens_per_second", FOUNDING["tokens_per_second"])


def _check_goes_together(question: Question, asked: Mapping[str, Any]) -> None:
    """Refuse options that say nothing beside the others."""
    profile = question.hardware
    if question.power_w is not None and not profile.power_w > 0.0:
        raise InputError(f"max_power: {LACKS['power'].format(hardware=profile.name)}")
    priced = float(node_dollars_per_hour(profile, profile.power_w)) > 0.0
    limits = (question.price_per_hour, question.max_token_dollars)
    for name, limit in zip(("max_price", "max_cost"), limits, strict=True):
        if limit is not None and not priced:
            raise InputError(f"{name}: {LACKS['price'].format(hardware=profile.name)}")
    if question.observed and asked["prompt"] is not None:
        raise InputError("prompt: goes with a target, found an observed speed")
    if question.observed and question.confidence_z != 0.0:
        raise InputError(
            "confidence: goes with a target; an observed speed is held against the 90 % interval "
            f"of each model, found {asked['confidence']!r}"
        )
    if not question.observed and question.software is not None:
        raise InputError(
            "software: goes with an observed speed; a target is answered for the usual software "
            "first and then for each faster one"
        )


def _confidence_z(asked: Mapping[str, Any]) -> float:
    # Exactly the centre for one half, so that no uncertainty enters the default.
    certainty = number("confidence", asked)
    return 0.0 if certainty == 0.5 else NormalDist().inv_cdf(certainty)


def _layout(question: Question, mapping: Layout | str) -> Layout:
    """A forced mapping for whatever model comes out."""
    profile = question.hardware
    layout = mapping if isinstance(mapping, Layout) else read_layout(mapping, profile.spatial)
    if layout.whole_experts is not None:
        raise InputError("mapping: ep is for models that are known (predict, compare)")
    if layout.nodes > question.nodes[1]:
        raise InputError(
            f"mapping: {layout.text} takes {layout.nodes:,} {profile.node}s, found at most "
            f"{question.nodes[1]:,}"
        )
    return layout


def _known(question: Question, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the inference: what somebody said is known."""
    users = float(question.concurrency)
    return {
        "evidence": asked["evidence"],
        "law": "profile" if asked["speculation"] is None else None,
        "attention": None if asked["attention"] is None else (question.rules.attention,),
        "concurrency": None if asked["concurrency"] is None else (users, users),
    }


def _posterior(question: Question, asked: Mapping[str, Any]) -> Posterior:
    """The posterior, in which what nobody said is unknown."""
    return infer_from(question, seed=asked["seed"], **_known(question, asked))


def _compared(posterior: Posterior, model: str, speed: Quantity) -> Comparison:
    """Why the observed speed differs from that of a known model."""
    architecture, _ = read_model(model)
    weights = weight_format(architecture.weight_format).name
    observed = ASKS["observed"].number("compare", speed)
    return compare_with(posterior, architecture.shape(weights), observed, weights=weights)


def machine(
    hardware: Machine, changes: Mapping[str, Quantity] | Sequence[str] | None = None
) -> tuple[Hardware, tuple[str, ...]]:
    """A profile with figures set by hand, and the changes as they were understood.

    Args:
        hardware: a profile, its name or its path.
        changes: new figures by key, or texts "key=value".

    Raises:
        InputError: not of the form key=value, or a value that does not fit.
        UnknownNameError: no such profile or figure.
    """
    with naming("hardware"):
        profile = hardware if isinstance(hardware, Hardware) else Hardware.load(hardware)
    made: dict[str, Quantity] = {}
    for key, value in pairs("set", changes, "'link.latency=2 us'"):
        plain = key.removeprefix("constants.")
        if plain in made:
            raise InputError(f"set: {plain} is set twice, to {made[plain]!r} and to {value!r}")
        with naming("set"):
            profile = profile.with_value(plain, value)
        made[plain] = value
    return profile, tuple(f"{key} = {value}" for key, value in made.items())


def formats(weights: str | Sequence[str]) -> tuple[str, ...]:
    """Names of weight formats, each once, of one text with commas or of several."""
    with naming("weights"):
        return weight_formats(weights)


def _numbers(profile: Hardware, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Formats of weights and KV cache: where nobody says, those of the decoder that a machine was
    measured with, if it was."""
    usual, own = options_of("solve"), profile.decoder_formats
    said = {name: asked[name] for name in ("weights", "kv")}
    if own and all(said[n] == usual[n][1].default for n in said):
        return {"weights": own, "kv": own[0]}
    with naming("kv"):
        return {"weights": formats(said["weights"]), "kv": kv_format(said["kv"]).name}
