"""CRDT.DIGEST: whether regions agree, in a few bytes."""

from crdtstream.commands.reply import CommandError, Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica


def crdt_digest(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """CRDT.DIGEST [key]: equal version vectors give equal digests in every region."""
    if len(argv) > 2:
        raise CommandError("ERR wrong number of arguments for 'crdt.digest' command")
    return replica.digest(argv[1] if len(argv) > 1 else None)
