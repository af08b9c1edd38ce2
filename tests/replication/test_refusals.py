"""Permission to pull from a region, asked as a stranger would: one call, and its first answer."""

import contextlib
from collections.abc import AsyncIterator
from typing import TypedDict, Unpack

import grpc
import pytest
from structlog.testing import capture_logs

from crdtstream.region.links.messages import PROTOCOL_VERSION
from crdtstream.secrets.password_marks import METADATA_KEY, password_mark
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc
from tests.harness.driven import said_of
from tests.patience import until
from tests.replication.regions import LiveRegion, addresses


class OpenFields(TypedDict, total=False):
    """A peer's fields about itself as it opens a call."""

    protocol: int
    region: int
    database_id: str
    run_id: int
    membership: bytes


PEER: OpenFields = {
    "protocol": PROTOCOL_VERSION,
    "region": 2,
    "database_id": "crdb",
    "run_id": 7,
    "membership": said_of(1, 2),
}


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """Region 1, whose peer is region 2."""
    where = addresses(2)
    async with LiveRegion(1, where).running():
        yield where[1]


@contextlib.asynccontextmanager
async def answered(
    address: str, mark: str | None = None, **differs: Unpack[OpenFields]
) -> AsyncIterator[str]:
    """The answer of a region to an Open: welcome, or the name of the status; the call stays open.

    `mark` is of the stranger's password; None: it says none.
    """
    async with grpc.aio.insecure_channel(address) as channel:
        metadata = None if mark is None else ((METADATA_KEY, mark),)
        call = rpc.ReplicationStub(channel).Sync(metadata=metadata)
        await call.write(pb.SyncRequest(open=pb.Open(origins=[1], **(PEER | differs))))
        try:
            message = await call.read()
        except grpc.aio.AioRpcError as error:
            yield error.code().name
        else:
            yield message.WhichOneof("kind")
        call.cancel()


@pytest.mark.parametrize(
    ("differs", "answer"),
    [
        ({}, "welcome"),
        ({"database_id": "other"}, "FAILED_PRECONDITION"),
        ({"protocol": PROTOCOL_VERSION + 1}, "FAILED_PRECONDITION"),
        ({"protocol": PROTOCOL_VERSION - 1}, "FAILED_PRECONDITION"),
        ({"protocol": 1}, "FAILED_PRECONDITION"),
        ({"region": 1}, "FAILED_PRECONDITION"),
        ({"region": 3}, "PERMISSION_DENIED"),
        # What is refused is kept by region, with the reason, for whoever tries again.
        ({"region": 0}, "INVALID_ARGUMENT"),
        ({"region": 1024}, "INVALID_ARGUMENT"),
        ({"database_id": "x" * 65}, "INVALID_ARGUMENT"),
    ],
)
async def test_only_a_peer_of_the_same_database_is_let_in(
    address: str, differs: OpenFields, answer: str
) -> None:
    async with answered(address, **differs) as found:
        assert found == answer


async def test_while_a_region_is_linked_no_other_node_is_let_in_as_it(address: str) -> None:
    async with answered(address) as first, answered(address, run_id=8) as second:
        assert (first, second) == ("welcome", "ALREADY_EXISTS")


async def test_a_node_may_open_its_link_again(address: str) -> None:
    async with answered(address) as first, answered(address) as second:
        assert (first, second) == ("welcome", "welcome")


@pytest.mark.parametrize(
    ("mark", "is_told"),
    [
        (None, False),
        ("0", False),
        (str(password_mark("", "crdb")), False),
        (str(password_mark("secret", "crdb")), True),
        ("-7", False),
        ("a password", False),
        ("9" * 5000, False),
    ],
)
async def test_a_peer_that_takes_another_password_is_let_in_and_told_of_once(
    address: str, mark: str | None, is_told: bool
) -> None:
    with capture_logs() as lines:
        for _ in range(2):
            async with answered(address, mark) as found:
                assert found == "welcome"
    told = [line for line in lines if line["event"] == "passwords differ"]
    assert len(told) == is_told
    for line in told:
        assert line["peer"] == 2
        assert "set the same requirepass" in line["reason"]


async def test_regions_with_different_passwords_both_notice() -> None:
    where = addresses(2)
    with capture_logs() as lines:
        one, two = LiveRegion(1, where, password="a"), LiveRegion(2, where, password="b")
        async with one.running(), two.running():
            await until(
                lambda: len([line for line in lines if line["event"] == "passwords differ"]) >= 2,
                "both notice",
            )
    told = [line["peer"] for line in lines if line["event"] == "passwords differ"]
    assert sorted(told) == [1, 2]
