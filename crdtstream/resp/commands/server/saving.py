"""SAVE, BGSAVE and LASTSAVE: checkpoints, by the names that Redis has for its snapshots.

Acknowledged writes are durable without them (``appendfsync``): a checkpoint makes restarts quick
and lets the log be cut.
"""

from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR
from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, Blocked, CommandError, Reply, Status
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.region.checkpointing import Checkpointing

IN_PROGRESS: Final = "ERR Background save already in progress"
UNSUPPORTED: Final = "ERR this node keeps its log whole and writes no checkpoints"


class SavingCommands:
    """SAVE, BGSAVE and LASTSAVE."""

    def __init__(self, replica: Replica, checkpointing: Checkpointing) -> None:
        self._replica = replica
        self._checkpointing = checkpointing

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"save": self._save,
            b"bgsave": self._bgsave,
            b"lastsave": self._lastsave,
        }
        return documented(SessionCommand, functions)

    @property
    def last_save_s(self) -> int:
        """When the last checkpoint was written; without one, when the node started, as in Redis."""
        return self._checkpointing.since_ms // 1000

    def _bgsave(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """BGSAVE [SCHEDULE]: begin a checkpoint; with SCHEDULE also while one is under way."""
        words = [word.lower() for word in argv[1:]]
        if words not in ([], [b"schedule"]):
            raise CommandError(SYNTAX_ERROR)
        checkpointing = self._wanted()
        if checkpointing.began_ms is None:
            checkpointing.want()
            return Status(b"Background saving started")
        if not words:
            raise CommandError(IN_PROGRESS)
        checkpointing.want()
        return Status(b"Background saving scheduled")

    def _save(self, _session: Session, now: Millis, _argv: list[bytes]) -> Reply | Blocked:
        """SAVE: make a checkpoint, and answer when it is written.

        Other clients are served in the meantime.  If a checkpoint is under way, SAVE first waits
        for that one.
        """
        checkpointing = self._wanted()
        failures = checkpointing.failures
        # One that is under way does not have what was written since it began.
        wanted = checkpointing.count + 1 + (checkpointing.began_ms is not None)
        checkpointing.want()

        def retry(_replica: Replica, _now: Millis) -> Reply | Blocked:
            if checkpointing.failures > failures:
                raise CommandError(f"ERR {checkpointing.failure}")
            if checkpointing.count >= wanted:
                return OK
            return Blocked((), 0, retry, on_timeout=None)

        return retry(self._replica, now)

    def _lastsave(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """LASTSAVE: when the last checkpoint was written, in seconds since the epoch."""
        return self.last_save_s

    def _wanted(self) -> Checkpointing:
        if not self._checkpointing.is_supported:
            raise CommandError(UNSUPPORTED)
        return self._checkpointing
