"""The effect ChangeMembers, through logs, links and checkpoints (``rules`` 4)."""

import msgspec
import pytest

from crdtstream.core.checkpoint.contents import RootContent, packed, unpacked
from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.clock import Dot
from crdtstream.core.effects import ChangeMembers, EffectBatch
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.members import ForkError, apply
from crdtstream.core.wire.codec import BatchError, decode_batch, encode_batch
from crdtstream.v1 import effects_pb2 as pb
from tests.core.every_kind import columns
from tests.harness.members import decide, members
from tests.harness.regions import Node, sync
from tests.membership.world import founded, removal, renamed
from tests.mutations.fields import images_of

R1, R2 = RegionId(1), RegionId(2)


def batch(origin: int, n: int, *effects: ChangeMembers) -> EffectBatch:
    others = list(enumerate(effects))
    return EffectBatch(RegionId(origin), n, len(effects), {}, Millis(1), columns([], []), [*others])


def test_every_region_has_the_members_that_one_tells() -> None:
    r1, r2, _ = members()
    decide(r1, renamed(3, "x"))
    sync(r1, r2)
    assert r2.replica.members == r1.replica.members
    assert r2.replica.members.epoch == 2
    assert r2.replica.members.dot_of(RegionId(3)) == Dot(R1, 1)
    assert r1.digest == r2.digest


def test_two_that_tell_one_decision_tell_it_once() -> None:
    """Every region that knows a decision may issue it; regions converge in any order of arrival."""
    r1, r2, r3 = members()
    for node in (r2, r1):
        decide(node, renamed(3, "x"))
    decide(r1, removal(2, heir=1))
    for order in ((r1, r2), (r2, r1)):
        *_, other = members()
        for node in order:
            other.pull(node)
        assert other.replica.members.epoch == 3
        assert other.replica.members.dot_of(RegionId(3)) == Dot(R1, 1)
    sync(r1, r2, r3)
    assert r1.digest == r2.digest == r3.digest
    assert r1.replica.members == r2.replica.members == r3.replica.members


def test_an_effect_that_this_version_does_not_know_ends_the_link() -> None:
    """M21: a node of before there were members hears of a removal, and does not pass it over."""
    message = pb.EffectBatch.FromString(
        encode_batch(batch(1, 1, ChangeMembers(2, founded(3).hash, removal(3, heir=1))))
    )
    # To such a node it is an effect of no kind.
    message.others[0].ClearField("change_members")
    with pytest.raises(BatchError, match="an effect this version does not know; upgrade this node"):
        decode_batch(message.SerializeToString())


def test_a_batch_of_another_history_changes_nothing() -> None:
    node, *_ = members()
    node.run("XADD x 1-1 f v")
    decide(node, removal(3, heir=1))
    before, digest = node.replica.members, node.digest
    good = ChangeMembers(3, before.hash, renamed(1, "x"))
    for wrong, reason in (
        (ChangeMembers(2, founded(3).hash, removal(2, heir=1)), "epoch 2 was decided twice"),
        (ChangeMembers(3, bytes(32), renamed(1, "y")), "of another history"),
        (ChangeMembers(5, before.hash, renamed(1, "y")), "does not follow"),
        (ChangeMembers(3, before.hash, renamed(3, "y")), "region 3 is removed"),
    ):
        # The good one stands before it in the batch, and is not applied either.
        effects = [good, wrong] if wrong.epoch != 3 else [wrong]
        sent = batch(2, 1, *effects)
        with pytest.raises(BatchError, match=reason):
            node.replica.receive(sent, encode_batch(sent), Millis(node.now))
        assert (node.replica.members, node.digest) == (before, digest)
    sent = batch(2, 1, good, ChangeMembers(4, apply(before, good.change).hash, renamed(1, "y")))
    node.replica.receive(sent, encode_batch(sent), Millis(node.now))
    assert node.replica.members.epoch == 4


def test_a_restart_has_the_members() -> None:
    """From the log, and from a checkpoint (I8, I18)."""
    node, *_ = members()
    decide(node, removal(3, heir=1))
    again, *_ = members()
    for record in node.log:
        again.replica.replay(record)
    restored = Node(1)
    restored.replica.restore(images_of(node))
    for one in (again, restored):
        assert one.replica.members == node.replica.members
        assert one.digest == node.digest


def test_a_checkpoint_of_before_there_were_members_leaves_what_the_file_names() -> None:
    node, other, _ = members()
    images = images_of(other)
    (root,) = [image for image in images if image.kind is Kind.ROOT]
    content = msgspec.structs.replace(unpacked(root.head, RootContent), region=R1, members=b"")
    node.replica.restore([root._replace(head=packed(content))])
    assert node.replica.members == founded(3)


def test_a_change_of_the_members_touches_no_key() -> None:
    node, *_ = members()
    node.run("XADD x 1-1 f v")
    node.replica.touched.clear()
    decide(node, removal(3, heir=1))
    assert not node.replica.touched
    assert list(node.replica) == [b"x"]


def test_a_state_that_is_taken_over_has_its_members() -> None:
    r1, r2, r3 = members()
    for node in (r2, r1):
        decide(node, renamed(3, "x"))
    decide(r1, renamed(3, "y"))
    for there in (r1, r2):
        r3.merge(there)
    assert r3.replica.members.epoch == 3
    assert r3.replica.members.hash == r1.replica.members.hash
    assert r3.replica.members.history[1].dot == Dot(R1, 1), "the smallest dot stands"
    sync(r1, r2, r3)
    assert r1.digest == r2.digest == r3.digest


def test_the_state_of_a_part_that_went_on_alone_is_not_merged() -> None:
    r1, r2, _ = members()
    decide(r1, renamed(3, "x"))
    decide(r2, renamed(3, "y"))
    before = r2.digest
    with pytest.raises(ForkError, match="the database has split"):
        r2.merge(r1)
    assert r2.digest == before
