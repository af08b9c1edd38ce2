"""Random histories in which regions join, move and are removed."""

import pytest

from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId
from crdtstream.core.membership.members import genesis
from crdtstream.sim.branches import are_split, kept_of, members_of, newest_of
from crdtstream.sim.disk import Disk, now
from crdtstream.sim.history import History, Plan
from crdtstream.sim.making import MEMBERS_FROM, Maker
from crdtstream.store.log import Fsync
from tests.conftest import seeds
from tests.sim.drawn import SOAK_SEEDS, check_drawn

STEPS = 100
R1, R2, R3, R4 = map(RegionId, (1, 2, 3, 4))


@pytest.mark.parametrize("seed", seeds(25, first=MEMBERS_FROM, few=6))
def test_every_invariant_holds_while_members_change(seed: int) -> None:
    _, failure = Maker(seed).run(STEPS)
    assert failure is None, f"again: crdtstream simulate --seed {seed} --steps {STEPS}"


@pytest.mark.soak
def test_every_invariant_holds_for_many_seeds_in_which_members_change() -> None:
    check_drawn("members", seeds=max(10, SOAK_SEEDS // 5), steps=STEPS)


# --- What such worlds are made of -----------------------------------------------------------------


def made(regions: int = 3) -> History:
    """A world whose regions have met."""
    history = History(Plan(regions=regions, has_members=True))
    meet(history)
    assert newest_of(history.world.up()).epoch == 1
    return history


def meet(history: History, *, times: int = 6) -> None:
    numbers = list(history.world.nodes)
    for _ in range(times):
        history.do(("pass", 300))
        for one in numbers:
            history.do(("time", one))
            for other in numbers:
                if one != other:
                    history.do(("exchange", one, other, 30))
            history.do(("settle", one))


def statuses(history: History) -> dict[int, str]:
    members = newest_of(kept_of(history.world.up()))
    return {one.region: one.status.value for one in members.regions}


def test_a_region_joins_and_becomes_active() -> None:
    history = made()
    history.do(("call", 1, "a", "XADD z 1 f v"))
    history.do(("add", 2, 0))
    meet(history)
    assert statuses(history) == {1: "active", 2: "active", 3: "active", 4: "joining"}
    history.do(("join", 3))
    for _ in range(10):
        meet(history)
        history.do(("bootstrap", 4, 100))
    assert statuses(history)[4] == "active"
    history.heal()
    assert dict(history.world.nodes[R4].region.replica.vv) == dict(
        history.world.nodes[R1].region.replica.vv
    )


def test_a_region_that_joined_and_lost_its_folder_comes_back() -> None:
    """Its file names the members of the day on which it joined, and not those of the beginning."""
    history = made()
    history.do(("remove", 1, 3, 0))
    meet(history)
    history.do(("add", 2, 0))
    meet(history)
    history.do(("join", 2))
    for _ in range(10):
        meet(history)
        history.do(("bootstrap", 4, 100))
    assert statuses(history) == {1: "active", 2: "active", 3: "removed", 4: "active"}
    assert history.world.nodes[R4].configured.keys() == {R1, R2}
    history.do(("call", 4, "a", "XADD z 1 f v"))
    meet(history)
    history.do(("wipe", 4))
    history.do(("start", 4))
    assert members_of(history.world.nodes[R4]) == genesis([R1, R2, R4])
    meet(history)
    assert members_of(history.world.nodes[R4]).hash == members_of(history.world.nodes[R1]).hash
    history.heal()
    assert fields(history, 4, "z") == fields(history, 1, "z") == [b"v"]


def test_a_region_that_is_only_cut_off_is_removed_and_hears_of_it() -> None:
    history = made()
    for other in (1, 2):
        history.do(("cut", 3, other))
        history.do(("cut", other, 3))
    history.do(("call", 3, "a", "XADD z 1 f v"))
    history.do(("remove", 1, 3, 0))
    meet(history)
    assert statuses(history) == {1: "active", 2: "active", 3: "removed"}
    assert history.world.nodes[R3].region.refuses_writes is None, "it knows nothing of it"
    history.heal()
    assert "was removed at epoch 2" in str(history.world.nodes[R3].region.refuses_writes)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_backup_of_before_a_removal_takes_nothing_of_the_removed_region_that_lives_on(
    is_empty: bool,
) -> None:
    """Both take writes.  The backup knows the removed region as a member, and meets it first: what
    it took from there would be beyond the cut, and in one region only."""
    history = made()
    history.do(("call", 2, "a", "XADD z * f v"))
    meet(history)
    before = 0 if is_empty else history.world.nodes[R2].disk.last_seq
    apart = [(3, 1), (1, 3), (3, 2), (2, 3)]
    for one, other in apart:
        history.do(("cut", one, other))
    history.do(("call", 3, "a", "XADD x * f void"))
    history.do(("settle", 3))
    history.do(("remove", 1, 3, 0))
    meet(history)
    history.do(("call", 1, "a", "XADD x * f counts"))
    meet(history)
    history.do(("crash", 2, False))
    history.do(("restore", 2, before, 9))
    history.do(("heal",))
    for one, other in ((1, 2), (2, 1), (1, 3), (3, 1)):
        history.do(("cut", one, other))
    history.do(("start", 2))
    assert members_of(history.world.nodes[R2]).epoch == 1
    meet(history)
    history.do(("call", 3, "a", "XADD x * f void-too"))
    meet(history)
    assert history.world.nodes[R3].region.refuses_writes is None, "it lives on"
    assert history.world.nodes[R2].region.refuses_writes is not None
    assert fields(history, 2, "x") == []
    history.do(("heal",))
    meet(history)
    for region in (1, 2):
        assert fields(history, region, "x") == [b"counts"]
        history.do(("call", region, "a", "XADD y * f v"))
    assert fields(history, 3, "x") == [b"void", b"void-too"]
    assert "was removed at epoch 2" in str(history.world.nodes[R3].region.refuses_writes)
    history.heal()
    assert fields(history, 1, "y") == fields(history, 2, "y") == [b"v", b"v"]


def test_two_parts_that_went_on_alone_are_split_for_good() -> None:
    history = made(2)
    for one, other in ((1, 2), (2, 1)):
        history.do(("cut", one, other))
        history.do(("without majority", one, other, 0, one))
    meet(history)
    first, second = history.world.nodes.values()
    assert are_split(first, second)
    history.world.cuts.clear()
    meet(history)
    assert members_of(first).active == (1,)
    assert members_of(second).active == (2,)
    assert not first.region.links.serves
    assert not second.region.links.serves


def test_a_region_that_dies_is_removed_at_the_end() -> None:
    history = made()
    history.do(("die", 2))
    history.heal()
    assert statuses(history) == {1: "active", 2: "removed", 3: "active"}


def test_letters_to_a_process_that_died_are_lost() -> None:
    history = made()
    history.do(("remove", 1, 3, 0))
    history.do(("settle", 1))
    assert history.world.post.between(R1, R2)
    history.do(("crash", 2, False))
    assert not history.world.post.between(R1, R2)


def test_an_earlier_copy_of_a_folder_says_what_it_said_of_the_members() -> None:
    disk = Disk(Fsync.ALWAYS)
    for value in ("00", "01", "02"):
        now(disk.set_meta("membership", value))
    disk.put_back(0, votes_back=1)
    assert now(disk.get_meta("membership")) == "01"
    disk.put_back(0, votes_back=9)
    assert now(disk.get_meta("membership")) is None


def test_a_world_without_members_is_as_it_was() -> None:
    assert not Maker(7).plan.has_members
    assert Maker(MEMBERS_FROM).plan.has_members


# --- What a removed region had alone --------------------------------------------------------------


@pytest.fixture
def stranded() -> History:
    """Region 3 is removed, and three of its entries are in no other region."""
    history = made()
    history.do(("cut", 3, 1))
    history.do(("cut", 3, 2))
    for words in ("XADD x * f a", "XADD x IDMP p 1 * f b", "XADD y * f c"):
        history.do(("call", 3, "a", words))
    history.do(("settle", 3))
    history.do(("token", 3))
    history.do(("remove", 1, 3, 0))
    meet(history)
    history.do(("heal",))
    meet(history)
    assert statuses(history) == {1: "active", 2: "active", 3: "removed"}
    return history


def fields(history: History, region: int, key: str) -> list[bytes]:
    stream = history.world.nodes[RegionId(region)].region.replica.keys.held_stream(key.encode())
    lanes = {} if stream is None else stream.lanes
    return sorted(
        bytes(node.columns.fields_at(at)).split(b"\r\n")[-2]
        for lane in lanes.values()
        for _, node, at in lane.scan(ID_MIN, ID_MAX)
    )


def test_each_entry_is_salvaged_once_into_whatever_region(stranded: History) -> None:
    """M18: killed in the middle, run again, and once more into another region at the same time."""
    stranded.do(("salvage", 3, 1, 1))
    stranded.do(("salvage", 3, 2, 9))
    stranded.do(("salvage", 3, 1, 9))
    meet(stranded)
    for region in (1, 2):
        assert fields(stranded, region, "x") == [b"a", b"b"]
        assert fields(stranded, region, "y") == [b"c"]


def test_entries_that_their_producer_appended_again_are_not_salvaged(stranded: History) -> None:
    """M18: the retry went to another region, as the removed one was gone."""
    stranded.do(("call", 2, "a", "XADD x IDMP p 1 * f b"))
    stranded.do(("settle", 2))
    meet(stranded)
    stranded.do(("salvage", 3, 1, 9))
    meet(stranded)
    assert fields(stranded, 2, "x") == [b"a", b"b"]
    stranded.heal()


def test_entries_that_a_lost_region_had_sent_to_the_removed_one_alone_are_salvaged() -> None:
    """Region 1 loses its disk, and the numbers of these entries are used again."""
    history = made()
    history.do(("call", 1, "a", "XADD z * f v"))
    meet(history)
    for other in (1, 3):
        history.do(("cut", 2, other))
        history.do(("cut", other, 2))
    for words in ("XADD x * f a", "XADD x * f b"):
        history.do(("call", 1, "a", words))
    history.do(("settle", 1))
    meet(history)
    assert fields(history, 3, "x") == [b"a", b"b"]
    history.do(("crash", 3, False))
    history.do(("wipe", 1))
    history.do(("heal",))
    history.do(("start", 1))
    history.do(("without majority", 2, 3, 0, 2))
    meet(history)
    history.do(("call", 1, "a", "XADD x * f new"))
    history.do(("settle", 1))
    meet(history)
    assert statuses(history) == {1: "active", 2: "active", 3: "removed"}
    assert fields(history, 2, "x") == [b"new"]
    for into in (2, 1, 2):
        history.do(("salvage", 3, into, 9))
        meet(history)
        assert fields(history, 1, "x") == fields(history, 2, "x") == [b"a", b"b", b"new"]
    history.heal()


def test_a_client_that_waits_for_lost_effects_of_a_removed_region_gets_lost(
    stranded: History,
) -> None:
    """M17."""
    stranded.do(("wait for", 1, -1))
    node = stranded.world.nodes[R1]
    assert not node.clients["waits 0"].is_waiting
    assert node.last_reply.startswith(b"-LOST region 3 was removed")


def test_a_region_seals_itself_and_all_of_it_counts() -> None:
    history = made()
    history.do(("call", 3, "a", "XADD x * f a"))
    history.do(("settle", 3))
    for _ in range(6):
        history.do(("seal", 1, 3, 0))
        history.do(("settle", 3))
        meet(history, times=2)
    assert statuses(history) == {1: "active", 2: "active", 3: "removed"}
    assert fields(history, 2, "x") == [b"a"]
    history.heal()
