"""All regions of a database, each reached by an address of its own.

The source reads from any region that answers.  A job that compares regions, or measures the ways
between them, must know which one it asks.  So every given address is asked for its region.  The
peers that these regions name must be among them, or answer where their peers find them: a region
that was forgotten would make "all regions agree" worth nothing.  A job that only reports may note
the regions that do not answer, and go on.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Self, TypeVar

import grpc
from pyspark.errors import PySparkException

from crdtstream.spark.nodes import Nodes, NodesError
from crdtstream.spark.options import NodesOptions
from crdtstream.spark.vectors import Ends, Vector, beyond, told_lost, vector_of
from crdtstream.v1 import admin_pb2, admin_pb2_grpc, query_pb2

_T = TypeVar("_T")

# For a node that has not answered yet: either it runs, or the address is wrong.
FIND_SECONDS_MAX: Final = 10.0
NOTED_SECONDS_MAX: Final = 3.0
CALL_SECONDS_MAX: Final = 10.0
POLL_SECONDS: Final = 0.05


class RegionsError(Exception):
    """Not all regions can be asked, or they do not come together.  The text says what to do."""


class Absence(Enum):
    """Treatment of a region that does not answer."""

    # An error, which names it.
    REFUSED = "refused"
    # It is left out, and ``Regions.absent`` names it.
    NOTED = "noted"


@dataclass(frozen=True, slots=True)
class RegionAddress:
    """Address at which one region is reached."""

    region: int
    address: str


class Regions:
    """The regions of one database; a context manager, as it holds connections.

    Attributes:
        addresses: of those that answered, ascending by region.
        absent: addresses or regions that did not answer, and why.
        database_id: which database, by its name.
        nodes: as they were given, with the database's identity.
    """

    def __init__(self, options: NodesOptions, absence: Absence = Absence.REFUSED) -> None:
        self.nodes = options
        self._nodes = Nodes.of(options)
        self._absence = absence
        self.addresses: tuple[RegionAddress, ...] = ()
        self.absent: dict[str, str] = {}
        self.database_id = ""

    def __enter__(self) -> Self:
        """
        Raises:
            RegionsError: a region does not answer (none at all, if that is noted), or is of
                another database.
        """
        try:
            self._find()
        except BaseException:
            self._nodes.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._nodes.close()

    @property
    def database_uid(self) -> str:
        """Identity of the database."""
        return self.nodes.database_uid

    @property
    def numbers(self) -> tuple[int, ...]:
        """The regions, ascending."""
        return tuple(one.region for one in self.addresses)

    def each(self, ask: Callable[[Nodes], _T]) -> dict[int, _T]:
        """Ask the query service of all regions at once; the answers by region, ascending.

        Raises:
            NodesError: one of them does not answer.
        """

        def asked(one: RegionAddress) -> _T:
            with nodes_at(self.nodes, one.address) as node:
                return ask(node)

        return self._together(asked)

    def statuses(self) -> dict[int, admin_pb2.StatusReply]:
        """Status that every node reports now, by region, ascending.

        Raises:
            RegionsError: one of them does not answer; the text names it.
        """
        seconds_max = self._seconds_max(self.nodes.failover_seconds)
        return self._together(
            lambda one: self._status(one.address, f"region {one.region}", seconds_max)
        )

    def _together(self, ask: Callable[[RegionAddress], _T]) -> dict[int, _T]:
        """Ask of all regions, each in a thread of its own."""
        found = {}
        with ThreadPoolExecutor(max_workers=len(self.addresses)) as pool:
            answers = [(one, pool.submit(ask, one)) for one in self.addresses]
            for one, answer in answers:
                with self._absences(f"region {one.region} at {one.address}"):
                    found[one.region] = answer.result()
        return found

    @contextmanager
    def _absences(self, who: str) -> Iterator[None]:
        """Note a region that does not answer, if that is no error."""
        try:
            yield
        except (RegionsError, NodesError) as error:
            if self._absence is Absence.REFUSED:
                raise
            self.absent[who] = str(error)

    def _seconds_max(self, seconds: float) -> float:
        """Longest wait for a node that may never answer."""
        return seconds if self._absence is Absence.REFUSED else NOTED_SECONDS_MAX

    def applied(self) -> dict[int, Vector]:
        """Version vector of each region, durable or not: all that a read can have shown."""
        return {region: _applied(status) for region, status in self.statuses().items()}

    def durable(self) -> dict[int, Vector]:
        """Durable version vector of each region."""
        return {region: _durable(status) for region, status in self.statuses().items()}

    def wait_until_durable(self, wanted: Vector, *, seconds_max: float) -> None:
        """Return when every region has ``wanted`` and cannot lose it.

        Raises:
            RegionsError: the time expired, and the text says which region lacks what; or some of it
                is lost, with a removed region or a folder, so that no region will ever have it.
        """
        self._wait(_durable, wanted, seconds_max)

    def wait_until_applied(self, wanted: Vector, *, seconds_max: float) -> None:
        """Return when every region has applied ``wanted``; errors as of ``wait_until_durable``."""
        self._wait(_applied, wanted, seconds_max)

    def _wait(
        self,
        vector: Callable[[admin_pb2.StatusReply], Vector],
        wanted: Vector,
        seconds_max: float,
    ) -> None:
        deadline = time.monotonic() + seconds_max
        while True:
            statuses = self.statuses()
            positions = self.each(lambda node: node.position(read=wanted))
            _refuse_lost(wanted, positions.values())
            unheard = {region: position.unheard for region, position in positions.items()}
            vectors = {
                region: _without(vector(status), unheard.get(region, ()))
                for region, status in statuses.items()
            }
            lacking = {region: beyond(wanted, one) for region, one in vectors.items()}
            if not any(lacking.values()):
                return
            if time.monotonic() >= deadline:
                raise RegionsError(_lacking_text(lacking, vectors, seconds_max))
            time.sleep(POLL_SECONDS)

    # --- Finding them -------------------------------------------------------------------------

    def _find(self) -> None:
        seconds_max = self._seconds_max(FIND_SECONDS_MAX)
        replies: dict[str, admin_pb2.StatusReply] = {}
        for address in self.nodes.addresses:
            with self._absences(address):
                replies[address] = self._status(address, "the node", seconds_max)
        if not replies:
            raise RegionsError("; ".join(self.absent.values()))
        found: dict[int, str] = {}
        for address, reply in replies.items():
            found.setdefault(reply.region, address)
        for peer, address, named_by in _peers(list(replies.values())):
            if peer not in found:
                with self._absences(f"region {peer} at {address}"):
                    replies[address] = self._unnamed(peer, address, named_by, seconds_max)
                    found[peer] = address
        self.database_id, uid = _one_database(replies)
        self.nodes = replace(self.nodes, database_uid=uid)
        self.addresses = tuple(RegionAddress(region, found[region]) for region in sorted(found))

    def _unnamed(
        self, peer: int, address: str, named_by: int, seconds_max: float
    ) -> admin_pb2.StatusReply:
        """The status of a region whose address was not given, from where a peer finds it."""
        whose = f"region {peer} (a peer of region {named_by}, and not among the nodes given)"
        reply = self._status(address, whose, seconds_max)
        if reply.region != peer:
            raise RegionsError(
                f"{whose} should be at {address}, but region {reply.region} answers there: "
                f"add an address of region {peer} to the nodes"
            )
        return reply

    def _status(self, address: str, whose: str, seconds_max: float) -> admin_pb2.StatusReply:
        """One node's status; a node that is just being started is waited for.

        Raises:
            RegionsError: it does not answer, does not know its database, or is of another one.
        """
        ask: Any = admin_pb2_grpc.AdminStub(self._nodes.channel(address)).Status
        deadline = time.monotonic() + seconds_max
        while True:
            try:
                reply: admin_pb2.StatusReply = ask(
                    admin_pb2.StatusRequest(),
                    timeout=CALL_SECONDS_MAX,
                    metadata=self._nodes.metadata,
                )
            except grpc.RpcError as error:
                passing = error.code() in (
                    grpc.StatusCode.UNAVAILABLE,
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                )
                if passing and time.monotonic() < deadline:
                    time.sleep(POLL_SECONDS)
                    continue
                raise RegionsError(f"{whose} at {address} {_told(error)}") from error
            if not reply.database_uid:
                if time.monotonic() < deadline:
                    time.sleep(POLL_SECONDS)
                    continue
                raise RegionsError(
                    f"{whose} at {address} does not know yet to which database it belongs: "
                    f"{reply.fault or 'its regions are still to agree on one'}"
                )
            self._refuse_stranger(whose, address, reply.database_uid)
            return reply

    def _refuse_stranger(self, whose: str, address: str, uid: str) -> None:
        """A node that was started again may hold something else by now."""
        if self.database_uid not in ("", uid):
            raise RegionsError(
                f"{whose} at {address} holds database {uid}, and {self.database_uid} is meant: "
                "name nodes of one database, and run again"
            )


@contextmanager
def told_as(own: type[Exception]) -> Iterator[None]:
    """Raise errors of regions in the block as a job's own error.

    Spark's text about the error of a task is long, and has the reason somewhere in it.
    """
    try:
        yield
    except (RegionsError, NodesError) as error:
        raise own(str(error)) from error
    except PySparkException as error:
        reason = re.search(
            r"(?:NodesError|UnansweredError|OtherDatabaseError|DataLossError): (.+)", str(error)
        )
        if reason is None:
            raise
        raise own(f"a region could not be read: {reason.group(1)}") from error


def nodes_at(options: NodesOptions, address: str) -> Nodes:
    """The query service of the one node at ``address``; to be closed by the caller."""
    return Nodes.of(replace(options, addresses=(address,)))


def _told(error: grpc.RpcError) -> str:
    """The reason why a node has not reported its status, and what to do."""
    match error.code():
        case grpc.StatusCode.UNAUTHENTICATED:
            return f"takes no call: {error.details()}. Give a user, and the file of its password"
        case grpc.StatusCode.PERMISSION_DENIED:
            return (
                f"does not report its status: {error.details()}. This job asks for it: give the"
                " user the right +info, or show an operator's certificate"
            )
        case _:
            return (
                f"does not answer: {error.details()}. Start it, or give an address at which it is"
                " reached from here"
            )


def _peers(replies: Iterable[admin_pb2.StatusReply]) -> list[tuple[int, str, int]]:
    """Every peer that a region names, where it finds it, and which region that is."""
    return sorted(
        {(link.peer, link.address, reply.region) for reply in replies for link in reply.links}
    )


def _one_database(replies: Mapping[str, admin_pb2.StatusReply]) -> tuple[str, str]:
    """Its name and its identity."""
    ids = {(reply.database_id, reply.database_uid) for reply in replies.values()}
    if len(ids) > 1:
        told = ", ".join(
            f"{at} holds {reply.database_uid} ({reply.database_id!r})"
            for at, reply in replies.items()
        )
        raise RegionsError(f"the nodes are of different databases: {told}; name those of one")
    return ids.pop()


def _applied(status: admin_pb2.StatusReply) -> Vector:
    return vector_of(status.vv, status.token)


def _durable(status: admin_pb2.StatusReply) -> Vector:
    return vector_of(status.durable_vv, status.durable_token)


def _without(vector: Vector, unheard: Collection[int]) -> Vector:
    """Of regions whose incarnation is not known at a node, it has nothing that is meant."""
    return vector.at({region: n for region, n in vector.items() if region not in unheard})


def _refuse_lost(wanted: Vector, positions: Iterable[query_pb2.Position]) -> None:
    """
    Raises:
        RegionsError: some of it exists nowhere, so no region will have it.
    """
    ends = Ends()
    for position in positions:
        ends.hear(position, wanted)
    lost = beyond(wanted, ends.within(wanted))
    told = [told_lost(end) for region in lost if (end := ends.of(region, wanted)) is not None]
    if told:
        raise RegionsError("; ".join(told))


def _lacking_text(
    lacking: Mapping[int, Vector], vectors: Mapping[int, Vector], seconds_max: float
) -> str:
    parts = [
        f"region {region} lacks {n - vectors[region].get(origin, 0)} effects of region {origin}"
        for region, lacks in lacking.items()
        for origin, n in lacks.items()
    ]
    return (
        f"not all regions caught up within {seconds_max:g} s: {'; '.join(parts)}. "
        "See whether links are down or paused (crdtstream status), or wait longer"
    )
