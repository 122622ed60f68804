"""A model known by its totals alone, over the layer counts that come into question."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from archinfer.errors import InputError
from archinfer.forward.predict import predict
from archinfer.forward.prediction import Depth, Prediction, Spans
from archinfer.hardware.profile import Hardware
from archinfer.models.shape import FloatArray, ModelShape
from archinfer.models.solver_family import FamilyRules, Habits, family_shape
from archinfer.physics.deployment import Deployment
from archinfer.record import Ends, Quantiles


@dataclass(frozen=True)
class DepthRange:
    """Predictions of one (total, active) over a range of layers.

    Attributes:
        predictions: one a layer count, ascending.
        middle: the one that stands for all: at the geometric middle of the depths that fit (of
            all where none does), with its changes.
    """

    predictions: tuple[Prediction, ...]
    middle: Prediction

    @property
    def fits(self) -> tuple[Prediction, ...]:
        """Those that fit."""
        return tuple(p for p in self.predictions if p.fits)

    def ends(self, values: list[float]) -> Ends:
        """Least and largest of the finite values; nan where there is none."""
        finite = [v for v in values if np.isfinite(v)]
        return Ends(min(finite), max(finite)) if finite else Ends(np.nan, np.nan)

    @property
    def layers(self) -> Ends:
        """Fewest and most layers."""
        return self.ends([float(p.shape.layers) for p in self.predictions])

    @property
    def min_nodes(self) -> Ends:
        """Fewest nodes over the depths."""
        return self.ends([float(p.min_nodes) for p in self.predictions])

    @property
    def nodes(self) -> Ends:
        """Nodes in use over the depths that fit."""
        return self.ends([float(p.nodes_used) for p in self.fits])

    @property
    def speed(self) -> Quantiles:
        """Tokens/s: least 5 %, middle depth's 50 %, largest 95 % over the depths that fit."""
        return self._over([p.speed for p in self.fits], self.middle.speed)

    @property
    def plain_speed(self) -> Quantiles:
        """The same without speculation."""
        return self._over([p.plain_speed for p in self.fits], self.middle.plain_speed)

    def _over(self, speeds: list[Quantiles], middle: Quantiles) -> Quantiles:
        low, _ = self.ends([float(s[0]) for s in speeds])
        _, high = self.ends([float(s[2]) for s in speeds])
        return Quantiles(low, middle.p50, high)

    @property
    def central_speed(self) -> Ends:
        """Least and largest central speed over the depths that fit."""
        return self.ends([float(p.speed[1]) for p in self.fits])

    @property
    def prediction(self) -> Prediction:
        """That of the middle depth, its intervals widened over all, with every depth."""
        spans = Spans(self.layers, self.nodes, self.min_nodes, self.central_speed)
        return replace(
            self.middle,
            speed_=self.speed,
            plain_speed_=self.plain_speed,
            range=spans,
            by_layers=tuple(Depth(p) for p in self.predictions),
        )


def plausible_layers(active_params: float, rules: FamilyRules) -> FloatArray:
    """Layer counts that habits of design allow a model with so many active parameters.

    Hidden size over layers and active parameters over layers and hidden size squared are within
    what is built (`archinfer.models.solver_family.Habits`). Empty where no depth is.
    """
    habits = Habits()
    low, high = habits.layers
    depths = np.arange(np.ceil(low), np.floor(high) + 1.0)
    least, most = habits.active_params(depths, rules)
    return depths[(least <= active_params) & (active_params <= most)]


def predict_depths(
    name: str,
    total_params: float,
    active_params: float,
    layers: FloatArray,
    hardware: Hardware,
    deployment: Deployment,
    rules: FamilyRules | None = None,
) -> DepthRange:
    """A model known by its totals alone, at each of several layer counts.

    Args:
        name: what to call it.
        total_params, active_params: its parameters.
        layers: whole numbers, ascending.
        hardware, deployment: as for `predict`.
        rules: the family that gives everything else; None: its defaults.

    Raises:
        InputError: more active parameters than parameters, or no layers.
    """
    rules = FamilyRules() if rules is None else rules
    if active_params > total_params:
        raise InputError(
            f"active parameters ({active_params:g}) cannot exceed the total ({total_params:g})"
        )
    if not len(layers):
        raise InputError("no layer count to predict for")

    def shape(depth: float) -> ModelShape:
        dense = total_params == active_params
        found = family_shape(total_params, active_params, depth, rules, dense)
        return replace(found, name=name)

    found = tuple(predict(shape(float(v)), hardware, deployment, changes=False) for v in layers)
    depths = [float(p.shape.layers) for p in found if p.fits] or [float(v) for v in layers]
    middle = min(depths, key=lambda v: abs(np.log(v * v / (depths[0] * depths[-1]))))
    return DepthRange(found, predict(shape(middle), hardware, deployment))
