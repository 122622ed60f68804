"""`archinfer calibrate`: this machine measured with a real forward pass, as a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from archinfer.cli.options import takes
from archinfer.cli.output import Answer, Format, FormatOption, PlotOption, ReportOption

if TYPE_CHECKING:
    from archinfer.calibration.calibrate import Calibration
    from archinfer.calibration.measure import Settings

INTERRUPTED = 130


@takes("calibrate")
def calibrate(
    asked: dict[str, Any],
    plot: PlotOption = None,
    report_file: ReportOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Time a real forward pass on this machine, fit the cost model to it and check the fit.

    Exits with 1, and prints no fit, where shapes that the fit has not seen are not predicted.
    """
    from archinfer.calibration.threads import blas_threads, limit_threads

    # Before anything imports NumPy.
    limit_threads(blas_threads() if asked["threads"] is None else asked["threads"])
    from archinfer.asked.upkeep import BLIND_CASES
    from archinfer.cli.output import check_targets, show
    from archinfer.errors import InputError
    from archinfer.question import ASKS
    from archinfer.writing import check_target

    memory, cases, save = asked["memory"], asked["cases"], asked["save"]
    budget = ASKS["memory"].number("memory", memory)
    if cases is not None and not asked["blind"]:
        raise InputError("--cases: models of the blind test, which --blind asks for")
    check_targets(plot, report_file)
    if save is not None:
        check_target("--save", save)
    models = (cases or BLIND_CASES) if asked["blind"] else 0
    answer = _measured(
        asked["quick"], memory, budget, asked["seed"], models, (save, plot, report_file)
    )
    show(answer, output)


def _measured(
    quick: bool,
    memory: str,
    budget: float,
    seed: int,
    cases: int,
    files: tuple[str | None, str | None, str | None],
) -> Answer:
    """Measure, and write profile, picture and page; an interruption leaves nothing behind."""
    from archinfer.calibration.measure import Settings
    from archinfer.calibration.threads import blas_threads
    from archinfer.cli.output import say, warn, write_files
    from archinfer.writing import write

    command = _command(quick, memory, blas_threads(), seed)
    save, plot, report_file = files
    try:
        found = _run(Settings(quick, budget, seed, command), cases)
        for name in found.skipped:
            warn(f"left out, beyond --memory {memory}: {name}")
        for name in () if found.blind is None else found.blind.skipped:
            warn(f"blind test: left out, beyond --memory {memory}: {name}")
        if save is not None:
            write(save, found.profile.encode())
            say(f"wrote {save}")
        answer = _answer(found)
        write_files(answer, plot, report_file)
    # The command line turns Ctrl-C into an exit; from Python it is still an interrupt.
    except (KeyboardInterrupt, SystemExit):
        typer.echo("interrupted: nothing was written", err=True)
        raise typer.Exit(INTERRUPTED) from None
    return answer


def _answer(found: Calibration) -> Answer:
    from archinfer.report.calibrate import csv_rows, document
    from archinfer.report.measured import calibrate_chart

    return Answer(
        lambda: document(found),
        lambda: found,
        lambda: csv_rows(found),
        lambda: calibrate_chart(found),
    )


def _command(quick: bool, memory: str, threads: int, seed: int) -> str:
    words = ["archinfer calibrate"]
    if quick:
        words.append("--quick")
    words += [f"--memory {memory}", f"--threads {threads}", f"--seed {seed}"]
    return " ".join(words)


def _run(settings: Settings, blind_cases: int) -> Calibration:
    from dataclasses import replace

    from archinfer.calibration import calibrate as calibration
    from archinfer.calibration.blind import blind_test
    from archinfer.cli.progress import progress

    with progress(calibration.phases(settings, blind_cases)) as tell:
        found = calibration.calibrate(settings, progress=tell)
        if blind_cases:
            found = replace(found, blind=blind_test(settings, blind_cases, progress=tell))
    return found
