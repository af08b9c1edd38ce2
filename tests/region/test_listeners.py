"""Subscribers in other regions: reported when they change, bounded, forgotten with the link."""

import gc
from collections.abc import Iterable
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.ids import RegionId
from crdtstream.database.channels import Channels
from crdtstream.database.elsewhere import Elsewhere
from crdtstream.database.listening import Kind
from crdtstream.database.session import Session
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.listeners import (
    MESSAGE_BYTES_TARGET,
    NAME_BYTES_MAX,
    NAMES_BYTES_MAX,
    OVERHEAD_BYTES,
    Heard,
    ListenerCount,
    Telling,
)
from crdtstream.region.links.messages import Publications
from crdtstream.replication.wire import decode_publications, encode_publications
from crdtstream.v1 import replication_pb2 as pb
from tests.patience import until
from tests.region.test_publications import linked, peer_that_sends
from tests.replication.regions import PATIENT, LiveRegion, addresses, meshed

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
CHANNEL, PATTERN, SHARD = Kind.CHANNEL, Kind.PATTERN, Kind.SHARD


def told(telling: Telling) -> list[tuple[Kind, bytes, int]]:
    return [(each.kind, each.name, each.count) for each in telling.take()]


# --- What one link tells --------------------------------------------------------------------------


def test_a_link_tells_all_when_it_opens_and_then_what_changes() -> None:
    channels, one, two = Channels(), Session(1), Session(2)
    channels.subscribe(one, CHANNEL, b"a")
    channels.subscribe(two, CHANNEL, b"a")
    channels.subscribe(one, PATTERN, b"a*")
    telling = Telling(channels)
    channels.on_change = telling.note
    assert told(telling) == [(CHANNEL, b"a", 2), (PATTERN, b"a*", 1)]
    assert told(telling) == []
    channels.subscribe(two, SHARD, b"a")
    channels.unsubscribe(one, CHANNEL, b"a")
    assert told(telling) == [(CHANNEL, b"a", 1), (SHARD, b"a", 1)]
    channels.forget(two)
    channels.forget(one)
    assert told(telling) == [(CHANNEL, b"a", 0), (PATTERN, b"a*", 0), (SHARD, b"a", 0)]


def test_subscriptions_that_change_back_are_not_reported() -> None:
    channels, one = Channels(), Session(1)
    telling = Telling(channels)
    channels.on_change = telling.note
    for _ in range(100):
        channels.subscribe(one, CHANNEL, b"a")
        channels.unsubscribe(one, CHANNEL, b"a")
    assert told(telling) == []


def test_many_names_go_in_messages_of_a_bounded_size() -> None:
    channels, one = Channels(), Session(1)
    for number in range(5_000):
        channels.subscribe(one, CHANNEL, b"room:%d" % number)
    telling = Telling(channels)
    messages = []
    while message := telling.take():
        messages.append(message)
        size = sum(len(each.name) + OVERHEAD_BYTES for each in message)
        assert size <= MESSAGE_BYTES_TARGET.value + NAME_BYTES_MAX + OVERHEAD_BYTES
    assert sum(map(len, messages)) == 5_000
    assert len(messages) > 5


def test_the_cost_of_reporting_subscriptions_is_linear_in_their_names() -> None:
    """Else a link that opens holds its region up for half a minute, with as many as may be told."""
    channels, one = Channels(), Session(1)
    # It would look at all that other tests have left.
    gc.disable()
    try:
        begin = thread_time()
        for number in range(50_000):
            channels.subscribe(one, CHANNEL, b"room:%d" % number)
        subscribed = thread_time()
        telling = Telling(channels)
        while telling.take():
            pass
        told_at = thread_time()
    finally:
        gc.enable()
    # About as much; it was 25 times as much when each name was looked for behind those told.
    assert told_at - subscribed < 5 * (subscribed - begin)


def test_names_beyond_the_bounds_are_not_told() -> None:
    channels, one = Channels(), Session(1)
    channels.subscribe(one, CHANNEL, b"x" * (NAME_BYTES_MAX + 1))
    large = [b"%d:" % number + b"x" * (NAME_BYTES_MAX - 10) for number in range(2_000)]
    for name in large:
        channels.subscribe(one, CHANNEL, name)
    telling = Telling(channels)
    channels.on_change = telling.note
    heard = Heard(R2, Elsewhere())
    count = 0
    while message := telling.take():
        for each in message:
            # The other end takes all that this one tells.
            heard.note(each)
            count += 1
    assert count == NAMES_BYTES_MAX.value // (len(large[100]) + OVERHEAD_BYTES)
    channels.forget(one)
    channels.subscribe(one, CHANNEL, b"there is room again")
    while message := telling.take():
        for each in message:
            heard.note(each)
    assert message == []
    channels.unsubscribe(one, CHANNEL, b"there is room again")
    assert told(telling) == [(CHANNEL, b"there is room again", 0)]


def test_a_peer_that_tells_more_than_it_may_is_refused() -> None:
    heard = Heard(R2, Elsewhere())
    names = [b"%d" % number + b"x" * NAME_BYTES_MAX for number in range(1_100)]
    fitting = NAMES_BYTES_MAX.value // (len(names[-1]) + OVERHEAD_BYTES)
    for name in names[:fitting]:
        heard.note(ListenerCount(CHANNEL, name, 1))
    with pytest.raises(PeerError, match="region 2: listeners: their names are not within"):
        heard.note(ListenerCount(CHANNEL, names[fitting], 1))
    # Not one more, but one of those that are known.
    heard.note(ListenerCount(CHANNEL, names[0], 2))


# --- What a region knows --------------------------------------------------------------------------

NAMES = (b"a", b"ab", b"b")
PATTERNS = (b"*", b"a*", b"[ab]")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([R1, R2, R3]),
            st.sampled_from(list(Kind)),
            st.sampled_from([*NAMES, *PATTERNS]),
            st.integers(0, 3),
        )
    ),
    st.sets(st.sampled_from([R1, R2, R3])),
    st.sampled_from([None, R1, R2]),
)
def test_counts_are_those_told_last(
    notes: list[tuple[RegionId, Kind, bytes, int]], reached: set[RegionId], gone: RegionId | None
) -> None:
    elsewhere = Elsewhere()
    model: dict[tuple[RegionId, Kind, bytes], int] = {}
    for region, kind, name, count in notes:
        elsewhere.note(region, kind, name, count)
        model[region, kind, name] = count
    if gone is not None:
        elsewhere.forget(gone)
        model = {key: count for key, count in model.items() if key[0] != gone}

    def total(kind: Kind, names: Iterable[bytes], regions: Iterable[RegionId]) -> int:
        return sum(model.get((region, kind, name), 0) for region in regions for name in names)

    everywhere = (R1, R2, R3)
    matching = {b"a": PATTERNS, b"ab": (b"*", b"a*"), b"b": (b"*", b"[ab]")}
    for kind in Kind:
        names = {name for (_, each, name), count in model.items() if each is kind and count}
        assert set(elsewhere.names(kind)) == names
        for name in NAMES:
            assert elsewhere.count(kind, name) == total(kind, [name], everywhere)
    for name in NAMES:
        heard = total(CHANNEL, [name], reached) + total(PATTERN, matching[name], reached)
        # A name is a pattern, too, if somebody listens to it as one.
        heard += total(PATTERN, [name], reached)
        assert elsewhere.told(sorted(reached), name, sharded=False) == heard
        assert elsewhere.told(sorted(reached), name, sharded=True) == total(SHARD, [name], reached)


# --- Between regions ------------------------------------------------------------------------------


async def test_listeners_of_all_regions_are_counted_in_each() -> None:
    async with meshed() as regions:
        await linked(regions)
        for region in regions:
            region.session.protocol = 3
            region.call("SUBSCRIBE", "a", f"own:{region.number}")
            region.call("SSUBSCRIBE", "s")
        regions[2].call("PSUBSCRIBE", "a*", "b*")
        for region in regions:
            await until(
                lambda region=region: (  # type: ignore[misc]
                    region.call("PUBSUB", "NUMSUB", "a", "own:1", "none")
                    == [b"a", 3, b"own:1", 1, b"none", 0]
                    and region.call("PUBSUB", "NUMPAT") == 2
                )
            )
            assert region.call("PUBSUB", "SHARDNUMSUB", "s") == [b"s", 3]
            names = region.call("PUBSUB", "CHANNELS")
            assert isinstance(names, list)
            assert sorted(names, key=str) == [b"a", b"own:1", b"own:2", b"own:3"]
            assert region.call("PUBSUB", "CHANNELS", f"own:{region.number}") == [
                b"own:%d" % region.number
            ]
            assert region.call("PUBSUB", "SHARDCHANNELS") == [b"s"]
            # Region 3 is told by its channel and by its pattern.
            assert region.call("PUBLISH", "a", "hello") == 4
            assert region.call("SPUBLISH", "s", "hello") == 3


async def test_a_region_is_forgotten_with_its_link_and_tells_all_again() -> None:
    async with meshed(2) as (first, second):
        await linked([first, second])
        second.session.protocol = 3
        second.call("SUBSCRIBE", "a")
        await until(lambda: first.call("PUBLISH", "a", "x") == 1)
        first.pause(R2)
        await until(lambda: first.call("PUBSUB", "NUMSUB", "a") == [b"a", 0])
        second.call("SUBSCRIBE", "b")
        second.call("UNSUBSCRIBE", "a")
        first.resume(R2)
        await linked([first, second])
        await until(lambda: first.call("PUBSUB", "CHANNELS") == [b"b"])
        before = first.pulls[R2].link.reconnects
        first.pulls[R2].reject("a test ends the link")
        await until(lambda: first.pulls[R2].link.reconnects > before)
        await linked([first, second])
        await until(lambda: first.call("PUBSUB", "CHANNELS") == [b"b"])


async def test_publish_does_not_count_subscribers_behind_a_paused_link() -> None:
    """Region 2 pulls nothing from region 1, which hears from it all the same."""
    async with meshed(2) as (first, second):
        await linked([first, second])
        second.session.protocol = 3
        second.call("SUBSCRIBE", "a")
        await until(lambda: first.call("PUBLISH", "a", "x") == 1)
        second.pause(R1)
        await until(lambda: R2 not in first.serves)
        assert first.call("PUBLISH", "a", "lost") == 0
        assert first.call("PUBSUB", "NUMSUB", "a") == [b"a", 1]


async def test_a_silent_region_counts_no_more() -> None:
    """A peer that tells of a listener and is then frozen."""
    where = addresses(2)
    second = LiveRegion(2, where)
    message = Publications(R1, [], [ListenerCount(CHANNEL, b"a", 5)])
    sent = pb.SyncResponse(publications=encode_publications(message))
    async with peer_that_sends([sent], heartbeats=False) as address, second.running():
        second.pulls[R1].address = address
        await until(lambda: second.call("PUBSUB", "NUMSUB", "a") == [b"a", 5])
        await until(lambda: "silent" in second.pulls[R1].link.error)
        # Between two attempts nothing is known.
        await until(lambda: second.call("PUBSUB", "NUMSUB", "a") == [b"a", 0])


async def test_a_peer_that_tells_nonsense_loses_the_link() -> None:
    where = addresses(2)
    second = LiveRegion(2, where, limits=PATIENT)
    message = pb.Publications(origin=1, listeners=[pb.ListenerCount(name=b"x" * 20_000, count=1)])
    sent = pb.SyncResponse(publications=message)
    async with peer_that_sends([sent]) as address, second.running():
        second.pulls[R1].address = address
        await until(lambda: "listeners[0].name: 20000 bytes" in second.pulls[R1].link.error)


# --- On the wire ----------------------------------------------------------------------------------


def test_listeners_survive_the_way() -> None:
    counts = [
        ListenerCount(CHANNEL, b"", 1),
        ListenerCount(PATTERN, b"\xff*", 0),
        ListenerCount(SHARD, b"x" * NAME_BYTES_MAX, (1 << 32) - 1),
    ]
    sent = encode_publications(Publications(R2, [], counts)).SerializeToString()
    assert decode_publications(R2, pb.Publications.FromString(sent)) == Publications(R2, [], counts)


def test_a_kind_that_is_not_known_is_refused() -> None:
    message = pb.Publications(origin=2)
    message.MergeFromString(b"\x1a\x02\x08\x07")
    with pytest.raises(PeerError, match=r"region 2: listeners\[0\].kind: 7"):
        decode_publications(R2, message)
