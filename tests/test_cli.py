"""The command line as a whole: start-up, help, version, exit codes, completion, hooks."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from archinfer import files
from archinfer.api.evidence import NAMED
from archinfer.cli import main as cli
from archinfer.errors import InputError, MeasurementError
from archinfer.inference.evidence import KINDS
from archinfer.question import options
from tests.cli import call, run

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("numpy", "scipy", "pydantic", "yaml", "matplotlib")
LIGHT_OWN = {
    "archinfer",
    "archinfer.__main__",
    "archinfer.cli.main",
    "archinfer.errors",
    "archinfer.asked",
    "archinfer.asked.served",
    "archinfer.asked.solved",
    "archinfer.asked.upkeep",
    "archinfer.asking",
    "archinfer.question",
    "archinfer.units",
    "archinfer.cli.usage",
}

COMMANDS = [
    [command.name or command.callback.__name__]  # type: ignore[union-attr]
    for command in cli.app.registered_commands
] + [
    [group.name, command.name or command.callback.__name__]  # type: ignore[union-attr]
    for group in cli.app.registered_groups
    for command in group.typer_instance.registered_commands  # type: ignore[union-attr]
]


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("_ARCHINFER", "COV_CORE"))}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=ROOT,
        env=clean | {"PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", "COLUMNS": "100"} | environment,
    )


def loaded(*arguments: str) -> set[str]:
    """Modules in memory after `archinfer ARGUMENTS`."""
    code = (
        "import sys\n"
        f"sys.argv = ['archinfer', *{arguments!r}]\n"
        "from archinfer.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('MODULES', *sys.modules)"
    )
    done = python("-c", code)
    assert not done.stderr, done.stderr
    return set(done.stdout.rpartition("MODULES")[2].split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["solve", "--help"],
                                       ["check", "--help"], ["hardware", "--help"]])  # fmt: skip
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    modules = loaded(*arguments)
    # Newer versions of typer read the parameters of a command with pydantic themselves.
    heavy = set(HEAVY) - ({"pydantic"} if "typer._adapters" in modules else set())
    assert not {m for m in modules if m.split(".")[0] in heavy}
    own = {m for m in modules if m.split(".")[0] == "archinfer"}
    assert {m for m in own if not m.startswith("archinfer.cli")} <= LIGHT_OWN


def test_the_test_above_can_fail() -> None:
    assert {"numpy", "pydantic", "archinfer.hardware.profile"} <= loaded("hardware", "list")


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "archinfer" / "cli").glob("*.py")),
    ids=lambda p: p.stem,
)
def test_commands_import_nothing_heavy_at_module_level(path: Path) -> None:
    """Only the standard library, typer, light modules and other commands; all else in functions."""
    allowed = {*sys.stdlib_module_names, "typer"}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            light = ("archinfer.cli", "archinfer.errors", "archinfer.asking", "archinfer.question")
            own = name in light or name.startswith("archinfer.cli.")
            assert own or name.split(".")[0] in allowed, f"{path.name} imports {name}"


def test_help_names_every_command() -> None:
    listed = python("-m", "archinfer", "--help")
    assert listed.returncode == 0 and not listed.stderr
    for command in COMMANDS:
        assert command[0] in listed.stdout
    assert "Exit codes: 0" in " ".join(listed.stdout.split())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, *command, "--help")
    assert done.code == 0 and not done.err
    assert "Usage: archinfer " + " ".join(command) in done.out
    short = run(capsys, *command, "-h")
    assert short.out == done.out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert run(capsys, "--version").out == f"archinfer {project['version']}\n"
    assert version("archinfer") == project["version"]


def test_module_and_script_are_the_same() -> None:
    assert python("-m", "archinfer", "--version").stdout.startswith("archinfer ")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"archinfer": "archinfer.__main__:run"}


def test_exit_codes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = ["--nodes", "1", "--total", "1T:", "--architectures", "0"]
    assert run(capsys, "solve", *nothing).code == 0
    for wrong in (["solve", "--nodes", "none"], ["nonsense"], ["solve", "--nonsense"],
                  ["hardware", "show", "wse-33"]):  # fmt: skip
        done = run(capsys, *wrong)
        assert done.code == 2
        assert done.err and not done.out
        assert "Traceback" not in done.err
    assert "did you mean 'wse-3'" in done.err

    def fails(error: Exception) -> int:
        def app(**_: Any) -> None:
            raise error

        monkeypatch.setattr(cli, "app", app)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return int(stopped.value.code or 0)

    assert fails(InputError("x")) == 2
    assert capsys.readouterr().err == "error: x\n"
    assert fails(MeasurementError("y")) == 1


@pytest.mark.parametrize(("words", "offered"), [
    ("archinfer ", {"solve", "predict", "check", "schema", "hardware"}),
    ("archinfer sol", {"solve"}),
    ("archinfer hardware ", {"list", "show", "lint"}),
    ("archinfer solve --obs", {"--observed"}),
    ("archinfer check --format ", {"table", "json", "junit", "github"}),
])  # fmt: skip
def test_bash_completion(words: str, offered: set[str]) -> None:
    position = str(len(words.split()) - (0 if words.endswith(" ") else 1))
    done = python(
        "-c", "import sys; sys.argv = ['archinfer']; from archinfer.cli.main import main; main()",
        _ARCHINFER_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=position,
    )  # fmt: skip
    assert not done.stderr
    assert offered <= set(done.stdout.split())
    if not words.endswith(" "):
        assert all(o.startswith(words.split()[-1]) for o in done.stdout.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = python(
        "-c", "import sys; sys.argv = ['archinfer']; from archinfer.cli.main import main; main()",
        _ARCHINFER_COMPLETE=f"source_{shell}",
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr
    assert "_ARCHINFER_COMPLETE" in done.stdout


def test_pre_commit_hooks_run_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    hooks = files.load(ROOT / ".pre-commit-hooks.yaml").data
    samples = {
        "archinfer-hardware": "hardware/wse-3.yaml",
        "archinfer-check": "tests/checks/a.yaml",
    }
    for hook in hooks:
        assert {"id", "name", "entry", "language", "files"} <= set(hook)
        assert hook["language"] == "python"
        program, *words = hook["entry"].split()
        assert program == "archinfer"
        assert run(capsys, *words, "--help").code == 0
    assert len({hook["id"] for hook in hooks}) == len(hooks)
    assert set(samples) <= {hook["id"] for hook in hooks}


def test_the_workflow_calls_the_same_script() -> None:
    path = ROOT / ".github" / "workflows" / "ci.yml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert any(step.get("run", "").strip() == "bash .ci/run" for step in job["steps"])
    lowest = " ".join(step.get("run", "") for step in workflow["jobs"]["lowest"]["steps"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        name, bound = requirement.split(">=")
        assert f"'{name}=={bound}" in lowest
    # YAML 1.1 reads the key `on` as true.
    assert {"push", "pull_request"} <= set(workflow[True])


@pytest.mark.parametrize(
    "words",
    [["solve", "--architectures", "0"], ["hardware", "show", "wse-3"]],
    ids=lambda words: words[0],
)
def test_a_reader_that_goes_is_no_error(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "archinfer", *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words", [["hardware", "list"], ["predict", "kimi-k2", "--format", "json"], ["schema"]]
)
def test_a_full_disk_is_one_line(words: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "archinfer", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write: ") and "Errno" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that closes descriptors")
@pytest.mark.parametrize(("redirect", "words"), [
    (">&-", "error: cannot write: standard output is closed"),
    ("<&-", "error: standard input: is closed"),
    ("2>&-", ""),
])  # fmt: skip
def test_a_closed_stream_is_no_traceback(redirect: str, words: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m archinfer predict - {redirect}', sys.executable],
        input="{}",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(words)
    assert len(done.stderr.splitlines()) == (1 if words else 0)


@pytest.mark.parametrize("columns", ["0", "-1", "many", "", "²²"])
@pytest.mark.parametrize(
    "words",
    [("hardware", "list"), ("predict", "llama-3.1-8b")],
)
def test_a_width_that_cannot_be_is_not_believed(
    words: tuple[str, ...],
    columns: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    plain = run(capsys, *words).out
    monkeypatch.setenv("COLUMNS", columns)
    assert run(capsys, *words).out == plain != ""


def test_a_window_too_narrow_for_any_table_is_the_narrowest() -> None:
    narrow, least = (call("hardware", "list", env={"COLUMNS": c}).out for c in ("19", "20"))
    assert narrow == least != call("hardware", "list", env={"COLUMNS": "21"}).out


def test_a_width_too_narrow_is_the_narrowest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = []
    for columns in ("1", "10", "20"):
        monkeypatch.setenv("COLUMNS", columns)
        out.append(run(capsys, "hardware", "list").out)
    assert out[0] == out[1] == out[2] != ""
    assert max(map(len, out[0].splitlines())) <= 20


def test_a_blank_that_is_none_is_in_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "predict", "kimi\tk2")
    assert done.code == 2 and "found 'kimi\\tk2'" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["solve", "--nonsense"], "no such option '--nonsense'"),
        (["solve", "--observ", "3"], "'--observ'; did you mean '--observed'? (see archinfer solve"),
        (["predict", "--modle=x"], "no such option '--modle'"),
        (["solve", "--nodes"], "'--nodes' requires an argument"),
        (["solve", "--format", "jso"],
         "--format: expected table, json, csv or markdown, found 'jso'; did you mean 'json'?"),
        (["solve", "--architectures", "101"], "--architectures: "),
        (["calibrate", "--threads", "many"], "--threads: "),
        (["hardware", "show"], "missing argument"),
        (["hardware", "lis"], "no such command 'lis'; did you mean 'list'?"),
        (["solve", "word"], "(word); archinfer predict MODEL"),
        (["solve", "--model", "kimi-k2"], "'--model'; archinfer predict MODEL says"),
        (["solve", "--speed", "9"], "--tokens-per-second is a target, --observed a measurement"),
        (["solve", "--csv"], "no such option '--csv'; --format csv"),
        (["check", "--plot", "x.svg"], "archinfer predict MODEL --plot FILE draws it"),
    ],
)  # fmt: skip
def test_what_the_parser_refuses_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, *words)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: ") and said in line


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "hardware")
    assert "Usage: archinfer hardware" in done.out + done.err
    assert "error" not in done.err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_name_that_cannot_be_shown_is_no_traceback(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "archinfer", "predict", "modèl 🦙.json"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        timeout=60,
    )
    assert done.returncode == 2
    text = done.stderr.decode(encoding, errors="replace")
    assert text.startswith("error: ")
    assert len(text.splitlines()) == 1


def test_nodes_have_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "solve", "--nodes", "1e12")
    assert done.code == 2
    assert "--nodes: expected at most 100,000" in done.err


@pytest.mark.parametrize("module", ["typer", "numpy", "pydantic", "archinfer.solver.region"])
def test_an_interrupted_import_is_silent(module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        # A shell starts what runs in the background with the signal ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "archinfer", "solve", "--observed", "750", "--nodes", "4"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_name_with_a_break_of_lines_is_told_in_one(tmp_path: Path) -> None:
    path = tmp_path / "c\nd\x1b[2J.json"
    path.write_text("{}", encoding="utf-8")
    done = call("predict", str(path))
    (line,) = done.err.splitlines()
    assert done.code == 2
    assert r"c\nd\x1b[2J.json: the config is empty" in line


def test_an_open_range_is_written_as_one_types_it() -> None:
    asked = ["solve", "--observed", "100", "--total", "900T:", "--nodes", "1", "--sparsity", "8:"]
    printed = call(*asked).out
    assert "900T:" in printed and "inf" not in printed.split()
    assert ":inf" not in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "/dev/null"], "/dev/null: is empty"),
        (["predict", "hardware/wse-3.yaml"], "is YAML, as profiles are (--hardware)"),
        (["predict", "kimi-k2", "--weights", "fp9"], "--weights: unknown weight format 'fp9'"),
        (["predict", "kimi-k2", "--kv", "fp9"], "--kv: unknown"),
        (["predict", "kimi-k2", "--set", "speed=3"], "--set: unknown figure 'speed'"),
        (["predict", "kimi-k2", "kimi-k2"], "kimi-k2 is named twice"),
        (["compare", "kimi-k2", "Kimi-K2"], "kimi-k2 is named twice"),
        (["solve", "--context", "8k,32k"], "expected one value, found '8k,32k'; archinfer predict"),
        (
            ["solve", "kimi-k2"],
            "archinfer predict MODEL says how fast a model is, and solve --like",
        ),
        (["solve", "--like", "kimi"], "--like: unknown model 'kimi'; did you mean 'kimi-k2'"),
    ],
)
def test_a_fault_is_told_as_what_it_is(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    found = run(capsys, *words)
    assert found.code == 2 and not found.out
    assert said in found.err and found.err.count("\n") == 1


def test_names_of_files_are_printed_on_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "a\nerror: \x1b[2Jb.html"
    found = run(capsys, "predict", "llama-3.1-8b", "--report", str(page))
    assert page.exists() and found.err == f"wrote {tmp_path}/a\\nerror: \\x1b[2Jb.html\n"
    path = str(tmp_path / "a\nb.yaml")
    assert run(capsys, "check", "--init", path).out.count("\n") == 1
    assert run(capsys, "check", "--lint", path).code == 0


@pytest.mark.parametrize("words", [["predict"], ["models", "show"], ["compare"], ["pareto"]])
def test_a_model_in_a_folder_of_strange_letters_is_printed_on_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]
) -> None:
    folder = tmp_path / "a\n\x1b[31mb"
    folder.mkdir()
    plain = {
        "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
        "vocab_size": 1000, "tie_word_embeddings": False,
    }  # fmt: skip
    path = folder / "config.json"
    path.write_text(json.dumps(plain))
    machine = ["--hardware", "wse-3"] if words[0] in ("compare", "pareto") else []
    found = run(capsys, *words, str(path), *machine)
    assert found.code == 0 and "\x1b" not in found.out
    assert "a\\n\\x1b[31mb" in "".join(found.out.split())


OWN = {"solve": [], "predict": ["llama-3.1-8b"], "compare": ["llama-3.1-8b"],
       "pareto": ["llama-3.1-8b"], "fit": [], "validate": [], "calibrate": []}  # fmt: skip
"""What a command needs beside its options."""

VALUES = [
    (command, name)
    for command in OWN
    for name, (ask, _) in options(command).items()
    if ask.form not in ("flag", "switch")
]


@pytest.mark.parametrize("wrong", ["?", ""])
@pytest.mark.parametrize(("command", "name"), VALUES)
def test_a_message_about_a_value_begins_with_its_option(
    command: str, name: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = f"--{name.replace('_', '-')}"
    if name == "save" and wrong == "?":
        pytest.skip("a file may be called so")
    own = [] if name in ("total", "active", "layers") else OWN[command]
    done = run(capsys, command, *own, option, wrong)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {option}: ") and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "asked",
    [
        ["--nodes", "8８"], ["--nodes", "８"], ["--total", "2:８T"], ["--seed", "8８"],
        ["--mapping", "tp=８"], ["--claim", "total=2８T"], ["--set", "link.latency=８us"],
        ["--observed", "750@８k"], ["--context", "١k"],
    ],
)  # fmt: skip
def test_a_digit_of_another_script_is_pointed_at(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "solve", *asked)
    digit = next(c for c in asked[1] if c.isdigit() and not c.isascii())
    assert done.code == 2 and f"{digit!r} is no digit from 0 to 9" in done.err


def test_every_speed_has_the_same_limit(capsys: pytest.CaptureFixture[str]) -> None:
    speeds = [
        (command, name)
        for command in OWN
        for name, (ask, _) in options(command).items()
        if ask.dimension == "tokens_per_s"
    ]
    assert len(speeds) > 5
    for command, name in speeds:
        done = run(capsys, command, *OWN[command], f"--{name.replace('_', '-')}", "1.1e9")
        assert "expected at most 1,000,000,000 tokens/s, found '1.1e9'" in done.err


def test_wrong_values_are_refused_before_anything_heavy_is_loaded() -> None:
    code = (
        "import sys; sys.argv = ['archinfer', 'solve', '--nodes', 'x']\n"
        "from archinfer.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert 'numpy' not in sys.modules"
    )
    assert python("-c", code).returncode == 0


def test_the_example_of_evidence_names_every_kind() -> None:
    text = (ROOT / "archinfer" / "data" / "evidence-example.yaml").read_text(encoding="utf-8")
    told = text.partition("Kinds: ")[2].partition(".")[0].replace("#", "")
    assert [kind.strip() for kind in told.split(",")] == [*KINDS, *NAMED]


def test_what_takes_long_is_told_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from archinfer.cli import progress

    monkeypatch.setattr(progress, "PATIENCE_S", 0.02)
    with progress.waiting("nothing to wait for"):
        pass
    with progress.waiting("fitting"):
        time.sleep(0.2)
    assert capsys.readouterr().err == "fitting ...\n"
