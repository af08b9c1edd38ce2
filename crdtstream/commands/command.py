"""A command as it is dispatched: its name, its function, and the facts that its page states.

A page of the manual (``documentation``) is the one place where a command's arity and flags stand.
``documented`` joins pages and functions:

    XADD key … (data: field value)...        b"xadd": xadd
        … flags write denyoom fast …              │
                      └───────── documented ──────┘
                Command(b"xadd", xadd, arity -5, {"write", "denyoom", "fast"})
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias, TypeVar

from crdtstream.commands.documentation.manual import pages
from crdtstream.commands.reply import Blocked, Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

RunCommand: TypeAlias = Callable[[Replica, Millis, list[bytes]], Reply | Blocked]
CommandT = TypeVar("CommandT")
RunT = TypeVar("RunT")


@dataclass(frozen=True, slots=True)
class Command:
    """A command on the replica.

    Attributes:
        name: lower case; ``xgroup|create`` of a subcommand.
        run: answers, or says what it waits for; argv[0] is the name as the client wrote it.  It
            raises CommandError, and then nothing has changed.
        arity: number of arguments, the name included; negative: the minimum.
        flags: Redis's words (``write``, ``readonly``, ``blocking``, ``fast`` …) and ours; see
            ``Page``.  ``Handler`` says what they decide.
    """

    name: bytes
    run: RunCommand
    arity: int
    flags: frozenset[str] = field(default_factory=frozenset)


def documented(
    kind: Callable[[bytes, RunT, int, frozenset[str]], CommandT], functions: Mapping[bytes, RunT]
) -> list[CommandT]:
    """Commands whose arity and flags are those of their pages.

    Args:
        kind: ``Command``, or another with the same attributes.
        functions: by name.

    Raises:
        KeyError: a command has no page.
    """
    return [kind(name, run, *_facts(name.decode())) for name, run in functions.items()]


@cache
def _facts(name: str) -> tuple[int, frozenset[str]]:
    """The arity and the flags on a command's page."""
    page = pages()[name]
    return page.arity, frozenset((*page.flags, *page.own_flags))
