"""Decode speed against Hugging Face transformers on torch's CPU build, in one run.

The same model and weights in both: archinfer's decoder, and transformers' class for it in float32
with eager attention, run by each of transformers' ways to run experts ("eager" is its plain loop).
Both decode the same greedy tokens after the same prompt; the logits are compared first. Each
lives in a process of its own, so that idle threads of one do not disturb the other, and they take
turns, a few tokens each, so that a noisy machine is noisy for both. The ratio is that of the
median steps of a turn; printed are the median and quartiles over the turns. Exit code 0 where it
is at least 1.5 for every model with the first kind of experts asked for.

Needs torch and transformers, in an environment of their own (written for these versions):

    python3.11 -m venv reference
    reference/bin/pip install torch==2.13.0 transformers==5.24.0 -e .
    reference/bin/python benchmarks/decode_vs_transformers.py

Waits for moments in which no other process computes (Linux), and repeats turns in which one did.
Wants NumPy's own OpenBLAS kernels: where OPENBLAS_CORETYPE and
OPENBLAS_L2_SIZE are set, unset both for this command. Needs about 11 GB of memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools")]

from decode_bandwidth import MODELS as AT_1_GB  # noqa: E402
from decode_bandwidth import Quiet  # noqa: E402

from archinfer.calibration.moe import Counters, Decoder, MoEConfig, Weights  # noqa: E402

TARGET = 1.5
PROMPT = 128

MODELS = {
    # 1.07 GB of active weights in few large matrices: Mixtral's proportions.
    "mixtral": ("mixtral", AT_1_GB["wide"]),
    # 1.0 GB of active weights in many small experts: Qwen3-30B-A3B's proportions.
    "qwen3": (
        "qwen3_moe",
        MoEConfig(
            vocab_size=8192,
            hidden_size=2048,
            layers=6,
            heads=16,
            kv_heads=4,
            head_dim=128,
            moe_intermediate_size=768,
            experts=32,
            experts_per_token=6,
            qk_norm=True,
        ),
    ),
    # 1.05 GB in ninety small experts; and the same in the depth that models have.
    "fine": ("mixtral", AT_1_GB["fine"]),
    "deep": ("qwen3_moe", AT_1_GB["deep"]),
    # A tenth of that: what a token costs beside reading weights.
    "small": (
        "mixtral",
        MoEConfig(
            vocab_size=4096,
            hidden_size=512,
            layers=12,
            heads=8,
            kv_heads=2,
            head_dim=64,
            moe_intermediate_size=512,
            experts=8,
            experts_per_token=2,
        ),
    ),
}


def steps(
    read: Callable[[np.ndarray], np.ndarray], chosen: np.ndarray
) -> tuple[list[float], np.ndarray]:
    """Feed tokens (batch, n) one by one, choosing each time as a greedy decoder would.

    Returns the seconds of each step and the last logits (batch, vocab).
    """
    seconds = []
    for at in range(chosen.shape[1]):
        start = time.perf_counter()
        logits = read(chosen[:, at : at + 1])
        logits.argmax(axis=1)
        seconds.append(time.perf_counter() - start)
    return seconds, logits


def reference(name: str, prompt: np.ndarray, pipe: Connection) -> None:
    """Serve the transformers model: (implementation, tokens) in, seconds and logits out."""
    import torch
    from transformers_reference import build, copy_weights

    family, config = MODELS[name]
    weights = Weights.random(config, seed=0)
    model: Any = build(config, family)
    copy_weights(weights, model)
    del weights
    cache: Any = None

    @torch.no_grad()
    def read(tokens: np.ndarray) -> np.ndarray:
        nonlocal cache
        out = model(
            torch.from_numpy(tokens), past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        cache = out.past_key_values
        return np.asarray(out.logits[:, -1].numpy())

    read(prompt)
    pipe.send(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    while (request := pipe.recv()) is not None:
        implementation, chosen = request
        model.set_experts_implementation(implementation)
        pipe.send(steps(read, chosen))
        cache.crop(-chosen.shape[1])


def compare(
    name: str,
    turns: int,
    tokens: int,
    batch: int,
    implementations: list[str],
    patience_s: float,
) -> float:
    """Print the comparison for one model; the ratio against eager experts."""
    config = MODELS[name][1]
    prompt = np.random.default_rng(0).integers(config.vocab_size, size=(batch, PROMPT))
    context = multiprocessing.get_context("spawn")
    pipe, far_end = context.Pipe()
    process = context.Process(target=reference, args=(name, prompt, far_end), daemon=True)
    process.start()
    far_end.close()

    ours = Decoder(Weights.random(config, seed=0), batch, max_tokens=PROMPT + tokens)
    chosen = ours.greedy(prompt, tokens)
    print(f"{name}: {pipe.recv()}; numpy {np.__version__}")
    count = Counters()
    ours.position = PROMPT
    ours.decode(chosen[:, 0], count)
    errors = []
    quiet = Quiet([os.getpid(), process.pid or 0], patience_s)
    print(
        f"  {count.total.weight_bytes / 1e9:.3f} GB of weights read per step, batch {batch}, "
        f"{PROMPT} tokens of context"
    )
    ratios = {}
    for implementation in implementations:
        times: list[tuple[float, float]] = []

        def both(implementation: str = implementation) -> tuple[Any, Any]:
            ours.position = PROMPT
            mine = steps(ours.decode, chosen)
            pipe.send((implementation, chosen))
            return mine, pipe.recv()

        for turn in range(turns + 1):
            (mine, logits), (theirs, expected) = quiet.run(both)
            errors.append(np.abs(logits - expected).max() / np.abs(expected).max())
            if turn:  # the first one warms up
                times.append((float(np.median(mine)), float(np.median(theirs))))
        a, b = np.array(times).T
        low, ratio, high = np.quantile(b / a, [0.25, 0.5, 0.75])
        print(
            f"  {implementation:>10} experts: archinfer {1e3 * np.median(a):6.1f} ms, "
            f"transformers {1e3 * np.median(b):6.1f} ms a step; "
            f"{ratio:.2f} times as fast (quartiles {low:.2f} to {high:.2f}; "
            f"best against best {b.min() / a.min():.2f})",
            flush=True,
        )
        ratios[implementation] = float(ratio)
    print(f"  logits differ by {max(errors):.1e} at most")
    pipe.send(None)
    process.join()
    return ratios[implementations[0]]


def main() -> int:
    parser = argparse.ArgumentParser(description="decode speed against transformers")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--experts", nargs="+", default=["eager", "grouped_mm", "batched_mm"])
    parser.add_argument("--patience", type=float, default=300, help="seconds to wait for quiet")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--batch", type=int, default=1)
    args = parser.parse_args()
    ratios = [
        compare(name, args.turns, args.tokens, args.batch, args.experts, args.patience)
        for name in args.models
    ]
    return 0 if min(ratios) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
