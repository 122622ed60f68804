"""What README.md and docs/ show is what the commands print."""

import ast
import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import run

pytestmark = pytest.mark.usefixtures("answered_once")

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
assert spec is not None
assert spec.loader is not None
render = importlib.util.module_from_spec(spec)
spec.loader.exec_module(render)

EQUATIONS = re.findall(
    r"`((?:models|physics|forward|solver|inference)\.[\w.]+)`",
    (ROOT / "docs" / "model.md").read_text("utf-8"),
)

BLOCKS = [
    pytest.param(m[1], m[2], id=f"{path.name}: {m[1]}")
    for path in render.files()
    for m in render.blocks(path.read_text(encoding="utf-8"))
]


def test_every_equation_stands_where_the_model_says() -> None:
    assert len(EQUATIONS) > 30
    for place in EQUATIONS:
        folder, module, *names = place.split(".")
        found: object = importlib.import_module(f"archinfer.{folder}.{module}")
        for name in names:
            found = getattr(found, name)
        assert getattr(found, "__doc__", None), place


def test_the_files_of_the_house_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:archinfer|hardware|tests|docs)/[\w./-]+)`", text)
    assert len(named) > 20
    assert not [path for path in named if not (ROOT / path).exists()]


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize(("command", "shown"), BLOCKS)
def test_block_is_what_the_command_prints(
    command: str,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    done = run(capsys, *shlex.split(command)[1:])
    assert done.code in (0, 1), done.err
    printed = done.out
    assert render.same(shown, printed), f"run docs/render.py: {command} now prints\n{printed}"


def test_a_changed_number_is_noticed() -> None:
    assert render.same("total 3.52T of 88\n", "total 3.53T  of 88\n")
    assert not render.same("total 3.52T of 88\n", "total 3.72T of 88\n")
    assert not render.same("total 3.52T of 88\n", "total 3.52T in 88\n")
    assert not render.same("total 3.52T of 88\n", "total 3.52T of 88 and 1\n")


def test_readme_opens_with_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    (python3 -m venv .*)$", text, re.MULTILINE)
    assert len(commands) == 2
    assert "archinfer solve" in commands[0]
    assert "pytest" in commands[1]
    assert text.index(commands[1]) < text.index("```console")


def _public(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef) and not child.name.startswith("_"):
            yield f"{prefix}{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from _public(child, f"{prefix}{child.name}.")


def test_every_public_name_has_a_docstring() -> None:
    silent = []
    for path in sorted((ROOT / "archinfer").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, node in _public(tree, f"{path.relative_to(ROOT)}: "):
            if not ast.get_docstring(node):  # type: ignore[arg-type]
                silent.append(name)
    assert silent == []


def test_pictures_are_there_and_shown() -> None:
    shown = set()
    for path in render.files():
        for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            shown.add((path.parent / target).resolve())
    drawn = set((ROOT / "docs" / "images").iterdir())
    assert shown == drawn
    assert {p.name for p in drawn} - {"calibrate.png"} == set(render.PICTURES)


def test_actions_are_pinned_by_hash() -> None:
    """In the workflow that runs here and in those that readers copy."""
    pages = [*ROOT.glob(".github/workflows/*.yml"), ROOT / "README.md", *ROOT.glob("docs/*.md")]
    used = [u for page in pages for u in re.findall(r"uses: (\S+@.*)", page.read_text())]
    assert len(used) > 6
    assert all(re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", u) for u in used), used
