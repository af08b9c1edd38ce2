"""Pages of the manual: a text per group of commands, and what one says of a command.

Nothing of this stands anywhere else: dispatch, COMMAND and the documentation read these pages.

    XADD key [NOMKSTREAM@6.2.0] <id-selector: * | id> (data: field value)...
        since 5.0.0; flags write denyoom fast; keys 1 RW update; tips nondeterministic_output
        Appends an entry to a stream.
        O(log N) for N entries.
        6.2.0: NOMKSTREAM.

The name and the syntax, the facts, a summary, what it costs, and what changed when.  A subcommand
is called ``XGROUP|CREATE``.  Of the facts only ``since`` is always there:

    flags                 what clients and proxies may rely on, in Redis's words; @ and a category
    here                  flags that only this program knows; COMMAND does not show them
    arity                 where the syntax does not tell how many arguments there are
    keys, tips, doc       lists, with commas

``deprecated 7.2.0: …`` names the version and the substitute.  A line that continues another is
indented deeper, and an empty line ends a page.

Flags that only this program knows: ``immediate`` runs inside MULTI, where others are queued.
``names_dots``: its reply may name a dot, which therefore has to be in the log.  ``may_replicate``
waits while CLIENT PAUSE stops writes.  ``despite_lag``: a write that is allowed although too much
of this region is in no other one.  ``runs_script`` may write whatever the script writes, and
MONITOR shows it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from crdtstream.commands.documentation.key_specs import KeySpec, parse_key_spec
from crdtstream.commands.documentation.syntax import Argument, parse_syntax, word_bounds

# In the order in which Redis lists the categories of a command.
CATEGORIES: Final = (
    *("keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap"),
    *("hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous"),
    *("connection", "transaction", "scripting"),
)
CATEGORIES_OF_GROUPS: Final = {
    "stream": "stream",
    "string": "string",
    "scripting": "scripting",
    "list": "list",
    "generic": "keyspace",
    "connection": "connection",
    "transactions": "transaction",
}
# What follows from a flag.
CATEGORIES_OF_FLAGS: Final = {
    "write": ("write",),
    "readonly": ("read",),
    "admin": ("admin", "dangerous"),
    "pubsub": ("pubsub",),
    "fast": ("fast",),
    "blocking": ("blocking",),
}

_GOES_ON: Final = re.compile(r"\n {5,}")
_CHANGE: Final = re.compile(r"(deprecated )?(\d+\.\d+\.\d+): (.*)")


@dataclass(frozen=True, slots=True)
class Page:
    """Description of a command.

    Attributes:
        name: lower case; ``xgroup|create`` of a subcommand.
        group: of related commands, in Redis's words; ``crdt`` for those that Redis lacks.
        arguments: its syntax.
        since: version of Redis, or of this program if the group is ``crdt``.
        summary, complexity: for people.
        arity: number of arguments, the name included; negative: the minimum.
        flags: what clients and proxies may rely on; Redis explains them at COMMAND.
        own_flags: those that only this program knows.
        own_categories: ACL categories that neither the group nor a flag implies; they stand for
            the group's.
        key_specs: where the keys are.
        tips: for clients of clusters, and for comparisons of replies.
        doc_flags: ``deprecated``, and ``syscmd`` for commands that work on the server itself.
        history: versions and what they changed.
        deprecated_since, replaced_by: where there is something better.
    """

    name: str
    group: str
    arguments: tuple[Argument, ...]
    since: str
    summary: str
    complexity: str
    arity: int
    flags: tuple[str, ...]
    own_flags: tuple[str, ...]
    own_categories: tuple[str, ...]
    key_specs: tuple[KeySpec, ...]
    tips: tuple[str, ...]
    doc_flags: tuple[str, ...]
    history: tuple[tuple[str, str], ...]
    deprecated_since: str
    replaced_by: str

    @property
    def categories(self) -> list[str]:
        """The ACL categories, without the ``@``, in Redis's order."""
        found = set(self.own_categories)
        if self.flags and not found and self.group in CATEGORIES_OF_GROUPS:
            found.add(CATEGORIES_OF_GROUPS[self.group])
        for flag in self.flags:
            found.update(CATEGORIES_OF_FLAGS.get(flag, ()))
        if "fast" not in found:
            found.add("slow")
        return [category for category in CATEGORIES if category in found]


def parse_pages(group: str, text: str) -> Iterator[Page]:
    """The pages of a text in the form above.

    Raises:
        ValueError: it is not of that form; the text names the page.
    """
    for block in text.strip("\n").split("\n\n"):
        try:
            page = _page(group, block)
        except (ValueError, KeyError) as error:
            raise ValueError(f"page of {block.split()[0]}: {error}") from error
        yield page


def _page(group: str, block: str) -> Page:
    lines = [line.strip() for line in _GOES_ON.sub(" ", block).split("\n")]
    head, facts_line, summary, complexity, *changes = lines
    name, _, syntax = head.partition(" ")
    facts = dict(fact.split(" ", 1) for fact in facts_line.split("; "))
    words = facts.pop("flags", "").split()
    arguments = parse_syntax(syntax)
    history, deprecated = _changes(changes)
    page = Page(
        name=name.lower(),
        group=group,
        arguments=arguments,
        since=facts.pop("since"),
        summary=summary,
        complexity=complexity,
        arity=int(facts.pop("arity", 0)) or _arity(name, arguments),
        flags=tuple(word for word in words if word[0] != "@"),
        own_flags=tuple(facts.pop("here", "").split()),
        own_categories=tuple(word[1:] for word in words if word[0] == "@"),
        key_specs=tuple(map(parse_key_spec, _listed(facts.pop("keys", "")))),
        tips=_listed(facts.pop("tips", "")),
        doc_flags=("deprecated",) * bool(deprecated) + _listed(facts.pop("doc", "")),
        history=history,
        deprecated_since=deprecated[0] if deprecated else "",
        replaced_by=deprecated[1] if deprecated else "",
    )
    if facts:
        raise ValueError(f"unknown facts {sorted(facts)}")
    return page


def _arity(name: str, arguments: tuple[Argument, ...]) -> int:
    """Number of arguments by a syntax, the words of the name included; negative: the minimum."""
    fewest, most = word_bounds(arguments)
    arity = fewest + len(name.split("|"))
    return arity if most == fewest else -arity


def _changes(lines: Iterable[str]) -> tuple[tuple[tuple[str, str], ...], tuple[str, str] | None]:
    """The history; and since when there is something better, and what."""
    history = []
    deprecated = None
    for line in lines:
        match = _CHANGE.fullmatch(line)
        if match is None:
            raise ValueError(f"no change of a version: {line!r}")
        is_deprecation, version, text = match.groups()
        if is_deprecation:
            deprecated = version, text
        else:
            history.append((version, text))
    return tuple(history), deprecated


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()
