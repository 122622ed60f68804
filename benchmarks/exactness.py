"""A million random points: what the region's edges say against the constraints themselves.

Questions with one constant drawn over orders of magnitude, on every shipped profile, on profiles
whose constants are all drawn, each slice at points most of which lie beside its ends; and four
questions of their own over every mapping.

    python benchmarks/exactness.py [POINTS [SEED]]

Prints points, points inside, and what differs farther than 1e-6 from an edge (nothing may).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from archinfer.hardware.profile import Hardware
from archinfer.models.solver_family import FamilyRules
from archinfer.solver.question import Question
from archinfer.solver.region import solve
from tests.exactness import (
    CONSTANTS,
    Agreement,
    agreement,
    by_slice,
    random_hardware,
    random_question,
)

QUESTION_POINTS = 4000
"""Points of each question with constants of a profile at random values."""

RANDOM_PROFILES = 50


def _asked() -> dict[str, Question]:
    """Questions of their own, each of which gets a hundredth of all points."""
    founding = Question(Hardware.load("wse-3"))
    gpus = Question(
        Hardware.load("b200"), (1, 64), 20.0, concurrency=40, context_tokens=32_000,
        rules=FamilyRules("mla"),
    )  # fmt: skip
    return {
        "founding, target": founding,
        "founding, observed": founding.with_(observed=True),
        "physics only, 70 to 100 wafers": founding.with_(habits=None, nodes=(70, 100)),
        "latent cache of 40 users on GPUs": gpus,
    }


def _drawn(
    points: int, seed: int, constant: str | None = None, hardware: Hardware | None = None
) -> Agreement:
    """Random questions, `QUESTION_POINTS` of each, until all points are spent."""
    rng = np.random.default_rng(seed)
    found: list[Agreement] = []
    while sum(f.points for f in found) < points:
        found.append(by_slice(random_question(rng, constant, hardware), QUESTION_POINTS, rng))
        if found[-1].differing:
            print(f"  differs: question {len(found)} of seed {seed}, {constant or hardware}")
    return Agreement(
        *(sum(getattr(f, n) for f in found) for n in ("points", "inside", "differing"))
    )


def main() -> int:
    """Run every question; the exit code is 1 if any point differs."""
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    parts: list[tuple[str, Callable[[], Agreement]]] = []
    machines, rng = Hardware.names(), np.random.default_rng(seed + 1)
    shares = {"constants": 0.2 / len(CONSTANTS), "shipped": 0.4 / len(machines)}
    for constant in CONSTANTS:
        share = int(points * shares["constants"])
        parts.append((constant, partial(_drawn, share, seed + len(parts), constant)))
    for name in machines:
        share = int(points * shares["shipped"])
        parts.append((name, partial(_drawn, share, seed + len(parts), None, Hardware.load(name))))
    for i in range(RANDOM_PROFILES):
        name = str(rng.choice(machines))
        hardware, share = random_hardware(rng, name), int(0.36 * points) // RANDOM_PROFILES
        part = partial(_drawn, share, seed + len(parts), None, hardware)
        parts.append((f"{name} at random, {i}", part))
    for name, question in _asked().items():
        parts.append((name, partial(agreement, solve(question), points // 100, seed)))
    total = wrong = 0
    for name, part in parts:
        start = time.perf_counter()
        found = part()
        total, wrong = total + found.points, wrong + found.differing
        print(
            f"{name}: {found.points:,} points, {found.inside:,} inside, {found.differing} differ "
            f"({time.perf_counter() - start:.0f} s)",
            flush=True,
        )
    print(f"in all: {total:,} points, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
