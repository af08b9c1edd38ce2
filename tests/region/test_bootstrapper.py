"""The bootstrapper: what it does after a failure, and when what is staged may be deleted."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

import pytest

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.effects import Merged, Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.lanes.packing import pack
from crdtstream.core.member_changes import Removal
from crdtstream.core.membership.members import apply
from crdtstream.core.merge.merging import SLICE_KEYS
from crdtstream.engine.bootstrapper import Bootstrapper
from crdtstream.engine.turns import TURN_NS
from crdtstream.region.bootstrap import Phase
from crdtstream.region.links.errors import PeerError
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.region.region import Region
from crdtstream.store.failpoints import Armed, refuse
from crdtstream.store.log import MemoryLog
from crdtstream.store.staging import (
    MemoryStaging,
    Staged,
    StagedCut,
    Staging,
    make_image,
    staged_state,
)
from tests.harness.checkpoints import parts_of
from tests.harness.driven import UID, make_region
from tests.harness.members import decide, members
from tests.harness.regions import Node
from tests.membership.world import founded, removal
from tests.store.stagings import stage_state

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
NOW = Millis(1_000)
SAVED_SEQ = 7
CUT = StagedCut(bytes(16), R2, {R2: 5}, 0, 0, 0)


class NoTicks:
    """An engine that has nothing to log."""

    def end_tick(self) -> int:
        return SAVED_SEQ

    async def wait_logged(self, seq: int) -> None:
        assert seq == SAVED_SEQ


async def no_peer_answers(source: RegionId, staging: Staging) -> None:
    assert staging.staged() is None
    raise PeerError(source, "UNAVAILABLE: it is away")


def bootstrapper_of(region: Region, staging: Staging) -> Bootstrapper:
    return Bootstrapper(region, MemoryLog(), staging, NoTicks(), no_peer_answers, now=lambda: NOW)


async def complete() -> MemoryStaging:
    staging = MemoryStaging()
    await staging.begin(CUT)
    await staging.finish()
    return staging


async def test_staged_images_stay_until_a_checkpoint_has_the_merged_state() -> None:
    region, staging = make_region(), await complete()
    one = bootstrapper_of(region, staging)
    region.bootstrap.note_merged(SAVED_SEQ)
    await one.look()
    assert staging.is_complete
    region.checkpointing.note_found(SAVED_SEQ, NOW, size_bytes=1)
    await one.look()
    assert staging.staged() is None
    assert region.bootstrap.phase is Phase.IDLE


async def test_a_failed_discard_of_the_staging_is_tried_again() -> None:
    region, staging = make_region(), await complete()
    staging.failpoints = Armed("staging.discard", refuse)
    one = bootstrapper_of(region, staging)
    region.bootstrap.note_merged(SAVED_SEQ)
    region.checkpointing.note_found(SAVED_SEQ, NOW, size_bytes=1)
    phases = []
    for _ in range(2):
        await one.look()
        phases.append(region.bootstrap.phase)
    assert phases == [Phase.SAVING, Phase.IDLE]


async def test_a_restart_goes_on_with_the_state_that_its_log_names() -> None:
    region, staging = make_region(), await complete()
    await bootstrapper_of(region, staging).begin(SAVED_SEQ)
    assert (region.bootstrap.phase, region.bootstrap.source) == (Phase.SAVING, R2)
    assert staging.is_complete


async def test_useless_staged_images_are_deleted_at_the_start() -> None:
    region, staging = make_region(), await complete()
    assert region.bootstrap.is_of_use(Merged(CUT.id, CUT.source, CUT.vv))
    region.replica.vv = {R2: 5}
    await bootstrapper_of(region, staging).begin(0)
    assert staging.staged() is None


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> Region:
    """A region that a state is wanted for, from each peer in turn."""
    region = make_region()
    monkeypatch.setattr(
        type(region),
        "bootstrap_wanted",
        lambda self, _now: self.bootstrap._next_of([R2, R3]),
    )
    return region


async def test_after_a_failure_another_peer_is_asked_and_the_reason_is_kept(
    lacking: Region,
) -> None:
    one = bootstrapper_of(lacking, MemoryStaging())
    failures = []
    for _ in range(3):
        await one.look()
        failures.append(lacking.bootstrap.failure)
    assert failures == [f"region {peer}: UNAVAILABLE: it is away" for peer in (2, 3, 2)]
    assert (lacking.bootstrap.failures, lacking.bootstrap.count) == (3, 0)
    assert lacking.bootstrap.phase is Phase.IDLE


@pytest.mark.parametrize(
    ("calls", "asked"),
    [
        # By call how many images came, and whether it went on; then who is asked.
        ([(3, False)], [2, 2]),
        ([(3, False), (1, True), (1, True)], [2, 2, 2, 2]),
        ([(3, False), (0, True)], [2, 2, 3]),
        ([(3, False), (3, False)], [2, 2, 3]),
        ([(0, False), (3, False)], [2, 3, 3]),
    ],
)
async def test_a_copy_that_breaks_on_its_way_goes_on_with_the_same_peer(
    lacking: Region, calls: list[tuple[int, bool]], asked: list[int]
) -> None:
    """From another one all would come again; one that never gets on is not asked for ever."""
    sources: list[int] = []

    async def copy(source: RegionId, staging: Staging) -> None:
        assert staging.staged() is None
        progress = lacking.bootstrap.progress
        if len(sources) < len(calls):
            images, progress.is_resumed = calls[len(sources)]
            progress.images_before, progress.images_done = 5, 5 + images
        sources.append(source)
        raise PeerError(source, "UNAVAILABLE: it is away")

    one = Bootstrapper(lacking, MemoryLog(), MemoryStaging(), NoTicks(), copy, now=lambda: NOW)
    for _ in asked:
        await one.look()
    assert sources == asked


# --- States that have what a region may have lost -------------------------------------------------


def regions_with_effects(count: int = 3) -> tuple[Node, Node, Node]:
    """Region 3 has two effects of region 1, one of region 2, and none of its own."""
    r1, r2, r3, *_ = members(count)
    r1.run("XADD x 1 f v", "XADD x 2 f v")
    r2.run("XADD x 3 f v")
    r3.pull(r1, r2)
    return r1, r2, r3


def recovering(log: Sequence[Record] = ()) -> Region:
    folder = FolderState(is_proven=False, database=DatabaseIdentity(UID))
    region = make_region(log=log, folder=folder)
    assert region.opening.is_recovering
    return region


def begins_to_recover(region: Region, peer: RegionId) -> None:
    region.opening.peer_runs.note_start(peer, 99, recovering=True)


def has_recovered(region: Region, peer: RegionId) -> None:
    region.opening.peer_runs.note(peer, 99, recovering=False)


async def take_over(
    region: Region, peer: Node, meanwhile: Callable[[], None] = lambda: None
) -> MemoryStaging:
    """Copy the state of a region and try to merge it.

    Args:
        meanwhile: called when all is staged.
    """
    staging = MemoryStaging()
    region.replica.staged = partial(staged_state, staging)

    async def copy(source: RegionId, staging: Staging) -> None:
        assert source == peer.region
        await stage_state(staging, peer.replica)
        meanwhile()

    one = Bootstrapper(region, MemoryLog(), staging, NoTicks(), copy, now=lambda: NOW)
    await one._take_over(RegionId(peer.region))
    return staging


async def test_a_state_is_merged_if_no_region_has_lost_what_it_has() -> None:
    _, _, r3 = regions_with_effects()
    r3.run("XADD x 4 f v")
    region = recovering()
    await take_over(region, r3)
    assert dict(region.replica.vv) == {R1: 2, R2: 1, R3: 1}
    assert region.replica.digest() == r3.digest
    assert region.bootstrap.phase is Phase.SAVING


@pytest.mark.parametrize("still", [True, False])
async def test_a_state_with_effects_that_a_recovering_peer_may_have_lost_is_dropped(
    still: bool,
) -> None:
    """The peer was told that this region has none of its effects, and may use their dots again."""
    _, _, r3 = regions_with_effects()
    region = recovering()

    def meanwhile() -> None:
        begins_to_recover(region, R2)
        if not still:
            has_recovered(region, R2)

    staging = await take_over(region, r3, meanwhile)
    assert dict(region.replica.vv) == {}
    assert staging.staged() is None
    assert region.bootstrap.phase is Phase.IDLE
    assert region.bootstrap.failure == "region 2 may have lost effects that this state has"


async def test_a_state_of_another_history_than_is_known_by_then_is_dropped() -> None:
    """M3: its region and others have split, and the members of these became known meanwhile; their
    effects have not come."""
    _, _, r3 = regions_with_effects()
    decide(r3, removal(2, 3, Removal.WITHOUT_MAJORITY))
    region = recovering()
    ours = apply(founded(3), removal(2, 1, Removal.WITHOUT_MAJORITY))
    staging = await take_over(region, r3, lambda: region.membership.members.note_newest(ours))
    assert dict(region.replica.vv) == {}
    assert staging.staged() is None
    assert "the database has split" in region.bootstrap.failure


async def test_a_state_made_of_effects_of_a_clone_of_a_folder_is_dropped() -> None:
    """As its link was opened, nothing of that was known."""
    _, _, r3 = regions_with_effects(4)
    clone, other, *_ = members(4)
    clone.run("XADD x 1 f other", "XADD x 2 f other")
    other.pull(clone)
    region = make_region(4, (1, 2, 3), log=other.log)
    assert region.replica.digest() == other.digest
    staging = await take_over(region, r3)
    assert dict(region.replica.vv) == {R1: 2}
    assert region.replica.digest() == other.digest
    assert staging.staged() is None
    assert "the effects of region 1 are others in region 3 than in region 4" in (
        region.bootstrap.failure
    )


async def test_a_state_with_no_more_of_a_recovering_peer_than_is_here_is_merged() -> None:
    _, r2, r3 = regions_with_effects()
    region = recovering(log=r2.log)
    assert dict(region.replica.vv) == {R2: 1}
    await take_over(region, r3, partial(begins_to_recover, region, R2))
    assert region.bootstrap.phase is Phase.SAVING


async def test_a_state_is_dropped_if_its_sender_began_to_recover() -> None:
    """Others may have asked the sender since: it answered with less than the state has."""
    _, _, r3 = regions_with_effects()
    region = recovering()
    staging = await take_over(region, r3, partial(begins_to_recover, region, R3))
    assert staging.staged() is None
    assert region.bootstrap.failure == "region 3 may have lost effects that this state has"
    # The log does not say that others have what comes with these dots later.
    assert region.retention.begins == {}


async def test_lost_own_effects_are_taken_over_while_this_region_recovers_only() -> None:
    """Once it issues effects, their dots may stand for something else."""
    _, _, r3 = regions_with_effects()
    ready = make_region()
    assert not ready.opening.is_recovering
    staging = await take_over(ready, r3)
    assert staging.staged() is None
    assert ready.bootstrap.failure == "region 1 may have lost effects that this state has"
    regained = recovering()
    await take_over(regained, r3)
    assert regained.replica.issued == 2


async def test_a_copy_begun_after_a_peer_recovered_is_merged() -> None:
    _, _, r3 = regions_with_effects()
    region = recovering()
    begins_to_recover(region, R2)
    has_recovered(region, R2)
    await take_over(region, r3)
    assert region.bootstrap.phase is Phase.SAVING


async def test_a_complete_state_that_is_not_merged_is_discarded_at_the_start() -> None:
    """Nobody knows whom the process before has answered; part of a copy is gone on with."""
    _, _, r3 = regions_with_effects()
    region, whole, part = make_region(), MemoryStaging(), MemoryStaging()
    await stage_state(whole, r3.replica)
    await stage_state(part, r3.replica, upto=1)
    for staging in (whole, part):
        assert staging.staged() is not None
        await bootstrapper_of(region, staging).begin(0)
    assert whole.staged() is None
    assert part.staged() is not None


# --- Merging in turns -----------------------------------------------------------------------------


async def staged_of(node: Node) -> MemoryStaging:
    """The state of a region, staged and complete."""
    node.end_tick()
    images = []
    for number, part in enumerate(parts_of(node.replica), 1):
        owner, lane, head, body, _ = part.encode()
        packed = pack(body) if part.kind is Kind.NODE else b""
        images.append(make_image(number, part.kind, owner, lane, head, packed))
    staging = MemoryStaging()
    sums = Staged(len(images), sum(one.number for one in images), sum(one.bytes for one in images))
    await staging.begin(StagedCut(bytes(16), R2, dict(node.replica.vv), *sums))
    await staging.put(images)
    await staging.finish()
    return staging


class Turns:
    """The pauses of a bootstrapper; each slice is a turn.

    Attributes:
        seen: how many keys a client saw in each of them.
        ends_at: the process is told to end in this one.
    """

    def __init__(self, region: Region, ends_at: int = 0) -> None:
        self.seen: list[int] = []
        self.ends_at = ends_at
        self._region = region
        self._ns = count(step=2 * TURN_NS)

    def timer_ns(self) -> int:
        return next(self._ns)

    async def pause(self) -> None:
        self.seen.append(len(self._region.replica))
        if len(self.seen) == self.ends_at:
            raise asyncio.CancelledError


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(SLICE_KEYS, "value", 2)
    _, node, _ = members()
    for number in range(6):
        node.run(f"XADD k{number} 1 f v")
    return node


def in_turns(region: Region, staging: MemoryStaging, turns: Turns) -> Bootstrapper:
    replica = region.replica
    replica.staged = partial(staged_state, staging)
    replica.residency.loader = staging.load
    return Bootstrapper(
        region,
        MemoryLog(),
        staging,
        NoTicks(),
        no_peer_answers,
        now=lambda: NOW,
        timer_ns=turns.timer_ns,
        pause=turns.pause,
    )


async def test_clients_are_served_between_slices_and_see_nothing_of_the_state(sender: Node) -> None:
    region, staging = make_region(), await staged_of(sender)
    turns = Turns(region)
    await in_turns(region, staging, turns).look()
    assert turns.seen == [0, 0, 0]
    assert len(region.replica) == 6
    assert region.replica.digest() == sender.digest
    assert region.bootstrap.phase is Phase.SAVING


async def test_a_process_that_ends_between_slices_leaves_the_region_as_it_was(sender: Node) -> None:
    region, staging = make_region(), await staged_of(sender)
    before = region.replica.digest()
    with pytest.raises(asyncio.CancelledError):
        await in_turns(region, staging, Turns(region, ends_at=2)).look()
    assert (region.replica.digest(), len(region.replica)) == (before, 0)
    assert region.replica.residency.total_bytes == 0
    assert staging.is_complete
    assert not region.replica.has_untaken_records


async def test_an_image_that_cannot_be_leaves_the_region_as_it_was(sender: Node) -> None:
    region, staging = make_region(), await staged_of(sender)
    last = max(number for number, one in staging._images.items() if one.kind is Kind.KEY)
    staging._images[last] = staging._images[last]._replace(head=b"?")
    await in_turns(region, staging, Turns(region)).look()
    assert len(region.replica) == 0
    assert region.replica.residency.total_bytes == 0
    assert region.bootstrap.failures == 1
    assert staging.staged() is None
