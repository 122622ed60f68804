"""Decode of one large model on all cores against reading, in turns.

Runs in a process of its own: how many threads matrix products use is decided when NumPy is
loaded, and the shapes of a calibration are timed on fewer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass

import numpy as np

from archinfer.calibration.bench import HostBench, low, opened
from archinfer.calibration.design import BITS, OVERHEAD_BYTES, Point, bandwidth_config
from archinfer.calibration.threads import with_all_cores
from archinfer.errors import MeasurementError

__all__ = ["Bandwidth", "in_child", "measure"]

CONTEXT = 64
STEPS = 3
ROUNDS_LEAST = 3


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """What was measured on all cores.

    Attributes:
        active_weight_bytes: that one step reads.
        decode_bytes_per_s: weight bytes over time of a step.
        read_bytes_per_s: of the fastest kernel that reads as many bytes.
        unrest: how much slower the median step was than the one that counts.
    """

    active_weight_bytes: float
    decode_bytes_per_s: float
    read_bytes_per_s: float
    unrest: float = 0.0

    @property
    def fraction(self) -> float:
        """Part of the read ceiling that decode reaches."""
        return self.decode_bytes_per_s / self.read_bytes_per_s


def measure(memory_bytes: float, quick: bool, budget_s: float, seed: int) -> Bandwidth:
    """Time decode and reading in turns, in this process.

    Args:
        memory_bytes: most memory that it takes.
        quick: about 0.3 GB of active weights instead of 1 GB.
        budget_s: seconds of timing.
        seed: of the weights.
    """
    point = Point(bandwidth_config(memory_bytes, quick), CONTEXT)
    shape = point.shape
    # The embedding table is stored and looked up, not read.
    read = (float(shape.active_params) - float(shape.lookup_params)) * BITS / 8.0
    times: list[float] = []
    reads: dict[str, list[float]] = {}
    with opened(HostBench(), min(read, 0.2 * memory_bytes)) as bench:
        for _ in bench.build([point], seed):
            pass
        start, rounds = bench.now(), 0
        while rounds < ROUNDS_LEAST or bench.now() - start < budget_s:
            times += bench.decode_s(point, STEPS)
            for name, speed in bench.read_bytes_per_s(read).items():
                reads.setdefault(name, []).append(1.0 / speed)
            rounds += 1
    unrest = float(np.median(times)) / low(times) - 1.0
    return Bandwidth(read, read / low(times), max(1.0 / low(r) for r in reads.values()), unrest)


def in_child(memory_bytes: float, quick: bool, budget_s: float, seed: int) -> Bandwidth:
    """`measure` in a process whose matrix products use all cores.

    Raises:
        MeasurementError: the process failed.
    """
    arguments = json.dumps([memory_bytes - OVERHEAD_BYTES, quick, budget_s, seed])
    done = subprocess.run(
        [sys.executable, "-m", "archinfer.calibration.decode_bandwidth", arguments],
        env=with_all_cores(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MeasurementError(f"decode against read bandwidth could not be measured: {reason}")
    return Bandwidth(**json.loads(done.stdout))


if __name__ == "__main__":
    print(json.dumps(asdict(measure(*json.loads(sys.argv[1])))))
