"""`archinfer calibrate`: this machine measured with a real forward pass, as a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from archinfer.cli.output import Answer, say, warn

if TYPE_CHECKING:
    from archinfer.calibration.calibrate import Calibration
    from archinfer.calibration.measure import Settings

INTERRUPTED = 130


def calibrate(asked: dict[str, Any]) -> Answer:
    """Time a real forward pass on this machine, fit the cost model to it and check the fit.

    Exits with 1, and prints no fit, where shapes that the fit has not seen are not predicted.
    """
    from archinfer.calibration.threads import blas_threads, limit_threads

    # Before anything imports NumPy.
    limit_threads(blas_threads() if asked["threads"] is None else asked["threads"])
    from archinfer.asked.upkeep import BLIND_CASES
    from archinfer.calibration.measure import Settings
    from archinfer.errors import InputError
    from archinfer.question import ASKS
    from archinfer.report.calibrate import csv_rows, document
    from archinfer.report.measured import calibrate_chart
    from archinfer.writing import check_target, write

    memory, cases, save, seed = (asked[name] for name in ("memory", "cases", "save", "seed"))
    budget = ASKS["memory"].number("memory", memory)
    if cases is not None and not asked["blind"]:
        raise InputError("--cases: models of the blind test, which --blind asks for")
    if save is not None:
        check_target("--save", save)
    command = (
        f"archinfer calibrate{' --quick' if asked['quick'] else ''} --memory {memory} "
        f"--threads {blas_threads()} --seed {seed}"
    )
    settings = Settings(asked["quick"], budget, seed, command)
    try:
        found = _run(settings, (cases or BLIND_CASES) if asked["blind"] else 0)
    # The command line turns Ctrl-C into an exit; from Python it is still an interrupt.
    except (KeyboardInterrupt, SystemExit):
        say("interrupted: nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    for name in found.skipped:
        warn(f"left out, beyond --memory {memory}: {name}")
    for name in () if found.blind is None else found.blind.skipped:
        warn(f"blind test: left out, beyond --memory {memory}: {name}")
    if save is not None:
        write(save, found.profile.encode())
        say(f"wrote {save}")
    return Answer(found, document, csv_rows, calibrate_chart)


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
