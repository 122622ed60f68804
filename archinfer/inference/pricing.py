"""What a token of a service costs, and how far its price may be from that.

Rent, or purchase and electricity, is the machine's; `archinfer/data/priors.yaml` states for how
many users a token is made, and how prices of open models of known size lie about that cost: idle
hours, margin, and what the cost leaves out, together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.inference.operations import operations
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.decode import decode_time
from archinfer.physics.economy import node_dollars_per_hour
from archinfer.physics.mapping import Placement
from archinfer.physics.prefill import time_to_first_token
from archinfer.physics.workload import Workload

PROMPT_TOKENS = 4000.0
"""Of a priced prompt where none is stated: estimate, a few pages."""


def token_dollars(
    hardware: Hardware, workload: Workload, mapping: Placement, kind: str
) -> tuple[FloatArray, dict[str, Number]]:
    """Cost of a million output or input tokens without speculation, and d log / d log(constant).

    Output: a full pipeline on wafers, else as many users as `priors.yaml` states. Input: prompts
    one after the other, on all nodes.
    """
    layers = workload.shape.layers
    nodes = np.asarray(mapping.nodes(layers))
    dollars_s = node_dollars_per_hour(hardware, hardware.power_w) * nodes / 3600.0
    users = layers if hardware.spatial else operations().priced_users
    prompt = workload.traffic.prompt_tokens or PROMPT_TOKENS
    full = replace(workload.traffic, concurrency=users, prompt_tokens=None)
    time = decode_time(hardware, replace(workload, traffic=full), mapping)
    if kind == "output_price":
        total = np.asarray(time.total)
        return 1e6 * dollars_s * total / users, {n: s / total for n, s in time.scaling.items()}
    one = replace(workload.traffic, concurrency=1.0, prompt_tokens=prompt)
    first = time_to_first_token(hardware, replace(workload, traffic=one), mapping, time)
    assert first is not None  # `observing.unknown` has looked
    read = np.asarray(first.read)
    # Stages of a pipeline read different prompts; layers on wafers work on one at a time already.
    together = 1.0 if hardware.spatial else np.asarray(mapping.stages(layers))
    scaling = {n: s / read for n, s in first.scaling.items() if n != "first_token_time"}
    return 1e6 * dollars_s * read / (prompt * together), scaling
