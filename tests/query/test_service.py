"""The query service of real nodes: over gRPC, with clients writing meanwhile."""

import base64
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

import grpc
import pyarrow as pa
import pytest
import redis
import trustme

from crdtstream.access.shown import ENDED
from crdtstream.certificates.certificate import parse_certificates
from crdtstream.core.fields import encode_fields
from crdtstream.v1 import effects_pb2
from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc
from tests.live.cluster import Cluster, Node, cluster_of, running_regions
from tests.patience import seconds, wait_until

pytestmark = pytest.mark.live


# A connection whose window is small, and stays so however fast it is.
NARROW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16))


class ScanBounds(TypedDict, total=False):
    """The part of a lane that a scan reads."""

    above_n: int
    upto_n: int
    start: effects_pb2.Id
    end: effects_pb2.Id


class Query:
    """The query service of one node."""

    def __init__(self, channel: grpc.Channel, *, password: str | None = None) -> None:
        self.stub = rpc.QueryStub(channel)
        self.metadata = []
        if password is not None:
            token = base64.b64encode(f"default:{password}".encode()).decode()
            self.metadata = [("authorization", f"Basic {token}")]

    def position(self) -> pb.Position:
        position: pb.Position = self.stub.GetPosition(pb.PositionRequest(), metadata=self.metadata)
        return position

    def streams(self, *patterns: bytes, with_groups: bool = False) -> list[pb.StreamDescription]:
        request = pb.ListStreamsRequest(
            patterns=patterns, with_groups=with_groups, with_undelivered=with_groups
        )
        return list(self.stub.ListStreams(request))

    def scan(
        self, key: bytes, origin: int, **bounds: Unpack[ScanBounds]
    ) -> list[dict[str, object]]:
        request = pb.ScanRequest(key=key, origin=origin, **bounds)
        rows: list[dict[str, object]] = table(self.stub.Scan(request)).to_pylist()
        return rows

    def append(
        self, key: bytes, *rows: bytes, first_row: int = 0, batch: int = 0
    ) -> tuple[int, int]:
        encoded = [encode_fields([b"row", row]) for row in rows]
        reply = self.stub.Append(
            pb.AppendRequest(
                key=key,
                producer=b"q:0",
                batch=batch,
                first_row=first_row,
                lengths=b"".join(struct.pack("<I", len(one)) for one in encoded),
                fields=b"".join(encoded),
            )
        )
        return reply.appended, reply.known


def table(pieces: Iterator[pb.ScanPiece]) -> pa.Table:
    data = b"".join(piece.data for piece in pieces)
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def vv(**counts: int) -> effects_pb2.VersionVector:
    regions = sorted(int(name.removeprefix("r")) for name in counts)
    return effects_pb2.VersionVector(
        regions=regions, counts=[counts[f"r{region}"] for region in regions]
    )


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Node]:
    """One region."""
    with running_regions(1, tmp_path) as cluster:
        yield cluster[1]


@pytest.fixture
def query(one: Node) -> Iterator[Query]:
    with grpc.insecure_channel(one.grpc_address) as channel:
        yield Query(channel)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One region for all tests that leave it as it was."""
    with running_regions(1, tmp_path_factory.mktemp("shared")) as cluster:
        cluster[1].client.xadd("x", {"f": "v"})
        yield cluster[1]


@pytest.fixture
def shared_query(shared: Node) -> Iterator[Query]:
    with grpc.insecure_channel(shared.grpc_address) as channel:
        yield Query(channel)


def fill(client: redis.Redis, key: str, count: int) -> list[bytes]:
    pipeline = client.pipeline(transaction=False)
    for n in range(count):
        pipeline.xadd(key, {"n": n})
    return pipeline.execute()


def test_a_scan_reads_what_xrange_reads(one: Node, query: Query) -> None:
    ids = fill(one.client, "orders", 20_000)
    one.client.xdel("orders", *ids[5:10_000:7])
    rows = query.scan(b"orders", 1)
    expected = one.client.xrange("orders")
    assert [f"{row['ms']}-{row['seq']}".encode() for row in rows] == [one[0] for one in expected]
    assert [row["fields"] for row in rows] == [
        encode_fields([part for pair in fields.items() for part in pair]) for _, fields in expected
    ]
    assert all(row["producer"] is None and row["idempotent_id"] is None for row in rows)
    assert query.scan(b"none", 1) == query.scan(b"orders", 2) == []


def test_a_scan_keeps_to_its_bounds(one: Node, query: Query) -> None:
    ids = fill(one.client, "orders", 1000)
    some = query.scan(b"orders", 1, above_n=100, upto_n=350)
    assert [row["n"] for row in some] == list(range(101, 351))
    ms, seq = map(int, ids[200].split(b"-"))
    start = effects_pb2.Id(ms=ms, seq=seq)
    assert [row["n"] for row in query.scan(b"orders", 1, start=start, upto_n=300)] == list(
        range(201, 301)
    )
    assert [row["n"] for row in query.scan(b"orders", 1, end=start, above_n=190)] == list(
        range(191, 202)
    )


def test_an_entry_larger_than_a_message_comes_in_pieces(one: Node, query: Query) -> None:
    value = bytes(range(256)) * (40 << 10)
    one.client.xadd("big", {"v": value})
    one.client.xadd("big", {"v": "small"})
    pieces = list(query.stub.Scan(pb.ScanRequest(key=b"big", origin=1)))
    assert len(pieces) > 10
    assert max(len(piece.data) for piece in pieces) <= 1 << 20
    rows = table(iter(pieces)).to_pylist()
    assert rows[0]["fields"] == encode_fields([b"v", value])
    assert rows[1]["n"] == 2


def test_a_scan_goes_on_over_trims_and_deletes(one: Node, query: Query) -> None:
    """The lane is looked up anew for each batch, so nothing breaks and nothing comes twice."""
    fill(one.client, "orders", 60_000)
    call = query.stub.Scan(pb.ScanRequest(key=b"orders", origin=1, upto_n=60_000))
    pieces = [next(call) for _ in range(3)]
    one.client.xtrim("orders", maxlen=1000, approximate=False)
    one.client.xadd("orders", {"n": "late"})
    pieces += list(call)
    ns = [row["n"] for row in table(iter(pieces)).to_pylist()]
    assert ns == sorted(set(ns))
    assert ns[-1000:] == list(range(59_001, 60_001))

    call = query.stub.Scan(pb.ScanRequest(key=b"orders", origin=1))
    first = next(call)
    one.client.delete("orders")
    rest = table(iter([first, *call])).to_pylist()
    assert len(rest) <= 1001


def test_other_clients_are_served_while_one_does_not_read_its_scan(one: Node, query: Query) -> None:
    """Flow control holds the scan back, and nothing but it."""
    for _ in range(8):
        one.client.xadd("big", {"v": b"x" * (8 << 20)})
    call = query.stub.Scan(pb.ScanRequest(key=b"big", origin=1))
    next(call)
    fill(one.client, "orders", 1000)
    assert len(query.scan(b"orders", 1)) == 1000
    call.cancel()


def test_a_plan_names_ranges_that_hold_every_entry(one: Node, query: Query) -> None:
    fill(one.client, "orders", 5000)
    fill(one.client, "other", 10)
    reply = query.stub.Plan(pb.PlanRequest(patterns=[b"orders"], range_entries=1000))
    ns = [
        row["n"]
        for piece in reply.ranges
        for row in query.scan(b"orders", 1, above_n=piece.above_n, upto_n=piece.upto_n)
    ]
    assert ns == list(range(1, 5001))
    assert len(reply.ranges) == 5
    assert list(reply.end.counts) == [5010]


def test_streams_and_groups_are_described(one: Node, query: Query) -> None:
    ids = fill(one.client, "orders", 10)
    one.client.xgroup_create("orders", "g", id="0")
    one.client.xreadgroup("g", "c", {"orders": ">"}, count=6)
    one.client.xack("orders", "g", *ids[:4])
    (stream,) = query.streams(b"ord*", with_groups=True)
    (lane,) = stream.lanes
    assert (stream.entries, lane.origin, lane.entries, lane.first_n, lane.last_n) == (
        10,
        1,
        10,
        1,
        10,
    )
    assert f"{lane.last.ms}-{lane.last.seq}".encode() == ids[-1]
    (group,) = stream.groups
    assert (group.name, group.consumers, group.pending, group.undelivered) == (b"g", 1, 2, 4)
    (position,) = group.frontier
    assert f"{position.id.ms}-{position.id.seq}".encode() == ids[3]
    assert stream.position.database_id == "crdb"
    assert query.streams(b"none") == []


def test_pending_entries_that_were_handed_out_often(one: Node, query: Query) -> None:
    ids = fill(one.client, "orders", 3000)
    one.client.xgroup_create("orders", "g", id="0")
    one.client.xreadgroup("g", "c", {"orders": ">"})
    for _ in range(3):
        one.client.xclaim("orders", "g", "d", 0, ids[10:12])
    rows = table(query.stub.ScanPending(pb.ScanPendingRequest(deliveries_min=4))).to_pylist()
    assert [(f"{row['ms']}-{row['seq']}".encode(), row["deliveries"]) for row in rows] == [
        (ids[10], 4),
        (ids[11], 4),
    ]
    assert rows[0]["consumer"] == b"d"
    rows = table(query.stub.ScanPending(pb.ScanPendingRequest(deliveries_min=1))).to_pylist()
    assert len(rows) == 3000


def test_rows_are_appended_once_also_over_a_kill(one: Node, query: Query) -> None:
    rows = [b"%d" % n for n in range(2000)]
    assert query.append(b"out", *rows[:1500]) == (1500, 0)
    one.end(signal.SIGKILL)
    one.start()
    with grpc.insecure_channel(one.grpc_address) as channel:
        query = Query(channel)
        assert query.append(b"out", *rows) == (500, 1500)
        found = query.scan(b"out", 1)
    assert [row["fields"] for row in found] == [encode_fields([b"row", row]) for row in rows]
    assert [row["idempotent_id"] for row in found] == [b"0:%d" % n for n in range(2000)]
    assert {row["producer"] for row in found} == {b"q:0"}
    assert one.client.xlen("out") == 2000


def test_an_append_wakes_those_who_wait(one: Node, query: Query) -> None:
    answers: list[object] = []
    client = one.connect()
    reader = threading.Thread(
        target=lambda: answers.append(client.xread({"out": "$"}, block=20_000))
    )
    reader.start()
    wait_until(lambda: one.client.info("clients")["blocked_clients"], "a client waits")
    query.append(b"out", b"a")
    reader.join(seconds())
    assert answers
    assert answers[0]


def test_client_pause_stops_writers_and_not_readers(one: Node, query: Query) -> None:
    fill(one.client, "orders", 3)
    one.client.client_pause(60_000, all=False)
    request = pb.TrimReadRequest(key=b"orders", read=vv(r1=3), before_ms=1 << 50)
    call = query.stub.TrimRead.future(request)
    assert len(query.scan(b"orders", 1)) == 3
    assert not call.done()
    one.client.client_unpause()
    assert call.result(seconds()).removed == 3


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (pb.AppendRequest(key=b"x", producer=b"q"), "rows"),
        (pb.AppendRequest(key=b"x", producer=b"q", lengths=b"abc"), "whole number"),
        (
            pb.AppendRequest(key=b"x", producer=b"q", lengths=struct.pack("<I", 3), fields=b"xyz"),
            "row 0",
        ),
        (
            pb.AppendRequest(
                key=b"x", producer=b"q", batch=1 << 63, lengths=struct.pack("<I", 3), fields=b"xyz"
            ),
            "too large",
        ),
    ],
)
def test_bad_rows_are_refused_and_change_nothing(
    shared: Node, shared_query: Query, request_: pb.AppendRequest, says: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        shared_query.stub.Append(request_)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert says in str(caught.value.details())
    assert shared.client.keys() == [b"x"]
    assert shared.client.xlen("x") == 1


def test_rows_for_a_string_are_refused(one: Node, query: Query) -> None:
    """For good: another region would refuse them, too."""
    one.client.set("lock", "token")
    with pytest.raises(grpc.RpcError) as caught:
        query.append(b"lock", b"row")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "the key holds a string, not a stream"
    assert one.client.get("lock") == b"token"
    assert query.scan(b"lock", 1) == []


def test_requests_beyond_the_durable_effects_are_refused(one: Node, query: Query) -> None:
    fill(one.client, "orders", 3)
    for call in (
        lambda: query.scan(b"orders", 1, upto_n=4),
        lambda: query.stub.Plan(pb.PlanRequest(upto=vv(r1=3, r2=1))),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert str(caught.value.details()).startswith("behind: region 1 has 1:3 durably")


def test_a_password_is_wanted_of_every_call(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as cluster:
        cluster.configure(requirepass="secret")
        node = cluster[1]
        node.client = redis.Redis(port=node.resp_port, password="secret")
        cluster.start()
        with grpc.insecure_channel(node.grpc_address) as channel:
            assert Query(channel, password="secret").position().region == 1
            for wrong in (None, "", "Secret", "secret "):
                with pytest.raises(grpc.RpcError) as caught:
                    Query(channel, password=wrong).position()
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            stub = rpc.QueryStub(channel)
            calls = [
                lambda: list(stub.ListStreams(pb.ListStreamsRequest())),
                lambda: stub.Plan(pb.PlanRequest()),
                lambda: list(stub.Scan(pb.ScanRequest())),
                lambda: list(stub.ScanPending(pb.ScanPendingRequest())),
                lambda: stub.Append(pb.AppendRequest()),
                lambda: stub.TrimRead(pb.TrimReadRequest()),
                lambda: stub.PlanTrim(pb.TrimReadRequest()),
            ]
            for call in calls:
                with pytest.raises(grpc.RpcError) as caught:
                    call()
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


@dataclass
class OwnPort:
    """A region with a port of [query] that speaks TLS, and its programs' authority."""

    node: Node
    address: str
    ca: trustme.CA

    def channel(self, program: trustme.LeafCert | None) -> grpc.Channel:
        """A connection that shows the certificate of a program; None: none."""
        key, certificates = None, None
        if program is not None:
            key = program.private_key_pem.bytes()
            certificates = b"".join(pem.bytes() for pem in program.cert_chain_pems)
        given = grpc.ssl_channel_credentials(self.ca.cert_pem.bytes(), key, certificates)
        return grpc.secure_channel(self.address, given)


def certified(folder: Path) -> trustme.CA:
    """Write a certificate, its key and the authority of both into a folder."""
    ca = trustme.CA()
    server = ca.issue_cert("localhost", "127.0.0.1")
    ca.cert_pem.write_to_path(folder / "ca.pem")
    server.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "key.pem").chmod(0o600)
    (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in server.cert_chain_pems))
    return ca


@pytest.fixture
def own_port(tmp_path: Path) -> Iterator[OwnPort]:
    ca = certified(tmp_path)
    with cluster_of(1, tmp_path) as cluster:
        cluster.configure()
        node = cluster[1]
        port = node.http_port + 10
        table = f"""
            [query]
            port = {port}
            tls_cert_file = "{tmp_path}/cert.pem"
            tls_key_file = "{tmp_path}/key.pem"
            tls_client_ca_file = "{tmp_path}/ca.pem"
        """
        node.config.write_text(node.config.read_text() + table)
        cluster.start()
        yield OwnPort(node, f"127.0.0.1:{port}", ca)


def test_a_port_of_its_own_speaks_tls_and_knows_its_programs(own_port: OwnPort) -> None:
    with own_port.channel(own_port.ca.issue_cert("analyst")) as channel:
        assert Query(channel).position().region == 1
    for channel in (own_port.channel(None), grpc.insecure_channel(own_port.address)):
        with channel, pytest.raises(grpc.RpcError) as caught:
            Query(channel).position()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_port_of_its_own_takes_new_certificates_while_it_serves(
    own_port: OwnPort, tmp_path: Path
) -> None:
    """SIGHUP after all files were replaced: those of the node, and the programs' authority."""
    with own_port.channel(own_port.ca.issue_cert("analyst")) as channel:
        assert Query(channel).position().region == 1
        next_port = OwnPort(own_port.node, own_port.address, certified(tmp_path))
        assert own_port.node.process is not None
        own_port.node.process.send_signal(signal.SIGHUP)

        def takes(port: OwnPort) -> bool:
            with port.channel(port.ca.issue_cert("analyst")) as own:
                try:
                    return Query(own).position().region == 1
                except grpc.RpcError:
                    return False

        wait_until(lambda: takes(next_port), "the new certificate serves")
        assert not takes(own_port)
        # A connection that is there goes on.
        assert Query(channel).position().region == 1


def test_a_port_of_its_own_refuses_a_revoked_certificate(own_port: OwnPort, tmp_path: Path) -> None:
    """Its certificates are of another authority, so the list knows them by their numbers alone."""
    lost, other = (own_port.ca.issue_cert(name) for name in ("lost", "other"))
    lost.cert_chain_pems[0].write_to_path(tmp_path / "lost.pem")
    (parsed,) = parse_certificates((tmp_path / "lost.pem").read_bytes())
    words = ["revoke", f"{parsed.serial:x}", "--until", "2100-01-01"]
    with own_port.channel(lost) as channel, own_port.channel(other) as others:
        assert Query(channel).position().region == 1
        where = ["--address", own_port.node.grpc_address]
        run = [sys.executable, "-m", "crdtstream", "certs", *words, *where]
        subprocess.run(run, check=True)

        def refusal() -> tuple[grpc.StatusCode, str] | None:
            try:
                Query(channel).position()
            except grpc.RpcError as error:
                return error.code(), error.details() or ""
            return None

        wait_until(refusal, "it is refused")
        assert refusal() == (grpc.StatusCode.PERMISSION_DENIED, ENDED)
        assert Query(others).position().region == 1


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with running_regions(3, tmp_path) as cluster:
        yield cluster


def test_every_region_reads_the_same_lanes(three: Cluster) -> None:
    for region, node in three.nodes.items():
        fill(node.client, "orders", 100 * region)
    three.converge()
    found = []
    for node in three.nodes.values():
        with grpc.insecure_channel(node.grpc_address) as channel:
            query = Query(channel)
            found.append([query.scan(b"orders", origin) for origin in (1, 2, 3)])
    assert found[0] == found[1] == found[2]
    assert [len(lane) for lane in found[0]] == [100, 200, 300]


def test_rows_appended_in_two_regions_at_once_are_there_once(three: Cluster) -> None:
    for node in three.nodes.values():
        node.set_links(paused=True)
    rows = [b"%d" % n for n in range(300)]
    for region, part in ((1, slice(0, 200)), (2, slice(100, 300)), (3, slice(0, 300))):
        with grpc.insecure_channel(three[region].grpc_address) as channel:
            Query(channel).append(b"out", *rows[part], first_row=part.start)
    for node in three.nodes.values():
        node.set_links(paused=False)
    three.converge()
    found = [fields[b"row"] for _, fields in three[3].client.xrange("out")]
    assert sorted(found) == sorted(rows)


@pytest.mark.long
def test_rows_beyond_the_bound_on_lag_are_refused(three: Cluster) -> None:
    for node in three.nodes.values():
        node.set_links(paused=True)
    client = three[1].client
    client.config_set("max_replication_lag_effects", 100, "replication_lag_action", "refuse")
    rows = [b"%d" % n for n in range(60)]
    with grpc.insecure_channel(three[1].grpc_address) as channel:
        query = Query(channel)
        assert query.append(b"out", *rows) == (60, 0)
        with pytest.raises(grpc.RpcError, match="LAGGED region 1 has 60 effects") as caught:
            query.append(b"out", *rows, first_row=60)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert client.xlen("out") == 60
        for node in three.nodes.values():
            node.set_links(paused=False)
        wait_until(lambda: client.info("crdt")["crdt_replication_lag_effects"] == 0, "no lag")
        assert query.append(b"out", *rows, first_row=60) == (60, 0)


def trim(node: Node, read: effects_pb2.VersionVector, before_ms: int = 1 << 50) -> int:
    with grpc.insecure_channel(node.grpc_address) as channel:
        request = pb.TrimReadRequest(key=b"orders", read=read, before_ms=before_ms)
        reply: pb.TrimReadReply = rpc.QueryStub(channel).TrimRead(request)
        return reply.removed


def test_only_what_is_read_acknowledged_and_old_is_trimmed(three: Cluster) -> None:
    mine = fill(three[1].client, "orders", 50)
    theirs = fill(three[2].client, "orders", 50)
    three.converge()
    client = three[1].client
    client.xgroup_create("orders", "g", id="0")
    everything = vv(r1=60, r2=60)
    assert trim(three[1], everything) == 0
    while client.xreadgroup("g", "c", {"orders": ">"}):
        pass
    client.xack("orders", "g", *mine[:30], *theirs[:10], *theirs[20:])
    assert trim(three[1], everything, before_ms=1) == 0
    assert trim(three[1], vv(r2=4)) == 4
    # Region 2's frontier stands at its tenth entry, although later ones are acknowledged.
    assert trim(three[1], everything) == 30 + 6
    assert trim(three[1], everything) == 0
    three.converge()
    left = [entry_id for entry_id, _ in three[3].client.xrange("orders")]
    assert sorted(left) == sorted(mine[30:] + theirs[10:])


@pytest.mark.long
def test_plan_trim_shows_the_entries_that_a_trim_would_remove(three: Cluster) -> None:
    """So that a program can look after its copy; the plan itself takes nothing."""
    ids = {
        region: [
            three[region].client.xadd("orders", {"n": n}, id=f"{first_ms + n}-*") for n in range(10)
        ]
        for region, first_ms in ((2, 50), (1, 100))
    }
    three.converge()
    client = three[1].client

    def plan(read: effects_pb2.VersionVector, before_ms: int = 1 << 50) -> tuple[object, ...]:
        with grpc.insecure_channel(three[1].grpc_address) as channel:
            request = pb.TrimReadRequest(key=b"orders", read=read, before_ms=before_ms)
            found: pb.TrimPlan = rpc.QueryStub(channel).PlanTrim(request)
            return tuple(found.origins), found.first_ms, found.last_ms

    everything = vv(r1=60, r2=60)
    assert plan(everything) == ((1, 2), 50, 109)
    assert plan(everything, before_ms=105) == ((1, 2), 50, 104)
    assert plan(vv(r1=60)) == ((1,), 100, 109)
    assert plan(everything, before_ms=50) == ((), 0, 0)
    client.xgroup_create("orders", "g", id="0")
    assert plan(everything) == ((), 0, 0)
    client.xreadgroup("g", "c", {"orders": ">"})
    client.xack("orders", "g", *ids[2][:4], ids[1][1])
    assert plan(everything) == ((2,), 50, 53)
    assert client.xlen("orders") == 20
    assert trim(three[1], vv(r2=60), before_ms=54) == 4


def test_pending_entries_and_those_to_be_read_again_are_not_trimmed(one: Node) -> None:
    ids = fill(one.client, "orders", 3)
    client = one.client
    client.xgroup_create("orders", "g", id="0")
    client.xreadgroup("g", "c", {"orders": ">"})
    client.xack("orders", "g", *ids)
    client.xgroup_setid("orders", "g", "0")
    client.xreadgroup("g", "c", {"orders": ">"}, count=2)
    assert trim(one, vv(r1=100)) == 0
    client.xack("orders", "g", ids[0])
    assert trim(one, vv(r1=100)) == 1
    client.xack("orders", "g", ids[1])
    assert trim(one, vv(r1=100)) == 1
    assert client.xlen("orders") == 1


def test_a_scan_reports_the_losses_during_it_at_its_end(one: Node) -> None:
    """The connection takes little that nobody has asked for: else the whole scan may be on its way,
    and over, when the entries go."""
    fill(one.client, "orders", 30_000)
    with grpc.insecure_channel(one.grpc_address, options=NARROW) as channel:
        call = Query(channel).stub.Scan(pb.ScanRequest(key=b"orders", origin=1))
        assert next(call).lost_n == 0
        one.client.xtrim("orders", maxlen=0, approximate=False)
        *_, last = call
    assert (last.lost_n, last.data) == (30_000, b"")


def test_an_entry_that_came_late_with_a_low_id_is_not_trimmed_unread(three: Cluster) -> None:
    three[2].set_links(paused=True)
    late = three[2].client.xadd("orders", {"n": "late"})
    fill(three[1].client, "orders", 10)
    assert trim(three[1], vv(r1=10)) == 10
    three[2].set_links(paused=False)
    three.converge()
    # Region 1 has it now, below all that was trimmed; nobody has read it.
    assert trim(three[1], vv(r1=11)) == 0
    assert [entry_id for entry_id, _ in three[1].client.xrange("orders")] == [late]


def test_a_position_says_which_database_it_is_of(shared: Node, shared_query: Query) -> None:
    assert shared_query.position().database_uid.hex() == shared.status().database_uid


@pytest.mark.parametrize(
    "call", ["GetPosition", "ListStreams", "Plan", "Append", "TrimRead", "PlanTrim"]
)
def test_a_call_that_means_another_database_is_refused(
    shared: Node, shared_query: Query, call: str
) -> None:
    request = {
        "GetPosition": pb.PositionRequest(),
        "ListStreams": pb.ListStreamsRequest(),
        "Plan": pb.PlanRequest(),
        "Append": pb.AppendRequest(key=b"x"),
        "TrimRead": pb.TrimReadRequest(key=b"x", before_ms=1 << 50),
        "PlanTrim": pb.TrimReadRequest(key=b"x", before_ms=1 << 50),
    }[call]
    own, other = shared.status().database_uid, "f" * 32
    ask = getattr(shared_query.stub, call)
    with pytest.raises(grpc.RpcError) as refused:
        list(ask(request, metadata=[("crdtstream-database", other)]))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    for uid in (own, other):
        assert uid in str(refused.value.details())
    assert shared.client.xlen("x") == 1
    named = [("crdtstream-database", own)]
    assert shared_query.stub.GetPosition(pb.PositionRequest(), metadata=named).region == 1
