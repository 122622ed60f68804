"""How many threads matrix products use; decided before NumPy is loaded, so nothing heavy here."""

from __future__ import annotations

import os
from functools import cache

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Read once by the libraries, when they are loaded."""
SHARED = 460_800
"""Weights from which on OpenBLAS shares a matrix-vector product among threads (its
interface/gemv.c)."""


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def blas_threads() -> int:
    """Threads of matrix products: what a library that is loaded now was told, else the cores."""
    values = [os.environ.get(name, "") for name in VARIABLES]
    return next((int(value) for value in values if value.isdecimal() and int(value)), cores())


def limit_threads(threads: int) -> None:
    """Let libraries that are loaded from now on use so many threads."""
    os.environ.update(dict.fromkeys(VARIABLES, str(threads)))
    blas_threads.cache_clear()


def shared_from() -> int:
    """Weights from which on several threads multiply a matrix; 0: there is one thread."""
    return SHARED if blas_threads() > 1 else 0
