"""Distribution functions of `scipy.special`, which is imported when one is first used.

Importing it takes as long as a whole solve, and most commands need none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.special import expit as expit
    from scipy.special import logit as logit
    from scipy.special import ndtr as ndtr
    from scipy.special import ndtri as ndtri
    from scipy.special import stdtr as stdtr


def __getattr__(name: str) -> Any:
    if name not in ("expit", "logit", "ndtr", "ndtri", "stdtr"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module("scipy.special"), name)
    return found
