"""What a profile knows of the speculative decoding of its services."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archinfer import special


@dataclass(frozen=True, slots=True)
class SpeculationLaw:
    """What is known of a service's speculative decoding."""

    acceptance: float
    """chance that a drafted token is accepted"""
    acceptance_logit_sd: float
    """standard deviation of its log-odds"""
    draft_time_s: float
    """time to draft one token"""
    draft_time_log_sd: float
    probability: float
    """chance that a speed for which nothing is said was reached with speculation"""
    spread_log_sd: float
    """spread of the gain from text to text, in natural logarithm"""
    source: str = ""

    def acceptances(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Chance of acceptance `z` standard deviations of its log-odds from the middle; as `z`."""
        log_odds = special.logit(self.acceptance) + self.acceptance_logit_sd * z
        return np.asarray(special.expit(log_odds))

    def draft_times_s(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Time to draft a token `z` standard deviations of its logarithm from the middle."""
        return np.asarray(self.draft_time_s * np.exp(self.draft_time_log_sd * z))
