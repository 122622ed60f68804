"""Products of a few tokens with a large weight matrix, at the speed of memory where BLAS can.

Measured on two cores with OpenBLAS 0.3.31: one token streams a matrix at 22-26 GB/s;
matrix-matrix products of two to six tokens drop to 7-11 GB/s, since BLAS packs the weights into
a second buffer, while blocks that stay in cache, used for each token in turn, keep 11-19. On
several threads a block that is too small for OpenBLAS to split runs on one core, at half the speed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from archinfer.calibration.moe.weights import Array
from archinfer.calibration.threads import blas_threads

CACHED = 1 << 19
"""Weights of a block on one thread, at most: 2 MiB, which a core's second-level cache holds."""
SHARED = 460_800
"""Weights from which on OpenBLAS shares a matrix-vector product among threads (its
interface/gemv.c)."""
SPLIT = 480_000
"""Weights of a block on several threads, at least: SHARED and a little more, and less than twice as
many, so that two caches hold it."""
FEW_TOKENS = 6
"""Up to this many tokens, blocks beat a matrix-matrix product."""


def linear(x: Array, weight: Array, out: Array, scratch: Array) -> None:
    """out = x weight^T.

    Args:
        x: (tokens, inputs).
        weight: (outputs, inputs), contiguous or the transpose of a contiguous matrix.
        out: (tokens, outputs), contiguous.
        scratch: (at least tokens * outputs), used for several tokens only.
    """
    tokens, rows = out.shape
    if tokens == 1:
        np.dot(x, weight.T, out=out)
    elif tokens > FEW_TOKENS:
        # (outputs, tokens): BLAS is faster with the long dimension as rows.
        transposed = scratch[: tokens * rows].reshape(rows, tokens)
        np.matmul(weight, x.T, out=transposed)
        out[...] = transposed.T
    elif weight.flags.c_contiguous:
        for part in _blocks(weight):
            for token in range(tokens):
                np.dot(weight[part], x[token], out=out[token, part])
    else:
        more = scratch[:rows]
        for part in _blocks(weight.T):
            for token in range(tokens):
                into = more if part.start else out[token]
                np.dot(x[token, part], weight.T[part], out=into)
                if part.start:
                    out[token] += more


def _blocks(matrix: Array) -> Iterator[slice]:
    """Rows of a matrix in equal blocks."""
    rows = len(matrix)
    count = -(-matrix.size // CACHED) if blas_threads() == 1 else max(matrix.size // SPLIT, 1)
    for block in range(count):
        yield slice(rows * block // count, rows * (block + 1) // count)
