"""One reader for each family of Hugging Face configs: `read_` and its `model_type`.

Each reader follows its family's modelling code (transformers, or the code a maker ships with the
weights): which keys it uses, what it takes for keys that files leave out, and which parameters it
allocates. Biases that only correct router scores are buffers there and are not counted, except
where a class holds them as parameters (ERNIE 4.5, AFMoE).
"""

from __future__ import annotations

from collections.abc import Callable

from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import classic, grouped, hybrid, latent, mixtures
from archinfer.models.readers.common import Reading, plain
from archinfer.models.readers.generic import generic
from archinfer.models.readers.style import same_as, styles

__all__ = ["FAMILIES", "SAME_AS", "Reading", "generic"]

FAMILIES: dict[str, Callable[[ConfigKeys], Reading]] = {
    **{name: plain(style) for name, style in styles().items()},
    **{
        name.removeprefix("read_"): reader
        for module in (classic, grouped, hybrid, latent, mixtures)
        for name, reader in vars(module).items()
        if name.startswith("read_") and reader.__module__ == module.__name__
    },
    "grok-1": mixtures.grok,
    "grok-2": mixtures.grok,
    "nemotron-nas": mixtures.nemotron_nas,
}
"""Readers by `model_type`: those of families.json, and those that need more than a style."""

SAME_AS = same_as()
"""Model types that read like another."""
