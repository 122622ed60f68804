"""Held-out errors and the blind test, several times over: how well this machine gives models away.

Each run calibrates afresh and then infers models that the run before did not see. A run whose
machine was too noisy is counted and says so.

    python benchmarks/blind.py [--runs 3] [--cases 20] [--quick] [--threads N] [--seed 0]

Wants a quiet machine and NumPy's own OpenBLAS kernels: where OPENBLAS_CORETYPE and
OPENBLAS_L2_SIZE are set, unset both for this command.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

COVERAGE = 0.8
WIDTH = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description="held-out errors and blind test")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--memory", type=float, default=4e9)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    from archinfer.calibration.threads import blas_threads, limit_threads

    limit_threads(args.threads or blas_threads())

    from archinfer.calibration.blind import blind_test
    from archinfer.calibration.calibrate import calibrate
    from archinfer.calibration.measure import Settings
    from archinfer.errors import MeasurementError

    noisy, good = 0, 0
    for run in range(args.runs):
        settings = Settings(args.quick, args.memory, args.seed + run)
        load = os.getloadavg()[0]
        try:
            found = calibrate(settings)
        except MeasurementError as error:
            noisy += 1
            print(f"run {run}, load {load:.1f}: {error}")
            continue
        held, jitter = found.run.heldout, found.run.jitter
        print(
            f"run {run}, load {load:.1f}: held-out shapes off by {held.median_error:.1%} in the "
            f"median, {held.worst_error:.1%} at worst; decode at {found.bandwidth.fraction:.1%} "
            f"of reading; repeats differ by {jitter:.0%}",
            flush=True,
        )
        try:
            tested = blind_test(settings, args.cases)
        except MeasurementError as error:
            noisy += 1
            print(f"  {error}")
            continue
        print(f"  region holds {tested.coverage_region:.0%} of {tested.cases} models")
        for name in ("total_params", "active_params", "layers"):
            s = tested.quantities[name]
            print(
                f"  {name:14} inside 90 %: {s.coverage90:.0%}, width x {s.median_width:.2f} "
                f"(before x {s.prior_width:.2f}), {s.information_bits:.2f} bits; region: "
                f"{s.coverage_region:.0%}, x {s.region_width:.2f}",
                flush=True,
            )
        active = tested.quantities["active_params"]
        good += (
            tested.to_dict()["coverage90"] >= COVERAGE
            and tested.coverage_region >= COVERAGE
            and active.median_width <= WIDTH
        )
    print(
        f"{good} of {args.runs - noisy} runs with every coverage of at least {COVERAGE:.0%} and "
        f"active parameters within x {WIDTH:g}; {noisy} too noisy"
    )
    return 0 if good == args.runs - noisy and good else 1


if __name__ == "__main__":
    sys.exit(main())
