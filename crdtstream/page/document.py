"""A whole page around its content: nothing is loaded, nothing runs."""

from collections.abc import Iterable
from typing import Final

from crdtstream.page.markup import Child, Markup, element
from crdtstream.page.style import STYLE

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, *content: Child) -> str:
    """The text of a page; its policy forbids scripts and loading, whatever stands in it."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *content), lang='en')}\n"


def tiles(found: Iterable[tuple[str, str, str]]) -> Markup:
    """Figures one beside the other.

    Args:
        found: of each its name, its value, and "good", "warn", "bad" or "".
    """
    return element(
        "section",
        [
            element(
                "div", element("b", value), element("span", name), class_=f"tile {kind}".strip()
            )
            for name, value, kind in found
        ],
        class_="tiles",
    )
