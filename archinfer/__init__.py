"""archinfer: what the speed of a language model says about its size.

>>> from archinfer import Deployment, Hardware, catalogue, predict
>>> model = catalogue.load("llama-3.1-70b")
>>> found = predict(model, Hardware.load("h100-sxm"), Deployment(nodes=8, weights="bf16"))
>>> bool(found.fits), int(found.min_nodes)
(True, 2)

Everything here is imported on first use, so that `import archinfer` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archinfer import catalogue
    from archinfer.answer import Answer
    from archinfer.api import solve
    from archinfer.architecture import Architecture
    from archinfer.checks import run as check
    from archinfer.deployment import Deployment
    from archinfer.errors import (
        ArchinferError,
        FileError,
        InputError,
        MeasurementError,
        UnitError,
        UnknownNameError,
    )
    from archinfer.family import FamilyRules, family_shape
    from archinfer.hardware import Hardware
    from archinfer.huggingface import load_architecture
    from archinfer.inference import infer
    from archinfer.posterior import Posterior
    from archinfer.prediction import Prediction, predict
    from archinfer.question import Habits, Question
    from archinfer.shape import ModelShape

    __version__: str

__all__ = [
    "Answer",
    "ArchinferError",
    "Architecture",
    "Deployment",
    "FamilyRules",
    "FileError",
    "Habits",
    "Hardware",
    "InputError",
    "MeasurementError",
    "ModelShape",
    "Posterior",
    "Prediction",
    "Question",
    "UnitError",
    "UnknownNameError",
    "__version__",
    "catalogue",
    "check",
    "family_shape",
    "infer",
    "load_architecture",
    "predict",
    "solve",
]

_HOMES = {
    "answer": ("Answer",),
    "api": ("solve",),
    "architecture": ("Architecture",),
    "deployment": ("Deployment",),
    "errors": (
        "ArchinferError",
        "FileError",
        "InputError",
        "MeasurementError",
        "UnitError",
        "UnknownNameError",
    ),
    "family": ("FamilyRules", "family_shape"),
    "hardware": ("Hardware",),
    "huggingface": ("load_architecture",),
    "inference": ("infer",),
    "posterior": ("Posterior",),
    "prediction": ("Prediction", "predict"),
    "question": ("Habits", "Question"),
    "shape": ("ModelShape",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata

    if name == "__version__":
        found: Any = metadata.version("archinfer")
    elif name == "catalogue":
        found = import_module("archinfer.catalogue")
    elif name == "check":
        found = import_module("archinfer.checks").run
    elif name in _HOME:
        found = getattr(import_module(f"archinfer.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'archinfer' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
