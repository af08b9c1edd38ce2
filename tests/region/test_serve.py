"""Actions of a link that sends to a puller: their order and conditions, without any IO."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Begin, Incarnations, Lineage, decode_incarnations
from crdtstream.core.member_changes import Contact, Update
from crdtstream.core.membership.encoding import Said, encode_said
from crdtstream.core.membership.members import apply, genesis
from crdtstream.core.uid import DatabaseUid, shown_uid
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.messages import (
    Batches,
    Open,
    Progress,
    Publications,
    Refusal,
    RefusalKind,
    Standing,
    Welcome,
)
from crdtstream.region.links.serve import (
    LOADED_EFFECTS,
    SEND_SECONDS_LOADED,
    SEND_SECONDS_MIN,
    WINDOW_BYTES,
    End,
    Read,
    Seek,
    Send,
    Serve,
    ServeAction,
    Sleep,
)
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import DatabaseIdentity
from tests.harness.driven import PROVEN, SAID, UID, Driven, make_region, said_of

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
NOW = Millis(1000)
STANDING = Standing(DatabaseIdentity(UID), recovering=False, regains=False)
LIMITS = RegionLimits(heartbeat_interval_ms=1_000, link_silence_ms_max=3_000)

LOG = [
    Record(R1, 1, 1, b"1:1", None),
    Record(R2, 1, 3, b"2:1-3", None),
    Record(R1, 2, 1, None, b"local changes only"),
    Record(R1, 2, 4, b"1:2-4", b"and local changes"),
    Record(R2, 4, 4, b"2:4", None),
]


def opening(*origins: RegionId, region: RegionId = R3, run_id: int = 3, **has: int) -> Open:
    """A puller that asks for these origins; ``r1=3``: it has three effects of region 1."""
    vv = {RegionId(int(name.removeprefix("r"))): n for name, n in has.items()}
    return Open(region, "crdb", run_id, frozenset(origins or (R1,)), vv, STANDING, membership=SAID)


def begun() -> Driven:
    """A region whose log has LOG."""
    driven = Driven(make_region(limits=LIMITS))
    outstanding = driven.region.outstanding
    outstanding.add(LOG, [])
    outstanding.note_logged(len(LOG))
    outstanding.note_durable(outstanding.mark())
    return driven


def serve_of(driven: Driven, request: Open, at: float = 0.0) -> Serve:
    serve = driven.region.links.accept(request, at)
    assert isinstance(serve, Serve)
    return serve


def welcomed(driven: Driven, request: Open) -> Serve:
    """A link past its Welcome and its first heartbeat, at the beginning of the log."""
    serve = serve_of(driven, request)
    assert isinstance(serve.next(NOW, 0.0), Seek)
    serve.begin_at(1)
    assert isinstance(sent(serve.next(NOW, 0.0)), Welcome)
    assert isinstance(sent(serve.next(NOW, 0.0)), Progress)
    return serve


def sent(action: ServeAction) -> object:
    assert isinstance(action, Send), action
    return action.message


def batches(serve: Serve, at: float) -> list[bytes]:
    """The batches that it sends after one reading of the log."""
    action = serve.next(NOW, at)
    if not isinstance(action, Read):
        return []
    serve.take(LOG[action.seq - 1 :])
    action = serve.next(NOW, at)
    if not isinstance(action, Send):
        return []
    assert isinstance(action.message, Batches)
    return list(action.message.batches)


@pytest.mark.parametrize(
    ("request_", "picked"),
    [
        (opening(R1), [b"1:1", b"1:2-4"]),
        (opening(R2), [b"2:1-3", b"2:4"]),
        (opening(R1, R2), [b"1:1", b"2:1-3", b"1:2-4", b"2:4"]),
        (opening(R1, r1=1), [b"1:2-4"]),
        (opening(R2, r2=3), [b"2:4"]),
        (opening(R2, r2=4), []),
    ],
)
def test_only_what_is_asked_for_and_lacks_is_sent(request_: Open, picked: list[bytes]) -> None:
    assert batches(welcomed(begun(), request_), 0.0) == picked


def test_a_batch_is_sent_once_and_then_the_link_rests() -> None:
    serve = welcomed(begun(), opening(R1, R2))
    assert len(batches(serve, 0.0)) == 4
    assert serve.sent_vv == {R1: 4, R2: 4}
    assert serve.next(NOW, 0.0) == Sleep(SEND_SECONDS_MIN.value)
    assert serve.next(NOW, 0.1) == Sleep(1.0), "until the next heartbeat"


def resting_link() -> tuple[Driven, Serve]:
    """A link that has just sent all there is."""
    driven = Driven(make_region(limits=RegionLimits()))
    _write(driven)
    serve = welcomed(driven, opening(R1))
    _send_what_is_read(driven, serve, 0.0)
    assert serve.next(NOW, 0.0) == Sleep(SEND_SECONDS_MIN.value)
    driven.end_tick()
    return driven, serve


def _send_what_is_read(driven: Driven, serve: Serve, at: float) -> None:
    action = serve.next(NOW, at)
    assert isinstance(action, Read)
    serve.take(driven.log[action.seq - 1 :])
    assert isinstance(sent(serve.next(NOW, at)), Batches)


def test_a_link_that_rests_is_not_woken_by_news_and_finds_them_when_its_rest_ends() -> None:
    driven, serve = resting_link()
    _write(driven)
    assert serve not in driven.last.links
    _send_what_is_read(driven, serve, SEND_SECONDS_MIN.value)
    assert serve.sent_vv == {R1: 2}


def test_a_link_that_has_rested_is_woken_by_news() -> None:
    driven, serve = resting_link()
    assert serve.next(NOW, 0.1) == Sleep(0.25), "until the next heartbeat"
    _write(driven)
    assert serve in driven.last.links


def level_link(*, next_ms: int) -> tuple[Driven, Serve, int]:
    """A link whose puller has all there is, and says so; and what its next heartbeat, at 0.25 s,
    says of the one after it."""
    driven = Driven(make_region(limits=RegionLimits()))
    driven.write("a")
    driven.end_tick()
    driven.commit()
    serve = welcomed(driven, opening(R1, r1=1))
    has = dict(driven.region.outstanding.durable_vv)
    serve.receive(Progress(has, NOW, STANDING, next_ms=next_ms), 0.1)
    serve.next(NOW, 0.2)
    told = sent(serve.next(NOW, 0.25))
    assert isinstance(told, Progress)
    driven.end_tick()
    return driven, serve, told.next_ms


def quiet_link() -> tuple[Driven, Serve]:
    driven, serve, next_ms = level_link(next_ms=1_500)
    assert next_ms == 1_000
    return driven, serve


@pytest.mark.parametrize(("next_ms", "seconds"), [(0, 3.0), (5_000, 6.0), (1 << 31, 11.0)])
def test_a_puller_is_waited_for_as_long_as_it_said_and_not_without_end(
    next_ms: int, seconds: float
) -> None:
    _, serve, _ = level_link(next_ms=next_ms)
    serve.next(NOW, 0.1 + seconds - 0.01)
    assert not serve.is_over
    assert serve.next(NOW, 0.1 + seconds + 0.01) == End()


def test_a_link_may_be_quiet_before_its_puller_has_said_anything() -> None:
    _, serve, next_ms = level_link(next_ms=0)
    assert next_ms == 1_000
    assert serve.next(NOW, 0.25) == Sleep(1.0)


def test_a_link_with_nothing_to_tell_speaks_seldom_and_says_so_beforehand() -> None:
    """At whole seconds, as other links do: a node at rest wakes once for all of them."""
    _, serve = quiet_link()
    for at, next_at in ((0.25, 1.0), (1.003, 2.0), (2.6, 3.0)):
        if at > 0.25:
            told = sent(serve.next(NOW, at))
            assert isinstance(told, Progress)
            assert told.next_ms == 1_000
        assert serve.next(NOW, at) == Sleep(next_at)


def _write(driven: Driven) -> None:
    driven.write("b")
    driven.end_tick()
    driven.commit()


def _learn(driven: Driven) -> None:
    driven.region.stability.learn(R2, {R1: 1})


def _wait(driven: Driven) -> None:
    driven.call("WAIT", "2", "0")


@pytest.mark.parametrize("happens", [_write, _learn, _wait])
def test_news_ends_the_quiet_of_a_link_at_once(happens: Callable[[Driven], None]) -> None:
    driven, serve = quiet_link()
    happens(driven)
    driven.end_tick()
    told = sent(serve.next(NOW, 0.6))
    assert isinstance(told, Progress)
    assert told.durable_vv == driven.region.outstanding.durable_vv
    assert told.next_ms == 250, "what comes next is looked for as often as under load"


def test_a_link_whose_puller_lacks_something_is_not_quiet() -> None:
    driven = Driven(make_region(limits=RegionLimits()))
    _write(driven)
    serve = welcomed(driven, opening(R1))
    serve.receive(Progress({}, NOW, STANDING, next_ms=1_500), 0.1)
    serve.next(NOW, 0.1)
    for at in (0.25, 0.5, 0.75):
        heartbeat = sent(serve.next(NOW, at))
        assert isinstance(heartbeat, Progress)
        assert heartbeat.next_ms == 250


def test_the_pause_behind_many_effects_is_longer_unless_somebody_waits() -> None:
    for waits in (False, True):
        driven = Driven(make_region(limits=LIMITS))
        for index in range(LOADED_EFFECTS.value):
            driven.write(str(index))
            driven.end_tick()
        driven.commit()
        serve = welcomed(driven, opening(R1))
        if waits:
            driven.call("WAIT", "1", "0")
            driven.end_tick()
            told = sent(serve.next(NOW, 0.0))
            assert isinstance(told, Progress)
            assert told.acks_awaited
        assert isinstance(serve.next(NOW, 0.0), Read)
        serve.take(driven.log)
        assert isinstance(sent(serve.next(NOW, 0.0)), Batches)
        assert serve.next(NOW, 0.0) == Sleep(
            SEND_SECONDS_MIN.value if waits else SEND_SECONDS_LOADED.value
        )


def test_a_link_that_catches_up_rests_not_at_all() -> None:
    limits = replace(LIMITS, link_message_bytes_target=len(LOG[0].batch or b""))
    driven = Driven(make_region(limits=limits))
    driven.region.outstanding.add(LOG, [])
    driven.region.outstanding.note_logged(len(LOG))
    serve = welcomed(driven, opening(R1))
    assert isinstance(serve.next(NOW, 0.0), Read)
    serve.take(LOG[:1])
    assert isinstance(sent(serve.next(NOW, 0.0)), Batches)
    assert serve.next(NOW, 0.0) == Sleep(0.0), "others have their turn, and no more"
    assert serve.next(NOW, 0.0) == Read(2, limits.link_message_bytes_target)


def test_it_begins_where_the_puller_lacks_something() -> None:
    serve = serve_of(begun(), opening(R1, r1=1, r2=9))
    assert serve.next(NOW, 0.0) == Seek({R1: 1}, frozenset({R1}))


@pytest.mark.parametrize(
    ("origins", "sends"), [((R1,), True), ((R1, R2), False)], ids=["own", "relayed too"]
)
def test_only_durable_batches_are_relayed(origins: tuple[RegionId, ...], sends: bool) -> None:
    """Rule 18: others rely on a region's answer, and it counts what it had relayed."""
    driven = Driven(make_region(limits=LIMITS))
    driven.region.outstanding.add(LOG, [])
    driven.region.outstanding.note_logged(len(LOG))
    assert bool(batches(welcomed(driven, opening(*origins)), 0.0)) is sends


def test_a_puller_that_takes_nothing_is_sent_no_more_than_its_window() -> None:
    driven = begun()
    serve = welcomed(driven, opening(R1))
    large = Record(R1, 5, 5, bytes(WINDOW_BYTES.value), None)
    driven.region.outstanding.add([large, Record(R1, 6, 6, b"next", None)], [])
    driven.region.outstanding.note_logged(len(LOG) + 2)
    serve.take([*LOG, large])
    assert isinstance(sent(serve.next(NOW, 0.0)), Batches)
    serve.next(NOW, 0.0)
    assert isinstance(serve.next(NOW, 0.5), Sleep)
    serve.receive(Progress({}, NOW, STANDING, taken_bytes=WINDOW_BYTES.value), 0.5)
    assert serve.next(NOW, 0.5) == Read(len(LOG) + 2, LIMITS.link_message_bytes_target)


def test_heartbeats_come_also_while_there_is_much_to_send() -> None:
    serve = welcomed(begun(), opening(R1))
    assert isinstance(sent(serve.next(NOW, 1.0)), Progress)
    assert isinstance(serve.next(NOW, 1.0), Read)


def test_publications_follow_the_batches_issued_before_them() -> None:
    driven = begun()
    serve = welcomed(driven, opening(R1, r1=0))
    driven.region.replica.vv[R1] = 4
    driven.region.database.channels.publish(b"c", b"hello", sharded=False)
    action = serve.next(NOW, 0.0)
    assert isinstance(action, Read)
    serve.take(LOG)
    assert isinstance(sent(serve.next(NOW, 0.0)), Batches)
    message = sent(serve.next(NOW, 0.0))
    assert isinstance(message, Publications)
    assert [one.payload for one in message.publications] == [b"hello"]


def test_a_silent_puller_is_left() -> None:
    serve = welcomed(begun(), opening(R1))
    assert serve.next(NOW, 3.1) == End()
    assert serve.is_over


def test_a_puller_that_comes_again_ends_its_earlier_link() -> None:
    driven = begun()
    first = serve_of(driven, opening())
    second = serve_of(driven, opening())
    assert (first.is_over, second.is_over) == (True, False)
    assert first.next(NOW, 0.0) == End()
    driven.region.links.hang_up(first)
    assert driven.region.links.serves == {R3: second}


def test_a_puller_of_another_database_is_left_with_the_reason() -> None:
    serve = welcomed(begun(), opening(R1))
    other = Standing(DatabaseIdentity(DatabaseUid(b"\xff" * 16)), recovering=False, regains=False)
    with pytest.raises(PeerError, match="belongs to database"):
        serve.receive(Progress({}, NOW, other), 0.1)


def test_another_node_of_the_same_region_is_refused_while_the_first_is_linked() -> None:
    driven = begun()
    first = serve_of(driven, opening(run_id=3))
    refusal = driven.region.links.accept(opening(run_id=4), 0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.DUPLICATE
    driven.region.links.hang_up(first)
    serve_of(driven, opening(run_id=4))


OTHER_UID = DatabaseUid(b"another database")


@pytest.mark.parametrize("region", [R3, RegionId(9)])
def test_the_database_is_compared_before_numbers_and_runs(region: RegionId) -> None:
    """An address led there by mistake.  Refused as a duplicate, the node would take no writes."""
    driven = begun()
    first = serve_of(driven, opening(run_id=3))
    other = replace(STANDING, database=DatabaseIdentity(OTHER_UID))
    stranger = replace(opening(region=region, run_id=4), standing=other)
    refusal = driven.region.links.accept(stranger, 0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.MISMATCH
    assert shown_uid(UID) in refusal.reason
    assert shown_uid(OTHER_UID) in refusal.reason
    assert driven.region.links.serves == {R3: first}
    assert not first.is_over


def test_the_members_are_compared_before_runs() -> None:
    """The other half of a database that was divided has the same uid."""
    driven = begun()
    serve_of(driven, opening(run_id=3))
    mine, theirs = (apply(genesis((R1, R2, R3)), Update(R3, at(i))) for i in (1, 2))
    driven.region.membership.members.note_newest(mine)
    said = encode_said(Said(members=theirs))
    refusal = driven.region.links.accept(replace(opening(run_id=4), membership=said), 0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.MISMATCH
    assert theirs.listed() in refusal.reason


def at(host: int) -> Contact:
    return Contact("region-3", f"10.0.0.{host}:7380")


def test_regions_whose_files_name_others_are_not_linked() -> None:
    """Region 3's file names 1, 3 and 4.  Nothing of what it says is noted."""
    driven = begun()
    said = said_of(1, 3, 4)
    refusal = driven.region.links.accept(replace(opening(r1=1), membership=said), 0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.MISMATCH
    assert genesis((R1, R2, R3)).listed() in refusal.reason
    assert genesis((R1, R3, RegionId(4))).listed() in refusal.reason
    assert "Both have begun. Keep one." in refusal.reason
    assert driven.region.links.serves == {}
    assert driven.region.knowledge.of(R3) == {}


@pytest.mark.parametrize(
    "said", [b"", encode_said(Said(instance=bytes(16)))], ids=["silent", "none"]
)
def test_a_peer_that_names_no_members_is_not_linked(said: bytes) -> None:
    refusal = begun().region.links.accept(replace(opening(), membership=said), 0.0)
    assert isinstance(refusal, Refusal)
    assert "it names no members; run the same version everywhere" in refusal.reason


def test_an_earlier_folder_is_told_of_the_newest_and_another_database_is_not() -> None:
    """A region that begins a new database would take its own folder for an earlier one."""
    begin = Begin(5000, bytes(16), 0)
    incarnations = Incarnations(lineages={R3: Lineage((begin,))})
    driven = Driven(make_region(folder=replace(PROVEN, incarnations=incarnations)))
    earlier = driven.region.links.accept(opening(), 0.0)
    assert isinstance(earlier, Refusal)
    assert decode_incarnations(earlier.incarnations).lineages == {R3: Lineage((begin,))}
    other = replace(STANDING, database=DatabaseIdentity(OTHER_UID))
    stranger = driven.region.links.accept(replace(opening(), standing=other), 0.0)
    assert isinstance(stranger, Refusal)
    assert stranger.incarnations == b""


def test_a_refusal_that_comes_again_is_no_news() -> None:
    driven = begun()
    levels: list[str] = []

    def refused(request: Open) -> None:
        assert isinstance(driven.region.links.accept(request, 0.0), Refusal)
        notices = driven.end_tick().notices
        levels.extend(notice.level for notice in notices if notice.text == "link refused")

    first = serve_of(driven, opening(run_id=3))
    refused(opening(run_id=4))
    refused(opening(run_id=4))
    # Another reason is; so is one after a link that was let in.
    refused(replace(opening(run_id=4), database_id="other"))
    refused(opening(run_id=4))
    driven.region.links.hang_up(first)
    driven.region.links.hang_up(serve_of(driven, opening(run_id=4)))
    serve_of(driven, opening(run_id=3))
    refused(opening(run_id=4))
    assert levels == ["warning", "debug", "warning", "warning", "warning"]


def test_the_version_vector_of_a_recovering_puller_does_not_count() -> None:
    driven = begun()
    serve = serve_of(driven, opening(R1, r1=2))
    recovers = replace(STANDING, regains=True)
    serve.receive(Progress({R1: 2}, NOW, recovers, others={R2: {R1: 2}}), 0.1)
    assert driven.region.knowledge.vvs == {R2: {R1: 2}, R3: {R1: 2}}
    assert driven.region.knowledge.counted == {R2: {R1: 2}}
    serve.receive(Progress({R1: 2}, NOW, STANDING), 0.2)
    assert driven.region.knowledge.counted == {R2: {R1: 2}, R3: {R1: 2}}


def test_a_heartbeat_passes_on_what_counts() -> None:
    driven = begun()
    driven.region.stability.learn(R2, {R1: 2})
    driven.region.stability.learn(R3, {R1: 2}, regains=True)
    serve = serve_of(driven, opening(R1))
    serve.next(NOW, 0.0)
    serve.begin_at(1)
    assert isinstance(sent(serve.next(NOW, 0.0)), Welcome)
    heartbeat = sent(serve.next(NOW, 0.0))
    assert isinstance(heartbeat, Progress)
    assert heartbeat.others == {R2: {R1: 2}}


# --- What a puller cannot have (``claims.py``) --------------------------------------------------


def waited(driven: Driven) -> list[object]:
    """The reply to a WAIT 2 for all writes so far, once its time has expired."""
    driven.call("WAIT", "2", "1")
    driven.clock += 10
    driven.region.pass_time(driven.now)
    driven.end_tick()
    driven.commit()
    return driven.client.replies[-1:]


def written(count: int, *, peers: tuple[int, ...] = (2, 3)) -> Driven:
    """A region that has written, and sent nothing yet."""
    driven = Driven(make_region(limits=LIMITS, peers=peers))
    for index in range(count):
        driven.write(str(index))
        driven.end_tick()
    driven.commit()
    return driven


def learned(driven: Driven) -> tuple[object, ...]:
    region = driven.region
    return (
        dict(region.knowledge.vvs),
        region.retention.elsewhere_vv,
        region.staleness.lag.known_n,
        region.links.pulls[R3].peer_pulls,
    )


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({R1: 3}, "durable_vv: it says to have 3 effects of region 1; it can have 2 at most, of 4"),
        ({R1: 4}, "4 effects of region 1; it can have 2 at most"),
        ({R1: 5, R2: 1}, "5 effects of region 1; it can have 2 at most, of 4 in the log"),
    ],
)
def test_an_ack_of_what_was_never_sent_ends_the_link_and_teaches_nothing(
    claims: dict[RegionId, int], text: str
) -> None:
    driven = written(4)
    serve = welcomed(driven, opening(R1))
    serve.take(driven.log[:2])
    before = learned(driven)
    with pytest.raises(PeerError, match=f"region 3: .*{text}"):
        serve.receive(Progress(claims, NOW, STANDING, others={R2: {R1: 1}}), 0.1)
    assert serve.is_over
    assert learned(driven) == before
    assert waited(driven) == [0]
    # What was still under way on that link counts for nothing, true or not.
    serve.receive(Progress({R1: 1}, NOW, STANDING), 0.2)
    assert learned(driven) == before


def test_an_ack_of_what_was_sent_counts() -> None:
    driven = written(4)
    serve = welcomed(driven, opening(R1, r1=1))
    serve.take(driven.log[:4])
    serve.receive(Progress({R1: 4}, NOW, STANDING), 0.1)
    assert driven.region.staleness.lag.known_n == 4
    assert waited(driven) == [1]


def test_of_two_regions_the_other_has_what_its_own_link_brought_and_no_more() -> None:
    """Also of what an earlier run had written, and may have sent: its Open says that."""
    log = written(4).log
    driven = Driven(make_region(limits=LIMITS, peers=(3,), log=log))
    serve = welcomed(driven, replace(opening(R1, r1=1), membership=said_of(1, 3)))
    serve.receive(Progress({R1: 1}, NOW, STANDING), 0.1)
    with pytest.raises(PeerError, match="it can have 1 at most, of 4"):
        serve.receive(Progress({R1: 4}, NOW, STANDING), 0.2)


def test_a_puller_may_have_got_from_another_region_what_was_sent_there() -> None:
    driven = written(4)
    other = welcomed(driven, opening(R1, region=R2, run_id=2))
    serve = welcomed(driven, opening(R1))
    other.take(driven.log[:3])
    serve.receive(Progress({R1: 3}, NOW, STANDING), 0.1)
    assert driven.region.knowledge.of(R3) == {R1: 3}


def test_a_puller_may_have_more_of_a_third_region() -> None:
    driven = begun()
    serve = welcomed(driven, opening(R1, R2))
    serve.receive(Progress({R2: 9, R3: 7}, NOW, STANDING), 0.1)
    assert driven.region.knowledge.of(R3) == {R2: 9, R3: 7}


def test_an_open_with_more_than_the_log_has_is_refused_and_teaches_nothing() -> None:
    driven = written(4)
    first = serve_of(driven, opening(R1, r1=2))
    before = learned(driven)
    refusal = driven.region.links.accept(opening(R1, r1=5), 0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.MISMATCH
    assert "it says to have 5 effects of region 1, whose log has 4" in refusal.reason
    assert learned(driven) == before
    assert not first.is_over
    assert isinstance(driven.region.links.accept(opening(R1, r1=4), 0.0), Serve)


def test_gossip_of_what_was_never_sent_is_passed_over() -> None:
    """It may have been true once, so the link goes on; WAIT and the log do not count it."""
    driven = written(4)
    serve = welcomed(driven, opening(R1))
    serve.take(driven.log[:2])
    told = {R2: {R1: 3}, R3: {R1: 2}, RegionId(4): {R1: 2, R2: 5}}
    serve.receive(Progress({R1: 1}, NOW, STANDING, others=told), 0.1)
    assert not serve.is_over
    assert driven.region.knowledge.vvs == {R3: {R1: 1}, RegionId(4): {R1: 2, R2: 5}}
    assert driven.region.retention.elsewhere_vv == {R1: 1}


def test_a_staging_version_vector_counts_for_the_log_alone() -> None:
    driven = written(4)
    serve = welcomed(driven, opening(R1))
    before = driven.region.retention.elsewhere_vv
    serve.receive(Progress({}, NOW, STANDING, staging_vv={R1: 3}), 0.1)
    assert driven.region.retention.will_have_vvs[serve.region] == {R1: 3}
    assert driven.region.retention.elsewhere_vv == before
    assert driven.region.knowledge.of(serve.region) == {}
    serve.receive(Progress({}, NOW, STANDING), 0.2)
    assert driven.region.retention.will_have_vvs[serve.region] == {}


def test_a_heartbeat_says_at_once_what_this_region_takes_over() -> None:
    driven = written(4)
    serve = welcomed(driven, opening(R1))
    bootstrap = driven.region.bootstrap
    bootstrap.note_begun(R2, NOW)
    bootstrap.progress.vv = {R2: 9}
    heartbeat = serve._heartbeat(NOW, 1.0)
    assert heartbeat.staging_vv == {R2: 9}
    has_news = [serve._has_something_to_tell]
    bootstrap.note_failed("gone", NOW)
    has_news.append(serve._has_something_to_tell)
    assert has_news == [False, True]
    assert serve._heartbeat(NOW, 2.0).staging_vv is None


def recovering() -> Driven:
    """A region that lost the end of its log: peers may have more of its effects."""
    folder = FolderState(is_proven=False, database=DatabaseIdentity(UID))
    region = make_region(limits=LIMITS, peers=(3,), log=written(2).log, folder=folder)
    driven = Driven(region)
    assert driven.region.opening.is_recovering
    return driven


def test_a_region_that_recovers_serves_peers_that_have_more_and_learns_when_it_is_back() -> None:
    driven = recovering()
    serve = welcomed(driven, replace(opening(R1, r1=4), membership=said_of(1, 3)))
    serve.receive(Progress({R1: 4}, NOW, STANDING), 0.1)
    assert not serve.is_over
    assert driven.region.knowledge.of(R3) == {}
    serve.receive(Progress({R1: 2}, NOW, STANDING), 0.1)
    assert driven.region.knowledge.of(R3) == {R1: 2}


def test_the_opening_version_vector_of_a_link_is_checked_after_recovery() -> None:
    """No peer has what region 3 says to have, so it was no loss but a lie."""
    driven = recovering()
    serve = welcomed(driven, replace(opening(R1, r1=1_000), membership=said_of(1, 3)))
    driven.region.opening.readiness.finish()
    with pytest.raises(PeerError, match="vv: it opened its link with 1000 effects of region 1"):
        serve.receive(Progress({R1: 2}, NOW, STANDING), 0.1)


# --- A log that was cut -------------------------------------------------------------------------


def begun_behind(first_seq: int, **begins: int) -> Driven:
    """A region whose log has LOG from ``first_seq`` on."""
    driven = begun()
    vv = {RegionId(int(name.removeprefix("r"))): n for name, n in begins.items()}
    driven.region.log.note_beginning(first_seq, vv)
    return driven


def test_a_puller_that_lacks_what_was_cut_is_welcomed_and_sent_nothing() -> None:
    serve = serve_of(begun_behind(5, r1=4, r2=3), opening(R1, r1=1))
    welcome = sent(serve.next(NOW, 0.0))
    assert isinstance(welcome, Welcome)
    assert welcome.begins == {R1: 4, R2: 3}
    end = serve.next(NOW, 0.0)
    assert isinstance(end, End)
    assert "region 1's log begins behind what region 3 lacks" in end.reason


def test_an_origin_that_was_cut_is_left_out_of_what_is_relayed() -> None:
    serve = serve_of(begun_behind(2, r1=1, r2=1), opening(R1, R2, r1=1))
    assert serve.next(NOW, 0.0) == Seek({R1: 1}, frozenset({R1}))
    serve.begin_at(2)
    serve.next(NOW, 0.0)
    serve.next(NOW, 0.0)
    assert batches(serve, 0.0) == [b"1:2-4"]
    assert serve.origins == {R1}


def test_a_link_goes_on_at_the_beginning_when_the_log_is_cut_behind_it() -> None:
    driven = begun()
    serve = welcomed(driven, opening(R1, R2))
    # Region 2 has them, and region 3 got them from there.
    serve_of(driven, opening(R1, region=R2, run_id=2, r1=4))
    serve.receive(Progress({R1: 4, R2: 3}, NOW, STANDING), 0.0)
    retention = driven.region.retention
    retention.cutting_seq = 4
    assert isinstance(serve.next(NOW, 0.0), Sleep), "what is going is not read"
    driven.region.log.note_beginning(5, {R1: 4, R2: 3})
    assert batches(serve, 0.0) == [b"2:4"]


def test_a_link_ends_when_the_log_is_cut_before_its_puller_has_it() -> None:
    driven = begun()
    serve = welcomed(driven, opening(R1, R2))
    driven.region.log.note_beginning(5, {R1: 4, R2: 3})
    assert isinstance(end := serve.next(NOW, 0.0), End)
    assert "needs a bootstrap" in end.reason


def test_the_link_the_other_way_knows_whether_its_peer_pulls() -> None:
    """Its peer hears heartbeats as long as it does, and need not be sent the same by acks."""
    driven = begun()
    pull = driven.region.links.pulls[R3]
    told = [pull.peer_pulls]
    first = serve_of(driven, opening(R1))
    told.append(pull.peer_pulls)
    second = serve_of(driven, opening(R1))
    driven.region.links.hang_up(first)
    # It came again before its first call was over.
    told.append(pull.peer_pulls)
    driven.region.links.hang_up(second)
    told.append(pull.peer_pulls)
    assert told == [False, True, True, False]


def test_records_for_other_pullers_are_passed_over_unread() -> None:
    driven = begun()
    region = driven.region
    serve = welcomed(driven, opening(R1))
    assert batches(serve, 0.0) == [b"1:1", b"1:2-4"]
    region.tick.close()
    received = [Record(R2, n, n, b"2:%d" % n, None) for n in range(5, 105)]
    region.outstanding.add(received, [])
    region.outstanding.note_logged(len(LOG) + len(received))
    region.links.note_logged(region.outstanding.logged_seq, NOW)
    assert serve not in region.tick.close()[2]
    assert isinstance(serve.next(NOW, 0.5), Sleep)
    assert isinstance(serve.next(NOW, 0.6), Sleep)

    region.outstanding.add([Record(R1, 5, 5, b"1:5", None)], [])
    region.outstanding.note_logged(region.outstanding.left_seq)
    region.links.note_logged(region.outstanding.logged_seq, NOW)
    assert serve in region.tick.close()[2]
    action = serve.next(NOW, 0.7)
    assert isinstance(action, Read)
    assert action.seq == region.outstanding.logged_seq
