"""Faults: how each begins, and how it is taken back.

``begin`` makes a fault and returns its end.  An end may be called once, from any thread, and does
its whole work even if the drill is being torn down: no effect of a drill on a deployment outlives
it.
"""

import threading
from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Final, assert_never

from crdtstream.drill.deployment import Deployment
from crdtstream.drill.drill import (
    ClockSkew,
    CutClients,
    Fault,
    FlappingLinks,
    Freeze,
    FullDisk,
    Kill,
    LossyLinks,
    OneWayPartition,
    Partition,
    RollingRestart,
    SlowLinks,
    ThinLinks,
)
from crdtstream.drill.proxies import ProxyError, Way

End = Callable[[], None]
# Both ways of a connection, as Toxiproxy calls them.
DIRECTIONS: Final = ("upstream", "downstream")


def begin(fault: Fault, deployment: Deployment, name: str) -> End:
    """Make a fault.

    Args:
        name: different from every other fault's of this drill; toxics have it.

    Raises:
        DeploymentError: it cannot be made here.  Nothing has changed then.
        ProxyError: Toxiproxy does not answer.
    """
    match fault:
        case Partition(sides=(one, other)):
            return _cut(
                deployment.links[link] for a in one for b in other for link in ((a, b), (b, a))
            )
        case OneWayPartition(link=link):
            return _cut([deployment.links[link]])
        case CutClients(region=region):
            return _cut(deployment.clients[region])
        case SlowLinks():
            return _slow(fault, deployment, name)
        case ThinLinks():
            ways = _links(deployment, fault.links)
            return _toxic(ways, name, "bandwidth", rate=fault.kb_per_second)
        case LossyLinks():
            return _lossy(fault, deployment, name)
        case FlappingLinks():
            return _flapping(fault, deployment)
        case Kill():
            return _kill(fault, deployment)
        case Freeze(region=region):
            processes = deployment.own_processes()
            processes.freeze(region)
            return lambda: processes.thaw(region)
        case RollingRestart(regions=regions):
            processes = deployment.own_processes()
            for region in regions:
                processes.stop(region)
                processes.start(region)
                deployment.wait_until_well()
            return lambda: None
        case ClockSkew():
            return _skew(fault, deployment)
        case FullDisk(region=region):
            processes = deployment.own_processes()
            bytes_max = fault.headroom_bytes
            processes.limit_files(region, bytes_max)
            return lambda: processes.lift_limit(region)
        case _:
            assert_never(fault)


def wants_own_processes(fault: Fault) -> bool:
    """True if it can be made only to regions that the drill started."""
    return isinstance(fault, Kill | Freeze | RollingRestart | ClockSkew | FullDisk)


def _links(deployment: Deployment, named: Iterable[tuple[int, int]]) -> list[Way]:
    return [deployment.links[link] for link in (tuple(named) or deployment.links)]


def _cut(ways: Iterable[Way]) -> End:
    cut = list(ways)
    for way in cut:
        way.cut()

    def end() -> None:
        for way in cut:
            way.restore()

    return end


def _toxic(ways: list[Way], name: str, kind: str, **attributes: int) -> End:
    for way in ways:
        for direction in DIRECTIONS:
            way.add_toxic(name, kind, stream=direction, **attributes)

    def end() -> None:
        for way in ways:
            for direction in DIRECTIONS:
                way.remove_toxic(name, stream=direction)

    return end


def _slow(fault: SlowLinks, deployment: Deployment, name: str) -> End:
    ways = _links(deployment, fault.links)
    if fault.clients:
        ways += [way for found in deployment.clients.values() for way in found]
    return _toxic(ways, name, "latency", latency=fault.rtt_ms // 2, jitter=fault.jitter_ms)


class _Repeated:
    """Action that is repeated in turns by a thread of its own, until ``end``."""

    def __init__(self, turns: Iterable[tuple[Callable[[], End], float]]) -> None:
        """``turns``: the action to begin, and its seconds; repeated without end."""
        self._turns = turns
        self._stop = threading.Event()
        self._error: ProxyError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Raises:
        ProxyError: a turn failed, and no later one made the fault: so it was none.
        """
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for make, seconds in cycle(self._turns):
                end = make()
                stops = self._stop.wait(seconds)
                end()
                if stops:
                    return
        except ProxyError as error:
            self._error = error


def _lossy(fault: LossyLinks, deployment: Deployment, name: str) -> End:
    ways = _links(deployment, fault.links)
    seconds = fault.every_ms / 1e3
    # A connection is reset, then data come in slices, then nothing comes and nothing is closed.
    turns: list[tuple[Callable[[], End], float]] = [
        (lambda: _toxic(ways, f"{name}-reset", "reset_peer", timeout=50), seconds / 2),
        (
            lambda: _toxic(
                ways, f"{name}-slice", "slicer", average_size=64, size_variation=32, delay=500
            ),
            seconds,
        ),
        (lambda: _toxic(ways, f"{name}-silence", "timeout", timeout=0), seconds),
    ]
    return _Repeated(turns).end


def _flapping(fault: FlappingLinks, deployment: Deployment) -> End:
    ways = _links(deployment, fault.links)
    return _Repeated(
        [
            (lambda: _cut(ways), fault.down_ms / 1e3),
            (lambda: lambda: None, fault.up_ms / 1e3),
        ]
    ).end


def _kill(fault: Kill, deployment: Deployment) -> End:
    processes = deployment.own_processes()
    processes.kill(fault.region)
    if fault.disk == "lost":
        processes.lose_disk(fault.region)
    return lambda: processes.start(fault.region)


def _skew(fault: ClockSkew, deployment: Deployment) -> End:
    processes = deployment.own_processes()

    def restart(offset_ms: int) -> None:
        processes.stop(fault.region)
        processes.start(fault.region, {"drill": {"clock_offset_ms": offset_ms}})

    restart(fault.offset_ms)
    return lambda: restart(0)
