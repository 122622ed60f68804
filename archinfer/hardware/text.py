"""Figures and whole profiles as the text of a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from archinfer import units

_DIGITS = 4


def rounded(value: float, digits: int = 3) -> float:
    """A number with so many digits."""
    return float(f"{value:.{digits}g}")


def quantity(value: float, dimension: str, digits: int = _DIGITS) -> str | float:
    """A figure as a profile states it: with its unit, or a number."""
    if dimension == "number":
        return rounded(value, digits)
    return units.format_quantity(value, dimension, digits=digits)


def yaml_text(header: str, data: Mapping[str, Any]) -> str:
    """A profile file: comment lines, then the data."""
    body: str = yaml.dump(
        dict(data),
        Dumper=_Dumper,
        sort_keys=False,
        width=96,
        allow_unicode=True,
        default_flow_style=None,
    )
    return header + body


class _Dumper(yaml.SafeDumper):
    """Short lists of numbers on one line, everything else in block style."""

    def represent_mapping(self, tag: Any, mapping: Any, flow_style: Any = None) -> Any:
        return super().represent_mapping(tag, mapping, flow_style=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True
