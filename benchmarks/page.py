"""Tables of benchmarks in docs/validation.md: each between `<!-- NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import datetime
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "validation.md"


def write(name: str, command: str, seconds: float, text: str) -> None:
    """Replace the part called `name`, and say how and when it was made."""
    begin, end = f"<!-- {name} -->\n", "<!-- end -->"
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    if not found:
        raise ValueError(f"{PAGE.name} has no part {name}")
    made = f"Written by `{command}` on {datetime.date.today()}: {seconds:.0f} s of processor time."
    after = rest.partition(end)[2]
    PAGE.write_text(f"{before}{begin}{made}\n\n{text}\n{end}{after}", encoding="utf-8")
