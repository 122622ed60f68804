"""Times decode steps and the machine's ceilings, in turns.

Everything that is timed goes through `Bench`, so that a calibration can also run on timings that
nobody measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from archinfer.calibration.design import BITS, ROOM_TOKENS, Point
from archinfer.calibration.moe.config import MoEConfig
from archinfer.calibration.moe.counters import Counters
from archinfer.calibration.moe.decoder import PASS_TOKENS, Decoder
from archinfer.calibration.moe.linear import linear
from archinfer.calibration.moe.weights import Array, Weights
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


LOW_QUANTILE = 0.05
"""What counts of repeated times: whatever disturbs a run makes it slower, never faster, and on a
shared machine the median says more about the neighbours than about the machine."""

EVICT_BYTES = 300e6
"""Read between two steps of one model, at least: the weights of a step come from memory, as those
of a model much larger than the caches do."""

MATMUL = 1024
PRODUCT_MACS = 1e8
ROUTING_PROMPT = 8


def low(times: Sequence[float]) -> float:
    """The time that counts of repeated ones: their 5 % quantile."""
    return float(np.quantile(np.asarray(times), LOW_QUANTILE))


class Bench:
    """This machine, on as many threads as its matrix products use; a test may put another in its
    place."""

    def __init__(self) -> None:
        self._decoders: dict[Point, Decoder] = {}
        self._readers: dict[tuple[MoEConfig, int], Decoder] = {}
        self._buffer: Array | None = None
        self._at = 0
        self._part: Array = np.empty((0, 0, 0), dtype=np.float32)
        self._touched = 0.0
        self._before: dict[Point, float] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._matrix: Array = np.ones((MATMUL, MATMUL), dtype=np.float32)
        self._product: Array = np.empty_like(self._matrix)

    def now(self) -> float:
        """Seconds on a clock."""
        return time.perf_counter()

    def open(self, buffer_bytes: float) -> None:
        """Get ready to read: allocate the buffer."""
        self._pool = ThreadPoolExecutor(blas_threads())
        self._buffer = buffer(buffer_bytes)
        self._at = 0

    def build(self, points: Sequence[Point], seed: int) -> Iterator[Point]:
        """Build models and decoders, one `Weights` for all points of a model; yields each point
        when it is ready and warm."""
        weights: dict[MoEConfig, Weights] = {}
        for point in points:
            if point.config not in weights:
                weights[point.config] = Weights.random(point.config, seed)
            decoder = Decoder(
                weights[point.config],
                point.batch,
                max_tokens=point.context_tokens + ROOM_TOKENS,
                pass_tokens=point.batch,
            )
            decoder.pretend(point.context_tokens - 1, seed)
            self._decoders[point] = decoder
            self._step(decoder, point, np.arange(point.batch) % point.config.vocab_size)
            yield point

    def decode_s(self, point: Point, steps: int) -> list[float]:
        """Seconds of `steps` decode steps, each at the same context and with nothing of the model
        in the caches; the choice of a token is a part."""
        decoder = self._decoders[point]
        times = []
        for _ in range(steps):
            self._evict(self._before.get(point, 0.0))
            self._before[point] = self._touched
            start = time.perf_counter()
            self._step(decoder, point, np.argmax(decoder.logits, axis=1))
            times.append(time.perf_counter() - start)
            self._touched += float(point.shape.active_params) * BITS / 8.0
        return times

    def _evict(self, before: float) -> None:
        """Read so much that nothing in the caches is left from when `before` bytes were read."""
        assert self._buffer is not None and self._pool is not None
        missing = min(EVICT_BYTES, self._buffer.nbytes) - (self._touched - before)
        if missing > 0.0:
            self._advance(missing)
            list(self._pool.map(np.max, np.array_split(self._part.reshape(-1), blas_threads())))

    def _advance(self, size_bytes: float) -> None:
        """Let `_part` be the next part of the buffer, about so large."""
        assert self._buffer is not None
        count = min(max(round(size_bytes / self._buffer[0].nbytes), 1), len(self._buffer))
        if self._at + count > len(self._buffer):
            self._at = 0
        self._part = self._buffer[self._at : self._at + count]
        self._at += count
        self._touched += self._part.nbytes

    @staticmethod
    def _step(decoder: Decoder, point: Point, tokens: np.typing.NDArray[np.intp]) -> None:
        decoder.position = point.context_tokens - 1
        decoder.decode(tokens)

    def read_bytes_per_s(self, size_bytes: float) -> dict[str, float]:
        """Speed of each kernel over the next part of the buffer, which lies beyond the caches."""
        assert self._pool is not None
        self._advance(size_bytes)
        part = self._part
        kernels = read_kernels(part, self._pool)
        return {name: part.nbytes / _seconds(kernel) for name, kernel in kernels.items()}

    def matmul_flops_per_s(self) -> float:
        """Speed of one product of square float32 matrices."""
        seconds = _seconds(lambda: np.matmul(self._matrix, self._matrix, out=self._product))
        return 2.0 * MATMUL**3 / seconds

    def prefill_s(self, config: MoEConfig, tokens: int, seed: int) -> float:
        """Seconds of one prompt of random tokens into an empty cache; the model is built the first
        time."""
        rng = np.random.default_rng(seed)
        prompt = rng.integers(config.vocab_size, size=(1, tokens))
        if (config, tokens) not in self._readers:
            reader = Decoder(Weights.random(config, seed), max_tokens=tokens)
            reader.prefill(prompt[:, :PASS_TOKENS])
            self._readers[config, tokens] = reader
        reader = self._readers[config, tokens]
        reader.reset()
        return _seconds(lambda: reader.prefill(prompt))

    def product_flops_per_s(self, tokens: int, outputs: int, inputs: int) -> float:
        """Speed of so many tokens times a weight matrix, as the decoder multiplies them, repeated
        for about a hundred million multiply-accumulates."""
        x = np.ones((tokens, inputs), dtype=np.float32)
        weight = np.ones((outputs, inputs), dtype=np.float32)
        out, scratch = (
            np.empty((tokens, outputs), np.float32),
            np.empty(tokens * outputs, np.float32),
        )
        macs = tokens * outputs * inputs
        times = max(round(PRODUCT_MACS / macs), 1)

        def repeated() -> None:
            for _ in range(times):
                linear(x, weight, out, scratch)

        linear(x, weight, out, scratch)
        return 2.0 * macs * times / _seconds(repeated)

    def experts_hit(self, config: MoEConfig, batch: int, steps: int, seed: int) -> float:
        """Distinct experts of one layer that a batch used, mean over layers and steps, counted by
        the router while `batch` random prompts are continued."""
        rng = np.random.default_rng(seed)
        decoder = Decoder(
            Weights.random(config, seed), batch, max_tokens=ROUTING_PROMPT + steps + 1
        )
        tokens = rng.integers(config.vocab_size, size=(batch, ROUTING_PROMPT))
        logits = decoder.prefill(tokens)
        hit = []
        for _ in range(steps):
            count = Counters()
            logits = decoder.decode(np.argmax(logits, axis=1), count)
            hit.append(float(np.mean(count.experts_hit)))
        return float(np.mean(hit))

    def free(self) -> None:
        """Drop all models."""
        self._before.clear()
        self._readers.clear()
        self._decoders.clear()
        gc.collect()

    def close(self) -> None:
        """Drop models, buffer and threads."""
        self.free()
        self._buffer = None
        self._part = self._part[:0]
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def rounds(
    bench: Bench, budget_s: float, least: int, tell: Callable[[float], None]
) -> Iterator[int]:
    """Numbers of rounds until `budget_s` is spent and `least` are done; tells the part done."""
    start, done = bench.now(), 0
    while done < least or bench.now() - start < budget_s:
        yield done
        done += 1
        spent = (bench.now() - start) / budget_s if budget_s > 0.0 else 1.0
        tell(min(spent, done / least, 1.0))


@contextmanager
def opened(bench: Bench, buffer_bytes: float) -> Iterator[Bench]:
    """`bench` with its buffer; everything is given back at the end, whatever happens."""
    bench.open(buffer_bytes)
    try:
        yield bench
    finally:
        bench.close()


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
