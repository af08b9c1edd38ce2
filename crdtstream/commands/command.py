"""What a command is to those who dispatch it: its name, its argument rules, and its function.

What clients are told of it (COMMAND) is in ``documentation``; a test holds the two together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from crdtstream.commands.reply import Blocked, Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

RunCommand: TypeAlias = Callable[[Replica, Millis, list[bytes]], Reply | Blocked]


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the command table.

    Attributes:
        name: lower case; a subcommand that has a row of its own is ``xgroup|create``.
        run: answers, or says what it waits for; argv[0] is the name as the client wrote it.  It
            raises CommandError, and then nothing has changed.
        arity: how many arguments, the name included; negative: at least so many.
        flags: ``write``, ``readonly``, ``blocking``, ``fast``, ``denyoom`` …, Redis's words, and
            ``names_dots``: a reply may name a dot, which therefore has to be in the log.  What
            flags decide is told at ``Handler``.
    """

    name: bytes
    run: RunCommand
    arity: int
    flags: frozenset[str] = field(default_factory=frozenset)
