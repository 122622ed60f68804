"""Simulation check of the joint posterior: coverage and widths with three observations.

Models and deployments are drawn from the prior. Speed, prefill and tokens a pass of each are drawn
together from what `archinfer.inference.observing` says of them: the same constants of the machine
and the same error of the model behind all three, and each with noise of its own. All three go back
through `infer`.

    python benchmarks/evidence_coverage.py [--hardware wse-3] [--nodes known] [--draws 300]

`--nodes` and what is printed: as `benchmarks/simulation_coverage.py`; `width` is the median of
p95 / p05. With `--sibling NAME` the evidence is the speed and that of a model of the catalogue on
the same service, and what the speed says alone is printed first. With `--lane` it is the speed and
that of the same model on 1 to 64 GPUs of one of three kinds, likewise. Exit code 1 where a coverage
of total, active or layers is off by more than 5 points.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace

import numpy as np
from simulation import simulate
from simulation_coverage import masses, within

from archinfer.hardware.profile import Hardware
from archinfer.inference.contradiction import UNLIKELY
from archinfer.inference.evidence import KINDS, Conditions, Deployment, Evidence, Piece
from archinfer.inference.infer import infer
from archinfer.solver.question import Question

TOLERANCE = 0.05
SIZES = ("total_params", "active_params", "layers")
ASKED = Evidence(
    (
        Piece("speed", 1.0),
        Piece("prefill", 1.0, KINDS["prefill"].spread, conditions=Conditions(prompt=32_000.0)),
        Piece("tokens_per_pass", 1.0, KINDS["tokens_per_pass"].spread),
    )
)


def run(
    hardware: str,
    nodes: tuple[int, int] | None,
    draws: int,
    seed: int,
    samples: int,
    evidence: Evidence = ASKED,
    used: int | None = None,
    target_ess: float | None = None,
) -> dict[str, object]:
    """Coverage and widths over `draws` simulated services; nodes None: each one's own.

    Of the pieces of `evidence` that are simulated the first `used` are inferred from.
    """
    profile = Hardware.load(hardware)
    asked = (1, 128) if nodes is None else nodes
    question = Question(profile, nodes=asked, observed=True)
    simulated = simulate(question, draws, seed, known_nodes=nodes is None, evidence=evidence)
    below, at = np.zeros((2, draws, len(SIZES)))
    widths = np.full((draws, len(SIZES)), np.nan)
    ess, seconds = np.zeros(draws), np.zeros(draws)
    alarms: list[str] = []
    for i, one in enumerate(simulated.questions):
        values = zip(evidence.pieces[:used], simulated.seen[i], strict=False)
        pieces = tuple(replace(piece, value=float(v)) for piece, v in values)
        started = time.process_time()
        lanes = evidence.deployments if len(pieces) == len(evidence.pieces) else ()
        told = Evidence(pieces, lanes)
        posterior = infer(one, samples, seed + i, target_ess=target_ess, evidence=told)
        seconds[i], ess[i] = time.process_time() - started, posterior.ess
        if posterior.contradictions or not posterior.possible:
            against = "; ".join(c.text for c in posterior.contradictions) or posterior.reason
            alarms.append(f"draw {i}: {against}")
        if not posterior.possible:
            continue
        for j, quantity in enumerate(SIZES):
            truth = float(getattr(simulated.truth, quantity)[i])
            below[i, j], at[i, j] = masses(posterior, quantity, truth)
            low, high = posterior.quantiles(quantity, (0.05, 0.95))
            widths[i, j] = high / low

    def named(values: np.ndarray) -> dict[str, float]:
        return dict(zip(SIZES, np.round(values, 3).tolist(), strict=True))

    return {
        "hardware": hardware,
        "nodes": "known" if nodes is None else list(nodes),
        "draws": draws,
        "seed": seed,
        "fair50": named(within(below, at, 0.5).mean(axis=0)),
        "fair90": named(within(below, at, 0.9).mean(axis=0)),
        "width": named(np.nanmedian(widths, axis=0)),
        "impossible": int((ess == 0.0).sum()),
        "false_alarms": {
            "services": len(alarms),
            "stated": round(UNLIKELY * draws * len(evidence.pieces[:used]), 2),
            "which": alarms,
        },
        "ess": {"p05": float(np.quantile(ess, 0.05)), "median": float(np.median(ess))},
        "seconds_each": float(seconds.mean()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hardware", default="wse-3")
    parser.add_argument("--nodes", default="known", help="known, 8 or 1:128")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--samples", type=int, default=16_384)
    parser.add_argument(
        "--ess", type=float, help="draws that count; fewer widen nothing, and cost less"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sibling", help="a known model on the same service")
    parser.add_argument("--lane", action="store_true", help="the same model on unknown GPUs too")
    args = parser.parse_args()
    nodes = None
    if args.nodes != "known":
        low, _, high = args.nodes.partition(":")
        nodes = int(low), int(high or low)
    asked = args.hardware, nodes, args.draws, args.seed, args.samples
    if args.sibling or args.lane:
        alone = Piece("speed", 1.0)
        both = Evidence((alone, replace(alone, model=args.sibling or "")))
        if args.lane:
            gpus = tuple(Hardware.load(name) for name in ("h100-sxm", "h200-sxm", "b200"))
            usual = Deployment("usual lane", gpus, (1, 64))
            both = Evidence((alone, replace(alone, deployment=usual.name)), (usual,))
        print(json.dumps(run(*asked, both, 1), indent=2))
        result = run(*asked, both)
    else:
        result = run(*asked, target_ess=args.ess)
    print(json.dumps(result, indent=2))
    worst = max(
        abs(value - nominal)
        for key, nominal in (("fair50", 0.5), ("fair90", 0.9))
        for value in result[key].values()
    )
    print(f"largest gap of a coverage {100 * worst:.1f} points", file=sys.stderr)
    return int(worst > TOLERANCE + 1e-9)


if __name__ == "__main__":
    sys.exit(main())
