"""HTML by construction: all that is not markup already is text, and is escaped.

    element("td", "<b>", class_="name")  ->  <td class="name">&lt;b&gt;</td>

Names of streams and groups, fields and values come from any client; so nothing is ever pasted into
markup.  A character that a page cannot show, or that would reverse the text around it (U+202E and
its like), is shown as U+FFFD.
"""

import html
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

# Controls except tab and line feed, halves of pairs, marks of direction, what is no character.
_UNSHOWABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef"
    "\ufffe\uffff]"
)
_VOID: Final = frozenset({"meta", "br", "input", "link"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "Markup | str | int | Iterable[Child] | None"


def escaped(text: str) -> Markup:
    """Text as HTML, in an element or in a quoted attribute."""
    return Markup(html.escape(showable(text)))


def showable(text: str) -> str:
    """Text that may stand anywhere: on a page, in XML, on a terminal that it must not steer."""
    return _UNSHOWABLE.sub("\ufffd", text)


def element(tag: str, *children: Child, **attributes: str | float | None) -> Markup:
    """An element.

    Args:
        children: markup, text, several of these, or None for nothing.
        attributes: None leaves one out; ``class_`` is class, ``stroke_width`` stroke-width.
    """
    opening = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(_number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Markup(f"<{tag}{opening}>")
    return Markup(f"<{tag}{opening}>{joined(children)}</{tag}>")


def joined(children: Iterable[Child]) -> Markup:
    """The children one after the other."""
    return Markup("".join(map(_rendered, children)))


def _rendered(child: Child) -> str:
    match child:
        case None:
            return ""
        case Markup():
            return child
        case str():
            return escaped(child)
        case int():
            return str(child)
        case _:
            return joined(child)


def _number(value: str | float) -> str:
    """Coordinates with two digits, which is more than a screen shows."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
