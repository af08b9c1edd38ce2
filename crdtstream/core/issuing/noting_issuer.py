"""The issuer that commands call while notifications are wanted.

It does what the issuer does, and notes what that did to the key.  The replica binds either the one
or the other (``Replica.begin_noting``), so XADD pays nothing while no notifications are wanted.
"""

from array import array
from collections.abc import Sequence

from crdtstream.core.applying.noting import Noting
from crdtstream.core.effects import (
    Append,
    ChangeMembers,
    Claim,
    CreateConsumer,
    Deliver,
    Effect,
    IdempotentId,
    LocalChange,
    Numbered,
)
from crdtstream.core.ids import Millis, StreamId
from crdtstream.core.issuing.issuer import Issuer
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.entry_run import EntryRun


class NotingIssuer:
    """See the module's text; each method is that of ``Issuer``."""

    __slots__ = ("_issuer", "_noting")

    def __init__(self, issuer: Issuer, noting: Noting) -> None:
        self._issuer = issuer
        self._noting = noting

    def append(
        self,
        key: bytes,
        entry_id: StreamId,
        fields: bytes,
        idempotent: IdempotentId | None = None,
    ) -> None:
        was_visible = self._noting.is_visible(key)
        self._issuer.append(key, entry_id, fields, idempotent)
        self._noting.note_appends(key, 1, was_visible=was_visible)

    def append_run(self, key: bytes, run: EntryRun) -> None:
        was_visible = self._noting.is_visible(key)
        self._issuer.append_run(key, run)
        self._noting.note_appends(key, len(run.ms), was_visible=was_visible)

    def append_mixed(
        self,
        keys: Sequence[bytes],
        streams: Sequence[Stream],
        *,
        now: Millis,
        starts: Sequence[int],
        lengths: "array[int]",
        fields: bytes,
    ) -> tuple["array[int]", "array[int]"]:
        ids = self._issuer.append_mixed(
            keys, streams, now=now, starts=starts, lengths=lengths, fields=fields
        )
        for key in keys:
            self._noting.note_append(key)
        return ids

    def append_rows(self, key: bytes, run: EntryRun, first: Numbered) -> None:
        was_visible = self._noting.is_visible(key)
        self._issuer.append_rows(key, run, first)
        self._noting.note_appends(key, len(run.ms), was_visible=was_visible)

    def issue(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            self.append(effect.key, effect.id, effect.fields, effect.idempotent)
            return
        if isinstance(effect, ChangeMembers):
            self._issuer.issue(effect)
            return
        before = self._noting.look(effect.key)
        self._issuer.issue(effect)
        self._noting.note_effect(before, effect)

    def note(self, change: LocalChange) -> None:
        noting = self._noting
        makes_consumer = isinstance(
            change, CreateConsumer | Claim | Deliver
        ) and not noting.knows_consumer(change.key, change.group, change.consumer)
        self._issuer.note(change)
        if makes_consumer:
            noting.note_consumer(change.key)
        noting.note_change(change)

    def see_consumer(self, key: bytes, group: bytes, consumer: bytes, now: Millis) -> None:
        is_known = self._noting.knows_consumer(key, group, consumer)
        self._issuer.see_consumer(key, group, consumer, now)
        if not is_known:
            self._noting.note_consumer(key)
