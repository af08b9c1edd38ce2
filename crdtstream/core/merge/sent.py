"""Another region's checkpoint, key by key.

Its images name things by its own numbers.  Those of one key belong together: KEY, WINDOW, one
GROUP for each group, one NODE for each macro node.  What is pending there is not sent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, starmap
from typing import Final, NamedTuple

from crdtstream.core.checkpoint.contents import (
    ContentError,
    GroupContent,
    KeyContent,
    ProducersContent,
    RegistersContent,
    RootContent,
    id_of,
    unpacked,
)
from crdtstream.core.checkpoint.parts import STAGED, Image, Kind
from crdtstream.core.clock import Dot, VersionVector, covers_dot
from crdtstream.core.histories import Points, points_of
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.header import Head, decode_head
from crdtstream.core.membership.encoding import decode_members
from crdtstream.core.membership.members import Members
from crdtstream.core.whole.restoring import create_of, producer_of, setting_of, shares_of

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
        histories: the effects that it is made of.
    """

    keys: Iterable[SentKey]
    again: Callable[[int], SentKey]
    members: Members = Members()
    histories: Points = {}  # noqa: RUF012


def sent_members(root: Image) -> Members:
    """Members that another region's ROOT image names.

    Raises:
        ContentError: it says what cannot be.
    """
    content = unpacked(root.head, RootContent)
    return decode_members(content.members)


def sent_histories(root: Image) -> Points:
    """The points of another region's effects, of its ROOT image.

    Raises:
        ContentError: it says what cannot be.
    """
    return points_of(unpacked(root.head, RootContent).histories)


def nothing_of(key: bytes, source: RegionId) -> SentKey:
    """A key that the other region keeps nothing of."""
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
    # See that shares and producers can be made of it: a merge that is ending must not fail.
    shares_of(sent.content.string)
    for image in by_kind.get(Kind.WINDOW, ()):
        sent.producers = unpacked(image.head, ProducersContent)
        for numbered in sent.producers.numbered:
            producer_of(numbered)
    groups = [unpacked(image.head, GroupContent) for image in by_kind.get(Kind.GROUP, ())]
    for group in groups:
        _check_group(group)
        _check_dots(group)
    sent.groups = {group.name: group for group in sorted(groups, key=lambda one: one.number)}
    lanes: dict[RegionId, list[SentNode]] = {}
    for image in by_kind.get(Kind.NODE, ()):
        lanes.setdefault(RegionId(image.lane), []).append((STAGED + image.number, _head(image)))
    rows = [] if sent.content.stream is None else sent.content.stream.last_ids
    last_ids = {region: id_of(last_id) for region, last_id, _ in rows}
    for region, nodes in lanes.items():
        nodes.sort(key=lambda node: node[1].key)
        _check_lane(nodes)
        if region not in last_ids or nodes[-1][1].header.last_id > last_ids[region]:
            raise ContentError(f"lane {region} goes beyond its last ID")
    sent.lanes = lanes
    return sent


def _check_group(content: GroupContent) -> None:
    """See that creates and changes of mode can be made of it: a merge that is ending must not fail.

    Raises:
        ContentError: one of them cannot be so.
    """
    try:
        for create in content.creates:
            create_of(create)
        for setting in content.settings:
            setting_of(b"", content.name, setting)
    except ContentError as error:
        raise ContentError(f"group {content.name!r}: {error}") from error


def _check_dots(content: GroupContent) -> None:
    """
    Raises:
        ContentError: a create or a setting is named twice.
    """
    for dots in ([one.dot for one in content.creates], [one.dot for one in content.settings]):
        if len(set(dots)) != len(dots):
            raise ContentError(f"group {content.name!r} has one effect twice")


def _check_lane(nodes: Sequence[SentNode]) -> None:
    """See that macro nodes are those of one lane.

    Raises:
        ContentError: they overlap.
    """
    for (image, left), (next_image, right) in pairwise(nodes):
        above = int.from_bytes(right.key, "big")
        if left.header.last_id >= above or left.header.last_n >= right.header.first_n:
            raise ContentError(
                f"macro nodes {image - STAGED} and {next_image - STAGED} of one lane overlap"
            )


def check_covered(sent: SentKey, vv: VersionVector) -> None:
    """See that a key is of a state with this version vector.

    What names a later effect would meet that effect when it comes.

    Raises:
        ContentError: something of it names an effect that the state has not.
    """
    for dot in _dots_of(sent):
        if dot.n < 1 or not covers_dot(vv, dot):
            raise ContentError(
                f"key {sent.key!r} has effects of region {dot.region} that the state has not"
            )


def _dots_of(sent: SentKey) -> Iterator[Dot]:
    """The dots of all that is replicated of a key; of a lane, and of a run, the last one."""
    content = sent.content
    for region, nodes in sent.lanes.items():
        yield Dot(region, nodes[-1][1].header.last_n)
    if content.stream is not None:
        for region, _, n in content.stream.last_ids:
            yield Dot(region, n)
    registers = sent.registers
    for register in (registers.expiry, registers.idmp_duration_s, registers.idmp_maxsize):
        for dot, _ in register:
            yield dot
    for value in () if content.string is None else content.string.values:
        yield value.dot
        for dot, _ in value.expiry:
            yield dot
    for share in () if content.string is None else content.string.shares:
        yield Dot(share.region, share.n)
        if share.base is not None:
            yield share.base
        for dot, _ in share.expiry:
            yield dot
    for region, ended in content.ended_shares.items():
        yield Dot(region, ended.n)
        yield from starmap(Dot, ended.takers.items())
    for _, tombstones in content.tombstones:
        yield from starmap(Dot, tombstones.items())
    for group in sent.groups.values():
        for create in group.creates:
            yield create.dot
        for setting in group.settings:
            yield setting.dot
    yield from _dots_of_producers(sent.producers)


def _dots_of_producers(content: ProducersContent) -> Iterator[Dot]:
    for record in content.records:
        yield record.dot
    for _, ids in () if content.window is None else content.window.producers:
        for one in ids:
            yield one.dot
    for numbered in content.numbered:
        for batch in numbered.batches:
            for run in batch.runs:
                yield Dot(run.first.region, run.first.n + run.stop - run.start - 1)


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
