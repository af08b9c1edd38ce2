"""What another region's checkpoint says, key by key.

Its images name things by its own numbers.  Those of one key belong together: KEY, WINDOW, one
GROUP for each group, one NODE for each macro node.  What is pending there is not sent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crdtstream.core.checkpoint.contents import (
    ContentError,
    GroupContent,
    KeyContent,
    ProducersContent,
    RegistersContent,
    RootContent,
    unpacked,
)
from crdtstream.core.checkpoint.parts import STAGED, Image, Kind
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.header import Head, decode_head
from crdtstream.core.membership.encoding import decode_members
from crdtstream.core.membership.members import Members

# A macro node: its image number here, and its head.
SentNode = tuple[int, Head]

NO_REGISTERS: Final = RegistersContent([], [], [])
NOTHING_OF_PRODUCERS: Final = ProducersContent(None, [], [], [])


@dataclass(slots=True)
class SentKey:
    """One key of another region's state.

    Attributes:
        content: its KEY image.
        source: the region whose state it is.
        producers: its WINDOW image.
        groups: by name.
        lanes: by origin the macro nodes, in the order of their IDs.
    """

    content: KeyContent
    source: RegionId
    producers: ProducersContent = NOTHING_OF_PRODUCERS
    groups: Mapping[bytes, GroupContent] = field(default_factory=dict)
    lanes: Mapping[RegionId, list[SentNode]] = field(default_factory=dict)

    @property
    def key(self) -> bytes:
        return self.content.key

    @property
    def registers(self) -> RegistersContent:
        return self.content.registers or NO_REGISTERS


class SentState(NamedTuple):
    """Another region's state.

    Attributes:
        keys: each key that it knows something of, once.
        again: reads one of these keys again, by the other region's number of it.
    """

    keys: Iterable[SentKey]
    again: Callable[[int], SentKey]
    members: Members = Members()


def sent_members(root: Image) -> Members:
    """What another region's ROOT image says of the members.

    Raises:
        ContentError: it says what cannot be.
    """
    content = unpacked(root.head, RootContent)
    return decode_members(content.members) if content.members else Members()


def nothing_of(key: bytes, source: RegionId) -> SentKey:
    """A key of which the other region has nothing."""
    return SentKey(KeyContent(0, key, None, None, None, None, [], None), source)


def sent_key(images: Iterable[Image], source: RegionId) -> SentKey:
    """The images of one key, NODE without bodies.

    Raises:
        ContentError: they are not those of one key, or one says what cannot be.
    """
    by_kind: dict[Kind, list[Image]] = {}
    for image in images:
        by_kind.setdefault(image.kind, []).append(image)
    keys = by_kind.get(Kind.KEY, [])
    if len(keys) != 1:
        raise ContentError(f"{len(keys)} KEY images of one key")
    sent = SentKey(unpacked(keys[0].head, KeyContent), source)
    for image in by_kind.get(Kind.WINDOW, ()):
        sent.producers = unpacked(image.head, ProducersContent)
    groups = [unpacked(image.head, GroupContent) for image in by_kind.get(Kind.GROUP, ())]
    sent.groups = {group.name: group for group in sorted(groups, key=lambda one: one.number)}
    lanes: dict[RegionId, list[SentNode]] = {}
    for image in by_kind.get(Kind.NODE, ()):
        lanes.setdefault(RegionId(image.lane), []).append((STAGED + image.number, _head(image)))
    for nodes in lanes.values():
        nodes.sort(key=lambda node: node[1].key)
    sent.lanes = lanes
    return sent


def _head(image: Image) -> Head:
    try:
        return decode_head(image.head)
    except ValueError as error:
        raise ContentError(f"image {image.number}: {error}") from error


def by_key(images: Iterable[Image]) -> Iterator[list[Image]]:
    """The images of each key, which are put together in memory."""
    keys: dict[int, list[Image]] = {}
    for image in images:
        if image.kind is Kind.KEY:
            keys.setdefault(image.owner, []).insert(0, image)
        elif image.kind in (Kind.WINDOW, Kind.GROUP, Kind.NODE):
            keys.setdefault(image.owner, []).append(image)
    yield from keys.values()
