"""What no constant explains: heavy-tailed noise of the logarithm of a speed.

Student's t with few degrees of freedom, so that one odd figure does not pull a fit or an inference
as far as a normal law would let it.
"""

from __future__ import annotations

import numpy as np

from archinfer.models.shape import FloatArray

__all__ = ["DEGREES", "log_density"]

DEGREES = 4.0
"""Degrees of freedom: estimate, the usual choice for robust regression (Lange, Little, Taylor,
"Robust statistical modeling using the t distribution", 1989)."""


def log_density(deviation: FloatArray) -> FloatArray:
    """Logarithm of Student's t at deviations in scales, without its constant."""
    return np.asarray(-0.5 * (DEGREES + 1.0) * np.log1p(deviation**2 / DEGREES))
