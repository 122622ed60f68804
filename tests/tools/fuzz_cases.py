"""Commands, files and values that the fuzzer tries: `KINDS`, each with how often it is drawn."""

from __future__ import annotations

import json
import os
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from archinfer.hardware.figures import KEYS
from archinfer.hardware.profile import profile_folder
from archinfer.units import DIMENSIONS, parse
from tests.gguf import gguf_header

HARDWARE = ("wse-3", "wse-2", "wse-3-turbo", "b200", "h100-sxm", "h200-sxm", "a100-80gb",
            "mi300x", "tpu-v5p", "gb200-nvl72", "groq-lpu-v1", "sn40l", "liminal-hbm3",
            "amd-epyc-9754")  # fmt: skip
MODELS = ("kimi-k2", "deepseek-v3", "llama-3.1-70b", "llama-3.1-8b", "gpt-oss-120b",
          "qwen3-235b-a22b")  # fmt: skip
WEIGHTS = ("bf16", "fp8", "nvfp4", "int4", "int8", "mxfp4")
SOFTWARE = ("usual", "usual", "usual", "vllm", "sglang", "no such software")

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
    "--mapping": ("tp=8", "pp=2", "tp=1,pp=44", "tp=2,pp=4", "tp=3", "ep=2", "dp=8,pp=2"),
    "--vocabulary": ("1", "32000", "131072", "1M"),
    "--software": SOFTWARE,
    "--max-price": ("90USD/h", "1USD/h", "1e6USD/h"),
    "--max-cost": ("2USD", "0.01USD", "100USD"),
    "--prompt": ("1", "1k", "32k", "1M"),
    "--output": ("1", "1k", "100k"),
    "--ttft": ("1ms", "0.5s", "2s", "1h"),
    "--target": ("1", "20", "60", "100", "2500"),
    "--utilisation": ("1%", "40%", "100%"),
    "--price": ("b200=4USD/h", "wse-3=2M USD", "h100-sxm=1USD/h", "nope=1USD/h", "b200"),
    "--claim": ("total=2T:4T,active=150B,layers=70:90", "total=1T", "active=32B", "layers=61",
                "total=1T,active=2T", "total=,active=1B", "weights=fp8"),
    "--like": (*MODELS, "no-such-model"),
    "--prefill": ("9000@32k", "100k", "1@1"),
    "--tokens-per-pass": ("1", "2.4", "9"),
    "--compare": ("gpt-oss-120b=3000", "kimi-k2=1e-30", "nope=1", "kimi-k2"),
}  # fmt: skip

FIGURES = (*KEYS, "hop_cycles", "compute.peak.fp8", "scale_up.sync_latency", "no.such.figure")


NUMBER = re.compile(r"(?<=[ \[])\d+(?:\.\d+)?(?=[ ,\]\n]|$)")
"""One that stands by itself."""


@dataclass
class Case:
    """One command to try."""

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    targets: list[Path] = field(default_factory=list)
    stricter: list[str] | None = None
    """A command that asks for more: it may not allow more."""
    emitted: Path | None = None
    then: list[str] | None = None
    """A command that must succeed where the first does."""


def draw(rng: random.Random, folder: Path) -> tuple[str, Case]:
    """The kind of a case and the case; files that it needs are made in `folder`."""
    makes, weights = zip(*KINDS.values(), strict=True)
    at = rng.choices(range(len(makes)), weights)[0]
    case = makes[at](rng, folder)
    if rng.random() < 0.05:
        case.environment["COLUMNS"] = rng.choice(("²²", "0", "20", "40", "-5", "9" * 12, "1e3"))
    if case.stricter is None and case.emitted is None and rng.random() < 0.3:
        case.words += ["--format", rng.choice(("json", "json", "markdown", "csv", "table", "xml"))]
    return list(KINDS)[at], case


def _value(rng: random.Random, option: str, odd: float) -> str:
    return rng.choice(ODD if rng.random() < odd else QUANTITIES[option])


def _options(rng: random.Random, known: tuple[str, ...], settings: bool = True) -> list[str]:
    words = []
    for option in rng.sample(known, rng.choice((0, 1, 1, 2, 2, 3, 4))):
        words += [option, _value(rng, option, 0.05)]
    if settings and rng.random() < 0.2:
        words += ["--set", _setting(rng)]
    return words


def _setting(rng: random.Random) -> str:
    """A figure of a profile, mostly at a value of its dimension: an usual one, or up to the ends of
    what is plausible."""
    name = rng.choice(FIGURES)
    if name not in KEYS or rng.random() < 0.15:
        return f"{name}={rng.choice((*ODD, '1', '15 us', '1 GB', '2 TB/s', '1 GHz', '5 kW'))}"
    dimension = DIMENSIONS[KEYS[name].dimension]
    usual = parse(dimension.examples[0], KEYS[name].dimension)
    value = rng.choice((0.0, usual * 10.0 ** rng.uniform(-6, 6), usual * 10.0 ** rng.gauss(0, 1),
                        *dimension.plausible))  # fmt: skip
    unit = max(dimension.units, key=lambda u: dimension.units[u] == 1.0)
    return f"{name}={value:.6g} {unit}"


def _machine(rng: random.Random) -> list[str]:
    return ["--hardware", rng.choice(HARDWARE)] if rng.random() < 0.8 else []


FASTER = {"1": "2", "10": "11", "60": "100", "100": "101", "750": "1k", "1k": "2500", "20": "60"}
"""Stricter targets of some."""

QUESTION = ("--context", "--concurrency", "--layers", "--total", "--active", "--speculation",
            "--sparsity", "--throughput", "--max-power", "--confidence", "--kv", "--attention",
            "--weights", "--mapping", "--vocabulary", "--max-price", "--max-cost",
            "--like")  # fmt: skip
OBSERVED = (*(o for o in QUESTION if o not in ("--confidence", "--max-cost")), "--software",
            "--claim", "--prefill", "--ttft", "--tokens-per-pass", "--compare")  # fmt: skip
DEPLOYMENT = ("--nodes", "--context", "--concurrency", "--speculation", "--kv", "--weights",
              "--mapping", "--software", "--prompt", "--output")  # fmt: skip
FAMILY = (*DEPLOYMENT, "--total", "--active", "--layers", "--attention", "--vocabulary")
PLAN = ("--nodes", "--context", "--concurrency", "--speculation", "--kv", "--weights", "--mapping",
        "--software", "--prompt", "--output", "--ttft", "--max-cost", "--confidence", "--price",
        "--utilisation")  # fmt: skip

WIDE = 0.04
"""Share of questions that leave open depths and formats which nobody asked about: each depth,
format and mapping is searched by itself, so these say little that others do not and take most of
the time."""


def _narrowed(rng: random.Random, words: list[str]) -> list[str]:
    if rng.random() < WIDE:
        return words
    spread = any(x in ("--confidence", "--evidence") or "--observed" in x for x in words)
    depths = ("1:2", "40", "61", "88") if spread else ("1:4", "14:20", "40:46", "60:62", "88:90")
    if "--layers" not in words:
        words = [*words, "--layers", rng.choice(depths)]
    if "--weights" not in words:
        words = [*words, "--weights", rng.choice(WEIGHTS if spread else QUANTITIES["--weights"])]
    return words


def _solve(rng: random.Random, folder: Path) -> Case:
    words = ["solve", *_machine(rng), "--architectures", rng.choice(("0", "0", "2", "8"))]
    words += ["--nodes", _value(rng, "--nodes", 0.03)]
    words += ["--tokens-per-second", _value(rng, "--tokens-per-second", 0.03)]
    words = _narrowed(rng, words + _options(rng, QUESTION))
    if rng.random() < 0.2:
        words.append(rng.choice(("--physics-only", "--tied", "--explain")))
    case = Case(words)
    if rng.random() < 0.3:
        option = rng.choice(
            ("--layers", "--total", "--active", "--confidence", "--context", "--tokens-per-second")
        )
        if option == "--tokens-per-second":
            _faster(case, option)
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


def _faster(case: Case, option: str) -> None:
    """The same with a higher target as its stricter question."""
    words, at = case.words, case.words.index(option) + 1
    if words[at] in FASTER:
        case.words = [*words, "--format", "json"]
        case.stricter = [*words[:at], FASTER[words[at]], *words[at + 1 :], "--format", "json"]


def _observed(rng: random.Random, folder: Path) -> Case:
    speed = _value(rng, "--tokens-per-second", 0.03)
    words = ["solve", *_machine(rng), "--architectures", "0"]
    words += [rng.choice(("--observed", "--observed", "--observed-max")), speed]
    if rng.random() < 0.2:
        words += ["--observed", f"{speed}@{_value(rng, '--context', 0.03)}"]
    if rng.random() < 0.7:
        words += ["--nodes", _value(rng, "--nodes", 0.03)]
    return Case(_narrowed(rng, words + _options(rng, OBSERVED)))


def _predict(rng: random.Random, folder: Path) -> Case:
    words = ["predict", *_machine(rng)]
    how = rng.random()
    if how < 0.7:
        words += rng.sample(MODELS, rng.choice((1, 1, 1, 2))) + _options(rng, DEPLOYMENT)
    elif how < 0.9:
        for option in ("--total", "--active", "--layers")[: rng.choice((1, 2, 3, 3))]:
            words += [option, _value(rng, option, 0.05)]
        words += _options(rng, tuple(o for o in FAMILY if o not in words))
    else:
        words += [rng.choice((*MODELS, *ODD)), *_options(rng, FAMILY)]
    if rng.random() < 0.1:
        words += ["--draft-tokens", rng.choice(("0", "1", "4", "17", "-1", "1e9"))]
    case = Case(words)
    if rng.random() < 0.1:
        _target(rng, folder, case, ("--plot", "--report"))
    return case


def _compare(rng: random.Random, folder: Path) -> Case:
    machines = ",".join(rng.sample(HARDWARE, rng.choice((1, 2, 3))))
    words = ["compare", rng.choice(MODELS), "--hardware", machines]
    return Case(words + _options(rng, DEPLOYMENT))


def _pareto(rng: random.Random, folder: Path) -> Case:
    machines = ",".join(rng.sample(HARDWARE, rng.choice((1, 1, 2))))
    words = ["pareto", rng.choice(MODELS), "--hardware", machines]
    if rng.random() < 0.7:
        words += ["--target", _value(rng, "--target", 0.05)]
    words += _options(rng, PLAN, settings=False)
    case = Case(words)
    if "--target" in words and rng.random() < 0.5:
        _faster(case, "--target")
    elif rng.random() < 0.1:
        _target(rng, folder, case, ("--plot", "--report"))
    return case


def _target(rng: random.Random, folder: Path, case: Case, known: tuple[str, ...]) -> None:
    """A result file that is none, or one in a folder that is not there."""
    kind = rng.choice(("file", "folder", "pipe", "device", "link", "nowhere", "empty"))
    option = rng.choice(known)
    usual = {"--plot": (".svg", ".png"), "--report": (".html",), "--save": (".yaml",)}
    path = folder / ("out" + rng.choice((*usual.get(option, ("",)) * 4, ".txt")))
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
    case.words += [option, "" if kind == "empty" else str(path)]


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
  - name: again
    solve: {{hardware: {hardware}, nodes: {nodes}, tokens_per_second: {speed}, total: {total},
      layers: 60:62}}
    expect: {{feasible: true, contains: {{total: {size}, active: {active}}}}}
"""


def _check(rng: random.Random, folder: Path) -> Case:
    def value(option: str) -> str:
        return json.dumps(_value(rng, option, 0.02))

    text = CHECK.format(
        name=json.dumps(rng.choice(("a",) * 9 + ("b" * 300, "x\ny", "\x1b[2J", ""))),
        model=rng.choice((*MODELS, json.dumps("m" * 300), "{total: 1T, active: 30B, layers: 61}")),
        hardware=rng.choice((*HARDWARE, "nope")),
        nodes=json.dumps(rng.choice(("1", "4", "8", "88", "1:8", rng.choice(ODD)))),
        context=value("--context"),
        concurrency=value("--concurrency"),
        feasible=rng.choice(("true", "true", "false", "maybe")),
        speed=value("--tokens-per-second"),
        confidence=value("--confidence"),
        total=value("--total"),
        size=rng.choice(("1T", "70B", "3T", rng.choice(ODD[2:6]))),
        active=rng.choice(("32B", "150B", "1B", "2T")),
    )
    return Case(["check", _written(rng, folder, "checks.yaml", text)])


def _written(rng: random.Random, folder: Path, name: str, text: str) -> str:
    """A file of a text that is, sometimes, spoilt."""
    path = folder / name
    path.write_text(_spoilt(rng, text), encoding="utf-8")
    return str(path)


def _spoilt(rng: random.Random, text: str) -> str:
    """With, sometimes, a number changed, a value replaced, or a line lost, doubled or indented."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        if not lines:
            break
        at = rng.randrange(len(lines))
        how = rng.choice("nnnnrrrlder")
        if how == "n":
            at = rng.choice([i for i, x in enumerate(lines) if NUMBER.search(x)] or [at])
            scaled = f"{10 ** rng.gauss(0, 3):.3g}"
            lines[at] = NUMBER.sub(rng.choice((scaled, scaled, "0", "1e300")), lines[at], count=1)
        elif how == "r":
            at = rng.choice([i for i, x in enumerate(lines) if x.rstrip()[-1:] != ":"] or [at])
            key, colon, _ = lines[at].partition(":")
            lines[at] = f"{key}{colon} {rng.choice((*ODD, '[]', '{}', '[[1]]', 'null'))!s}\n"
        elif how == "l":
            del lines[at]
        elif how == "d":
            lines.insert(at, lines[at])
        else:
            lines[at] = rng.choice(("  " + lines[at], lines[at].replace(":", "::", 1)))
    return "".join(lines)


def _profile(rng: random.Random, folder: Path) -> Case:
    text = (profile_folder() / f"{rng.choice(HARDWARE)}.yaml").read_text(encoding="utf-8")
    path = _written(rng, folder, "mine.yaml", text)
    words = rng.choice(
        (
            ["hardware", "lint", path],
            ["hardware", "show", path],
            ["predict", rng.choice(MODELS), "--hardware", path],
            ["solve", "--hardware", path, "--nodes", "4", "--architectures", "0", "--layers", "40"],
            ["compare", rng.choice(MODELS), "--hardware", f"wse-3,{path}"],
            ["pareto", rng.choice(MODELS), "--hardware", path, "--nodes", "1:8"],
        )
    )
    return Case(list(words))


def _begun(rng: random.Random, folder: Path) -> Case:
    """A file that a command begins: it must pass the command that reads it."""
    name = rng.choice(("mine", "mine", "a.b", "my machine", "modèle 🦙", "x\ny", "no/such"))
    command = rng.choice(("hardware", "hardware", "check", "evidence", "fit"))
    if command == "hardware":
        like = rng.choice((*HARDWARE, rng.choice(ODD)))
        return Case(["hardware", "init", name, "--like", like],
                    then=["hardware", "lint", f"{name}.yaml"])  # fmt: skip
    option = ["--observations"] if command == "fit" else []
    then = {"check": ["check", "--lint", name], "evidence": ["evidence", name]}.get(command)
    return Case([command, "--init", *option, name], then=then)


def _shipped(name: str) -> str:
    return (resources.files("archinfer") / "data" / name).read_text(encoding="utf-8")


def _evidence(rng: random.Random, folder: Path) -> Case:
    """An evidence file, mostly with deployments on other machines, checked or answered."""
    head, _, lanes = _shipped("evidence-example.yaml").partition("# deployments:")
    first, *pieces = re.split(r"(?m)^  - (?=[a-z])", _plain(head))
    lanes = "deployments:" + "\n".join(line.removeprefix("# ") for line in lanes.splitlines())
    machines = ", ".join(rng.sample(HARDWARE, rng.choice((1, 1, 2))))
    lanes = lanes.replace("h100-sxm, h200-sxm, b200", machines) if rng.random() < 0.5 else ""
    if rng.random() < 0.25:
        # Each piece is held against all others: of many that takes minutes.
        pieces = [pieces[0], *rng.sample(pieces[1:], rng.choice((0, 1)))]
        path = _written(rng, folder, "mine.yaml", "  - ".join([first, *pieces]) + lanes)
        words = ["solve", *_machine(rng), "--architectures", "0", "--evidence", path]
        return Case(_narrowed(rng, words + _options(rng, OBSERVED)))
    text = "  - ".join([first, *pieces]) + lanes
    return Case(["evidence", _written(rng, folder, "mine.yaml", text)])


def _plain(text: str) -> str:
    """Without lines of comments, which hold nothing that could be spoilt."""
    return "".join(x for x in text.splitlines(keepends=True) if not x.startswith("#"))


def _observations(rng: random.Random, folder: Path) -> Case:
    """Rows of speeds, fitted or predicted."""
    machine = rng.choice(("wse-2", "groq-lpu-v1", "h100-sxm", "sn40l"))
    text = _plain(_shipped("observations-example.yaml")).replace("h100-sxm", machine)
    path = _written(rng, folder, "mine.yaml", text)
    asked = ["--hardware", rng.choice((machine, machine, rng.choice(HARDWARE)))]
    if rng.random() < 0.5:
        how = rng.choice(("--observations", "--test"))
        return Case(["validate", *(asked if how[2] == "o" else []), "--no-inverse", how, path])
    case = Case(["fit", *asked, "--observations", path])
    if rng.random() < 0.3:
        case.words += ["--release", rng.choice(("1", "0.1", "3", rng.choice(ODD)))]
    if rng.random() < 0.3:
        _target(rng, folder, case, ("--save",))
    elif rng.random() < 0.5:
        saved = str(folder / "fitted.yaml")
        case.words += ["--save", saved]
        case.then = ["hardware", "lint", saved]
    return case


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
FAMILIES = Path(__file__).resolve().parent.parent / "fixtures" / "configs" / "families.json"
JUNK: tuple[Any, ...] = (None, 0, -1, 1.5, "8", [], {}, [[1]], {"a": 1}, True, 1e308, 10**30, "x",
                         ["a"], float("nan"), float("inf"), 10**400, "\ud800", [10**9] * 3,
                         2**31, 2**63)  # fmt: skip


def _config(rng: random.Random, folder: Path) -> Case:
    config = CONFIG
    if rng.random() < 0.6:
        config = rng.choice(list(json.loads(FAMILIES.read_text("utf-8")).values()))[-1]
    name = rng.choice(("config.json",) * 5 + ("c\nd.json", "modèle 🦙.json", "x.safetensors"))
    path = folder / name
    text = json.dumps(_changed(rng, config))
    how = rng.random()
    if how < 0.1:
        text = text[: rng.randrange(len(text) + 1)]
    elif how < 0.15:
        text = rng.choice(("\ufeff" + text, "[" * 5000, text + text, text.replace(":", "=", 1),
                           text[:-1] + ', "vocab_size": NaN}', "NaN", '"x"', "[]"))  # fmt: skip
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    command = rng.choice((["models", "show"], ["predict"], ["compare"]))
    return Case([*command, str(path)])


def _changed(rng: random.Random, given: dict[str, Any]) -> dict[str, Any]:
    """With keys lost, replaced, renamed or moved."""
    found = dict(given)
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        if not found:
            break
        key = rng.choice(list(found))
        how = rng.choice((0, 1, 1, 2, 3))
        if how == 0:
            del found[key]
        elif how == 1:
            found[key] = rng.choice(JUNK)
        elif how == 2:
            found[key[:-1] + rng.choice("sxe")] = found.pop(key)
        else:
            found["text_config"] = {key: found.pop(key)}
    return found


def _headers(rng: random.Random, folder: Path) -> Case:
    """A header of weights, GGUF or safetensors, with bytes and numbers that are none."""
    if rng.random() < 0.5:
        path, data = folder / "m.gguf", _gguf(rng)
    else:
        path, data = folder / "m.safetensors", _safetensors(rng)
        if rng.random() < 0.9:
            config = _changed(rng, CONFIG) if rng.random() < 0.3 else CONFIG
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8",
                                                errors="surrogatepass")  # fmt: skip
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(3)
        if how == 0:
            data = data[:at]
        else:
            data = data[:at] + bytes([rng.choice((0, 1, 8, 127, 255))]) + data[at + how - 1 :]
    path.write_bytes(data)
    command = rng.choice((["models", "show"], ["predict"]))
    return Case([*command, str(rng.choice((path, path, folder)))])


def _gguf(rng: random.Random) -> bytes:
    name = rng.choice(("llama", "llama", "qwen3moe", "no such"))
    metadata: dict[str, Any] = {
        "general.architecture": name, f"{name}.block_count": 2, f"{name}.embedding_length": 256,
        f"{name}.feed_forward_length": 512, f"{name}.attention.head_count": 4,
        f"{name}.attention.head_count_kv": 2, f"{name}.expert_count": 8,
        f"{name}.expert_used_count": 2, f"{name}.expert_feed_forward_length": 128,
    }  # fmt: skip
    for key in rng.sample(sorted(metadata), rng.choice((0, 0, 1))):
        metadata[key] = rng.choice(
            (0, -1, 2**40, 2**62, 1.5, float("nan"), "x", [1, 2], [-1], "llama")
        )
    width = rng.choice((256,) * 6 + (0, 2**40, 2**63))
    tensors = {"token_embd.weight": (width, 1000), "output.weight": (256, 1000)}
    for i in range(2):
        tensors |= {f"blk.{i}.attn_{n}.weight": (256, 256) for n in ("q", "output")}
        tensors |= {f"blk.{i}.attn_{n}.weight": (256, 128) for n in "kv"}
        tensors |= {f"blk.{i}.ffn_{n}.weight": (256, 512) for n in ("gate", "up", "down")}
    version, bits = rng.choice((3,) * 9 + (2, 9)), rng.choice((0, 1, 8, 12, 14))
    others = (0, 8, 12, 14, 39, 255, 2**31)
    typed = {
        name: (shape, bits if rng.random() < 0.9 else rng.choice(others))
        for name, shape in tensors.items()
    }
    return gguf_header(metadata, typed, version)


def _safetensors(rng: random.Random) -> bytes:
    dtype = rng.choice(("BF16", "BF16", "F8_E4M3", "U8", "I32", "nope"))
    hidden, layers = CONFIG["hidden_size"], CONFIG["num_hidden_layers"]
    header: dict[str, Any] = {
        f"model.layers.{i}.self_attn.{n}_proj.weight":
            {"dtype": dtype, "shape": [4096, hidden], "data_offsets": [0, 0]}
        for i in range(layers) for n in "qo"
    }  # fmt: skip
    header["model.embed_tokens.weight"] = {"dtype": "BF16", "shape": [151936, hidden],
                                           "data_offsets": [0, 0]}  # fmt: skip
    if rng.random() < 0.2:
        key = rng.choice(sorted(header))
        header[key] = _changed(rng, header[key])
    if rng.random() < 0.2:
        header = _changed(rng, header)
    data = json.dumps(header).encode("utf-8", "surrogatepass")
    length = rng.choice((len(data),) * 9 + (2**62, 0, len(data) - 9))
    return struct.pack("<Q", length) + data


def _words(rng: random.Random, folder: Path) -> Case:
    first = ("solve", "predict", "compare", "check", "models", "hardware", "schema", "fit", "slove",
             "pareto", "evidence", "validate")  # fmt: skip
    rest = ("list", "show", "lint", "--help", "--init", "-x", "--hardware", "--model", "kimi-k2",
            "wse3", "/dev/null", str(folder), "-", *ODD)  # fmt: skip
    words = [rng.choice(first), *rng.sample(rest, rng.choice((0, 1, 2)))]
    # What would run long or read the terminal.
    if words[0] in ("fit", "validate", "pareto") or "-" in words:
        words = [rng.choice(("fit", "validate", "pareto")), "--hardware", rng.choice(ODD)]
    return Case(_narrowed(rng, words) if words == ["solve"] else words)


KINDS: dict[str, tuple[Callable[[random.Random, Path], Case], int]] = {
    "solve": (_solve, 24),
    "observed": (_observed, 5),
    "predict": (_predict, 16),
    "compare": (_compare, 5),
    "pareto": (_pareto, 6),
    "check": (_check, 8),
    "profile": (_profile, 9),
    "begun": (_begun, 3),
    "evidence": (_evidence, 5),
    "observations": (_observations, 4),
    "config": (_config, 13),
    "headers": (_headers, 7),
    "words": (_words, 5),
}
"""Kinds of cases, each with how to make one and how often of a hundred; cheap ones more often than
those that take seconds."""
