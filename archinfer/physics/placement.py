"""Which mapping of a given model is the fastest that fits, and the fewest nodes that hold it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from archinfer.hardware.profile import Hardware
from archinfer.models.formats import weight_format
from archinfer.models.shape import FloatArray, Number
from archinfer.physics.decode import decode_time
from archinfer.physics.deployment import Deployment
from archinfer.physics.mapping import Placement, mappings, widest_group
from archinfer.physics.memory import memory_fraction
from archinfer.physics.terms import TokenTime, combined
from archinfer.physics.workload import Traffic, Workload


@dataclass(frozen=True, slots=True)
class Candidates:
    """Every mapping of one model on at most `nodes` nodes; arrays of shape (k,).

    Attributes:
        mapping: the mappings.
        nodes: nodes in use.
        time: decode time of each.
        fraction: share of the fullest stage's usable memory that is taken.
    """

    mapping: Placement
    nodes: FloatArray
    time: TokenTime
    fraction: FloatArray

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether each fits."""
        return self.fraction <= 1.0

    @property
    def best(self) -> Placement:
        """The fastest that fits; the least too full one where none does."""
        score = np.where(self.fits, self.time.total, np.inf) if self.fits.any() else self.fraction
        return self.at(int(np.argmin(score)))[0]

    def at(self, index: int) -> tuple[Placement, TokenTime]:
        """One mapping with its time, as numbers."""

        def one(value: Number) -> float:
            return float(np.broadcast_to(value, self.nodes.shape)[index])

        mapping = replace(
            self.mapping,
            layers_per_stage=one(self.mapping.layers_per_stage),
            tensor_parallel=one(self.mapping.tensor_parallel),
        )
        return mapping, take_time(self.time, index, len(self.nodes))


def take_time(time: TokenTime, index: int, count: int) -> TokenTime:
    """One entry of a TokenTime whose terms broadcast to shape (count,)."""

    def one(value: Number) -> float:
        return float(np.broadcast_to(np.asarray(value, dtype=float), (count,))[index])

    return combined([time], lambda values: one(values[0]))


def candidates(hardware: Hardware, workload: Workload, nodes: int) -> Candidates:
    """Every way to place the model's whole layers on at most `nodes` nodes."""
    layers, per_stage, group = mappings(
        np.array([float(workload.shape.layers)]),
        1 if hardware.alone else nodes,
        widest_group(hardware),
    )
    mapping = Placement(per_stage, group)
    return Candidates(
        mapping,
        np.asarray(mapping.nodes(layers), dtype=float),
        decode_time(hardware, workload, mapping),
        np.asarray(memory_fraction(hardware, workload.memory, mapping), dtype=float),
    )


def traffic_of(deployment: Deployment, weights: str, outside_bits: float | None) -> Traffic:
    """What a deployment asks of a pass.

    Args:
        deployment: context, users, cache and drafts.
        weights: weight format.
        outside_bits: bits of embedding and head; None: as the weights.
    """
    form = weight_format(weights)
    return Traffic(
        context_tokens=deployment.context_tokens,
        concurrency=deployment.concurrency,
        weight_bits=form.bits,
        outside_bits=outside_bits,
        kv_bits=deployment.kv_bits,
        draft_tokens=deployment.draft_tokens,
        weights_only=form.weights_only,
        prompt_tokens=deployment.prompt,
        output_tokens=deployment.output_tokens,
    )
