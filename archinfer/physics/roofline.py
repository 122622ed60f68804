"""The naive bound: reading weights and cache at peak bandwidth is all that takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archinfer.physics.work import work

if TYPE_CHECKING:
    from archinfer.hardware.profile import Hardware
    from archinfer.models.shape import ModelShape, Number
    from archinfer.physics.mapping import Placement
    from archinfer.physics.terms import Traffic

__all__ = ["roofline_tokens_per_s"]


def roofline_tokens_per_s(
    hardware: Hardware, shape: ModelShape, traffic: Traffic, mapping: Placement
) -> Number:
    """Tokens per second of one user by bandwidth alone, without speculative decoding.

    g * bandwidth / bytes read in a pass, with g nodes sharing each layer. A token is in one
    pipeline stage at a time, so the bandwidth of the others does not help it. The users of a
    stage share a pass; on spatial hardware every token passes on its own.

    Args:
        hardware, shape: machine and model.
        traffic: context, users and formats; drafted tokens are not looked at.
        mapping: which nodes hold which layers.
    """
    batch: Number = 1.0
    if not hardware.spatial:
        stages = mapping.stages(shape.layers)
        batch = np.maximum(np.asarray(traffic.concurrency, dtype=float) / stages, 1.0)
    done = work(
        shape,
        traffic.context_tokens,
        batch,
        traffic.weight_bits,
        traffic.kv_bits,
        traffic.outside_bits,
    )
    read_bytes = done.weight_bytes + done.kv_read_bytes
    return mapping.tensor_parallel * hardware.bandwidth_bytes_per_s / read_bytes
