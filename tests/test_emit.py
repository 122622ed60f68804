"""`solve --emit`: configs that `predict` reads back with the same counts and speed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archinfer.errors import FileError, InputError
from archinfer.forward.predict import predict
from archinfer.hardware.profile import Hardware
from archinfer.models.architecture import Architecture
from archinfer.models.formats import WEIGHT_FORMATS, weight_format
from archinfer.models.huggingface import from_config
from archinfer.models.layers import Attention, DenseMLP, LayerBlock, Mamba2, MoE
from archinfer.models.solver_family import FamilyRules
from archinfer.physics.deployment import Deployment
from archinfer.solver.answer import answer
from archinfer.solver.designs import build, fastest
from archinfer.solver.emit import MARK, config_of, emit
from archinfer.solver.question import Question
from tests.cli import call

pytestmark = pytest.mark.usefixtures("few_draws")

WAFER = Hardware.load("wse-3")


@settings(max_examples=60, deadline=None)
@given(
    attention=st.sampled_from(["gqa", "mqa", "mla"]),
    weights=st.sampled_from(sorted(WEIGHT_FORMATS)),
    total=st.floats(2e10, 4e12),
    sparsity=st.floats(1.0, 20.0),
    layers=st.integers(20, 120),
)
def test_counts_and_speed_come_back_exactly(
    attention: str, weights: str, total: float, sparsity: float, layers: int
) -> None:
    question = Question(
        WAFER, nodes=(1, 400), weights=(weights,), rules=FamilyRules(attention=attention)
    )
    made = build(total, total / sparsity, layers, question)
    if made is None:
        return
    design = fastest(made, question, weights)
    back = from_config(json.loads(json.dumps(config_of(made, weights))))
    assert back.parameters() == made.parameters()
    assert back.blocks == made.blocks
    assert back.warnings == ()
    asked = Deployment(nodes=400, accepted_low=1.0, accepted_high=3.0, mapping=design.mapping)
    found = predict(back, WAFER, asked, changes=False)
    assert found.weights == weights
    assert float(found.memory.total) == pytest.approx(design.memory_bytes, rel=1e-14)
    bits = weight_format(weights).bits
    assert float(found.memory.weights) == pytest.approx(made.parameters().total * bits / 8)
    assert float(found.time.total) == pytest.approx(design.time_s["total"], rel=1e-13)
    if found.fits:
        assert found.speed == pytest.approx(design.speed, rel=1e-13)


@pytest.mark.parametrize("attention", ["gqa", "mla"])
def test_solve_emit_predict(attention: str, tmp_path: Path) -> None:
    done = call("solve", "--attention", attention, "--set", "link.latency=3 us", "--context", "16k",
               "--emit", str(tmp_path), "--format", "json")  # fmt: skip
    assert done.code == 0, done.err
    printed = json.loads(done.out)["architectures"]
    paths = [line.removeprefix("wrote ") for line in done.err.splitlines() if "wrote" in line]
    assert len(paths) == len(printed) > 3
    assert sorted(paths) == sorted(str(p) for p in tmp_path.glob("*/config.json"))
    beside = [str(Path(p).with_name("README.md")) for p in paths]
    assert sorted(str(p) for p in tmp_path.rglob("*") if p.is_file()) == sorted(paths + beside)
    for path, readme in zip(paths, beside, strict=True):
        config = json.loads(Path(path).read_text())
        assert config["max_position_embeddings"] == 131_072
        assert config[MARK]["predict"] in Path(readme).read_text()
    same = ["--nodes", "88", "--set", "link.latency=3 us", "--context", "16k", "--format", "json",
            "--speculation", "1:3", "--software", "usual"]  # fmt: skip
    found = call("predict", *paths, *same)
    assert found.code == 0, found.err
    for design, row, path in zip(printed, json.loads(found.out)["results"], paths, strict=True):
        assert row["parameters"] == {
            "total": design["total_params"],
            "active": design["active_params"],
        }
        assert row["tokens_per_s"] == design["tokens_per_s"]
        assert row["time_s"] == design["time_s"]
        assert row["nodes_used"] == design["nodes"]
        assert row["weights"] == design["weights"]
        assert row["memory_bytes"]["total"] == design["memory_bytes"]
        record = json.loads(Path(path).read_text())[MARK]
        assert record["total_params"] == design["total_params"]
    # The command that each file states gives that speed as well.
    command = shlex.split(json.loads(Path(paths[0]).read_text())[MARK]["predict"])
    again = call(*command[1:], "--format", "json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["results"][0]["tokens_per_s"] == printed[0]["tokens_per_s"]


def _found() -> tuple[Any, Question]:
    question = Question(WAFER, weights=("fp8",))
    return answer(question, 2).architectures, question


def test_own_files_are_replaced_and_foreign_ones_never(tmp_path: Path) -> None:
    designs, question = _found()
    paths = emit(designs, question, str(tmp_path))
    before = [Path(p).read_text() for p in paths]
    assert emit(designs, question, str(tmp_path)) == paths
    assert [Path(p).read_text() for p in paths] == before
    foreign = '{"model_type": "llama"}'
    Path(paths[1]).write_text(foreign)
    Path(paths[0]).unlink()
    with pytest.raises(FileError, match="not ours to replace"):
        emit(designs, question, str(tmp_path))
    # Nothing is written when one is in the way.
    assert Path(paths[1]).read_text() == foreign
    assert not Path(paths[0]).exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    designs, question = _found()
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="cannot be written"):
        emit(designs, question, str(tmp_path / "file"))
    done = call("solve", "--weights", "fp8", "--emit", str(tmp_path / "file"))
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    designs, question = _found()
    paths = emit(designs, question, str(tmp_path / "names"))
    second = Path(paths[1]).parent.name
    target = tmp_path / "real"
    target.mkdir()
    (target / second).write_text("a file where a folder is needed")
    with pytest.raises(FileError):
        emit(designs, question, str(target))
    assert not [p for p in target.rglob("*") if p.is_file() and p.name != second]


def test_equal_names_are_numbered(tmp_path: Path) -> None:
    designs, question = _found()
    paths = emit([designs[0], designs[0]], question, str(tmp_path))
    assert len(set(paths)) == 2
    assert Path(paths[1]).parent.name == Path(paths[0]).parent.name + "-2"


def test_nothing_feasible_writes_nothing(tmp_path: Path) -> None:
    done = call("solve", "--nodes", "1", "--tokens-per-second", "100000", "--emit",
               str(tmp_path / "x"))  # fmt: skip
    assert done.code == 0, done.err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "block",
    [
        LayerBlock.of(8, Mamba2(8, 64, 16, 1, 4), DenseMLP(1024)),
        LayerBlock.of(8, Attention(8, 8, 64, qkv_bias=True), DenseMLP(1024)),
        LayerBlock.of(8, Attention(8, 8, 64, window=128), DenseMLP(1024)),
        LayerBlock.of(8, Attention(8, 8, 64), DenseMLP(1024, matrices=2)),
        LayerBlock.of(8, Attention(8, 8, 64), MoE(16, 2, 256, shared_width=100)),
        LayerBlock.of(8, Attention(8, 8, 64), MoE(16, 2, 256, router_bias=True)),
        LayerBlock.of(8, Attention(8, 8, 64), None),
    ],
)
def test_what_no_config_can_say_is_refused(block: LayerBlock) -> None:
    model = Architecture("x", (block,), hidden_size=512, vocab_size=1000)
    with pytest.raises(InputError, match="cannot be written as a config"):
        config_of(model, "bf16")


def test_embedding_and_head_in_the_weight_format() -> None:
    block = LayerBlock.of(8, Attention(8, 8, 64), DenseMLP(1024))
    model = Architecture("x", (block,), hidden_size=512, vocab_size=1000)
    config = config_of(model, "fp8")
    assert from_config(config).weight_bytes() == model.parameters().total
    # Without the key that says so, a release leaves both at 16 bits, and the norms.
    del config["quantization_config"]["include_input_output_embeddings"]
    kept = 2 * 1000 * 512 + 17 * 512
    assert from_config(config).weight_bytes() == model.parameters().total + kept


def test_formats_by_component_come_back() -> None:
    """A solve that prices components apart emits a config whose components are stored so."""
    question = Question(
        Hardware.load("h100-sxm"), nodes=(8, 8), tokens_per_s=100.0,
        weights=("int4,embedding=int8,lm_head=bf16",),
    )  # fmt: skip
    (weights,) = question.weights
    design = answer(question, architectures=1).architectures[0]
    written = from_config(config_of(design.architecture, weights))
    assert written.parameters() == design.architecture.parameters()
    formats = written.weight_formats()
    assert [formats[c] for c in ("embedding", "lm_head", "experts")] == ["int8", "bf16", "int4"]
    asked = Deployment(nodes=8, mapping=design.mapping)
    found = predict(written, question.hardware, asked, changes=False)
    # A file leaves its vectors at 16 bits.
    assert float(found.memory.total) == pytest.approx(design.memory_bytes, rel=1e-5)
    assert float(found.time.total) == pytest.approx(design.time_s["total"], rel=1e-3)
