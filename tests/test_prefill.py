"""Prompts: the time to the first token, and what other users' prompts cost a decode pass."""

import dataclasses
import math

import numpy as np
import pytest

from archinfer.forward.predict import evaluate
from archinfer.forward.prediction import Prediction
from archinfer.hardware.profile import Hardware
from archinfer.models.catalogue import load
from archinfer.physics.decode import decode_time
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Layout, Placement
from archinfer.physics.nodegroup import KERNEL_WIDTH
from archinfer.physics.prefill import PASS_TOKENS, prompt_macs, time_to_first_token
from archinfer.physics.workload import Traffic, Workload

H200 = Hardware.load("h200-sxm")
B200 = Hardware.load("b200")


def served(model: str, hardware: Hardware, tp: int, **asked: object) -> Prediction:
    """A model on one tensor-parallel group; prompts of 1,024 tokens unless asked otherwise."""
    usual: dict[str, object] = {"prompt_tokens": 1024, "output_tokens": 1024}
    deployment = Deployment(nodes=tp, layout=Layout(tp), **(usual | asked))  # type: ignore[arg-type]
    return evaluate(load(model), hardware, deployment)


@pytest.mark.parametrize(
    ("model", "hardware", "tp", "weights", "prompt", "measured_s"),
    [
        ("llama-3.1-70b", H200, 2, "fp8", 1024, 0.121),
        ("llama-3.1-70b", H200, 8, "fp8", 8192, 0.303),
        ("llama-3.1-70b", B200, 1, "fp8", 8192, 0.745),
        ("gpt-oss-120b", H200, 1, None, 1024, 0.086),
        ("gpt-oss-120b", B200, 4, None, 8192, 0.082),
        ("deepseek-r1", H200, 8, None, 8192, 0.447),
    ],
)
def test_times_to_the_first_token_of_engines(
    model: str, hardware: Hardware, tp: int, weights: str | None, prompt: int, measured_s: float
) -> None:
    """vLLM and SGLang with four users (archinfer/data/serving.csv)."""
    asked = {"weights": weights, "concurrency": 4, "context_tokens": prompt + 512}
    first = served(model, hardware, tp, prompt_tokens=prompt, **asked).first_token
    assert first is not None
    assert first.under_load_s.p50 == pytest.approx(measured_s, rel=0.6)
    assert first.under_load_s.p05 < measured_s < first.under_load_s.p95


def test_a_longer_prompt_a_larger_load_and_fewer_gpus_take_longer() -> None:
    def seconds(prompt: int = 2000, users: int = 1, tp: int = 4) -> float:
        asked = {"weights": "fp8", "concurrency": users, "context_tokens": 9000}
        found = served("llama-3.1-70b", H200, tp, prompt_tokens=prompt, **asked).first_token
        assert found is not None
        return float(found.under_load_s.p50)

    assert seconds() < seconds(prompt=8000)
    assert seconds() < seconds(users=16)
    assert seconds() < seconds(tp=2)


def test_no_prompt_is_read_faster_than_at_the_peak() -> None:
    for model, hardware in (("llama-3.1-70b", H200), ("deepseek-r1", B200)):
        found = served(model, hardware, 8, weights="fp8")
        first = found.first_token
        assert first is not None
        shape = found.shape
        active = float(shape.active_params) - float(shape.lookup_params + shape.head_params)
        flops = 2.0 * active * first.prompt_tokens
        assert first.alone_s.p50 > flops / (8 * hardware.peak_flops("fp8"))


def test_latent_attention_reads_prompts_in_full_heads() -> None:
    """DeepSeek: 128 heads of 192 + 128 while a prompt is read, 576 + 512 in decode."""
    group = load("deepseek-v3").shape().groups[-1]
    assert prompt_macs(group, 2000) == 1000 * 128 * (192 + 128)
    assert group.caches[0].macs_per_token == 128 * (576 + 512)


def test_decode_waits_for_the_prompts_of_others() -> None:
    shape = load("llama-3.1-70b").shape()
    mapping = Placement(80.0, 4.0)

    def time(users: int, prompt: int | None, output: int = 1000) -> float:
        traffic = Traffic(2000, users, 8.0, prompt_tokens=prompt, output_tokens=output)
        return float(decode_time(H200, Workload(shape, traffic), mapping).prompts)

    assert time(1, 1000) == time(64, None) == 0.0
    assert 0.0 < time(16, 1000) < time(64, 1000) < time(64, 4000)
    assert time(64, 1000, 500) == pytest.approx(2.0 * time(64, 1000))
    # 63 prompts for each 1,000 passes, and as many launches of a pass as their tokens fill.
    wide = (1.0 + 8192 * (1.0 - 0.25 * 3 / 4) / KERNEL_WIDTH) / 2.0
    kernels = 80.0 * H200.fixed_time_per_layer_s * wide * H200.prompt_pass_factor
    products = 63 * 2 * 855.65e6 * 80 * 1000 / (4 * 1.979e15 * H200.compute_efficiency)
    scores = 63 * 2 * 1000 * 16384 * 500 * 80 / (4 * 0.989e15 * H200.compute_efficiency)
    expected = (products + scores + 64 * 1000 / PASS_TOKENS * kernels) / 1000
    assert time(64, 1000) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("model", ["llama-3.1-70b", "deepseek-v3"])
def test_scaling_is_the_derivative(model: str) -> None:
    shape = load(model).shape()
    mapping = Placement(float(shape.layers), 8.0)
    workload = Workload(shape, Traffic(5000, 32, 8.0, prompt_tokens=4000))

    def total(hardware: Hardware) -> float:
        step = decode_time(hardware, workload, mapping)
        still = dataclasses.replace(step, weights=0.0, kv=0.0)
        found = time_to_first_token(hardware, workload, mapping, still)
        assert found is not None
        return float(found.total - found.step)

    first = time_to_first_token(H200, workload, mapping, decode_time(H200, workload, mapping))
    assert first is not None
    names, central, _ = H200.constants()
    for name, value in zip(names, central, strict=True):
        if name == "link.latency":
            continue
        up, down = (total(H200.with_constants({name: value * math.exp(s * 1e-5)})) for s in (1, -1))
        slope = (up - down) / 2e-5
        assert float(np.asarray(first.scaling.get(name, 0.0))) == pytest.approx(
            slope, rel=1e-3, abs=1e-9
        ), name


def test_a_profile_without_prompts_says_nothing() -> None:
    assert served("llama-3.1-8b", Hardware.load("liminal-hbm3"), 1).first_token is None
