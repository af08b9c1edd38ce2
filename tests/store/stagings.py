"""Images as one region sends them to another, for tests."""

import random
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.ids import SEQ_BITS, Millis, RegionId, StreamId
from crdtstream.core.lanes.packing import pack
from crdtstream.core.replica import Replica
from crdtstream.store.staging import NOT_SENT, Staged, StagedCut, StagedImage, Staging, make_image
from tests.harness.checkpoints import encoded, parts_of

SOURCE: Final = RegionId(2)
# Every third image is a NODE.
KINDS: Final = (Kind.NODE, Kind.KEY, Kind.GROUP, Kind.NODE, Kind.WINDOW, Kind.ROOT)


def image(number: int) -> Image:
    """An image as a checkpoint of the sender has it."""
    kind = KINDS[number % len(KINDS)]
    text = random.Random(number).randbytes(20 + number % 50)
    head, body = _node(number, text) if kind is Kind.NODE else (text, b"")
    return Image(number, kind, number % 7, 1, head, body)


@cache
def _node(number: int, text: bytes) -> tuple[bytes, bytes]:
    """Head and body of a macro node with some entries."""
    replica = Replica(SOURCE)
    fields = b"*2\r\n$1\r\nf\r\n$%d\r\n%b\r\n" % (len(text), text)
    for at in range(number % 9 + 1):
        replica.append(b"x", StreamId(number + at << SEQ_BITS), fields)
    replica.take_records(Millis(1))
    (node,) = (part for part in parts_of(replica) if part.kind is Kind.NODE)
    _, _, head, body, _ = encoded(node)
    return head, body


def staged(number: int) -> StagedImage:
    """The same image on its way."""
    _, kind, owner, lane, head, body, _ = image(number)
    return make_image(number, kind, owner, lane, head, pack(body))


def cut_of(numbers: Iterable[int], *, cut_id: bytes = b"cut" * 5 + b"!") -> StagedCut:
    images = [staged(number) for number in numbers]
    return StagedCut(
        cut_id,
        SOURCE,
        {SOURCE: 41, RegionId(3): 7},
        len(images),
        sum(one.number for one in images),
        sum(one.bytes for one in images),
    )


async def put(staging: Staging, numbers: Sequence[int], *, at_once: int = 40) -> None:
    for start in range(0, len(numbers), at_once):
        await staging.put([staged(number) for number in numbers[start : start + at_once]])


async def stage(staging: Staging, numbers: Sequence[int]) -> StagedCut:
    """All of a cut, complete."""
    cut = cut_of(numbers)
    await staging.begin(cut)
    await put(staging, numbers)
    await staging.finish()
    return cut


async def check_whole(staging: Staging, numbers: Sequence[int]) -> None:
    """See that exactly these images are there, byte for byte.

    Raises:
        StoreError: something is damaged.
    """
    found = [one async for some in staging.heads() for one in some]
    assert [one.number for one in found] == list(numbers)
    for one in found:
        assert one == image(one.number)._replace(body=b"")
        if one.kind is Kind.NODE:
            wanted = staged(one.number).body
            assert (await staging.fetch([one.number]))[one.number] == wanted
            assert staging.load(one.number) == wanted
    assert staging.sums == Staged(
        len(numbers), sum(numbers), sum(staged(number).bytes for number in numbers)
    )


async def stage_state(
    staging: Staging,
    replica: Replica,
    *,
    cut_id: bytes = b"state of a peer.",
    upto: int | None = None,
) -> StagedCut:
    """All that a region has now, complete; or no more than its first ``upto`` images."""
    images = [
        make_image(number, part.kind, owner, lane, head, body if is_packed else pack(body))
        if body
        else make_image(number, part.kind, owner, lane, head, b"")
        for number, part in enumerate(parts_of(replica), 1)
        if part.kind is not NOT_SENT
        for owner, lane, head, body, is_packed in [encoded(part)]
    ]
    sums = Staged(len(images), sum(one.number for one in images), sum(one.bytes for one in images))
    cut = StagedCut(cut_id, replica.region, dict(replica.vv), *sums)
    await staging.begin(cut)
    await staging.put(images[:upto])
    if upto is None:
        await staging.finish()
    return cut
