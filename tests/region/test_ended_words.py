"""Version vectors that name ended effects: an incarnation began before these (rules 3, 18).

Region 1 hears that region 2 lost its effects after the second one, and has begun again.  The others
were known to have more.  The effects that get these numbers now are others: no region has them.
"""

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Begin, Incarnations, Lineage, encode_incarnations
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.database.session import Session
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Open, Progress, Standing, Welcome
from crdtstream.region.links.pull import Connect, Pull, PullAction, Sleep
from crdtstream.region.links.serve import Serve
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.region.ready import StoreIncarnations
from crdtstream.region.region import Region
from tests.harness.driven import UID, make_region, said_of

R1, R2, R3, R4 = map(RegionId, (1, 2, 3, 4))
NOW = Millis(1000)
STANDING = Standing(DatabaseIdentity(UID), recovering=False, regains=False)
FIRST, SECOND = Begin(1, b"a" * 16, 0), Begin(2, b"b" * 16, 2)
BEFORE, AFTER = (
    Incarnations(lineages={R2: Lineage(begins)}) for begins in ((FIRST,), (FIRST, SECOND))
)

SAID_BY_4 = said_of(1, 2, 3, 4)


def region_1(*, known: Incarnations = BEFORE, limits: RegionLimits | None = None) -> Region:
    """It has some of region 2's effects, and knows its first incarnation."""
    replica = Replica(R2)
    database, session = Database(replica), Session(1)
    for index in range(2):
        database.call(session, Millis(5 + index), [b"XADD", b"s", b"*", b"f", b"v"])
        replica.seal(Millis(5 + index))
    folder = FolderState(is_proven=True, database=DatabaseIdentity(UID), incarnations=known)
    log = replica.take_records(Millis(100))
    return make_region(peers=(2, 3, 4), log=log, folder=folder, limits=limits)


def hear(region: Region, lineage: Lineage = AFTER.lineages[R2]) -> None:
    """Region 2 opens a link, and says that it has begun anew."""
    said = encode_incarnations(Incarnations(own=SECOND, lineages={R2: lineage}))
    assert region.numbering.hear(R2, 9, {R2: 2}, said, recovers=False) is None


def begin(region: Region) -> None:
    """The same, and the folder has it."""
    hear(region)
    change = region.folder.next_change
    assert isinstance(change, StoreIncarnations)
    region.folder.note_written(change, NOW)


def stable(region: Region) -> VersionVector:
    return region.knowledge.stable(region.outstanding.durable_vv)


# --- What is known already ------------------------------------------------------------------------


def test_a_region_that_lost_effects_holds_stability_back_until_it_begins_again() -> None:
    region = region_1()
    region.stability.learn(R2, {R2: 3})
    for other in (R3, R4):
        region.stability.learn(other, {R2: 2})
    assert stable(region) == {}, "what region 2 had issued by then is not here"
    begin(region)
    assert stable(region) == {}, "it has not said yet what it has"
    region.stability.learn(R2, {R2: 2})
    assert stable(region) == {R2: 2}


def test_version_vectors_do_not_cover_effects_that_reuse_ended_numbers() -> None:
    region = region_1()
    for other in (R2, R3, R4):
        region.stability.learn(other, {R2: 3, R4: 1})
    begin(region)
    assert region.knowledge.vvs == {R3: {R2: 2, R4: 1}, R4: {R2: 2, R4: 1}}
    assert region.knowledge.counted == region.knowledge.vvs
    # The log would be kept for them.
    assert {region.retention.will_have_vvs[one][R2] for one in (R3, R4)} == {2}
    region.stability.learn(R2, {R2: 3})
    assert region.knowledge.count_with(R2, 3) == 1


def test_nothing_lacks_for_want_of_effects_that_ended() -> None:
    region = region_1()
    region.lags.note(R3, {R2: 3}, 100)
    assert region.lags.lag_ms(R3, 200) == 100
    begin(region)
    assert region.lags.lag_ms(R3, 300) == 0


def test_a_region_that_starts_does_not_wait_for_effects_that_ended() -> None:
    limits = RegionLimits(catch_up_answer_ms_max=1_000, catch_up_stall_ms_max=60_000)
    region = region_1(limits=limits)
    for peer in (R2, R3, R4):
        region.opening.catching_up.note_answer(peer, 7, {R2: 3})
    region.pass_time(NOW)
    assert "1 effect that they had then" in str(region.refuses_writes)
    begin(region)
    assert region.refuses_writes is None


# --- What comes late ------------------------------------------------------------------------------


def welcomed(pull: Pull, known: Incarnations) -> None:
    """A call to region 3, which knows these incarnations, begins."""
    actions: list[PullAction] = []
    while not isinstance(action := pull.next(NOW, 0.0), Sleep):
        actions.append(action)
    assert Connect() in actions
    said = encode_incarnations(known)
    pull.receive(
        Welcome(R3, 7, {R2: 2}, STANDING, own_n=0, incarnations=said, membership=SAID_BY_4),
        NOW,
        0.0,
    )


def late_words(vv: VersionVector) -> Progress:
    """Region 3 says that it has this, and regions 2 and 4, too."""
    return Progress(vv, NOW, STANDING, others={R2: vv, R4: vv})


def test_words_of_before_that_come_late_by_a_link_to_a_peer_do_not_count() -> None:
    region = region_1()
    pull = region.links.pulls[R3]
    welcomed(pull, BEFORE)
    hear(region)
    pull.receive(late_words({R2: 3}), NOW, 0.0)
    assert region.knowledge.vvs == {R3: {R2: 2}, R4: {R2: 2}}
    # The folder has it, and all links begin again.
    change = region.folder.next_change
    assert isinstance(change, StoreIncarnations)
    region.folder.note_written(change, NOW)
    welcomed(pull, AFTER)
    pull.receive(late_words({R2: 3}), NOW, 0.0)
    assert region.knowledge.vvs == {one: {R2: 3} for one in (R2, R3, R4)}


def test_words_of_before_that_come_late_by_a_link_of_a_peer_do_not_count() -> None:
    region = region_1()
    for known, expected in (
        (BEFORE, {R3: {R2: 2}, R4: {R2: 2}}),
        (AFTER, {one: {R2: 3} for one in (R2, R3, R4)}),
    ):
        said = encode_incarnations(known)
        opening = Open(
            R3,
            "crdb",
            7,
            frozenset({R1}),
            {R2: 2},
            STANDING,
            incarnations=said,
            membership=SAID_BY_4,
        )
        serve = region.links.accept(opening, 0.0)
        assert isinstance(serve, Serve)
        if known is BEFORE:
            hear(region)
        serve.receive(late_words({R2: 3}), 0.0)
        assert region.knowledge.vvs == expected


def test_a_peer_that_names_no_incarnations_is_believed() -> None:
    region = region_1(known=Incarnations())
    hear(region, Lineage((SECOND,)))
    serve = region.links.accept(
        Open(R3, "crdb", 7, frozenset({R1}), {R2: 2}, STANDING, membership=SAID_BY_4), 0.0
    )
    assert isinstance(serve, Serve)
    serve.receive(late_words({R2: 3}), 0.0)
    assert region.knowledge.vvs == {one: {R2: 3} for one in (R2, R3, R4)}
