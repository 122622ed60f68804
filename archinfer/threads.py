"""How many threads matrix products use; decided before NumPy is loaded, so nothing heavy here.

OpenBLAS shares a product of one token among cores only where the matrix has more than about half
a million numbers. On several threads the time of a byte therefore depends on the size of the
matrix that it belongs to (measured on two cores: 12 GB/s below, up to 25 GB/s above), and each
shared product waits for the slower core: where other programs run, for a time slice of the
scheduler. On one thread a byte is a byte.
"""

from __future__ import annotations

import os

__all__ = ["VARIABLES", "cores", "limit_threads", "with_all_cores"]

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Read once by the libraries, when they are loaded."""


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_threads(threads: int) -> None:
    """Let libraries that are loaded from now on use so many threads."""
    os.environ.update(dict.fromkeys(VARIABLES, str(threads)))


def with_all_cores() -> dict[str, str]:
    """The environment of a child whose matrix products use all cores."""
    return dict(os.environ) | dict.fromkeys(VARIABLES, str(cores()))
