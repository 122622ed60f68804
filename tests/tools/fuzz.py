"""Draws commands, files and values of all kinds and holds what comes back against invariants.

    python -m tests.tools.fuzz --cases 5000 --seed 1 [--processes 2] [--minutes 20]

Each case is one command with its options, sometimes a file made for it, run in this process. What
must hold whatever was asked:

- exit code 0, 1 or 2; no traceback; no warning of Python's or NumPy's;
- exit code 2: one line on stderr that begins with `error:`, nothing on stdout, nothing written;
- JSON is strict, and neither it nor a table says nan or inf;
- a device, a pipe or a folder given as a result file is what it was before;
- of `solve`: low ends are at most high ends, every architecture lies inside the ranges, what the
  posterior holds lies inside what is known, a stricter question allows no more, and emitted configs
  are predicted at the speeds that were listed;
- of `pareto`: no deployment is beaten by another of its machine, and a higher target costs no less;
- what a command writes, the command that reads it takes;
- no case takes more than a gigabyte.

Posteriors are of few draws. At the end it says how many cases and seconds each kind took.
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
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from archinfer.cli.main import main as command_line
from tests.few import few_draws
from tests.tools.fuzz_cases import KINDS, Case, draw

SECONDS_OF_A_CASE = 60
MEMORY_MOST_BYTES = 1e9
SLACK = 1e-6
"""Ranges and architectures are printed as computed; this is rounding."""

WHOLE = 0.05
"""How far an architecture may be from a number of parameters that was asked for."""

PARAMS = ("total_params", "active_params")


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str
    crash: str


def run(words: list[str], environment: dict[str, str]) -> Done:
    """The command in this process."""
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
                command_line()
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
        faults = [x for x in last if x.startswith("error:")]
        # Every fault of a file has its line, once; of several files each has its own.
        placed = all(re.match(r"error: .+?:\d+: |error: \S+: ", x) for x in faults)
        told = len(faults) == 1 or (placed and len(set(faults)) == len(faults) > 1)
        if not last[-1].startswith("error:") or not told:
            yield f"exit code 2 without one line of error: {done.err[:200]!r}"
    if any(ord(c) < 32 and c != "\n" for c in done.out + done.err):
        yield "a control character in the output"
    asked = " ".join(case.words)
    if done.code != 2 and "nan" not in asked and "inf" not in asked:
        found = NUMBERLESS.search(done.out)
        if found:
            yield f"says {found[0]}: {done.out[max(0, found.start() - 60) : found.end() + 20]!r}"
    if done.code == 0 and case.words[-2:] == ["--format", "json"] and "--init" not in asked:
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
    if case.words[0] == "pareto":
        yield from _fronts(document)


def _answer(document: dict[str, Any]) -> Iterator[str]:
    ranges = {k: v for k, v in document["ranges"].items() if v is not None}
    for name, ends in ranges.items():
        if not ends["low"] <= ends["high"] * (1 + SLACK):
            yield f"{name}: low {ends['low']} above high {ends['high']}"
    # Whole heads and experts meet a number that is asked for only nearly, and with it what the
    # other is at most.
    near = any(ranges[n]["high"] < ranges[n]["low"] * (1 + WHOLE) for n in PARAMS if ranges)
    for design in document["architectures"]:
        for name, ends in ranges.items():
            if name == "nodes":
                # A range of nodes is of those that are there; a design may use fewer.
                continue
            value, slack = design[name], WHOLE if near and name in PARAMS else SLACK
            if not ends["low"] * (1 - slack) <= value <= ends["high"] * (1 + slack):
                yield f"an architecture has {name} {value}, outside {ends['low']}..{ends['high']}"
    if document["feasible"] != bool(ranges):
        yield "feasible and the ranges disagree"
    yield from _support(document)


def _fronts(document: dict[str, Any]) -> Iterator[str]:
    for own in _by_machine(document).values():
        speeds = [
            tuple(found[f"tokens_per_s_per_{who}"]["p50"] for who in ("user", "node"))
            for found in own
        ]
        for user, node in speeds:
            if any(u > user * (1 + SLACK) and n > node * (1 + SLACK) for u, n in speeds):
                yield f"a deployment of {own[0]['hardware']} is beaten: {user:.6g}, {node:.6g}"
                break


def _by_machine(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for deployment in document["deployments"]:
        found[deployment["hardware"]].append(deployment)
    return found


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
    if "deployments" in wide:
        cheap, dear = (_least_cost(document) for document in (wide, narrow))
        if dear < cheap * (1 - SLACK):
            yield f"a higher target costs less: {dear:.6g} in place of {cheap:.6g} dollars"
        return
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


def _least_cost(document: dict[str, Any]) -> float:
    costs = (
        found["dollars_per_million_output_tokens"]
        for found in document["deployments"]
        if found["misses_by"] is not None and found["misses_by"] <= 1.0
    )
    return min((cost for cost in costs if cost is not None), default=math.inf)


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


class Tried(NamedTuple):
    """What came of the case of a seed."""

    seed: int
    kind: str
    command: str
    wrong: list[str]
    seconds: float
    """of CPU"""
    peak_bytes: float
    refused: bool
    """Exit code 2."""


def attempt(seed: int) -> Tried:
    """Run the case of a seed."""
    rng = random.Random(seed)
    start = time.process_time()
    _peak_bytes(forget=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kind, case = draw(rng, folder)
        command = shlex.join(case.words)
        kinds = [_kind(path) for path in case.targets]
        before = {p.name for p in folder.iterdir()}
        signal.signal(signal.SIGPROF, _too_slow)
        signal.setitimer(signal.ITIMER_PROF, SECONDS_OF_A_CASE)
        try:
            with few_draws(), contextlib.chdir(folder):
                done, wrong = _held(case)
        except TooSlow:
            done, wrong = None, [f"takes more than {SECONDS_OF_A_CASE} s of CPU"]
        except Exception:
            # An answer of another form than this script expects.
            done, wrong = None, [traceback.format_exc()]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if wrong and case.stricter is not None:
            command += f"  # and {shlex.join(case.stricter)}"
        for path, was in zip(case.targets, kinds, strict=True):
            special = was is not None and not stat.S_ISREG(was)
            if special and not stat.S_ISDIR(was or 0) and _kind(path) != was:
                wrong.append(f"{path} was replaced")
        after = {p.name for p in folder.iterdir()}
        if any(name.startswith(".archinfer") for name in after):
            wrong.append("a half-written file stays")
        if done is not None and not wrong and done.code == 2 and after != before:
            wrong.append(f"exit code 2 and something written: {sorted(after - before)}")
    peak = _peak_bytes()
    if peak > MEMORY_MOST_BYTES:
        wrong.append(f"takes {peak / 1e9:.1f} GB")
    refused = done is not None and done.code == 2
    return Tried(seed, kind, command, wrong, time.process_time() - start, peak, refused)


def _held(case: Case) -> tuple[Done, list[str]]:
    """What a command did, and what is wrong with it or with what must follow."""
    done = run(case.words, case.environment)
    wrong = list(faults(case, done))
    if case.stricter is not None and not wrong:
        wrong += stricter_faults(done, run(case.stricter, case.environment))
    if case.emitted is not None and not wrong:
        wrong += emit_faults(done, case.emitted)
    if case.then is not None and not wrong and done.code == 0:
        after = run(case.then, {})
        if after.code:
            wrong.append(f"{shlex.join(case.then)}: {after.err[:200] or after.crash[-200:]!r}")
    return done, wrong


def _peak_bytes(forget: bool = False) -> float:
    """Most memory that this process has had, since it was last forgotten where the system can."""
    with contextlib.suppress(OSError):
        if forget:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
        return 1024.0 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(tell: Callable[[str], None] = print) -> int:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    seeds = range(given.seed * 1_000_000, given.seed * 1_000_000 + given.cases)
    tried = []
    start = time.perf_counter()
    # A fresh process now and then: a command that spoils the next ones does so for a while only.
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=500) as pool:
        for one in pool.imap_unordered(attempt, seeds, chunksize=1):
            tried.append(one)
            if one.wrong:
                tell(f"seed {one.seed}: archinfer {one.command}")
                for fault in one.wrong:
                    tell(f"    {fault}")
            if time.perf_counter() - start > 60.0 * given.minutes:
                pool.terminate()
                break
    for line in summary(tried):
        tell(line)
    tell(f"{time.perf_counter() - start:.0f} s of the clock")
    return int(any(one.wrong for one in tried))


def summary(tried: list[Tried]) -> Iterator[str]:
    """Cases and seconds of each kind."""
    yield "kind            cases  wrong  refused    CPU s  median   most    MB"
    for kind in (*KINDS, ""):
        own = [one for one in tried if kind in ("", one.kind)]
        if own:
            seconds = sorted(one.seconds for one in own)
            peak = max(one.peak_bytes for one in own) / 1e6
            yield (
                f"{kind or 'all':14}{len(own):7}{sum(bool(one.wrong) for one in own):7}"
                f"{sum(one.refused for one in own):9}"
                f"{sum(seconds):9.1f}{seconds[len(own) // 2]:8.3f}{seconds[-1]:7.1f}{peak:6.0f}"
            )
    for one in sorted(tried, key=lambda t: -t.seconds)[:5]:
        yield f"{one.seconds:.1f} s: seed {one.seed}: archinfer {one.command}"


if __name__ == "__main__":
    raise SystemExit(main())
