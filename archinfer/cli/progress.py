"""How far a long measurement is, on standard error: a bar that moves, or a line a phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import typer

PATIENCE_S = 2.0


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says on a terminal what takes its time, until it is done; elsewhere in a line, if it takes
    longer than `PATIENCE_S`."""
    from threading import Timer

    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        late = Timer(PATIENCE_S, lambda: typer.echo(f"{what} ...", err=True))
        late.daemon = True
        late.start()
        try:
            yield
        finally:
            late.cancel()
        return
    with console.status(what):
        yield


MOST = 0.999
"""The bar is full when everything is done, not before: a full bar stops its clock."""


@contextmanager
def progress(seconds: Mapping[str, float]) -> Iterator[Callable[[str, float], None]]:
    """Shows phases as one whole; gives a function that takes a phase and its part done, 0 to 1.

    On a terminal one bar runs through all phases, with the time taken and the time left; elsewhere
    each phase is a line when it begins.

    Args:
        seconds: what each phase takes, about, in their order.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    phases, whole = list(seconds), sum(seconds.values())
    begun: list[str] = []
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        # Redrawing while a step is timed would cost it a share of a core.
        auto_refresh=False,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("starting", total=1.0)
        furthest = 0.0

        def tell(phase: str, part: float) -> None:
            nonlocal furthest
            if phase not in begun:
                begun.append(phase)
                if not console.is_terminal:
                    typer.echo(f"{phase}, about {seconds[phase]:.0f} s", err=True)
            before = sum(seconds[name] for name in phases[: phases.index(phase)])
            furthest = max(furthest, (before + part * seconds[phase]) / whole)
            bar.update(task, description=phase, completed=min(furthest, MOST))
            bar.refresh()

        yield tell
