"""Elements of HTML and SVG as text in which everything that is not an element is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = frozenset(("meta", "link", "br", "hr", "input", "col"))


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def el(tag: str, *children: str | Iterable[str], **attributes: object) -> Markup:
    """An element.

    Args:
        tag: name of the element.
        children: texts, escaped unless they are `Markup`, or lists of them.
        attributes: `_` in a name stands for `-`, one at the end is dropped (`class_`); None and
            False leave the attribute out, True writes it without a value.
    """
    written = "".join(_attribute(k, v) for k, v in attributes.items())
    if tag in VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: str | Iterable[str]) -> Markup:
    """Children one after the other."""
    parts = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(str(child))
        elif isinstance(child, str):
            parts.append(escape(child, quote=False))
        else:
            parts.append(str(join(*child)))
    return Markup("".join(parts))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(text)}"'
