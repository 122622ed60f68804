"""Runs the command line in this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from archinfer.cli import main as cli


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    """What `archinfer ARGUMENTS` prints, and its exit code."""
    code = _code(arguments)
    printed = capsys.readouterr()
    return Done(code, printed.out, printed.err)


def call(*arguments: str, stdin: str = "", env: Mapping[str, str] | None = None,
         encoding: str = "utf-8") -> Done:  # fmt: skip
    """`run` with a standard input, an environment and streams of an encoding."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _code(arguments)
        out.flush(), err.flush()
    return Done(code, *(s.buffer.getvalue().decode(encoding) for s in (out, err)))


def _code(arguments: tuple[str, ...]) -> int:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        patch.setattr("sys.argv", ["archinfer", *arguments])
        cli.main()
    return int(stopped.value.code or 0)
