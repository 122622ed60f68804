"""Types of numbers and arrays that every layer shares."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Number: TypeAlias = float | FloatArray
"""One value, or an array of them that broadcasts."""
