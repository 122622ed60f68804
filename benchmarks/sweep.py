"""Evaluations per second of a sweep: many architectures through `predict` in one call.

python benchmarks/sweep.py [--architectures 1000000] [--hardware wse-3] [--profile]

One evaluation is one architecture: shape, memory, fit, fewest nodes, time by term, and the speed
with its interval. Processor time is counted, so that a busy machine matters less; set
OMP_NUM_THREADS=1 and pin it (taskset -c 0) to measure one core.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

import numpy as np

from archinfer import Deployment, FamilyRules, Hardware, Prediction, family_shape, predict
from archinfer.models.shape import FloatArray


def sizes(count: int, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Random total and active parameters and layers."""
    rng = np.random.default_rng(seed)
    active = np.exp(rng.uniform(np.log(1e9), np.log(4e11), count))
    total = active * np.exp(rng.uniform(0.0, np.log(32.0), count))
    return total, active, rng.integers(16, 126, count).astype(float)


def sweep(
    hardware: Hardware, deployment: Deployment, models: tuple[FloatArray, FloatArray, FloatArray]
) -> Prediction:
    """Every architecture in one call, speeds included."""
    found = predict(family_shape(*models, FamilyRules()), hardware, deployment)
    assert len(found.speed[0]) == len(models[0])
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
    models = sizes(asked.architectures)
    sweep(hardware, deployment, sizes(1000))
    times = []
    for _ in range(3):
        start = time.process_time()
        found = sweep(hardware, deployment, models)
        times.append(time.process_time() - start)
    best = min(times)
    print(
        f"{asked.hardware}: {asked.architectures:,} architectures in {best:.3f} s "
        f"of processor time: {asked.architectures / best / 1e6:.2f} million a second "
        f"({np.mean(found.fits):.0%} fit)"
    )
    if asked.profile:
        profile = cProfile.Profile()
        profile.runcall(sweep, hardware, deployment, models)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
