"""A picture of the database: regions, links and this node, from messages that nodes send anyway.

Each region reports its own status; a link is reported by the region that pulls by it.  Regions that
do not answer are in the picture, with the reason, and the links to them are unknown.

Rates come from counters: of a region by the clock of that region, so that an answer that is used
twice changes nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from crdtstream.admin.client import Survey, ends_of, lacking, link_state, vv_of
from crdtstream.core.ids import RegionId
from crdtstream.settings.addresses import address_at
from crdtstream.v1 import admin_pb2 as pb

_Status: TypeAlias = pb.MemberStatus.Status
LINK_UNKNOWN: Final = "unknown"
# Longest time between two samples of one counter that make a rate.
GAP_MS_MAX: Final = 15_000
NOT_ASKED: Final = "not asked yet"
MEMBER_STATUSES: Final[Mapping[int, str]] = {
    _Status.JOINING: "joins",
    _Status.ACTIVE: "member",
    _Status.REMOVED: "removed",
}


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Figures that only this node has of itself.

    Attributes:
        memory: bytes by part, as in MEMORY STATS.
        wal_bytes: of the disk's bytes, those of the write-ahead log.
        commands: that ran to their end, since the start.
        clients_blocked: of the clients, those whose command waits.
        received_bytes, sent_bytes: from and to clients, since the start.
        lag_effects, lag_ms: what no other region durably has of this region's writes.
        checkpoint_failure: why the last checkpoint failed; empty: it did not.
        certificate_trouble: what is wrong with the certificate; empty: nothing.
    """

    memory: Mapping[str, int] = field(default_factory=dict)
    wal_bytes: int = 0
    commands: int = 0
    clients_max: int = 0
    clients_blocked: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    lag_effects: int = 0
    lag_ms: int = 0
    lag_exceeded: bool = False
    checkpoint_failure: str = ""
    certificate_trouble: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """All that a picture is made of.

    Attributes:
        own: status of this node.
        others: by region the status of another node, or the reason why it is missing.
        own_before: status of this node just before the others were asked; the others may be some
            seconds behind ``own`` only because they were asked earlier.
        members: as this node knows them.
    """

    own: pb.StatusReply
    others: Mapping[int, pb.StatusReply | str]
    own_before: pb.StatusReply
    members: pb.MembersReply
    node: NodeFigures


@dataclass(frozen=True, slots=True)
class RegionView:
    """A region.

    Attributes:
        resp_address: where clients reach it, as the members or its own report name it; empty: not
            known.
        console_url: of its console, as those name it, without a path; empty: not known.
        status: its report; None: it does not answer, and ``reason`` says why.
        lacks: effects that another region is known to have and this one has not applied.
        writes_rate: effects that it issues in a second; None: not known yet.
    """

    region: int
    name: str
    member: str
    resp_address: str
    console_url: str
    status: pb.StatusReply | None
    reason: str
    lacks: int
    writes_rate: float | None

    @property
    def was_asked(self) -> bool:
        """True if it answered, or failed to."""
        return self.reason != NOT_ASKED

    @property
    def has_no_node(self) -> bool:
        """True if it was added, and its node was not started yet, or does not answer yet."""
        return self.member == "joins" and self.status is None

    @property
    def state(self) -> str:
        """Its state in a word or two."""
        if self.member == "removed":
            return "removed"
        if self.has_no_node:
            return "joins"
        if self.status is None:
            return "no answer" if self.was_asked else NOT_ASKED
        if self.status.fault:
            return "refuses writes"
        return "joins" if self.member == "joins" else "ok"


@dataclass(frozen=True, slots=True)
class LinkView:
    """A link: region ``to`` pulls from region ``source``.

    Attributes:
        status: as ``to`` reports it; None: unknown.
        effects_rate, bytes_rate: in a second; None: not known yet.
    """

    source: int
    to: int
    status: pb.LinkStatus | None
    effects_rate: float | None
    bytes_rate: float | None

    @property
    def name(self) -> str:
        return f"{self.source}-{self.to}"

    @property
    def lag_ms(self) -> int:
        """Age of what ``to`` shows of ``source``; of its newest batch, if the node is older."""
        assert self.status is not None, "an unknown link has no lag"
        return self.status.behind_ms if self.status.HasField("behind_ms") else self.status.lag_ms

    @property
    def state(self) -> str:
        """Its state in a word or two."""
        return LINK_UNKNOWN if self.status is None else link_state(self.status)


@dataclass(frozen=True, slots=True)
class Picture:
    """The database at one moment, as this node knows it; regions and links ascending."""

    own: pb.StatusReply
    members: pb.MembersReply
    regions: tuple[RegionView, ...]
    links: tuple[LinkView, ...]
    node: NodeFigures
    commands_rate: float | None
    received_rate: float | None
    sent_rate: float | None

    @property
    def shape(self) -> str:
        """Changes when a page has to be made again: other regions, or other links."""
        regions = ",".join(f"{one.region}{one.member[:1]}" for one in self.regions)
        return f"{regions};{','.join(link.name for link in self.links)}"


class Rates:
    """Rates of counters, each by the clock of the node that counts."""

    def __init__(self) -> None:
        # Of each counter: the last value and its time in ms, and the rate before it.
        self._last: dict[str, tuple[int, int, float | None]] = {}

    def note(self, counter: str, value: int, at_ms: int) -> float | None:
        """The rate up to this value; None with the first one.

        A counter that went back began again with its node, and after a long gap a rate says nothing
        of now: it is None once more.
        """
        before = self._last.get(counter)
        if before is None or value < before[0] or not 0 <= at_ms - before[1] <= GAP_MS_MAX:
            found = None
        elif at_ms == before[1]:
            return before[2]
        else:
            found = (value - before[0]) * 1_000 / (at_ms - before[1])
        self._last[counter] = value, at_ms, found
        return found

    def keep(self, prefixes: tuple[str, ...]) -> None:
        """Forget the counters whose names begin otherwise: their regions are gone."""
        for counter in [one for one in self._last if not one.startswith(prefixes)]:
            del self._last[counter]


def picture_of(sample: Sample, rates: Rates) -> Picture:
    """The picture of a sample; ``rates`` has the counters of the samples before."""
    own, members = sample.own, sample.members
    replies = {own.region: own} | {
        region: reply for region, reply in sample.others.items() if not isinstance(reply, str)
    }
    lacks = _lacks(replies | {own.region: sample.own_before}, members)
    # This one as it is now.
    lacks[own.region] = _lacks(replies, members).get(own.region, 0)
    regions = tuple(
        _region(member, replies.get(member.region), lacks, sample.others, rates)
        for member in members.members
    )
    live = [one for one in regions if one.member != "removed"]
    rates.keep(("node:", *(f"{one.region}:" for one in live)))
    now = own.now_ms
    return Picture(
        own=own,
        members=members,
        regions=regions,
        links=tuple(_links(live, rates)),
        node=sample.node,
        commands_rate=rates.note("node:commands", sample.node.commands, now),
        received_rate=rates.note("node:received", sample.node.received_bytes, now),
        sent_rate=rates.note("node:sent", sample.node.sent_bytes, now),
    )


def _lacks(replies: Mapping[int, pb.StatusReply], members: pb.MembersReply) -> dict[int, int]:
    """Count by region of the effects that it lacks and another one has applied."""
    removed = {one.region for one in members.members if one.status == _Status.REMOVED}
    vvs = {RegionId(one): vv_of(reply.vv) for one, reply in replies.items() if one not in removed}
    ends = ends_of(Survey({RegionId(one): reply for one, reply in replies.items()}))
    found = lacking(vvs, regions=vvs, peers=vvs, ends=ends)
    return {region: sum(by_origin.values()) for region, by_origin in found.items()}


def _region(
    member: pb.MemberStatus,
    status: pb.StatusReply | None,
    lacks: Mapping[int, int],
    others: Mapping[int, pb.StatusReply | str],
    rates: Rates,
) -> RegionView:
    region = member.region
    reason = others.get(region, NOT_ASKED)
    issued = None
    if status is not None:
        issued = rates.note(f"{region}:issued", status.effects_issued, status.now_ms)
    return RegionView(
        region=region,
        name=member.name or f"region {region}",
        member=MEMBER_STATUSES.get(member.status, "unknown"),
        # Settings name no address for clients of another region.
        resp_address=member.resp_address or ("" if status is None else status.resp_address),
        console_url=_console_url(member, status),
        status=status,
        reason=reason if isinstance(reason, str) and status is None else "",
        lacks=lacks.get(region, 0),
        writes_rate=issued,
    )


def _console_url(member: pb.MemberStatus, status: pb.StatusReply | None) -> str:
    # It says itself whether its pages speak TLS.
    if status is None:
        return ""
    reached, _, _ = (member.grpc_address or status.grpc_address).rpartition(":")
    address = address_at(reached, member.http_address or status.http_address)
    return f"{'https' if status.http_tls else 'http'}://{address}" if address else ""


def _links(regions: list[RegionView], rates: Rates) -> Iterator[LinkView]:
    for to in regions:
        reported = {} if to.status is None else {link.peer: link for link in to.status.links}
        for source in regions:
            if source is to:
                continue
            status = reported.get(source.region)
            if status is None or to.status is None:
                yield LinkView(source.region, to.region, None, None, None)
                continue
            counter, at_ms = f"{to.region}:{source.region}", to.status.now_ms
            yield LinkView(
                source.region,
                to.region,
                status,
                rates.note(f"{counter}:effects", status.effects_received, at_ms),
                rates.note(f"{counter}:bytes", status.bytes_received, at_ms),
            )
