"""The base of models that validate files: nothing unknown, nothing coerced, nothing empty."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

__all__ = ["StrictModel"]


class StrictModel(BaseModel):
    """Refuses unknown keys, numbers given as text, NaN and infinity, and keys without a value."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _given(cls, found: Any) -> Any:
        # A key without a value is a mistake, not a key left out.
        if found is None:
            raise ValueError("expected a value")
        return found
