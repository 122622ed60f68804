import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from archinfer.cli.hardware import app
from archinfer.errors import FileError, InputError, UnitError, UnknownNameError
from archinfer.hardware import profile as hardware_module
from archinfer.hardware.figures import KEYS
from archinfer.hardware.profile import Hardware
from archinfer.hardware.schema import Profile

FOLDER = Path(__file__).parent.parent / "hardware"
WSE_3 = FOLDER / "wse-3.yaml"

TEMPORAL = """\
schema_version: 1
name: toy
title: A toy
node: card
execution: temporal
memory:
  capacity: {value: 10 GB, source: made up}
  usable_fraction: {value: 90 %, source: made up}
  bandwidth: {value: 1 TB/s, source: made up}
  read_fraction: {value: 1, source: made up}
compute:
  peak:
    bf16: {value: 100 TFLOP/s, source: made up}
    fp8: {value: 200 TFLOP/s, source: made up}
link:
  bandwidth: {value: 400 Gb/s, source: made up}
  latency: {value: 5 us, source: made up}
scale_up:
  size: {value: 8, source: made up}
  bandwidth: {value: 450 GB/s, source: made up}
  sync_latency: {value: {8: 5 us, 1: 0 s, 2: 3 us}, source: made up}
power: {value: 700 W, source: made up}
price:
  rent: {value: 2.5 USD/h, source: made up}
constants:
  reductions_per_layer: {value: 2, log_sd: 0.1, source: made up}
  fixed_time_per_layer: {value: 10 us, log_sd: 0.3, source: "Estimate: guessed"}
  bandwidth_efficiency: {value: 0.8, log_sd: 0.2, source: made up}
  compute_efficiency: {value: 0.6, source: made up}
  model_error: {value: 0.3, source: made up}
  accepted_tokens_per_pass: {low: 1, high: 3, source: made up}
covariance:
  names: [fixed_time_per_layer, bandwidth_efficiency]
  log_covariance: [[0.04, 0.01], [0.01, 0.09]]
  source: made up
fit: {command: by hand, observations: 3, residual: 5 %}
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.yaml"
    path.write_text(TEMPORAL)
    return path


def test_wse_3_in_si_units() -> None:
    h = Hardware.load("wse-3")
    assert h.spatial and h.node == "wafer"
    assert h.memory_capacity_bytes == 44e9
    assert h.usable_bytes == pytest.approx(0.91 * 44e9)
    assert h.bandwidth_bytes_per_s * h.read_fraction == pytest.approx(14e15)
    assert h.cores == 762 * 1172
    assert h.power_w == 23e3
    # Fitted: inside what is known without a fit (the clock between SDK samples and a guess).
    assert 0.85e9 < h.clock_hz < 1.4e9
    assert h.link_latency_s == pytest.approx(5e-6, rel=0.1)
    assert (h.hop_cycles, h.step_cycles) == (1, 5)
    assert h.link_bandwidth_bytes_per_s == 150e9
    assert 1 == h.accepted_low < h.accepted_high
    assert h.scale_up_size == 1


def test_the_wafers_advertised_sparse_peak_is_not_its_dense_one() -> None:
    h = Hardware.load("wse-3")
    assert h.peak_flops("fp16") == pytest.approx(125e15 / 8)


def test_wse_2_constants_give_the_published_layer_times() -> None:
    # WaferLLM (arXiv:2502.04563) on 420, 540 and 660 squared cores: Llama3-8B runs as multi-head
    # attention, 4 d^2 + 3 d f weights a layer with d = 4096, f = 14336, over 32 layers.
    h = Hardware.load("wse-2")
    weights = 4 * 4096**2 + 3 * 4096 * 14336
    for side, tokens_per_s in ((420, 2699.9), (540, 2501.5), (660, 2243.3)):
        cycles = h.reductions_per_layer * (h.hop_cycles * side + h.step_cycles * math.sqrt(side))
        cycles += h.cycles_per_weight * weights / side**2
        layer_s = cycles / h.clock_hz + h.fixed_time_per_layer_s
        assert 32 * layer_s == pytest.approx(1 / tokens_per_s, rel=0.047)


@pytest.mark.parametrize("name", Hardware.names())
def test_shipped_profiles(name: str) -> None:
    h = Hardware.load(name)
    assert h.name == name
    assert 0 < h.usable_bytes <= h.memory_capacity_bytes
    names, central, covariance = h.constants()
    assert np.isfinite(central).all() and (central > 0).all()
    assert (np.diag(covariance) > 0).all()
    rows = h.provenance
    assert len({row.key for row in rows}) == len(rows)
    assert all(len(row.source) > 5 for row in rows)
    # What no data sheet gives is never certain: constants of zero spread are bounds or defaults.
    assert {"reductions_per_layer", "fixed_time_per_layer"} <= set(names) or "liminal" in name
    json.dumps(h.to_dict(), allow_nan=False)
    assert h == Hardware.load(name) and hash(h) == hash(Hardware.load(name))


@pytest.mark.parametrize(
    ("name", "number_format", "dense"),
    [
        ("wse-3", "fp16", 15.625e15),  # advertised sparse: 125
        ("wse-3-turbo", "fp16", 31.25e15),  # 250
        ("a100-80gb", "bf16", 312e12),  # 624
        ("h100-sxm", "bf16", 989e12),  # 1979
        ("h100-sxm", "fp8", 1.979e15),  # 3.958
        ("h200-sxm", "bf16", 989e12),
        ("b200", "fp8", 4.5e15),  # 9
        ("b200", "fp4", 9e15),  # 18
        ("gb200-nvl72", "fp4", 10e15),  # 20
        ("mi300x", "bf16", 1.307e15),  # 2.615
        ("tpu-v5p", "bf16", 459e12),
        ("sn40l", "bf16", 638e12),
    ],
)
def test_peaks_are_dense(name: str, number_format: str, dense: float) -> None:
    assert Hardware.load(name).peak_flops(number_format) == pytest.approx(dense)


@pytest.mark.parametrize(
    ("name", "memory_bytes", "bytes_per_s", "execution"),
    [
        ("wse-2", 40e9, 20e15, "spatial"),
        ("wse-3-turbo", 44e9, 43.2e15, "spatial"),
        ("a100-80gb", 85.1e9, 2.039e12, "temporal"),
        ("h100-sxm", 85.06e9, 3.35e12, "temporal"),
        ("h200-sxm", 141e9, 4.8e12, "temporal"),
        ("b200", 180e9, 8e12, "temporal"),
        ("gb200-nvl72", 186e9, 8e12, "temporal"),
        ("mi300x", 192e9, 5.3e12, "temporal"),
        ("tpu-v5p", 95e9, 2.765e12, "temporal"),
        ("groq-lpu-v1", 230e6, 80e12, "temporal"),
        ("sn40l", 64e9, 1.6e12, "temporal"),
        ("amd-epyc-9754", 768e9, 460.8e9, "temporal"),
        ("liminal-hbm3", 96e9, 4 * 2**40, "temporal"),
    ],
)
def test_memory_of_the_shipped_profiles(
    name: str, memory_bytes: float, bytes_per_s: float, execution: str
) -> None:
    h = Hardware.load(name)
    assert h.memory_capacity_bytes == memory_bytes
    assert h.bandwidth_bytes_per_s == bytes_per_s
    assert h.execution == execution


def test_liminal_gives_the_papers_speeds_of_llama_405b() -> None:
    # arXiv:2507.14397: 405e9 weights and cache in 8 bits, 126 layers of 8 key-value heads of 128.
    h = Hardware.load("liminal-hbm3")
    sync = dict(zip(h.sync_group_sizes, h.sync_latency_s, strict=True))
    for chips, at_4k, at_128k in ((8, 86, 80), (32, 290, 271), (128, 776, 743)):
        for context, speed in ((4096, at_4k), (131072, at_128k)):
            read_bytes = 405e9 + context * 126 * 2 * 8 * 128
            pass_s = read_bytes / (chips * h.bandwidth_bytes_per_s)
            pass_s += 126 * (h.reductions_per_layer * sync[chips] + h.fixed_time_per_layer_s)
            assert round(1 / pass_s) == speed


def test_names_and_paths(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "wse-3" in Hardware.names()
    assert Hardware.load(toy).name == "toy"
    assert Hardware.load(str(WSE_3)) == Hardware.load("wse-3")
    monkeypatch.chdir(tmp_path)
    shutil.copy(toy, tmp_path / "bare")
    assert Hardware.load("bare").name == "toy"
    (tmp_path / "wse-3").mkdir()
    assert Hardware.load("wse-3").name == "wse-3"
    with pytest.raises(UnknownNameError, match="unknown hardware 'wse-33'; did you mean 'wse-3'"):
        Hardware.load("wse-33")
    with pytest.raises(UnknownNameError):
        Hardware.load("")
    with pytest.raises(FileError, match=r"missing\.yaml: no such file"):
        Hardware.load("missing.yaml")
    with pytest.raises(FileError, match="no such file"):
        Hardware.load("folder/missing")


def test_profiles_inside_a_wheel_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "archinfer"
    (package / "_hardware").mkdir(parents=True)
    monkeypatch.setattr(hardware_module, "__file__", str(package / "hardware" / "profile.py"))
    assert hardware_module.profile_folder() == package / "_hardware"
    (package / "_hardware").rmdir()
    assert hardware_module.profile_folder() == tmp_path / "hardware"


def test_temporal_profile(toy: Path) -> None:
    h = Hardware.load(toy)
    assert not h.spatial
    assert h.sync_group_sizes == (1, 2, 8)
    assert h.sync_latency_s == (0, 3e-6, 5e-6)
    assert h.link_bandwidth_bytes_per_s == 50e9
    assert h.scale_up_size == 8
    assert h.price_dollars_per_hour == 2.5
    assert math.isnan(h.price_dollars) and math.isnan(h.cycles_per_weight)
    assert h.fixed_time_per_token_s == 0
    by_key = {row.key: row for row in h.provenance}
    assert by_key["fixed_time_per_layer"].estimate
    assert not by_key["power"].estimate
    assert by_key["scale_up.sync_latency"].plain_value == {"1": 0, "2": 3e-6, "8": 5e-6}
    assert by_key["scale_up.sync_latency"].text == "1: 0 s, 2: 3 us, 8: 5 us"
    assert by_key["accepted_tokens_per_pass"].plain_value == (1, 3)


def test_peaks_fall_back_to_a_wider_format(toy: Path) -> None:
    h = Hardware.load(toy)
    assert h.peak_flops("fp8") == h.peak_flops("mxfp8") == 200e12
    for narrow in ("int8", "nvfp4", "int4", "q4", "bf16", "FP16"):
        assert h.peak_flops(narrow) == 100e12
    only_fp32 = h.with_value("compute.peak.fp32", "50 TFLOP/s")
    assert only_fp32.peak_flops("fp32") == 50e12


def test_narrow_formats_are_those_with_a_peak_else_integers() -> None:
    for name, formats in {
        "b200": ("fp8", "nvfp4"),
        "h100-sxm": ("fp8", "int4"),
        "a100-80gb": ("int8", "int4"),
        "amd-epyc-9754": ("int8", "int4"),
        "wse-3": ("fp8", "nvfp4"),
    }.items():
        assert Hardware.load(name).narrow_formats == formats
        assert Hardware.load(name).decoder_formats == ()


def test_a_node_alone_waits_for_nobody(tmp_path: Path) -> None:
    """A table of all-reduces that begins with two nodes."""
    text = (hardware_module.profile_folder() / "gb200-nvl72.yaml").read_text(encoding="utf-8")
    assert "      1: 0 s\n" in text
    path = tmp_path / "gb200.yaml"
    path.write_text(text.replace("      1: 0 s\n", ""), encoding="utf-8")
    without, shipped = Hardware.load(path), Hardware.load("gb200-nvl72")
    assert without.sync_group_sizes == shipped.sync_group_sizes
    assert without.sync_latency_s == shipped.sync_latency_s


def test_no_listed_software_is_called_usual(tmp_path: Path) -> None:
    text = Path("hardware/b200.yaml").read_text(encoding="utf-8")
    path = tmp_path / "b200.yaml"
    path.write_text(text.replace("\n  tilert:\n", "\n  usual:\n"), encoding="utf-8")
    with pytest.raises(FileError, match=r"b200.yaml:\d+: key 'software': 'usual' is the software"):
        Hardware.load(path)


def test_joint_covariance_takes_the_place_of_log_sd(toy: Path) -> None:
    names, central, covariance = Hardware.load(toy).constants()
    assert names == ("reductions_per_layer", "fixed_time_per_layer", "bandwidth_efficiency")
    assert central == pytest.approx([2, 10e-6, 0.8])
    assert covariance == pytest.approx(np.array([[0.01, 0, 0], [0, 0.04, 0.01], [0, 0.01, 0.09]]))
    by_key = {row.key: row for row in Hardware.load(toy).provenance}
    assert by_key["bandwidth_efficiency"].log_sd == pytest.approx(0.3)
    assert by_key["reductions_per_layer"].log_sd == pytest.approx(0.1)


def test_constants_of_another_order_land_in_their_rows(toy: Path) -> None:
    swapped = TEMPORAL.replace(
        "names: [fixed_time_per_layer, bandwidth_efficiency]",
        "names: [bandwidth_efficiency, constants.fixed_time_per_layer]",
    )
    toy.write_text(swapped)
    _, _, covariance = Hardware.load(toy).constants()
    assert np.diag(covariance) == pytest.approx([0.01, 0.09, 0.04])


def test_with_constants_takes_numbers_and_arrays() -> None:
    h = Hardware.load("wse-3")
    names, central, _ = h.constants()
    same = h.with_constants(dict(zip(names, central, strict=True)))
    assert same.constants()[1] == pytest.approx(central)
    many = h.with_constants({"link.latency": np.array([1e-6, 2e-6]), "constants.model_error": 0.5})
    assert many.link_latency_s == pytest.approx([1e-6, 2e-6])
    assert many.model_error_log_sd == 0.5
    assert h.link_latency_s == pytest.approx(5e-6, rel=0.1)
    with pytest.raises(ValueError, match="array"):
        many.constants()
    cut = h.with_constants({"bandwidth_efficiency": np.array([0.5, 1.2])})
    assert cut.bandwidth_efficiency == pytest.approx([0.5, 1.0])
    with pytest.raises(UnknownNameError, match=r"did you mean 'link\.latency'"):
        h.with_constants({"link.latensy": 1.0})


def test_with_value_is_exact_from_then_on(toy: Path) -> None:
    h = Hardware.load("wse-3").with_value("memory.usable_fraction", "100 %")
    assert h.usable_bytes == 44e9
    h = h.with_value("link.latency", "2 us")
    names, _, covariance = h.constants()
    assert "link.latency" not in names and covariance.shape == (len(names), len(names))
    row = next(r for r in h.provenance if r.key == "link.latency")
    assert row.source == "set by hand" and row.log_sd == 0 and row.value == 2e-6
    assert [r.key for r in h.provenance] == [r.key for r in Hardware.load("wse-3").provenance]
    t = Hardware.load(toy).with_value("constants.fixed_time_per_layer", "1 us")
    assert t.fixed_time_per_layer_s == 1e-6
    assert t.covariance_names == ("bandwidth_efficiency",)
    assert t.constants()[0] == ("reductions_per_layer", "bandwidth_efficiency")
    t = t.with_value("scale_up.sync_latency", "1.5 us").with_value("price.purchase", "$30k")
    assert t.sync_latency_s == (0, 1.5e-6) and t.price_dollars == 30e3


@pytest.mark.parametrize(
    ("key", "text", "error", "said"),
    [
        ("memory.capacty", "1 GB", UnknownNameError, "did you mean 'memory.capacity'"),
        (
            "memory.capacity",
            "1 GX",
            UnitError,
            "memory.capacity: found '1 GX', expected a quantity",
        ),
        ("memory.usable_fraction", "1.2", UnitError, "expected at most 100 %"),
        ("memory.capacity", "0 GB", UnitError, "expected more than 0 B"),
        ("compute.cores", "0.5", UnitError, "expected at least 1"),
        ("compute.cores", "1.5", UnitError, "expected a whole number"),
        ("scale_up.size", "8", InputError, "wse-3 is spatial"),
        ("scale_up.sync_latency", "1 us", InputError, "wse-3 is spatial"),
        ("compute.peak.fp3", "1 TFLOP/s", UnknownNameError, "did you mean 'compute.peak.fp"),
    ],
)
def test_with_value_refusals(key: str, text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        Hardware.load("wse-3").with_value(key, text)


def test_a_gpu_has_no_cores(toy: Path) -> None:
    with pytest.raises(InputError, match="toy is temporal and has no such figure"):
        Hardware.load(toy).with_value("compute.cores", "5")


def test_schema_and_keys_name_the_same_figures() -> None:
    spatial = {f.key for f in Hardware.load("wse-3").figures}
    known = set(KEYS) | {"accepted_tokens_per_pass"}
    assert {k for k in spatial if not k.startswith("compute.peak.")} <= known
    text = json.dumps(Profile.model_json_schema())
    for key in KEYS:
        assert f'"{key.rpartition(".")[2]}"' in text
    attributes = Hardware.__dataclass_fields__
    assert all(key.attribute in attributes for key in KEYS.values())


def test_importing_hardware_needs_no_validation_library() -> None:
    code = "import sys, archinfer.hardware.profile, archinfer.cli.hardware; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "archinfer.hardware.profile" in loaded
    assert not {"pydantic", "yaml", "rich.table", "scipy"} & set(loaded)


def test_command_imports_nothing_heavy() -> None:
    code = "import sys, archinfer.cli.hardware; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "pydantic", "yaml", "scipy", "archinfer.hardware.profile"} & set(loaded)


def test_list_and_show() -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["list"])
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in Hardware.names())
    as_json = json.loads(runner.invoke(app, ["list", "--format", "json"]).stdout)
    assert [row["name"] for row in as_json] == Hardware.names()
    shown = json.loads(runner.invoke(app, ["show", "wse-3", "--format", "json"]).stdout)
    assert shown == Hardware.load("wse-3").to_dict()
    b200 = runner.invoke(app, ["show", "b200"], env={"COLUMNS": "80", "NO_COLOR": "1"}).stdout
    assert (
        "constants are those of: serving engines" in b200
        and "fixed times with tilert: x 0.4" in b200
        and "kernels of routed experts: x 0.1" in b200
    )
    table = runner.invoke(app, ["show", "wse-3"], env={"COLUMNS": "80", "NO_COLOR": "1"}).stdout
    assert "memory.capacity" in table and "44 GB" in table and "\x1b" not in table
    assert max(map(len, table.splitlines())) <= 80
    narrow = runner.invoke(app, ["show", "wse-3"], env={"COLUMNS": "50", "NO_COLOR": "1"}).stdout
    assert "memory.capacity: 44 GB; Cerebras WSE-3 launch" in " ".join(narrow.split())
    assert max(map(len, narrow.splitlines())) <= 50


def test_lint_reports_every_file(toy: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    fine = runner.invoke(app, ["lint", "wse-3", str(toy)])
    assert fine.exit_code == 0
    assert [line.split(": ")[1][:2] for line in fine.stdout.splitlines()] == ["OK", "OK"]
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(TEMPORAL.replace("10 GB", "10 GX"))
    mixed = runner.invoke(app, ["lint", str(wrong), str(toy), str(tmp_path / "missing.yaml")])
    assert mixed.exit_code == 2
    assert len(mixed.stdout.splitlines()) == 1
    faults = mixed.stderr.splitlines()
    assert len(faults) == 2
    assert faults[0].startswith(
        f"error: {wrong}:7: key 'memory.capacity.value': found '10 GX', expected"
    )
    assert faults[1] == f"error: {tmp_path / 'missing.yaml'}: no such file"


@pytest.mark.parametrize("like", Hardware.names())
def test_a_profile_is_begun_like_any_other_and_passes_lint(
    like: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    begun = runner.invoke(app, ["init", "mine", "--like", like])
    assert begun.exit_code == 0 and begun.stdout.startswith("mine.yaml: written")
    checked = runner.invoke(app, ["lint", "mine.yaml"])
    assert checked.exit_code == 0, checked.stderr
    mine, other = Hardware.load("mine.yaml"), Hardware.load(like)
    assert mine.name == "mine"
    for key in ("memory_capacity_bytes", "bandwidth_bytes_per_s", "fixed_time_per_layer_s"):
        assert getattr(mine, key) == getattr(other, key)
    assert mine.sync_latency_s == other.sync_latency_s
    text = Path("mine.yaml").read_text(encoding="utf-8")
    assert "peak memory bandwidth of one node" in text
    if "like: gpu" in text:
        assert "# Borrowed from the constants of gpu" in text
    own = {f.source for f in mine.figures if f.key.startswith("memory.")}
    assert own == {f"estimate, as {other.name}"}
    assert runner.invoke(app, ["init", "mine", "--like", like]).exit_code != 0


def test_every_missing_key_is_named_in_one_run(tmp_path: Path) -> None:
    text = Path("hardware/h100-sxm.yaml").read_text(encoding="utf-8")
    for section in ("memory", "constants"):
        text = re.sub(rf"(?m)^{section}:\n(?:  .*\n)+", "", text)
    text = re.sub(r"(?m)^  peak:\n(?:    .*\n)+", "  cores: {value: 1, source: x}\n", text)
    text = text.replace("  size:\n    value: 8\n    source: HGX H100\n", "")
    path = tmp_path / "short.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError) as caught:
        Hardware.load(path)
    told = "\n".join(map(str, (caught.value, *caught.value.further)))
    for key in ("'memory'", "'peak' in 'compute'", "'size' in 'scale_up'"):
        assert f"missing key {key}" in told


def test_a_machine_alone_needs_neither_links_nor_all_reduces(tmp_path: Path) -> None:
    text = Path("hardware/apple-m4-max.yaml").read_text(encoding="utf-8").replace("like: gpu\n", "")
    text = re.sub(r"(?m)^software:\n(?:  .*\n)+", "", text)
    constants = "".join(
        f"  {k}: {{value: {v}, source: made up}}\n"
        for k, v in (
            ("fixed_time_per_layer", "50 us"),
            ("bandwidth_efficiency", 0.8),
            ("compute_efficiency", 0.5),
        )
    )
    path = tmp_path / "alone.yaml"
    path.write_text(text.replace("constants:\n", "constants:\n" + constants), encoding="utf-8")
    assert Hardware.load(path).alone
    linked = "link:\n  bandwidth: {value: 1 GB/s, source: x}\n  latency: {value: 1 us, source: x}\n"
    path.write_text(path.read_text(encoding="utf-8") + linked, encoding="utf-8")
    with pytest.raises(FileError, match="missing key 'reductions_per_layer'"):
        Hardware.load(path)
