"""Screens at the widths people have: tables stay tables, and no number is broken."""

import re
from pathlib import Path

import pytest

from tests.cli import run

pytestmark = pytest.mark.usefixtures("few_draws")

TABLES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("predict", "kimi-k2", "gpt-oss-120b", "--hardware", "wse-3"): ("model", "tokens/s"),
    ("predict", "kimi-k2", "--hardware", "b200", "--context", "8k,32k,128k", "--users", "1,8,32"):
        ("context", "tokens/s"),
    ("compare", "gpt-oss-120b", "--hardware", "wse-3,gb200-nvl72,b200"): ("hardware", "tokens/s"),
    ("compare", "gpt-oss-120b", "--hardware", "wse-3,b200", "--target", "100"): ("$/M", "tokens/s"),
    ("models", "list"): ("name", "total"),
    ("hardware", "show", "wse-3"): ("figure", "value"),
    ("solve", "--hardware", "wse-3", "--nodes", "88"): ("total", "active", "tokens/s"),
    ("models", "show", "kimi-k2"): (),
    ("predict", "kimi-k2", "--hardware", "wse-3", "--explain"): ("time",),
}  # fmt: skip
"""Commands, and words that stand in the headings of their tables."""

PROSE = re.compile(r"[^;]+; [^;]+ [\d,.]+;.*; ")
"""A row of a table told as words: heading and value, again and again."""


def numbers(text: str) -> list[str]:
    return re.findall(r"\d[\d,.]*\d", text)


@pytest.mark.parametrize("command", TABLES, ids=" ".join)
def test_tables_hold(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    free = {*numbers(run(capsys, *command).out)}
    for columns in (60, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = run(capsys, *command).out
        lines = out.splitlines()
        assert not [line for line in lines if line.endswith(" ")]
        # One line a fact, for programs, is left as it is.
        wide = {line for line in lines if len(line) > columns}
        assert not wide or (command[0] == "validate" and all(": " in line for line in wide))
        # A number broken by the edge of the window would be one that nobody printed; a bar and a
        # map are drawn for the width.
        broken = {n for n in numbers(out) if n not in free}
        assert not broken or "--explain" in command
        for heading in TABLES[command]:
            assert any(heading in re.split(r"\s+", line) for line in lines), (columns, heading)
        assert not [line for line in lines if PROSE.match(line) and "tokens/s 5" in line]


def test_headings_of_the_catalogue_stand_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(capsys, "models", "list").out.startswith("name ")


def test_an_emitted_config_is_called_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--nodes", "20", "--architectures", "1", "--emit", str(tmp_path / "out"))
    assert run(capsys, "solve", "--hardware", "wse-3", *asked).code == 0
    (config,) = (tmp_path / "out").rglob("config.json")
    for command in ("predict", "compare"):
        out = run(capsys, command, str(config), "--hardware", "wse-3").out
        assert out.startswith(config.parent.name) and str(tmp_path) not in out
