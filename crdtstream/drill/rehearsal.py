"""One drill from beginning to end: regions, proxies, Prometheus, the run, and the cleanup."""

import contextlib
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

import redis

from crdtstream.drill.access import NO_ACCESS, Access
from crdtstream.drill.deployment import (
    Deployment,
    DeploymentError,
    free_base_port,
    given_deployment,
    local_deployment,
)
from crdtstream.drill.drill import Command, Drill
from crdtstream.drill.faults import wants_own_processes
from crdtstream.drill.judging import aborted
from crdtstream.drill.outcome import Run
from crdtstream.drill.processes import LoadError
from crdtstream.drill.prometheus import POLL_SECONDS, Prometheus, PrometheusError
from crdtstream.drill.proxies import ProxyError, Server, own_server
from crdtstream.drill.runner import INTERRUPTED, Runner, StopError, Watcher
from crdtstream.local.regions import layout
from crdtstream.machine.open_files import allow_files

# Nodes of a rehearsal notice and try again sooner than production nodes, so that a drill of some
# seconds sees what takes a minute there.  A drill's own settings beat these.
SETTINGS: Final[Mapping[str, Mapping[str, int]]] = {
    "limits": {"link_silence_ms_max": 1_500, "backoff_ms_max": 500}
}


# Time for which a drill's keys are deleted again while entries of them still come.
DELETE_SECONDS_MAX: Final = 10.0

# Obstacles to judging a drill: its own troubles, and those of this machine.
_TROUBLE: Final = (
    *(DeploymentError, LoadError, ProxyError, PrometheusError, StopError),
    *(redis.RedisError, OSError),
)


class Local:
    """Rehearsals on regions that are started for each drill, in a folder of its own.

    Args:
        watches_alerts: with a Prometheus of the drill's own.
        node: the words that start a node, before its options; None: ``crdtstream node``.
        keep: folder for the nodes' logs and the clients' records; None: they are not kept.
    """

    def __init__(
        self,
        *,
        stop: Callable[[], bool],
        watches_alerts: bool,
        node: Sequence[str] | None = None,
        keep: Path | None = None,
    ) -> None:
        # Nodes inherit it: a herd is more than the 1,024 that a shell often begins with.
        allow_files()
        self._stop = stop
        self._watches_alerts = watches_alerts
        self._node = node
        self._keep = keep

    def run(self, name: str, drill: Drill, watcher: Watcher) -> Run:
        """Run a drill; if it cannot begin, the run is aborted and has the reason."""
        drill = self._prepared(drill)
        try:
            with contextlib.ExitStack() as stack:
                folder = stack.enter_context(_folder(name, self._keep))
                server = stack.enter_context(own_server())
                base_port = free_base_port(drill.regions)
                targets = {
                    r: own.http_address
                    for r, own in enumerate(layout(drill.regions, folder, base_port=base_port), 1)
                }
                # It takes some seconds to start, and nodes do too.
                watch = stack.enter_context(
                    _watch(drill, targets, folder, is_wanted=self._watches_alerts)
                )
                deployment = stack.enter_context(
                    local_deployment(
                        drill,
                        folder / "nodes",
                        server,
                        base_port=base_port,
                        stop=self._stop,
                        node=self._node,
                    )
                )
                alert_watch = _started(watch, self._stop)
                runner = Runner(
                    name, drill, deployment, folder, watcher, self._stop, alert_watch=alert_watch
                )
                return runner.run()
        except _TROUBLE as error:
            return aborted(name, drill, INTERRUPTED if self._stop() else told(error))

    def _prepared(self, drill: Drill) -> Drill:
        settings = {
            **drill.settings,
            **{table: {**values, **_table(drill, table)} for table, values in SETTINGS.items()},
        }
        return drill.model_copy(update={"settings": settings})


class Given:
    """Rehearsals on a deployment that runs already, through its own toxiproxy-server.

    A drill uses keys of its own there, and deletes them at its end.

    Args:
        access: presented to all regions.
        keep: folder for clients' records; None: they are not kept.
    """

    def __init__(
        self,
        nodes: list[str],
        server: Server,
        *,
        stop: Callable[[], bool],
        access: Access,
        anyway: bool,
        watches_alerts: bool,
        keep: Path | None = None,
    ) -> None:
        allow_files()
        self._keep = keep
        self._nodes = nodes
        self._server = server
        self._stop = stop
        self._access = access
        self._anyway = anyway
        self._watches_alerts = watches_alerts

    def run(self, name: str, drill: Drill, watcher: Watcher) -> Run:
        """Run a drill; if it cannot begin, the run is aborted and has the reason."""
        if why := unfit(drill):
            return aborted(name, drill, why)
        try:
            deployment = given_deployment(
                self._nodes,
                self._server,
                stop=self._stop,
                access=self._access,
                anyway=self._anyway,
            )
            if not set(range(1, drill.regions + 1)) <= set(deployment.regions):
                raise DeploymentError(
                    f"the drill wants regions 1 to {drill.regions}; --address names those of"
                    f" {', '.join(map(str, deployment.regions))}"
                )
            with contextlib.ExitStack() as stack:
                folder = stack.enter_context(_folder(name, self._keep))
                # Last of all, so that nothing of a broken drill stays.
                stack.callback(deployment.make_whole)
                targets = {region: node.http for region, node in deployment.nodes.items()}
                watch = stack.enter_context(
                    _watch(
                        drill,
                        targets,
                        folder,
                        is_wanted=self._watches_alerts,
                        access=self._access,
                        https=any(node.http_tls for node in deployment.nodes.values()),
                    )
                )
                runner = Runner(
                    name,
                    drill,
                    deployment,
                    folder,
                    watcher,
                    self._stop,
                    alert_watch=_started(watch, self._stop),
                    key_prefix=f"drill:{secrets.token_hex(4)}",
                )
                stack.callback(_delete, deployment, runner.streams)
                return runner.run()
        except _TROUBLE as error:
            return aborted(name, drill, INTERRUPTED if self._stop() else told(error))


def unfit(drill: Drill) -> str:
    """Reason why a drill cannot be run on a deployment that already runs; empty: it can."""
    for number, step in enumerate(drill.steps, 1):
        if not isinstance(step, Command) and wants_own_processes(step):
            return (
                f"step {number} ({step.do}) ends or changes a region's process, which a drill does"
                " only to regions that it has started: run it without --address"
            )
    if drill.settings or drill.settings_of:
        return "its regions want settings of their own: run it without --address"
    return ""


def _table(drill: Drill, name: str) -> Mapping[str, str | int]:
    found = drill.settings.get(name, {})
    assert isinstance(found, Mapping), f"{name} is a table of the settings"
    return found


@contextlib.contextmanager
def _watch(
    drill: Drill,
    targets: Mapping[int, str],
    folder: Path,
    *,
    is_wanted: bool,
    access: Access = NO_ACCESS,
    https: bool = False,
) -> Iterator["Future[Prometheus] | None"]:
    """Start a Prometheus in the background, to be asked for later; None: none is wanted."""
    if not is_wanted or drill.alerts is None:
        yield None
        return
    prometheus = Prometheus(targets, folder=folder / "prometheus", access=access, https=https)

    def start() -> Prometheus:
        prometheus.start()
        return prometheus

    # The thread lives as long as the block, and the server no longer than the thread.
    with ThreadPoolExecutor(1) as executor:
        started = executor.submit(start)
        try:
            yield started
        finally:
            prometheus.give_up()
            wait([started])
            prometheus.stop()


def _started(watch: "Future[Prometheus] | None", stop: Callable[[], bool]) -> Prometheus | None:
    """The Prometheus that is starting, as soon as it has.

    Raises:
        PrometheusError: it does not start.
        StopError: ``stop`` said to give up.
    """
    if watch is None:
        return None
    while not watch.done():
        if stop():
            raise StopError
        wait([watch], POLL_SECONDS)
    return watch.result()


@contextlib.contextmanager
def _folder(name: str, keep: Path | None) -> Iterator[Path]:
    """Folder for all that a drill writes; removed at the end, or ``keep/name``, which stays."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix=f"crdtstream-drill-{name}-"))
    else:
        folder = keep / name
        folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _delete(deployment: Deployment, streams: tuple[str, ...]) -> None:
    """Remove what the drill added, in every region.

    A DEL removes what its region has observed.  After an interruption regions have not heard of
    each other's last entries, and entries that a killed client had sent may come after it.
    """
    deadline = time.monotonic() + DELETE_SECONDS_MAX
    while True:
        left = [
            region for region in deployment.regions if not _is_deleted(deployment, region, streams)
        ]
        if not left:
            return
        if time.monotonic() > deadline:
            sys.stderr.write(
                f"warning: keys of this drill are left in region {', '.join(map(str, left))};"
                f" remove them in each region: DEL {' '.join(streams)}\n"
            )
            return
        time.sleep(POLL_SECONDS)


def told(error: Exception) -> str:
    """Reason why a drill could not be run; a system error's words, without number and quotes."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _is_deleted(deployment: Deployment, region: int, streams: tuple[str, ...]) -> bool:
    """Delete them in the region; return True if it had none."""
    try:
        with deployment.connect(region) as client:
            return not client.delete(*streams)
    except redis.RedisError:
        return False
