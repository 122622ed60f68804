"""A claim put to the test, as blocks of the answer's document."""

from __future__ import annotations

import math

from archinfer.inference.claim import Claim, Needs, Part
from archinfer.report import document as doc
from archinfer.units import plain_number
from archinfer.words import compact, counted, gain

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
