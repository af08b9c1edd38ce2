"""Identity of regions by certificates: who gets no link, no letter and no message, and why."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from crdtstream.certificates.certificate import parse_certificates
from crdtstream.certificates.names import Role
from crdtstream.core.ids import RegionId
from crdtstream.region.links.messages import PROTOCOL_VERSION
from crdtstream.v1 import membership_pb2, membership_pb2_grpc, replication_pb2_grpc
from crdtstream.v1 import replication_pb2 as pb
from tests.certificates.making import DAY, NOW, Made, make, make_authority, outdated_context
from tests.harness.driven import SAID
from tests.patience import seconds, until
from tests.replication.identities import Issuer, seconds_from_now, showing, shown_by
from tests.replication.regions import LiveRegion, addresses, converged, live_regions

R1, R2, R3 = map(RegionId, (1, 2, 3))
REFUSED = "a call is refused for its certificate"


@pytest.fixture
def ca(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


async def mesh(ca: Issuer, count: int, **settings: Any) -> list[LiveRegion]:
    """Regions that are each other's peers, with their certificates; not running yet."""
    where = addresses(count)
    return [
        LiveRegion(number, where, certificates=await ca.certificates(number), **settings)
        for number in where
    ]


@pytest.fixture
async def first(ca: Issuer) -> AsyncIterator[LiveRegion]:
    """Region 1, whose peers 2 and 3 do not run."""
    one, *_ = await mesh(ca, 3)
    async with one.running():
        yield one


# gRPC's client says so where a call was ended while its message was being sent, and has lost the
# status of the server then (``grpc/aio/_call.py``, ``_write``).
STATUS_IS_LOST = ("INTERNAL", "Internal error from Core")


async def opened(region: LiveRegion, shown: Made, claimed: int) -> tuple[str, str]:
    """Open a link to region 1 as ``claimed``; the answer, or the status and its text."""
    async with showing(region.address, shown) as channel:
        for _ in range(5):
            found = await _opened(channel, claimed)
            if found != STATUS_IS_LOST:
                break
        return found


async def _opened(channel: grpc.aio.Channel, claimed: int) -> tuple[str, str]:
    call = replication_pb2_grpc.ReplicationStub(channel).Sync()
    try:
        opening = pb.Open(
            protocol=PROTOCOL_VERSION,
            region=claimed,
            database_id="crdb",
            run_id=7,
            origins=[1],
            membership=SAID,
        )
        await call.write(pb.SyncRequest(open=opening))
        message = await call.read()
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or ""
    except asyncio.InvalidStateError:
        # It ended before the message left.
        return (await call.code()).name, await call.details()
    return str(message.WhichOneof("kind")), ""


async def test_regions_with_their_own_certificates_are_linked(ca: Issuer) -> None:
    async with live_regions(await mesh(ca, 3)) as regions:
        for region in regions:
            region.add(5)
        await converged(regions)
        assert all(region.replica.vv == {R1: 5, R2: 5, R3: 5} for region in regions)
        for region in regions:
            assert region.callers is not None
            assert region.callers.failures == 0


async def test_tls_below_1_2_is_refused(first: LiveRegion) -> None:
    host, _, port = first.address.rpartition(":")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(host, int(port), ssl=outdated_context())


# --- S1: the certificate of another region -------------------------------------------------------


async def test_a_region_opens_no_link_in_the_name_of_another_one(
    first: LiveRegion, ca: Issuer
) -> None:
    assert (await opened(first, ca.region(2), 2))[0] == "welcome"
    assert first.callers is not None
    with capture_logs() as lines:
        for count in (1, 2):
            code, text = await opened(first, ca.region(2), 3)
            assert (code, text) == (
                "PERMISSION_DENIED", "certificate is of region 2, Open says 3",
            )  # fmt: skip
            assert first.callers.failures == count
    assert R3 not in first.serves
    assert first.knows_of(R3) == {}
    # At most once a minute.
    assert [line["reason"] for line in lines if line["event"] == REFUSED] == [text]


@pytest.mark.parametrize(
    ("method", "request_", "what"),
    [
        (
            "Deliver",
            membership_pb2.MembershipLetter(database_id="crdb", sender=3, to=1),
            "the letter says 3",
        ),
        (
            "Introduce",
            membership_pb2.IntroduceRequest(database_id="crdb", region=3),
            "Introduce says 3",
        ),
        ("Seal", membership_pb2.SealRequest(database_id="crdb", sender=3, to=1), "Seal says 3"),
    ],
)
async def test_a_region_sends_nothing_in_the_name_of_another_one(
    first: LiveRegion, ca: Issuer, method: str, request_: Any, what: str
) -> None:
    async with showing(first.address, ca.region(2)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await getattr(membership_pb2_grpc.MembershipStub(channel), method)(request_)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert caught.value.details() == f"certificate is of region 2, {what}"


async def test_a_node_at_the_address_of_another_region_is_sent_nothing(ca: Issuer) -> None:
    """Region 2 stands where region 3 is expected: another machine, or a relay that ends TLS."""
    where = addresses()
    one = LiveRegion(1, {**where, 3: where[2]}, certificates=await ca.certificates(1))
    two = LiveRegion(2, where, certificates=await ca.certificates(2))
    async with live_regions([one, two]):
        link = one.pulls[R3].link
        await until(lambda: one.pulls[R2].link.is_up and link.failures > 2)
        assert not link.is_up
        assert "its certificate is of another region or database; correct the address" in link.error
        # Nobody called as one that looks for region 3: TLS ended before.
        assert two.callers is not None
        assert two.callers.failures == 0


async def test_a_peer_of_an_unknown_authority_is_named_as_such(ca: Issuer) -> None:
    where, other = addresses(2), Issuer(ca.folder / "other", make_authority(name="another"))
    one = LiveRegion(1, where, certificates=await ca.certificates(1))
    two = LiveRegion(2, where, certificates=await other.certificates(2))
    async with live_regions([one, two]):
        link = one.pulls[R2].link
        await until(lambda: "its certificate is not trusted (" in link.error)
        assert "compare its authority and dates with tls_ca_cert_file here" in link.error
        assert "OK" not in link.error


# --- S2: names that are right elsewhere ----------------------------------------------------------


@pytest.mark.parametrize(
    ("spoilt", "text"),
    [
        (
            lambda ca: ca.region(2, database_id="other"),
            "its certificate is of region 2 of database other, this is database crdb",
        ),
        (
            lambda ca: ca.region(2, trust_domain="example.com"),
            "its certificate is of trust domain example.com, this is crdtstream.internal",
        ),
        (
            lambda ca: make(ca.root, dns=["region-2.crdb.crdtstream"], uris=[]),
            "its certificate names no region, operator or reader: no URI",
        ),
        (
            lambda ca: ca.made(Role.OPERATOR, "alice"),
            "certificate is of operator alice of database crdb; this call is for role region",
        ),
        (
            lambda ca: ca.made(Role.QUERY, "etl"),
            "certificate is of query etl of database crdb; this call is for role region",
        ),
        (
            lambda ca: ca.made(Role.CLIENT, "app"),
            (
                "its certificate is of client app of database crdb, for the port of Redis clients"
                " alone; show that of an operator or reader"
            ),
        ),
    ],
)
async def test_a_certificate_of_the_same_authority_may_be_nobody_here(
    first: LiveRegion, ca: Issuer, spoilt: Callable[[Issuer], Made], text: str
) -> None:
    assert await opened(first, spoilt(ca), 2) == ("PERMISSION_DENIED", text)
    assert first.serves == {}


@pytest.mark.parametrize(
    "shown",
    [
        lambda ca: None,
        lambda ca: Issuer(ca.folder, make_authority(name="another")).region(2),
        lambda ca: Issuer(ca.folder, make_authority()).region(2),
        lambda ca: ca.region(2, begins=NOW - 2 * DAY, ends=NOW - DAY),
        lambda ca: ca.region(2, begins=NOW + DAY),
    ],
    ids=["none", "another authority", "one of its name", "expired", "not yet valid"],
)
async def test_without_a_valid_certificate_there_is_no_connection(
    first: LiveRegion, ca: Issuer, shown: Callable[[Issuer], Made | None]
) -> None:
    async with showing(first.address, shown(ca), ca=ca.root.pem) as channel:
        call: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", timeout=seconds())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_region_that_is_no_member_is_told_nothing_about_the_others(
    first: LiveRegion, ca: Issuer
) -> None:
    request = membership_pb2.IntroduceRequest(database_id="crdb", region=7)
    async with showing(first.address, ca.region(7)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await membership_pb2_grpc.MembershipStub(channel).Introduce(request)
    assert caught.value.details() == "certificate is of region 7, which is no member"


async def test_a_plain_connection_gets_nothing(first: LiveRegion) -> None:
    async with grpc.aio.insecure_channel(first.address) as channel:
        call: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", timeout=seconds())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_no_message_is_read_of_a_caller_that_may_not_call(
    first: LiveRegion, ca: Issuer
) -> None:
    async with showing(first.address, ca.made(Role.QUERY, "etl")) as channel:
        never_sent: Any = channel.stream_stream("/crdtstream.v1.Membership/Deliver")()
        async with asyncio.timeout(seconds()):
            assert await never_sent.code() is grpc.StatusCode.PERMISSION_DENIED


# --- S3: trust ends while a link lives ------------------------------------------------------------


async def test_a_link_ends_when_its_certificate_expires(ca: Issuer) -> None:
    ends = seconds_from_now(4)
    ca.files(2).put_all(ca.region(2, ends=ends))
    one, two = await mesh(ca, 2)
    async with live_regions([one, two]):
        await until(lambda: two.pulls[R1].link.is_up and R2 in one.serves)
        await until(lambda: R2 not in one.serves)
        assert datetime.datetime.now(datetime.UTC) >= ends.replace(microsecond=0)
        failures = two.pulls[R1].link.failures
        await until(lambda: two.pulls[R1].link.failures > failures + 1)
        assert R2 not in one.serves


async def test_a_link_ends_when_its_certificate_is_revoked_and_a_new_one_opens_it(
    ca: Issuer,
) -> None:
    one, two = await mesh(ca, 2)
    assert two.certificates is not None
    async with live_regions([one, two]):
        await until(lambda: two.pulls[R1].link.is_up and R2 in one.serves)
        one.revoked.add(two.certificates.current.serial)
        assert one.guard is not None
        one.guard.end_revoked()
        await until(lambda: R2 not in one.serves)
        link = two.pulls[R1].link
        await until(lambda: "of region 2 of database crdb was revoked; it needs" in link.error)
        assert R2 not in one.serves
        # The other way has another certificate.
        assert one.pulls[R2].link.is_up

        ca.files(2).put_all(ca.region(2))
        assert await two.certificates.reload() is None
        await until(lambda: two.pulls[R1].link.is_up and R2 in one.serves)


async def test_a_revoked_certificate_opens_nothing_and_ends_only_its_own_calls(
    first: LiveRegion, ca: Issuer
) -> None:
    lost, kept = ca.made(Role.OPERATOR, "mallory"), ca.region(2)
    async with showing(first.address, kept) as channel:
        call: Any = channel.stream_stream("/crdtstream.v1.Membership/Deliver")()
        await until(lambda: first.guard is not None and first.guard.count == 1)
        for shown in (lost, ca.region(3)):
            (certificate,) = parse_certificates(shown.pem)
            first.revoked.add(certificate.serial)
            assert first.guard is not None
            first.guard.end_revoked()
            async with showing(first.address, shown) as refused:
                # Nothing is written: a write that meets the end of its call fails by itself.
                answer: Any = refused.stream_stream("/crdtstream.v1.Replication/Sync")()
                assert await answer.code() is grpc.StatusCode.PERMISSION_DENIED
                assert (await answer.details()).startswith(
                    f"its certificate {certificate.serial:x} of "
                )
        # The call of the other certificate goes on: it is answered.
        await call.write(b"")
        await call.done_writing()
        code, text = await call.code(), await call.details()
        assert "revoked" not in text, code


async def test_links_end_when_their_authority_is_trusted_no_more(ca: Issuer) -> None:
    one, two = await mesh(ca, 2)
    assert one.certificates is not None
    async with live_regions([one, two]):
        await until(lambda: two.pulls[R1].link.is_up and one.pulls[R2].link.is_up)
        # Region 1 moves to another authority; region 2 knows nothing of it.
        ca.files(1).put_all(Issuer(ca.folder, make_authority(name="the next one")).region(1))
        assert await one.certificates.reload() is None
        # The link that comes to it ends by itself, before all calls are ended.
        await until(lambda: R2 not in one.serves and not one.pulls[R2].link.is_up)
        await until(lambda: two.pulls[R1].link.failures > 2)
        assert R2 not in one.serves


async def test_other_calls_end_when_their_authority_is_trusted_no_more(
    first: LiveRegion, ca: Issuer
) -> None:
    """A call of any kind: here a letter whose caller takes its time."""
    assert first.certificates is not None
    async with showing(first.address, ca.region(2)) as channel:
        call: Any = channel.stream_stream("/crdtstream.v1.Membership/Deliver")()
        ended = asyncio.ensure_future(call.code())
        assert first.guard is not None
        await until(lambda: first.guard is not None and first.guard.count == 1)
        ca.files(1).put_all(Issuer(ca.folder, make_authority(name="the next one")).region(1))
        assert await first.certificates.reload() is None
        async with asyncio.timeout(seconds()):
            assert await ended is grpc.StatusCode.UNAVAILABLE


async def test_a_further_authority_costs_a_link_one_reconnect(ca: Issuer) -> None:
    one, two = await mesh(ca, 2)
    assert one.certificates is not None
    async with live_regions([one, two]):
        await until(lambda: two.pulls[R1].link.is_up and one.pulls[R2].link.is_up)
        before = one.serves[R2]
        ca.files(1).put("ca.pem", ca.root.pem + make_authority(name="the next one").pem)
        assert await one.certificates.reload() is None
        await until(lambda: one.serves.get(R2) not in (None, before))
        two.add(5)
        await converged([one, two])
        assert two.pulls[R1].link.reconnects <= 1
        # Its own link begins again without a pause.
        assert one.pulls[R2].link.reconnects == 0


async def test_a_link_begins_again_after_a_time_and_its_users_notice_nothing(ca: Issuer) -> None:
    one, two = await mesh(ca, 2, check_s=0.3)
    async with live_regions([one, two]):
        await until(lambda: two.pulls[R1].link.is_up)
        seen = []
        for _ in range(3):
            seen.append(one.serves[R2])
            one.add(2)
            await until(lambda: one.serves.get(R2) not in (None, *seen))
        await converged([one, two])
        assert two.pulls[R1].link.reconnects == 0
        assert two.pulls[R1].link.failures == 0


async def test_new_connections_see_a_new_certificate_at_once(first: LiveRegion, ca: Issuer) -> None:
    client = ca.files(2)
    former = await asyncio.to_thread(shown_by, first.address, client)
    assert former == ca.files(1).paths.certificate.read_bytes()
    leaf = ca.region(1)
    ca.files(1).put_all(leaf)
    assert first.certificates is not None
    assert await first.certificates.reload() is None
    assert await asyncio.to_thread(shown_by, first.address, client) == leaf.pem != former
