"""No prediction is faster than memory is read or arithmetic is done, whoever runs it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from archinfer.forward.predict import workload_of
from archinfer.hardware.profile import Hardware
from archinfer.models import catalogue
from archinfer.physics.decode import decode_time
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement
from archinfer.physics.roofline import roofline_tokens_per_s


@pytest.mark.parametrize("at", range(len(Hardware.names())), ids=Hardware.names())
def test_no_speed_is_above_bandwidth_or_peak(at: int) -> None:
    """Every fifth model of the catalogue, beginning elsewhere for each machine, so that every model
    meets six machines; with 1 to 4,096 users and with every software."""
    hardware = Hardware.load(Hardware.names()[at])
    group = 1.0 if hardware.spatial or hardware.alone else min(8.0, hardware.scale_up_size)
    # On a wafer a token passes alone.
    users = np.ones(1) if hardware.spatial else np.array([1.0, 64.0, 4096.0])
    variants = [hardware, *(hardware.with_software(s.name) for s in hardware.software)]
    peak = max(flops for _, flops in hardware.peaks_flops) * group
    for name in catalogue.names()[at % 5 :: 5]:
        workload, _ = workload_of(catalogue.load(name), Deployment(context_tokens=4000))
        layers = float(workload.shape.layers)
        mapping = Placement(1.0 if hardware.spatial else layers, group)
        done = float(np.asarray(workload.work(1.0).flops))
        workload = replace(workload, traffic=replace(workload.traffic, concurrency=users))
        most = np.asarray(roofline_tokens_per_s(hardware, workload, mapping))
        for one in variants:
            time = np.asarray(decode_time(one, workload, mapping).total)
            assert (1.0 / time <= most).all(), f"{name}: above the bandwidth"
            assert (users * done / time <= peak).all(), f"{name}: above the peak"
