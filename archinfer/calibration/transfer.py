"""What a measurement on one machine says about others: figures without a unit of time.

Seconds belong to the machine that they were measured on. What carries over is how evenly a
router spreads tokens, how many reductions a layer waits for one after another, and how far the
cost model's form is from code that runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware
    from archinfer.solver.question import Question

__all__ = ["TransferRow", "Transferable", "apply", "read_calibration"]


@dataclass(frozen=True, slots=True)
class TransferRow:
    """One figure: its value, whether `solve --calibration` uses it, and for what."""

    name: str
    value: float
    used: bool
    text: str

    def to_dict(self) -> dict[str, Any]:
        """JSON keys of `transferable[]`."""
        return {"name": self.name, "value": self.value, "used": self.used, "text": self.text}


@dataclass(frozen=True, slots=True)
class Transferable:
    """Figures that carry over to other hardware.

    Attributes:
        evenness: see `LayerGroup.evenness`.
        chain_dense, chain_moe: counted dependent reductions of a layer (grouped queries).
        bandwidth_fraction: part of the read ceiling that decode of a large model reaches.
        model_error: standard deviation of log(time) that the fitted cost model leaves.
        source: command, day, machine.
    """

    evenness: float
    chain_dense: int
    chain_moe: int
    bandwidth_fraction: float
    model_error: float
    source: str

    def rows(self) -> tuple[TransferRow, ...]:
        """Every figure, in words."""
        return (
            TransferRow(
                "expert_evenness",
                self.evenness,
                True,
                "distinct experts that several users' tokens hit; of a router with random weights",
            ),
            TransferRow(
                "reductions_per_moe_layer",
                float(self.chain_moe),
                True,
                "counted chain of dependent reductions, with grouped-query attention",
            ),
            TransferRow(
                "model_error",
                self.model_error,
                True,
                "least spread of a speed about the cost model; a profile with more keeps its own",
            ),
            TransferRow(
                "bandwidth_fraction",
                self.bandwidth_fraction,
                False,
                "decode against reading; a profile states its own efficiency",
            ),
            TransferRow(
                "reductions_per_dense_layer",
                float(self.chain_dense),
                False,
                "counted chain of a dense layer; the solver's family is a mixture of experts",
            ),
        )

    def to_data(self) -> dict[str, Any]:
        """The profile's section `calibration`."""
        return {
            "evenness": float(f"{self.evenness:.6g}"),
            "chain": {"dense": self.chain_dense, "moe": self.chain_moe},
            "bandwidth_fraction": float(f"{self.bandwidth_fraction:.6g}"),
            "model_error": float(f"{self.model_error:.6g}"),
            "source": self.source,
        }


def read_calibration(path: str) -> Transferable:
    """The figures of a profile that `archinfer calibrate --save` wrote.

    Raises:
        FileError: no such file, not a profile, or one without a calibration.
    """
    from archinfer.errors import FileError
    from archinfer.hardware.schema import read_profile

    found = read_profile(path).calibration
    if found is None:
        raise FileError(
            path,
            "missing key 'calibration'; expected a profile that archinfer calibrate --save wrote",
        )
    return Transferable(
        found.evenness,
        found.chain.dense,
        found.chain.moe,
        found.bandwidth_fraction,
        found.model_error,
        found.source,
    )


def apply(question: Question, calibration: Transferable, path: str) -> Question:
    """The question with what carries over, and the figures in its hardware's provenance.

    Routing evenness always counts; the counted chain where the attention is one that was run;
    the model error where it exceeds the profile's own.
    """
    from archinfer.hardware.profile import Figure
    from archinfer.models.family import COUNTED_KINDS

    source = f"calibration {path}: {calibration.source}"
    rules = replace(question.rules, evenness=calibration.evenness)
    added = [Figure("calibration.expert_evenness", calibration.evenness, "number", source)]
    if rules.attention in COUNTED_KINDS:
        rules = replace(rules, chain=float(calibration.chain_moe))
        added.append(
            Figure(
                "calibration.reductions_per_moe_layer",
                float(calibration.chain_moe),
                "number",
                source,
            )
        )
    hardware: Hardware = question.hardware
    if calibration.model_error > hardware.model_error_log_sd:
        hardware = replace(
            hardware,
            model_error_log_sd=calibration.model_error,
            figures=tuple(
                Figure("model_error", calibration.model_error, "number", source)
                if figure.key == "model_error"
                else figure
                for figure in hardware.figures
            ),
        )
    hardware = replace(hardware, figures=(*hardware.figures, *added))
    return question.with_(hardware=hardware, rules=rules, calibration=path)
