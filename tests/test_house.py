"""The house keeps its order: imports go down only, in no circle; files and functions stay short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "archinfer"

FLOORS = (
    "cli",
    "report",
    "schemas",
    "checks",
    "api",
    "calibration",
    "fitting",
    "inference",
    "solver",
    "forward",
    "physics",
    "models",
    "hardware",
)
"""From the top down; every other module of the package itself is the base below them."""

SURFACE = ("__init__", "__main__")
"""The public surface imports from any floor, on first use."""

LINES_OF_A_MODULE = 400
LINES_OF_A_FUNCTION = 60
LINES_OF_THE_PACKAGE = 39_800

OPTIONAL = {"matplotlib", "gguf", "pandas"}
"""Extras: imported where they are used, since they may be missing."""

LATE = {
    # Computing with a profile needs neither pydantic nor YAML; reading one does.
    "archinfer.hardware.profile.read",
    # The catalogue is listed without the readers of configs.
    "archinfer.models.catalogue.load",
}
"""Functions that import inside for another reason."""

FACADES = {
    # Layers and components are entered here.
    "archinfer.models.architecture",
    "archinfer.models.shape",
}
"""Modules that say which names of others they hand on; else `__all__` stands in package inits."""


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of the package's modules that a tree imports, for typing too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("archinfer."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "archinfer":
            assert node.module is not None and node.level == 0
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in modules() else node.module


def floor(name: str) -> int:
    """0 at the top; the base is the lowest."""
    part = name.split(".")[1]
    return FLOORS.index(part) if part in FLOORS else len(FLOORS)


def rooms() -> list[str]:
    return [name for name in modules() if name.split(".")[1] not in SURFACE]


@pytest.mark.parametrize("name", rooms())
def test_imports_go_down(name: str) -> None:
    for other in imported(modules()[name]):
        if other == "archinfer":
            pytest.fail(f"{name} imports from the public surface")
        assert floor(other) >= floor(name), f"{name} imports {other}, which stands above it"


def test_no_circles() -> None:
    order = TopologicalSorter({name: {*imported(modules()[name])} - {name} for name in rooms()})
    assert len([*order.static_order()]) >= len(rooms())


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("name", [n for n in rooms() if floor(n) > 0])
def test_imports_stand_at_the_top(name: str) -> None:
    """Only commands import inside functions, so that `--help` stays fast; and extras may lack."""
    for function in _functions(modules()[name]):
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            late = {n for n in names if n.split(".")[0] not in OPTIONAL}
            late = set() if f"{name}.{function.name}" in LATE else late
            assert not late, f"{name}.{function.name} imports {late} inside"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES_OF_A_MODULE
    for function in _functions(ast.parse(text)):
        assert function.end_lineno is not None
        lines = function.end_lineno - function.lineno + 1
        assert lines <= LINES_OF_A_FUNCTION, f"{function.name} has {lines} lines"


@pytest.mark.parametrize("name", [n for n in modules() if n not in FACADES])
def test_public_names_are_listed_where_a_package_is_entered(name: str) -> None:
    module = PACKAGE.parent.joinpath(*name.split("."))
    if not module.is_dir():
        for node in modules()[name].body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assert node.targets[0].id != "__all__" or name == "archinfer.__init__"


def test_the_package_is_small() -> None:
    lines = (len(p.read_text(encoding="utf-8").splitlines()) for p in PACKAGE.rglob("*.py"))
    assert sum(lines) <= LINES_OF_THE_PACKAGE
