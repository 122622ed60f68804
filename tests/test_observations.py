"""Observations: the shipped rows, users' own files, and what is wrong with them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from archinfer import catalogue
from archinfer.errors import FileError, InputError
from archinfer.fitting import observations
from archinfer.fitting.cases import prepare_all
from archinfer.fitting.observations import Observation
from archinfer.hardware.profile import Hardware

ROW = """\
- id: one
  model: Some Model
  architecture: llama-3.1-8b
  hardware: Cerebras WSE-3 (CS-3)
  profile: wse-3
  nodes: 1
  batch: null
  tokens_per_s: 1800
  speculative: false
  weight_bits: 16
  context_tokens: null
  date: '2024-08-27'
  measured_by: somebody
  source:
    url: https://example.org
    title: A page
  note: nothing
  confidence: high
"""


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rows.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _fault(tmp_path: Path, text: str) -> str:
    with pytest.raises(FileError) as caught:
        observations.read(_file(tmp_path, text))
    return str(caught.value).removeprefix(str(tmp_path / "rows.yaml"))


def test_shipped_rows_have_a_source_and_a_known_architecture() -> None:
    rows = observations.load()
    assert len(rows) >= 81
    known = set(catalogue.names())
    for row in rows:
        assert row.source_url or row.source_title, row.id
        assert row.architecture is None or row.architecture in known, row.id


def test_published_figures_are_as_published() -> None:
    rows = {row.id: row for row in observations.load()}
    first = rows["cs3-llama3.1-70b-2024-08"]
    assert (first.tokens_per_s, first.nodes, first.speculative) == (450.0, 4, False)
    assert rows["cs3-llama3.1-405b-2024-11"].speculative is None
    assert rows["cs3-llama3.1-405b-2024-11"].nodes is None
    assert rows["wse2-waferllm-qwen2-72b-660"].mesh_side == 660.0
    assert not rows["wse2-waferllm-e2e-llama3-8b"].fitted


def test_dates_of_any_precision(tmp_path: Path) -> None:
    for text, kept in (("'2025'", "2025"), ("2025", "2025"), ("2025-07", "2025-07"), ("null", "")):
        path = _file(tmp_path, ROW.replace("'2024-08-27'", text))
        assert observations.read(path)[0].date == kept


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("profile:", "profil:", ":5: unknown key 'profil'; did you mean 'profile'?"),
        ("  model: Some Model\n", "", ":1: missing key 'model'"),
        ("1800", "fast", ":8: key 'tokens_per_s': found 'fast', expected a number"),
        ("1800", "-3", ":8: key 'tokens_per_s': found -3, expected"),
        ("1800", "true", ":8: key 'tokens_per_s': found true, expected a number"),
        ("false", "maybe", ":9: key 'speculative': found 'maybe', expected true, false or unknown"),
        ("'2024-08-27'", "'2024-13-27'", ":12: key 'date': found '2024-13-27', expected a date"),
        ("nodes: 1", "nodes: 0", ":6: key 'nodes': found 0, expected"),
        ("nodes: 1", "nodes: 1.5", ":6: key 'nodes': found 1.5, expected a whole number"),
        ("nodes: 1", "nodes: true", ":6: key 'nodes': found true, expected a whole number"),
        ("high", "sure", ":18: key 'confidence': found 'sure', expected"),
    ],
)
def test_faults_name_line_and_key(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert _fault(tmp_path, ROW.replace(before, after, 1)).startswith(message)


def test_fault_in_a_later_row_has_its_own_line(tmp_path: Path) -> None:
    second = ROW.replace("id: one", "id: two").replace("1800", "0")
    assert _fault(tmp_path, ROW + second).startswith(":26: key 'tokens_per_s'")


def test_same_id_twice_is_refused(tmp_path: Path) -> None:
    assert _fault(tmp_path, ROW + ROW) == ":19: key 'id': 'one' is there twice (first on line 1)"


def test_a_mapping_is_no_list(tmp_path: Path) -> None:
    assert "expected a list of observations" in _fault(tmp_path, "rows: 3\n")


def test_own_rows_are_added_and_replace_by_id(tmp_path: Path) -> None:
    same = ROW.replace("id: one", "id: cs3-gpt-oss-120b").replace("1800", "2999")
    shipped = observations.load()
    both = observations.load(_file(tmp_path, ROW + same))
    assert len(both) == len(shipped) + 1
    speeds = {row.id: row.tokens_per_s for row in both}
    assert (speeds["one"], speeds["cs3-gpt-oss-120b"]) == (1800.0, 2999.0)


def test_a_draft_model_is_read_and_must_exist(tmp_path: Path) -> None:
    known = ROW.replace(
        "  note:", "  draft_architecture: llama-2-7b\n  draft_weight_bits: 4\n  note:"
    )
    (row,) = observations.read(_file(tmp_path, known))
    model = row.draft_model()
    assert model is not None and model.name == "llama-2-7b"
    assert row.draft_weight_bits == 4.0
    (plain,) = observations.read(_file(tmp_path, ROW))
    assert plain.draft_model() is None
    (wrong,) = observations.read(_file(tmp_path, known.replace("llama-2-7b", "llama-2-7x")))
    with pytest.raises(FileError, match=r"rows.yaml:17: key 'draft_architecture'.*llama-2-7b"):
        wrong.draft_model()
    text = known.replace("draft_weight_bits: 4", "draft_weight_bits: four")
    assert "draft_weight_bits" in _fault(tmp_path, text)


def test_software_follows_from_the_date(tmp_path: Path) -> None:
    early = ROW.replace("  note:", "  software: early\n  note:")
    end = early.replace("id: one", "id: end").replace("2024-08-27", "2024-10-01")
    known = observations.read(_file(tmp_path, early + end))
    texts = (("a", "2024-09-15"), ("b", "2024-09"), ("c", "2024"), ("d", "2025-08-27"))
    more = "".join(ROW.replace("id: one", f"id: {i}").replace("2024-08-27", d) for i, d in texts)
    other = ROW.replace("id: one", "id: e").replace("profile: wse-3", "profile: wse-2")
    rows = observations.software_by_date(observations.read(_file(tmp_path, more + other)), known)
    assert [row.software for row in rows] == ["early", "early", None, None, None]
    assert [row.software_assumed for row in rows] == [True, True, False, False, False]
    assert not any(row.software_assumed for row in known)


def test_a_year_alone_spans_no_dates(tmp_path: Path) -> None:
    late = ROW.replace("  note:", "  software: late\n  note:")
    dated = (("year", "2025"), ("first", "2025-08"), ("last", "2025-10"))
    known = observations.read(
        _file(tmp_path, "".join(late.replace("one", i).replace("2024-08-27", d) for i, d in dated))
    )
    texts = (("a", "2025-03"), ("b", "2025-09"))
    more = "".join(ROW.replace("id: one", f"id: {i}").replace("2024-08-27", d) for i, d in texts)
    asked = observations.read(_file(tmp_path, more))
    rows = observations.software_by_date(asked, known)
    assert [row.software for row in rows] == [None, "late"]
    # What was assumed before is no ground to assume more, and two that fit are none.
    other = late.replace("late", "other").replace("one", "two").replace("2024-08-27", "2025-09-01")
    both = [*known, *observations.read(_file(tmp_path, other + other.replace("two", "three")))]
    same_day = observations.read(_file(tmp_path, ROW.replace("2024-08-27", "2025-09-01")))
    assert observations.software_by_date(same_day, both)[0].software is None
    assert observations.software_by_date(same_day, [*known, *rows])[0].software == "late"


def test_rows_without_profile_or_architecture_are_skipped_with_a_reason(tmp_path: Path) -> None:
    text = (
        ROW
        + ROW.replace("id: one", "id: two").replace("profile: wse-3", "profile: null")
        + ROW.replace("id: one", "id: three").replace("llama-3.1-8b", "null")
        + ROW.replace("id: one", "id: four").replace("profile: wse-3", "profile: abacus")
    )
    rows, warnings = observations.usable(observations.read(_file(tmp_path, text)), ["wse-3"])
    assert [row.id for row in rows] == ["one"]
    assert [w.partition("skipped: ")[2] for w in warnings] == [
        "no hardware profile named",
        "its architecture is not public",
        "no hardware profile 'abacus'",
    ]


def test_architecture_from_a_config_beside_the_file(tmp_path: Path) -> None:
    config = catalogue.entry("llama-3.1-8b").config
    (tmp_path / "my.json").write_text(json.dumps(config), encoding="utf-8")
    row = observations.read(_file(tmp_path, ROW.replace("llama-3.1-8b", "my.json")))[0]
    assert row.architecture_model().parameters().total == 8_030_261_248


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("meta-llama/lama-3.1-8b", "; did you mean 'llama-3.1-8b'?"),
        ("mine.json", ""),
        ("zzzz", ""),
    ],
)
def test_a_name_that_is_neither_model_nor_file_is_one_line(
    tmp_path: Path, name: str, nearest: str
) -> None:
    second = ROW.replace("id: one", "id: two").replace("llama-3.1-8b", name)
    row = observations.read(_file(tmp_path, ROW + second))[1]
    with pytest.raises(FileError) as caught:
        row.architecture_model()
    no_file = "" if name == "zzzz" else f", and there is no file {tmp_path / name}"
    assert str(caught.value) == (
        f"{tmp_path / 'rows.yaml'}:21: key 'architecture': found '{name}', expected a model of "
        f"the catalogue or the path of a config.json{no_file}{nearest}"
    )


def test_a_repository_name_is_a_model_of_the_catalogue(tmp_path: Path) -> None:
    (row,) = observations.read(
        _file(tmp_path, ROW.replace("llama-3.1-8b", "meta-llama/Llama-3.1-8B"))
    )
    assert row.architecture_model().name == "llama-3.1-8b"


def test_no_source_and_whole_floats_are_read(tmp_path: Path) -> None:
    start, _, rest = ROW.partition("  source:\n")
    text = (
        start.replace("nodes: 1", "nodes: 1.0")
        + "  source: null\n  note:"
        + (rest.partition("  note:")[2])
    )
    (row,) = observations.read(_file(tmp_path, text + "  draft_tokens: 3.0\n"))
    assert (row.source_url, row.source_title) == ("", "")
    assert (row.nodes, row.draft_tokens) == (1, 3)
    assert isinstance(row.nodes, int)
    assert isinstance(row.draft_tokens, int)


def test_a_profile_in_capitals_is_skipped_with_the_nearest_name(tmp_path: Path) -> None:
    rows = observations.read(_file(tmp_path, ROW.replace("wse-3", "WSE-3", 1)))
    kept, (warning,) = observations.usable(rows, ["wse-2", "wse-3"])
    assert kept == []
    assert warning.endswith("skipped: no hardware profile 'WSE-3'; did you mean 'wse-3'?")
    assert observations.of_profile(rows, "wse-3", ["wse-2", "wse-3"]) == rows
    assert observations.of_profile(rows, "wse-2", ["wse-2", "WSE-3"]) == []


def test_a_region_on_temporal_hardware_is_refused(tmp_path: Path) -> None:
    text = ROW.replace("profile: wse-3", "profile: h100-sxm") + "  mesh_side: 400\n"
    (row,) = observations.read(_file(tmp_path, text))
    with pytest.raises(FileError, match=r"rows.yaml:19: key 'mesh_side': found 400, expected none"):
        prepare_all([row], Hardware.load("h100-sxm"))


def test_unknown_architecture_names_the_line_and_the_nearest(tmp_path: Path) -> None:
    row = observations.read(_file(tmp_path, ROW.replace("llama-3.1-8b", "lama-3.1-8b")))[0]
    with pytest.raises(InputError, match=r"rows.yaml:3: .*'lama-3.1-8b'.*llama-3.1-8b"):
        row.architecture_model()


def test_the_schema_takes_the_shipped_rows_and_no_others() -> None:
    from jsonschema import Draft202012Validator

    from archinfer import files
    from archinfer.schemas import json_schema

    with resources.as_file(resources.files("archinfer") / "data" / "observations.yaml") as path:
        rows = files.load(path).data
    check = Draft202012Validator(json_schema("observations"))
    assert check.is_valid(rows)
    assert not check.is_valid([{**rows[0], "kv_bits": -8}])
    assert not check.is_valid([{**rows[0], "kv_format": "fp8"}])


def test_a_calibrated_machine_is_released_for_another_engine(tmp_path: Path) -> None:
    """Speeds of an engine that reads at half the speed: constants stay where calibration put them,
    and move where they are released."""
    from archinfer.calibration.host import Ceilings, Host, profile_data, profile_hardware
    from archinfer.fitting.fit import fit_rows
    from archinfer.fitting.prior import fit_prior
    from archinfer.forward.predict import predict
    from archinfer.models import catalogue
    from archinfer.physics.deployment import Deployment

    host = Host("a processor", 2, 2, 64e9, "2026-01-02", "calibrate", Ceilings(20e9, 150e9))
    known = {"bandwidth_efficiency": (0.8, 0.03), "compute_efficiency": (0.4, 0.1)}
    machine = profile_hardware(profile_data(host, known, 0.05))
    engine = machine.with_constants({"bandwidth_efficiency": 0.4})
    rows = []
    for name in ("llama-3.2-1b", "llama-2-7b", "llama-3.1-8b", "mistral-7b-v0.1", "qwen3-8b"):
        asked = Deployment(weights="bf16", context_tokens=512)
        speed = float(predict(catalogue.load(name), engine, asked, changes=False).speed[1])
        rows.append(
            Observation(
                name,
                name,
                name,
                "host",
                speed,
                nodes=1,
                batch=1.0,
                speculative=False,
                weight_bits=16.0,
                context_tokens=512.0,
            )
        )
    prior = fit_prior(machine)
    (tight, cases), (free, _) = (fit_rows(machine, rows, p) for p in (prior, prior.released(1.0)))
    error = [np.abs(f.residuals(cases)).max() for f in (tight, free)]
    assert error[1] < 0.05 < error[0]
    assert free.constants["bandwidth_efficiency"] == pytest.approx(0.4, rel=0.1)
    assert all(v <= 1.0 for n, v in free.constants.items() if n.endswith("efficiency"))
    # Keys and values of 8 bits are half as many bytes.
    wide, narrow = (
        prepare_all([replace(rows[0], kv_bits=bits)], machine)[0].workload.memory.kv
        for bits in (None, 8.0)
    )
    assert narrow == pytest.approx(0.5 * wide)


@pytest.mark.parametrize("key", ["batch", "context_tokens", "nodes", "prompt_tokens"])
def test_numbers_of_a_row_have_a_bound(key: str, tmp_path: Path) -> None:
    text = (resources.files("archinfer") / "data" / "observations-example.yaml").read_text("utf-8")
    said = _fault(tmp_path, re.sub(rf"(?m)^(  {key}: )\d+", r"\g<1>1e300", text))
    assert f"'{key}'" in said and "less than or equal to" in said


def test_a_time_is_above_0(tmp_path: Path) -> None:
    text = (resources.files("archinfer") / "data" / "observations-example.yaml").read_text("utf-8")
    said = _fault(tmp_path, re.sub(r"(?m)^(  time_per_output_token: )\d+", r"\g<1>0", text))
    assert "'time_per_output_token'" in said and "greater than 0" in said
