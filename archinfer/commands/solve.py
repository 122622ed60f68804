"""`archinfer solve`: which models a node count and a speed allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from archinfer.commands.common import Format
from archinfer.commands.pictures import PLOT_HELP, REPORT_HELP

if TYPE_CHECKING:
    from archinfer.comparison import Comparison
    from archinfer.inference import Posterior
    from archinfer.question import Question

__all__ = ["solve"]

FOUNDING_HARDWARE = "wse-3"
FOUNDING_NODES = "88"
FOUNDING_SPEED = "750"
UNKNOWN_NODES = "1:128"
NODES_MOST = 100_000


def solve(
    hardware: Annotated[
        str, typer.Option(help="Profile: a name (archinfer hardware list) or a YAML file.")
    ] = FOUNDING_HARDWARE,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="Nodes that are there, as 88 or 70:100. Default: 88 for a target on wse-3, "
            f"else unknown ({UNKNOWN_NODES})."
        ),
    ] = None,
    tokens_per_second: Annotated[
        str | None, typer.Option(help="Target: at least this speed for one user. Default: 750.")
    ] = None,
    observed: Annotated[
        str | None,
        typer.Option(help="Observed speed of one user: too slow and too fast are both evidence."),
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            help="Nodes that share a layer and pipeline stages, as tp=8,pp=2. Default: the "
            "fastest that fits."
        ),
    ] = None,
    context: Annotated[str, typer.Option(help="Tokens of context (128k = 128,000).")] = "8k",
    concurrency: Annotated[
        str | None,
        typer.Option(help="Users served at once. Default: 1 (the posterior: unknown, 1 to 32)."),
    ] = None,
    weights: Annotated[
        str, typer.Option(help="Weight formats to consider, comma-separated.")
    ] = "bf16,fp8,nvfp4",
    kv: Annotated[str, typer.Option(help="KV-cache format.")] = "bf16",
    attention: Annotated[
        str | None,
        typer.Option(
            help="Attention of the family: gqa, mqa, mla. Default: gqa (the posterior: unknown)."
        ),
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Known layers, as 61 or 60:90.")] = None,
    total: Annotated[
        str | None, typer.Option(help="Known total parameters, as 2T:4T or 0.9T:.")
    ] = None,
    active: Annotated[str | None, typer.Option(help="Known active parameters, as 150B.")] = None,
    speculation: Annotated[
        str, typer.Option(help="Accepted tokens a pass, as 1 (none) or 1:3.")
    ] = "1:3",
    sparsity: Annotated[
        str | None, typer.Option(help="Total / active as a habit of design. Default: 1:32.")
    ] = None,
    physics_only: Annotated[
        bool, typer.Option("--physics-only", help="Leave out habits of design.")
    ] = False,
    throughput: Annotated[
        str | None, typer.Option(help="Tokens/s over all users that must be reached.")
    ] = None,
    max_power: Annotated[str | None, typer.Option(help="Most power, as 2 MW.")] = None,
    max_price: Annotated[
        str | None, typer.Option(help="Most dollars per hour for the nodes in use.")
    ] = None,
    confidence: Annotated[
        str, typer.Option(help="Probability with which a target must hold.")
    ] = "50 %",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a figure of the profile, as link.latency='2 us'.",
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Profile of archinfer calibrate --save: what it measured without a unit of time "
            "(routing, chain of reductions, model error) is used here.",
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL=SPEED",
            help="With --observed: why the speed differs from that of a known model on the same "
            "hardware, as gpt-oss-120b=3000.",
        ),
    ] = None,
    architectures: Annotated[
        int, typer.Option(min=0, max=100, help="Concrete architectures to print.")
    ] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the posterior's draws.")] = 0,
    emit: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write each architecture as DIR/NAME/config.json, which predict reads. Files "
            "that solve did not write are never replaced.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the time of one token by term.")
    ] = False,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help=PLOT_HELP)] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE", help=REPORT_HELP)] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """Print the architectures that a node count and a speed allow, and what bounds them.

    With no options: 750 tokens/s for one user on 88 WSE-3 wafers.
    """
    from archinfer.answer import answer
    from archinfer.commands.common import hardware_with, print_csv, print_json, read_count
    from archinfer.commands.pictures import check_targets, write_files
    from archinfer.errors import InputError

    check_targets(plot, report)
    if observed is not None and tokens_per_second is not None:
        raise InputError("--tokens-per-second is a target and --observed a measurement: give one")
    if nodes is None:
        founding = hardware == FOUNDING_HARDWARE and observed is None
        nodes = FOUNDING_NODES if founding else UNKNOWN_NODES
    option = "--observed" if observed is not None else "--tokens-per-second"
    speed = read_count(option, observed or tokens_per_second or FOUNDING_SPEED, "tokens_per_s")
    profile, overrides = hardware_with(hardware, set_ or [])
    question = _question(
        hardware=profile,
        overrides=overrides,
        nodes=nodes,
        tokens_per_s=speed,
        observed=observed is not None,
        mapping=mapping,
        context=context,
        concurrency=concurrency or "1",
        weights=weights,
        kv=kv,
        attention=attention or "gqa",
        layers=layers,
        total=total,
        active=active,
        speculation=speculation,
        sparsity=sparsity,
        physics_only=physics_only,
        throughput=throughput,
        max_power=max_power,
        max_price=max_price,
        confidence=confidence,
    )
    if calibration is not None:
        from archinfer.calibration_transfer import apply, read_calibration

        question = apply(question, read_calibration(calibration), calibration)
    if compare and not question.observed:
        raise InputError("--compare explains an observed speed: it goes with --observed")
    found = answer(question, architectures)
    if emit is not None:
        from archinfer.emit import emit as write

        for path in write(found.architectures, question, emit):
            typer.echo(f"wrote {path}", err=True)
    if question.observed:
        from dataclasses import replace

        from archinfer.inference import infer

        users = float(question.concurrency)
        posterior = infer(
            question,
            seed=seed,
            attention=None if attention is None else (question.rules.attention,),
            concurrency=None if concurrency is None else (users, users),
        )
        compared = tuple(_compared(posterior, text) for text in compare or [])
        found = replace(found, posterior=posterior, comparisons=compared)
    if plot is not None or report is not None:
        from archinfer.report.html import solve_page
        from archinfer.report.pictures import solve_chart

        chart = (lambda: solve_chart(found)) if found.feasible else None
        write_files(plot, report, chart, lambda command: solve_page(found, command))
    if output is Format.json:
        print_json(found.to_dict())
    elif output is Format.csv:
        from archinfer.report.solve import architecture_rows

        print_csv(*architecture_rows(found.architectures))
    elif output is Format.markdown:
        from archinfer.report.solve import print_answer_markdown

        print_answer_markdown(found)
    else:
        from archinfer.report.solve import print_answer

        print_answer(found, explain)


def _question(
    *,
    hardware: object,
    overrides: tuple[str, ...],
    nodes: str,
    tokens_per_s: float,
    observed: bool,
    mapping: str | None,
    context: str,
    concurrency: str,
    weights: str,
    kv: str,
    attention: str,
    layers: str | None,
    total: str | None,
    active: str | None,
    speculation: str,
    sparsity: str | None,
    physics_only: bool,
    throughput: str | None,
    max_power: str | None,
    max_price: str | None,
    confidence: str,
) -> Question:
    """The question that the options ask; every text is read here."""
    from archinfer.commands.common import read_count, read_range, read_whole_range
    from archinfer.deployment import read_layout
    from archinfer.errors import InputError
    from archinfer.family import FamilyRules
    from archinfer.formats import weight_format
    from archinfer.hardware import Hardware
    from archinfer.question import Habits, Question

    assert isinstance(hardware, Hardware)
    habits = None if physics_only else Habits()
    if sparsity is not None:
        if habits is None:
            raise InputError("--sparsity is a habit of design: it does not go with --physics-only")
        habits = Habits(sparsity=read_range("--sparsity", sparsity))
    certainty = read_count("--confidence", confidence, "ratio")
    if not 0.01 <= certainty <= 0.99:
        raise InputError(f"--confidence: expected between 1 % and 99 %, found {confidence!r}")
    power = None if max_power is None else read_count("--max-power", max_power, "watts")
    if power is not None and not hardware.power_w > 0.0:
        raise InputError(f"--max-power: the profile {hardware.name} states no power")
    price = None if max_price is None else read_count("--max-price", max_price, "dollars_per_hour")
    if price is not None and not hardware.price_dollars_per_hour > 0.0:
        raise InputError(
            f"--max-price: the profile {hardware.name} states no price per hour "
            "(--set price.rent='30 USD/h' gives one)"
        )
    names = [w.strip() for w in weights.split(",") if w.strip()]
    layout = None if mapping is None else read_layout(mapping, hardware.spatial)
    if layout is not None and layout.whole_experts is not None:
        raise InputError("--mapping: ep is for models that are known (predict, compare)")
    known_nodes = read_whole_range("--nodes", nodes, NODES_MOST)
    if layout is not None and layout.nodes > known_nodes[1]:
        raise InputError(
            f"--mapping: {layout.text} takes {layout.nodes:,} {hardware.node}s, found at most "
            f"{known_nodes[1]:,}"
        )
    return Question(
        hardware=hardware,
        overrides=overrides,
        nodes=known_nodes,
        tokens_per_s=tokens_per_s,
        observed=observed,
        layout=layout,
        context_tokens=_whole("--context", context, "tokens"),
        concurrency=_whole("--concurrency", concurrency, "count"),
        weights=tuple(dict.fromkeys(weight_format(w).name for w in names)),
        kv=kv,
        rules=FamilyRules(attention=attention),
        speculation=read_range("--speculation", speculation, "number"),
        habits=habits,
        total=read_range("--total", total),
        active=read_range("--active", active),
        layers=read_range("--layers", layers),
        throughput_tokens_per_s=None
        if throughput is None
        else read_count("--throughput", throughput, "tokens_per_s"),
        power_w=power,
        price_per_hour=price,
        confidence_z=_normal_quantile(certainty),
    )


def _compared(posterior: Posterior, text: str) -> Comparison:
    """The comparison that MODEL=SPEED asks for."""
    from archinfer.commands.common import read_count
    from archinfer.commands.models import read_model
    from archinfer.comparison import compare_with
    from archinfer.errors import InputError
    from archinfer.formats import weight_format

    name, equals, speed = text.rpartition("=")
    if not equals:
        raise InputError(f"--compare: expected MODEL=SPEED as gpt-oss-120b=3000, found {text!r}")
    architecture, _ = read_model(name.strip())
    weights = weight_format(architecture.weight_format).name
    return compare_with(
        posterior,
        architecture.shape(weights),
        read_count("--compare", speed, "tokens_per_s"),
        weights=weights,
    )


def _whole(option: str, text: str, dimension: str) -> int:
    from archinfer.commands.common import read_count
    from archinfer.errors import InputError

    value = read_count(option, text, dimension)
    if value != int(value) or value < 1:
        raise InputError(f"{option}: expected a whole number of at least 1, found {text!r}")
    return int(value)


def _normal_quantile(probability: float) -> float:
    from statistics import NormalDist

    # Exactly the centre for one half, so that no uncertainty enters the default.
    return 0.0 if probability == 0.5 else NormalDist().inv_cdf(probability)
