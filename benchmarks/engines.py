"""Other engines on this machine: twelve models timed, the profile fitted to six and tested on six.

Each model has random float32 weights, and is decoded by the engine and by archinfer's own decoder,
at one context. The constants of a calibrated profile are released (`fit --release`) and fitted to
every second model; the others are predicted from them and inferred from their speed and whether
they are mixtures, then the halves change sides. Printed are both speeds of every model, and over
all twelve the median factor of the predictions and how many truths the 90 % intervals hold.

Needs an environment of its own, with torch and transformers, or llama-cpp-python and gguf:

    python3.11 -m venv engines
    engines/bin/pip install torch transformers llama-cpp-python gguf -e .
    engines/bin/archinfer calibrate --threads 1 --save host.yaml
    engines/bin/python benchmarks/engines.py --engine transformers --hardware host.yaml --threads 1

`--clock cpu` counts CPU time in place of the clock's: for one thread on a machine that is busy.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

CONTEXT = 256
STEPS = 24
"""Decode steps of a turn, after one that warms up."""
TURNS = 3
RELEASE = 1.0
"""Least log sd of every constant before the fit."""

# layers, hidden size, heads, KV heads, width of the MLP or of an expert, experts, top, vocabulary,
# tied: from 7M to 0.5B parameters, the proportions of small open models.
SHAPES = [
    (4, 256, 4, 4, 688, 0, 0, 4096, True),
    (6, 288, 6, 6, 768, 0, 0, 32000, True),
    (8, 512, 8, 8, 1376, 0, 0, 32000, False),
    (12, 576, 9, 3, 1536, 0, 0, 49152, True),
    (16, 512, 8, 2, 1408, 0, 0, 8192, False),
    (10, 768, 12, 4, 2048, 0, 0, 65536, True),
    (18, 640, 10, 2, 2048, 0, 0, 151936, True),
    (24, 896, 14, 2, 2432, 0, 0, 32000, False),
    (6, 384, 6, 2, 512, 8, 2, 32000, True),
    (10, 512, 8, 2, 384, 16, 4, 16384, False),
    (12, 768, 12, 4, 768, 8, 2, 65536, True),
    (8, 1024, 16, 4, 512, 16, 4, 49152, False),
]


def transformers_steps(config, weights, threads: int) -> Callable[[int], None]:
    """A step of transformers with eager attention: reads one token after CONTEXT others."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

    torch.set_num_threads(threads)
    c = config
    common = {
        "vocab_size": c.vocab_size, "hidden_size": c.hidden_size, "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "head_dim": c.head_dim,
        "tie_word_embeddings": c.tie_word_embeddings, "attn_implementation": "eager",
        "max_position_embeddings": 4 * CONTEXT, "dtype": "float32",
    }  # fmt: skip
    if c.experts:
        sizes = {"num_local_experts": c.experts, "num_experts_per_tok": c.experts_per_token}
        model = MixtralForCausalLM(
            MixtralConfig(intermediate_size=c.moe_intermediate_size, **sizes, **common)
        )
    else:
        model = LlamaForCausalLM(LlamaConfig(intermediate_size=c.intermediate_size, **common))
    model.eval()
    with torch.no_grad():
        cache = model(torch.zeros((1, CONTEXT), dtype=torch.long), use_cache=True).past_key_values

    @torch.no_grad()
    def step(token: int) -> None:
        model(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache.crop(-1)

    return step


def llama_cpp_steps(config, weights, threads: int) -> Callable[[int], None]:
    """The same of llama.cpp, from a GGUF file that is written here."""
    from llama_cpp import Llama

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        write_gguf(path, config, weights)
        model = Llama(
            path, n_ctx=4 * CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False,
            type_k=0, type_v=0,
        )  # fmt: skip
    model.eval([0] * CONTEXT)

    def step(token: int) -> None:
        model.n_tokens = CONTEXT
        model.eval([token])

    return step


def write_gguf(path: str, config, weights) -> None:
    """The model as llama.cpp reads it: architecture llama, float32, no tokenizer."""
    import gguf
    import numpy as np

    c = config
    out = gguf.GGUFWriter(path, "llama")
    out.add_block_count(c.layers)
    out.add_context_length(4 * CONTEXT)
    out.add_embedding_length(c.hidden_size)
    out.add_feed_forward_length(c.moe_intermediate_size or c.intermediate_size)
    out.add_head_count(c.heads)
    out.add_head_count_kv(c.kv_heads)
    out.add_key_length(c.head_dim)
    out.add_value_length(c.head_dim)
    out.add_rope_dimension_count(c.head_dim)
    out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.add_vocab_size(c.vocab_size)
    out.add_tokenizer_model("no_vocab")
    if c.experts:
        out.add_expert_count(c.experts)
        out.add_expert_used_count(c.experts_per_token)
    tensors = {"token_embd": weights.embedding, "output_norm": weights.final_norm}
    if not c.tie_word_embeddings:
        tensors["output"] = weights.head
    ends = np.cumsum([c.heads * c.head_dim, c.kv_heads * c.head_dim])
    for i, layer in enumerate(weights.layers):
        query, key, value = np.split(layer.qkv, ends)
        own = {"attn_norm": layer.attention_norm, "ffn_norm": layer.mlp_norm, "attn_q": query,
               "attn_k": key, "attn_v": value, "attn_output": layer.output}  # fmt: skip
        both, down = layer.gate_up, layer.down
        if c.experts:
            both, down = layer.expert_gate_up, layer.expert_down
            own["ffn_gate_inp"] = layer.router
        gate, up = np.split(both, 2, axis=-2)
        kind = "_exps" if c.experts else ""
        own |= {f"ffn_gate{kind}": gate, f"ffn_up{kind}": up, f"ffn_down{kind}": down}
        tensors |= {f"blk.{i}.{name}": array for name, array in own.items()}
    for name, array in tensors.items():
        out.add_tensor(f"{name}.weight", np.ascontiguousarray(array))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def own_steps(config, weights, threads: int) -> Callable[[int], None]:
    """The same of archinfer's decoder."""
    import numpy as np

    from archinfer.calibration.moe import Decoder

    decoder = Decoder(weights, max_tokens=CONTEXT + 1)
    decoder.pretend(CONTEXT)

    def step(token: int) -> None:
        decoder.position = CONTEXT
        decoder.decode(np.array([token]))

    return step


ENGINES = {"transformers": transformers_steps, "llama.cpp": llama_cpp_steps}


def configs() -> Iterator:
    """The models, as archinfer's decoder has them."""
    from archinfer.calibration.moe import MoEConfig

    for layers, hidden, heads, kv, width, experts, top, vocabulary, tied in SHAPES:
        mlp = (0, width, experts, top) if experts else (width,)
        yield MoEConfig(
            vocabulary, hidden, layers, heads, kv, hidden // heads, *mlp, tie_word_embeddings=tied
        )


def seconds_of(run, clock: Callable[[], float]) -> list[float]:
    """Of STEPS steps, after one that warms up."""
    times = []
    for token in range(STEPS + 1):
        start = clock()
        run(token)
        times.append(clock() - start)
    return times[1:]


def measured(config, engine: str, threads: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Tokens/s of the engine and of archinfer's decoder, in turns; 5 % quantiles of times."""
    from archinfer.calibration.bench import low
    from archinfer.calibration.moe import Weights

    weights = Weights.random(config, 0)
    runs = [make(config, weights, threads) for make in (ENGINES[engine], own_steps)]
    times: list[list[float]] = [[], []]
    for _ in range(TURNS):
        for own, run in zip(times, runs, strict=True):
            own += seconds_of(run, clock)
    theirs, ours = (1.0 / low(own) for own in times)
    return theirs, ours


def case_of(config, speed: float):
    """The measurement as a fit takes it."""
    import numpy as np

    from archinfer.fitting.cases import Case
    from archinfer.fitting.observations import Observation
    from archinfer.physics.mapping import Placement
    from archinfer.physics.workload import Traffic, Workload

    row = Observation(config.name, config.name, None, "host", speed, nodes=1, batch=1,
                      speculative=False, weight_bits=32, kv_bits=32)  # fmt: skip
    one = np.ones(1)
    mapping = Placement(one * config.layers, one)
    workload = Workload(config.shape(), Traffic(CONTEXT, 1, 32, None, 32))
    return Case(row, workload, mapping, one, 0.0 * one, None, True)


def tested(cases: list, hardware_path: str) -> None:
    """Print how the halves predict each other, forward and inverse."""
    import numpy as np

    from archinfer.asking import OPEN
    from archinfer.calibration.blind import QUANTITIES, inferred_from, question_for
    from archinfer.fitting.fit import FitModel, quantiles
    from archinfer.fitting.prior import fit_prior
    from archinfer.hardware.profile import Hardware
    from archinfer.models.solver_family import Habits

    hardware = Hardware.load(hardware_path)
    prior = fit_prior(hardware).released(RELEASE)
    factors, held, inside, widths = [], 0, dict.fromkeys(QUANTITIES, 0), {}
    for half in (0, 1):
        known, unseen = cases[half::2], cases[1 - half :: 2]
        fit = FitModel.of(hardware, known, prior).fit(known)
        for case in unseen:
            low, _, middle, _, high = quantiles(fit.draws(case, 4000, 0))
            factors.append(max(middle / case.row.tokens_per_s, case.row.tokens_per_s / middle))
            held += bool(low <= case.row.tokens_per_s <= high)
            asked = question_for(fit.hardware, case.row.tokens_per_s, case.shape.routed)
            kind = {} if case.shape.routed else {"habits": Habits(sparsity=(1.0, 1.0))}
            posterior = inferred_from(asked.with_(total=OPEN, **kind))
            told = []
            for name in QUANTITIES if posterior.possible else ():
                m, truth = posterior.marginals[name], float(getattr(case.shape, name))
                inside[name] += m.p05 <= truth <= m.p95
                widths.setdefault(name, []).append(m.p95 / m.p05)
                told.append(f"{name} {truth:.3g} in {m.p05:.3g} to {m.p95:.3g}")
            print(
                f"  {case.row.id}: {case.row.tokens_per_s:.1f} measured, {middle:.1f} "
                f"({low:.1f} to {high:.1f}); {', '.join(told) or posterior.reason}",
                flush=True,
            )
    count = len(cases)
    print(f"forward: median factor {np.median(factors):.2f}, 90 % intervals hold {held} of {count}")
    for name, hits in inside.items():
        width = float(np.median(widths.get(name, [np.nan])))
        print(f"inverse: {name} inside for {hits} of {count}, median width x {width:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description="other engines: forward and inverse")
    parser.add_argument("--engine", choices=ENGINES, default="transformers")
    parser.add_argument("--hardware", required=True, help="profile of `archinfer calibrate --save`")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    args = parser.parse_args()
    from archinfer.calibration.threads import limit_threads

    limit_threads(args.threads)
    clock = time.perf_counter if args.clock == "wall" else time.process_time
    print(f"{args.engine}, {args.threads} threads, load {os.getloadavg()[0]:.1f}")
    cases = []
    for config in configs():
        theirs, ours = measured(config, args.engine, args.threads, clock)
        size = float(config.shape().total_params) / 1e6
        print(
            f"  {size:5.0f}M, {config.name}: {theirs:.1f} tokens/s, archinfer's decoder "
            f"{ours:.1f} ({theirs / ours:.2f})",
            flush=True,
        )
        cases.append(case_of(config, theirs))
    tested(cases, args.hardware)
    return 0


if __name__ == "__main__":
    sys.exit(main())
