"""Prices of open models over what their tokens cost on rented GPUs: the spread that a price has.

    python benchmarks/price_over_cost.py

For each model of archinfer/data/announced_models.csv with a price: members of the family of its
size, in 8 bits, on the fewest GPUs that hold it, for as many users of 4,000 tokens as priors.yaml
states; rent of all nodes over all users' tokens, and over tokens of prompts read one after the
other. Prints the median of price over cost and the standard deviation of its logarithm for output
and input, which archinfer/data/priors.yaml states, and the correlation of both, which
`archinfer.inference.observing` takes (SHARED).
"""

from __future__ import annotations

import csv
from importlib import resources

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.inference.operations import operations
from archinfer.inference.pricing import token_dollars
from archinfer.inference.prior import CATALOGUE_PRIOR
from archinfer.models.solver_family import FamilyRules, family_shape
from archinfer.physics.memory import fewest
from archinfer.physics.workload import Traffic, Workload


def main() -> None:
    text = (resources.files("archinfer") / "data" / "announced_models.csv").read_text("utf-8")
    lines = (line for line in text.splitlines() if line[0] != "#")
    rows = [r for r in csv.DictReader(lines) if r["output_dollars"]]

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name]) for row in rows])

    total, active = 1e9 * column("total_billions"), 1e9 * column("active_billions")
    layers = np.round(np.exp(CATALOGUE_PRIOR.moe.depth.coefficients[0]) * active ** (1.0 / 3.0))
    shape = family_shape(total, active, layers, FamilyRules(), active >= 0.95 * total)
    for name in ("h100-sxm", "h200-sxm", "b200"):
        hardware = Hardware.load(name)
        workload = Workload(shape, Traffic(4000.0, operations().priced_users, 8.0, kv_bits=8.0))
        mapping = fewest(hardware, workload.memory)[1]
        ratios = []
        for kind in ("output", "input"):
            cost = token_dollars(hardware, workload, mapping, f"{kind}_price")[0]
            ratios.append(ratio := np.log(column(f"{kind}_dollars") / cost))
            middle = np.exp(np.median(ratio))
            print(f"{name} {kind}: {middle:.2f} (log-sd {ratio.std():.2f}, {len(rows)} models)")
        print(f"{name} correlation: {np.corrcoef(ratios)[0, 1]:.2f}")


if __name__ == "__main__":
    main()
