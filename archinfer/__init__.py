"""archinfer: what the speed of a language model says about its size.

>>> from archinfer import predict
>>> found = predict("llama-3.1-70b", "h100-sxm", nodes=8, weights="bf16")
>>> bool(found.fits), int(found.min_nodes)
(True, 2)

Everything here is imported on first use, so that `import archinfer` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archinfer.api.planning import pareto as pareto
    from archinfer.api.serving import compare as compare
    from archinfer.api.serving import predict as predict
    from archinfer.api.solving import infer as infer
    from archinfer.api.solving import solve as solve
    from archinfer.api.validating import validate as validate
    from archinfer.checks.run import check as check
    from archinfer.errors import ArchinferError as ArchinferError
    from archinfer.errors import FileError as FileError
    from archinfer.errors import InputError as InputError
    from archinfer.errors import MeasurementError as MeasurementError
    from archinfer.errors import UnitError as UnitError
    from archinfer.errors import UnknownNameError as UnknownNameError
    from archinfer.forward.prediction import Prediction as Prediction
    from archinfer.hardware.profile import Hardware as Hardware
    from archinfer.inference.posterior import Posterior as Posterior
    from archinfer.models import catalogue as catalogue
    from archinfer.models.architecture import Architecture as Architecture
    from archinfer.models.checkpoint import load_architecture as load_architecture
    from archinfer.models.shape import ModelShape as ModelShape
    from archinfer.models.solver_family import FamilyRules as FamilyRules
    from archinfer.models.solver_family import Habits as Habits
    from archinfer.models.solver_family import family_shape as family_shape
    from archinfer.physics.deployment import Deployment as Deployment
    from archinfer.solver.answer import Answer as Answer
    from archinfer.solver.question import Question as Question

    __version__: str

_HOMES = {
    "api.planning": ("pareto",),
    "api.serving": ("compare", "predict"),
    "api.solving": ("infer", "solve"),
    "api.validating": ("validate",),
    "checks.run": ("check",),
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
    "models.solver_family": ("FamilyRules", "Habits", "family_shape"),
    "models.checkpoint": ("load_architecture",),
    "models.shape": ("ModelShape",),
    "physics.deployment": ("Deployment",),
    "solver.answer": ("Answer",),
    "solver.question": ("Question",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted([*_HOME, "__version__", "catalogue"])


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        # Here, because the name of every module comes by once.
        from importlib.metadata import version

        found: Any = version("archinfer")
    elif name == "catalogue":
        found = import_module("archinfer.models.catalogue")
    elif name in _HOME:
        found = getattr(import_module(f"archinfer.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'archinfer' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
