"""What a command is to those who dispatch it: its name, its argument rules, and its function.

The numbers are Redis's (the reply of COMMAND INFO), so that clients which ask find what they know.
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
        flags: ``write``, ``readonly``, ``blocking``, ``fast``, ``denyoom`` … as in COMMAND INFO.
            ``write`` decides: such a command is refused while the disk refuses.  So does, though
            clients are not told, ``names_dots``: no reply may name a dot that is not in the log.
        first_key, last_key, key_step: where the keys stand in argv; last_key -1 is the last
            argument, first_key 0 means none, or that the command's own syntax says (XREAD).
        group, summary, since: for COMMAND DOCS.
    """

    name: bytes
    run: RunCommand
    arity: int
    flags: frozenset[str] = field(default_factory=frozenset)
    first_key: int = 0
    last_key: int = 0
    key_step: int = 0
    group: str = ""
    summary: str = ""
    since: str = ""

    def accepts(self, argc: int) -> bool:
        """Whether ``argc`` arguments (the name included) are neither too few nor too many."""
        return argc == self.arity if self.arity >= 0 else argc >= -self.arity
