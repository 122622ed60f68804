"""A million random points: what the region's edges say against the constraints themselves.

    python benchmarks/exactness.py [POINTS]

Prints points, points inside, and points that differ farther than 1e-6 from an edge (none may).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from archinfer.hardware.profile import Hardware
from archinfer.models.family import FamilyRules
from archinfer.solver.question import Question
from archinfer.solver.region import solve
from tests.exactness import CONSTANTS, agreement, random_question

QUESTION_POINTS = 500
"""Points of each question with a constant of the profile at a random value; a tenth of all points
are spent on those."""


def main() -> int:
    """Run every question; the exit code is 1 if any point differs."""
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    founding = Question(Hardware.load("wse-3"))
    questions = {
        "founding, target": founding,
        "founding, observed": founding.with_(observed=True),
        "physics only, 70 to 100 wafers": founding.with_(habits=None, nodes=(70, 100)),
        "latent cache of 40 users on GPUs": Question(
            Hardware.load("b200"),
            nodes=(1, 64),
            tokens_per_s=20.0,
            concurrency=40,
            context_tokens=32_000,
            rules=FamilyRules("mla"),
        ),
    }
    wrong = 0
    rng = np.random.default_rng(0)
    for constant in CONSTANTS:
        found = [
            agreement(region, QUESTION_POINTS, seed)
            for seed in range(max(1, points // 10 // QUESTION_POINTS // len(CONSTANTS)))
            if (region := solve(random_question(rng, constant))).feasible
        ]
        differing = sum(f.differing for f in found)
        wrong += differing
        print(
            f"{constant}: {len(found)} questions, {sum(f.points for f in found):,} points, "
            f"{sum(f.inside for f in found):,} inside, {differing} differ",
            flush=True,
        )
    for name, question in questions.items():
        start = time.perf_counter()
        region = solve(question)
        solved = time.perf_counter()
        differing = inside = done = 0
        for seed in range(10):
            found = agreement(region, points // 10, seed)
            done += found.points
            inside += found.inside
            differing += found.differing
        wrong += differing
        print(
            f"{name}: {done:,} points, {inside:,} inside, {differing} differ "
            f"(solve {solved - start:.3f} s, comparison {time.perf_counter() - solved:.0f} s)",
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
