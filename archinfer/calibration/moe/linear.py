"""Products of a few tokens with a large weight matrix, at the speed of memory where NumPy can.

Measured on two cores of an AMD EPYC with OpenBLAS 0.3.31, matrices out of memory. One core that
takes a dot product a row reads at 28 to 31 GB/s whatever the matrix. OpenBLAS's matrix-vector
product reads several rows at a time and starts each of them anew: at 10 to 14 GB/s with rows of
256 to 768 numbers, 16 to 20 with longer ones, and on two cores at twice that, so that these win
where a matrix is shared out and its rows are long, at 32 to 37 GB/s: one whose rows are short lies
in memory the other way round then. Matrix-matrix products of two to six tokens pack the weights
first, at 5 to 12 GB/s; blocks that stay in cache, used for each token in turn, keep 7 to 23.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from archinfer.calibration.moe.weights import Array
from archinfer.calibration.threads import shared_from

CACHED = 1 << 19
"""Weights of a block on one core, at most: 2 MiB."""
SPLIT = 480_000
"""Weights of a block on several threads, at least: SHARED and a little more, and less than twice as
many, so that two caches hold it."""
FUSED = 4096
"""Numbers of all tokens up to which a row is multiplied with each in turn: half of a first-level
cache."""
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
    if tokens > FEW_TOKENS:
        # (outputs, tokens): BLAS is faster with the long dimension as rows.
        transposed = scratch[: tokens * rows].reshape(rows, tokens)
        np.matmul(weight, x.T, out=transposed)
        out[...] = transposed.T
        return
    turned = not weight.flags.c_contiguous
    shared = turned or 0 < shared_from() <= weight.size
    product = np.dot if shared else _dots
    if tokens == 1:
        product(weight, x[0], out[0])
        return
    if turned:
        more = scratch[:rows]
        for part in _blocks(weight.T, shared):
            for token in range(tokens):
                into = more if part.start else out[token]
                np.dot(x[token, part], weight.T[part], out=into)
                if part.start:
                    out[token] += more
        return
    if not shared and x.size < FUSED:
        across = scratch[: tokens * rows].reshape(rows, tokens)
        np.matmul(weight[:, None, None], x[:, :, None], out=across[..., None, None])
        out[...] = across.T
        return
    for part in _blocks(weight, shared):
        for token in range(tokens):
            product(weight[part], x[token], out[token, part])


def _dots(weight: Array, x: Array, out: Array) -> None:
    """out = weight x, a dot product for each row, on one core."""
    np.matmul(weight[:, None], x[:, None], out=out[:, None, None])


def _blocks(matrix: Array, shared: bool) -> Iterator[slice]:
    """Rows of a matrix in equal blocks."""
    rows = len(matrix)
    count = max(matrix.size // SPLIT, 1) if shared else -(-matrix.size // CACHED)
    for block in range(count):
        yield slice(rows * block // count, rows * (block + 1) // count)
