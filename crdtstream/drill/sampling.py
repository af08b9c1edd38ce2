"""Samples beside the clients' records: versions, lag, memory and processor time of nodes.

Each node is asked by a thread of its own, as a node that is frozen does not answer.  Lag is
computed here, from versions and our own clock, so that a silent link cannot look well:

    the peer has had effect (origin, n) for 3 s, the puller has not:  its lag is 3 s

Resolution: one interval.
"""

import bisect
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from crdtstream.admin.client import AdminClient, AdminError, vv_of
from crdtstream.drill.deployment import Deployment
from crdtstream.drill.outcome import LinkSeries, NodeSeries

INTERVAL_SECONDS: Final = 0.2
ANSWER_SECONDS_MAX: Final = 0.5
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a node.

    Attributes:
        vv: effects that it has applied; None: it did not answer.
        received: by peer, unpacked bytes over its link since the node started, and the part of
            these that it had already.
        rss_bytes, cpu_seconds: of its process; None: it has none, or not on this machine.
    """

    at: float
    region: int
    vv: dict[int, int] | None
    received: dict[int, tuple[int, int]] = field(default_factory=dict)
    rss_bytes: int | None = None
    cpu_seconds: float | None = None


class Sampler:
    """Looks at every node until ``stop``."""

    def __init__(self, deployment: Deployment) -> None:
        self.samples: list[Sample] = []
        self._deployment = deployment
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(region,), daemon=True)
            for region in deployment.regions
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def newest(self) -> dict[int, Sample]:
        """The last look at each node."""
        return {sample.region: sample for sample in self.samples[-20 * len(self._threads) :]}

    def _watch(self, region: int) -> None:
        address = self._deployment.nodes[region].grpc
        login = self._deployment.login
        admin = AdminClient(address, login=login, call_seconds_max=ANSWER_SECONDS_MAX)
        try:
            while not self._stop.wait(INTERVAL_SECONDS):
                rss, cpu = self._process(region)
                try:
                    reply = admin.status()
                except AdminError:
                    self.samples.append(Sample(time.monotonic(), region, None, {}, rss, cpu))
                    # A channel that failed waits longer and longer; we want to know at once.
                    admin.close()
                    admin = AdminClient(address, login=login, call_seconds_max=ANSWER_SECONDS_MAX)
                    continue
                received = {
                    int(link.peer): (int(link.bytes_uncompressed), int(link.bytes_again))
                    for link in reply.links
                }
                vv = {int(origin): n for origin, n in vv_of(reply.vv).items()}
                self.samples.append(Sample(time.monotonic(), region, vv, received, rss, cpu))
        finally:
            admin.close()

    def _process(self, region: int) -> tuple[int | None, float | None]:
        processes = self._deployment.processes
        pid = self._deployment.nodes[region].pid if processes is None else processes.pid(region)
        return usage(pid) if pid else (None, None)


def usage(pid: int) -> tuple[int | None, float | None]:
    """Memory (bytes) and processor time (seconds) of a process; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None, None
    # The name, in brackets, may hold anything.
    values = stat.rpartition(")")[2].split()
    ticks = int(values[11]) + int(values[12])
    return int(values[21]) * _PAGE_BYTES, ticks / _TICKS_PER_SECOND


# --- What it comes to -------------------------------------------------------------------------


class Versions:
    """Times at which regions had effects."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        # By region and origin: moments and counts, both ascending.
        self._at: dict[tuple[int, int], list[float]] = {}
        self._n: dict[tuple[int, int], list[int]] = {}
        self._heard: dict[int, list[float]] = {}
        for sample in samples:
            if sample.vv is None:
                continue
            self._heard.setdefault(sample.region, []).append(sample.at)
            for origin, n in sample.vv.items():
                key = (sample.region, origin)
                counts = self._n.setdefault(key, [])
                if not counts or n != counts[-1]:
                    counts.append(n)
                    self._at.setdefault(key, []).append(sample.at)

    def of(self, region: int, at: float) -> dict[int, int]:
        """Effects that a region was last known to have at a moment."""
        found = {}
        for (owner, origin), moments in self._at.items():
            index = bisect.bisect_right(moments, at)
            if owner == region and index:
                found[origin] = self._n[owner, origin][index - 1]
        return found

    def was_heard(self, region: int, at: float) -> bool:
        """True if it had ever answered by then."""
        moments = self._heard.get(region, [])
        return bool(moments) and moments[0] <= at

    def lag(self, puller: int, peer: int, at: float) -> tuple[float, int]:
        """Lag of a link at a moment: age in ms of the oldest effect that it lacks, and their
        number."""
        has = self.of(puller, at)
        lacking = 0
        oldest = at
        for origin, n in self.of(peer, at).items():
            had = has.get(origin, 0)
            if n > had:
                lacking += n - had
                index = bisect.bisect_right(self._n[peer, origin], had)
                oldest = min(oldest, self._at[peer, origin][index])
        return (at - oldest) * 1e3, lacking

    def everything(self, regions: Iterable[int], at: float) -> dict[int, int]:
        """Effects that any of the regions had at a moment."""
        found: dict[int, int] = {}
        for region in regions:
            for origin, n in self.of(region, at).items():
                found[origin] = max(n, found.get(origin, 0))
        return found

    def caught_up(
        self, regions: Sequence[int], target: dict[int, int], since: float
    ) -> float | None:
        """Time, after ``since``, from which on all of the regions had the target; None: never."""
        moments = []
        for region in regions:
            moment = self._reached(region, target, since)
            if moment is None:
                return None
            moments.append(moment)
        return max(moments)

    def _reached(self, region: int, target: dict[int, int], since: float) -> float | None:
        for at in self._heard.get(region, []):
            if at >= since:
                has = self.of(region, at)
                if all(has.get(origin, 0) >= n for origin, n in target.items()):
                    return at
        return None


def link_series(
    versions: Versions, samples: Sequence[Sample], links: Iterable[tuple[int, int]], began: float
) -> list[LinkSeries]:
    """Lag of every link over time; a link is unknown until both ends had answered."""
    moments = list(_moments(samples))
    found = []
    for puller, peer in sorted(links):
        lags = [
            versions.lag(puller, peer, at)
            if versions.was_heard(puller, at) and versions.was_heard(peer, at)
            else None
            for at in moments
        ]
        received, again = _received(samples, puller, peer)
        found.append(
            LinkSeries(
                puller=puller,
                peer=peer,
                at=[round(at - began, 2) for at in moments],
                lag_ms=[None if lag is None else round(lag[0], 1) for lag in lags],
                lag_effects=[None if lag is None else float(lag[1]) for lag in lags],
                bytes_received=received,
                bytes_again=again,
            )
        )
    return found


def node_series(
    samples: Sequence[Sample], regions: Iterable[int], began: float
) -> list[NodeSeries]:
    """Memory and processor time of every node over time."""
    found = []
    for region in regions:
        own = [sample for sample in samples if sample.region == region]
        cpu: list[float | None] = []
        before: Sample | None = None
        for sample in own:
            cpu.append(_cpu_percent(before, sample))
            before = sample
        found.append(
            NodeSeries(
                region=region,
                at=[round(sample.at - began, 2) for sample in own],
                rss_bytes=[sample.rss_bytes for sample in own],
                cpu_percent=cpu,
            )
        )
    return found


def _cpu_percent(before: Sample | None, sample: Sample) -> float | None:
    if before is None or before.cpu_seconds is None or sample.cpu_seconds is None:
        return None
    used = sample.cpu_seconds - before.cpu_seconds
    # Another process has the name now: its counts began at 0.
    return None if used < 0 else round(100 * used / (sample.at - before.at), 1)


def _received(samples: Sequence[Sample], puller: int, peer: int) -> tuple[int, int]:
    """Bytes over a link, of all processes of the puller together."""
    totals = [0, 0]
    last = (0, 0)
    first = True
    for sample in samples:
        now = sample.received.get(peer) if sample.region == puller else None
        if now is None:
            continue
        is_new_life = now[0] < last[0]
        for at in (0, 1):
            totals[at] += now[at] - (0 if is_new_life else last[at])
        if first:
            # Bytes that it had received before the drill are not the drill's.
            totals = [0, 0]
            first = False
        last = now
    return totals[0], totals[1]


def _moments(samples: Sequence[Sample]) -> Iterator[float]:
    if not samples:
        return
    at, last = samples[0].at, samples[-1].at
    while at <= last:
        yield at
        at += INTERVAL_SECONDS
