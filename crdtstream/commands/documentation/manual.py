"""The manual: every page by its command's name.

The texts are read once, when the table of commands is made: about 15 ms.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from crdtstream.commands.documentation import (
    cluster,
    connection,
    crdt,
    generic,
    lists,
    pubsub,
    scripting,
    server,
    stream,
    string,
    transactions,
)
from crdtstream.commands.documentation.pages import Page, parse_pages
from crdtstream.commands.documentation.syntax import shown

TEXTS: Final = {
    "stream": stream.TEXT,
    "string": string.TEXT,
    "crdt": crdt.TEXT,
    "generic": generic.TEXT,
    "transactions": transactions.TEXT,
    "scripting": scripting.TEXT,
    "list": lists.TEXT,
    "pubsub": pubsub.TEXT,
    "connection": connection.TEXT,
    "server": server.TEXT,
    "cluster": cluster.TEXT,
}


@cache
def pages() -> Mapping[str, Page]:
    """All pages, in the order in which they stand."""
    found: dict[str, Page] = {}
    for group, text in TEXTS.items():
        for page in parse_pages(group, text):
            if page.name in found:
                raise ValueError(f"{page.name} is documented twice")
            found[page.name] = page
    return MappingProxyType(found)


def usage(name: str) -> str:
    """A command as one writes it: ``XRANGE key start end [COUNT count]``.

    Args:
        name: lower case, ``xgroup|create`` of a subcommand.

    Raises:
        KeyError: there is no such page.
    """
    page = pages()[name]
    words = name.upper().replace("|", " ")
    return f"{words} {shown(page.arguments)}".rstrip()


def usage_markdown(name: str) -> str:
    """``usage`` as code for a Markdown table, where a bar would end the cell."""
    return f"`{usage(name)}`".replace("|", "\\|")
