"""Sections of a profile that a calibration of a machine writes beside its constants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from archinfer.strict import StrictModel, Text

LogSd = Annotated[float, Field(ge=0, le=3, strict=False)]


class Chain(StrictModel):
    """Dependent reductions of one layer, counted while it ran."""

    dense: Annotated[int, Field(ge=1)]
    moe: Annotated[int, Field(ge=1)]


class Calibration(StrictModel):
    """What a measurement with archinfer calibrate says about other hardware as well."""

    evenness: Annotated[float, Field(gt=0, le=1, strict=False)] = Field(
        description="share of experts that, evenly used, would be hit as often as was counted"
    )
    chain: Chain = Field(description="counted dependent reductions of a layer")
    bandwidth_fraction: Annotated[float, Field(gt=0, strict=False)] = Field(
        description="part of the read bandwidth that decode of a large model reaches"
    )
    model_error: LogSd = Field(description="spread of log(time) about the fitted cost model")
    source: Text


Share = Annotated[float, Field(gt=0, strict=False)]
Count = Annotated[int, Field(ge=1)]


class Prompt(StrictModel):
    """One prompt through one model."""

    model: Text
    tokens: Count
    efficiency: Share


class Product(StrictModel):
    """One shape of matrix product: tokens times a matrix of outputs x inputs."""

    tokens: Count
    outputs: Count
    inputs: Count
    efficiency: Share


class Prefill(StrictModel):
    """How fast prompts are read, as parts of the peak of matrix products."""

    efficiency: Share = Field(description="of whole prompts, geometric mean")
    log_sd: LogSd = Field(description="its spread over prompts and models, natural logarithm")
    product_efficiency: Share = Field(description="of the matrix products alone, geometric mean")
    product_log_sd: LogSd = Field(description="its spread over shapes, natural logarithm")
    prompts: list[Prompt]
    products: list[Product]
    source: Text
