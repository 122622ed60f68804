"""A hardware profile: every figure of a machine in SI units, with its source and uncertainty.

Profiles are YAML files (`hardware/*.yaml`, shipped with the package). `Hardware.load` validates
one and returns a flat frozen dataclass; no file format reaches the code that computes with it.
The figures are those of `hardware.figures`; `hardware.schema` validates, and is imported only to
read a file.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from archinfer.arrays import FloatArray, Number
from archinfer.errors import InputError, UnitError, UnknownNameError
from archinfer.hardware.figures import (
    KEYS,
    PEAK,
    ROUTED_KERNELS,
    SOFTWARE_TIMES,
    SYNC,
    USUAL_SOFTWARE,
    Figure,
    Node,
    SoftwareFactor,
    key_of,
)
from archinfer.hardware.speculation_law import SpeculationLaw
from archinfer.record import Record

if TYPE_CHECKING:
    from archinfer.hardware.schema import Profile

_SAME_UNITS: Final = {"mxfp8": "fp8", "mxfp4": "fp4", "nvfp4": "fp4"}
_WIDER: Final = ("bf16", "fp16", "tf32", "fp32", "fp64")


@dataclass(frozen=True, slots=True)
class Covariance(Record):
    """Joint covariance of the natural logarithms of constants, in the order of `names`."""

    names: tuple[str, ...]
    log_covariance: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Hardware(Node):
    """One node of a machine, in SI units; the figures of `Node` beside what is here.

    Fields typed `Number` may be replaced by arrays (`with_constants`), so that a cost model
    broadcasts over draws of the uncertain constants.
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
    """spatial: all layers resident at once, each on its own region; temporal: layers one after
    another on all nodes of a scale-up group"""
    peaks_flops: tuple[tuple[str, float], ...]
    """dense peak of one node in FLOP/s, by number format; see `peak_flops`"""
    accepted_low: float
    accepted_high: float
    """usual accepted tokens per pass with speculation; `accepted_low`: without"""
    sync_group_sizes: tuple[float, ...] = (1.0,)
    sync_latency_s: tuple[float, ...] = (0.0,)
    """time of one small all-reduce by group size; its uncertainty is that of
    `reductions_per_layer`, which multiplies it"""
    figures: tuple[Figure, ...] = ()
    """every figure with its source, as the profile states it"""
    covariance_names: tuple[str, ...] = ()
    log_covariance: tuple[tuple[float, ...], ...] = ()
    """joint covariance of the logarithms of those constants, in place of their own `log_sd`"""
    speculation: SpeculationLaw | None = None
    """how its services decode speculatively, where that was fitted"""
    usual_software: str | None = None
    """the software whose speeds the constants describe; null: not said"""
    note: str | None = None
    software: tuple[SoftwareFactor, ...] = ()
    """other software, slower or faster in its fixed times, where fitted"""
    origin: str = dataclasses.field(default="", compare=False)
    """the file it was read from"""

    @property
    def alone(self) -> bool:
        """Whether it is one machine without links: no model is spread over several."""
        return bool(np.all(np.isinf(self.link_bandwidth_bytes_per_s)))

    @property
    def speculates(self) -> bool:
        """Whether its software may decode speculatively: not where one machine was measured with a
        decoder that does not."""
        return not (self.alone and self.accepted_high == 1.0)

    @property
    def decoder_formats(self) -> tuple[str, ...]:
        """Formats of weights and cache of the decoder that a machine was measured with; () for
        any other machine."""
        return () if self.speculates else tuple(name for name, _ in self.peaks_flops)

    @property
    def narrow_formats(self) -> tuple[str, ...]:
        """Weight formats of 8 and 4 bits: floats where there is a peak for them or the cores are
        programmed, else integers, which are widened; none where all products are in 32 bits."""
        peaks = {name for name, _ in self.peaks_flops}
        if not peaks - {"fp64", "fp32", "tf32"}:
            return ()
        if self.spatial:
            return "fp8", "nvfp4"
        return "fp8" if "fp8" in peaks else "int8", "nvfp4" if "fp4" in peaks else "int4"

    def softwares(self, name: str | None) -> tuple[SoftwareFactor, ...]:
        """Software that comes into question, slowest first: the one called `name`, else every one.

        Raises:
            UnknownNameError: none of this machine has that name.
        """
        every = (SoftwareFactor(USUAL_SOFTWARE, 1.0, 0.0), *self.software)
        found = tuple(s for s in every if name in (None, s.name))
        if not found:
            raise UnknownNameError("software", str(name), [s.name for s in every])
        return tuple(sorted(found, key=lambda s: -s.factor))

    def check_nodes(self, nodes: int) -> None:
        """Refuse more nodes than the machine can have."""
        if nodes > 1 and self.alone:
            raise InputError(
                f"nodes: found {nodes}, expected 1: profile {self.name!r} has no links, so a model "
                "runs on one machine"
            )

    @staticmethod
    def names() -> list[str]:
        """Names of the shipped profiles, sorted."""
        return sorted(path.stem for path in profile_folder().glob("*.yaml"))

    def __repr__(self) -> str:
        """The name, one short line."""
        return f"Hardware({self.name!r}, {self.execution})"

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
        text, shipped = os.fspath(name_or_path), cls.names()
        if text in shipped:
            return _read_once(profile_folder() / f"{text}.yaml")
        parts = any(s and s in text for s in (os.sep, os.altsep))
        if parts or text.endswith((".yaml", ".yml")) or (text and os.path.exists(text)):
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
        from archinfer.hardware.reading import read_profile

        return cls.from_profile(read_profile(path), origin=os.fspath(path))

    @classmethod
    def from_profile(cls, profile: Profile, origin: str = "") -> Hardware:
        """The flat form of a validated profile."""
        figures = tuple(profile.figures())
        values: dict[str, Any] = {}
        peaks: list[tuple[str, float]] = []
        for figure in figures:
            if isinstance(figure.value, tuple):
                if figure.key == SYNC:
                    table = figure.value
                    if table[0][0] > 1.0:
                        # A node alone waits for nobody.
                        table = ((1.0, 0.0), *table)
                    sizes, times = zip(*table, strict=True)
                    values |= {"sync_group_sizes": sizes, "sync_latency_s": times}
                else:
                    values["accepted_low"], values["accepted_high"] = figure.value[0]
            elif figure.key.startswith(PEAK):
                peaks.append((figure.key.removeprefix(PEAK), figure.value))
            else:
                values[KEYS[figure.key].attribute] = figure.value
        names, matrix = profile.joint_covariance()
        same = ("name", "title", "node", "execution", "usual_software", "note")
        return cls(
            **{name: getattr(profile, name) for name in same},
            peaks_flops=tuple(peaks),
            figures=figures,
            covariance_names=names,
            log_covariance=matrix,
            speculation=profile.speculation_law(),
            software=tuple(
                SoftwareFactor(name, o.fixed_time_factor, o.log_sd, o.routed_kernels_factor)
                for name, o in (profile.software or {}).items()
            ),
            origin=origin,
            **values,
        )

    @property
    def spatial(self) -> bool:
        """Whether all layers are resident at once, each on its own region."""
        return self.execution == "spatial"

    @property
    def basis(self) -> Literal["measured", "fitted", "estimated"]:
        """where the uncertain constants come from: the best of their sources"""
        sources = [
            f.source for f in self.figures if f.log_sd > 0.0 or f.key in self.covariance_names
        ]
        if any(source.startswith("measured") for source in sources):
            return "measured"
        fitted = any(source.startswith("fit to") for source in sources)
        return "fitted" if fitted else "estimated"

    @property
    def usable_bytes(self) -> Number:
        """Bytes of one node that weights, KV cache and activations can have."""
        room = self.memory_capacity_bytes * self.usable_fraction - self.reserve_bytes
        # Where the reserve takes all of it next to nothing is left, so that nothing fits.
        return np.maximum(room, 1.0) if np.ndim(room) else max(room, 1.0)

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
        return self._constants

    @cached_property
    def _constants(self) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
        log_sd = {f.key: f.log_sd for f in self.figures if f.log_sd > 0.0}
        names = tuple(k for k in KEYS if k in log_sd or k in self.covariance_names)
        values = [getattr(self, KEYS[name].attribute) for name in names]
        if any(np.ndim(value) for value in values):
            raise ValueError("a constant was replaced by an array")
        covariance = np.diag([log_sd.get(name, 0.0) ** 2 for name in names])
        if rows := [names.index(name) for name in self.covariance_names]:
            covariance[rows, :] = covariance[:, rows] = 0.0
            covariance[np.ix_(rows, rows)] = np.asarray(self.log_covariance)
        return names, np.array(values, dtype=float), covariance

    def with_constants(self, values: Mapping[str, Number]) -> Hardware:
        """A copy with some figures replaced, by numbers or by arrays that broadcast together.

        Ratios above 1 are cut to 1: draws of an efficiency may stray there, the thing cannot.

        Raises:
            UnknownNameError: a key that is not one of KEYS.
        """
        changes: dict[str, Any] = {}
        for name, value in values.items():
            key = key_of(name)
            if key.most == 1.0:
                value = np.minimum(value, 1.0)
            changes[key.attribute] = value
        return dataclasses.replace(self, **changes)

    def with_software(self, name: str) -> Hardware:
        """The machine with other software: its fixed times take as much longer or shorter.

        Bytes and arithmetic stay as they are, so no software is faster than the bandwidth. `name`:
        `USUAL_SOFTWARE`, or one that `software` lists.

        Raises:
            UnknownNameError: the profile lists no such software.
        """
        other = self.softwares(name)[0]
        return self.with_fixed_times(other.factor, other.routed_kernels)

    def with_fixed_times(self, factor: Number, routed_kernels: Number = 1.0) -> Hardware:
        """A copy: `SOFTWARE_TIMES` and kernels of routed experts take these factors."""
        times = {n: getattr(self, KEYS[n].attribute) * factor for n in SOFTWARE_TIMES}
        if np.any(np.asarray(routed_kernels) != 1.0):
            times[ROUTED_KERNELS] = self.routed_kernels * np.asarray(routed_kernels)
        return self.with_constants(times)

    def routed_kernels_with(self, software: str | None) -> float:
        """`SoftwareFactor.routed_kernels` of a software; 1 where the profile does not list it."""
        return next((s.routed_kernels for s in self.software if s.name == software), 1.0)

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
        plain = name.removeprefix("constants.")
        key = key_of(plain)
        try:
            number = key.read(text)
        except UnitError as error:
            raise UnitError(f"{plain}: found {text!r}, {error}") from None
        value: float | tuple[tuple[float, float], ...] = number
        changes: dict[str, Any] = {key.attribute: number}
        if plain == SYNC:
            value = ((1.0, 0.0), (2.0, number))
            changes = {"sync_group_sizes": (1.0, 2.0), "sync_latency_s": (0.0, number)}
        elif plain.startswith(PEAK):
            peaks = dict(self.peaks_flops) | {plain.removeprefix(PEAK): number}
            changes = {"peaks_flops": tuple(peaks.items())}
        if key.only not in (None, self.execution):
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
        if not self.covariance_names:
            return self.figures
        names, _, covariance = self.constants()
        joint = dict(zip(names, np.sqrt(np.diag(covariance)), strict=True))
        return tuple(
            dataclasses.replace(f, log_sd=float(joint.get(f.key, f.log_sd))) for f in self.figures
        )

    @property
    def covariance(self) -> Covariance | None:
        """joint covariance of logarithms, if fitted"""
        return Covariance(n, self.log_covariance) if (n := self.covariance_names) else None


_read_once = cache(Hardware.read)


def profile_folder() -> Path:
    """The folder of the shipped profiles: inside a wheel, or beside the package in a checkout."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_hardware"
    return shipped if shipped.is_dir() else package.parent / "hardware"
