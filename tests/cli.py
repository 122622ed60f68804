"""Runs the command line in this process."""

from __future__ import annotations

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
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        patch.setattr("sys.argv", ["archinfer", *arguments])
        cli.main()
    printed = capsys.readouterr()
    return Done(int(stopped.value.code or 0), printed.out, printed.err)
