"""Listeners in this region, as they are reported to a peer; without any IO.

A region reports to each peer that pulls from it how many of its clients listen to which name: all
names when the link opens, and then changes.  A name that changes back and forth while the link is
busy is reported once, with its present number.  The peer forgets all of it when the link ends, so
no report outlives the region that sent it.

The cost is bounded: a name is reported only up to NAME_BYTES_MAX, and all names of a region
together only up to NAMES_BYTES_MAX, at both ends.  No peer knows of names beyond that, but their
listeners hear all the same.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.core.size import Scope, Size
from crdtstream.database.channels import Channels
from crdtstream.database.elsewhere import Elsewhere
from crdtstream.database.listening import Kind
from crdtstream.region.links.errors import PeerError

NAME_BYTES_MAX: Final = 16 << 10
# About 150,000 names of 48 bytes.
NAMES_BYTES_MAX: Final = Size(16 << 20, least=1, scope=Scope.REGIONS)
# Gathered into one message of the link, between two messages of batches.
MESSAGE_BYTES_TARGET: Final = Size(32 << 10, least=1)
# Weight of a name besides its bytes.
OVERHEAD_BYTES: Final = 64
# Kinds by the names of the protocol.
KINDS: Final = {kind.name: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class ListenerCount:
    """Number of listeners to a name in the reporting region; 0: none any more."""

    kind: Kind
    name: bytes
    count: int


def weight(name: bytes) -> int:
    return len(name) + OVERHEAD_BYTES


class Telling:
    """Reports that one link has still to send."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._told: dict[Kind, dict[bytes, int]] = {kind: {} for kind in Kind}
        self._told_bytes = 0
        # Used as ordered sets whose first element is found at once: a plain dict passes all
        # elements that were taken before it.
        self._due = {kind: OrderedDict.fromkeys(channels.active(kind)) for kind in Kind}

    def note(self, kind: Kind, name: bytes) -> None:
        """Note that the number of listeners to a name has changed."""
        self._due[kind][name] = None

    def take(self) -> list[ListenerCount]:
        """Reports for one message; empty: all is sent."""
        taken: list[ListenerCount] = []
        room = MESSAGE_BYTES_TARGET.value
        for kind, due in self._due.items():
            while due and room > 0:
                name, _ = due.popitem(last=False)
                count = self._channels.listener_count(kind, name)
                if self._is_news(kind, name, count):
                    taken.append(ListenerCount(kind, name, count))
                    room -= weight(name)
        return taken

    def _is_news(self, kind: Kind, name: bytes, count: int) -> bool:
        """True if a number is to be sent; it counts as sent then."""
        told = self._told[kind]
        before = told.get(name, 0)
        if count == before:
            return False
        if not before:
            size = self._told_bytes + weight(name)
            if len(name) > NAME_BYTES_MAX or size > NAMES_BYTES_MAX.value:
                return False
            self._told_bytes = size
        if count:
            told[name] = count
        else:
            del told[name]
            self._told_bytes -= weight(name)
        return True


class Heard:
    """Listeners of the peer, as one link has reported them, until it ends."""

    def __init__(self, peer: RegionId, elsewhere: Elsewhere) -> None:
        self._peer = peer
        self._elsewhere = elsewhere
        self._names: set[tuple[Kind, bytes]] = set()
        self._names_bytes = 0

    def note(self, told: ListenerCount) -> None:
        """Take in a report of the peer.

        Raises:
            PeerError: it reports more than it may.
        """
        key = told.kind, told.name
        if not told.count:
            if key in self._names:
                self._names.remove(key)
                self._names_bytes -= weight(told.name)
        elif key not in self._names:
            if self._names_bytes + weight(told.name) > NAMES_BYTES_MAX.value:
                raise PeerError(
                    self._peer,
                    f"listeners: their names are not within {NAMES_BYTES_MAX.value} bytes",
                )
            self._names.add(key)
            self._names_bytes += weight(told.name)
        self._elsewhere.note(self._peer, told.kind, told.name, told.count)

    def forget(self) -> None:
        """Forget all: the link ends, or begins again."""
        self._names.clear()
        self._names_bytes = 0
        self._elsewhere.forget(self._peer)
