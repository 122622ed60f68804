"""What a measurement on one machine says about others: figures without a unit of time.

Seconds belong to the machine that they were measured on. What carries over is how evenly a
router spreads tokens, how many reductions a layer waits for one after another, and how far the
cost model's form is from code that runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from archinfer.errors import FileError
from archinfer.hardware.figures import Figure
from archinfer.hardware.reading import read_profile
from archinfer.hardware.text import rounded
from archinfer.models.solver_family import COUNTED_KINDS
from archinfer.record import Record
from archinfer.solver.question import Question


@dataclass(frozen=True, slots=True, repr=False)
class TransferRow(Record):
    """A figure without a unit of time, which carries over to other hardware."""

    name: str
    value: float
    used: bool
    """`solve --calibration` uses it"""
    text: str


@dataclass(frozen=True, slots=True)
class Transferable:
    """Figures that carry over to other hardware."""

    evenness: float
    """See `LayerGroup.evenness`."""
    chain_dense: int
    """Counted dependent reductions of a dense layer with grouped queries."""
    chain_moe: int
    """The same of an MoE layer."""
    bandwidth_fraction: float
    """Part of the read ceiling that decode of a large model reaches."""
    model_error: float
    """Standard deviation of log(time) that the fitted cost model leaves."""
    source: str
    """Command, day, machine."""

    @property
    def rows(self) -> tuple[TransferRow, ...]:
        """Every figure, in words."""
        hit = "distinct experts that several users' tokens hit; of a router with random weights"
        counted = "counted chain of dependent reductions, with grouped-query attention"
        least = "least spread of a speed about the cost model; a profile with more keeps its own"
        read = "decode against reading; a profile states its own efficiency"
        dense = "counted chain of a dense layer; the solver's family is a mixture of experts"
        return (
            TransferRow("expert_evenness", self.evenness, True, hit),
            TransferRow("reductions_per_moe_layer", float(self.chain_moe), True, counted),
            TransferRow("model_error", self.model_error, True, least),
            TransferRow("bandwidth_fraction", self.bandwidth_fraction, False, read),
            TransferRow("reductions_per_dense_layer", float(self.chain_dense), False, dense),
        )

    def to_data(self) -> dict[str, Any]:
        """The profile's section `calibration`."""
        return {
            "evenness": rounded(self.evenness, 6),
            "chain": {"dense": self.chain_dense, "moe": self.chain_moe},
            "bandwidth_fraction": rounded(self.bandwidth_fraction, 6),
            "model_error": rounded(self.model_error, 6),
            "source": self.source,
        }


def read_calibration(path: str) -> Transferable:
    """The figures of a profile that `archinfer calibrate --save` wrote.

    Raises:
        FileError: no such file, not a profile, or one without a calibration.
    """
    section = read_profile(path).calibration
    if section is None:
        raise FileError(
            path,
            "missing key 'calibration'; expected a profile that archinfer calibrate --save wrote",
        )
    return Transferable(
        section.evenness,
        section.chain.dense,
        section.chain.moe,
        section.bandwidth_fraction,
        section.model_error,
        section.source,
    )


def apply(question: Question, calibration: Transferable, path: str) -> Question:
    """The question with what carries over, and the figures in its hardware's provenance.

    Routing evenness always counts; the counted chain where the attention is one that was run;
    the model error where it exceeds the profile's own.
    """
    source = f"calibration {path}: {calibration.source}"

    def figure(key: str, value: float) -> Figure:
        return Figure(key, value, "number", source)

    rules = replace(question.rules, evenness=calibration.evenness)
    added = [figure("calibration.expert_evenness", calibration.evenness)]
    if rules.attention in COUNTED_KINDS:
        chain = float(calibration.chain_moe)
        rules = replace(rules, chain=chain)
        added.append(figure("calibration.reductions_per_moe_layer", chain))
    hardware, error = question.hardware, calibration.model_error
    figures = hardware.figures
    if error > hardware.model_error_log_sd:
        hardware = replace(hardware, model_error_log_sd=error)
        figures = tuple(figure(f.key, error) if f.key == "model_error" else f for f in figures)
    hardware = replace(hardware, figures=(*figures, *added))
    return question.with_(hardware=hardware, rules=rules, calibration=path)
