"""What a profile knows of the speculative decoding of its services."""

from __future__ import annotations

from dataclasses import dataclass


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
