"""A Mixture-of-Experts decoder in NumPy that counts what it does.

The forward pass is in `decoder.py`, which reads from top to bottom; `config.py` says what a model
is, `weights.py` how its numbers lie in memory, `counters.py` how work is counted and
`ceilings.py` what this machine could do at best.
"""

from __future__ import annotations

from archinfer.calibration.moe.config import MoEConfig
from archinfer.calibration.moe.counters import Counters, Tally
from archinfer.calibration.moe.decoder import Decoder
from archinfer.calibration.moe.weights import Weights

__all__ = ["Counters", "Decoder", "MoEConfig", "Tally", "Weights"]
