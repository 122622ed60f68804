"""This machine as a hardware profile: what the system says of it, and its YAML."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archinfer.calibration.threads import cores
from archinfer.units import format_quantity

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware

__all__ = ["Host", "cpu_name", "memory_bytes", "profile_data", "profile_hardware", "profile_text"]

USABLE = 0.9


@dataclass(frozen=True, slots=True)
class Host:
    """A machine and its ceilings.

    Attributes:
        cpu: name of the processor.
        cores: that this process may use.
        threads: that matrix products of the timed shapes use.
        memory_bytes: main memory.
        date: day of the measurement, ISO.
        command: that measured.
        read_bytes_per_s, matmul_flops_per_s: ceilings.
    """

    cpu: str
    cores: int
    threads: int
    memory_bytes: float
    date: str
    command: str
    read_bytes_per_s: float
    matmul_flops_per_s: float

    @classmethod
    def here(
        cls, command: str, threads: int, read_bytes_per_s: float, matmul_flops_per_s: float
    ) -> Host:
        """The machine that this runs on."""
        return cls(
            cpu_name(),
            cores(),
            threads,
            memory_bytes(),
            datetime.date.today().isoformat(),
            command,
            read_bytes_per_s,
            matmul_flops_per_s,
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
    covariance: tuple[tuple[str, ...], list[list[float]]] | None = None,
    fit: Mapping[str, Any] | None = None,
    calibration: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The machine as a hardware profile, ready for YAML.

    Args:
        host: machine and ceilings.
        constants: fitted constants by key: value in SI units and log-standard deviation; None:
            before any fit.
        model_error: spread of log(time) that the constants do not explain.
        covariance: names and joint covariance of the constants' logarithms.
        fit, calibration: the sections of these names.
    """
    measured = f"measured on {host.date}, {host.cores} cores of {host.cpu} ({host.command})"
    unused = "estimate, one machine has no links: never used"
    found = dict(constants or {})

    def constant(key: str, unfitted: float) -> dict[str, Any]:
        value, log_sd = found.get(key, (unfitted, 0.0))
        dimension = "seconds" if key.startswith("fixed_time") else "ratio"
        entry: dict[str, Any] = {"value": format_quantity(value, dimension, digits=6)}
        if log_sd > 0.0:
            entry["log_sd"] = float(f"{log_sd:.4g}")
        entry["source"] = measured if key in found else "estimate, before any fit"
        return entry

    data: dict[str, Any] = {
        "schema_version": 1,
        "name": "host",
        "title": f"{host.cpu}, {host.cores} cores: a float32 forward pass in NumPy, "
        f"{host.threads} thread{'s' if host.threads > 1 else ''}",
        "usual_software": "archinfer's own decoder in NumPy, float32",
        "node": "machine",
        "execution": "temporal",
        "memory": {
            "capacity": {
                "value": f"{host.memory_bytes / 1e9:.6g} GB",
                "source": f"as the system reports it, {host.date}",
            },
            "usable_fraction": {
                "value": USABLE,
                "source": "estimate, the operating system keeps the rest",
            },
            "bandwidth": {
                "value": f"{host.read_bytes_per_s / 1e9:.6g} GB/s",
                "source": measured,
                "note": "Best of several kernels that read a buffer once, on all cores.",
            },
            "read_fraction": {"value": 1.0, "source": "the bandwidth was measured by reading"},
        },
        "compute": {
            "peak": {
                "fp32": {
                    "value": f"{host.matmul_flops_per_s / 1e9:.6g} GFLOP/s",
                    "source": measured,
                    "note": "Square float32 matrix product.",
                }
            }
        },
        "link": {
            "bandwidth": {"value": "1 GB/s", "source": unused},
            "latency": {"value": "50 us", "source": unused},
        },
        "constants": {
            "reductions_per_layer": {
                "value": 0,
                "source": "one machine has nobody to wait for",
            },
            "fixed_time_per_layer": constant("fixed_time_per_layer", 60e-6),
            "bandwidth_efficiency": constant("bandwidth_efficiency", 0.7),
            "compute_efficiency": constant("compute_efficiency", 0.3),
            "kv_bandwidth_efficiency": constant("kv_bandwidth_efficiency", 0.4),
            "fixed_time_per_expert": constant("fixed_time_per_expert", 15e-6),
            "fixed_time_per_token": constant("fixed_time_per_token", 50e-6),
            "compute_overlap": {
                "value": 0,
                "source": "archinfer/moe: a block of weights is read, then used again from cache "
                "for each further token",
            },
            "model_error": {
                "value": float(f"{model_error:.4g}"),
                "source": f"{measured}; spread of timings about the fit, held-out shapes included"
                if constants
                else "estimate, before any fit",
            },
            "accepted_tokens_per_pass": {
                "low": 1,
                "high": 1,
                "source": "archinfer/moe decodes without speculation",
            },
        },
    }
    if covariance is not None:
        names, rows = covariance
        data["covariance"] = {
            "names": list(names),
            "log_covariance": [[float(f"{v:.10g}") for v in row] for row in rows],
            "source": f"{measured}; linearised fit",
        }
    if fit is not None:
        data["fit"] = dict(fit)
    if calibration is not None:
        data["calibration"] = dict(calibration)
    return data


def profile_hardware(data: Mapping[str, Any]) -> Hardware:
    """The profile checked and read as a file of it would be."""
    from archinfer.hardware.profile import Hardware
    from archinfer.hardware.schema import profile_of
    from archinfer.yamlfile import Document

    return Hardware.from_profile(profile_of(Document("host", dict(data), {})))


def profile_text(data: Mapping[str, Any]) -> str:
    """A profile as YAML."""
    import yaml

    header = (
        "# This machine as `archinfer calibrate` measured it. Every figure: value with unit,\n"
        "# source; log_sd is the standard deviation of its natural logarithm.\n"
    )
    body: str = yaml.safe_dump(
        dict(data), sort_keys=False, allow_unicode=True, width=96, default_flow_style=False
    )
    return header + body
