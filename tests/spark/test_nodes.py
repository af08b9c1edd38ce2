"""Asking several nodes: who is asked next, what ends a call at once, what was read stays read."""

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
grpc = pytest.importorskip("grpc")

from crdtstream.spark.nodes import (  # noqa: E402
    Nodes,
    NodesError,
    OtherDatabaseError,
    StaleAppendError,
)
from crdtstream.spark.options import Security  # noqa: E402
from crdtstream.spark.patterns import patterns_literal  # noqa: E402
from crdtstream.v1 import effects_pb2  # noqa: E402
from crdtstream.v1 import query_pb2 as pb  # noqa: E402
from tests import patience  # noqa: E402
from tests.conftest import program  # noqa: E402
from tests.live.cluster import Node, running_regions  # noqa: E402
from tests.spark.fake_node import UID, FakeNode, entries, ipc, pieces  # noqa: E402

Code = grpc.StatusCode
OTHER_UID = "77aa" * 8


@pytest.fixture
def fakes() -> Iterator[Callable[[], FakeNode]]:
    made: list[FakeNode] = []

    def make() -> FakeNode:
        made.append(FakeNode())
        return made[-1]

    yield make
    for fake in made:
        fake.stop()


def nodes_at(
    *fakes: FakeNode, seconds: float = 10.0, security: Security | None = None, uid: str = UID
) -> Nodes:
    """Nodes of a database that is known; with an empty ``uid``, of one that is to be asked for."""
    return Nodes([fake.address for fake in fakes], security or Security(), seconds, uid)


def refuses(code: Any, details: str) -> Callable[[Any, Any], Any]:
    def answer(_request: Any, context: Any) -> Any:
        context.abort(code, details)

    return answer


def position(
    region: int, n: int = 0, database: str = "db", uid: str = UID
) -> Callable[[Any, Any], Any]:
    vector = effects_pb2.VersionVector(regions=[region], counts=[n])
    reply = pb.Position(
        region=region,
        database_id=database,
        durable_vv=vector,
        database_uid=bytes.fromhex(uid),
        fault="" if uid else "it waits for region 2",
    )
    return lambda _request, _context: reply


def scans(*ranges: tuple[int, int], size: int = 1 << 20, lost_n: int = 0) -> Callable[..., Any]:
    data = ipc(*(entries(first, last) for first, last in ranges))
    return lambda _request, _context: pieces(data, size=size, lost_n=lost_n)


def read_ns(nodes: Nodes, request: pb.ScanRequest) -> list[int]:
    return [n for batch in nodes.scan(request) for n in batch.column("n").to_pylist()]


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (Code.UNAVAILABLE, "going down"),
        (Code.DEADLINE_EXCEEDED, "too slow"),
        (Code.CANCELLED, "stopped"),
        (Code.RESOURCE_EXHAUSTED, "too many"),
        (Code.FAILED_PRECONDITION, "behind: region 1 has nothing"),
        (Code.INTERNAL, "a fault"),
        (Code.UNKNOWN, "a fault"),
    ],
)
def test_the_next_node_is_asked_and_then_preferred(
    fakes: Callable[[], FakeNode], code: Any, details: str
) -> None:
    first, second = fakes(), fakes()
    first.on["Plan"] = refuses(code, details)
    second.on["Plan"] = lambda _request, _context: pb.PlanReply()
    with nodes_at(first, second) as nodes:
        nodes.plan(pb.PlanRequest())
        nodes.plan(pb.PlanRequest())
    assert (len(first.asked), len(second.asked)) == (1, 2)


@pytest.mark.parametrize(
    ("code", "details", "told"),
    [
        (Code.UNAUTHENTICATED, "wrong password", "user and passwordFile"),
        (Code.PERMISSION_DENIED, "not you", "not you$"),
        (Code.INVALID_ARGUMENT, "no such thing", "no such thing"),
        (Code.FAILED_PRECONDITION, "something else", "something else"),
        (Code.UNIMPLEMENTED, "what?", "name its gRPC port"),
    ],
)
def test_errors_that_every_node_would_return_end_a_call_at_once(
    fakes: Callable[[], FakeNode], code: Any, details: str, told: str
) -> None:
    first, second = fakes(), fakes()
    first.on["Plan"] = refuses(code, details)
    second.on["Plan"] = lambda _request, _context: pb.PlanReply()
    with nodes_at(first, second) as nodes, pytest.raises(NodesError, match=told) as error:
        nodes.plan(pb.PlanRequest())
    assert first.address in str(error.value)
    assert second.asked == []


def test_a_node_of_an_earlier_version_is_named_with_what_it_lacks() -> None:
    """A real server that has the service, and not this call of it."""
    named = pb.DESCRIPTOR.services_by_name["Query"]
    position = pb.Position(database_uid=bytes.fromhex(UID))
    handler = grpc.unary_unary_rpc_method_handler(
        lambda _request, _context: position,
        request_deserializer=pb.PositionRequest.FromString,
        response_serializer=pb.Position.SerializeToString,
    )
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(named.full_name, {"GetPosition": handler}),)
    )
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with (
            Nodes([address], Security(), 10.0, "") as nodes,
            pytest.raises(
                NodesError,
                match=f"{address} does not know PlanTrim: .*earlier version, so upgrade it",
            ),
        ):
            nodes.plan_trim(pb.TrimReadRequest(key=b"s"))
    finally:
        server.stop(None).wait()


def test_a_node_that_is_behind_is_waited_for(fakes: Callable[[], FakeNode]) -> None:
    fake = fakes()

    def catches_up(_request: Any, context: Any) -> pb.PlanReply:
        if len(fake.asked) < 4:
            context.abort(Code.FAILED_PRECONDITION, "behind: wait")
        return pb.PlanReply()

    fake.on["Plan"] = catches_up
    with nodes_at(fake) as nodes:
        nodes.plan(pb.PlanRequest())
    assert len(fake.asked) == 4


def test_when_time_is_up_every_node_and_its_reason_is_told(
    fakes: Callable[[], FakeNode],
) -> None:
    first, second = fakes(), fakes()
    first.on["Plan"] = refuses(Code.UNAVAILABLE, "going down")
    second.on["Plan"] = refuses(Code.FAILED_PRECONDITION, "behind: region 2 has nothing")
    with nodes_at(first, second, seconds=0.3) as nodes, pytest.raises(NodesError) as error:
        nodes.plan(pb.PlanRequest())
    for part in (first.address, "going down", second.address, "behind", "failoverSeconds"):
        assert part in str(error.value)


def test_every_node_is_asked_once_however_short_the_time_is(
    fakes: Callable[[], FakeNode],
) -> None:
    both = [fakes(), fakes()]
    for fake in both:
        fake.on["Plan"] = refuses(Code.UNAVAILABLE, "going down")
    with nodes_at(*both, seconds=0) as nodes, pytest.raises(NodesError, match="going down"):
        nodes.plan(pb.PlanRequest())
    assert [len(fake.asked) for fake in both] == [1, 1]


def test_a_fault_that_every_node_has_is_not_asked_for_again_and_again(
    fakes: Callable[[], FakeNode],
) -> None:
    both = [fakes(), fakes()]
    for fake in both:
        fake.on["Plan"] = refuses(Code.INTERNAL, "a fault")
    with nodes_at(*both, seconds=60.0) as nodes, pytest.raises(NodesError, match="a fault"):
        nodes.plan(pb.PlanRequest())
    assert sorted(len(fake.asked) for fake in both) == [1, 2]


def test_nobody_there_is_told_with_what_to_do() -> None:
    with Nodes(["127.0.0.1:1"], Security(), 0.1) as nodes, pytest.raises(NodesError) as error:
        nodes.position()
    assert "127.0.0.1:1" in str(error.value)
    assert "Start the nodes" in str(error.value)


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A real region, for its other ports."""
    with running_regions(1, tmp_path_factory.mktemp("ports")) as cluster:
        yield cluster[1]


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    ("port", "told"),
    [("resp_port", "is the port of Redis clients"), ("http_port", "is a port of HTTP pages")],
)
def test_another_port_of_a_node_is_recognised(
    region: Node, port: str, told: str, tls: bool
) -> None:
    address = f"{region.host}:{getattr(region, port)}"
    with (
        Nodes([address], Security(tls=tls), 0.3) as nodes,
        pytest.raises(NodesError, match=rf"{address} {told}: name gRPC ports"),
    ):
        nodes.position()


def test_tls_to_a_port_without_it_is_told(fakes: Callable[[], FakeNode]) -> None:
    fake = fakes()
    with (
        nodes_at(fake, security=Security(tls=True), seconds=0.3) as nodes,
        pytest.raises(NodesError, match="speaks no TLS: leave out tls"),
    ):
        nodes.position()


def test_a_stale_append_is_an_error_of_its_own(fakes: Callable[[], FakeNode]) -> None:
    fake = fakes()
    fake.on["Append"] = refuses(Code.FAILED_PRECONDITION, "stale: batch 5 was followed")
    with nodes_at(fake) as nodes, pytest.raises(StaleAppendError, match="batch 5"):
        nodes.append(pb.AppendRequest())


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_a_scan_is_one_arrow_stream_however_it_is_cut(
    fakes: Callable[[], FakeNode], size: int
) -> None:
    fake = fakes()
    fake.on["Scan"] = scans((1, 10), (11, 11), (20, 40), size=size, lost_n=3)
    with nodes_at(fake) as nodes:
        scanning = nodes.scan(pb.ScanRequest(key=b"k", origin=1))
        assert scanning.lost_n == 3
        batches = list(scanning)
    assert [batch.num_rows for batch in batches] == [10, 1, 21]
    assert pa.Table.from_batches(batches).column("n").to_pylist() == [*range(1, 12), *range(20, 41)]


def test_a_scan_without_entries_or_without_bytes_is_empty(fakes: Callable[[], FakeNode]) -> None:
    fake = fakes()
    with nodes_at(fake) as nodes:
        fake.on["Scan"] = scans(lost_n=9)
        scanning = nodes.scan(pb.ScanRequest())
        assert (scanning.lost_n, list(scanning)) == (9, [])
        fake.on["Scan"] = lambda _request, _context: iter([pb.ScanPiece(lost_n=8)])
        scanning = nodes.scan(pb.ScanRequest())
        assert (list(scanning), scanning.lost_n) == ([], 8)


def test_a_scan_goes_on_elsewhere_behind_the_last_dot_that_it_gave(
    fakes: Callable[[], FakeNode],
) -> None:
    first, second = fakes(), fakes()

    def breaks_off(_request: Any, context: Any) -> Iterator[pb.ScanPiece]:
        whole = ipc(entries(1, 10), entries(11, 20))
        # The second batch has come in part.
        yield pb.ScanPiece(data=whole[: len(whole) - 200])
        context.abort(Code.UNAVAILABLE, "killed")

    first.on["Scan"] = breaks_off
    second.on["Scan"] = lambda request, _context: pieces(
        ipc(entries(request.above_n + 1, 30)), size=100
    )
    with nodes_at(first, second) as nodes:
        request = pb.ScanRequest(key=b"k", origin=3, above_n=0, upto_n=30)
        assert read_ns(nodes, request) == list(range(1, 31))
    (resumed,) = second.requests("Scan")
    assert (resumed.key, resumed.origin, resumed.above_n, resumed.upto_n) == (b"k", 3, 10, 30)


def test_a_scan_does_not_go_on_in_another_database(fakes: Callable[[], FakeNode]) -> None:
    first, second = fakes(), fakes()

    def breaks_off(_request: Any, context: Any) -> Iterator[pb.ScanPiece]:
        yield from pieces(ipc(entries(1, 10), entries(11, 20)), size=1 << 20)
        context.abort(Code.UNAVAILABLE, "killed")

    def refuses_strangers(_request: Any, context: Any) -> Iterator[pb.ScanPiece]:
        meant = dict(context.invocation_metadata())["crdtstream-database"]
        context.abort(
            Code.INVALID_ARGUMENT,
            f"database: the call speaks of {meant}, this node holds {OTHER_UID}",
        )
        yield pb.ScanPiece()

    first.on["Scan"], second.on["Scan"] = breaks_off, refuses_strangers
    with nodes_at(first, second, uid="") as nodes:
        scan = iter(nodes.scan(pb.ScanRequest(key=b"k", origin=3, upto_n=30)))
        assert [next(scan).num_rows, next(scan).num_rows] == [10, 10]
        with pytest.raises(OtherDatabaseError, match=f"{second.address}.*{UID}.*{OTHER_UID}"):
            next(scan)


class Clock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_each_piece_of_progress_gives_a_scan_its_time_anew(
    fakes: Callable[[], FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many short interruptions, longer together than the time for one, do not end it."""
    fake, clock = fakes(), Clock()
    monkeypatch.setattr("crdtstream.spark.attempts.time", clock)

    def one_at_a_time(request: Any, context: Any) -> Iterator[pb.ScanPiece]:
        if len(fake.asked) % 3:
            context.abort(Code.UNAVAILABLE, "not now")
        yield from pieces(ipc(entries(request.above_n + 1, request.above_n + 1)), size=1 << 20)
        if request.above_n + 1 < 10:
            context.abort(Code.UNAVAILABLE, "that's all for now")

    fake.on["Scan"] = one_at_a_time
    with nodes_at(fake, seconds=0.2) as nodes:
        assert read_ns(nodes, pb.ScanRequest(upto_n=10)) == list(range(1, 11))
    assert clock.seconds > 0.2


def test_a_scan_that_is_not_read_to_its_end_is_cancelled(fakes: Callable[[], FakeNode]) -> None:
    fake = fakes()

    def endless(_request: Any, _context: Any) -> Iterator[pb.ScanPiece]:
        whole = ipc(*(entries(n, n) for n in range(1, 5_000)))
        yield from pieces(whole, size=300)

    fake.on["Scan"] = endless
    with nodes_at(fake) as nodes:
        batches = iter(nodes.scan(pb.ScanRequest()))
        next(batches)
        del batches
        assert fake.scan_ended.wait(patience.seconds())


def test_damaged_arrow_streams_are_reported(fakes: Callable[[], FakeNode]) -> None:
    fake = fakes()
    fake.on["Scan"] = lambda _request, _context: pieces(b"no arrow here at all", size=5)
    with nodes_at(fake) as nodes, pytest.raises(NodesError, match="no Arrow stream"):
        read_ns(nodes, pb.ScanRequest())
    whole = ipc(entries(1, 100))
    fake.on["Scan"] = lambda _request, _context: pieces(whole[:-300], size=1000)
    with nodes_at(fake) as nodes, pytest.raises(NodesError, match="no Arrow stream"):
        read_ns(nodes, pb.ScanRequest())


def test_streams_are_listed_by_one_node_as_a_whole(fakes: Callable[[], FakeNode]) -> None:
    first, second = fakes(), fakes()
    described = [pb.StreamDescription(key=b"a"), pb.StreamDescription(key=b"b")]

    def breaks_off(_request: Any, context: Any) -> Iterator[pb.StreamDescription]:
        yield described[0]
        context.abort(Code.UNAVAILABLE, "killed")

    first.on["ListStreams"] = breaks_off
    second.on["ListStreams"] = lambda _request, _context: iter(described)
    with nodes_at(first, second) as nodes:
        assert [stream.key for stream in nodes.streams([b"*"])] == [b"a", b"b"]
    assert list(second.requests("ListStreams")[0].patterns) == [b"*"]


def test_positions_are_those_of_who_answers(fakes: Callable[[], FakeNode]) -> None:
    first, second = fakes(), fakes()
    first.on["GetPosition"] = position(1, 5)
    second.on["GetPosition"] = refuses(Code.UNAVAILABLE, "going down")
    with nodes_at(first, second) as nodes:
        assert {a: p.region for a, p in nodes.positions().items()} == {first.address: 1}
        assert nodes.position(first.address).region == 1


@pytest.mark.parametrize(
    ("first", "second"), [(("mine", UID), ("yours", UID)), (("db", UID), ("db", OTHER_UID))]
)
@pytest.mark.parametrize("known", ["", UID])
def test_nodes_of_two_databases_are_refused(
    fakes: Callable[[], FakeNode], first: tuple[str, str], second: tuple[str, str], known: str
) -> None:
    both = [fakes(), fakes()]
    for fake, (name, uid) in zip(both, (first, second), strict=True):
        fake.on["GetPosition"] = position(1, database=name, uid=uid)
    with nodes_at(*both, uid=known) as nodes, pytest.raises(NodesError) as error:
        nodes.refuse_strangers()
    for fake, (name, uid) in zip(both, (first, second), strict=True):
        assert f"{fake.address} is of {uid} ({name!r})" in str(error.value)


def test_the_first_node_tells_the_database_and_every_call_names_it(
    fakes: Callable[[], FakeNode],
) -> None:
    fake = fakes()
    fake.on |= {
        "GetPosition": position(1),
        "Plan": lambda _request, _context: pb.PlanReply(),
        "Scan": scans((1, 1)),
    }
    with nodes_at(fake, uid="") as nodes:
        nodes.plan(pb.PlanRequest())
        read_ns(nodes, pb.ScanRequest())
        nodes.position()
        assert nodes.database_uid == UID
    told = [(method, metadata.get("crdtstream-database")) for method, _, metadata in fake.asked]
    assert told == [("GetPosition", None), ("Plan", UID), ("Scan", UID), ("GetPosition", UID)]


@pytest.mark.parametrize("method", ["position", "positions", "plan"])
def test_a_node_of_another_database_is_not_read(fakes: Callable[[], FakeNode], method: str) -> None:
    """Also where it does not heed what calls name, and though the next node would do."""
    stranger, own = fakes(), fakes()
    stranger.on["GetPosition"] = position(1, uid=OTHER_UID)
    stranger.on["Plan"] = refuses(
        Code.INVALID_ARGUMENT, f"database: the call speaks of {UID}, this node holds {OTHER_UID}"
    )
    own.on["Plan"] = lambda _request, _context: pb.PlanReply()
    arguments = [pb.PlanRequest()] if method == "plan" else []
    with nodes_at(stranger, own) as nodes, pytest.raises(OtherDatabaseError) as error:
        getattr(nodes, method)(*arguments)
    for part in (stranger.address, UID, OTHER_UID):
        assert part in str(error.value)
    assert own.requests("Plan") == []


@pytest.mark.parametrize("known", ["", UID])
def test_a_node_that_does_not_know_its_database_yet_is_waited_for(
    fakes: Callable[[], FakeNode], known: str
) -> None:
    fake = fakes()
    asked = []

    def plan(_request: Any, context: Any) -> pb.PlanReply:
        asked.append(context)
        if known and len(asked) < 3:
            details = f"database: the call speaks of {known}, this node holds none yet; begin again"
            context.abort(Code.INVALID_ARGUMENT, details)
        return pb.PlanReply()

    def who(request: Any, context: Any) -> Any:
        asked.append(context)
        return position(1, uid="" if len(asked) < 3 else UID)(request, context)

    fake.on |= {"Plan": plan, "GetPosition": who}
    with nodes_at(fake, uid=known) as nodes:
        nodes.plan(pb.PlanRequest())
        assert nodes.database_uid == UID
    assert len(asked) == (3 if known else 4)


def test_a_node_that_never_knows_its_database_is_told_with_its_reason(
    fakes: Callable[[], FakeNode],
) -> None:
    fake = fakes()
    fake.on["GetPosition"] = position(1, uid="")
    with nodes_at(fake, seconds=0.1, uid="") as nodes:
        assert nodes.positions() == {}
        with pytest.raises(NodesError, match="no identity yet: it waits for region 2"):
            read_ns(nodes, pb.ScanRequest())
    assert fake.requests("Scan") == []


def test_every_call_carries_user_and_password(fakes: Callable[[], FakeNode]) -> None:
    fake = fakes()
    fake.on = {
        "GetPosition": position(1),
        "Plan": lambda _request, _context: pb.PlanReply(),
        "Scan": scans((1, 1)),
        "ListStreams": lambda _request, _context: iter(()),
        "Append": lambda _request, _context: pb.AppendReply(),
    }
    with nodes_at(fake, security=Security("default", "pässword")) as nodes:
        nodes.position()
        nodes.positions()
        nodes.plan(pb.PlanRequest())
        read_ns(nodes, pb.ScanRequest())
        nodes.streams()
        nodes.append(pb.AppendRequest())
    assert len(fake.asked) == 6
    # base64 of "default:pässword"
    assert {metadata["authorization"] for _, _, metadata in fake.asked} == {
        "Basic ZGVmYXVsdDpww6Rzc3dvcmQ="
    }


def test_without_a_password_none_is_sent(fakes: Callable[[], FakeNode]) -> None:
    fake = fakes()
    fake.on["GetPosition"] = position(1)
    with nodes_at(fake) as nodes:
        nodes.position()
    assert "authorization" not in fake.asked[0][2]


def test_literal_patterns_match_nothing_else() -> None:
    from crdtstream.commands.glob import compile_glob

    keys = [b"a-b", b"a*", b"[ab]", b"a?c", b"back\\slash", b"]", b"^", b"", b"\xff"]
    for key, pattern in zip(keys, patterns_literal(keys), strict=True):
        matches = compile_glob(pattern)
        assert [other for other in [*keys, b"aXc", b"a", b"b"] if matches(other)] == [key]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem; node.pem and program.pem signed by it; other.pem is a CA that nobody knows."""
    openssl = program("openssl")
    folder = tmp_path_factory.mktemp("certificates")

    def run(*words: str) -> None:
        subprocess.run([openssl, *words], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for ca in ("ca", "other"):
        subject = ["-subj", f"/CN={ca}", "-days", "2"]
        run("req", "-x509", *key, *subject, "-keyout", f"{ca}.key", "-out", f"{ca}.pem")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("node", "program"):
        request = ["-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"]
        run("req", *key, *request)
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
        run("x509", "-req", "-in", f"{name}.csr", *signed, "-days", "2", "-out", f"{name}.pem")
    return folder


@pytest.fixture
def tls_node(certificates: Path) -> Iterator[FakeNode]:
    """A node that wants to see a certificate of its CA's."""
    pair = [(certificates / name).read_bytes() for name in ("node.key", "node.pem")]
    ca = (certificates / "ca.pem").read_bytes()
    node = FakeNode(grpc.ssl_server_credentials([tuple(pair)], ca, require_client_auth=True))
    node.on["GetPosition"] = position(1)
    yield node
    node.stop()


def security_with(folder: Path, *names: str) -> Security:
    """TLS with these files: of the authority, of a certificate, of its key; empty: none."""
    ca, certificate, key = (str(folder / name) if name else "" for name in names)
    return Security(tls=True, tls_ca_cert_file=ca, tls_cert_file=certificate, tls_key_file=key)


def test_both_sides_show_their_certificates(certificates: Path, tls_node: FakeNode) -> None:
    security = security_with(certificates, "ca.pem", "program.pem", "program.key")
    with nodes_at(tls_node, security=security) as nodes:
        assert nodes.position().region == 1


@pytest.mark.parametrize("names", [("other.pem", "program.pem", "program.key"), ("ca.pem", "", "")])
def test_a_side_that_is_not_known_is_not_talked_to(
    certificates: Path, tls_node: FakeNode, names: tuple[str, ...]
) -> None:
    security = security_with(certificates, *names)
    with nodes_at(tls_node, security=security, seconds=0.2) as nodes, pytest.raises(NodesError):
        nodes.position()
    assert tls_node.asked == []


def test_a_missing_certificate_is_told_with_its_option(tmp_path: Path) -> None:
    security = Security(tls_ca_cert_file=str(tmp_path / "none.pem"), tls=True)
    with (
        Nodes(["127.0.0.1:1"], security, 1.0) as nodes,
        pytest.raises(NodesError, match=r"tlsCaCertFile=.*none\.pem.*every machine"),
    ):
        nodes.position()
