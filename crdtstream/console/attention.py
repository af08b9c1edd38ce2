"""Conditions that an operator should act on, as they are now.

Each has the name of its alert in ``deploy/alerts.yml``.  An alert of Prometheus also says for how
long a condition must hold, and sees what a node does not see of itself; the console shows at once
what it sees.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from crdtstream.console import words
from crdtstream.console.picture import LinkView, Picture, RegionView
from crdtstream.v1 import admin_pb2 as pb

# The bounds of the alerts.
LAG_MS_MAX: Final = 5_000
LAG_EFFECTS_MAX: Final = 10_000
UNREPLICATED_EFFECTS_MAX: Final = 10_000
UNREPLICATED_MS_MAX: Final = 60_000
CLOCK_SKEW_MS_MAX: Final = 2_000


class Severity(StrEnum):
    """CRITICAL: look now; WARNING: it can wait until morning."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Notice:
    """A condition, of one region or link or of several.

    Attributes:
        alert: name of the alert.
        text: the condition; a line for each region or link that it holds for.
        advice: what to do.
    """

    severity: Severity
    alert: str
    text: str
    advice: str


def notices_of(picture: Picture) -> list[Notice]:
    """All conditions that hold, the most severe first; those with the same advice are one."""
    own = picture.own.region
    awaited = {region.region for region in picture.regions if region.has_no_node}
    links = [link for link in picture.links if link.source not in awaited]
    found = [
        *_of_node(picture),
        *(notice for region in picture.regions for notice in _of_region(region)),
        *(notice for link in links for notice in _of_link(link, here=own)),
    ]
    # Many links lag at once.
    texts: dict[tuple[Severity, str, str], list[str]] = {}
    for one in found:
        texts.setdefault((one.severity, one.alert, one.advice), []).append(one.text)
    order = list(Severity)
    return [
        Notice(severity, alert, "\n".join(lines), advice)
        for (severity, alert, advice), lines in sorted(
            texts.items(), key=lambda item: order.index(item[0][0])
        )
    ]


def _of_node(picture: Picture) -> Iterator[Notice]:
    own, node = picture.own, picture.node
    region = own.region
    into = [link for link in picture.links if link.to == region]
    if into and all(link.state != "up" for link in into):
        yield Notice(
            Severity.CRITICAL,
            "CrdtstreamRegionIsolated",
            f"Region {region} hears no other region.",
            "What it acknowledges stays in it alone. Check the network to its peers; the table of"
            " links has the error of each.",
        )
    if node.lag_effects > UNREPLICATED_EFFECTS_MAX or node.lag_ms > UNREPLICATED_MS_MAX:
        yield Notice(
            Severity.WARNING,
            "CrdtstreamUnreplicated",
            f"{words.number_of(node.lag_effects, 'effect')} of region {region} are in no other"
            f" region, the oldest for {words.duration(node.lag_ms)}.",
            "They would be lost with its disk. Find out why its peers do not fetch them.",
        )
    if node.lag_exceeded:
        yield Notice(
            Severity.WARNING,
            "CrdtstreamReplicationLagExceeded",
            f"Region {region} is at its bound on replication lag.",
            "Look at the links of its peers to it. The tunable replication_lag_action says what"
            " happens to writes.",
        )
    if node.checkpoint_failure:
        yield Notice(
            Severity.WARNING,
            "CrdtstreamCheckpointFails",
            f"Region {region} could not write its last checkpoint: {node.checkpoint_failure}",
            "Nothing is lost, but the log grows. Check space, rights and health of the disk.",
        )
    if node.certificate_trouble:
        yield Notice(
            Severity.WARNING,
            "CrdtstreamCertificateRefused",
            f"The certificate of region {region}: {node.certificate_trouble}",
            "Correct the files; crdtstream certs reload reads them again.",
        )
    for kept in own.storage.kept:
        if kept.keeping == pb.Kept.Keeping.ONLY_COPY:
            yield Notice(
                Severity.WARNING,
                "CrdtstreamLogOnlyCopy",
                f"Only region {region} is known to have what region {kept.region} lacks.",
                "Its log grows until another region has that. Bring a region back.",
            )


def _of_region(one: RegionView) -> Iterator[Notice]:
    status = one.status
    if one.member == "removed" or one.has_no_node:
        return
    if status is None:
        if one.was_asked:
            yield Notice(
                Severity.CRITICAL,
                "CrdtstreamRegionDown",
                f"Region {one.region} does not answer: {one.reason}",
                "Look at its log and start it with its folder, or mend the network to it.",
            )
        return
    if status.fault:
        yield Notice(
            Severity.CRITICAL,
            "CrdtstreamWritesRefused",
            f"Region {one.region} refuses writes: {status.fault}",
            "Reads go on, and nothing acknowledged is lost. The reason says what to mend.",
        )
    storage = status.storage
    if storage.maxmemory and storage.used_memory >= storage.maxmemory:
        yield Notice(
            Severity.CRITICAL,
            "CrdtstreamMemoryFull",
            f"Region {one.region} is at maxmemory"
            f" ({words.size_of(storage.used_memory, storage.maxmemory)}).",
            "Trim streams, acknowledge what is pending, or raise maxmemory.",
        )
    if storage.maxdisk and storage.disk_bytes >= storage.maxdisk:
        yield Notice(
            Severity.CRITICAL,
            "CrdtstreamFolderFull",
            f"The folder of region {one.region} is at maxdisk"
            f" ({words.size_of(storage.disk_bytes, storage.maxdisk)}).",
            "Trim streams, see for whom the log is kept, or raise maxdisk.",
        )
    if status.bootstrap.failure:
        yield Notice(
            Severity.CRITICAL,
            "CrdtstreamBootstrapFails",
            f"Region {one.region} could not get the state of a peer: {status.bootstrap.failure}",
            "It tries again by itself. Check network and disk of both.",
        )


def _of_link(link: LinkView, *, here: int) -> Iterator[Notice]:
    status = link.status
    if status is None:
        return
    between = f"The link {link.source} → {link.to}"
    why = f": {status.error}" if status.error else "."
    match link.state:
        case "refused":
            yield Notice(
                Severity.CRITICAL,
                "CrdtstreamLinkRefused",
                f"{between} is refused{why}",
                "The reason says what to change.",
            )
        case "paused":
            yield Notice(
                Severity.WARNING,
                "CrdtstreamLinkPaused",
                f"{between} is paused.",
                f"Somebody paused it. {_resuming(link, here)}, or crdtstream sync resume --region"
                f" {link.to}, starts it again.",
            )
        case "needs bootstrap":
            yield Notice(
                Severity.WARNING,
                "CrdtstreamLinkNeedsBootstrap",
                f"Region {link.to} lacks what region {link.source} has cut from its log.",
                "It helps itself: the page Members shows how far it is.",
            )
        case "backoff" | "connecting":
            yield Notice(
                Severity.WARNING,
                "CrdtstreamLinkDown",
                f"{between} is down{why}",
                "It tries again by itself. If both regions run, check the network between them.",
            )
        case _:
            yield from _of_running(link, status, between)


def _resuming(link: LinkView, here: int) -> str:
    """A region's links are resumed in its own console."""
    if link.to == here:
        return "Resume… in the table of links below"
    return f"Resume… in the console of region {link.to}"


def _of_running(link: LinkView, status: pb.LinkStatus, between: str) -> Iterator[Notice]:
    if status.lag_effects > LAG_EFFECTS_MAX:
        yield Notice(
            Severity.WARNING,
            "CrdtstreamLinkBehind",
            f"{between} is {words.number_of(status.lag_effects, 'effect')} behind.",
            "It catches up, or the line or the processor is too slow for what is written.",
        )
    elif link.lag_ms > LAG_MS_MAX:
        yield Notice(
            Severity.WARNING,
            "CrdtstreamLinkLagging",
            f"{between} is {words.duration(link.lag_ms)} behind.",
            "Readers there see old data. The node does not keep up, or waits for effects of a third"
            " region whose link is paused or down.",
        )
    if abs(status.clock_skew_ms) > CLOCK_SKEW_MS_MAX:
        yield Notice(
            Severity.WARNING,
            "CrdtstreamClockSkew",
            f"The clocks of regions {link.source} and {link.to} differ by"
            f" {words.duration(abs(status.clock_skew_ms))}.",
            "Set both by NTP: IDs and deadlines follow the clocks.",
        )
