"""Keyspace notifications: publications of what happened to keys (``notify-keyspace-events``).

    replica ── take_noted ──> notifications ── tell ──┬─> __keyspace@0__:KEY    the name
                                                      └─> __keyevent@0__:NAME   the key

They are sent when the tick ends, so that they leave when the log has what they report.  They stay
in this region: every region sends its own when it applies the same effects.

Always so: without a class and a place to publish, the replica notes nothing and works as if this
module did not exist.
"""

from typing import Final

from crdtstream.core.notifications import CLASS_OF, KEYMISS
from crdtstream.core.replica import Replica
from crdtstream.database.channels import Channels
from crdtstream.database.dispatch import AnyCommand, Dispatch
from crdtstream.database.misses import READERS, noting_misses

_PLACES: Final = frozenset("KE")
KEYSPACE: Final = b"__keyspace@0__:"
KEYEVENT: Final = b"__keyevent@0__:"


class Notifications:
    """The notifications of one region.

    Attributes:
        classes: those that are wanted, and the places to publish them.
        is_on: something may be published.
    """

    def __init__(self, replica: Replica, channels: Channels, dispatch: Dispatch) -> None:
        self.classes: frozenset[str] = frozenset()
        self.is_on = False
        self._replica = replica
        self._channels = channels
        self._dispatch = dispatch
        # Commands without what notes their misses, while that is in their place.
        self._readers: list[AnyCommand] = []
        self._wanted: frozenset[bytes] = frozenset()

    def want(self, classes: frozenset[str]) -> None:
        """Publish these classes from now on, and what happened before by the former ones."""
        if self.is_on:
            self.tell()
        self.classes = classes
        self._wanted = frozenset(name for name, one in CLASS_OF.items() if one in classes)
        self.is_on = bool(self._wanted) and not _PLACES.isdisjoint(classes)
        if self.is_on:
            self._replica.begin_noting()
        else:
            self._replica.end_noting()
        self._look_for_misses(are_wanted=self.is_on and KEYMISS in self._wanted)

    def _look_for_misses(self, *, are_wanted: bool) -> None:
        if are_wanted is bool(self._readers):
            return
        if are_wanted:
            self._readers = [self._dispatch.commands[name] for name in READERS]
            self._dispatch.register(noting_misses(self._replica, one) for one in self._readers)
        else:
            self._dispatch.register(self._readers)
            self._readers = []

    def tell(self) -> None:
        """Send what happened since the last call to the clients that listen in this region."""
        noted = self._replica.take_noted()
        channels = self._channels
        if not channels.session_count:
            return
        by_key, by_name = "K" in self.classes, "E" in self.classes
        for name, key in noted:
            if name in self._wanted:
                if by_key:
                    channels.hand_out(KEYSPACE + key, name, sharded=False)
                if by_name:
                    channels.hand_out(KEYEVENT + name, key, sharded=False)
