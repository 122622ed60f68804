"""`archinfer fit`: constants that no data sheet gives, from published speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from archinfer.cli.examples import init_option, write_example
from archinfer.cli.output import say, warn
from archinfer.cli.progress import waiting

if TYPE_CHECKING:
    from archinfer.fitting.observations import Observation


EXAMPLE_NAME = "observations.yaml"


def fit(asked: dict[str, Any], init: Annotated[bool, init_option(EXAMPLE_NAME)] = False) -> None:
    """Fit a profile's unknown constants to published speeds, with their uncertainty."""
    from archinfer.api.arguments import number
    from archinfer.api.solving import machine
    from archinfer.fitting.fit import fit_rows
    from archinfer.fitting.prior import fit_prior
    from archinfer.fitting.profile import profile_text
    from archinfer.fitting.validation import Validation, left_out
    from archinfer.report.terminal import print_document
    from archinfer.report.validation import fit_document
    from archinfer.writing import check_target, write

    hardware, observations, save = asked["hardware"], asked["observations"], asked["save"]
    if init:
        named = [] if observations is None else [observations]
        use = f"fit --hardware {hardware} --observations"
        write_example(named, EXAMPLE_NAME, "observations-example.yaml", use)
        return
    release = number("release", asked)
    if save is not None:
        check_target("--save", save)
    profile, _ = machine(hardware)
    rows = _rows(profile.name, observations)
    prior = fit_prior(profile)
    if release is not None:
        prior = prior.released(release)
    with waiting("fitting"):
        found, cases = fit_rows(profile, rows, prior)
    for case in cases:
        if not case.fits:
            warn(f"observation {case.row.id!r}: the model does not fit {case.nodes.max():g} nodes")
    told = None
    if any(case.served for case in cases):
        with waiting("fitting without each model, and predicting it"):
            predictions, _, _ = left_out(found, cases, rows)
        told = Validation("", predictions).serving
    if save is not None:
        command = f"archinfer fit --hardware {hardware}"
        command += f" --observations {observations}" if observations is not None else ""
        command += f" --release {release:g}" if release is not None else ""
        command += " --save FILE"
        write(save, profile_text(found, cases, command, prior.sources).encode())
    print_document(fit_document(found, cases, told))
    if save is not None:
        say(f"saved {save}")


def _rows(profile: str, path: str | None) -> list[Observation]:
    """What the constants of a profile are fitted to."""
    from archinfer.fitting.observations import load, usable

    rows, warnings = usable([r for r in load(path) if r.profile == profile], [profile])
    for message in warnings:
        warn(message)
    rows = [r for r in rows if r.fitted]
    if not rows:
        warn(f"no observation of {profile}: what is printed is the belief before any")
    return rows
