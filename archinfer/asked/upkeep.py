"""How constants are measured, fitted and held against speeds; and one model's counts."""

from __future__ import annotations

import os
from typing import Annotated, Any, TypedDict

from archinfer.asking import Ask, Quantity, Use

_OBSERVATIONS = "Further observations (YAML); one with the id of a shipped row replaces it."
_SHARE: dict[str, Any] = {"dimension": "ratio", "form": "number", "most": 1.0, "zero": True}
BLIND_CASES = 20
"""Models of a blind test where nobody says how many."""


class Upkeep(TypedDict, total=False):
    """What calibrate, fit and validate take."""

    test: Annotated[
        str | os.PathLike[str] | None,
        Ask(
            metavar="FILE",
            validate="Predict the rows of this file from the shipped constants instead.",
        ),
    ]
    observations: Annotated[
        str | os.PathLike[str] | None,
        Ask(metavar="FILE", fit=_OBSERVATIONS, validate=_OBSERVATIONS),
    ]
    release: Annotated[
        Quantity | None,
        Ask(
            dimension="number",
            form="number",
            most=3.0,
            zero=True,
            metavar="LOG-SD",
            fit="Least standard deviation of the logarithm of every constant before the fit, so "
            "that what one engine was calibrated to can move to where another is, as 1.",
        ),
    ]
    serving: Annotated[
        bool,
        Ask(
            form="flag",
            validate=Use(
                "Hold the shipped profiles against measured configurations of serving engines "
                "instead: time per output token and to the first token, by machine, model, engine "
                "and users.",
                False,
            ),
        ),
    ]
    inverse: Annotated[
        bool, Ask(form="switch", validate=Use("Also infer the architecture from each speed.", True))
    ]
    floor: Annotated[
        Quantity,
        Ask(
            **_SHARE,
            validate=Use(
                "Exit 1 if the 90 % intervals of speeds cover less than this share of the rows, "
                "or no row counts. 0: not held.",
                "0.85",
            ),
        ),
    ]
    inverse_floor: Annotated[
        Quantity | None,
        Ask(
            **_SHARE,
            validate="Exit 1 if the 90 % intervals of total, active or layers, inferred from each "
            "speed, hold the truth in less than this share of the rows. Default: not held.",
        ),
    ]
    quick: Annotated[
        bool, Ask(form="flag", calibrate=Use("About 25 seconds instead of about 2 minutes.", False))
    ]
    memory: Annotated[
        Quantity,
        Ask(
            dimension="bytes",
            form="number",
            calibrate=Use("Most memory to take; shapes that do not fit are left out.", "4GB"),
        ),
    ]
    save: Annotated[
        str | None,
        Ask(
            metavar="FILE",
            calibrate="Write the machine's profile here (YAML).",
            fit="Write the fitted profile here (a complete YAML file).",
        ),
    ]
    blind: Annotated[
        bool,
        Ask(
            form="flag",
            calibrate=Use(
                "Also time models drawn at random and infer their size from their speed alone.",
                False,
            ),
        ),
    ]
    cases: Annotated[
        int | None,
        Ask(
            form="integer",
            least=1,
            most=1000,
            calibrate=f"Models of --blind. Default: {BLIND_CASES}.",
        ),
    ]
    threads: Annotated[
        int | None,
        Ask(
            form="integer",
            least=1,
            most=1024,
            calibrate="Threads of matrix products and of reading. Default: as NumPy uses them, "
            "all cores.",
        ),
    ]
