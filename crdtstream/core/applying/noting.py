"""Notifications of what effects and local changes did to a key: its state before and after.

    before = noting.look(key)  ──>  the effect is applied  ──>  noting.note_effect(before, effect)

An effect of another region is judged by what it changed here: a DeleteKey that leaves concurrent
entries is no ``del`` of the key.  Where nobody asked for notifications, nothing here is called.

A command whose notifications are others than those of its effects (RENAME is a delete and many
appends) *announces* them: nothing else is noted of what it issues.
"""

from typing import NamedTuple, assert_never

from crdtstream.core.effects import (
    AckFrontier,
    AddToString,
    CreateGroup,
    DeleteConsumer,
    DeleteKey,
    DeleteString,
    DestroyGroup,
    ExpireKey,
    KeyEffect,
    LocalChange,
    Remove,
    SetExpiry,
    SetGroupMode,
    SetLastId,
    SetPosition,
    SetStreamConfig,
    SetString,
    SetStringExpiry,
    Trim,
)
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.notifications import (
    DEL,
    EXPIRE,
    EXPIRED,
    INCRBY,
    NEW,
    OVERWRITTEN,
    PERSIST,
    SET,
    XADD,
    XDEL,
    XGROUP_CREATE,
    XGROUP_CREATECONSUMER,
    XGROUP_DELCONSUMER,
    XGROUP_DESTROY,
    XGROUP_SETID,
    XSETID,
    XTRIM,
    Notification,
)
from crdtstream.core.whole.state import State


class Before(NamedTuple):
    """A key before it is changed.

    Attributes:
        is_there: it holds something, perhaps expired.
        is_visible: clients see it.
        has_string: clients see a string of that name, or would without the stream.
        is_overdue: its string has expired and was not deleted yet.
        length: number of its entries.
        lane_length: number of its entries of the region that was named.
        groups: the names of its groups.
    """

    is_there: bool
    is_visible: bool
    has_string: bool
    is_overdue: bool
    length: int
    lane_length: int
    groups: frozenset[bytes]


class Noting:
    """Collects the notifications of a replica.

    Attributes:
        noted: since they were last taken, in the order in which they happened.
        is_silent: nothing is noted, because a command announces what it does.
    """

    __slots__ = ("_keys", "is_silent", "noted")

    def __init__(self, state: State) -> None:
        self.noted: list[Notification] = []
        self.is_silent = False
        self._keys = state.keys

    def take(self) -> list[Notification]:
        """The notifications since the last call."""
        noted, self.noted = self.noted, []
        return noted

    def note(self, key: bytes, *names: bytes) -> None:
        if not self.is_silent:
            self.noted += [Notification(name, key) for name in names]

    def note_expired(self, key: bytes) -> None:
        """Note that an expired key was deleted from here."""
        self.note(key, EXPIRED)

    # --- Before and after ---------------------------------------------------------------------

    def look(self, key: bytes, origin: RegionId | None = None) -> Before:
        """Look at a key that is about to be changed.

        Args:
            origin: the region whose lane is counted by itself.
        """
        keys = self._keys
        stream = keys.streams.get(key)
        lane = None if stream is None or origin is None else stream.lanes.get(origin)
        has_string = keys.string(key) is not None
        return Before(
            is_there=stream is not None or key in keys.strings,
            is_visible=has_string or keys.stream(key) is not None,
            has_string=has_string,
            is_overdue=key in keys.due_strings and key in keys.strings,
            length=0 if stream is None else stream.length,
            lane_length=0 if lane is None else lane.length,
            groups=frozenset() if stream is None else frozenset(stream.groups),
        )

    def is_visible(self, key: bytes) -> bool:
        """True if clients see the key: all that has to be known before an append."""
        return self._keys.stream(key) is not None or self._keys.string(key) is not None

    def note_appends(self, key: bytes, count: int, *, was_visible: bool) -> None:
        """Note that entries were appended."""
        if not was_visible:
            self.note(key, NEW)
        self.note(key, *(XADD,) * count)

    def note_append(self, key: bytes) -> None:
        """Note that an entry was appended to a stream that was there."""
        self.note(key, XADD)

    def note_stayed(self, before: Before, key: bytes, origin: RegionId) -> None:
        """Note that a region's entries were appended, as far as they did not give way to others of
        the same name."""
        lane = self._keys.streams[key].lanes[origin]
        count = max(0, lane.length - before.lane_length)
        self.note_appends(key, count, was_visible=before.is_visible)

    def note_effect(self, before: Before, effect: KeyEffect) -> None:
        """Note what an effect, which is not an Append, did to its key."""
        match effect:
            case Remove():
                self._note_fewer(before, effect.key, XTRIM if effect.trims else XDEL)
            case Trim():
                self._note_fewer(before, effect.key, XTRIM)
            case DeleteKey():
                self._note_end(before, effect.key, DEL)
            case ExpireKey():
                self._note_end(before, effect.key, EXPIRED)
            case DeleteString():
                self._note_end(before, effect.key, EXPIRED if before.is_overdue else DEL)
            case CreateGroup():
                self._note_group(before, effect)
            case DestroyGroup():
                self._note_no_group(before, effect)
            case SetLastId():
                self.note(effect.key, *self._new(before), XSETID)
            case SetExpiry():
                if effect.key in self._keys.streams:
                    self._note_deadline(
                        effect.key, effect.deadline, self._keys.expiry.of(effect.key)
                    )
            case SetStringExpiry():
                if effect.key in self._keys.strings:
                    self._note_deadline(
                        effect.key, effect.deadline, self._keys.string_expiry.of(effect.key)
                    )
            case SetString():
                self._note_string(before, effect)
            case AddToString():
                self._note_addition(before, effect)
            case AckFrontier() | SetStreamConfig() | SetGroupMode():
                # Redis has no name for these.
                pass
            case _:
                assert_never(effect)

    def _new(self, before: Before) -> tuple[bytes, ...]:
        return () if before.is_visible else (NEW,)

    def _note_fewer(self, before: Before, key: bytes, name: bytes) -> None:
        """Note the name if the key has fewer entries than before."""
        stream = self._keys.streams.get(key)
        if (0 if stream is None else stream.length) < before.length:
            self.note(key, name)

    def _note_end(self, before: Before, key: bytes, name: bytes) -> None:
        """Note the end of a key; of one that goes on, because of what was concurrent, the entries
        that it lost."""
        keys = self._keys
        if key in keys.streams or key in keys.strings:
            self._note_fewer(before, key, XDEL)
        elif before.is_there:
            self.note(key, name)

    def _note_group(self, before: Before, effect: CreateGroup) -> None:
        stream = self._keys.streams.get(effect.key)
        if stream is not None and effect.group in stream.groups:
            self.note(effect.key, *self._new(before))
            if effect.group not in before.groups:
                self.note(effect.key, XGROUP_CREATE)

    def _note_no_group(self, before: Before, effect: DestroyGroup) -> None:
        if effect.group not in before.groups:
            return
        self.note(effect.key, XGROUP_DESTROY)
        if effect.key not in self._keys.streams and effect.key not in self._keys.strings:
            # The stream never had an entry, and ends with its last group.
            self.note(effect.key, DEL)

    def _note_deadline(self, key: bytes, wanted: Millis | None, counts: Millis | None) -> None:
        """Note a deadline that was set, if it is the one that counts."""
        if wanted == counts:
            self.note(key, PERSIST if wanted is None else EXPIRE)

    def _note_string(self, before: Before, effect: SetString) -> None:
        """Note a string that was set, if clients see it."""
        key = effect.key
        string: StringRegister | None = self._keys.strings.get(key)
        is_hidden = self._keys.stream(key) is not None
        if string is None or is_hidden or string.data is not effect.value:
            return
        if before.is_overdue:
            self.note(key, EXPIRED)
        self.note(key, *self._new(before))
        if before.has_string:
            self.note(key, OVERWRITTEN)
        self.note(key, SET)
        if effect.deadline is not None:
            self.note(key, EXPIRE)

    def _note_addition(self, before: Before, effect: AddToString) -> None:
        """Note what was added to a string, if clients see it."""
        string = self._keys.string(effect.key)
        if string is None or self._keys.stream(effect.key) is not None:
            return
        if string.dot in (None, effect.base):
            self.note(effect.key, *self._new(before), INCRBY)

    # --- Local changes ------------------------------------------------------------------------

    def knows_consumer(self, key: bytes, group: bytes, consumer: bytes) -> bool:
        return consumer in self._keys.streams[key].groups[group].consumers

    def note_consumer(self, key: bytes) -> None:
        """Note that a group has one consumer more."""
        self.note(key, XGROUP_CREATECONSUMER)

    def note_change(self, change: LocalChange) -> None:
        """Note a local change; a consumer that it made was noted already."""
        match change:
            case DeleteConsumer():
                self.note(change.key, XGROUP_DELCONSUMER)
            case SetPosition():
                self.note(change.key, XGROUP_SETID)
            case _:
                pass
