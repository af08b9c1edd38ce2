"""The bootstrapper: what it does after a failure, and when what is staged may be deleted."""

import asyncio
from functools import partial
from itertools import count

import pytest

from crdtstream.bootstrapper import Bootstrapper
from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.lanes.packing import pack
from crdtstream.core.merge.merging import SLICE_KEYS
from crdtstream.region.bootstrap import Phase
from crdtstream.region.links.errors import PeerError
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
from crdtstream.turns import TURN_NS
from tests.harness.checkpoints import parts_of
from tests.harness.driven import make_region
from tests.harness.regions import Node

R2, R3 = RegionId(2), RegionId(3)
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


async def test_what_is_staged_stays_until_a_checkpoint_has_what_was_merged() -> None:
    region, staging = make_region(), await complete()
    one = bootstrapper_of(region, staging)
    region.bootstrap.note_merged(SAVED_SEQ)
    await one.look()
    assert staging.is_complete
    region.checkpointing.note_found(SAVED_SEQ, NOW, size_bytes=1)
    await one.look()
    assert staging.staged() is None
    assert region.bootstrap.phase is Phase.IDLE


async def test_what_the_disk_does_not_delete_is_deleted_later() -> None:
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


async def test_what_is_staged_and_of_no_use_any_more_is_deleted_at_the_start() -> None:
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


# --- Merging in turns -----------------------------------------------------------------------------


async def staged_of(node: Node) -> MemoryStaging:
    """What a region has, staged and complete."""
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
    node = Node(2)
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
