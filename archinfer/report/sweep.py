"""Models at several contexts and numbers of users as a document, rows and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from archinfer.report import chart
from archinfer.report import document as doc
from archinfer.report.predict import COLUMNS, assumptions
from archinfer.report.predict_model import Row, about
from archinfer.report.sources import caption
from archinfer.words import compact, counted, figure, percent, speed, speeds

SWEEP_COLUMNS = (
    *COLUMNS[:2], "context_tokens", "concurrency", *COLUMNS[2:],
    "tokens_per_s_all_users=tokens_per_s_all_users.p50", "users_that_fit=room.users",
    "context_tokens_that_fit=room.context_tokens", "power_at_load_w", "joules_per_token",
    "dollars_per_million_output_tokens",
)  # fmt: skip

HEADINGS = (
    "context", "users", "nodes", "tokens/s a user 5<50<95 %", "all users", "a node", "$/M out",
    "J/token", "full", "up to users", "up to context", "limit",
)  # fmt: skip

DROP = (
    "a node", "full", "J/token", "limit", "up to context", "up to users", "$/M out", "nodes",
)  # fmt: skip

csv_rows = doc.rows_of(SWEEP_COLUMNS, lambda rows: [row.record for row in rows])


def _models(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each model."""
    return [list(mine) for _, mine in groupby(rows, key=lambda row: row.name)]


def document(rows: Sequence[Row], overrides: tuple[str, ...]) -> doc.Document:
    """A table for each model, and a picture of what one user gets against what a node makes."""
    hardware = rows[0].result.hardware
    blocks: list[doc.Block] = []
    for mine in _models(rows):
        title = f"{mine[0].name} on {hardware.name}"
        table = doc.Table(
            title, HEADINGS, [_cells(row) for row in mine], "rrrrrrrrrrrl", doc.ALL,
            drop=DROP, sortable=True,
        )  # fmt: skip
        blocks += [doc.Paragraph(about(mine[0]), where=doc.PAGE), table]
    pictures = doc.Pictures(lambda: sweep_chart(rows).panels, "picture")
    blocks += [doc.Paragraph(_reading(rows[0], overrides)), pictures]
    return doc.Document("", blocks, page_title=f"Users and context on {hardware.name}")


def _cells(row: Row) -> list[str | doc.Cell]:
    p = row.result
    asked, room, fits = p.deployment, p.room, bool(p.fits)
    whole, used = float(p.throughput.p50), int(p.nodes_used)
    prices = (p.dollars_per_million_output_tokens, p.joules_per_token)
    longest = "any" if room.context_tokens is None else f"{room.context_tokens:,}"
    return [
        doc.number(asked.context_tokens, f"{asked.context_tokens:,}"),
        doc.number(asked.concurrency, f"{asked.concurrency:,}"),
        doc.number(used, f"{used:,}"),
        doc.number(row.speed[1], speeds(*row.speed) if fits else "does not fit"),
        doc.number(whole, speed(whole) if fits else "-"),
        doc.number(whole / used, speed(whole / used) if fits else "-"),
        *(doc.number(v, figure(v)) for v in prices),
        doc.number(float(p.memory_fraction), percent(float(p.memory_fraction))),
        doc.number(room.users, f"{room.users:,}"),
        longest,
        p.bottleneck,
    ]


def _reading(row: Row, overrides: tuple[str, ...]) -> str:
    p = row.result
    there = (
        "the fewest that hold each"
        if p.deployment.nodes is None
        else counted(p.deployment.nodes, p.hardware.node)
    )
    served = assumptions(row, overrides).removesuffix(".").split("; ")[1:]
    return (
        f"Nodes: {there}; {'; '.join(served)}. Up to users: most that fit the memory at "
        "this context; up to context: the longest that fits for these users; one more does not fit."
    )


def sweep_chart(rows: Sequence[Row]) -> chart.Chart:
    """Tokens/s of one user against tokens/s of one node, a line for each model and context."""
    fitting = [row for row in rows if row.result.fits]
    groups = groupby(fitting, key=lambda row: (row.name, row.result.deployment.context_tokens))
    drawn: list[chart.Line] = []
    for (name, context), found in groups:
        mine = list(found)
        x = [row.speed[1] for row in mine]
        y = [float(row.result.throughput.p50) / int(row.result.nodes_used) for row in mine]
        named = f"{name}, " if len(_models(rows)) > 1 else ""
        users = [f"{row.result.deployment.concurrency:,}" for row in mine]
        drawn.append((f"{named}{compact(context)} context", x, y, users))
    hardware = rows[0].result.hardware
    panel = chart.Panel(
        "Speed of one user and of one node by users served at once",
        f"Tokens/s of one {hardware.node} against tokens/s of one user; numbers are users.",
        chart.around("tokens/s of one user", [v for line in drawn for v in line[1]]),
        chart.around(
            f"tokens/s of one {hardware.node}", [v for line in drawn for v in line[2]], 1.5
        ),
        tuple(chart.lines(drawn)),
        "lower left",
    )
    names = ", ".join(mine[0].name for mine in _models(rows))
    return chart.Chart(f"{names} on {hardware.name}", ((panel,),), caption(hardware))
