"""The naive bound: reading weights and cache at peak bandwidth is all that takes time."""

from __future__ import annotations

import numpy as np

from archinfer.hardware.profile import Hardware
from archinfer.models.shape import Number
from archinfer.physics.mapping import Placement
from archinfer.physics.nodegroup import DISTINCT_TOKENS
from archinfer.physics.workload import Workload


def roofline_tokens_per_s(hardware: Hardware, workload: Workload, mapping: Placement) -> Number:
    """Tokens per second of one user by bandwidth alone, without speculative decoding.

    g * bandwidth / bytes read in a pass, with g nodes sharing each layer. A token is in one
    pipeline stage at a time, so the bandwidth of the others does not help it. The users of a
    stage share a pass; on spatial hardware every token passes on its own.
    """
    batch: Number = 1.0
    if not hardware.spatial:
        stages = mapping.stages(workload.shape.layers)
        users = np.asarray(workload.traffic.concurrency, dtype=float)
        batch = np.maximum(users / stages, 1.0)
    # Tokens that route alike hit fewer experts.
    apart = hardware.spatial or bool(np.all(np.isnan(hardware.routed_kernels)))
    weights_bytes = workload.work(batch if apart else batch**DISTINCT_TOKENS).weight_bytes
    weights_bytes = weights_bytes + workload.memory.more_weights(mapping)
    read_bytes = weights_bytes + workload.work(batch).kv_read_bytes
    return mapping.tensor_parallel * hardware.bandwidth_bytes_per_s / read_bytes
