"""IDMP and IDMPAUTO in XADD, and XCFGSET: an append that is tried again is one entry.

The region that gets a retry answers the first entry's ID if its window still knows it.  Two regions
that took the same append at once settle it when they hear of each other (``rules`` 20).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, integer
from crdtstream.commands.lookup import stream_or_error
from crdtstream.commands.reply import OK, CommandError, Reply
from crdtstream.core.effects import IdempotentId, SetStreamConfig
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.producers.idempotency import DURATION_S_MAX, MAXSIZE_MAX
from crdtstream.core.replica import Replica

# The size of an IDMPAUTO id: a hash that is the same in every region and every run.
FIELDS_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class IdempotencyOption:
    """``IDMP producer id`` or, without an id, ``IDMPAUTO producer``."""

    producer: bytes
    id: bytes | None

    def named(self, fields: Sequence[bytes]) -> IdempotentId:
        """Name by which this append is recognised."""
        return IdempotentId(self.producer, fields_id(fields) if self.id is None else self.id)


def take_option(argv: list[bytes], at: int) -> tuple[IdempotencyOption, int] | None:
    """The option at ``at`` and how many arguments it took; None if it is none."""
    more = len(argv) - 1 - at
    match argv[at].lower():
        case b"idmp" if more >= 2:
            producer, name = argv[at + 1 : at + 3]
            if not producer:
                raise CommandError("ERR IDMP requires a non-empty producer ID")
            if not name:
                raise CommandError("ERR IDMP requires a non-empty idempotent ID")
            return IdempotencyOption(producer, name), 3
        case b"idmpauto" if more:
            producer = argv[at + 1]
            if not producer:
                raise CommandError("ERR IDMPAUTO requires a non-empty producer ID")
            return IdempotencyOption(producer, None), 2
    return None


def fields_id(fields: Sequence[bytes]) -> bytes:
    """An id of fields and values, whatever the order of the pairs."""
    digest = blake2b(digest_size=FIELDS_ID_BYTES)
    for pair in sorted(zip(fields[::2], fields[1::2], strict=True)):
        for part in pair:
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.digest()


# --- XCFGSET ------------------------------------------------------------------------------------


def xcfgset(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XCFGSET key [IDMP-DURATION s] [IDMP-MAXSIZE n]: how much the stream's window recognises.

    A bound that changes makes the stream forget the ids it recognises, in every region; one that
    stays as it is does not.  It is issued all the same: of concurrent values the greatest counts,
    so the other regions must hear of it.

    Raises:
        CommandError: no option, a bound out of range, or no such key.

    Source: redis.io/commands/xcfgset; ``rules`` 8.
    """
    key = argv[1]
    duration_s, maxsize = _bounds(argv)
    stream_or_error(replica, key)
    replica.issue(SetStreamConfig(key, duration_s, maxsize))
    return OK


def _bounds(argv: list[bytes]) -> tuple[int | None, int | None]:
    """Duration and size, None where they are not given."""
    duration_s: int | None = None
    maxsize: int | None = None
    if len(argv) == 2:
        raise CommandError(
            "ERR At least one parameter must be specified: IDMP-DURATION or IDMP-MAXSIZE"
        )
    for at in range(2, len(argv), 2):
        option = argv[at].lower()
        if option not in (b"idmp-duration", b"idmp-maxsize") or at + 1 == len(argv):
            raise CommandError(SYNTAX_ERROR)
        value = integer(argv[at + 1])
        if option == b"idmp-duration":
            if not 1 <= value <= DURATION_S_MAX:
                raise CommandError(
                    f"ERR IDMP-DURATION must be between 1 and {DURATION_S_MAX} seconds"
                )
            duration_s = value
        else:
            if not 1 <= value <= MAXSIZE_MAX:
                raise CommandError(f"ERR IDMP-MAXSIZE must be between 1 and {MAXSIZE_MAX} entries")
            maxsize = value
    return duration_s, maxsize


# --- XINFO --------------------------------------------------------------------------------------


def window_facts(
    replica: Replica, now: Millis, key: bytes, stream: Stream
) -> list[tuple[bytes, Reply]]:
    """Facts of the window for XINFO STREAM.  Ids too old to be recognised are dropped first."""
    duration_s = replica.keys.idmp_duration_of(key)
    window = stream.window
    if window is not None:
        window.forget_old(now=now, duration_s=duration_s)
    return [
        (b"idmp-duration", duration_s),
        (b"idmp-maxsize", replica.keys.idmp_maxsize_of(key)),
        (b"pids-tracked", 0 if window is None else window.producer_count),
        (b"iids-tracked", 0 if window is None else window.id_count),
        (b"iids-added", 0 if window is None else window.added),
        (b"iids-duplicates", 0 if window is None else window.duplicates),
    ]
