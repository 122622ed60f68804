"""`archinfer solve`: which models a node count and a speed allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from archinfer.cli.common import (
    DEFAULT_SPECULATION,
    NODES_MOST,
    Context,
    Format,
    FormatOption,
    KvFormat,
    MappingOption,
    SetFigures,
)
from archinfer.cli.pictures import PLOT_HELP, REPORT_HELP

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware
    from archinfer.inference.comparison import Comparison
    from archinfer.inference.posterior import Posterior
    from archinfer.solver.question import Question

__all__ = ["solve"]

FOUNDING_HARDWARE = "wse-3"
FOUNDING_NODES = "88"
FOUNDING_SPEED = "750"


def solve(
    hardware: Annotated[
        str, typer.Option(help="Profile: a name (archinfer hardware list) or a YAML file.")
    ] = FOUNDING_HARDWARE,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="Nodes that are there, as 88 or 70:100. Default: 88 for a target on wse-3, "
            "else unknown: 1 to 128, or to as many as have the memory of 88 wafers."
        ),
    ] = None,
    tokens_per_second: Annotated[
        str | None, typer.Option(help="Target: at least this speed for one user. Default: 750.")
    ] = None,
    observed: Annotated[
        str | None,
        typer.Option(help="Observed speed of one user: too slow and too fast are both evidence."),
    ] = None,
    mapping: MappingOption = None,
    context: Context = "8k",
    concurrency: Annotated[
        str | None,
        typer.Option(help="Users served at once. Default: 1 (the posterior: unknown, 1 to 32)."),
    ] = None,
    weights: Annotated[
        str, typer.Option(help="Weight formats to consider, comma-separated.")
    ] = "bf16,fp8,nvfp4",
    kv: KvFormat = "bf16",
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
        str | None,
        typer.Option(
            help="Accepted tokens a pass, as 1 (none) or 1:3. Default: 1:3 (the posterior: the "
            "profile's fitted law, where it has one)."
        ),
    ] = None,
    software: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --observed: the software that made the speed, usual or one that archinfer "
            "hardware show lists. Default: unknown, each as likely as another.",
        ),
    ] = None,
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
    set_: SetFigures = None,
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
            help="Write each architecture as DIR/NAME/config.json, which predict reads; DIR is "
            "made where it is missing. Files that solve did not write are never replaced.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the time of one token by term.")
    ] = False,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help=PLOT_HELP)] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE", help=REPORT_HELP)] = None,
    output: FormatOption = Format.table,
) -> None:
    """Print the architectures that a node count and a speed allow, and what bounds them.

    With no options: 750 tokens/s for one user on 88 WSE-3 wafers.
    """
    from dataclasses import replace

    from archinfer.cli.common import (
        hardware_with,
        print_csv,
        print_json,
        uneven_groups,
        warn,
    )
    from archinfer.cli.pictures import check_targets, write_files
    from archinfer.errors import InputError
    from archinfer.solver.answer import answer
    from archinfer.solver.question import nodes_unknown

    check_targets(plot, report)
    if emit is not None:
        from archinfer.report.files import check_folder

        check_folder("--emit", emit)
    if observed is not None and tokens_per_second is not None:
        raise InputError("--tokens-per-second is a target and --observed a measurement: give one")
    if physics_only and sparsity is not None:
        raise InputError("--sparsity is a habit of design: it does not go with --physics-only")
    profile, overrides = hardware_with(hardware, set_ or [])
    known = nodes is not None
    if nodes is None:
        known = hardware == FOUNDING_HARDWARE and observed is None
        low, high = nodes_unknown(profile)
        nodes = FOUNDING_NODES if known else f"{low}:{high}"
    target = None if observed is not None else _given(tokens_per_second, FOUNDING_SPEED)
    question = _question(
        profile,
        nodes,
        mapping,
        tokens_per_second=target,
        observed=observed,
        context=context,
        concurrency=_given(concurrency, "1"),
        weights=weights,
        kv=kv,
        attention=_given(attention, "gqa"),
        layers=layers,
        total=total,
        active=active,
        speculation=_given(speculation, DEFAULT_SPECULATION),
        sparsity=sparsity,
        physics_only=physics_only,
        throughput=throughput,
        max_power=max_power,
        max_price=max_price,
        confidence=confidence,
        software=software,
    ).with_(overrides=overrides, nodes_known=known)
    if calibration is not None:
        if not calibration:
            raise InputError("--calibration: expected a file, found ''")
        from archinfer.calibration.transfer import apply, read_calibration

        question = apply(question, read_calibration(calibration), calibration)
    if compare and not question.observed:
        raise InputError("--compare explains an observed speed: it goes with --observed")
    found = answer(question, architectures)
    placed = [(d.architecture, float(d.mapping.tensor_parallel)) for d in found.architectures]
    # Where the tool chose the group, it may choose the heads to go with it.
    for message in uneven_groups(placed) if mapping is not None else ():
        warn(message)
    deepest = found.ranges["layers"].high.value if found.feasible else 0.0
    if question.layout is not None and found.feasible and deepest < question.layout.stages:
        warn(
            f"{question.layout.text} has more stages than the {deepest:.0f} layers of the deepest "
            "model that fits: the rest stays empty"
        )
    if emit is not None:
        from archinfer.solver.emit import emit as write

        for path in write(found.architectures, question, emit):
            typer.echo(f"wrote {path}", err=True)
    if question.observed:
        from archinfer.inference.infer import infer

        users = float(question.concurrency)
        posterior = infer(
            question,
            seed=seed,
            law="profile" if speculation is None else None,
            attention=None if attention is None else (question.rules.attention,),
            concurrency=None if concurrency is None else (users, users),
        )
        compared = tuple(_compared(posterior, text) for text in compare or [])
        found = replace(found, posterior=posterior, comparisons=compared)
    if plot is not None or report is not None:
        from archinfer.report.pictures import solve_chart
        from archinfer.report.solve_page import solve_page

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


def _given(text: str | None, default: str) -> str:
    """An option's text; an empty one is no default."""
    return default if text is None else text


def _question(hardware: Hardware, nodes: str, mapping: str | None, **asked: Any) -> Question:
    """The question that the options ask; messages name options instead of arguments."""
    from archinfer import api
    from archinfer.cli.common import read_mapping, read_whole_range
    from archinfer.errors import InputError

    known_nodes = read_whole_range("--nodes", nodes, NODES_MOST)
    try:
        question = api.question(hardware, known_nodes, **asked)
    except InputError as error:
        key, colon, rest = str(error).partition(":")
        if not colon or key not in asked:
            raise
        raise InputError(f"--{key.replace('_', '-')}:{rest}") from None
    if mapping is None:
        return question
    layout = read_mapping(mapping, hardware.spatial)
    if layout.whole_experts is not None:
        raise InputError("--mapping: ep is for models that are known (predict, compare)")
    if layout.nodes > known_nodes[1]:
        raise InputError(
            f"--mapping: {layout.text} takes {layout.nodes:,} {hardware.node}s, found at most "
            f"{known_nodes[1]:,}"
        )
    return question.with_(layout=layout)


def _compared(posterior: Posterior, text: str) -> Comparison:
    """The comparison that MODEL=SPEED asks for."""
    from archinfer.api import read_speed
    from archinfer.cli.models import read_model
    from archinfer.errors import InputError
    from archinfer.inference.comparison import compare_with
    from archinfer.models.formats import weight_format

    name, equals, speed = text.rpartition("=")
    if not equals:
        raise InputError(f"--compare: expected MODEL=SPEED as gpt-oss-120b=3000, found {text!r}")
    architecture, _ = read_model(name.strip())
    weights = weight_format(architecture.weight_format).name
    return compare_with(
        posterior,
        architecture.shape(weights),
        read_speed("--compare", speed),
        weights=weights,
    )
