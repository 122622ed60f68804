"""Each kind of block once in each renderer, on a document made up for it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archinfer.report.document import (
    ALL,
    EXPLAIN,
    MARKDOWN,
    PAGE,
    SCREEN,
    Block,
    Cell,
    Document,
    Items,
    Later,
    Lead,
    Paragraph,
    Section,
    Span,
    Table,
    TextMap,
    flatten,
    number,
)
from archinfer.report.html import to_page
from archinfer.report.markdown import to_markdown
from archinfer.report.terminal import bar, map_rows, print_document


def opened() -> list[Block]:
    raise AssertionError("made where it is not shown")


DOCUMENT = Document(
    "A title",
    [
        Lead(["For pages."], [("Label", "sentence")]),
        Paragraph(("plain ", Span("strong"), " & <b>"), where=ALL, tight=True),
        Paragraph("only explained", where=EXPLAIN),
        Section(
            "Heading",
            [
                Items(["one | two", (Span("bold"), "; soft")], "A list", ALL, bullet="* "),
                Table("", ("", ""), [("name", "value")], "lw", ALL),
                Table(
                    "Speeds",
                    ("model", "speed", "", "what"),
                    [("a|b", number(2.0, "2.00"), number(0.5, ""), Cell("words", more=", more"))],
                    "lrbp",
                    ALL | EXPLAIN,
                ),
            ],
        ),
        Later(opened, where=MARKDOWN & PAGE),
        Section("Folded", [Paragraph("inside", where=PAGE)], PAGE, folded=True),
        Section("Empty on pages", [Paragraph("screen", where=SCREEN)]),
    ],
    titled=ALL,
)


@pytest.mark.parametrize("explain", [False, True])
def test_terminal(
    explain: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    print_document(DOCUMENT, explain)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    bars = ["model speed                  what", "a|b    2.00 " + bar(0.5, 16, True) + " words"]
    table = [re.sub(" +", " ", line) for line in lines if line.startswith(("model", "a|b"))]
    if explain:
        assert "only explained" in lines
        assert table == ["model speed what", re.sub(" +", " ", bars[1])]
        return
    assert lines == [
        "A title",
        "plain strong & <b>",
        "A list",
        "* one | two",
        "* bold; soft",
        "",
        "name value",
        "",
        "Speeds",
        "model speed what",
        "a|b    2.00 words",
        "",
        "screen",
    ]


def test_markdown() -> None:
    assert to_markdown(DOCUMENT).split("\n\n") == [
        "# A title",
        "plain **strong** & <b>",
        "**A list**",
        "- one | two\n- **bold**; soft",
        "|  |  |\n| --- | --- |\n| name | value |",
        "**Speeds**",
        "| model | speed | what |\n| --- | --- | --- |\n| a\\|b | 2.00 | words |",
    ]


def test_page() -> None:
    page = to_page(DOCUMENT, "archinfer x '<y>'")
    body = page.partition("<main>")[2].partition("</main>")[0]
    for part in (
        '<div class="answer"><p>For pages.</p><ul><li><strong>Label: </strong>sentence</li></ul>',
        "<p>plain <strong>strong</strong> &amp; &lt;b&gt;</p>",
        "<h2>Heading</h2><h3>A list</h3><ul><li>one | two</li>",
        '<th scope="row">name</th><td>value</td>',
        "<figcaption>Speeds</figcaption>",
        '<th scope="row">a|b</th><td class="n" data-v="2">2.00</td><td>words, more</td>',
        "<details><summary><h2>Folded</h2></summary><p>inside</p></details>",
        "archinfer x '&lt;y&gt;'</code>",
    ):
        assert part in body
    assert "screen" not in body and "explained" not in body and "Empty" not in body


def test_csv_takes_values_from_inside_and_none_where_there_is_none() -> None:
    records = [{"a": 1, "b": {"c": 2.5}}, {"a": 3, "b": None}]
    assert flatten(records, ["a", "x=b.c", "y=b.c.d"]) == [
        ["a", "x", "y"],
        [1, 2.5, None],
        [3, None, None],
    ]


# --- the map


@given(
    counts=st.lists(st.integers(1, 512), min_size=1, max_size=200, unique=True),
    width=st.integers(20, 90),
    data=st.data(),
)
def test_no_layer_count_is_missing_on_the_map(
    counts: list[int], width: int, data: st.DataObject
) -> None:
    columns = sorted(counts)
    j = data.draw(st.integers(0, len(columns) - 1))
    top = np.full(len(columns), np.nan)
    bottom = top.copy()
    top[j], bottom[j] = 1e12, 1e9
    block = TextMap("", ["a"], columns, [bottom.tolist()], [top.tolist()], "layers")
    rows = map_rows(block, ["#"], width, 12)
    assert any("#" in row for row in rows[:12])
    assert all(len(row) == 8 + width for row in rows[:13])


# --- tables

HEADINGS = ["name", "speed of one user", "source", "memory"]
ROWS = [
    ["a-model-with-a-long-name", "333 < 733 < 1,610", "estimate, from what the makers say", "3 TB"],
    ["another", "1 < 2 < 3", "Cerebras, Hot Chips 34", "44 GB"],
]


def table(rows: list[list[str]], drop: tuple[str, ...] = ()) -> Table:
    return Table("", HEADINGS, rows, "lrwr", drop=drop)


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\s;:]+", text))


@pytest.mark.parametrize("columns", [30, 44, 60, 72, 80, 100, 200])
def test_no_width_loses_or_breaks_a_word(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    print_document(Document("", [table(ROWS)]))
    out = capsys.readouterr().out
    # Sentences stay; a column that is left out is named.
    gone = re.findall(r"narrow: (.*);", " ".join(out.split()))
    lost = gone[0].split(", ") if gone else []
    assert "source" not in lost
    kept = [i for i, heading in enumerate(HEADINGS) if heading not in lost]
    assert words(" ".join(row[i] for row in ROWS for i in kept)) <= words(out)
    assert max(map(len, out.splitlines())) <= columns


def test_columns_left_out_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "58")
    print_document(Document("", [table(ROWS, ("memory", "source"))]))
    out = capsys.readouterr().out
    assert "44 GB" not in out
    assert "(Left out, the window is narrow: memory; --format json has all.)" in " ".join(
        out.split()
    )


def test_a_pipe_gets_every_column(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = [[*row, "x" * 120] for row in ROWS]
    more = Table("", [*HEADINGS, "more"], wide, "lrwrr", drop=("memory", "more"))
    print_document(Document("", [more]))
    first, *rows = capsys.readouterr().out.splitlines()
    assert {"memory", "more"} <= set(first.split())
    assert sum("x" * 120 in row for row in rows) == 2
    assert "Left out" not in "".join(rows)
