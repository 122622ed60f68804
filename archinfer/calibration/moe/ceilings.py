"""What this machine's memory could do at best: several kernels that read it.

The fastest of them is what counts, so that a model's speed is never flattered by a slow yardstick.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from archinfer.calibration.moe.weights import Array
from archinfer.calibration.threads import blas_threads

READ_COLUMNS = 2048
"""Row length of the matrices that the reading kernels see."""
ROWS = 2048
"""Rows of one such matrix: 16 MiB, the size of a layer's matrix."""


def buffer(size_bytes: float) -> Array:
    """About so many bytes of float32 ones, to be read: (matrices, ROWS, READ_COLUMNS)."""
    matrices = max(round(size_bytes / (4 * ROWS * READ_COLUMNS)), 1)
    return np.ones((matrices, ROWS, READ_COLUMNS), dtype=np.float32)


def read_kernels(memory: Array, pool: ThreadPoolExecutor) -> dict[str, Callable[[], object]]:
    """Ways to read all of `memory` once, by name; each returns the last that it computed.

    Args:
        memory: from `buffer`.
        pool: as many threads as matrix products use.
    """
    x = np.ones((1, READ_COLUMNS), dtype=np.float32)
    out = np.empty((1, ROWS), dtype=np.float32)
    flat = memory.reshape(-1)
    parts = np.array_split(flat, blas_threads())

    def products() -> Array:
        for matrix in memory:
            np.dot(x, matrix.T, out=out)
        return out

    def one_product() -> Array:
        return np.asarray(np.dot(flat.reshape(-1, READ_COLUMNS), x[0]))

    def maxima() -> list[np.float32]:
        return list(pool.map(np.max, parts))

    def sums() -> list[np.float32]:
        return list(pool.map(np.sum, parts))

    def dots() -> list[np.float32]:
        return list(pool.map(lambda part: np.dot(part, part), parts))

    return {
        "matrix-vector products": products,
        "one matrix-vector product": one_product,
        "maximum": maxima,
        "sum": sums,
        "dot product": dots,
    }
