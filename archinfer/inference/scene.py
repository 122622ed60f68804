"""Deployed draws, as observations of them are predicted."""

from __future__ import annotations

from dataclasses import dataclass

from archinfer.hardware.profile import Hardware
from archinfer.inference.evidence import Conditions
from archinfer.models.shape import FloatArray
from archinfer.physics.mapping import Placement
from archinfer.physics.terms import TokenTime
from archinfer.physics.workload import Workload


@dataclass(frozen=True, slots=True)
class Drafting:
    """How each draw speculates; fields of shape (n,)."""

    drafts: FloatArray
    """Tokens drafted a pass; 0: none."""
    acceptance: FloatArray
    draft_s: FloatArray
    text: FloatArray
    """Factor of the text that was written."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Deployed draws of one kind of attention; arrays of shape (n,)."""

    hardware: Hardware
    workload: Workload
    mapping: Placement
    time: TokenTime
    """Of a pass under the conditions of `base`."""
    gain: FloatArray
    """Tokens a pass, net of drafting, at that time."""
    drafting: Drafting | None
    """None: `gain` is given, whatever the time."""
    software: FloatArray
    base: Conditions
    total: FloatArray
    active: FloatArray
    nodes: FloatArray
