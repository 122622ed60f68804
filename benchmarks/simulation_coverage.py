"""Simulation check of the posterior: coverage of its 50 % and 90 % intervals.

Models and deployments are drawn from the prior, their speeds simulated with the spread of the
profile's constants and model error, and each speed (with the number of nodes) goes back through
`infer`. The share of draws whose truth lies in an interval must be the interval's nominal mass.

    python benchmarks/simulation_coverage.py [--hardware wse-3] [--draws 500] [--seed 1]

Exit code 1 where a coverage is off by more than 4 points: 500 draws have a
standard error of 2.2 points at 50 % and 1.3 at 90 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np

from archinfer.hardware import Hardware
from archinfer.inference import QUANTITIES, Posterior, infer, simulate
from archinfer.question import Question

TOLERANCE = 0.04


def rank(posterior: Posterior, quantity: str, truth: float, u: float) -> float:
    """Posterior probability below the truth; u of [0, 1) splits what lies at it.

    Uniform over simulated truths if and only if the posterior is calibrated, for whole numbers
    (layers, nodes) as well, where an interval's ends would count ties twice.
    """
    values, weights = posterior.density(quantity)
    below = float(weights[values < truth].sum())
    at = float(weights[values == truth].sum())
    return below + u * at


def run(hardware: str, nodes: tuple[int, int], draws: int, seed: int, samples: int) -> dict:
    question = Question(Hardware.load(hardware), nodes=nodes, observed=True)
    simulated = simulate(question, draws, seed)
    rng = np.random.default_rng(seed + 1)
    ranks = np.empty((draws, len(QUANTITIES)))
    ess = np.empty(draws)
    impossible = 0
    started = time.perf_counter()
    for i, asked in enumerate(simulated.questions):
        posterior = infer(asked, samples, seed=seed + i)
        ess[i] = posterior.ess
        if not posterior.possible:
            impossible += 1
            ranks[i] = 0.0
            continue
        for j, quantity in enumerate(QUANTITIES):
            truth = float(getattr(simulated.truth, quantity)[i])
            ranks[i, j] = rank(posterior, quantity, truth, rng.random())
    seconds = time.perf_counter() - started

    def coverage(mass: float) -> dict[str, float]:
        inside = np.abs(ranks - 0.5) <= 0.5 * mass
        return dict(zip(QUANTITIES, inside.mean(axis=0).round(4).tolist(), strict=True))

    return {
        "hardware": hardware,
        "draws": draws,
        "seed": seed,
        "coverage50": coverage(0.5),
        "coverage90": coverage(0.9),
        "ess": {
            "least": float(ess.min()),
            "p05": float(np.quantile(ess, 0.05)),
            "median": float(np.median(ess)),
        },
        "impossible": impossible,
        "seconds_each": seconds / draws,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hardware", default="wse-3")
    parser.add_argument("--nodes", type=int, default=8, help="nodes of temporal hardware")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--samples", type=int, default=16_384)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    result = run(args.hardware, (args.nodes, args.nodes), args.draws, args.seed, args.samples)
    print(json.dumps(result, indent=2))
    worst = max(
        abs(value - nominal)
        for key, nominal in (("coverage50", 0.5), ("coverage90", 0.9))
        for value in result[key].values()
    )
    print(f"largest gap {100 * worst:.1f} points", file=sys.stderr)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
