"""The words behind ``rladmin status``: which table, which columns and rows, in which order.

    status [TABLE] [node ID] [db NAME …] [extra COLUMNS …] [sort TITLE …] [issues_only]

They are rladmin's own, and so is their order; any order is taken.  ``next_words`` has what may
follow, for completion: it knows the same words and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from crdtstream.cli.rladmin_tables import ALL, EXTRAS, MODULE_EXTRAS, TABLES, TITLES

KEYWORDS: Final = ("node", "db", "extra", "sort", "issues_only")
EXAMPLES: Final = {
    "node": "node 2",
    "db": "db db:1",
    "extra": f"extra {ALL}",
    "sort": "status nodes sort VERSION",
}
# Of the number of a node: 1 to 1023.
DIGITS_MAX: Final = 4
# Of words that are refused.
SHOWN_MAX: Final = 100
# Words that completion replaces by what the regions have at that moment.
NODE_IDS: Final = "<node>"
DATABASES: Final = "<database>"


class WordsError(Exception):
    """Words that make no sense; the text says which may stand there."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The words, understood.

    Attributes:
        table: only this one; None: all that rladmin shows, and the links.
        node: only what is of this node.
        databases: only these; none: all.
        extras: groups of columns besides the usual ones; ``all`` has all of rladmin's.
        sort: titles of columns, the most important one first.
        issues_only: leave out what is well.
    """

    table: str | None = None
    node: int | None = None
    databases: tuple[str, ...] = ()
    extras: frozenset[str] = frozenset()
    sort: tuple[str, ...] = ()
    issues_only: bool = False


def parse(words: Sequence[str]) -> Asked:
    """
    Raises:
        WordsError: there is no such table, keyword, group of columns or column.
    """
    asked, left = Asked(), list(words)
    if left and left[0] in TABLES:
        asked = replace(asked, table=left.pop(0))
    while left:
        keyword = left.pop(0)
        if keyword not in KEYWORDS:
            known = KEYWORDS if asked.table or len(left) + 1 < len(words) else (*TABLES, *KEYWORDS)
            raise WordsError(f"status: {keyword!r} cannot stand here; {_one_of(known)} can")
        values = []
        while left and left[0] not in KEYWORDS:
            values.append(left.pop(0))
        asked = _with(asked, keyword, values)
    return asked


def _with(asked: Asked, keyword: str, values: list[str]) -> Asked:
    if keyword == "issues_only":
        if values:
            raise WordsError(f"issues_only stands alone; {values[0]!r} behind it makes no sense")
        return replace(asked, issues_only=True)
    if not values:
        raise WordsError(f"status … {keyword}: what follows is missing, as in {EXAMPLES[keyword]}")
    match keyword:
        case "node":
            return replace(asked, node=node_number(*values))
        case "db":
            return replace(asked, databases=(*asked.databases, *values))
        case "extra":
            known = extras_of(asked.table)
            for value in values:
                if value not in known:
                    raise WordsError(f"extra {value}: there is {_one_of(known)}")
            return replace(asked, extras=asked.extras | frozenset(values))
        case _:
            return replace(asked, sort=(*asked.sort, *_titles(asked.table, values)))


def node_number(text: str, *more: str) -> int:
    """The number in ``2`` or ``node:2``.

    Raises:
        WordsError: it is something else, or more than one.
    """
    digits = text.removeprefix("node:")
    if more or not (digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS_MAX):
        shown = " ".join((text, *more))[:SHOWN_MAX]
        raise WordsError(f"node {shown}: one number is wanted, as in node 2")
    return int(digits)


def extras_of(table: str | None) -> tuple[str, ...]:
    return MODULE_EXTRAS if table == "modules" else EXTRAS


def _titles(table: str | None, values: Sequence[str]) -> list[str]:
    """Titles as the table writes them; they are taken in any case."""
    if table is None:
        raise WordsError(f"sort: name the table, as in {EXAMPLES['sort']}")
    titles = {title.upper(): title for title in TITLES[table]}
    for value in values:
        if value.upper() not in titles:
            raise WordsError(f"sort {value}: {table} have {_one_of(TITLES[table])}")
    return [titles[value.upper()] for value in values]


def next_words(words: Sequence[str]) -> list[str]:
    """Words that may follow these; a word that is begun is not among them."""
    table = words[0] if words and words[0] in TABLES else None
    keywords = [one for one in KEYWORDS if one not in words and (one != "sort" or table)]
    last = next((word for word in reversed(words) if word in KEYWORDS), None)
    given = len(words) - 1 - _last_at(words, last) if last else 0
    match last:
        case None:
            return [*(TABLES if not words else ()), *keywords]
        case "node":
            return [NODE_IDS] if not given else keywords
        case "db":
            return [DATABASES, *(keywords if given else ())]
        case "extra":
            return [*_others(extras_of(table), words), *(keywords if given else ())]
        case "sort" if table:
            return [*_others(TITLES[table], words), *(keywords if given else ())]
        case _:
            return keywords


def _last_at(words: Sequence[str], word: str) -> int:
    return len(words) - 1 - list(reversed(words)).index(word)


def _others(known: Sequence[str], words: Sequence[str]) -> list[str]:
    return [one for one in known if one not in words]


def _one_of(known: Sequence[str]) -> str:
    return ", ".join(known)
