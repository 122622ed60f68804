"""One model's prediction in full: what was assumed of it, speed, nodes, memory, what would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from archinfer.forward.depths import DepthRange
from archinfer.forward.prediction import Change, Copies, Prediction
from archinfer.hardware.figures import USUAL_SOFTWARE
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.catalogue import Entry
from archinfer.models.solver_family import USUAL_VOCABULARY, FamilyRules
from archinfer.phrases import ATTENTION, TERM_TEXTS
from archinfer.physics.deployment import Deployment
from archinfer.report import document as doc
from archinfer.words import change, compact, counted, gain, percent, seconds, size, span, speeds

FULL = 0.95
"""Share of the usable memory from which a node is said to be full."""

FEW = 4
"""Most machines that are told of one by one."""

CHANGES_SHOWN = 5
DEPTHS_SHOWN = 7


@dataclass(frozen=True)
class Row:
    """One model's prediction with what to say about the model."""

    name: str
    """As the user knows it."""
    result: Prediction
    """Of the middle depth where layers are a range."""
    depths: DepthRange | None = None
    """All depths, None where the layers are known."""
    architecture: Architecture | None = None
    """None where only totals are known."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def speed(self) -> tuple[float, float, float]:
        """Tokens/s with speculation."""
        low, middle, high = (self.depths or self.result).speed
        return float(low), float(middle), float(high)

    @property
    def plain_speed(self) -> tuple[float, float, float]:
        """Tokens/s without speculation."""
        low, middle, high = (self.depths or self.result).plain_speed
        return float(low), float(middle), float(high)

    @property
    def record(self) -> Prediction:
        """The prediction with its notes, over all depths."""
        found = self.result if self.depths is None else self.depths.prediction
        return replace(found, model=self.name, notes=self.notes)


def warnings(architecture: Architecture, asked: Deployment) -> Iterator[str]:
    """What a reader of a config had to assume, and a context that the model is not made for."""
    yield from architecture.warnings
    longest = architecture.max_context_tokens
    if longest is not None and asked.context_tokens > longest:
        yield (
            f"a context of {asked.context_tokens:,} tokens is longer than the {longest:,} it is "
            "made for"
        )


def config_notes(architecture: Architecture, record: Entry | None) -> Iterator[str]:
    """What the count of a config leaves out, and what was announced of the model."""
    draft_layers = architecture.mtp_layers
    for note in architecture.notes:
        if not draft_layers or "multi-token-prediction" not in note:
            yield note
    if draft_layers:
        total = architecture.parameters().total
        yield (
            f"{total / 1e9:,.1f}B leave out {draft_layers} multi-token-prediction layer(s), which "
            "a decode pass does not run; about "
            f"{(total + architecture.mtp_parameters()) / 1e9:,.1f}B with them"
        )
    if record is not None:
        why = record.difference(architecture)
        active = f", {record.announced_active} active" if record.announced_active else ""
        announced = f"announced: {record.announced_total or 'no figure'}{active}"
        yield f"{announced}; {why}" if why else announced


def family_text(rules: FamilyRules) -> str:
    """What the rules say of attention, and of the tables where that is not the usual."""
    words = [ATTENTION[rules.attention]]
    if rules.vocab_size != USUAL_VOCABULARY:
        words.append(f"a vocabulary of {rules.vocab_size:,.0f}")
    return ", ".join([*words, "tied embeddings"] if rules.tied else words)


def totals_notes(rules: str, asked: Deployment, given: bool | None) -> Iterator[str]:
    """What was assumed of a model known by its totals; `given`: whether --layers was the range."""
    yield f"no config: hidden size and experts by the rules of the family, {rules}"
    if given is not None:
        origin = "--layers" if given else "habits of design (--layers narrows them)"
        yield f"layers from {origin}"
    if not asked.weights:
        yield "weights taken as bf16 (--weights sets the format)"


def about(row: Row) -> str:
    """The model in one paragraph."""
    p = row.result
    shape = p.shape
    parts = [
        f"{compact(float(shape.total_params), 4)} parameters, "
        f"{compact(float(shape.active_params), 4)} active",
        f"{layers_text(row)} layers",
    ]
    weights = f"weights in {p.weights}"
    if row.architecture is not None:
        parts.append(f"hidden size {shape.hidden_size:.0f}")
        moe = row.architecture.moe
        if moe is not None:
            parts.append(f"{moe.top_k} of {moe.experts} experts")
        kinds = row.architecture.attention_kinds
        total = sum(kinds.values())
        parts += [k if n == total else f"{n} x {k}" for k, n in kinds.items()]
        whose = "the model's own" if p.deployment.weights is None else "as asked"
        if p.weights in p.hardware.decoder_formats:
            whose = "of the decoder that was measured"
        weights += f" ({whose})"
    return "; ".join([*parts, weights]) + "."


def layers_text(row: Row) -> str:
    """The layers, or both ends of their range."""
    if row.depths is None:
        return f"{row.result.shape.layers:.0f}"
    low, high = row.depths.layers
    return f"{low:.0f} to {high:.0f}"


def full(row: Row, where: doc.Where) -> Iterator[doc.Block]:
    """One of several models in full."""
    yield doc.Paragraph(about(row), where=where)
    yield from answers(row, where)
    yield from changes(row.result, where)
    yield from notes(row, where)


def _first_token(p: Prediction) -> Iterator[tuple[str, str]]:
    """Time to the first token, alone and under load, and how fast prompts are read."""
    first = p.first_token
    if first is None:
        return
    low, middle, high = (seconds(v) for v in first.alone_s)
    said = f"{low} < {middle} < {high} for a prompt of {first.prompt_tokens:,} tokens"
    yield "time to first token", said
    if p.deployment.concurrency > 1:
        low, middle, high = (seconds(v) for v in first.under_load_s)
        yield "the same under load", f"{low} < {middle} < {high}"
    yield "prompt tokens/s", speeds(*first.prompt_tokens_per_s)


def answers(row: Row, where: doc.Where) -> Iterator[doc.Block]:
    """Speed, layout, nodes and memory; what stops a model that does not fit."""
    p = row.result
    if not p.fits:
        yield doc.Paragraph(f"Does not fit: {p.limit}.", "strong", where)
    else:
        asked = p.deployment
        found = []
        if asked.law is not None:
            found.append(("tokens/s, speculation by its law", speeds(*row.speed)))
        elif asked.accepted_high > 1.0:
            gained = span(*asked.speculation)
            found.append((f"tokens/s, {gained} accepted a pass", speeds(*row.speed)))
        found += [
            ("tokens/s without speculation", speeds(*row.plain_speed)),
            *_first_token(p),
            ("layout", _layout(p)),
            ("fewest nodes", _fewest(row)),
            ("limited by", f"{p.bottleneck} ({p.limit})"),
        ]
        yield doc.Table("One user, 5 % < 50 % < 95 %", ("", ""), found, "ww", where)
    yield doc.Paragraph(_memory(p), where=where)
    if p.sure_to_fit:
        yield doc.Paragraph(f"Note: {p.sure_to_fit}.", where=where)
    if p.fits:
        yield doc.Paragraph(_room(p), where=where)
    if p.copies is not None:
        yield doc.Paragraph(_copies(p, p.copies), where=where)
    if row.depths is not None:
        yield _by_depth(row.depths, where)
        too_full = [other for other in row.depths.predictions if not other.fits]
        if p.fits and too_full:
            last = too_full[-1]
            yield doc.Paragraph(
                f"With {counted(float(last.shape.layers), 'layer')}: {last.limit}.", where=where
            )


def decoding(hardware: Hardware, asked: Deployment) -> tuple[str, str]:
    """What is taken to be known of speculation and of software, in words."""
    text, law, software = gain(*asked.speculation), asked.law, ""
    if law is not None:
        text += f" in {percent(law.probability)} of its services (fitted law)"
    if len(asked.softwares) > 1:
        software = f"unknown: each of {len(asked.softwares)} as likely"
    elif hardware.software:
        software = asked.softwares[0].name if asked.softwares else USUAL_SOFTWARE
    return text, software


def assumed(
    served: Iterable[tuple[Hardware, Deployment]],
    last: str,
    about: Callable[[Hardware], str],
    where: doc.Where,
) -> doc.Table:
    """What the speeds of each machine rest on, and what else is told of it under `last`."""
    rows = {h.name: (h.name, *decoding(h, asked), about(h)) for h, asked in served}
    title = "Assumed (--speculation 1 --software usual: the same of every machine)"
    headings = ("hardware", "tokens a pass", "software", last)
    return doc.Table(title, headings, [*rows.values()], "lppp", where)


def usual(p: Prediction) -> str:
    """Whose pass a breakdown shows where several software are as likely."""
    return f" with {USUAL_SOFTWARE} software" if len(p.deployment.softwares) > 1 else ""


def _layout(p: Prediction) -> str:
    """Which nodes hold what."""
    node = p.hardware.node
    held = int(p.mapping.layers_per_stage)
    text = counted(int(p.nodes_used), node)
    if p.nodes_used < p.nodes:
        text += f" of {int(p.nodes):,} in use"
    if p.hardware.spatial:
        text += f", {counted(held, 'layer')} on the fullest"
        if p.fits and math.isfinite(float(p.time.side)):
            text += f", regions {float(p.time.side):.0f} cores wide"
        return text
    stages = int(p.mapping.stages(p.shape.layers))
    plural = "" if stages == 1 else "s"
    group = int(p.mapping.tensor_parallel)
    layout = p.mapping.text(p.shape.layers)
    return f"{text}, {stages} stage{plural} of {group} ({layout}), {held} layers each"


def _fewest(row: Row) -> str:
    """The fewest nodes that hold the model."""
    node = row.result.hardware.node
    low, high = row.depths.min_nodes if row.depths else (row.result.min_nodes,) * 2
    if not math.isfinite(float(low)):
        return f"no number of {node}s holds it"
    count = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    layout = ""
    if row.depths is None and row.result.hardware.spatial:
        held = math.ceil(float(row.result.shape.layers) / float(low))
        layout = f" ({counted(held, 'layer')} each)"
    return f"{count} {node}{'' if high == 1 else 's'}{layout}"


def _memory(p: Prediction) -> str:
    m = p.memory
    held = float(m.kv_held(p.mapping))
    copies = ""
    if held > 1.001 * float(m.kv):
        copies = f" (with the copies on the nodes that share a layer: {size(held)})"
    return (
        f"Memory: weights {size(float(m.weights))}, KV cache {size(float(m.kv))}{copies}, "
        f"buffers {size(float(m.other))}; {percent(float(p.memory_fraction))} of what "
        f"the fullest {p.hardware.node} has"
        f"{', so hardly anything is left' if FULL < p.memory_fraction <= 1.0 else ''}."
    )


def _room(p: Prediction) -> str:
    """What more the memory has room for."""
    found, asked = p.room, p.deployment
    longest = (
        "any context fits" if found.context_tokens is None
        else f"up to {counted(found.context_tokens, 'token')} of context fit"
    )  # fmt: skip
    return (
        f"Room: on {counted(int(p.nodes), p.hardware.node)} up to "
        f"{counted(found.users, 'user')} fit at {asked.context_tokens:,} tokens of context, and "
        f"{longest} for {counted(asked.concurrency, 'user')}."
    )


def _copies(p: Prediction, found: Copies) -> str:
    """What the nodes that are idle could do."""
    each = counted(found.users, "user")
    return (
        f"Faster: {found.copies:,} copies of the model, on {found.copies * int(p.nodes_used):,} "
        f"{p.hardware.node}s, with at most {each} each: {speeds(*found.tokens_per_s)} tokens/s a "
        "user (archinfer pareto tries all mappings and copies)."
    )


def _by_depth(depths: DepthRange, where: doc.Where) -> doc.Table:
    count = len(depths.predictions)
    few = min(count, DEPTHS_SHOWN)
    picked = sorted({round(i * (count - 1) / max(few - 1, 1)) for i in range(few)})
    rows = [
        (
            f"{p.shape.layers:.0f}",
            compact(float(p.shape.hidden_size)),
            f"{p.nodes_used:.0f}",
            least(p),
            speeds(*(float(v) for v in p.speed)) if p.fits else "does not fit",
            f"{p.plain_speed[1]:,.0f}" if p.fits else "-",
            p.bottleneck,
        )
        for p in (depths.predictions[i] for i in picked)
    ]
    headings = ("layers", "hidden", "nodes", "least", "tokens/s 5<50<95 %", "plain", "limit")
    drop = ("hidden", "least", "nodes", "limit", "plain")
    return doc.Table("By number of layers", headings, rows, "rrrrrrl", where, drop=drop)


def time_table(title: str, time_s: dict[str, float], where: doc.Where = doc.SHOWN) -> doc.Table:
    """The time of one pass by term in seconds, the longest first."""
    total = time_s["total"]
    rows = [
        (
            term,
            doc.number(s, seconds(s)),
            percent(s / total, 1),
            doc.number(s / total, ""),
            TERM_TEXTS[term],
        )
        for term, s in sorted(time_s.items(), key=lambda x: -x[1])
        if s > 0.0 and term != "total"
    ]
    return doc.Table(title, ("", "time", "share", "", "what"), rows, "prrbp", where)


def changes(p: Prediction, where: doc.Where) -> Iterator[doc.Block]:
    """What would help most, or what would make it fit."""
    found = p.useful_changes
    if not found:
        return

    def row(c: Change) -> Sequence[str | doc.Cell]:
        gained = [doc.number(c.gain, change(c.gain))] if p.fits else []
        return [c.text, *gained, doc.number(c.tokens_per_s, f"{c.tokens_per_s:,.0f}")]

    rows = [row(c) for c in found]
    if p.fits:
        plain = f"{compact(1.0 / float(p.time.total))} tokens/s without speculation"
        title = f"What would help most (against {plain}{usual(p)})"
        yield doc.Table(title, ("", "gain", "tokens/s"), rows, "prr", where, most=CHANGES_SHOWN)
    else:
        title = "What would make it fit"
        yield doc.Table(title, ("", "tokens/s"), rows, "pr", where, most=CHANGES_SHOWN)


def notes(row: Row, where: doc.Where) -> Iterator[doc.Block]:
    """What to know of the model; pages repeat the warnings."""
    if row.notes:
        yield doc.Items(row.notes, where=where, bullet="- ")
    if row.warnings:
        yield doc.Items(row.warnings, where=doc.PAGE)


def least(p: Prediction) -> str:
    """The fewest nodes that hold it."""
    return f"{p.min_nodes:.0f}" if math.isfinite(p.min_nodes) else "none"
