"""Who listens in this region, on its way to a peer; without any IO.

A region tells each peer that pulls from it how many of its clients listen to which name: all of
them when the link opens, and then what changes.  What changes back and forth while the link is busy
is told once, as it is then.  The peer forgets it all when the link ends, so nothing is told that
outlives who told it.

What it costs is bounded: a name is told only up to NAME_BYTES_MAX, and all names of a region
together only up to NAMES_BYTES_MAX, at both ends.  Of what is beyond no peer knows; it is heard all
the same.
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
# Gathered into one message of the link, between two of batches.
MESSAGE_BYTES_TARGET: Final = Size(32 << 10, least=1)
# What a name weighs besides its bytes.
OVERHEAD_BYTES: Final = 64
# As the protocol calls them.
KINDS: Final = {kind.name: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class ListenerCount:
    """How many listen to a name in the region that tells; 0: nobody any more."""

    kind: Kind
    name: bytes
    count: int


def weight(name: bytes) -> int:
    return len(name) + OVERHEAD_BYTES


class Telling:
    """What one link has still to tell."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._told: dict[Kind, dict[bytes, int]] = {kind: {} for kind in Kind}
        self._told_bytes = 0
        # For sets that keep the order, and give the first one at once: a plain dict looks through
        # all that were taken before it.
        self._due = {kind: OrderedDict.fromkeys(channels.active(kind)) for kind in Kind}

    def note(self, kind: Kind, name: bytes) -> None:
        """The number of listeners to a name has changed."""
        self._due[kind][name] = None

    def take(self) -> list[ListenerCount]:
        """One message of what is to be told; nothing: all is told."""
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
        """Whether to tell it; if so, it counts as told."""
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
    """What one link has told of its peer's listeners, until the link ends."""

    def __init__(self, peer: RegionId, elsewhere: Elsewhere) -> None:
        self._peer = peer
        self._elsewhere = elsewhere
        self._names: set[tuple[Kind, bytes]] = set()
        self._names_bytes = 0

    def note(self, told: ListenerCount) -> None:
        """The peer told one.

        Raises:
            PeerError: it tells of more than it may.
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
        """The link ends, or begins again."""
        self._names.clear()
        self._names_bytes = 0
        self._elsewhere.forget(self._peer)
