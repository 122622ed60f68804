"""Holds what the commands print now against what they printed before.

    python tests/tools/same_output.py record before/     # with the old code
    python tests/tools/same_output.py record after/      # with the new
    python tests/tools/same_output.py compare before/ after/ [--text]

JSON is compared key by key and number by number to 1e-12; other output line by line with
`--text`. Commands that measure this machine (`calibrate`) are left out: no two runs agree.
`record --only WORD` takes the commands that hold WORD.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent

BOTH = """
solve
solve --architectures 0 --confidence 90% --max-power 2.5MW --throughput 1k
solve --set link.latency=2us --layers 60:90 --explain
solve --hardware b200 --nodes 1:72 --tokens-per-second 750 --architectures 4
solve --hardware b200 --nodes 1:8 --tokens-per-second 60 --context 32k --concurrency 16 \\
    --confidence 90% --speculation 1 --architectures 0
solve --hardware gb200-nvl72 --nodes 1:576 --tokens-per-second 750 --total 3T --active 150B \\
    --layers 88 --weights fp8
solve --nodes 40 --tokens-per-second 1000 --weights fp8
solve --nodes 40 --tokens-per-second 1000 --weights fp8 --sparsity 1:100 --architectures 3
solve --observed 1000 --context 128k --compare gpt-oss-120b=3000
solve --observed 750 --nodes 4 --total 2T:
solve --observed 750 --nodes 88 --architectures 3
solve --observed 750 --nodes 88 --speculation 1 --architectures 0
solve --observed 750 --nodes 88 --weights fp8 --speculation 1 --active 120B --architectures 0
solve --hardware h100-sxm --observed 60 --software usual --seed 3
solve --physics-only --weights bf16 --architectures 0
solve --physics-only --weights fp8 --layers 88 --architectures 0
solve --physics-only --weights fp8 --speculation 1 --architectures 0
solve --physics-only --weights nvfp4 --architectures 0
solve --weights fp8 --layers 88 --total 2T:4T --architectures 0
solve --weights fp8 --total 2T:4T --nodes 1:128 --architectures 0
solve --nodes 88 --tokens-per-second 100000
solve --mapping pp=44 --attention mla --kv fp8 --max-price 90USD/h --set price.rent=1USD/h
predict --total 1.7T --active 150B --layers 88 --weights fp8 --nodes 44
predict --total 1.7T --active 150B --layers 88 --weights fp8 --nodes 88 --layers-per-node 1
predict --total 1T --active 40B --layers 48:96 --nodes 40 --weights fp8 --speculation 1
predict --total 3T --active 150B --layers 88 --weights fp8 --hardware b200 --nodes 64 \\
    --speculation 1
predict gpt-oss-120b llama-3.1-70b kimi-k2
predict gpt-oss-120b qwen3-235b-a22b kimi-k2 --hardware b200 --nodes 8
predict llama-3.1-70b --hardware h100-sxm --context 32k --concurrency 4
predict llama-3.1-70b --explain --draft-tokens 2 --speculation 2
predict deepseek-v3 --nodes 5
predict deepseek-v3 --hardware h200-sxm --mapping tp=8
compare deepseek-v3 --hardware wse-3,b200,h100-sxm
compare deepseek-v3
compare gpt-oss-120b
compare kimi-k2
compare --total 3T --active 150B --layers 88 --weights fp8
check tests/checks/claims.yaml
check tests/checks/profiles.yaml
hardware list
hardware show wse-3
hardware show b200
models list
models show deepseek-v3
models show gpt-oss-120b
validate
validate --hardware a100-80gb
fit --hardware wse-3
"""
"""Run as they are, and again with `--format json`; a line that ends in \\ goes on below."""

MORE = """
--help
solve --help
predict --help
solve --format markdown
solve --format csv
solve --observed 750 --nodes 88 --architectures 0 --format markdown
predict gpt-oss-120b kimi-k2 --format csv
predict gpt-oss-120b kimi-k2 --format markdown
predict kimi-k2 --report OUT/predict.html
solve --report OUT/solve.html --plot OUT/solve.svg
solve --observed 750 --nodes 88 --report OUT/observed.html
solve --nodes 40 --tokens-per-second 1000 --emit OUT/designs
compare kimi-k2 --format csv
compare kimi-k2 --format markdown
validate --format markdown
validate --report OUT/validate.html
fit --hardware wse-3 --save OUT/fitted.yaml
hardware lint wse-3
hardware show wse-3 --format csv
hardware show wse-3 --format markdown
models list --format csv
models show kimi-k2 --format markdown
check --init OUT/checks.yaml
check tests/checks/claims.yaml --format github
check tests/checks/claims.yaml --format junit
schema hardware
schema check
schema solve
schema predict
schema compare
schema validate
schema models
schema fit
schema calibrate
solve --nodes 0
solve --hardware wse3
solve --speculation 0.5
predict no-such-model
compare kimi-k2 --hardware wse-3,nope
"""
"""Run as they are."""


def commands() -> list[str]:
    """Every command of the set."""
    both = _lines_of(BOTH)
    return [
        *both,
        *(f"{line} --format json" for line in both),
        *_lines_of(MORE),
    ]


def _lines_of(text: str) -> list[str]:
    return [line for line in re.sub(r"\\\n +", "", text).splitlines() if line]


def record(folder: Path, only: str) -> None:
    """Write what each command prints into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [line for line in commands() if only in line]
    for i, line in enumerate(chosen, 1):
        print(f"[{i}/{len(chosen)}] {line}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as scratch:
            words = [word.replace("OUT", scratch) for word in shlex.split(line)]
            done = subprocess.run(
                [sys.executable, "-m", "archinfer", *words],
                cwd=ROOT,
                capture_output=True,
                text=True,
                env=_environment(),
                check=False,
            )
            files = {
                str(path.relative_to(scratch)): path.read_text("utf-8").replace(scratch, "OUT")
                for path in sorted(Path(scratch).rglob("*"))
                if path.is_file()
            }
        said = {
            "command": line,
            "code": done.returncode,
            "out": done.stdout.replace(scratch, "OUT"),
            "err": done.stderr.replace(scratch, "OUT"),
            "files": files,
        }
        (folder / _name(line)).write_text(json.dumps(said, indent=1), encoding="utf-8")


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}


def _name(line: str) -> str:
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", line).strip("_")[:180] + ".json"


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Where two JSON values differ; numbers by more than 1e-12 of the larger."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            where = f"{place}.{key}" if place else key
            if key not in new:
                yield f"{where}: gone"
            elif key not in old:
                yield f"{where}: new"
            else:
                yield from differences(old[key], new[key], where)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{place}: {len(old)} items, now {len(new)}"
        for i, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, f"{place}[{i}]")
    elif _numbers(old, new):
        if not math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-300):
            yield f"{place}: {old!r}, now {new!r}"
    elif old != new:
        yield f"{place}: {old!r}, now {new!r}"


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def compare(before: Path, after: Path, text: bool) -> int:
    """Print what differs; the number of commands that do."""
    wrong = 0
    paths = sorted(before.glob("*.json"))
    for path in paths:
        old = json.loads(path.read_text(encoding="utf-8"))
        if not (after / path.name).is_file():
            print(f"== archinfer {old['command']}\n   not recorded")
            wrong += 1
            continue
        new = json.loads((after / path.name).read_text(encoding="utf-8"))
        found = list(_of_command(old, new, text))
        if found:
            wrong += 1
            print(f"== archinfer {old['command']}")
            print("\n".join(f"   {line}" for line in found[:60]))
    print(f"{len(paths)} commands, {wrong} differ")
    return wrong


def _of_command(old: dict[str, Any], new: dict[str, Any], text: bool) -> Iterator[str]:
    if old["code"] != new["code"]:
        yield f"exit code {old['code']}, now {new['code']}"
    if "--format json" in old["command"] and old["out"] and new["out"]:
        yield from differences(json.loads(old["out"]), json.loads(new["out"]))
    elif text:
        yield from _lines("out", old["out"], new["out"])
        for name in sorted(old["files"].keys() | new["files"].keys()):
            one, other = (said["files"].get(name, "") for said in (old, new))
            yield from _lines(name, one, other)
    if text:
        yield from _lines("err", old["err"], new["err"])


def _lines(name: str, old: str, new: str) -> Iterator[str]:
    pairs = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="", n=0)
    yield from pairs


def main() -> int:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--only", default="")
    comparing = actions.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--text", action="store_true")
    given = parser.parse_args()
    if given.action == "record":
        record(given.folder, given.only)
        return 0
    return int(compare(given.before, given.after, given.text) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
