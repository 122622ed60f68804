"""`archinfer compare`: known models on several machines, and how fast each machine could go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from archinfer.cli.common import (
    NODES_MOST,
    Concurrency,
    Context,
    Format,
    FormatOption,
    KvFormat,
    MappingOption,
    ModelWeights,
    read_whole,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archinfer.models.architecture import Architecture
    from archinfer.models.shape import ModelShape

__all__ = ["compare"]


def compare(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Names (archinfer models list) or config.json files; none with --total.",
            show_default=False,
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            help="Profiles, comma-separated: names or YAML files. Default: all that are shipped."
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="Nodes that are there: one number, or one for each profile, comma-separated. "
            "Default: the fewest that hold the model."
        ),
    ] = None,
    total: Annotated[
        str | None, typer.Option(help="Total parameters of a model without a config, as 3T.")
    ] = None,
    active: Annotated[
        str | None, typer.Option(help="Its active parameters, as 150B. Default: all (dense).")
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Its layers, as 88.")] = None,
    attention: Annotated[str, typer.Option(help="Its attention: gqa, mqa, mla.")] = "gqa",
    mapping: MappingOption = None,
    context: Context = "8k",
    concurrency: Concurrency = "1",
    weights: ModelWeights = None,
    kv: KvFormat = "bf16",
    speculation: Annotated[
        str, typer.Option(help="Accepted tokens a pass, as 1 (none) or 1:3.")
    ] = "1",
    output: FormatOption = Format.table,
) -> None:
    """Compare hardware: speed for one user, nodes, what binds, power, and the speed ceiling.

    The ceiling is the fastest that any number of such nodes could go, and the term of a token's
    time that sets it. A model known only by its totals: --total 3T --active 150B --layers 88.

    JSON: question{context_tokens, concurrency, kv, speculation[low, high]}, results[] of every
    model on every profile: model, hardware, node, weights, fits, nodes (in use), min_nodes
    (null: no number is enough), mapping{tensor_parallel, stages, layers_per_stage},
    tokens_per_s{p05, p50, p95} (null where it does not fit), bottleneck, bandwidth_tokens_per_s
    (what reading at the peak bandwidth of the nodes that share a layer would allow), power_w
    (null where unknown), memory_bytes, memory_fraction (of the fullest node), usual_software
    (whose speeds the profile describes), overlaps[] (hardware whose interval overlaps: the order
    is not known), ceiling (null where no number of nodes holds it){tokens_per_s{p05, p50, p95},
    nodes, mapping{...}, bottleneck, latency_share (the part of the time that no bandwidth
    shortens), power_w}.
    """
    from archinfer.cli.common import (
        read_mapping,
        read_speculation,
        uneven_groups,
        unfilled_stages,
    )
    from archinfer.cli.output import Answer, show, warn
    from archinfer.forward.compare import compare_hardware
    from archinfer.hardware.profile import Hardware
    from archinfer.models.architecture import Architecture
    from archinfer.models.formats import kv_format, weight_format
    from archinfer.physics.deployment import Deployment
    from archinfer.report import compare as report

    low, high = read_speculation(speculation)
    names = [h.strip() for h in hardware.split(",")] if hardware is not None else Hardware.names()
    machines = [Hardware.load(name) for name in dict.fromkeys(names)]
    counts = _nodes(nodes, len(machines))
    deployments = [
        Deployment(
            nodes=count,
            context_tokens=read_whole("--context", context, "tokens"),
            concurrency=read_whole("--concurrency", concurrency, "whole"),
            weights=None if weights is None else weight_format(weights).name,
            kv=kv_format(kv).name,
            accepted_low=low,
            accepted_high=high,
            layout=None if mapping is None else read_mapping(mapping, machine.spatial),
        )
        for machine, count in zip(machines, counts, strict=True)
    ]
    wanted = _models(models, total, active, layers, attention)
    for name, model in wanted:
        for warning in getattr(model, "warnings", ()):
            warn(f"{name}: {warning}")
    entries = compare_hardware(wanted, machines, deployments)
    known = dict(wanted)
    for entry in entries:
        model = known[entry.model]
        if isinstance(model, Architecture):
            group = float(entry.prediction.mapping.tensor_parallel)
            for message in uneven_groups([(model, group)]):
                warn(f"{entry.model} on {entry.hardware.name}: {message}")
        for message in unfilled_stages(entry.prediction):
            warn(f"{entry.model} on {entry.hardware.name}: {message}")
    answer = Answer(
        lambda: report.document(entries),
        lambda: report.record(entries),
        lambda: report.csv_rows(entries),
    )
    show(answer, output)


def _nodes(text: str | None, machines: int) -> Sequence[int | None]:
    from archinfer.errors import InputError

    if text is None:
        return [None] * machines
    counts = [read_whole("--nodes", part, "whole", NODES_MOST) for part in text.split(",")]
    if len(counts) not in (1, machines):
        raise InputError(
            f"--nodes: expected one number or one for each of {machines} profiles, found {text!r}"
        )
    return counts * (machines if len(counts) == 1 else 1)


def _models(
    models: list[str] | None,
    total: str | None,
    active: str | None,
    layers: str | None,
    attention: str,
) -> list[tuple[str, Architecture | ModelShape]]:
    from archinfer.cli.common import read_totals
    from archinfer.errors import InputError
    from archinfer.models.family import FamilyRules, family_shape
    from archinfer.models.named import read_model
    from archinfer.words import compact

    if not models:
        if total is None or layers is None:
            raise InputError("name a model (archinfer models list), or give --total and --layers")
        size, used = read_totals(total, active)
        depth = read_whole("--layers", layers, "whole", 10_000)
        rules = FamilyRules(attention=attention)
        shape = family_shape(size, used, float(depth), rules, dense=used == size)
        return [(f"{compact(size)} total, {compact(used)} active", shape)]
    if total is not None or active is not None or layers is not None:
        raise InputError("--total, --active and --layers describe a model without a config: "
                         "give them, or models by name or file, not both")  # fmt: skip
    found: list[tuple[str, Architecture | ModelShape]] = []
    for name in models:
        architecture, _ = read_model(name)
        found.append((architecture.name, architecture))
    return found
