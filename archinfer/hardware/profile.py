"""A hardware profile: every figure of a machine in SI units, with its source and uncertainty.

Profiles are YAML files (`hardware/*.yaml`, shipped with the package). `Hardware.load` validates
one and returns a flat frozen dataclass; no file format reaches the code that computes with it.
The validation model is in `hardware_schema.py` and is imported only to read a file.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from archinfer import units
from archinfer.errors import InputError, UnitError, UnknownNameError
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.speculation import SpeculationLaw
from archinfer.record import Record, as_record

if TYPE_CHECKING:
    from archinfer.hardware.schema import Profile

__all__ = [
    "KEYS",
    "NUMBER_FORMATS",
    "TABLES",
    "USUAL_SOFTWARE",
    "Figure",
    "Hardware",
    "Key",
]

USUAL_SOFTWARE = "usual"
"""Name of the software whose speeds the constants of a profile describe."""

NUMBER_FORMATS: Final = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")
"""Number formats that may have a peak of their own."""

_SAME_UNITS: Final = {"mxfp8": "fp8", "mxfp4": "fp4", "nvfp4": "fp4"}
_WIDER: Final = ("bf16", "fp16", "tf32", "fp32", "fp64")


@dataclass(frozen=True, slots=True)
class Key:
    """A scalar figure of a profile.

    Attributes:
        attribute: its name on `Hardware`.
        dimension: a key of `units.DIMENSIONS`.
        minimum: smallest value; itself allowed only where `closed`.
        maximum: largest value, itself allowed.
        whole: no fraction.
        uncertain: may carry a log-standard deviation; only constants that scale a term of the
            time of a token do, because the spread of a speed comes from those.
    """

    attribute: str
    dimension: str
    minimum: float = 0.0
    closed: bool = False
    maximum: float = math.inf
    whole: bool = False
    uncertain: bool = False

    def read(self, text: str | float) -> float:
        """The value in SI units.

        Raises:
            UnitError: not such a quantity, or out of bounds.
        """
        try:
            value = units.parse(text, self.dimension)
        except UnitError:
            raise UnitError(f"expected {units.expected(self.dimension)}") from None
        if value < self.minimum or (value == self.minimum and not self.closed):
            bound = units.format_quantity(self.minimum, self.dimension)
            raise UnitError(f"expected {'at least' if self.closed else 'more than'} {bound}")
        if value > self.maximum:
            bound = units.format_quantity(self.maximum, self.dimension)
            raise UnitError(f"expected at most {bound}")
        if self.whole and not value.is_integer():
            raise UnitError("expected a whole number")
        return value


def _fraction(attribute: str, uncertain: bool = False) -> Key:
    return Key(attribute, "ratio", maximum=1.0, uncertain=uncertain)


KEYS: Final[dict[str, Key]] = {
    "memory.capacity": Key("memory_capacity_bytes", "bytes"),
    "memory.usable_fraction": _fraction("usable_fraction"),
    "memory.bandwidth": Key("bandwidth_bytes_per_s", "bytes_per_s"),
    "memory.read_fraction": _fraction("read_fraction"),
    "compute.cores": Key("cores", "number", minimum=1.0, closed=True, whole=True),
    "compute.clock": Key("clock_hz", "hertz", uncertain=True),
    "fabric.hop_cycles": Key("hop_cycles", "cycles", closed=True),
    "fabric.step_cycles": Key("step_cycles", "cycles", closed=True),
    "link.bandwidth": Key("link_bandwidth_bytes_per_s", "bytes_per_s"),
    "link.latency": Key("link_latency_s", "seconds", closed=True, uncertain=True),
    "scale_up.size": Key("scale_up_size", "number", minimum=1.0, closed=True, whole=True),
    "scale_up.bandwidth": Key("scale_up_bandwidth_bytes_per_s", "bytes_per_s"),
    "power": Key("power_w", "watts"),
    "price.purchase": Key("price_dollars", "dollars"),
    "price.rent": Key("price_dollars_per_hour", "dollars_per_hour"),
    "reductions_per_layer": Key("reductions_per_layer", "number", closed=True, uncertain=True),
    "cycles_per_weight": Key("cycles_per_weight", "cycles", closed=True, uncertain=True),
    "fixed_time_per_layer": Key("fixed_time_per_layer_s", "seconds", closed=True, uncertain=True),
    "routed_layer_factor": Key(
        "routed_layer_factor", "number", minimum=1.0, closed=True, uncertain=True
    ),
    "fixed_time_per_token": Key("fixed_time_per_token_s", "seconds", closed=True, uncertain=True),
    "bandwidth_efficiency": _fraction("bandwidth_efficiency", uncertain=True),
    "compute_efficiency": _fraction("compute_efficiency", uncertain=True),
    "kv_bandwidth_efficiency": _fraction("kv_bandwidth_efficiency", uncertain=True),
    "fixed_time_per_expert": Key("fixed_time_per_expert_s", "seconds", closed=True, uncertain=True),
    "compute_overlap": Key("compute_overlap", "ratio", closed=True, maximum=1.0),
    "small_matrix_speed": _fraction("small_matrix_speed", uncertain=True),
    "small_matrix_params": Key("small_matrix_params", "number", closed=True),
    "model_error": Key("model_error_log_sd", "number", closed=True, maximum=3.0),
}
"""Every scalar figure by its key. Those without a dot stand under `constants:` in the file,
except `power`; `constants.` may be written before them."""

_SYNC: Final = "scale_up.sync_latency"
_TEMPORAL_ONLY: Final = (
    "scale_up.",
    "routed_layer_factor",
    "kv_bandwidth_efficiency",
    "fixed_time_per_expert",
    "compute_overlap",
    "small_matrix_speed",
    "small_matrix_params",
)
_SPATIAL_ONLY: Final = ("compute.cores", "compute.clock", "fabric.", "cycles_per_weight")
_PEAK: Final = "compute.peak."

TABLES: Final[dict[str, Key]] = {
    _SYNC: Key("sync_latency_s", "seconds", closed=True),
    "compute.peak": Key("peaks_flops", "flops_per_s"),
}
"""Figures that are tables: seconds by group size, FLOP/s by number format."""


class SoftwareFactor(NamedTuple):
    """How much faster one software is than the usual one on the same machine."""

    name: str
    factor: float
    """its speed over that of the usual software"""
    log_sd: float
    """standard deviation of its natural logarithm"""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Any) -> Any:
        return as_record(cls, handler)


@dataclass(frozen=True, slots=True)
class Covariance(Record):
    """Joint covariance of the natural logarithms of constants, in the order of `names`."""

    names: tuple[str, ...]
    log_covariance: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure(Record):
    """One figure of a hardware profile."""

    KEYS = ("key", "value=plain_value", "text", "unit", "log_sd", "source", "note", "estimate")

    key: str
    """a key of a profile, as `compute.peak.bf16`"""
    value: float | tuple[tuple[float, float], ...]
    """in SI units; (group size, seconds) pairs or (low, high) for the last two"""
    dimension: str
    """a key of `units.DIMENSIONS`"""
    source: str
    log_sd: float = 0.0
    """standard deviation of its natural logarithm; 0: exact"""
    note: str = ""

    @property
    def plain_value(self) -> float | tuple[float, float] | dict[str, float]:
        """in SI units; accepted tokens: [low, high]; sync_latency: seconds by group size"""
        if not isinstance(self.value, tuple):
            return self.value
        if self.key == _SYNC:
            return {f"{size:g}": seconds for size, seconds in self.value}
        return self.value[0]

    @property
    def unit(self) -> str:
        """SI unit of value; empty for plain numbers and ratios"""
        return units.base_unit(self.dimension)

    @property
    def estimate(self) -> bool:
        """computed, recalled or guessed rather than read"""
        return self.source.lower().startswith("estimate")

    @property
    def text(self) -> str:
        """the value with its unit, for people"""
        if isinstance(self.value, tuple):
            if self.key == _SYNC:
                show = units.format_quantity
                return ", ".join(f"{n:g}: {show(t, self.dimension)}" for n, t in self.value)
            return ":".join(f"{v:g}" for v in self.value[0])
        if self.dimension == "number":
            return f"{self.value:.10g}"
        return units.format_quantity(self.value, self.dimension, digits=6)


@dataclass(frozen=True)
class Hardware(Record):
    """One node of a machine, in SI units.

    Fields typed `Number` may be replaced by arrays (`with_constants`), so that a cost model
    broadcasts over draws of the uncertain constants. A figure that the profile does not have is
    NaN: cores, clock, fabric and `cycles_per_weight` of temporal hardware, and whatever of power,
    prices and scale-up bandwidth no source gives.

    Attributes:
        name, title: short name and full name.
        execution: "spatial": all layers resident at once, each on its own region;
            "temporal": layers one after another on all nodes of a scale-up group.
        memory_capacity_bytes: capacity of one node, all of it.
        usable_fraction: the part that weights, KV cache and activations can have.
        bandwidth_bytes_per_s: peak memory bandwidth of one node, as the data sheet counts it.
        read_fraction: the part of that bandwidth that reads alone can reach.
        cores, clock_hz: of one node (spatial).
        peaks_flops: dense peak of one node in FLOP/s, by number format; see `peak_flops`.
        hop_cycles, step_cycles: an all-reduce over a region of side s takes
            hop_cycles * s + step_cycles * sqrt(s) clock cycles (spatial).
        link_bandwidth_bytes_per_s, link_latency_s: node to node, one way; for temporal hardware
            from one scale-up domain to the next.
        scale_up_size: nodes that share one fast network (1: none).
        scale_up_bandwidth_bytes_per_s: of one node into that network, one direction.
        sync_group_sizes, sync_latency_s: time of one small all-reduce by group size; its
            uncertainty is that of `reductions_per_layer`, which multiplies it.
        power_w: of one node with its share of the system.
        price_dollars, price_dollars_per_hour: of one node.
        reductions_per_layer: dependent all-reduces of one dense layer.
        cycles_per_weight: cycles that a core spends on one 16-bit weight (spatial).
        fixed_time_per_layer_s, fixed_time_per_token_s: time that depends on no size.
        routed_layer_factor: fixed time of a layer with routed experts over that of one without,
            chains alike (temporal): the kernels that route, gather and combine.
        bandwidth_efficiency, compute_efficiency: part of the peak that is reached.
        kv_bandwidth_efficiency: the same for keys and values; NaN: as for weights (temporal).
        fixed_time_per_expert_s: of each distinct expert that a layer runs, whatever its size
            (temporal).
        compute_overlap: part of the memory time that hides arithmetic: 1 where the two run side
            by side, 0 where one follows the other (temporal).
        accepted_low, accepted_high: usual accepted tokens per pass with and without speculation.
        model_error_log_sd: spread of what the model does not explain, in natural logarithm.
        figures: every figure with its source, as the profile states it.
        covariance_names, log_covariance: joint covariance of the logarithms of some constants;
            takes the place of their own `log_sd`.
        speculation: how its services decode speculatively, where that was fitted.
        origin: the file it was read from.
    """

    KEYS = (
        "name", "title", "node", "execution", "usual_software", "software", "figures=provenance",
        "covariance",
    )  # fmt: skip

    name: str
    title: str
    node: str
    """what one node is: wafer, GPU, socket"""
    execution: Literal["spatial", "temporal"]
    memory_capacity_bytes: Number
    usable_fraction: Number
    bandwidth_bytes_per_s: Number
    read_fraction: Number
    peaks_flops: tuple[tuple[str, float], ...]
    link_bandwidth_bytes_per_s: Number
    link_latency_s: Number
    reductions_per_layer: Number
    fixed_time_per_layer_s: Number
    bandwidth_efficiency: Number
    compute_efficiency: Number
    accepted_low: float
    accepted_high: float
    model_error_log_sd: float
    cores: Number = math.nan
    clock_hz: Number = math.nan
    hop_cycles: Number = math.nan
    step_cycles: Number = math.nan
    cycles_per_weight: Number = math.nan
    fixed_time_per_token_s: Number = 0.0
    kv_bandwidth_efficiency: Number = math.nan
    fixed_time_per_expert_s: Number = 0.0
    compute_overlap: Number = 1.0
    small_matrix_speed: Number = 1.0
    """Speed of a matrix that is too small to be shared by cores, over that of a large one
    (temporal)."""
    small_matrix_params: Number = 0.0
    """Parameters below which a matrix is that small."""
    routed_layer_factor: Number = 1.0
    scale_up_size: float = 1.0
    scale_up_bandwidth_bytes_per_s: Number = math.nan
    sync_group_sizes: tuple[float, ...] = (1.0,)
    sync_latency_s: tuple[float, ...] = (0.0,)
    power_w: float = math.nan
    price_dollars: float = math.nan
    price_dollars_per_hour: float = math.nan
    figures: tuple[Figure, ...] = ()
    covariance_names: tuple[str, ...] = ()
    log_covariance: tuple[tuple[float, ...], ...] = ()
    speculation: SpeculationLaw | None = None
    usual_software: str | None = None
    """the software whose speeds the constants describe; null: not said"""
    software: tuple[SoftwareFactor, ...] = ()
    """speed of other software, where fitted"""
    origin: str = dataclasses.field(default="", compare=False)

    @staticmethod
    def names() -> list[str]:
        """Names of the shipped profiles, sorted."""
        return sorted(path.stem for path in profile_folder().glob("*.yaml"))

    def __eq__(self, other: object) -> bool:
        """Whether both have the same figures and lack the same ones."""
        if not isinstance(other, Hardware):
            return NotImplemented
        # A list compares by identity first, which makes a missing figure (NaN) equal to itself;
        # the comparison that dataclasses generate does so before Python 3.13 only.
        compared = [field.name for field in dataclasses.fields(self) if field.compare]
        return [getattr(self, n) for n in compared] == [getattr(other, n) for n in compared]

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> Hardware:
        """A shipped profile by name, or any profile by path.

        Raises:
            UnknownNameError: neither a shipped name nor something that looks like a path.
            InputError: several names.
            FileError: a file that cannot be used, with line, key, found and expected.
        """
        text = os.fspath(name_or_path)
        shipped = cls.names()
        if text in shipped:
            return cls.read(profile_folder() / f"{text}.yaml")
        separators = [s for s in (os.sep, os.altsep) if s]
        looks_like_path = any(s in text for s in separators) or text.endswith((".yaml", ".yml"))
        if looks_like_path or (text and os.path.exists(text)):
            return cls.read(text)
        if "," in text:
            raise InputError(
                f"expected one hardware profile, found {text!r}; several are set side by side by "
                f"archinfer compare MODEL --hardware {text}"
            )
        raise UnknownNameError("hardware", text, shipped)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Hardware:
        """A profile from a file; raises FileError where it is wrong."""
        from archinfer.hardware.schema import read_profile

        return cls.from_profile(read_profile(path), origin=os.fspath(path))

    @classmethod
    def from_profile(cls, profile: Profile, origin: str = "") -> Hardware:
        """The flat form of a validated profile."""
        figures = tuple(profile.figures())
        values: dict[str, Any] = {}
        peaks: list[tuple[str, float]] = []
        for figure in figures:
            if isinstance(figure.value, tuple):
                if figure.key == _SYNC:
                    table = figure.value
                    if table[0][0] > 1.0:
                        # A node alone waits for nobody.
                        table = ((1.0, 0.0), *table)
                    sizes, times = zip(*table, strict=True)
                    values |= {"sync_group_sizes": sizes, "sync_latency_s": times}
                else:
                    values["accepted_low"], values["accepted_high"] = figure.value[0]
            elif figure.key.startswith(_PEAK):
                peaks.append((figure.key.removeprefix(_PEAK), figure.value))
            else:
                values[KEYS[figure.key].attribute] = figure.value
        names, matrix = profile.joint_covariance()
        return cls(
            name=profile.name,
            title=profile.title,
            node=profile.node,
            execution=profile.execution,
            peaks_flops=tuple(peaks),
            figures=figures,
            covariance_names=names,
            log_covariance=matrix,
            speculation=profile.speculation_law(),
            usual_software=profile.usual_software,
            software=tuple(
                SoftwareFactor(name, speed.factor, speed.log_sd)
                for name, speed in (profile.software or {}).items()
            ),
            origin=origin,
            **values,
        )

    @property
    def spatial(self) -> bool:
        """Whether all layers are resident at once, each on its own region."""
        return self.execution == "spatial"

    @property
    def usable_bytes(self) -> Number:
        """Bytes of one node that weights, KV cache and activations can have."""
        return self.memory_capacity_bytes * self.usable_fraction

    def peak_flops(self, number_format: str) -> float:
        """Dense peak of one node in FLOP/s for a number format.

        A format without a peak of its own runs at the 16-bit peak (its numbers are widened
        first), and where there is none at the next wider one.
        """
        peaks = dict(self.peaks_flops)
        lowered = number_format.lower()
        for candidate in (_SAME_UNITS.get(lowered, lowered), *_WIDER):
            if candidate in peaks:
                return peaks[candidate]
        return min(peaks.values())

    def constants(self) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
        """Uncertain figures: names (k), central values (k,), covariance of their logarithms (k, k).

        The order is that of KEYS.

        Raises:
            ValueError: a constant was replaced by an array.
        """
        log_sd = {f.key: f.log_sd for f in self.figures if f.log_sd > 0.0}
        joint = dict(zip(self.covariance_names, range(len(self.covariance_names)), strict=True))
        names = tuple(key for key in KEYS if key in log_sd or key in joint)
        values = [getattr(self, KEYS[name].attribute) for name in names]
        if any(np.ndim(value) for value in values):
            raise ValueError("a constant was replaced by an array")
        central = np.array(values, dtype=float)
        covariance = np.diag([log_sd.get(name, 0.0) ** 2 for name in names])
        rows = [names.index(name) for name in joint]
        if rows:
            covariance[rows, :] = 0.0
            covariance[:, rows] = 0.0
            covariance[np.ix_(rows, rows)] = np.asarray(self.log_covariance)
        return names, central, covariance

    def with_constants(self, values: Mapping[str, Number]) -> Hardware:
        """A copy with some figures replaced, by numbers or by arrays that broadcast together.

        Ratios above 1 are cut to 1: draws of an efficiency may stray there, the thing cannot.

        Raises:
            UnknownNameError: a key that is not one of KEYS.
        """
        changes: dict[str, Any] = {}
        for name, value in values.items():
            key = _known(name)
            if key.maximum == 1.0:
                value = np.minimum(value, 1.0)
            changes[key.attribute] = value
        return dataclasses.replace(self, **changes)

    def with_value(self, name: str, text: str | float) -> Hardware:
        """A copy with one figure set by hand: exact from then on, source "set by hand".

        Args:
            name: a key such as `memory.usable_fraction`, `constants.fixed_time_per_layer`,
                `compute.peak.fp8`, or `scale_up.sync_latency` (one time for all groups).
            text: a quantity with its unit.

        Raises:
            UnknownNameError: no such key.
            UnitError: not a quantity of that kind, or out of bounds.
            InputError: the hardware has no such figure (the clock of a GPU).
        """
        plain = _plain(name)
        peak = plain.removeprefix(_PEAK)
        changes: dict[str, Any] = {}
        value: float | tuple[tuple[float, float], ...]
        if plain == _SYNC:
            key = TABLES[_SYNC]
        elif plain.startswith(_PEAK) and peak in NUMBER_FORMATS:
            key = TABLES["compute.peak"]
        else:
            key = _known(name)
        try:
            number = key.read(text)
        except UnitError as error:
            raise UnitError(f"{plain}: found {text!r}, {error}") from None
        value = number
        if plain == _SYNC:
            value = ((1.0, 0.0), (2.0, number))
            changes = {
                "sync_group_sizes": (1.0, 2.0),
                "sync_latency_s": (0.0, number),
            }
        elif plain.startswith(_PEAK):
            peaks = dict(self.peaks_flops) | {peak: number}
            changes = {"peaks_flops": tuple(peaks.items())}
        else:
            changes = {key.attribute: number}
        foreign = _TEMPORAL_ONLY if self.spatial else _SPATIAL_ONLY
        if plain.startswith(foreign):
            raise InputError(f"{plain}: {self.name} is {self.execution} and has no such figure")
        figure = Figure(plain, value, key.dimension, "set by hand")
        before = [f.key for f in self.figures]
        at = before.index(plain) if plain in before else len(before)
        figures = (*self.figures[:at], figure, *self.figures[at + 1 :])
        keep = [i for i, n in enumerate(self.covariance_names) if n != plain]
        return dataclasses.replace(
            self,
            figures=figures,
            covariance_names=tuple(self.covariance_names[i] for i in keep),
            log_covariance=tuple(tuple(self.log_covariance[i][j] for j in keep) for i in keep),
            **changes,
        )

    @property
    def provenance(self) -> tuple[Figure, ...]:
        """Every figure with its source; its `log_sd` that of the joint covariance, if fitted."""
        names, _, covariance = self.constants() if self.covariance_names else ((), None, None)
        if covariance is None:
            return self.figures
        joint = dict(zip(names, np.sqrt(np.diag(covariance)), strict=True))
        return tuple(
            dataclasses.replace(f, log_sd=float(joint.get(f.key, f.log_sd))) for f in self.figures
        )

    @property
    def covariance(self) -> Covariance | None:
        """joint covariance of logarithms, if fitted"""
        return (
            Covariance(self.covariance_names, self.log_covariance)
            if self.covariance_names
            else None
        )


def profile_folder() -> Path:
    """The folder of the shipped profiles: inside a wheel, or beside the package in a checkout."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_hardware"
    return shipped if shipped.is_dir() else package.parent / "hardware"


def _plain(name: str) -> str:
    return name.removeprefix("constants.")


def _known(name: str) -> Key:
    plain = _plain(name)
    if plain not in KEYS:
        known: Sequence[str] = [*KEYS, _SYNC, *(_PEAK + f for f in NUMBER_FORMATS)]
        raise UnknownNameError("figure", plain, known, "archinfer schema hardware")
    return KEYS[plain]
