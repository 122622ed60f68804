"""The answer of a solve in a few short lines: an example, what is drawn by what, how surely; and a
claim put to the test."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from archinfer.inference.claim import Claim, Needs, Part
from archinfer.inference.posterior import Marginal, Posterior
from archinfer.report import document as doc
from archinfer.report.ends import pinned_word, plain_name
from archinfer.solver.answer import Answer
from archinfer.solver.designs import Design
from archinfer.solver.drawn import given, reads, speed_spread
from archinfer.solver.variants import Sensitivity
from archinfer.units import plain_number
from archinfer.words import SIZES, change, compact, counted, gain, listed, span

TITLE = "The claim put to the test: probability given the nodes and what was observed"
HEADINGS = ("claimed", "holds", "probability", "carried by", "refuted by")
DROP = ("holds", "refuted by")
ASSUMED = (
    "What nodes carry or refute rests on an assumption: a service uses the nodes that it has. "
    "Without --claim the ranges say what would be possible."
)
HARD = ("physics", "habits")
"""What leaves nothing else, or nothing of it."""


def tested(claim: Claim) -> doc.Section:
    """How likely each part and the whole are, what else would be true, and who is near."""
    rows = [_row(part) for part in claim.parts]
    if len(rows) > 1:
        rows.append(("all of it", *_row(claim.all)[1:]))
    table = doc.Table(TITLE, HEADINGS, rows, "wlrll", doc.ALL, drop=DROP)
    blocks: list[doc.Block] = [table]
    if any("nodes" in (part.carried_by, part.refuted_by) for part in claim.parts):
        blocks.append(doc.Paragraph(ASSUMED, where=doc.ALL, tight=True))
    if claim.needs is not None:
        blocks.append(doc.Paragraph(needs(claim.needs), where=doc.ALL, tight=True))
    near = "; ".join(
        f"{m.model} ({compact(m.total_params)} total, {compact(m.active_params)} active, "
        f"{counted(m.layers, 'layer')}; {_missed(m.distance)})"
        for m in claim.nearest
    )
    blocks.append(doc.Paragraph(f"Real models nearest to it: {near}.", where=doc.ALL))
    return doc.Section("The claim", blocks)


def _row(part: Part) -> tuple[str, str, doc.Cell, str, str]:
    return (
        part.text,
        "yes" if part.carried_by in HARD else "no" if part.refuted_by in HARD else "conditional",
        doc.number(part.probability, percent(part.probability)),
        part.carried_by,
        part.refuted_by,
    )


def percent(probability: float) -> str:
    """A probability in whole percent; small ones as far as draws tell.

    >>> percent(0.314), percent(0.004), percent(0.0)
    ('31 %', '0.4 %', 'below 0.1 %')
    """
    if probability < 1e-3:
        return "below 0.1 %"
    return f"{plain_number(100.0 * probability, 1 if probability < 0.1 else 2)} %"


def needs(needs: Needs) -> str:
    """What else is likely where the whole claim holds."""
    formats = ", ".join(f"{name} {percent(share)}" for name, share in needs.weights.items())
    least, most = (math.ceil(v) for v in needs.layers_per_node)
    layers = counted(most, "layer") if least == most else f"{least} to {counted(most, 'layer')}"
    low, high = needs.accepted_tokens
    accepted = gain(*(float(f"{end:.2g}") for end in (low, high)))
    return f"Where all of it holds: {accepted}, {layers} in the fullest node, weights {formats}."


def _missed(distance: float) -> str:
    return f"off by x {math.exp(distance):.2f}" if distance > 0.0 else "as claimed"


def verdict(answer: Answer) -> doc.Lead:
    """What fits as one example, the ranges and what draws them, what is not told, how surely."""
    posterior = answer.posterior
    lines = _target(answer)
    if posterior is not None and posterior.possible:
        lines = _observed(answer, posterior)
    elif posterior is not None and len(posterior.pieces) > 1:
        lines = iter([("Together", "no model explains all that was observed")])
    return doc.Lead([], [*_claimed(answer), *lines], doc.ALL)


def _claimed(answer: Answer) -> Iterator[tuple[str, str]]:
    """How likely the claim is that was put to the test."""
    if answer.claim is not None:
        whole = answer.claim.all
        yield "The claim", f"{percent(whole.probability)} likely: {whole.text}"


def at_most(total: float, active: float, by: tuple[str, str] = ("", "")) -> str:
    """Largest total and largest active parameters, which are those of two models.

    >>> at_most(6.26e12, 1.02e12, ("capacity", "speed"))
    '6.26T total (capacity), or 1.02T active (speed)'
    """
    drawn = [f" ({name})" if name else "" for name in by]
    return f"{compact(total)} total{drawn[0]}, or {compact(active)} active{drawn[1]}"


def _target(answer: Answer) -> Iterator[tuple[str, str]]:
    ends = {name: interval.high for name, interval in answer.ranges.items()}
    by = {name: plain_name(end.by) for name, end in ends.items()}
    total, active = ends["total_params"], ends["active_params"]
    layers = f"{counted(ends['layers'].value, 'layer')} ({by['layers']})"
    one = answer.question.total[0] == answer.question.total[1] and active.by == total.by
    if total.by == "total asked" and (one or active.by == "active asked"):
        # One size was asked about: what is left is its depth, and how easily it is served.
        fewest = min(answer.architectures, key=lambda d: d.accepted_needed, default=answer.example)
        yield "It fits", f"for example {_example(answer, fewest)}"
        yield "At most", layers
    else:
        yield "The largest", _example(answer, answer.example)
        sizes = at_most(total.value, active.value, (by["total_params"], by["active_params"]))
        yield "At most", f"{sizes}, or {layers}"
    loose = [row for row in answer.sensitivity if not reads(row) and not given(row, answer)]
    if loose:
        told = [f"{SIZES[row.quantity]} (x 2: {_changed(row)})" for row in loose]
        yield "The speed hardly tells", listed(told)
    yield "How sure", _accuracy(answer)


def _changed(row: Sensitivity) -> str:
    """What doubling a quantity does to the speed."""
    shown = change(row.elasticity)
    if shown == change(0.0):
        return "same speed"
    return f"{shown[1:]} {'slower' if row.elasticity < 0.0 else 'faster'}"


def _example(answer: Answer, d: Design | None) -> str:
    """A design that fits, else the largest of the region, its numbers belonging together."""
    if d is not None:
        numbers = (d.total_params, d.active_params, d.architecture.layers, d.weights)
        needed = max(d.accepted_needed, 1.0)
        needs = f", {needed:.2g} tokens a pass" if needed >= 1.05 else ""
    else:
        region = answer.region
        i = int(np.argmax(region.total_high))
        weights = answer.question.weights[int(region.slices.weights[i])]
        numbers = (
            float(region.total_high[i]),
            float(region.total_high_at[i]),
            int(region.slices.layers[i]),
            weights,
        )
        needs = ""
    return f"{_model(*numbers)}{needs}"


def _model(total: float, active: float, layers: float, weights: str, digits: int = 3) -> str:
    sizes = f"{compact(total, digits)} total, {compact(active, digits)} active"
    if total == active:
        sizes = f"{compact(total, digits)} dense"
    return f"{sizes}, {counted(layers, 'layer')} in {weights}"


def _accuracy(answer: Answer) -> str:
    """How uncertain a predicted speed is, and why."""
    low, high = answer.question.speculation
    text = f"speeds within x {plain_number(speed_spread(answer), 2)} (90 %)"
    if high > low:
        times = plain_number(high / low, 2)
        text += f"; accepted tokens, {span(low, high)} a pass, add x {times}"
    return text


def _observed(answer: Answer, posterior: Posterior) -> Iterator[tuple[str, str]]:
    node = answer.question.hardware.node
    one = posterior.most_likely
    assert one is not None
    model = _model(one.total_params, one.active_params, one.layers, one.weights, 2)
    yield "Most likely", f"{model} on {counted(one.nodes, node)}"
    sizes = {n: m for n, m in posterior.marginals.items() if n in SIZES}
    ranges = [f"{SIZES[n]} {compact(m.p05)} to {compact(m.p95)}" for n, m in sizes.items()]
    yield "With 90 %", ", ".join(ranges)
    yield "Told", _told(sizes, posterior, node)
    yield "How sure", f"{_sure(sizes)}, at 90 %"


def _sure(sizes: dict[str, Marginal]) -> str:
    """How far each quantity is pinned, with the ratio of the ends of its interval."""
    kinds: dict[str, list[str]] = {"given": [], "pinned": [], "narrowed": [], "open": []}
    for name, m in sizes.items():
        kind = "given" if m.given else pinned_word(m) or "open"
        width = "" if m.given else f" (x {plain_number(m.p95 / m.p05, 2)})"
        kinds[kind].append(f"{SIZES[name]}{width}")
    return "; ".join(f"{listed(names)} {kind}" for kind, names in kinds.items() if names)


def _told(sizes: dict[str, Marginal], posterior: Posterior, node: str) -> str:
    """Which evidence identifies which quantity."""
    told, bits = f"the {posterior.told_by}", posterior.speed_bits
    by: dict[str, list[str]] = {f"by the {node}s": [], f"by {told}": [], "little of": []}
    for name, m in sizes.items():
        if not m.given:
            kind = f"by the {node}s" if m.told_by == "nodes" else f"by {told}"
            by[kind if m.identified else "little of"].append(SIZES[name])
    parts = [f"{kind} {listed(names)}" for kind, names in by.items() if names]
    if not by[f"by {told}"]:
        parts.append(f"{told} adds {bits:.1f} bits")
    return "; ".join(parts)


NEAR = 0.05
"""Probability from which on a speed that is missed is a near miss."""


def near_miss(answer: Answer) -> Iterator[doc.Block]:
    """What of nothing feasible lies within the error of the model, and what the region is not."""
    assert answer.conflict is not None
    near = max(
        (r.probability for r in answer.conflict.relaxations if r.probability >= NEAR), default=0
    )
    if near:
        chance = (
            f"a speed as far from that of the closest model has a probability of {percent(near)}"
            if answer.question.observed
            else f"the closest model reaches the speed with a probability of {percent(near)}"
        )
        yield doc.Paragraph(
            f"A near miss: ends of the region are sharp, predicted speeds are not; {chance}.",
            where=doc.ALL,
        )
    if answer.posterior is not None and answer.posterior.possible:
        yield doc.Paragraph(
            "The probabilities know no sharp ends and no habits, so they weigh models just outside "
            "of the region as well: what follows is how such models would look.",
            where=doc.ALL,
        )
