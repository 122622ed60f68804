"""archinfer: what the speed of a language model says about its size.

>>> from archinfer import predict
>>> found = predict("llama-3.1-70b", "h100-sxm", nodes=8, weights="bf16")
>>> bool(found.fits), int(found.min_nodes)
(True, 2)

Everything here is imported on first use, so that `import archinfer` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archinfer.api.planning import pareto
    from archinfer.api.serving import compare, predict
    from archinfer.api.solving import infer, solve
    from archinfer.api.validating import validate
    from archinfer.checks.run import run as check
    from archinfer.errors import (
        ArchinferError,
        FileError,
        InputError,
        MeasurementError,
        UnitError,
        UnknownNameError,
    )
    from archinfer.forward.prediction import Prediction
    from archinfer.hardware.profile import Hardware
    from archinfer.inference.posterior import Posterior
    from archinfer.models import catalogue
    from archinfer.models.architecture import Architecture
    from archinfer.models.checkpoint import load_architecture
    from archinfer.models.family import FamilyRules, Habits, family_shape
    from archinfer.models.shape import ModelShape
    from archinfer.physics.deployment import Deployment
    from archinfer.solver.answer import Answer
    from archinfer.solver.question import Question

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
    "compare",
    "family_shape",
    "infer",
    "load_architecture",
    "pareto",
    "predict",
    "solve",
    "validate",
]

_HOMES = {
    "api.planning": ("pareto",),
    "api.serving": ("compare", "predict"),
    "api.solving": ("infer", "solve"),
    "api.validating": ("validate",),
    "errors": (
        "ArchinferError",
        "FileError",
        "InputError",
        "MeasurementError",
        "UnitError",
        "UnknownNameError",
    ),
    "forward.prediction": ("Prediction",),
    "hardware.profile": ("Hardware",),
    "inference.posterior": ("Posterior",),
    "models.architecture": ("Architecture",),
    "models.family": ("FamilyRules", "Habits", "family_shape"),
    "models.checkpoint": ("load_architecture",),
    "models.shape": ("ModelShape",),
    "physics.deployment": ("Deployment",),
    "solver.answer": ("Answer",),
    "solver.question": ("Question",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        # Here, because the name of every module comes by once.
        from importlib.metadata import version

        found: Any = version("archinfer")
    elif name == "catalogue":
        found = import_module("archinfer.models.catalogue")
    elif name == "check":
        found = import_module("archinfer.checks.run").run
    elif name in _HOME:
        found = getattr(import_module(f"archinfer.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'archinfer' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
