"""Constants fitted on one machine, put on another without a refit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from typing_extensions import TypedDict

from archinfer.fitting.cases import prepare_all
from archinfer.fitting.fit import fit_rows
from archinfer.fitting.observations import Observation
from archinfer.fitting.prior import fit_prior
from archinfer.hardware.profile import Hardware
from archinfer.physics.decode import decode_time
from archinfer.record import Described


def error(observed: float, predicted: float) -> float:
    """exp(|ln(observed / predicted)|) - 1: the ratio's excess over 1, taken on the larger side."""
    return float(np.exp(abs(np.log(observed / predicted))) - 1.0)


class TransferredRow(TypedDict):
    """One published speed, predicted by constants of another machine."""

    id: str
    observed: float
    predicted: float
    error: Annotated[float, Described("exp(|ln ratio|) - 1")]


Transfer = TypedDict(
    "Transfer",
    {
        "from": Annotated[str, Described("profile whose rows were fitted")],
        "to": str,
        "fitted_on": Annotated[int, Described("rows")],
        "constants": dict[str, float],
        "rows": list[TransferredRow],
        "worst_abs_error": float,
    },
)
"""Constants fitted on one machine and put on another without a refit."""


def transfer(source: Hardware, target: Hardware, rows: Sequence[Observation]) -> Transfer | None:
    """Constants fitted on one machine, put on another without a refit.

    Args:
        source: profile whose rows are fitted.
        target: profile whose rows are predicted: those known to be without speculation and on
            a known number of nodes.
        rows: observations of both.

    Returns:
        None without rows to predict.
    """
    own = [r for r in rows if r.profile == source.name and r.fitted]
    plain = [
        r
        for r in rows
        if r.profile == target.name and r.speculative is False and r.nodes is not None
    ]
    if not own or not plain:
        return None
    fit, _ = fit_rows(source, own)
    carried = {n: v for n, v in fit.constants.items() if not n.startswith("link.")}
    beliefs = fit_prior(target).constants
    centre = {name: float(np.exp(mean)) for name, (mean, _) in beliefs.items()}
    hardware = target.with_constants(centre | carried)
    out: list[TransferredRow] = []
    for case in prepare_all(plain, hardware):
        time = decode_time(hardware, case.workload, case.mapping, case.side)
        speed, observed = 1.0 / float(np.ravel(time.total)[0]), case.row.tokens_per_s
        missed = error(observed, speed)
        out.append({"id": case.row.id, "observed": observed, "predicted": speed, "error": missed})
    return {
        "from": source.name,
        "to": target.name,
        "fitted_on": len(own),
        "constants": carried,
        "rows": out,
        "worst_abs_error": max(row["error"] for row in out),
    }
