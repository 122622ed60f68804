"""What a profile knows of the speculative decoding of its services."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeculationLaw:
    """What is known of a service's speculative decoding.

    Attributes:
        acceptance: chance that a drafted token is accepted.
        acceptance_logit_sd: standard deviation of its log-odds.
        draft_time_s: time to draft one token.
        draft_time_log_sd: standard deviation of its natural logarithm.
        probability: chance that a speed for which nothing is said was reached with speculation.
        spread_log_sd: spread of the gain from text to text, in natural logarithm.
        source: where the figures come from.
    """

    acceptance: float
    acceptance_logit_sd: float
    draft_time_s: float
    draft_time_log_sd: float
    probability: float
    spread_log_sd: float
    source: str = ""
