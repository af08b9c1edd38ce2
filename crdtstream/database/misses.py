"""``keymiss``: commands that read a key which is missing (class ``m`` of notifications).

While that class is wanted, the commands that read are replaced by ones that look for their keys
first.  So nobody else pays for it.
"""

from typing import Final

from crdtstream.commands.command import Command
from crdtstream.commands.lookup import NO_SUCH_KEY, exists
from crdtstream.commands.reply import Blocked, CommandError, Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.acl.touched import touches_of
from crdtstream.database.dispatch import AnyCommand
from crdtstream.database.session import Session, SessionCommand

# Commands for which Redis 8.2 reports it.
READERS: Final = (
    *(b"copy", b"dump", b"exists", b"expiretime", b"get", b"getdel", b"getex", b"getset", b"mget"),
    *(b"pexpiretime", b"pttl", b"set", b"strlen", b"touch", b"ttl", b"type"),
    *(b"xack", b"xackdel", b"xautoclaim", b"xclaim", b"xinfo|consumers", b"xinfo|groups"),
    *(b"xinfo|stream", b"xlen", b"xpending", b"xrange", b"xread", b"xreadgroup", b"xrevrange"),
)
# Errors of a command that has looked for its keys; after another one it has not come so far.
_AFTER_LOOKING: Final = (NO_SUCH_KEY, "NOGROUP")


def noting_misses(replica: Replica, command: AnyCommand) -> AnyCommand:
    """A command that does the same, and notes which of the keys that it reads are missing."""
    name = command.name
    if isinstance(command, Command):
        on_replica = command.run

        def run(given: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
            with _Look(replica, name, argv):
                return on_replica(given, now, argv)

        return Command(name, run, command.arity, command.flags)
    on_session = command.run

    def run_for(session: Session, now: Millis, argv: list[bytes]) -> Reply | Blocked:
        with _Look(replica, name, argv):
            return on_session(session, now, argv)

    return SessionCommand(name, run_for, command.arity, command.flags)


class _Look:
    """A look at the keys of a request before it runs, noted if the request comes to its keys."""

    def __init__(self, replica: Replica, name: bytes, argv: list[bytes]) -> None:
        self._replica = replica
        self._missing = [key for key in _keys_read(name, argv) if not exists(replica, key)]
        self._at = replica.noted_count

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: object, _traceback: object) -> None:
        if error is None or (
            isinstance(error, CommandError) and error.text.startswith(_AFTER_LOOKING)
        ):
            # Before the notifications of the command's own changes.
            self._replica.note_misses(self._missing, at=self._at)


def _keys_read(name: bytes, argv: list[bytes]) -> list[bytes]:
    """Keys that a request reads; SET reads with GET only, and COPY does not read its target."""
    if name == b"set" and not any(word.lower() == b"get" for word in argv[3:]):
        return []
    keys = [touched.key for touched in touches_of(name).keys(argv)]
    return keys[:1] if name == b"copy" else keys
