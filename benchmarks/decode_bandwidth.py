"""Decode speed against this machine's read bandwidth, both measured in the same run.

A model with about 1 GB of active float32 weights decodes one token at a time; the bytes it reads
are those that its own counters report. Between its tokens, in turns, the best of several kernels
reads a plain buffer much larger than the last-level cache, and once a buffer of the same size as
the active weights. Prints medians, and the fraction of the better ceiling.

    python benchmarks/decode_bandwidth.py [--gigabytes 1.07] [--rounds 15] [--batch 1]

Wants a quiet machine and NumPy's own OpenBLAS kernels: where OPENBLAS_CORETYPE and
OPENBLAS_L2_SIZE are set, unset both for this command.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from archinfer.moe import Counters, Decoder, MoEConfig, Weights
from archinfer.moe.ceilings import buffer, read_kernels

TARGET = 0.85
CONTEXT = 512


def model(layers: int) -> MoEConfig:
    """Mixtral's proportions at hidden size 2048: 35.7 M active parameters a layer."""
    return MoEConfig(
        vocab_size=8192,
        hidden_size=2048,
        layers=layers,
        heads=16,
        kv_heads=4,
        head_dim=128,
        moe_intermediate_size=2048,
        experts=8,
        experts_per_token=2,
    )


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description="decode speed against read bandwidth")
    parser.add_argument("--layers", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--buffer-gigabytes", type=float, default=3.0)
    args = parser.parse_args()

    config = model(args.layers)
    decoder = Decoder(Weights.random(config, seed=0), args.batch, max_tokens=CONTEXT + 64)
    decoder.pretend(CONTEXT)
    token = np.zeros(args.batch, dtype=int)
    count = Counters()
    decoder.decode(token, count)
    moved = count.total.weight_bytes + count.total.kv_read_bytes
    print(
        f"model: {config.shape().total_params / 1e6:.0f} M parameters, "
        f"{count.total.weight_bytes / 1e9:.3f} GB of weights and "
        f"{count.total.kv_read_bytes / 1e6:.1f} MB of cache read per step, batch {args.batch}"
    )

    memory = buffer(args.buffer_gigabytes * 1e9)
    small = memory[: max(round(moved / memory[0].nbytes), 1)]

    def step() -> None:
        decoder.position = CONTEXT
        decoder.decode(np.argmax(decoder.logits, axis=1))

    decode_s: list[float] = []
    read_s: dict[tuple[str, int], list[float]] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        kernels = {
            (name, array.nbytes): kernel
            for array in (memory, small)
            for name, kernel in read_kernels(array, pool).items()
        }
        for _ in range(3):
            step()
        for _ in range(args.rounds):
            decode_s += [seconds(step) for _ in range(3)]
            for key, kernel in kernels.items():
                read_s.setdefault(key, []).append(seconds(kernel))
    speeds = {key: key[1] / float(np.median(times)) for key, times in read_s.items()}
    for (name, size), speed in sorted(speeds.items(), key=lambda item: -item[1]):
        print(f"  read {size / 1e9:.2f} GB by {name}: {speed / 1e9:.2f} GB/s")
    ceiling = max(speeds.values())
    achieved = moved / float(np.median(decode_s))
    print(f"read ceiling: {ceiling / 1e9:.2f} GB/s")
    print(
        f"decode: {1e3 * float(np.median(decode_s)):.1f} ms a step, {achieved / 1e9:.2f} GB/s, "
        f"{achieved / ceiling:.1%} of the ceiling (wanted: {TARGET:.0%})"
    )
    best = max(size / min(times) for (_, size), times in read_s.items())
    print(
        f"best against best: {moved / min(decode_s) / 1e9:.2f} of {best / 1e9:.2f} GB/s, "
        f"{moved / min(decode_s) / best:.1%}"
    )
    return 0 if achieved >= TARGET * ceiling else 1


if __name__ == "__main__":
    sys.exit(main())
