"""How many threads matrix products use; decided before NumPy is loaded, so nothing heavy here.

OpenBLAS shares a product of one token among cores only where the matrix has more than about half
a million numbers. On several threads the time of a byte therefore depends on the size of the
matrix that it belongs to (measured on two cores: 12 GB/s below, up to 25 GB/s above), and each
shared product waits for the slower core: where other programs run, for a time slice of the
scheduler. On one thread a byte is a byte.
"""

from __future__ import annotations

import os
from functools import cache

__all__ = ["VARIABLES", "blas_threads", "cores", "limit_threads", "with_all_cores"]

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Read once by the libraries, when they are loaded."""


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def blas_threads() -> int:
    """Threads of matrix products: what a library that is loaded now was told, else the cores."""
    told = [os.environ.get(name, "") for name in VARIABLES]
    return next((int(value) for value in told if value.isdecimal() and int(value)), cores())


def limit_threads(threads: int) -> None:
    """Let libraries that are loaded from now on use so many threads."""
    os.environ.update(dict.fromkeys(VARIABLES, str(threads)))


def with_all_cores() -> dict[str, str]:
    """The environment of a child whose matrix products use all cores."""
    return dict(os.environ) | dict.fromkeys(VARIABLES, str(cores()))
