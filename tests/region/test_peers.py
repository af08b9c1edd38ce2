"""The other regions: which there are, what each counts for, and the report of a change."""

import pytest

from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.peers import Peer, Peers, PeersChange
from tests.harness.peers import peers_of, these

R1, R2, R3, R4 = (RegionId(number) for number in range(1, 5))
NOW = Millis(1_000)


def told(
    *,
    added: tuple[RegionId, ...] = (),
    removed: tuple[RegionId, ...] = (),
    moved: tuple[RegionId, ...] = (),
    activated: tuple[RegionId, ...] = (),
    gone: tuple[RegionId, ...] = (),
) -> PeersChange:
    return PeersChange(NOW, added, removed, moved, activated, gone)


def test_peers_of_configuration_files_are_all_active() -> None:
    peers = Peers.at(R2, {R3: "there", R1: "here"})
    assert list(peers.addresses.items()) == [(R1, "here"), (R3, "there")]
    assert peers.active == peers.counting == {R1, R3}
    assert not peers.leaving


def test_a_joining_peer_counts_for_stability_and_is_not_active() -> None:
    peers = peers_of(R1, R2, joining=(R3,))
    assert peers.active == {R2}
    assert peers.counting == {R2, R3}
    assert peers.is_joining(R3)
    assert not peers.is_joining(R2)


@pytest.mark.parametrize(
    ("peers", "leaving", "gone", "expected"),
    [
        (these(R2, R3), (), (), None),
        (these(R2, R3, joining=(R4,)), (), (), told(added=(R4,))),
        (these(R2), (R3,), (), told(removed=(R3,))),
        (these(R2), (), (), told(removed=(R3,), gone=(R3,))),
        (these(R2) | {R3: Peer("elsewhere")}, (), (), told(moved=(R3,))),
        (these(R2, R3), (), (R4,), told(gone=(R4,))),
        (these(R2, R3), (R4,), (), told()),
        (these(R4), (R3,), (), told(added=(R4,), removed=(R2, R3), gone=(R2,))),
    ],
)
def test_a_change_of_peers_is_reported_if_something_differs(
    peers: dict[RegionId, Peer],
    leaving: tuple[RegionId, ...],
    gone: tuple[RegionId, ...],
    expected: PeersChange | None,
) -> None:
    one = peers_of(R1, R2, R3)
    heard: list[PeersChange] = []
    one.on_change.append(heard.append)
    assert one.change(NOW, peers, leaving=leaving, gone=gone) == expected
    assert heard == ([] if expected is None else [expected])
    assert one.addresses.keys() == peers.keys()
    assert one.counting == {*peers, *leaving}


def test_a_joining_peer_becomes_active() -> None:
    one = peers_of(R1, R2, joining=(R3,))
    assert one.change(NOW, these(R2, R3)) == told(activated=(R3,))
    assert one.active == {R2, R3}


def test_a_leaving_peer_is_gone_when_nothing_of_it_is_awaited() -> None:
    one = peers_of(R1, R2, R3)
    one.change(NOW, these(R2), leaving=[R3])
    assert not one.is_gone(R3)
    assert one.change(NOW, these(R2)) == told(gone=(R3,))
    assert one.is_gone(R3)
    assert one.change(NOW, these(R2)) is None
