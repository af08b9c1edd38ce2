"""``rules`` 18 as tables: what a region that proves nothing must hear before it issues effects."""

from collections.abc import Iterable

import pytest

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.uid import NO_UID, DatabaseUid, shown_uid
from crdtstream.region.events import Event, HeldChanged
from crdtstream.region.peer_runs import PeerRuns
from crdtstream.region.readiness import Answer, DatabaseIdentity, Readiness
from crdtstream.region.tick import Tick
from tests.harness.peers import peers_of

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
ONE, OTHER, MADE = (DatabaseUid(bytes([n]) * 16) for n in (1, 2, 3))


def readiness(
    region: RegionId = R1,
    peers: Iterable[RegionId] = (R2, R3),
    *,
    uid: DatabaseUid = ONE,
    declared: bool = False,
    is_proven: bool = False,
    has_effects: bool = True,
) -> Readiness:
    return Readiness(
        peers_of(region, *peers),
        database=DatabaseIdentity(uid, declared),
        is_proven=is_proven,
        has_effects=has_effects,
        make_uid=lambda: MADE,
    )


def settle(region: Readiness, vv: VersionVector) -> str | None:
    """Finish if all has arrived, as the gate does; returns the reason why nothing may be issued."""
    if region.has_recovered(vv):
        region.finish()
    return region.obstacle(vv)


def is_asking(region: Readiness) -> bool:
    """Looked at anew: the type checker takes a property for what it was found to be."""
    return region.is_asking


def test_the_folder_last_open_here_issues_at_once() -> None:
    region = readiness(is_proven=True)
    assert region.obstacle({R1: 5}) is None
    region.note_known(R2, 5)
    assert not region.recover_if_behind(5)
    assert region.obstacle({R1: 5}) is None


def test_a_region_that_learns_of_a_loss_asks_everybody_again() -> None:
    region = readiness(is_proven=True)
    region.note_known(R3, 9)
    assert region.recover_if_behind(5)
    assert region.is_recovering
    assert not region.recover_if_behind(5)
    for peer in (R2, R3):
        assert f"waits for region {peer}" in str(settle(region, {R1: 5})).replace("2, 3", f"{peer}")
        region.note_answer(peer, Answer(own_n=9))
    assert "it has 5 of 9" in str(settle(region, {R1: 5}))
    assert settle(region, {R1: 9}) is None


def test_every_member_must_answer() -> None:
    """R1 sent 100 to 105 to R2 only; R3's answer of 99 must not be enough."""
    region = readiness()
    assert "waits for region 2, 3" in str(settle(region, {R1: 99}))
    region.note_answer(R3, Answer(own_n=99))
    assert "waits for region 2" in str(settle(region, {R1: 99}))
    region.note_answer(R2, Answer(own_n=105))
    assert "it has 99 of 105" in str(settle(region, {R1: 99}))
    assert settle(region, {R1: 105}) is None
    assert not region.is_recovering


def test_the_highest_answer_counts() -> None:
    region = readiness()
    region.note_answer(R2, Answer(own_n=105))
    region.note_answer(R3, Answer(own_n=99))
    assert "it has 99 of 105" in str(settle(region, {R1: 99}))


def test_a_heartbeat_is_no_answer() -> None:
    region = readiness()
    region.note_known(R2, 5)
    region.note_known(R3, 5)
    assert "waits for region 2, 3" in str(settle(region, {R1: 5}))


def test_when_a_peer_has_lost_what_it_had_answered_for_all_answer_again() -> None:
    """It had applied 105 and not logged it; until its crash others may have had it from there."""
    region = readiness()
    assert not region.note_answer(R3, Answer(own_n=99))
    assert not region.note_answer(R2, Answer(own_n=105))
    assert not is_asking(region)
    assert region.note_answer(R2, Answer(own_n=99))
    assert is_asking(region)
    assert "waits for region 3" in str(settle(region, {R1: 99}))
    assert not region.note_answer(R3, Answer(own_n=105))
    assert "it has 99 of 105" in str(settle(region, {R1: 99}))


def test_it_asks_until_all_have_answered_and_recovers_until_nothing_lacks() -> None:
    region = readiness()
    region.note_answer(R2, Answer(own_n=9))
    assert (region.is_asking, region.is_recovering) == (True, True)
    region.note_answer(R3, Answer(own_n=5))
    assert (region.is_asking, region.is_recovering) == (False, True)
    assert settle(region, {R1: 9}) is None
    assert (region.is_asking, region.is_recovering) == (False, False)


def test_effects_that_peers_have_must_be_applied_before_writes() -> None:
    """They may have dropped tombstones because this region had said that it has a destroy."""
    region = readiness()
    region.note_answer(R2, Answer(own_n=5, vv={R1: 9, R2: 7, R3: 4}))
    region.note_answer(R3, Answer(own_n=5, vv={R3: 6}))
    assert "lacks 2 effects that its peers have" in str(settle(region, {R1: 5, R2: 6, R3: 5}))
    # Of its own effects they have applied 5, whatever their logs hold of an earlier run.
    assert settle(region, {R1: 5, R2: 7, R3: 6}) is None


def test_effects_that_a_peer_lost_after_its_answer_are_not_waited_for() -> None:
    region = readiness()
    region.note_answer(R2, Answer(own_n=5, vv={R2: 8}))
    region.note_answer(R3, Answer(own_n=5, vv={R3: 6}))
    assert not region.note_loss(R2, Answer(own_n=5, vv={R2: 7}))
    assert settle(region, {R1: 5, R2: 6, R3: 6}) is not None
    assert settle(region, {R1: 5, R2: 7, R3: 6}) is None


def test_the_refusal_names_whom_it_waits_for_and_the_way_out() -> None:
    told = str(readiness(has_effects=False, uid=NO_UID).obstacle({}))
    assert "waits for region 2, 3" in told
    assert "--new-database" in told
    assert "crdb remove-instance" in told
    assert "--new-database" not in str(readiness().obstacle({R1: 5}))


def test_the_error_about_cut_effects_does_not_promise_them_in_a_moment() -> None:
    """Neither effects of its own that it lost, nor those of others."""
    region = readiness()
    region.note_answer(R2, Answer(own_n=9, vv={R2: 7}))
    region.note_answer(R3, Answer(own_n=5))
    lost_own, lacks_others = {R1: 5, R2: 7}, {R1: 9, R2: 6}
    for vv in (lost_own, lacks_others):
        assert "try again in a moment" in str(region.obstacle(vv))
    region.cut_off = "region 2 has cut region 1's effects 6 to 8 from its log"
    for vv in (lost_own, lacks_others):
        told = str(region.obstacle(vv))
        assert region.cut_off in told
        assert "cannot pull" in told
        assert "in a moment" not in told


# --- The database's identity ----------------------------------------------------------------------


def test_the_lowest_region_names_the_database_when_all_have_answered() -> None:
    first = readiness(R1, uid=NO_UID, has_effects=False)
    second = readiness(R2, (R1, R3), uid=NO_UID, has_effects=False)
    for region, peers in ((first, (R2, R3)), (second, (R1, R3))):
        assert not region.database.uid
        for peer in peers:
            region.note_answer(peer, Answer(own_n=0))
    assert first.database == DatabaseIdentity(MADE)
    assert settle(first, {}) is None
    assert "waits for region 1 to name the database" in str(settle(second, {}))
    assert second.note_database(R1, first.database) is None
    assert settle(second, {}) is None


def test_a_region_alone_names_it_at_once() -> None:
    region = readiness(peers=(), uid=NO_UID, has_effects=False)
    assert region.database.uid == MADE
    assert settle(region, {}) is None


def test_a_wiped_region_takes_over_the_identity_that_there_is() -> None:
    region = readiness(uid=NO_UID, has_effects=False)
    region.note_answer(R3, Answer(own_n=0))
    assert region.note_database(R2, DatabaseIdentity(ONE)) is None
    region.note_answer(R2, Answer(own_n=5))
    assert region.database.uid == ONE
    assert "it has 0 of 5" in str(settle(region, {}))


def test_two_databases_are_refused_with_both_identities() -> None:
    refusal = str(readiness(is_proven=True).note_database(R2, DatabaseIdentity(OTHER)))
    assert shown_uid(ONE) in refusal
    assert shown_uid(OTHER) in refusal
    assert "start the one that is to join with an empty folder" in refusal


def test_another_database_is_not_taken_over_by_a_look_at_it() -> None:
    region = readiness(uid=NO_UID, has_effects=False)
    assert region.wrong_database(R2, DatabaseIdentity(OTHER)) is None
    assert region.database == DatabaseIdentity()


def test_a_refusal_by_another_database_stops_no_writes() -> None:
    region = readiness(is_proven=True)
    region.note_refusal(R2, region.wrong_database(R2, DatabaseIdentity(OTHER)) or "")
    assert region.obstacle({}) is None


def test_effects_of_an_earlier_version_do_not_join_a_database_declared_new() -> None:
    region = readiness(uid=NO_UID)
    refusal = region.note_database(R2, DatabaseIdentity(OTHER, declared=True))
    assert refusal is not None
    assert shown_uid(OTHER) in refusal
    assert not region.database.uid
    assert region.note_database(R2, DatabaseIdentity(OTHER)) is None
    assert region.database.uid == OTHER


# --- Peers that recover ---------------------------------------------------------------------------


@pytest.fixture
def told() -> list[RegionId]:
    return []


@pytest.fixture
def runs(told: list[RegionId]) -> PeerRuns:
    tick = Tick()

    def follow(event: Event) -> None:
        assert isinstance(event, HeldChanged)
        told.append(event.region)

    tick.follow = follow
    return PeerRuns(tick)


def test_effects_are_held_until_the_run_is_ready(runs: PeerRuns, told: list[RegionId]) -> None:
    runs.note_start(R1, 7, recovering=True)
    runs.note_start(R1, 7, recovering=True)
    assert (runs.is_held(R1), runs.is_held(R2)) == (True, False)
    assert told == [R1]
    runs.note(R1, 7, recovering=True)
    runs.note(R1, 7, recovering=False)
    assert not runs.is_held(R1)
    assert told == [R1, R1]


def test_late_messages_of_an_earlier_run_are_ignored(runs: PeerRuns) -> None:
    runs.note_start(R1, 8, recovering=True)
    runs.note(R1, 7, recovering=False)
    assert runs.is_held(R1)


def test_each_run_that_recovers_is_told_of_anew(runs: PeerRuns, told: list[RegionId]) -> None:
    """Its answer must come after everything unapplied was forgotten once more."""
    runs.note_start(R1, 7, recovering=True)
    runs.note_start(R1, 8, recovering=True)
    assert told == [R1, R1]
    runs.note_start(R1, 9, recovering=False)
    assert not runs.is_held(R1)


def test_the_refusal_says_what_a_peer_refuses_and_no_more_how_to_begin_a_database() -> None:
    region = readiness(uid=NO_UID, has_effects=False)
    region.note_refusal(R3, "region 1 is no peer of region 3; add it to its peers")
    assert "Region 3 refuses it: region 1 is no peer of region 3" in str(region.obstacle({}))
    assert "--new-database" in str(region.obstacle({}))
    assert "--new-database" not in str(region.obstacle({R2: 1}))
    region.note_database(R2, DatabaseIdentity(ONE))
    assert "--new-database" not in str(region.obstacle({}))
    region.note_welcome(R3)
    assert "refuses it" not in str(region.obstacle({}))
