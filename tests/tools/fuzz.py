"""Draws commands, files and values of all kinds and holds what comes back against invariants.

    python tests/tools/fuzz.py --cases 5000 --seed 1 [--processes 2] [--minutes 20]

Each case is one command with its options, sometimes a file made for it, run in this process. What
must hold whatever was asked:

- exit code 0, 1 or 2; no traceback; no warning of Python's or NumPy's;
- exit code 2: one line on stderr that begins with `error:`, nothing on stdout, nothing written;
- JSON is strict, and neither it nor a table says nan or inf;
- a device, a pipe or a folder given as a result file is what it was before;
- of `solve`: low ends are at most high ends, every architecture lies inside the ranges, what the
  posterior holds lies inside what is known, a stricter question allows no more, and emitted configs
  are predicted at the speeds that were listed;
- no process takes more than a gigabyte.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import multiprocessing
import os
import random
import re
import resource
import shlex
import signal
import stat
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS_OF_A_CASE = 60
MEMORY_MOST_BYTES = 1e9
SLACK = 1e-6
"""Ranges and architectures are printed as computed; this is rounding."""

WHOLE = 0.05
"""How far an architecture may be from a number of parameters that was asked for."""

HARDWARE = ("wse-3", "wse-2", "wse-3-turbo", "b200", "h100-sxm", "h200-sxm", "a100-80gb",
            "mi300x", "tpu-v5p", "gb200-nvl72", "groq-lpu-v1", "sn40l", "liminal-hbm3",
            "amd-epyc-9754")  # fmt: skip
MODELS = ("kimi-k2", "deepseek-v3", "llama-3.1-70b", "llama-3.1-8b", "gpt-oss-120b",
          "qwen3-235b-a22b")  # fmt: skip
WEIGHTS = ("bf16", "fp8", "nvfp4", "int4", "int8", "mxfp4")

ODD = ("", " ", "0", "-1", "1e308", "1e-30", "1e400", "nan", "inf", "-inf", "²²", "1e12", "7%", "½",
       "1:", ":1", "5:2", "1:1e12", "1e300", "0.1", "1.5", "1T", "1TB", "0x10", "1_000", "١٢", "--",
       "a" * 300, "x\ny", "\x1b[31m", "8k,32k", "1:2:3", "None", "true", "∞")  # fmt: skip
"""Values that fit nowhere, or only just."""

QUANTITIES: dict[str, tuple[str, ...]] = {
    "--nodes": ("1", "2", "4", "8", "40", "88", "70:100", "1:128", "1:8", "3", "5000"),
    "--tokens-per-second": ("1", "10", "60", "100", "750", "1k", "2500", "100000"),
    "--context": ("1", "1k", "8k", "32k", "128k", "1M", "10M"),
    "--concurrency": ("1", "2", "16", "64", "512", "10000"),
    "--layers": ("1", "2", "40", "61", "88", "60:90", "1:200", "14:"),
    "--total": ("100M", "7B", "70B", "1T", "2T:4T", "0.9T:", "1:2", ":1T"),
    "--active": ("7B", "32B", "150B", "100B:200B", "1B:", ":40B", "200T:"),
    "--speculation": ("1", "1:3", "2", "3.5", "1:8", ":3"),
    "--sparsity": ("1:1", "1:32", "2:16", "8:", "1:1000"),
    "--throughput": ("1", "1k", "100k"),
    "--max-power": ("1 kW", "23 kW", "2.5 MW"),
    "--confidence": ("5%", "50%", "90%", "0.9"),
    "--kv": ("bf16", "fp8", "fp4"),
    "--attention": ("gqa", "mqa", "mla"),
    "--weights": (*WEIGHTS, "bf16,fp8", "int4,int8", "fp8,nvfp4"),
    "--mapping": ("tp=8", "pp=2", "tp=1,pp=44", "tp=2,pp=4", "tp=3", "ep=2"),
}
FIGURES = ("memory.capacity", "memory.usable_fraction", "memory.bandwidth", "link.latency",
           "link.bandwidth", "hop_cycles", "fixed_time_per_layer", "fixed_time_per_expert",
           "fixed_time_per_token", "reductions_per_layer", "cycles_per_weight", "compute.clock",
           "compute_efficiency", "bandwidth_efficiency", "power", "no.such.figure")  # fmt: skip
SETTINGS = ("0", "1", "0.5", "1e-30", "1e300", "15 us", "1 GB", "1e-30 GB", "2 TB/s", "1 GHz",
            "100 %", "-1 us", "", "nan", "5 kW")  # fmt: skip


@dataclass
class Case:
    """One command to try."""

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    targets: list[Path] = field(default_factory=list)
    stricter: list[str] | None = None
    emitted: Path | None = None


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str
    crash: str


def draw(rng: random.Random, folder: Path) -> Case:
    """One case; files that it needs are made in `folder`."""
    make = rng.choices(
        (_solve, _observed, _predict, _compare, _check, _profile, _config, _observations, _words),
        weights=(30, 8, 18, 6, 8, 10, 10, 5, 5),
    )[0]
    case = make(rng, folder)
    if rng.random() < 0.05:
        case.environment["COLUMNS"] = rng.choice(("²²", "0", "20", "40", "-5", "9" * 12, "1e3"))
    if case.stricter is None and case.emitted is None and rng.random() < 0.3:
        case.words += ["--format", rng.choice(("json", "json", "markdown", "csv", "table", "xml"))]
    return case


def _value(rng: random.Random, option: str, odd: float) -> str:
    return rng.choice(ODD if rng.random() < odd else QUANTITIES[option])


def _options(rng: random.Random, known: tuple[str, ...], odd: float = 0.05) -> list[str]:
    words = []
    for option in rng.sample(known, rng.choice((0, 1, 1, 2, 2, 3, 4))):
        words += [option, _value(rng, option, odd)]
    if rng.random() < 0.2:
        words += ["--set", f"{rng.choice(FIGURES)}={rng.choice(SETTINGS)}"]
    return words


def _machine(rng: random.Random) -> list[str]:
    return ["--hardware", rng.choice(HARDWARE)] if rng.random() < 0.8 else []


FASTER = {"1": "2", "10": "11", "60": "100", "100": "101", "750": "1k", "1k": "2500"}
"""Stricter targets of some."""

QUESTION = ("--context", "--concurrency", "--layers", "--total", "--active", "--speculation",
            "--sparsity", "--throughput", "--max-power", "--confidence", "--kv", "--attention",
            "--weights", "--mapping")  # fmt: skip
DEPLOYMENT = ("--nodes", "--context", "--concurrency", "--speculation", "--kv", "--weights",
              "--mapping", "--layers", "--total", "--active")  # fmt: skip


def _solve(rng: random.Random, folder: Path) -> Case:
    words = ["solve", *_machine(rng), "--architectures", rng.choice(("0", "0", "2", "8"))]
    words += ["--nodes", _value(rng, "--nodes", 0.03)]
    words += ["--tokens-per-second", _value(rng, "--tokens-per-second", 0.03)]
    words += _options(rng, QUESTION)
    if rng.random() < 0.2:
        words.append("--physics-only")
    case = Case(words)
    if rng.random() < 0.3:
        option = rng.choice(
            ("--layers", "--total", "--active", "--confidence", "--context", "--tokens-per-second")
        )
        if option == "--tokens-per-second" and words[words.index(option) + 1] in FASTER:
            at = words.index(option) + 1
            case.words = [*words, "--format", "json"]
            case.stricter = [*words[:at], FASTER[words[at]], *words[at + 1 :], "--format", "json"]
        elif option not in words:
            case.stricter = [*words, option, rng.choice(QUANTITIES[option][1:])]
            case.words = [*words, "--format", "json"]
            case.stricter += ["--format", "json"]
            if option == "--confidence":
                case.stricter[-3] = "95%"
            if option == "--context":
                case.stricter[-3] = rng.choice(("9k", "32k", "128k", "1M"))
    elif rng.random() < 0.1:
        case.emitted = folder / "emitted"
        case.words += ["--emit", str(case.emitted), "--format", "json"]
        return case
    if rng.random() < 0.1:
        _target(rng, folder, case, ("--plot", "--report", "--emit"))
    return case


def _observed(rng: random.Random, folder: Path) -> Case:
    words = ["solve", *_machine(rng), "--architectures", "0", "--observed"]
    words.append(_value(rng, "--tokens-per-second", 0.03))
    if rng.random() < 0.7:
        words += ["--nodes", _value(rng, "--nodes", 0.03)]
    return Case(words + _options(rng, tuple(o for o in QUESTION if o != "--confidence")))


def _predict(rng: random.Random, folder: Path) -> Case:
    words = ["predict", *_machine(rng)]
    if rng.random() < 0.8:
        words += rng.sample(MODELS, rng.choice((1, 1, 1, 2)))
    elif rng.random() < 0.3:
        words.append(rng.choice(ODD))
    words += _options(rng, DEPLOYMENT)
    if rng.random() < 0.1:
        words += ["--draft-tokens", rng.choice(("0", "1", "4", "17", "-1", "1e9"))]
    case = Case(words)
    if rng.random() < 0.1:
        _target(rng, folder, case, ("--plot", "--report"))
    return case


def _compare(rng: random.Random, folder: Path) -> Case:
    machines = ",".join(rng.sample(HARDWARE, rng.choice((1, 2, 3))))
    words = ["compare", rng.choice(MODELS), "--hardware", machines]
    return Case(words + _options(rng, tuple(o for o in DEPLOYMENT if o[2] not in "lta")))


def _target(rng: random.Random, folder: Path, case: Case, known: tuple[str, ...]) -> None:
    """A result file that is none, or one in a folder that is not there."""
    kind = rng.choice(("file", "folder", "pipe", "device", "link", "nowhere", "empty"))
    path = folder / ("out" + rng.choice((".svg", ".html", ".png", ".txt", "")))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/full")
    elif kind == "link":
        path.symlink_to(folder / "elsewhere")
    elif kind == "nowhere":
        path = folder / "no" / "such" / path.name
    case.targets.append(path)
    case.words += [rng.choice(known), "" if kind == "empty" else str(path)]


CHECK = """\
schema_version: 1
checks:
  - name: {name}
    model: {model}
    hardware: {hardware}
    nodes: {nodes}
    context: {context}
    concurrency: {concurrency}
    expect:
      feasible: {feasible}
      tokens_per_s: {{at_least: {speed}, confidence: {confidence}}}
  - name: {name} solved
    solve: {{hardware: {hardware}, nodes: {nodes}, tokens_per_second: {speed}, total: {total}}}
    expect: {{feasible: true, contains: {{total: {total}, active: {active}}}}}
"""


def _check(rng: random.Random, folder: Path) -> Case:
    def value(option: str) -> str:
        return json.dumps(_value(rng, option, 0.05))

    text = CHECK.format(
        name=json.dumps(rng.choice(("a", "b" * 300, "x\ny", "\x1b[2J", ""))),
        model=rng.choice((*MODELS, json.dumps("m" * 300), "{total: 1T, active: 30B, layers: 61}")),
        hardware=rng.choice((*HARDWARE, "nope")),
        nodes=value("--nodes"),
        context=value("--context"),
        concurrency=value("--concurrency"),
        feasible=rng.choice(("true", "false", "maybe")),
        speed=value("--tokens-per-second"),
        confidence=value("--confidence"),
        total=value("--total"),
        active=value("--active"),
    )
    path = folder / "checks.yaml"
    path.write_text(_spoilt(rng, text), encoding="utf-8")
    return Case(["check", str(path)])


def _spoilt(rng: random.Random, text: str) -> str:
    """A file with, sometimes, a line lost, doubled, indented, or a value replaced."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(len(lines))
        how = rng.randrange(5)
        if how == 0:
            del lines[at]
        elif how == 1:
            lines.insert(at, lines[at])
        elif how == 2:
            lines[at] = "  " + lines[at]
        elif how == 3:
            key, colon, _ = lines[at].partition(":")
            lines[at] = f"{key}{colon} {rng.choice((*ODD, '[]', '{}', '[[1]]', 'null'))!s}\n"
        else:
            lines[at] = lines[at].replace(":", rng.choice((" ", "::", ": !!python/name:")), 1)
        if not lines:
            break
    return "".join(lines)


def _profile(rng: random.Random, folder: Path) -> Case:
    from archinfer.hardware.profile import profile_folder

    name = rng.choice(HARDWARE)
    text = (profile_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    path = folder / "mine.yaml"
    path.write_text(_spoilt(rng, text), encoding="utf-8")
    words = rng.choice(
        (
            ["hardware", "lint", str(path)],
            ["hardware", "show", str(path)],
            ["predict", rng.choice(MODELS), "--hardware", str(path)],
            ["solve", "--hardware", str(path), "--nodes", "4", "--architectures", "0"],
            ["compare", rng.choice(MODELS), "--hardware", f"wse-3,{path}"],
        )
    )
    return Case(list(words))


CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
JUNK: tuple[Any, ...] = (None, 0, -1, 1.5, "8", [], {}, [[1]], {"a": 1}, True, 1e308, 10**30, "x",
                         ["a"], float("nan"), float("inf"))  # fmt: skip


def _config(rng: random.Random, folder: Path) -> Case:
    config = json.loads(json.dumps(CONFIG))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        key = rng.choice(list(config))
        how = rng.randrange(4)
        if how == 0:
            del config[key]
        elif how == 1:
            config[key] = rng.choice(JUNK)
        elif how == 2:
            config[key[:-1] + rng.choice("sxe")] = config.pop(key)
        else:
            config["text_config"] = {key: config.pop(key)}
        if not config:
            break
    path = folder / rng.choice(("config.json", "c\nd.json", "modèle 🦙.json", "x.safetensors"))
    text = json.dumps(config)
    if rng.random() < 0.1:
        text = text[: rng.randrange(len(text) + 1)]
    path.write_text(text, encoding="utf-8")
    command = rng.choice((["models", "show"], ["predict"], ["compare"]))
    return Case([*command, str(path)])


OBSERVATIONS = """\
schema_version: 1
observations:
  - model: llama-3.1-70b
    hardware: wse-3
    tokens_per_s: 450
    nodes: 4
    context: 1k
    source: a test
"""


def _observations(rng: random.Random, folder: Path) -> Case:
    path = folder / "mine.yaml"
    path.write_text(_spoilt(rng, OBSERVATIONS), encoding="utf-8")
    words = ["validate", "--hardware", "wse-2", "--no-inverse", "--observations", str(path)]
    return Case(words)


def _words(rng: random.Random, folder: Path) -> Case:
    first = ("solve", "predict", "compare", "check", "models", "hardware", "schema", "fit", "slove")
    rest = ("list", "show", "lint", "--help", "--init", "-x", "--hardware", "--model", "kimi-k2",
            "wse3", "/dev/null", str(folder), "-", *ODD)  # fmt: skip
    words = [rng.choice(first), *rng.sample(rest, rng.choice((0, 1, 2)))]
    if words[:1] == ["fit"] or "-" in words:
        words = ["fit", "--hardware", rng.choice(ODD)]
    return Case(words)


def run(words: list[str], environment: dict[str, str]) -> Done:
    """The command in this process."""
    from archinfer.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    code, crash = -1, ""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    argv, sys.argv = sys.argv, ["archinfer", *words]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")
            try:
                main()
            except SystemExit as stop:
                code = int(stop.code or 0)
            except BaseException:
                crash = traceback.format_exc()
    finally:
        sys.argv = argv
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    return Done(code, out.getvalue(), err.getvalue(), crash)


NUMBERLESS = re.compile(r"(?<![A-Za-z0-9_./'-])(?:nan|inf)(?![A-Za-z0-9_./'-])")


def faults(case: Case, done: Done) -> Iterator[str]:
    """What must not be in what a command did."""
    if done.crash:
        yield "crash: " + done.crash.strip().splitlines()[-1]
        return
    if done.code not in (0, 1, 2):
        yield f"exit code {done.code}"
    if "Traceback" in done.err or "Warning" in done.err:
        yield "a traceback or a warning on stderr"
    if done.code == 2 and "Usage:" not in done.err:
        if done.out and case.words[0] != "check":
            # Of several checks the others still have their verdicts.
            yield "exit code 2 and something on stdout"
        last = done.err.strip().split("\n")
        if not last[-1].startswith("error:") or sum(x.startswith("error:") for x in last) != 1:
            yield f"exit code 2 without one line of error: {done.err[:200]!r}"
    if any(ord(c) < 32 and c != "\n" for c in done.out + done.err):
        yield "a control character in the output"
    asked = " ".join(case.words)
    if done.code != 2 and "nan" not in asked and "inf" not in asked:
        found = NUMBERLESS.search(done.out)
        if found:
            yield f"says {found[0]}: {done.out[max(0, found.start() - 60) : found.end() + 20]!r}"
    if done.code == 0 and case.words[-2:] == ["--format", "json"]:
        yield from _document(case, done.out)


def _document(case: Case, text: str) -> Iterator[str]:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} in JSON")

    try:
        document = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        yield f"JSON: {error}"
        return
    if case.words[0] == "solve":
        yield from _answer(document)


def _answer(document: dict[str, Any]) -> Iterator[str]:
    ranges = {k: v for k, v in document["ranges"].items() if v is not None}
    for name, ends in ranges.items():
        if not ends["low"] <= ends["high"] * (1 + SLACK):
            yield f"{name}: low {ends['low']} above high {ends['high']}"
    for design in document["architectures"]:
        for name, ends in ranges.items():
            if name == "nodes":
                # A range of nodes is of those that are there; a design may use fewer.
                continue
            value = design[name]
            # Whole layers, heads and experts meet a number that is asked for only nearly.
            slack = WHOLE if ends["high"] < ends["low"] * (1 + WHOLE) else SLACK
            if not ends["low"] * (1 - slack) <= value <= ends["high"] * (1 + slack):
                yield f"an architecture has {name} {value}, outside {ends['low']}..{ends['high']}"
    if document["feasible"] != bool(ranges):
        yield "feasible and the ranges disagree"
    yield from _support(document)


def _support(document: dict[str, Any]) -> Iterator[str]:
    posterior = document.get("posterior")
    if not posterior:
        return
    if not document["feasible"] and document["question"]["nodes_known"] is not False:
        empty = document["conflict"] is None
        if empty:
            yield "a posterior where the region is empty, and no conflict is said"
    for asked, name in (("total", "total_params"), ("active", "active_params"), ("layers",) * 2):
        limits, marginal = document["question"][asked], _marginal(posterior, name)
        if limits is None or marginal is None:
            continue
        low, high = limits[0] or 0.0, math.inf if limits[1] is None else limits[1]
        if not low * (1 - SLACK) <= marginal["p05"] or not marginal["p95"] <= high * (1 + SLACK):
            yield f"the posterior of {name} leaves what is known of it"


def _marginal(posterior: dict[str, Any], name: str) -> dict[str, Any] | None:
    found = posterior.get("marginals", posterior).get(name)
    return found if isinstance(found, dict) and "p05" in found else None


def stricter_faults(loose: Done, strict: Done) -> Iterator[str]:
    """A stricter question allows no more."""
    if loose.code or strict.code:
        return
    wide, narrow = json.loads(loose.out), json.loads(strict.out)
    if narrow["feasible"] and not wide["feasible"]:
        yield "a stricter question is feasible where the looser one is not"
        return
    for name, ends in narrow["ranges"].items():
        other = wide["ranges"][name]
        if ends is None or other is None:
            continue
        low, high = other["low"] * (1 - SLACK), other["high"] * (1 + SLACK)
        if ends["low"] < low or ends["high"] > high:
            yield (
                f"a stricter question allows more {name}: {ends['low']:.6g}..{ends['high']:.6g} "
                f"in place of {other['low']:.6g}..{other['high']:.6g}"
            )


def emit_faults(done: Done, folder: Path) -> Iterator[str]:
    """An emitted config is predicted at the speed that was listed for it."""
    listed = json.loads(done.out)["architectures"] if not done.code else ()
    for design, path in zip(listed, sorted(folder.glob("*/config.json")), strict=False):
        about = json.loads(path.read_text())["_archinfer"]
        back = run([*shlex.split(about["predict"])[1:], "--format", "json"], {})
        if back.code:
            yield f"predict of an emitted config: {back.err[:200] or back.crash[-200:]!r}"
            continue
        speed, fits = (json.loads(back.out)["results"][0].get(k) for k in ("tokens_per_s", "fits"))
        for name, value in about["tokens_per_s"].items():
            if not fits or abs(speed[name] - value) > SLACK * value:
                yield f"{design['name']}: listed {about['tokens_per_s']}, predicted {speed}"
                break


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return None


class TooSlow(Exception):
    """A case took longer than it may."""


def _too_slow(*_: object) -> None:
    raise TooSlow


def attempt(seed: int) -> tuple[int, str, list[str], float]:
    """Run the case of a seed: the seed, its command, what is wrong with it, and its seconds."""
    rng = random.Random(seed)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        case = draw(rng, Path(scratch))
        command = shlex.join(case.words)
        kinds = [_kind(path) for path in case.targets]
        before = {p.name for p in Path(scratch).iterdir()}
        signal.signal(signal.SIGPROF, _too_slow)
        signal.setitimer(signal.ITIMER_PROF, SECONDS_OF_A_CASE)
        try:
            done = run(case.words, case.environment)
            wrong = list(faults(case, done))
            if case.stricter is not None and not wrong:
                wrong += stricter_faults(done, run(case.stricter, case.environment))
                command += f"  # and {shlex.join(case.stricter)}" if wrong else ""
            if case.emitted is not None and not wrong:
                wrong += emit_faults(done, case.emitted)
        except TooSlow:
            wrong = [f"takes more than {SECONDS_OF_A_CASE} s of CPU"]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        for path, kind in zip(case.targets, kinds, strict=True):
            special = kind is not None and not stat.S_ISREG(kind)
            if special and not stat.S_ISDIR(kind or 0) and _kind(path) != kind:
                wrong.append(f"{path} was replaced")
        after = {p.name for p in Path(scratch).iterdir()}
        if any(name.startswith(".archinfer") for name in after):
            wrong.append("a half-written file stays")
        if not wrong and done.code == 2 and after != before:
            wrong.append(f"exit code 2 and something written: {sorted(after - before)}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if peak > MEMORY_MOST_BYTES:
        wrong.append(f"the process has taken {peak / 1e9:.1f} GB")
    return seed, command, wrong, time.perf_counter() - start


def main(tell: Callable[[str], None] = print) -> int:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    seeds = range(given.seed * 1_000_000, given.seed * 1_000_000 + given.cases)
    done = count = 0
    slowest = (0.0, "")
    start = time.perf_counter()
    # A fresh process now and then, so that a process of too much memory names its case.
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=200) as pool:
        for seed, command, wrong, seconds in pool.imap_unordered(attempt, seeds, chunksize=1):
            done, slowest = done + 1, max(slowest, (seconds, command))
            if wrong:
                count += 1
                tell(f"seed {seed}: archinfer {command}")
                for fault in wrong:
                    tell(f"    {fault}")
            if time.perf_counter() - start > 60.0 * given.minutes:
                pool.terminate()
                break
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    seconds = time.perf_counter() - start
    tell(f"{done} cases in {seconds:.0f} s, {count} wrong, at most {peak_bytes / 1e6:.0f} MB a "
         f"process; the slowest took {slowest[0]:.1f} s: archinfer {slowest[1]}")  # fmt: skip
    return int(count > 0)


if __name__ == "__main__":
    raise SystemExit(main())
