"""One reader for each family of Hugging Face configs: `read_` or `parse_` and its `model_type`.

Each reader follows its family's modelling code (transformers, or the code a maker ships with the
weights): which keys it uses, what it takes for keys that files leave out, and which parameters it
allocates. Biases that only correct router scores are buffers there and are not counted, except
where a class holds them as parameters (ERNIE 4.5, AFMoE). `read_` is given the sizes that all
decoders have, `parse_` the bare keys; what a family only differs in stands in families.json.
"""

from __future__ import annotations

from collections.abc import Callable

from archinfer.models.configkeys import ConfigKeys
from archinfer.models.readers import classic, grouped, hybrid, latent, mixtures
from archinfer.models.readers.common import Decoder, Reading, plain, reader
from archinfer.models.readers.generic import generic
from archinfer.models.readers.style import Style, same_as, styles

__all__ = ["FAMILIES", "SAME_AS", "Reading", "generic"]


def _sized(read: Callable[[Decoder], Reading]) -> Callable[[ConfigKeys, Style], Reading]:
    return lambda keys, style: read(Decoder(keys, style))


_PARSERS: dict[str, Callable[[ConfigKeys, Style], Reading]] = dict.fromkeys(styles(), plain)
for module in (classic, grouped, hybrid, latent, mixtures):
    for name, function in vars(module).items():
        if getattr(function, "__module__", "") != module.__name__:
            continue
        kind, _, family = name.partition("_")
        family = family.replace("grok_", "grok-").replace("nemotron_nas", "nemotron-nas")
        if kind == "read":
            _PARSERS[family] = _sized(function)
        elif kind == "parse":
            _PARSERS[family] = function

FAMILIES: dict[str, Callable[[ConfigKeys], Reading]] = {
    name: reader(styles().get(name, Style()), parse) for name, parse in _PARSERS.items()
}
"""Readers by `model_type`: those of families.json, and those that need more than a style."""

SAME_AS = same_as()
"""Model types that read like another."""
