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
    StringContent,
    id_of,
    unpacked,
)
from crdtstream.core.checkpoint.parts import STAGED, Image, Kind
from crdtstream.core.clock import Dot, VersionVector
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
    keys: list[KeyContent] = []
    producers = NOTHING_OF_PRODUCERS
    groups: list[GroupContent] = []
    lanes: dict[RegionId, list[SentNode]] = {}
    for image in images:
        kind = image.kind
        if kind is Kind.NODE:
            lanes.setdefault(RegionId(image.lane), []).append((STAGED + image.number, _head(image)))
        elif kind is Kind.KEY:
            keys.append(unpacked(image.head, KeyContent))
        elif kind is Kind.WINDOW:
            producers = unpacked(image.head, ProducersContent)
            for numbered in producers.numbered:
                producer_of(numbered)
        elif kind is Kind.GROUP:
            group = unpacked(image.head, GroupContent)
            _check_group(group)
            _check_dots(group)
            groups.append(group)
    if len(keys) != 1:
        raise ContentError(f"{len(keys)} KEY images of one key")
    content = keys[0]
    # See that shares can be made of it, as producers above: a merge that is ending must not fail.
    shares_of(content.string)
    groups.sort(key=lambda one: one.number)
    rows = [] if content.stream is None else content.stream.last_ids
    last_ids = {region: last_id for region, last_id, _ in rows}
    for region, nodes in lanes.items():
        nodes.sort(key=lambda node: node[1].key)
        _check_lane(nodes)
        if region not in last_ids or nodes[-1][1].header.last_id > id_of(last_ids[region]):
            raise ContentError(f"lane {region} goes beyond its last ID")
    return SentKey(content, source, producers, {group.name: group for group in groups}, lanes)


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
    # Of most keys that is all.
    for region, nodes in sent.lanes.items():
        _check_effect(sent, vv, region, nodes[-1][1].header.last_n)
    if sent.content.stream is not None:
        for region, _, n in sent.content.stream.last_ids:
            _check_effect(sent, vv, region, n)
    for dot in _other_dots_of(sent):
        _check_effect(sent, vv, dot.region, dot.n)


def _check_effect(sent: SentKey, vv: VersionVector, region: RegionId, n: int) -> None:
    if not 1 <= n <= vv.get(region, 0):
        raise ContentError(
            f"key {sent.key!r} has effects of region {region} that the state has not"
        )


def _other_dots_of(sent: SentKey) -> Iterator[Dot]:
    """The dots of all else that is replicated of a key; of a run, the last one."""
    content = sent.content
    registers = sent.registers
    for register in (registers.expiry, registers.idmp_duration_s, registers.idmp_maxsize):
        for dot, _ in register:
            yield dot
    if content.string is not None:
        yield from _dots_of_string(content.string)
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
    if sent.producers is not NOTHING_OF_PRODUCERS:
        yield from _dots_of_producers(sent.producers)


def _dots_of_string(content: StringContent) -> Iterator[Dot]:
    for value in content.values:
        yield value.dot
        for dot, _ in value.expiry:
            yield dot
    for share in content.shares:
        yield Dot(share.region, share.n)
        if share.base is not None:
            yield share.base
        for dot, _ in share.expiry:
            yield dot


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
