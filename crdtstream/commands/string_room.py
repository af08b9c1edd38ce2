"""Limit of the strings in one batch."""

from typing import Final

from crdtstream.commands.reply import CommandError
from crdtstream.core.replica import Replica
from crdtstream.core.size import Scope, Size

# All values of one MSET are one batch, as are copies in one transaction: one record of the log, one
# message to a peer, which takes up to 1 GiB.  A value by itself is at most what the parser takes,
# 512 MiB.
STRINGS_BYTES_MAX: Final = Size(768 << 20, least=1, scope=Scope.CLIENTS)


def check_room_for_strings(replica: Replica, size: int) -> None:
    """Refuse what would be too much for one batch, with what this tick has issued already.

    Raises:
        CommandError: it is.  To be called before anything is changed.
    """
    if size + replica.open_bytes > STRINGS_BYTES_MAX.value:
        raise CommandError(
            f"ERR more than {STRINGS_BYTES_MAX.value >> 20} MiB in one command or transaction, too "
            "much to replicate at once: send it in parts"
        )
