"""A fence: the source refuses all writes, so nothing is written behind the last pass.

Redis and Valkey refuse writes while fewer replicas are connected than ``min-replicas-to-write``
asks for; a number that no server has refuses all of them, those of scripts and of group readers
too.  A pause (CLIENT PAUSE) would not do: it ends by itself, and what waited is written then, to a
server that nobody reads any more.

Always so: what the source had before is in the record at the target before the fence is raised, so
a run that finds the fence of a killed one knows what to put back.  The number is raised first and
put back last: while it is that of a fence, the record counts.
"""

from typing import Final, NamedTuple

from crdtstream.move.connection import Connection
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.errors import MoveError

REPLICAS: Final = 1_000_000
_NUMBER: Final = "min-replicas-to-write"
_LAG: Final = "min-replicas-max-lag"
# With 0 the server does not look at its replicas.
_LAG_RAISED: Final = b"10"


class Unfenced(NamedTuple):
    """Settings that the source has without the fence.

    Attributes:
        number: min-replicas-to-write.
        lag: min-replicas-max-lag.
    """

    number: bytes
    lag: bytes

    @property
    def commands(self) -> str:
        """The commands that lower the fence, for people."""
        return (
            f"CONFIG SET {_LAG} {self.lag.decode()}, then"
            f" CONFIG SET {_NUMBER} {self.number.decode()}"
        )

    def to_note(self) -> bytes:
        return b"%b %b" % self

    @classmethod
    def from_note(cls, note: bytes) -> "Unfenced":
        """
        Raises:
            MoveError: it is no such note.
        """
        words = note.split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
            raise MoveError(
                f"the record of the move has {note[:40]!r} where the settings of the fence belong"
            )
        return cls(*words)


async def unfenced(ends: Ends, note: bytes | None) -> Unfenced:
    """The settings that ``lower_fence`` is to put back; changes nothing.

    Args:
        note: of an earlier run, in the record; it counts if the source has a fence already.

    Raises:
        MoveError: the source has no such settings, or a fence of which the record knows nothing.
    """
    if ends.of_source.is_region:
        raise MoveError(
            f"{ends.source.name} is a region, which has no {_NUMBER}: stop the producers, and run"
            " the command without --stop-writes"
        )
    if ends.of_source.is_replica:
        raise MoveError(
            f"{ends.source.name} is a replica, whose master takes the writes: name the master, or"
            " stop the producers and run the command without --stop-writes"
        )
    now = await ends.work(_settings)
    if int(now.number) < REPLICAS:
        return now
    if note is None:
        raise MoveError(
            f"{ends.source.name} has {_NUMBER} {now.number.decode()} already, and the record of"
            " this move does not know what it was before: another move may have fenced it. Set it"
            " back there (CONFIG SET min-replicas-to-write 0), then run the same command again"
        )
    return Unfenced.from_note(note)


async def _settings(pair: Pair) -> Unfenced:
    return Unfenced(await _value(pair.source, _NUMBER), await _value(pair.source, _LAG))


async def _value(source: Connection, name: str) -> bytes:
    reply = await source.call("CONFIG", "GET", name)
    if not reply:
        raise MoveError(
            f"{source.name} has no {name}: stop the producers, and run the command without"
            " --stop-writes"
        )
    value: bytes = reply[1]
    return value


async def raise_fence(ends: Ends, before: Unfenced) -> None:
    """Make the source refuse writes; may run twice.

    Raises:
        MoveError: the user may not change the settings.
    """
    await ends.work(lambda pair: _raise(pair, before))


async def _raise(pair: Pair, before: Unfenced) -> None:
    await pair.source.call("CONFIG", "SET", _NUMBER, REPLICAS)
    if before.lag == b"0":
        await pair.source.call("CONFIG", "SET", _LAG, _LAG_RAISED)


async def lower_fence(ends: Ends, before: Unfenced) -> None:
    """The source takes writes again; may run twice."""
    await ends.work(lambda pair: _lower(pair, before))


async def _lower(pair: Pair, before: Unfenced) -> None:
    await pair.source.call("CONFIG", "SET", _LAG, before.lag)
    await pair.source.call("CONFIG", "SET", _NUMBER, before.number)
