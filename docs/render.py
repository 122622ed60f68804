"""Fill the console blocks of README.md and docs/*.md with what the commands really print.

A block opens with a line of three backticks and `console`; its first line is `$ archinfer ...`
(run in a new process, 100 columns, no colour) and all that follows is replaced. Run without
arguments to rewrite the files, with --check to list blocks that differ: words must be equal,
numbers within 2 % (sampled figures move a little between versions of NumPy). A command that prints
Markdown stands in a comment, `<!-- $ archinfer ... -->`, and what follows it up to `<!-- end -->`
is replaced in the same way. With --pictures it
draws docs/images instead, all but calibrate.png, which shows a measurement.
Blocks whose opening line says `console-once` are measurements of a machine, with their pictures in
docs/images: they are left alone but with --measure, which rewrites these alone; on a machine where
nothing else runs.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n\$ (archinfer[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ONCE = re.compile(r"^```console-once\n\$ (archinfer[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(
    r"^<!-- \$ (archinfer[^\n]*) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL
)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PICTURES = {
    "predict.png": "predict gpt-oss-120b qwen3-235b-a22b kimi-k2 --hardware b200 --nodes 8",
    "pareto.png": "pareto deepseek-v3 --hardware h100-sxm,b200,gb200-nvl72,mi300x,wse-3",
    "solve.png": "solve",
    "solve-observed.png": "solve --observed 750 --nodes 88",
    "validate.png": "validate --no-inverse",
}
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")


def files() -> list[Path]:
    """Every Markdown file with blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def run(
    command: str, columns: int = 100, cwd: str | os.PathLike[str] = ROOT, timeout: float = 300
) -> str:
    """What the command prints on standard output, without spaces at line ends."""
    words = shlex.split(command)
    environment = os.environ | {
        "COLUMNS": str(columns),
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        cwd=cwd,
        timeout=timeout,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command}: exit code {done.returncode}: {done.stderr.strip()}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines()).rstrip("\n") + "\n"


def _numbers(text: str) -> list[float]:
    return [float(n.replace(",", "")) for n in NUMBER.findall(text)]


def same(old: str, new: str, tolerance: float = 0.02) -> bool:
    """Equal but for spacing, pictures and small differences of numbers."""

    def words(text: str) -> list[str]:
        lines = [line for line in text.splitlines() if not re.search(r"[█▓▒░]|\|", line)]
        plain = NUMBER.sub("0", "\n".join(lines))
        return re.findall(r"[^\W\d_]{2,}", plain)

    a, b = _numbers(old), _numbers(new)
    if words(old) != words(new) or len(a) != len(b):
        return False
    pairs = zip(a, b, strict=True)
    return all(abs(x - y) <= tolerance * max(abs(x), abs(y), 0.5) for x, y in pairs)


def measure() -> None:
    """Rewrite the measurements, on all cores of this machine."""
    kept = {name: os.environ.pop(name, None) for name in THREADS}
    for path in files():
        text = path.read_text(encoding="utf-8")
        for m in ONCE.finditer(text):
            with tempfile.TemporaryDirectory() as folder:
                printed = run(m[1], cwd=folder, timeout=900)
                for picture in Path(folder).glob("*.png"):
                    shutil.copy(picture, ROOT / "docs" / "images")
            text = text.replace(m[0], f"```console-once\n$ {m[1]}\n{printed}```")
        path.write_text(text, encoding="utf-8")
    os.environ.update({name: value for name, value in kept.items() if value is not None})


def blocks(text: str) -> Iterator[re.Match[str]]:
    """The console blocks of a file."""
    return BLOCK.finditer(text)


def filled(text: str) -> Iterator[re.Match[str]]:
    """All that commands print in a file, Markdown among it."""
    yield from BLOCK.finditer(text)
    yield from PRINTED.finditer(text)


def draw() -> None:
    """Draw every picture of docs/images that is no measurement."""
    for name, command in PICTURES.items():
        run(f"archinfer {command} --plot {ROOT / 'docs' / 'images' / name}")


def main() -> int:
    """Rewrite or check; the exit code is the number of blocks that differ (with --check)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--measure", action="store_true")
    asked = parser.parse_args()
    if asked.measure:
        measure()
        return 0
    if asked.pictures:
        draw()
        return 0
    check = asked.check
    texts = {path: path.read_text(encoding="utf-8") for path in files()}
    commands = list(dict.fromkeys(m[1] for text in texts.values() for m in filled(text)))
    with ThreadPoolExecutor(2) as pool:
        printed = dict(zip(commands, pool.map(run, commands), strict=True))
    differing = 0
    for path, text in texts.items():
        for m in filled(text):
            if not same(m[2], printed[m[1]]):
                differing += 1
                print(f"{path.relative_to(ROOT)}: {m[1]}: differs", file=sys.stderr)
        if not check:
            new = BLOCK.sub(lambda m: f"```console\n$ {m[1]}\n{printed[m[1]]}```", text)
            new = PRINTED.sub(lambda m: f"<!-- $ {m[1]} -->\n{printed[m[1]]}<!-- end -->", new)
            path.write_text(new, encoding="utf-8")
    return differing if check else 0


if __name__ == "__main__":
    sys.exit(main())
