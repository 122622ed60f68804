"""What this machine could do at best: reading memory and multiplying matrices.

Both are measured with the best of several kernels, so that a model's speed is never flattered by
a slow yardstick.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from archinfer.calibration.moe.weights import Array

__all__ = ["READ_COLUMNS", "buffer", "matmul_flops_per_s", "read_bytes_per_s", "read_kernels"]

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
        pool: one thread for each core.
    """
    x = np.ones((1, READ_COLUMNS), dtype=np.float32)
    out = np.empty((1, ROWS), dtype=np.float32)
    flat = memory.reshape(-1)
    threads = os.cpu_count() or 1
    parts = np.array_split(flat, threads)

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


def read_bytes_per_s(memory: Array, repeats: int = 5) -> dict[str, float]:
    """Bytes per second at which all cores read `memory`, by kernel; median of `repeats`.

    `memory` should be several times the last-level cache; see `buffer`.
    """
    times: dict[str, list[float]] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        kernels = read_kernels(memory, pool)
        for _ in range(repeats):
            for name, kernel in kernels.items():
                times.setdefault(name, []).append(_seconds(kernel))
    return {name: memory.nbytes / float(np.median(t)) for name, t in times.items()}


def matmul_flops_per_s(size: int = 2048, repeats: int = 5) -> float:
    """FLOPs per second of a square float32 matrix product, median of `repeats`."""
    a = np.ones((size, size), dtype=np.float32)
    out = np.empty_like(a)
    np.matmul(a, a, out=out)
    times = [_seconds(lambda: np.matmul(a, a, out=out)) for _ in range(repeats)]
    return 2.0 * size**3 / float(np.median(times))


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
