"""How many threads matrix products use; decided before NumPy is loaded, so nothing heavy here.

Products that are split over all cores wait for the slowest part. Where other programs run as well,
a part waits for a core, and one product can take as long as a scheduler's time slice: a hundred
times its own. One thread is then faster, and far steadier.
"""

from __future__ import annotations

import os

__all__ = ["VARIABLES", "limit_threads", "threads_for"]

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Read once by the libraries, when they are loaded."""

BUSY = 0.75
"""Load average of others, in cores, from which the machine counts as shared."""


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(asked: int | None) -> tuple[int, str]:
    """Threads to use and why: those asked for, those of the environment, 1 on a busy machine,
    else all cores."""
    if asked is not None:
        return asked, "as asked"
    for name in VARIABLES:
        value = os.environ.get(name, "")
        if value.isdecimal() and int(value) > 0:
            return int(value), f"{name}={value}"
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        load = 0.0
    if cores() > 1 and load > BUSY:
        return 1, f"other programs keep {load:.1f} cores busy"
    return cores(), "all cores"


def limit_threads(threads: int) -> None:
    """Let libraries that are loaded from now on use so many threads."""
    os.environ.update(dict.fromkeys(VARIABLES, str(threads)))
