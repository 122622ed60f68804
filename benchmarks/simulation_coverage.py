"""Simulation check of the posterior: coverage of its 50 % and 90 % intervals.

Models and deployments are drawn from the prior, their speeds simulated with the spread of the
profile's constants and model error, and each speed goes back through `infer`. The share of draws
whose truth lies in an interval must be the interval's nominal mass.

    python benchmarks/simulation_coverage.py [--hardware wse-3] [--nodes known] [--draws 500]

`--nodes`: "known" (spatial hardware: each draw's own number is told), or a number or range within
which the nodes are.

Layers and nodes are whole numbers. An interval of whole numbers cannot have exactly 50 % of the
mass: with ends that count as inside it holds at least as much, and more the fewer values there
are (one wafer of one or two covers nearly always). So two coverages are given:

- "printed": truth inside the printed interval, ends rounded outwards and inside. At least
  nominal for whole numbers, by their granularity.
- "fair": truth's rank within 25 to 75 % (5 to 95 %), where the posterior mass at the truth itself
  counts by the part of it that lies within (probability integral transform for counts; Czado,
  Gneiting, Held, "Predictive model assessment for count data", Biometrics 65, 2009). Nominal if
  the posterior is calibrated, for whole numbers too.

"uniform_p_value": of a Kolmogorov-Smirnov test that the ranks are uniform, ties split at random.

Exit code 1 where a fair coverage is off by more than 4 points: 500 draws have a standard error of
2.2 points at 50 % and 1.3 at 90 %, so that of a calibrated posterior's four quantities one is
off by more than that in about one run of four.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
from scipy.stats import kstest
from simulation import simulate

from archinfer.hardware.profile import Hardware
from archinfer.inference.batch import QUANTITIES
from archinfer.inference.infer import infer
from archinfer.inference.posterior import Posterior
from archinfer.solver.question import Question

TOLERANCE = 0.04


def masses(posterior: Posterior, quantity: str, truth: float) -> tuple[float, float]:
    """Posterior probability below the truth, and at it (whole numbers)."""
    values, weights = posterior.density(quantity)
    return float(weights[values < truth].sum()), float(weights[values == truth].sum())


def within(below: np.ndarray, at: np.ndarray, mass: float) -> np.ndarray:
    """Part of the ranks from `below` to `below + at` inside the central `mass`."""
    low, high = 0.5 - 0.5 * mass, 0.5 + 0.5 * mass
    at = np.maximum(at, 1e-12)
    return np.clip(np.minimum(below + at, high) - np.maximum(below, low), 0.0, None) / at


def run(
    hardware: str,
    nodes: tuple[int, int] | None,
    draws: int,
    seed: int,
    samples: int,
    target_ess: float | None = None,
) -> dict[str, object]:
    """Coverage over `draws` simulated speeds; nodes None: each draw's own."""
    profile = Hardware.load(hardware)
    asked = (1, 128) if nodes is None else nodes
    question = Question(profile, nodes=asked, observed=True)
    simulated = simulate(question, draws, seed, known_nodes=nodes is None)
    rng = np.random.default_rng(seed + 1)
    below, at = np.zeros((2, draws, len(QUANTITIES)))
    printed = np.zeros((2, draws, len(QUANTITIES)))
    ess = np.empty(draws)
    impossible = 0
    started = time.perf_counter()
    for i, one in enumerate(simulated.questions):
        posterior = infer(one, samples, seed + i, target_ess=target_ess)
        ess[i] = posterior.ess
        if not posterior.possible:
            impossible += 1
            continue
        for j, quantity in enumerate(QUANTITIES):
            truth = float(getattr(simulated.truth, quantity)[i])
            below[i, j], at[i, j] = masses(posterior, quantity, truth)
            p05, p25, p75, p95 = posterior.quantiles(quantity, (0.05, 0.25, 0.75, 0.95))
            printed[:, i, j] = p25 <= truth <= p75, p05 <= truth <= p95
    seconds = time.perf_counter() - started

    def by_quantity(values: np.ndarray) -> dict[str, float]:
        return dict(zip(QUANTITIES, np.round(values, 4).tolist(), strict=True))

    def fair(mass: float) -> dict[str, float]:
        return by_quantity(within(below, at, mass).mean(axis=0))

    ranks = below + rng.random(at.shape) * at

    return {
        "hardware": hardware,
        "nodes": "known" if nodes is None else list(nodes),
        "draws": draws,
        "seed": seed,
        "fair50": fair(0.5),
        "fair90": fair(0.9),
        "uniform_p_value": by_quantity(np.array([kstest(r, "uniform").pvalue for r in ranks.T])),
        "printed50": by_quantity(printed[0].mean(axis=0)),
        "printed90": by_quantity(printed[1].mean(axis=0)),
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
    parser.add_argument("--nodes", help="known, 8 or 1:128 (default: known on wafers, else 8)")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--samples", type=int, default=16_384)
    parser.add_argument(
        "--ess", type=float, help="draws that count; fewer widen nothing, and cost less"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    spatial = Hardware.load(args.hardware).spatial
    text = args.nodes or ("known" if spatial else "8")
    nodes = None
    if text != "known":
        low, _, high = text.partition(":")
        nodes = int(low), int(high or low)
    elif not spatial:
        parser.error("known nodes are those of wafers: give a number or a range")
    result = run(args.hardware, nodes, args.draws, args.seed, args.samples, args.ess)
    print(json.dumps(result, indent=2))
    worst = max(
        abs(value - nominal)
        for key, nominal in (("fair50", 0.5), ("fair90", 0.9))
        for value in result[key].values()
    )
    print(
        f"largest gap of a fair coverage {100 * worst:.1f} points; printed intervals of "
        "whole numbers (layers, nodes) cover more than nominal because their ends are inside",
        file=sys.stderr,
    )
    return int(worst > TOLERANCE + 1e-9)


if __name__ == "__main__":
    sys.exit(main())
