"""Prices of open models over what their tokens cost on rented GPUs: the spread that a price has.

    python benchmarks/price_over_cost.py

For each model of archinfer/data/announced_models.csv with a price: members of the family of its
size, in 8 bits, on the fewest GPUs that hold it, for 128 users of 4,000 tokens; rent of all nodes
over all users' tokens. Prints the median of price over cost and the standard deviation of its
logarithm, which `archinfer.inference.observing` takes (PRICE_OVER_COST, PRICE_LOG_SD).
"""

from __future__ import annotations

import csv
from importlib import resources

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.inference.observing import PRICED_USERS
from archinfer.inference.prior import CATALOGUE_PRIOR
from archinfer.models.solver_family import FamilyRules, family_shape
from archinfer.physics.decode import decode_time
from archinfer.physics.economy import node_dollars_per_hour
from archinfer.physics.memory import fewest
from archinfer.physics.workload import Traffic, Workload


def main() -> None:
    text = (resources.files("archinfer") / "data" / "announced_models.csv").read_text("utf-8")
    lines = (line for line in text.splitlines() if line[0] != "#")
    rows = [r for r in csv.DictReader(lines) if r["output_dollars"]]
    total, active, price = (
        np.array([float(r[key]) * scale for r in rows])
        for key, scale in (
            ("total_billions", 1e9),
            ("active_billions", 1e9),
            ("output_dollars", 1.0),
        )
    )
    layers = np.round(np.exp(CATALOGUE_PRIOR.moe.depth_mean) * active ** (1.0 / 3.0))
    shape = family_shape(total, active, layers, FamilyRules(), active >= 0.95 * total)
    for name in ("h100-sxm", "h200-sxm", "b200"):
        hardware = Hardware.load(name)
        workload = Workload(shape, Traffic(4000.0, PRICED_USERS, 8.0, kv_bits=8.0))
        nodes, mapping = fewest(hardware, workload.memory)
        seconds = decode_time(hardware, workload, mapping).total
        rent = node_dollars_per_hour(hardware, hardware.power_w)
        cost = rent * nodes * seconds / PRICED_USERS / 3600.0 * 1e6
        ratio = np.log(price / cost)
        print(
            f"{name}: {np.exp(np.median(ratio)):.2f} (log-sd {ratio.std():.2f}, {len(rows)} models)"
        )


if __name__ == "__main__":
    main()
