"""A program that knows XREAD and IDs only, where ``crdt_xread_mode`` is ``never-skip`` (I17).

It keeps the ID of the last entry that it got and asks again from there, with COUNT, and at times on
another connection.  It reads only where all that its region has is in the log: otherwise the reply
would not have left, and a crash could take back what it got.
"""

from typing import Final

import hiredis

from crdtstream.commands.reply import Encoded, PerKey
from crdtstream.commands.streams.never_skip import GivenReplies, xread_never_skip
from crdtstream.core.ids import StreamId, parse_id
from crdtstream.core.replica import Replica
from crdtstream.region.region import Region
from crdtstream.sim.simulated_node import SimNode

_BEGINNING: Final = b"0"


class IdReader:
    """A reader of one stream in one region.

    Attributes:
        given: IDs that it got.
    """

    def __init__(self, key: bytes) -> None:
        self.given: set[StreamId] = set()
        self._key = key
        self._position = _BEGINNING
        self._replies = GivenReplies()
        self._region: Region | None = None

    def begin_again(self) -> None:
        """Begin again, as if it had got nothing."""
        self.given.clear()
        self._position = _BEGINNING

    def may_read(self, node: SimNode) -> bool:
        """True if a reply could leave at once."""
        region = node.region
        return node.is_up and not (
            node.has_queued
            or region.tick.is_open
            or region.fault is not None
            or region.replica.has_open_section
        )

    def read(self, node: SimNode, count: int, *, reconnects: bool = False) -> set[StreamId]:
        """One XREAD.

        Returns:
            The IDs that it never got although they are in the stream, if the reply was empty.
        """
        if reconnects or node.region is not self._region:
            self._region = node.region
            self._replies = GivenReplies()
        replica = node.region.replica
        argv = [b"XREAD", b"COUNT", b"%d" % count, b"STREAMS", self._key, self._position]
        reply = xread_never_skip(self._replies, replica, node.clock, argv)
        if not isinstance(reply, PerKey):
            return self._ids_there(replica) - self.given
        for text in _ids_in(reply):
            self._position = text
            entry_id = parse_id(text, missing_seq=0)
            assert entry_id is not None
            self.given.add(entry_id)
        return set()

    def _ids_there(self, replica: Replica) -> set[StreamId]:
        stream = replica.stream(self._key)
        return set() if stream is None else {entry_id for entry_id, *_ in stream.scan()}


def _ids_in(reply: PerKey) -> list[bytes]:
    ((_, entries),) = reply.pairs
    assert isinstance(entries, Encoded)
    reader = hiredis.Reader()
    reader.feed(entries.data)
    return [entry_id for entry_id, _ in reader.gets()]
