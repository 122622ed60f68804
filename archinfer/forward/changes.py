"""What would help a prediction: one change of deployment or hardware at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from archinfer.forward.prediction import Change, Prediction
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.formats import weight_format
from archinfer.models.shape import ModelShape
from archinfer.phrases import CHANGES
from archinfer.physics.deployment import Deployment
from archinfer.words import counted

MORE_NODES = 2
"""How many times the nodes a faster mapping is looked for on."""

DRAFTED, ACCEPTED = 2, 2.0
"""The speculation among the changes: two drafted tokens, two gained a pass. DeepSeek-R1 on eight
B200 gained 2.58 with two drafted (TensorRT-LLM's published figures), so this is a careful one."""


def _possible(name: str, hardware: Hardware) -> bool:
    """Whether a change can be made: one machine has no second, a decoder whose products are all in
    32 bits no narrow formats, one that was measured without speculation none."""
    if name.endswith("nodes"):
        return not hardware.alone
    if name == "kv":
        return bool(hardware.narrow_formats)
    return hardware.speculates or name != "speculation"


def _trials(
    model: Architecture | ModelShape, now: Prediction
) -> Iterator[tuple[str, str, Hardware, Deployment, float]]:
    """Changes worth trying: name, words, hardware, deployment, tokens gained a pass."""
    hardware = now.hardware
    deployment = now.deployment.with_(nodes=int(now.nodes), draft_tokens=0, weights=now.weights)
    free = deployment.with_(mapping=None, layout=None)
    used = int(now.nodes_used)

    def with_figure(key: str, factor: float, attribute: str) -> Hardware:
        return hardware.with_constants({key: factor * getattr(hardware, attribute)})

    nodes = int(now.nodes)
    more = [nodes + 1, MORE_NODES * nodes]
    if now.min_nodes > nodes and np.isfinite(now.min_nodes):
        more = [int(now.min_nodes), MORE_NODES * int(now.min_nodes)]
    for count in dict.fromkeys(more):
        yield f"{count} nodes", "", hardware, free.with_(nodes=count), 1.0
    for name in hardware.narrow_formats:
        if weight_format(name).bits < 0.95 * weight_format(now.weights).bits:
            text = CHANGES["weights"].format(weights=name)
            yield name, text, hardware, deployment.with_(weights=name), 1.0
    context = deployment.context_tokens
    if float(now.memory.kv) > 0.0 and context > 1:
        text = CHANGES["context"].format(tokens=context // 2)
        yield "context", text, hardware, deployment.with_(context_tokens=context // 2), 1.0
        if deployment.kv_bits > 8.0:
            cache = (*hardware.narrow_formats, "fp8")[0]
            text = CHANGES["kv"].format(kv=cache)
            yield "kv", text, hardware, deployment.with_(kv=cache), 1.0
    users = deployment.concurrency
    if users > 1:
        text = CHANGES["users"].format(users=users // 2)
        yield "users", text, hardware, deployment.with_(concurrency=users // 2), 1.0
    if used > 1:
        changed = with_figure("link.latency", 0.5, "link_latency_s")
        text = CHANGES["link latency"].format(node=hardware.node)
        yield "link latency", text, changed, deployment, 1.0
    if hardware.spatial:
        changed = with_figure("compute.clock", 1.1, "clock_hz")
        yield "clock", CHANGES["clock"], changed, deployment, 1.0
        changed = with_figure("cycles_per_weight", 0.5, "cycles_per_weight")
        yield "cycles per weight", CHANGES["cycles per weight"], changed, deployment, 1.0
    else:
        changed = with_figure("memory.bandwidth", 1.1, "bandwidth_bytes_per_s")
        yield "bandwidth", CHANGES["bandwidth"], changed, deployment, 1.0
    changed = with_figure("reductions_per_layer", 0.8, "reductions_per_layer")
    yield "reductions", CHANGES["reductions"], changed, deployment, 1.0
    changed = with_figure("fixed_time_per_layer", 0.5, "fixed_time_per_layer_s")
    yield "fixed time", CHANGES["fixed time"], changed, deployment, 1.0
    text = CHANGES["speculation"].format(gained=ACCEPTED, drafted=DRAFTED)
    drafting = deployment.with_(draft_tokens=DRAFTED, accepted_low=ACCEPTED, accepted_high=ACCEPTED)
    yield "speculation", text, hardware, drafting, ACCEPTED


Evaluate: TypeAlias = Callable[[Architecture | ModelShape, Hardware, Deployment], Prediction]


def what_would_help(
    model: Architecture | ModelShape, now: Prediction, evaluate: Evaluate
) -> tuple[Change, ...]:
    """Each change alone, by its gain over `now` without speculation, the best first.

    A mapping that was asked for stays, but on more nodes; else it is chosen anew each time. Where
    the model does not fit, the changes after which it does come first.

    Args:
        model: what `now` predicts.
        now: a prediction of one model.
        evaluate: predicts it after a change.
    """
    before = 1.0 / float(now.plain_time.total) if now.fits else np.nan
    found: list[Change] = []
    for name, text, hardware, deployment, gained in _trials(model, now):
        if not _possible(name, now.hardware):
            continue
        then = evaluate(model, hardware, deployment)
        used = int(then.nodes_used)
        speed = gained / float(then.time.total) if then.fits else np.nan
        if not text:
            if used == int(now.nodes_used):
                continue
            name = "nodes"
            held, group = then.mapping.layers_per_stage, then.mapping.tensor_parallel
            text = CHANGES["nodes" if then.hardware.spatial else "node groups"].format(
                nodes=f"{used:,} {hardware.node}s",
                layers=counted(float(held), "layer"),
                group=group,
                kind="data" if then.mapping.data_parallel else "tensor",
            )
        change = Change(
            name, text, float(speed), float(speed / before - 1.0), bool(then.fits), used
        )
        if change.text not in {c.text for c in found}:
            found.append(change)

    def key(change: Change) -> tuple[bool, float]:
        value = change.gain if now.fits else change.tokens_per_s
        return (not change.fits, -value if np.isfinite(value) else np.inf)

    return tuple(sorted(found, key=key))
