"""What several observations taught, one after the other, as blocks of the answer's document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from archinfer.inference.posterior import Posterior
from archinfer.record import Quantiles
from archinfer.report import document as doc
from archinfer.units import plain_number
from archinfer.words import SIZES, capital, compact, percent, span

STEPS_TITLE = "What each observation taught: 90 % ranges, their width as a factor, and bits"
STEPS = ("after", "total", "active", "layers", "bits")


LANES_TITLE = "The same model elsewhere: candidates with their probability, nodes with 90 %"
LANES = ("deployment", "hardware", "nodes", "weights")

NARROW_TITLE = "What to measure next: widths of 90 % now and to expect then, as factors"
NARROW = ("quantity", "now", "then", "if one knew", "how")
SHOWN = 3
"""Facts for each quantity."""


def blocks(posterior: Posterior) -> Iterator[doc.Block]:
    """Prior, nodes, and the posterior after each piece in turn; nothing where one speed is all."""
    if posterior.contradictions and not posterior.possible:
        lines = [f"{capital(c.text)}." for c in posterior.contradictions]
        yield doc.Items(lines, "What would have to be wrong", doc.ALL)
    if not posterior.steps:
        return
    yield doc.Table(STEPS_TITLE, STEPS, _steps(posterior), "wrrrr", doc.ALL)
    if posterior.deployments:
        rows = _deployments(posterior)
        yield doc.Table(LANES_TITLE, LANES, rows, "wwrw", doc.ALL)
    yield doc.Later(lambda: _next(posterior), doc.ALL)


def _deployments(posterior: Posterior) -> list[Sequence[str]]:
    def shares(found: Mapping[str, float]) -> str:
        if len(found) == 1:
            return next(iter(found))
        return ", ".join(f"{name} {percent(p)}" for name, p in found.items())

    return [
        (
            one.name,
            shares(one.hardware),
            span(math.floor(one.nodes.p05), math.ceil(one.nodes.p95)),
            shares(one.weights),
        )
        for one in posterior.deployments
    ]


def _next(posterior: Posterior) -> Iterator[doc.Block]:
    """Facts that would narrow it; nothing where none would."""
    rows: list[Sequence[str]] = []
    for quantity, name in SIZES.items():
        found = [n for n in posterior.what_would_narrow if n.quantity == quantity]
        rows += [
            (name, *(plain_number(w, 2) for w in (n.width_now, n.width_after)), n.fact, n.how)
            for n in found[:SHOWN]
            if n.width_after < 0.97 * n.width_now
        ]
    if rows:
        yield doc.Table(NARROW_TITLE, NARROW, rows, "lrrww", doc.ALL)


def _steps(posterior: Posterior) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for place, step in enumerate(posterior.steps):
        ranges = (_range(q) for q in (step.total_params, step.active_params, step.layers))
        rows.append((step.after, *ranges, f"{step.bits:.1f}" if place > 1 else ""))
    return rows


def _range(one: Quantiles) -> str:
    width = plain_number(one.p95 / one.p05, 2)
    return f"{compact(one.p05, 2)} to {compact(one.p95, 2)} (x {width})"
