"""What can be asked: ONE table, from which every way to ask is made.

An entry states a name, what kind of quantity it is, its bounds, its default and its help, once; the
entries stand in `archinfer.asked`. From them come the options of the command line (`cli.options`),
the arguments of the Python calls and their documentation (`api`) and the keys of check files with
their JSON Schema (`checks.schema`). How an entry is read stands in `asking`.
"""

from typing import Any, Final, get_type_hints

from archinfer.asked.served import Planned, Served, Subject
from archinfer.asked.solved import Solving
from archinfer.asked.upkeep import Upkeep
from archinfer.asking import Ask, Use

FOUNDING: Final[dict[str, Any]] = {"hardware": "wse-3", "nodes": 88, "tokens_per_second": 750}
"""The question that is answered where nothing is asked."""


def _entries() -> dict[str, tuple[Any, Ask]]:
    found: dict[str, tuple[Any, Ask]] = {}
    for group in (Subject, Solving, Served, Planned, Upkeep):
        for name, hint in get_type_hints(group, include_extras=True).items():
            found[name] = (hint.__origin__, hint.__metadata__[0])
    return found


_TABLE: Final = _entries()
_FIRST: Final = ("hardware", "nodes", "tokens_per_second", "observed", "observed_max")

TYPES: Final[dict[str, Any]] = {name: kind for name, (kind, _) in _TABLE.items()}
"""The type of every argument."""

ASKS: Final[dict[str, Ask]] = {name: _TABLE[name][1] for name in dict.fromkeys((*_FIRST, *_TABLE))}
"""Every entry by its name: that of the argument, of the key and, with dashes, of the option."""


def options(command: str) -> dict[str, tuple[Ask, Use]]:
    """The entries that `command` takes, in the order in which they are told."""
    found = ((name, ask, ask.use(command)) for name, ask in ASKS.items())
    return {name: (ask, use) for name, ask, use in found if use is not None}
