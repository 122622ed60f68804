"""Evaluations per second of a sweep: many architectures through `predict` in one call.

python benchmarks/sweep.py [--architectures 1000000] [--hardware wse-3] [--profile]

One evaluation is one architecture: memory, fit, fewest nodes, time by term, and the speed with
its interval. Pin it to one core (taskset -c 0) and set OMP_NUM_THREADS=1 to measure one core.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

import numpy as np

from archinfer import Deployment, FamilyRules, Hardware, Prediction, family_shape, predict


def sweep(hardware: Hardware, deployment: Deployment, count: int, seed: int = 0) -> Prediction:
    """`count` random architectures; every figure that the report below reads is computed."""
    rng = np.random.default_rng(seed)
    active = np.exp(rng.uniform(np.log(1e9), np.log(4e11), count))
    total = active * np.exp(rng.uniform(0.0, np.log(32.0), count))
    layers = rng.integers(16, 126, count).astype(float)
    shape = family_shape(total, active, layers, FamilyRules())
    found = predict(shape, hardware, deployment)
    assert len(found.speed[0]) == count
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architectures", type=int, default=1_000_000)
    parser.add_argument("--hardware", default="wse-3")
    parser.add_argument("--nodes", type=int, default=88)
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    asked = parser.parse_args()
    hardware = Hardware.load(asked.hardware)
    deployment = Deployment(nodes=asked.nodes, weights="fp8", accepted_low=1.0, accepted_high=3.0)
    sweep(hardware, deployment, 1000)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        found = sweep(hardware, deployment, asked.architectures)
        times.append(time.perf_counter() - start)
    best = min(times)
    print(
        f"{asked.hardware}: {asked.architectures:,} architectures in {best:.3f} s: "
        f"{asked.architectures / best / 1e6:.2f} million a second "
        f"({np.mean(found.fits):.0%} fit)"
    )
    if asked.profile:
        profile = cProfile.Profile()
        profile.runcall(sweep, hardware, deployment, asked.architectures)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
