"""M17: what names lost effects of a removed region is answered at once, at every door."""

import json
import re
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
import redis

from crdtstream.v1 import effects_pb2
from crdtstream.v1 import query_pb2 as pb
from tests.live.cluster import Cluster, Node
from tests.live.forked import completed
from tests.live.test_members import crdb
from tests.live.test_removing import remove
from tests.patience import seconds, wait_until
from tests.query.test_service import Query

# Region 3 wrote three entries, and others have one.
LOST = "LOST region 3 was removed; of its effects {first}… nothing exists"


def crdtstream(*words: str) -> "subprocess.CompletedProcess[str]":
    return completed(["crdtstream", *words])


def answer(node: Node, *words: str) -> str:
    """The reply, or the text of the error."""
    try:
        return repr(node.client.execute_command(*words))
    except redis.ResponseError as error:
        return str(error)


@pytest.mark.long
def test_a_token_a_cursor_and_an_offset_of_a_removed_region_are_answered_lost(
    cluster: Cluster,
) -> None:
    cluster[3].client.xadd("s", {"n": "everywhere"})
    cluster.converge()
    for region in (1, 2):
        cluster[region].set_links(paused=True, peers=[3])
    for n in ("void", "void too"):
        cluster[3].client.xadd("s", {"n": n})
    token = cluster[3].client.execute_command("CRDT.TOKEN").decode()
    named = {one: int(n) for one, n in _parts(token)}
    lost = LOST.format(first=named["3"] - 1)

    with ThreadPoolExecutor(2) as pool:
        blocked = [
            pool.submit(answer, cluster[1], *words)
            for words in (
                ("CRDT.WAITFOR", token, "0"),
                ("CRDT.XREAD", "s", token, "BLOCK", "0"),
            )
        ]
        wait_until(lambda: cluster[1].client.info("clients")["blocked_clients"] == 2, "they wait")
        cluster[3].end(signal.SIGKILL)
        for region in (1, 2):
            cluster[region].set_links(paused=False)
        remove(cluster, 3)
        assert [one.result(seconds()) for one in blocked] == [lost, lost]

    for region in (1, 2):
        _knows_of_the_loss(cluster[region], token, named["3"], lost)

    # Its node still has them: the two that are left are equal without it.
    cluster[3].launch()
    wait_until(lambda: _says_that_it_was_removed(cluster[3]), "region 3 has heard of it")
    here = [word for one in (1, 3) for word in ("--address", cluster[one].grpc_address)]
    run = crdtstream("sync", "wait", "--timeout", "10", *here)
    first, _, last = run.stderr.splitlines()
    assert (run.returncode, first, last) == (
        0,
        f"{lost}; its node is left out",
        "equal: regions 1, 2",
    )
    run = crdtstream("sync", "wait", "--peer", "3", *here)
    assert run.returncode == 1
    assert lost in run.stderr
    shown = json.loads(crdtstream("status", "--json", *here).stdout)["regions"]
    assert {one["region"]: one["member_status"] for one in shown} == {
        1: "active",
        2: "active",
        3: "removed",
    }
    assert crdb(cluster[1], "list").returncode == 0


def _parts(token: str) -> list[tuple[str, str]]:
    """Regions and numbers, without incarnations and hashes."""
    pairs = [part.split(":") for part in token.rpartition("/")[2].split(",")]
    return [(region, re.split("[@~]", n)[0]) for region, n in pairs]


def _knows_of_the_loss(node: Node, token: str, named_n: int, lost: str) -> None:
    wait_until(lambda: bool(node.status().cuts.regions), "the cut is final")
    assert answer(node, "CRDT.WAITFOR", token, "0") == lost
    assert answer(node, "CRDT.XREAD", "s", token) == lost
    vector = effects_pb2.VersionVector(regions=[3], counts=[named_n])
    with grpc.insecure_channel(node.grpc_address) as channel:
        query = Query(channel)
        (end,) = query.position().ends
        assert (end.region, end.last_n, end.why) == (3, named_n - 2, "was removed")
        scan = pb.ScanRequest(key=b"s", origin=3, upto_n=named_n)
        assert {
            _refusal(query.stub.Plan, pb.PlanRequest(above=vector)),
            _refusal(query.stub.Plan, pb.PlanRequest(upto=vector)),
            _refusal(lambda asked: list(query.stub.Scan(asked)), scan),
        } == {(grpc.StatusCode.OUT_OF_RANGE, lost)}


def _says_that_it_was_removed(node: Node) -> bool:
    try:
        return "was removed" in node.status().fault
    except grpc.RpcError:
        return False


def _refusal(call: Callable[[Any], object], request: object) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.RpcError) as raised:
        call(request)
    return raised.value.code(), raised.value.details()
