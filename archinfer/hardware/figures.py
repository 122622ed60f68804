"""The figures of a hardware profile: ONE table, each figure stated once.

The annotation of a field of `Node` holds its key in the file, its dimension, its bounds and where
it has a meaning; the docstring says what it is. From this table come the validation of profiles
and their JSON Schema (`hardware.schema`), `--set`, provenance and what `hardware show` prints.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_type_hints

from archinfer import units
from archinfer.arrays import Number
from archinfer.errors import UnitError, UnknownNameError, foreign_digit
from archinfer.record import Record, keyed

USUAL_SOFTWARE = "usual"
"""Name of the software whose speeds the constants of a profile describe."""

SOFTWARE_TIMES = ("fixed_time_per_layer", "fixed_time_per_token", "fixed_time_per_sequence")
"""Constants that go with the software: what it takes beside bytes, arithmetic and networks."""

ROUTED_KERNELS = "routed_kernels"
"""The constant that goes with how a software finds the experts of a token."""


@keyed
class SoftwareFactor(NamedTuple):
    """What one software spends beside bytes and arithmetic, against the usual one."""

    name: str
    factor: float
    """its fixed times of a layer, a token and a sequence over those of the usual software"""
    log_sd: float
    """standard deviation of its natural logarithm"""
    routed_kernels: float = 1.0
    """kernels that its routed experts add to a layer over those of the usual software"""


NumberFormat = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]
"""Number formats that may have a peak of their own."""
NUMBER_FORMATS: Final[tuple[str, ...]] = get_args(NumberFormat)

SYNC: Final = "scale_up.sync_latency"
PEAK: Final = "compute.peak."


@dataclass(frozen=True, slots=True)
class Key:
    """A figure of a profile."""

    name: str
    """its key in the file; those without a dot stand under `constants:`, except `power`"""
    dimension: str
    """a key of `units.DIMENSIONS`"""
    least: float = 0.0
    """smallest value; itself allowed only where `closed`"""
    closed: bool = False
    most: float = math.inf
    """largest value, itself allowed"""
    whole: bool = False
    uncertain: bool = False
    """may carry a log-standard deviation; only constants that scale a term of the time of a token
    do, because the spread of a speed comes from those"""
    optional: bool = False
    """may be left out of its section"""
    only: Literal["spatial", "temporal"] | None = None
    """the kind of hardware that has it; None: both"""
    attribute: str = ""
    """its name on `Hardware`"""

    def read(self, text: str | float) -> float:
        """The value in SI units.

        Raises:
            UnitError: not such a quantity, or out of bounds.
        """
        try:
            value = units.parse(text, self.dimension)
        except UnitError as error:
            wanted = units.expected(self.dimension, error)
            raise UnitError(f"{wanted}{foreign_digit(text)}") from None
        if value < self.least or (value == self.least and not self.closed):
            bound = units.format_quantity(self.least, self.dimension)
            raise UnitError(f"expected {'at least' if self.closed else 'more than'} {bound}")
        if value > self.most:
            bound = units.format_quantity(self.most, self.dimension)
            raise UnitError(f"expected at most {bound}")
        if self.whole and not value.is_integer():
            raise UnitError("expected a whole number")
        units.check_plausible(value, self.dimension)
        return value


_FITTED: Final[dict[str, Any]] = {"uncertain": True, "optional": True, "only": "temporal"}
_SHARE: Final = _FITTED | {"dimension": "ratio", "most": 1.0}
_TIME: Final = _FITTED | {"dimension": "seconds", "closed": True}
_COUNT: Final = _FITTED | {"dimension": "number", "closed": True}


@dataclass(frozen=True, kw_only=True)
class Node(Record):
    """The scalar figures of one node, in SI units; NaN: no source gives it, or it has none."""

    memory_capacity_bytes: Annotated[Number, Key("memory.capacity", "bytes")]
    """capacity of one node, all of it"""
    usable_fraction: Annotated[Number, Key("memory.usable_fraction", "ratio", most=1.0)]
    """the part that weights, KV cache and activations can have"""
    reserve_bytes: Annotated[Number, Key("memory.reserve", "bytes", closed=True, optional=True)] = (
        0.0
    )
    """of that part what runtime, communication and scratch take on every node; known within a
    factor (`archinfer.physics.memory.RESERVE_LOG_SD`)"""
    bandwidth_bytes_per_s: Annotated[Number, Key("memory.bandwidth", "bytes_per_s")]
    """peak memory bandwidth of one node, as the data sheet counts it"""
    read_fraction: Annotated[Number, Key("memory.read_fraction", "ratio", most=1.0)]
    """the part of that bandwidth that reads alone can reach"""
    cores: Annotated[
        Number, Key("compute.cores", "number", 1.0, True, whole=True, optional=True, only="spatial")
    ] = math.nan
    clock_hz: Annotated[
        Number, Key("compute.clock", "hertz", uncertain=True, optional=True, only="spatial")
    ] = math.nan
    hop_cycles: Annotated[Number, Key("fabric.hop_cycles", "cycles", only="spatial")] = math.nan
    """an all-reduce over a region of side s takes hop_cycles * s + step_cycles * sqrt(s) cycles"""
    step_cycles: Annotated[
        Number, Key("fabric.step_cycles", "cycles", closed=True, only="spatial")
    ] = math.nan
    link_bandwidth_bytes_per_s: Annotated[Number, Key("link.bandwidth", "bytes_per_s")] = math.inf
    """node to node, one way; for temporal hardware from one scale-up domain to the next"""
    link_latency_s: Annotated[
        Number, Key("link.latency", "seconds", closed=True, uncertain=True)
    ] = 0.0
    scale_up_size: Annotated[
        float, Key("scale_up.size", "number", 1.0, True, whole=True, only="temporal")
    ] = 1.0
    """nodes that share one fast network (1: none)"""
    scale_up_bandwidth_bytes_per_s: Annotated[
        Number, Key("scale_up.bandwidth", "bytes_per_s", optional=True, only="temporal")
    ] = math.nan
    """of one node into that network, one direction"""
    power_w: Annotated[float, Key("power", "watts", optional=True)] = math.nan
    """of one node with its share of the system"""
    price_dollars: Annotated[float, Key("price.purchase", "dollars", optional=True)] = math.nan
    price_dollars_per_hour: Annotated[
        float, Key("price.rent", "dollars_per_hour", optional=True)
    ] = math.nan
    life_years: Annotated[float, Key("price.life", "years", optional=True)] = 4.0
    """over which a purchase is paid for"""
    dollars_per_kwh: Annotated[
        float, Key("price.electricity", "dollars_per_kwh", closed=True, optional=True)
    ] = 0.10
    """what the power of a node that was bought costs; rent includes it"""
    idle_power_w: Annotated[float, Key("energy.idle", "watts", closed=True)] = math.nan
    """of one node that holds a model and does nothing, without its share of the system; NaN: power
    at load is not known"""
    joules_per_byte: Annotated[float, Key("energy.byte", "joules_per_byte", closed=True)] = math.nan
    """energy of reading a byte from memory and using it, above idle"""
    joules_per_flop: Annotated[float, Key("energy.flop", "joules_per_flop", closed=True)] = math.nan
    """energy of a FLOP in 16 bits, above idle; in other formats by their peaks"""
    reductions_per_layer: Annotated[
        Number, Key("reductions_per_layer", "number", closed=True, uncertain=True, optional=True)
    ] = 2.0
    """dependent all-reduces of one dense layer; may be left out of a machine that stands alone"""
    cycles_per_weight: Annotated[
        Number, Key("cycles_per_weight", **_COUNT | {"dimension": "cycles", "only": "spatial"})
    ] = math.nan
    """cycles that a core spends on one 16-bit weight"""
    fixed_time_per_layer_s: Annotated[
        Number, Key("fixed_time_per_layer", "seconds", closed=True, uncertain=True)
    ]
    """time of a layer that depends on no size"""
    fixed_time_per_token_s: Annotated[
        Number, Key("fixed_time_per_token", "seconds", closed=True, uncertain=True, optional=True)
    ] = 0.0
    """time of a token that depends on no size"""
    bandwidth_efficiency: Annotated[
        Number, Key("bandwidth_efficiency", "ratio", most=1.0, uncertain=True)
    ]
    """part of the peak bandwidth that is reached"""
    compute_efficiency: Annotated[
        Number, Key("compute_efficiency", "ratio", most=1.0, uncertain=True)
    ]
    """part of the peak arithmetic that is reached"""
    kv_bandwidth_efficiency: Annotated[Number, Key("kv_bandwidth_efficiency", **_SHARE)] = math.nan
    """as bandwidth_efficiency, of keys and values; NaN: as for weights"""
    fixed_time_per_expert_s: Annotated[Number, Key("fixed_time_per_expert", **_TIME)] = 0.0
    """of each distinct expert that a layer runs, whatever its size"""
    compute_overlap: Annotated[Number, Key("compute_overlap", **_SHARE | {"closed": True})] = 1.0
    """part of the memory time that hides arithmetic: 1 where the two run side by side"""
    small_matrix_speed: Annotated[Number, Key("small_matrix_speed", **_SHARE)] = 1.0
    """speed of a matrix that is too small to be shared by cores, over that of a large one"""
    small_matrix_params: Annotated[
        Number, Key("small_matrix_params", "number", closed=True, optional=True, only="temporal")
    ] = 0.0
    """parameters below which a matrix is that small"""
    routed_layer_factor: Annotated[Number, Key("routed_layer_factor", least=1.0, **_COUNT)] = 1.0
    """fixed time of a layer with routed experts over that of one without, chains alike: the
    kernels that route, gather and combine"""
    routed_weight_factor: Annotated[
        Number, Key("routed_weight_factor", "number", 1.0, True, uncertain=True, optional=True)
    ] = 1.0
    """time of a routed expert's weight over that of any other: experts do not load all cores
    evenly (spatial), and are many small reads (temporal)"""
    routed_kernels: Annotated[Number, Key("routed_kernels", **_COUNT)] = math.nan
    """kernels that routed experts add to a layer, where a dense one has `DENSE_CHAIN`; NaN: such a
    layer takes `routed_layer_factor` times as long"""
    routed_bandwidth_efficiency: Annotated[Number, Key("routed_bandwidth_efficiency", **_SHARE)] = (
        math.nan
    )
    """as bandwidth_efficiency, of routed experts; NaN: as for other weights"""
    network_efficiency: Annotated[Number, Key("network_efficiency", **_SHARE)] = math.nan
    """part of the scale-up bandwidth that all-reduces in one step reach; NaN: rings at all of it"""
    fixed_time_per_sequence_s: Annotated[Number, Key("fixed_time_per_sequence", **_TIME)] = 0.0
    """of a pass with one sequence, of B sequences sqrt(B) times: sampling, scheduling"""
    prompt_efficiency: Annotated[
        Number, Key("prompt_efficiency", "ratio", most=1.0, uncertain=True, optional=True)
    ] = math.nan
    """part of the peak arithmetic that prompts reach; NaN: compute_efficiency (temporal)"""
    routed_prompt_efficiency: Annotated[Number, Key("routed_prompt_efficiency", **_SHARE)] = (
        math.nan
    )
    """the same in layers with routed experts; NaN: prompt_efficiency"""
    prompt_pass_factor: Annotated[Number, Key("prompt_pass_factor", **_COUNT)] = math.nan
    """fixed time of a pass that reads prompts over that of a decode pass; NaN: not known"""
    first_token_time_s: Annotated[
        Number, Key("first_token_time", "seconds", closed=True, uncertain=True, optional=True)
    ] = 0.0
    """of a request before its prompt is read: the server's own work"""
    model_error_log_sd: Annotated[float, Key("model_error", "number", closed=True, most=3.0)]
    """spread of what the model does not explain, in natural logarithm"""


def _keys() -> dict[str, Key]:
    hints = get_type_hints(Node, include_extras=True)
    found = {name: h.__metadata__[0] for name, h in hints.items() if hasattr(h, "__metadata__")}
    return {key.name: dataclasses.replace(key, attribute=a) for a, key in found.items()}


KEYS: Final[dict[str, Key]] = _keys()
"""Every scalar figure by its key; `constants.` may be written before those without a dot."""

TABLES: Final[dict[str, Key]] = {
    SYNC: Key(SYNC, "seconds", closed=True, only="temporal", attribute="sync_latency_s"),
    PEAK[:-1]: Key(PEAK[:-1], "flops_per_s", attribute="peaks_flops"),
}
"""Figures that are tables: seconds by group size, FLOP/s by number format."""


def key_of(name: str) -> Key:
    """The key of a figure, of one number format where it has several.

    Raises:
        UnknownNameError: no such figure.
    """
    plain = name.removeprefix("constants.")
    if plain.startswith(PEAK) and plain.removeprefix(PEAK) in NUMBER_FORMATS:
        return TABLES[PEAK[:-1]]
    found = KEYS.get(plain) or (TABLES[SYNC] if plain == SYNC else None)
    if found is None:
        known = (*KEYS, SYNC, *(PEAK + f for f in NUMBER_FORMATS))
        raise UnknownNameError("figure", plain, known, "archinfer schema hardware")
    return found


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
        if self.key == SYNC:
            return {f"{size:g}": seconds for size, seconds in self.value}
        return self.value[0]

    @property
    def unit(self) -> str:
        """SI unit of value; empty for plain numbers and ratios"""
        return units.DIMENSIONS[self.dimension].base

    @property
    def estimate(self) -> bool:
        """computed, recalled or guessed rather than read"""
        return self.source.lower().startswith("estimate")

    @property
    def text(self) -> str:
        """the value with its unit, for people"""
        if isinstance(self.value, tuple):
            if self.key == SYNC:
                show = units.format_quantity
                return ", ".join(f"{n:g}: {show(t, self.dimension)}" for n, t in self.value)
            return ":".join(f"{v:g}" for v in self.value[0])
        if self.dimension == "number":
            return f"{self.value:.10g}"
        return units.format_quantity(self.value, self.dimension, digits=6)
