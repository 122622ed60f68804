"""Types of numbers and arrays that every layer shares."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Number: TypeAlias = float | FloatArray
"""One value, or an array of them that broadcasts."""


def distinct(values: FloatArray) -> FloatArray:
    """Each value once, in order; `np.unique` imports masked arrays, which takes longer."""
    found = np.sort(values)
    return np.asarray(found[np.append(True, found[1:] != found[:-1])])
