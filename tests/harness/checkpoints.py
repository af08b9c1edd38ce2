"""Checkpoints of a region in a test, a step at a time, and what must be in them."""

from collections.abc import Iterator

import msgspec

from crdtstream.core.checkpoint.contents import GroupContent, packed, unpacked
from crdtstream.core.checkpoint.parts import STAGED, Cut, Encoded, Image, Kind, Part
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.packing import pack
from crdtstream.core.merge.sent import (
    SentKey,
    SentState,
    by_key,
    sent_histories,
    sent_key,
    sent_members,
)
from crdtstream.core.replica import Replica

# An image without its number.
Content = tuple[int, int, int, bytes, bytes, bool]


class Checkpoints:
    """The checkpoints of one folder.

    Attributes:
        images: of the newest one, by number.
        records: how many records of the log it has.
    """

    def __init__(self) -> None:
        self.images: dict[int, Image] = {}
        self.records = 0
        self._cut: Cut | None = None
        self._written: dict[int, Image] = {}
        self._nodes: list[tuple[MacroNode, int]] = []
        self._cut_records = 0
        self._expected: set[Content] = set()
        # What was staged of other regions, by number and by cut; it is kept for good.
        self.staged: dict[int, Image] = {}
        self._states: dict[bytes, list[Image]] = {}

    @property
    def is_running(self) -> bool:
        return self._cut is not None

    @property
    def left(self) -> int:
        """Number of parts that the running one has still to write."""
        assert self._cut is not None
        return self._cut.left

    def begin(self, replica: Replica, records: int) -> None:
        """Cut; the log has so many records, and the replica has lived through all of them."""
        assert self._cut is None
        self._written, self._nodes = {}, []
        self._cut_records = records
        self._cut = replica.cut()
        self._expected = {_durable(self._content(part, replica)) for part in parts_of(replica)}

    def write(self, count: int) -> None:
        """Write some of the parts that the cut has."""
        assert self._cut is not None
        for _ in range(count):
            taken = self._cut.take()
            if taken is None:
                return
            part, image = taken
            self._written[image.number] = image
            if isinstance(part, MacroNode):
                self._nodes.append((part, image.number))

    def finish(self, replica: Replica) -> None:
        """Write the others, commit, and see that the checkpoint has what there was at the cut."""
        assert self._cut is not None
        while self._cut.left:
            self.write(1)
        for number in filter(None, self._cut.replaced()):
            del self.images[number]
        self.images |= self._written
        self.records = self._cut_records
        self._cut.finish()
        self._cut = None
        written = {_durable(image[1:]) for image in self.images.values()}
        assert written == self._expected
        for node, number in self._nodes:
            replica.residency.note_saved(node, number)
        replica.residency.loader = self.load

    def abandon(self) -> None:
        """The disk refused."""
        if self._cut is not None:
            self._cut.abandon()
            self._cut = None

    def load(self, number: int) -> bytes:
        image = self.staged[number] if number >= STAGED else self.images[number]
        return image.body if image.is_packed else pack(image.body)

    def stage(self, replica: Replica, key: bytes | None = None) -> Merged:
        """Have the state of another region, or one key of it, as a checkpoint of it would be
        now."""
        merged = Merged(len(self._states).to_bytes(16), replica.region, dict(replica.vv), key)
        owners = {0, *(part.number for part in replica._state.parts if key in (None, part.key))}
        # Parts that are not staged have numbers, too.
        first = max(self.staged, default=STAGED) + 1
        images = []
        for number, part in enumerate(parts_of(replica), first):
            if part.kind is not Kind.PENDING:
                image = Image(number, part.kind, *encoded(part))
                if image.owner not in owners:
                    continue
                self.staged[number] = image
                images.append(image._replace(number=number - STAGED, body=b"", is_packed=False))
        self._states[merged.cut_id] = images
        return merged

    def staged_state(self, merged: Merged) -> SentState:
        """The state that was staged."""
        images = self._states[merged.cut_id]
        (root,) = (image for image in images if image.kind is Kind.ROOT)
        keys = (sent_key(of_key, merged.source) for of_key in by_key(images))

        def again(owner: int) -> SentKey:
            of_key = [one for one in images if one.owner == owner and one is not root]
            return sent_key(of_key, merged.source)

        return SentState(keys, again, sent_members(root), sent_histories(root))

    def restore(self, replica: Replica) -> None:
        """The process ended; another one begins with the newest checkpoint."""
        self._cut = None
        replica.residency.loader = self.load
        replica.staged = self.staged_state
        if self.images:
            replica.restore(
                image._replace(body=b"") if image.kind is Kind.NODE else image
                for image in self.images.values()
            )

    def wipe(self) -> None:
        """The folder is gone."""
        self.images, self.records, self._cut = {}, 0, None

    def _content(self, part: Part, replica: Replica) -> Content:
        if isinstance(part, MacroNode):
            # One that came with another region's state stays as it came while it is only read.
            as_it_came = replica.residency._as_it_came
            is_as_written = part.cold is not None or part in as_it_came
            if is_as_written and part.image < STAGED and part.image in self.images:
                return self.images[part.image][1:]
            was_encoded = part.is_encoded
            found = part.encode()
            part.is_encoded = was_encoded
        else:
            found = part.encode()
        return (part.kind, *found)


def _durable(content: Content) -> Content:
    """Without when consumers were last seen: that changes without a record, so nobody notes it."""
    kind, owner, lane, head, body, is_packed = content
    if kind is Kind.GROUP:
        group = unpacked(head, GroupContent)
        consumers = [msgspec.structs.replace(one, seen_ms=Millis(0)) for one in group.consumers]
        head = packed(msgspec.structs.replace(group, consumers=consumers))
    return kind, owner, lane, head, body, is_packed


def encoded(part: Part) -> Encoded:
    """A part as it is now; a macro node that is not in memory is read."""
    if isinstance(part, MacroNode):
        was_encoded = part.is_encoded
        part.warm()
        found = part.encode()
        part.is_encoded = was_encoded
        return found
    return part.encode()


def parts_of(replica: Replica) -> Iterator[Part]:
    """Everything that a checkpoint has, whether it changed or not."""
    state = replica._state
    yield state.root
    yield from state.parts
    yield from state.parts.producers()
    for stream in state.keys.streams.values():
        for lane in stream.lanes.values():
            yield from lane.macro_nodes()
        for group in stream.groups.values():
            yield group
            yield from group.pel.chunks()
