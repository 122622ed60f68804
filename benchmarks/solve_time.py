"""How long the founding question takes: the solver alone, the process, and --help.

    python benchmarks/solve_time.py

Each figure is the least of several runs, beside `python -c "import typer"` and
`python -c "import numpy"` timed in turn with them: on a noisy machine read the ratios.
"""

from __future__ import annotations

import subprocess
import sys
import time


def fastest(command: list[str], runs: int = 9) -> float:
    """Seconds of the fastest of `runs` runs."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Print the table."""
    from archinfer.hardware.profile import Hardware
    from archinfer.solver.question import Question
    from archinfer.solver.region import solve

    founding = Question(Hardware.load("wse-3"))
    questions = {
        "founding": founding,
        "founding, observed": founding.with_(observed=True),
        "founding, 70:100 wafers": founding.with_(nodes=(70, 100)),
        "founding, physics only": founding.with_(habits=None),
    }
    for name, question in questions.items():
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            region = solve(question)
            best = min(best, time.perf_counter() - start)
        print(f"solver, {name}: {best:.3f} s, {len(region.slices):,} slices")
    typer = fastest(["-c", "import typer"])
    for name, command in {
        "import typer": ["-c", "import typer"],
        "import numpy": ["-c", "import numpy"],
        "archinfer --help": ["-m", "archinfer", "--help"],
        "archinfer solve": ["-m", "archinfer", "solve"],
        "archinfer solve --observed 750 --nodes 88": [
            *("-m", "archinfer", "solve", "--observed", "750", "--nodes", "88")
        ],
    }.items():
        seconds = fastest(command)
        print(f"{name}: {seconds:.3f} s, {seconds / typer:.2f} x import typer")


if __name__ == "__main__":
    main()
