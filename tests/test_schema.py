"""JSON Schemas: valid themselves, equal to what is shipped, and true of real files and outputs."""

from __future__ import annotations

import json
import runpy
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from archinfer import Hardware, files, infer
from archinfer.api.solving import question
from archinfer.calibration import blind
from archinfer.calibration import calibrate as calibration
from archinfer.cli.examples import example
from archinfer.errors import FileError
from archinfer.fitting import observations
from archinfer.fitting.inverse import InverseCase, validate_inverse
from archinfer.fitting.transfer import transfer
from archinfer.hardware.reading import read_profile
from archinfer.models.solver_family import FamilyRules, family_shape
from archinfer.record import plain
from archinfer.schemas import OUTPUTS, SCHEMAS, json_schema
from tests.cli import run
from tests.test_calibration import FakeBench

pytestmark = pytest.mark.usefixtures("few_draws")

ROOT = Path(__file__).resolve().parent.parent
PROFILES = sorted((ROOT / "hardware").glob("*.yaml"))
CHECKS = sorted((ROOT / "tests" / "checks").glob("*.yaml"))


def as_json(value: Any) -> Any:
    """YAML data as an editor sees them: every key is text."""
    if isinstance(value, dict):
        return {str(key): as_json(inner) for key, inner in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value


def closed(node: Any) -> Any:
    """The schema with no other keys allowed, so that a key without documentation is an error."""
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {key: closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        result["additionalProperties"] = False
    return result


def faults(schema: dict[str, Any], value: Any) -> list[str]:
    found = Draft202012Validator(schema).iter_errors(value)
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in found]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_schemas(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Draft202012Validator.check_schema(json_schema(name))
    printed = run(capsys, "schema", name)
    assert printed.code == 0
    assert json.loads(printed.out) == json.loads(json.dumps(json_schema(name)))


def test_listing_and_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    listed = run(capsys, "schema").out.splitlines()
    assert [line.split()[0] for line in listed] == list(SCHEMAS)
    wrong = run(capsys, "schema", "hardwear")
    assert wrong.code == 2 and "did you mean 'hardware'" in wrong.err


def test_the_shipped_schema_is_the_generated_one() -> None:
    """Written by: archinfer schema hardware > hardware/schema.json"""
    shipped = json.loads((ROOT / "hardware" / "schema.json").read_text(encoding="utf-8"))
    assert shipped == json.loads(json.dumps(json_schema("hardware")))


@pytest.mark.parametrize("path", PROFILES, ids=lambda p: p.stem)
def test_shipped_profiles_name_the_schema_and_obey_it(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    key, _, target = first.partition("$schema=")
    assert key == "# yaml-language-server: "
    assert (path.parent / target).resolve() == ROOT / "hardware" / "schema.json"
    assert CHECKER.is_valid(as_json(files.load(path).data))


@pytest.mark.parametrize("path", CHECKS, ids=lambda p: p.stem)
def test_check_files_obey_their_schema(path: Path) -> None:
    assert faults(json_schema("check"), files.load(path).data) == []


def test_the_example_obeys_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(example("checks-example.yaml", "c.yaml"))
    assert faults(json_schema("check"), files.load(path).data) == []


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, ...]] = [at] if at else []
    if isinstance(value, dict):
        for key, item in value.items():
            inner += places(item, (*at, key))
    return inner


def put(value: Any, place: tuple[Any, ...], new: Any) -> None:
    for part in place[:-1]:
        value = value[part]
    if new is KeyError:
        del value[place[-1]]
    else:
        value[place[-1]] = new


WSE3 = files.load(ROOT / "hardware" / "wse-3.yaml").data
CHECKER = Draft202012Validator(json_schema("hardware"))


@pytest.mark.parametrize("place", places(WSE3), ids=lambda p: ".".join(map(str, p)))
def test_schema_and_reader_refuse_the_same_profiles(place: tuple[Any, ...], tmp_path: Path) -> None:
    """Each key of a profile in turn is left out, emptied and misspelt: both agree.

    Rules over several keys and values of a quantity are the reader's alone.
    """
    path = tmp_path / "p.yaml"
    for new in (KeyError, None, [], {"x": 1}):
        changed = deepcopy(WSE3)
        put(changed, place, new)
        path.write_text(json.dumps(changed))
        try:
            read_profile(path)
            accepted = True
        except FileError as error:
            several = (
                "execution spatial needs",
                "work together need",
                "rows of",
                "unknown constant",
            )
            if any(words in error.message for words in several):
                continue
            accepted = False
        assert CHECKER.is_valid(as_json(changed)) is accepted, (place, new)


TARGET = ["solve", "--nodes", "88", "--tokens-per-second", "750", "--architectures", "3"]
COMMANDS: list[tuple[str, list[str]]] = [
    ("solve", TARGET),
    ("solve", [*TARGET, "--attention", "mla", "--total", "2T:", "--physics-only"]),
    ("solve", ["solve", "--nodes", "1", "--total", "1T"]),
    ("solve", ["solve", "--hardware", "h100-sxm", "--nodes", "8", "--tokens-per-second", "50"]),
    ("predict", ["predict", "llama-3.1-70b", "deepseek-r1", "--hardware", "h100-sxm"]),
    ("predict", ["predict", "gpt-oss-120b", "--hardware", "wse-3", "--nodes", "1"]),
    ("solve", ["solve", "--observed", "750", "--nodes", "88", "--compare", "gpt-oss-120b=3000"]),
    ("compare", ["compare", "llama-3.1-70b", "kimi-k2", "--hardware", "wse-3,b200"]),
    ("pareto", ["pareto", "kimi-k2", "--hardware", "wse-2,b200", "--target", "60", "--ttft", "1s"]),
    ("pareto", ["pareto", "llama-3.1-70b", "--hardware", "h100-sxm", "--target", "900"]),
    ("models-show", ["models", "show", "deepseek-v3"]),
    ("models-show", ["models", "show", "jamba-v0.1"]),
    ("models-list", ["models", "list"]),
    ("validate", ["validate", "--hardware", "wse-2", "--no-inverse"]),
    ("hardware-show", ["hardware", "show", "wse-3"]),
    ("hardware-show", ["hardware", "show", "b200"]),
    ("hardware-list", ["hardware", "list"]),
    ("check-output", ["check", "tests/checks/claims.yaml", "tests/checks/none.yaml"]),
]


@pytest.mark.parametrize(("name", "arguments"), COMMANDS, ids=lambda v: str(v)[:60])
def test_outputs_obey_their_schemas(
    name: str,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    value = json.loads(run(capsys, *arguments, "--format", "json").out)
    assert faults(closed(json_schema(name)), value) == []


def test_every_output_is_held_against_its_schema() -> None:
    assert {name for name, _ in COMMANDS} | {"calibrate"} == set(OUTPUTS)


def test_calibrate_obeys_its_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = FakeBench(0.01)
    for module in (calibration, blind):
        monkeypatch.setattr(module, "Bench", lambda threads=None: bench)
    asked = ["calibrate", "--quick", "--format", "json"]
    for arguments in (asked, [*asked, "--blind", "--cases", "1"]):
        value = json.loads(run(capsys, *arguments).out)
        assert faults(closed(json_schema("calibrate")), value) == []


@pytest.mark.parametrize("speed", [750, 1e9])
def test_posterior_obeys_its_schema(speed: float) -> None:
    posterior = infer(question("wse-3", 88, observed=speed), samples=512, target_ess=50)
    schema = closed(json_schema("solve"))
    value = json.loads(json.dumps(plain(posterior.to_dict())))
    assert faults({"$ref": "#/$defs/Posterior", "$defs": schema["$defs"]}, value) == []


def test_parts_of_validate_obey_their_schema() -> None:
    """What the shipped rows give beyond one profile: a transfer, and inverses of both kinds."""
    rows, _ = observations.usable(observations.load(), ["wse-2", "wse-3"])
    moved = transfer(Hardware.load("wse-2"), Hardware.load("wse-3"), rows)
    shape = family_shape(7e10, 7e10, 80.0, FamilyRules())
    hardware = Hardware.load("wse-3")
    cases = [
        InverseCase(id=f"{speed:g}", hardware=hardware, nodes=n, tokens_per_s=speed, shape=shape)
        for speed, n in ((450.0, 4), (450.0, None), (1e9, 4))
    ]
    found = validate_inverse(cases, samples=512)
    assert [row["possible"] for row in found["rows"]] == [True, True, False]
    schema = closed(json_schema("validate"))
    for name, part in (("Transfer", moved), ("Inverse", found)):
        value = json.loads(json.dumps(plain(part)))
        assert faults({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}, value) == []


def test_schema_refuses_what_is_wrong() -> None:
    """The tests above can fail: a key that is missing, of a wrong type, or not documented."""
    value = {"results": [], "passed": 1, "failed": 0, "errors": [], "warnings": []}
    schema = closed(json_schema("check-output"))
    assert faults(schema, value) == []
    assert faults(schema, value | {"more": 1})
    assert faults(schema, value | {"passed": "1"})
    assert faults(schema, {k: v for k, v in value.items() if k != "failed"})


def test_the_page_of_json_keys_is_up_to_date() -> None:
    """Written by: python docs/json_reference.py"""
    made = runpy.run_path(str(ROOT / "docs" / "json_reference.py"))["page"]()
    assert (ROOT / "docs" / "json.md").read_text(encoding="utf-8") == made
