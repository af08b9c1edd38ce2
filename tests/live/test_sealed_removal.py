"""A region is removed whose node runs: nothing is lost, and nothing is handed out twice."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import redis

from crdtstream.region.members.sealing import LEASE_MS
from crdtstream.v1 import membership_pb2 as wire
from crdtstream.v1.membership_pb2_grpc import MembershipStub
from tests.live.cluster import Cluster, Node, running_regions
from tests.live.forked import completed
from tests.live.test_joining import level, status_of
from tests.live.test_members import crdb
from tests.patience import SECONDS, seconds, wait_until

# Time in which a sealed region takes writes again: the lease, and as long as any step may take.
LEASE_SECONDS = LEASE_MS.value / 1000 + SECONDS


def remove(member: Node, region: int, *words: str) -> "subprocess.CompletedProcess[str]":
    return crdb(member, "remove-instance", "--instance-id", str(region), "--yes", *words)


def refusal(node: Node) -> str:
    """Why a node takes no writes; empty: it takes them."""
    try:
        node.client.set("probe", "x")
    except redis.ResponseError as error:
        return str(error)
    except redis.ConnectionError as error:
        return f"no connection: {error}"
    return ""


def has_kept_its_seal(node: Node, *, asked_by: Node) -> bool:
    """True if a kill of the node does not undo its seal, as it tells who removes it."""
    status = node.status()
    request = wire.SealRequest(
        database_id=status.database_id,
        database_uid=bytes.fromhex(status.database_uid),
        sender=asked_by.region,
        to=node.region,
        step=wire.SealRequest.Step.LOOK,
    )
    with grpc.insecure_channel(node.grpc_address) as channel:
        reply: wire.SealReply = MembershipStub(channel).Seal(request, timeout=seconds())
    return reply.sealed


def test_nothing_that_clients_wrote_until_the_end_is_lost(cluster: Cluster) -> None:
    """A client writes in the region for as long as that takes writes, and another one elsewhere."""
    written: dict[int, int] = {3: 0, 1: 0}
    refused: list[str] = []
    is_over = threading.Event()

    def write(region: int) -> None:
        client = cluster[region].connect()
        while not is_over.is_set():
            try:
                client.xadd("s", {"n": f"{region}:{written[region]}"})
            except redis.ResponseError as error:
                refused.append(str(error))
                return
            written[region] += 1

    writers = [threading.Thread(target=write, args=(region,)) for region in written]
    for writer in writers:
        writer.start()
    try:
        wait_until(lambda: min(written.values()) > 20, "both write")
        run = remove(cluster[1], 3)
        assert run.returncode == 0, run.stderr
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
    assert [text.startswith("MISCONF region 3") for text in refused] == [True], refused
    level([cluster[1], cluster[2]])
    texts = [fields[b"n"] for _, fields in cluster[2].client.xrange("s")]
    wanted = {b"%d:%d" % (region, n) for region, count in written.items() for n in range(count)}
    assert sorted(texts) == sorted(wanted)
    wait_until(lambda: "region 3 was removed at epoch 2" in refusal(cluster[3]), "it says so")
    # Its readers still get what it has.
    assert cluster[3].client.xlen("s") >= written[3]
    again = remove(cluster[1], 3)
    assert again.returncode == 0
    assert "removed already" in again.stdout


def test_the_folder_of_a_removed_region_is_purged_and_no_other(cluster: Cluster) -> None:
    assert remove(cluster[1], 3).returncode == 0
    wait_until(lambda: "was removed" in refusal(cluster[3]), "it knows")
    purge = ["crdtstream", "crdb", "purge-instance", "--yes"]

    def purged(node: Node, *words: str) -> int:
        return completed([*purge, str(node.folder), *words]).returncode

    assert purged(cluster[3]) == 2, "its node runs"
    for region in (2, 3):
        cluster[region].end()
    assert purged(cluster[2]) == 2
    assert purged(cluster[3], "--dry-run") == 0
    assert cluster[3].folder.exists()
    assert purged(cluster[3]) == 0
    assert not cluster[3].folder.exists()
    assert cluster[2].folder.exists()
    assert purged(cluster[3]) == 2


def test_groups_are_handed_over_and_nothing_comes_twice(cluster: Cluster) -> None:
    first, third = cluster[1].client, cluster[3].client
    third.execute_command("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    third.execute_command("CRDT.XGROUP", "SETMODE", "s", "g", "HOME", "3")
    for number in range(6):
        third.xadd("s", {"n": number})
    ((_, read),) = third.xreadgroup("g", "c", {"s": ">"}, count=4)
    # The second and the fourth stay pending: not in a row, so no frontier tells of the third.
    third.xack("s", "g", read[0][0], read[2][0])
    cluster.converge()
    run = remove(cluster[2], 3, "--heir", "1")
    assert run.returncode == 0, run.stderr
    _, claimed, _ = first.xautoclaim("s", "g", "c", 0, "0")
    assert [fields[b"n"] for _, fields in claimed] == [b"1", b"3"]
    ((_, found),) = first.xreadgroup("g", "c", {"s": ">"})
    assert [fields[b"n"] for _, fields in found] == [b"4", b"5"]


@pytest.mark.long
def test_a_region_whose_effects_do_not_arrive_takes_writes_again(cluster: Cluster) -> None:
    cluster.converge()
    cluster[2].set_links(paused=True)
    cluster[3].client.xadd("s", {"n": "1"})

    def names_region_2() -> bool:
        """A node that is slow is still at an earlier step when the time is up."""
        run = remove(cluster[1], 3, "--timeout", "1")
        assert run.returncode == 1
        assert "Region 3 takes writes again" in run.stderr
        return "region 2" in run.stderr

    wait_until(names_region_2, "region 2 is waited for")
    wait_until(lambda: not refusal(cluster[3]), "it takes writes")
    assert status_of(cluster[1], 3) in ("active", "configured")
    cluster[2].set_links(paused=False)
    run = remove(cluster[1], 3)
    assert run.returncode == 0, run.stderr


def test_a_dry_run_shows_the_removal_and_changes_nothing(cluster: Cluster) -> None:
    cluster[3].client.execute_command("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    cluster[3].client.execute_command("CRDT.XGROUP", "SETMODE", "s", "g", "HOME", "3")
    cluster.converge()
    run = crdb(cluster[1], "remove-instance", "--instance-id", "3", "--dry-run")
    assert run.returncode == 0, run.stderr
    assert "hand over 1 groups to region 1" in run.stderr
    assert "Nothing has changed" in run.stdout
    assert not refusal(cluster[3])
    assert status_of(cluster[1], 3) == "active"


@pytest.mark.long
def test_a_region_does_not_remove_itself_nor_the_last_one(cluster: Cluster) -> None:
    """Asked at its own address, another region does it."""
    for region in (3, 2):
        run = remove(cluster[region], region)
        assert run.returncode == 0
        assert "again" not in run.stderr, "nothing went wrong, so nothing is to be done again"
    run = remove(cluster[1], 1)
    assert run.returncode == 1
    assert "the last region of a database cannot be removed" in run.stderr
    cluster[1].client.xadd("s", {"n": "1"})
    assert not cluster[1].status().links


@pytest.mark.long
@pytest.mark.parametrize("victim", [1, 3])
def test_a_kill_during_a_sealed_removal_does_not_prevent_it(cluster: Cluster, victim: int) -> None:
    """The region itself, or the one that removes it; then the command is run again."""
    cluster[2].set_links(paused=True)
    cluster[3].client.xadd("s", {"n": "1"})
    words = ["remove-instance", "--instance-id", "3", "--yes", "--timeout", "60"]
    result: list[subprocess.CompletedProcess[str]] = []
    asking = threading.Thread(target=lambda: result.append(crdb(cluster[1], *words)))
    asking.start()
    # It refuses writes a moment before its folder says so.
    wait_until(lambda: has_kept_its_seal(cluster[3], asked_by=cluster[1]), "it is sealed")
    assert "is sealed" in refusal(cluster[3])
    cluster[victim].end(signal.SIGKILL)
    if victim == 1:
        asking.join()
        assert result[0].returncode == 1
    else:
        cluster[3].launch()
        cluster[3].wait(for_writes=False)
        assert "is sealed" in refusal(cluster[3])
    cluster[2].set_links(paused=False)
    if victim == 1:
        cluster[1].launch()
        cluster[1].wait()
        assert remove(cluster[2], 3).returncode == 0
    else:
        asking.join()
        assert result[0].returncode == 0, result[0].stderr
    level([cluster[1], cluster[2]])
    assert cluster[1].client.xlen("s") == 1


@pytest.mark.long
def test_a_waiting_removal_succeeds_when_another_member_forces_it(
    cluster: Cluster,
) -> None:
    cluster[2].set_links(paused=True)
    cluster[3].client.xadd("s", {"n": "1"})
    words = ["remove-instance", "--instance-id", "3", "--yes"]
    result: list[subprocess.CompletedProcess[str]] = []
    asking = threading.Thread(target=lambda: result.append(crdb(cluster[1], *words)))
    asking.start()
    wait_until(lambda: "is sealed" in refusal(cluster[3]), "it is sealed")
    cluster[3].end(signal.SIGKILL)
    forced = remove(cluster[2], 3, "--force")
    assert forced.returncode == 0, forced.stderr
    asking.join()
    assert result[0].returncode == 0, result[0].stderr
    assert "removed" in result[0].stdout


FINAL = "may be decided any time"


@pytest.fixture
def final(tmp_path: Path) -> Iterator[Cluster]:
    """Region 3 of four is final, and its removal cannot be decided: two are frozen."""
    with running_regions(4, tmp_path) as cluster:
        for number in range(3):
            cluster[3].client.xadd("s", {"n": number})
        cluster.converge()
        # A change can follow: all are known to have the last one.
        rename = ("update", "--instance-id", "4", "--instance", "fqdn=four")
        wait_until(lambda: crdb(cluster[1], *rename).returncode == 0, "renamed")
        cluster.converge()
        try:
            yield cluster
        finally:
            freeze(cluster, signal.SIGCONT)


def freeze(cluster: Cluster, number: signal.Signals) -> None:
    for region in (2, 4):
        process = cluster[region].process
        assert process is not None
        process.send_signal(number)


@pytest.mark.long
@pytest.mark.parametrize(
    ("victim", "ends"), [(1, "removed"), (1, "a member"), (3, "removed")], ids=str
)
def test_killed_between_final_and_the_decision_it_is_removed_or_a_member(
    final: Cluster, victim: int, ends: str
) -> None:
    """The region itself, or the one that removes it: never half of both, and nothing is lost."""
    removing = ["remove-instance", "--instance-id", "3", "--yes"]
    freeze(final, signal.SIGSTOP)
    asking = threading.Thread(target=lambda: crdb(final[1], *removing))
    asking.start()
    wait_until(lambda: FINAL in final[3].status().fault, "it is final")
    final[victim].end(signal.SIGKILL)
    final[victim].launch()
    final[victim].wait(for_writes=False)
    # The seal is in its folder, so it takes no writes until it knows what was decided.  Nobody
    # proposes the removal before the folder says that it is final.
    assert "is sealed" in refusal(final[3])
    freeze(final, signal.SIGCONT)
    asking.join()
    if ends == "a member":
        # The removal may have been accepted by some before, and is finished then.
        rename = ("update", "--instance-id", "2", "--instance", "fqdn=two")
        wait_until(lambda: crdb(final[2], *rename).returncode == 0, "it is decided")
    else:
        wait_until(lambda: remove(final[2], 3).returncode == 0, "it is removed")
    left = [final[region] for region in (1, 2, 4)]
    is_removed = status_of(final[2], 3) == "removed"
    assert is_removed or ends == "a member"
    if is_removed:
        wait_until(lambda: "was removed at epoch" in refusal(final[3]), "it knows")
    else:
        # It is sealed as before it was final, and nobody goes on with that for as long as a lease.
        wait_until(lambda: not refusal(final[3]), "it takes writes again", base=LEASE_SECONDS)
    level(left if is_removed else list(final.nodes.values()))
    assert final[1].client.xlen("s") == 3
    assert bool(final[1].client.exists("probe")) is not is_removed
    assert len({status_of(node, 3) for node in left}) == 1
