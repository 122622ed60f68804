"""This machine as a hardware profile: what the system says of it, and its YAML."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archinfer.calibration.fit import CONSTANTS, SMALL
from archinfer.calibration.threads import blas_threads, cores, shared_from
from archinfer.files import Document
from archinfer.hardware.figures import KEYS
from archinfer.hardware.profile import Hardware
from archinfer.hardware.reading import profile_of
from archinfer.hardware.text import quantity, rounded, yaml_text
from archinfer.models.shape import FloatArray
from archinfer.record import Record

USABLE = 0.9


@dataclass(frozen=True, slots=True, repr=False)
class Ceilings(Record):
    """What the machine's memory and arithmetic reach at best."""

    read_bytes_per_s: float
    """memory bandwidth, of the fastest kernel"""
    matmul_flops_per_s: float
    """of a square matrix product"""


@dataclass(frozen=True, slots=True, repr=False)
class Host(Record):
    """The machine that was measured."""

    KEYS = ("cpu", "cores", "memory_bytes", "date")

    cpu: str
    """name of the processor"""
    cores: int
    """that this process may use"""
    threads: int
    """that matrix products use, and the readers of the ceilings"""
    memory_bytes: float
    """main memory"""
    date: str
    """day of the measurement, ISO"""
    command: str
    """that measured"""
    ceilings: Ceilings

    @property
    def on_threads(self) -> str:
        """Number of threads, in words."""
        return f"{self.threads} thread{'s' if self.threads > 1 else ''}"

    @classmethod
    def here(cls, command: str, read_bytes_per_s: float, matmul_flops_per_s: float) -> Host:
        """The machine that this runs on."""
        return cls(
            cpu_name(),
            cores(),
            blas_threads(),
            memory_bytes(),
            datetime.date.today().isoformat(),
            command,
            Ceilings(read_bytes_per_s, matmul_flops_per_s),
        )


def cpu_name() -> str:
    """Name of the processor as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name" and value.strip():
                    return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine() or "processor of unknown name"


def memory_bytes() -> float:
    """Main memory in bytes; a limit of the control group where that is smaller."""
    total = 8e9
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            total = min(total, float(file.read()))
    except (OSError, ValueError):
        pass
    return total


def profile_data(
    host: Host,
    constants: Mapping[str, tuple[float, float]] | None = None,
    model_error: float = 0.3,
    log_covariance: FloatArray | None = None,
    fit: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The machine as a hardware profile, ready for YAML.

    Args:
        host: machine and ceilings.
        constants: fitted constants by key: value in SI units and log-standard deviation; None:
            before any fit.
        model_error: spread of log(time) that the constants do not explain.
        log_covariance: of the constants' logarithms, in their order.
        fit: the section of this name.
    """
    measured = f"measured on {host.date}, {host.cores} cores of {host.cpu} ({host.command})"
    memory = {
        "capacity": _figure(host.memory_bytes, "bytes", f"as the system reports it, {host.date}"),
        "usable_fraction": _figure(USABLE, source="estimate, the operating system keeps the rest"),
        "bandwidth": _figure(host.ceilings.read_bytes_per_s, "bytes_per_s", measured)
        | {"note": f"Best of several kernels that read a buffer once, on {host.on_threads}."},
        "read_fraction": _figure(1.0, source="the bandwidth was measured by reading"),
    }
    peak = _figure(host.ceilings.matmul_flops_per_s, "flops_per_s", measured)
    data: dict[str, Any] = {
        "schema_version": 1,
        "name": "host",
        "title": f"{host.cpu}, {host.cores} cores: a float32 forward pass in NumPy, "
        f"{host.on_threads}",
        "usual_software": "archinfer's own decoder in NumPy, float32",
        "node": "machine",
        "execution": "temporal",
        "memory": memory,
        "compute": {"peak": {"fp32": peak | {"note": "Square float32 matrix product."}}},
        "constants": _constants(host, constants or {}, model_error, measured),
    }
    if log_covariance is not None:
        data["covariance"] = {
            "names": list(constants or ()),
            "log_covariance": [[rounded(v, 10) for v in row] for row in log_covariance],
            "source": f"{measured}; linearised fit",
        }
    if fit is not None:
        data["fit"] = dict(fit)
    return data


def _constants(
    host: Host, fitted: Mapping[str, tuple[float, float]], model_error: float, measured: str
) -> dict[str, Any]:
    """The section `constants`: what was fitted, and what the decoder's own code says."""
    section: dict[str, Any] = {
        "reductions_per_layer": _figure(0, source="one machine has nobody to wait for")
    }
    if host.threads > 1:
        section["small_matrix_params"] = _figure(
            shared_from(), source="archinfer/calibration/threads.py: one core has smaller ones"
        )
    for key, (estimate, _) in CONSTANTS.items():
        if key == SMALL and host.threads == 1:
            continue
        dimension = "seconds" if key.startswith("fixed_time") else "number"
        if key not in fitted:
            section[key] = _figure(estimate, dimension, "estimate, before any fit")
            continue
        value, log_sd = fitted[key]
        spread = {"log_sd": rounded(log_sd, 4)}
        section[key] = {"value": quantity(value, dimension, 6)} | spread | {"source": measured}
    return section | {
        "model_error": _figure(
            rounded(min(model_error, KEYS["model_error"].most), 4),
            source=f"{measured}; spread of timings about the fit, held-out shapes included"
            if fitted
            else "estimate, before any fit",
        ),
        "accepted_tokens_per_pass": {
            "low": 1,
            "high": 1,
            "source": "archinfer/moe decodes without speculation",
        },
    }


def _figure(value: float, dimension: str = "number", source: str = "") -> dict[str, Any]:
    return {"value": quantity(value, dimension, 6), "source": source}


def profile_hardware(data: Mapping[str, Any]) -> Hardware:
    """The profile checked and read as a file of it would be."""
    return Hardware.from_profile(profile_of(Document("host", dict(data), {})))


def profile_text(data: Mapping[str, Any]) -> str:
    """A profile as YAML."""
    return yaml_text(
        "# This machine as `archinfer calibrate` measured it. Every figure: value with unit,\n"
        "# source; log_sd is the standard deviation of its natural logarithm.\n",
        data,
    )
