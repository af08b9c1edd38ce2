"""Conducts one drill: regions, load, faults at their times, and the outcome.

    set up ──> load ──┬─ fault ─ end of fault ─┬──> all faults have ended ──> rows are settled,
                      └─ fault ─ ─ ─ ─ ─ ─ ─ ──┘                            groups are idle,
                                                                            regions are equal

Always so: however this ends (an error, Ctrl-C, SIGTERM) every fault that began is taken back first,
the last one first.  Every wait has an end, and ends at once when ``stop`` says so.

A region that does not return, or cannot be read at the end, is what a drill is to find: the verdict
is red then.  It has no verdict only after troubles of the drill itself (Toxiproxy, the load's
process, a step that cannot be made).
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import redis

from crdtstream.drill import faults
from crdtstream.drill.deployment import Deployment, DeploymentError, UnwellError
from crdtstream.drill.drill import Command, Drill, Group, Herd, RollingRestart, Step, described
from crdtstream.drill.judging import Course, judge
from crdtstream.drill.outcome import Convergence, Mark, MarkKind, Run
from crdtstream.drill.plan import ELSEWHERE, HerdPlan, LoadPlan, Place
from crdtstream.drill.processes import END_SECONDS_MAX, LoadError, LoadProcess
from crdtstream.drill.proxies import ProxyError, Way, own_server
from crdtstream.drill.sampling import Sample, Sampler
from crdtstream.drill.standing import digests, have_all, newest, taken_over, write_found
from crdtstream.machine.open_files import allow_files

TURN_SECONDS: Final = 0.1
STEPS_AT_ONCE_MAX: Final = 8
INTERRUPTED: Final = "interrupted; all faults are taken back"
READY_SECONDS_MAX: Final = 30.0
HERD_SECONDS_MAX: Final = 240.0
# Rows that are open when the load ends are tried for this long, and groups are waited for.
SETTLE_SECONDS_MAX: Final = 60.0
# A group is idle when nothing came for this long beyond the time after which entries are claimed.
IDLE_SECONDS: Final = 0.7
# Connections of one process, and of one toxiproxy-server, which needs two files for each.
HERD_PART_MAX: Final = 5_000
FILES_SPARE: Final = 500
# Time that the load of an interrupted drill gets to write its records.
INTERRUPTED_END_SECONDS_MAX: Final = 5.0
# Ports for outgoing connections: proxies need one for each client of a herd.
PORT_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class StopError(Exception):
    """The drill is to end: Ctrl-C or SIGTERM."""


class Watcher(Protocol):
    """Observer of a drill while it runs."""

    def began(self, name: str, drill: Drill) -> None: ...

    def mark(self, mark: Mark) -> None: ...

    def progress(self, progress: "Progress") -> None: ...


class AlertWatch(Protocol):
    """Alerts that fired since the watch began: name, labels, moment (monotonic)."""

    def fired(self) -> Sequence[tuple[str, dict[str, str], float]]: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a running drill: counts of the load so far, the newest looks at the nodes.

    Attributes:
        at: seconds since the load began.
        acknowledged: by region.
    """

    at: float
    acknowledged: dict[int, int]
    delivered: int
    errors: int
    samples: list[Sample]
    note: str


@dataclass(slots=True)
class _Fault:
    """A fault that lasts."""

    what: str
    end: faults.End
    ends_at: float | None


@dataclass(slots=True)
class Runner:
    """One run of one drill.

    Args:
        folder: for plans and records; empty.
        stop: called again and again; True: the drill is to end.
        alert_watch: None: alerts are not judged.
    """

    name: str
    drill: Drill
    deployment: Deployment
    folder: Path
    watcher: Watcher
    stop: Callable[[], bool]
    alert_watch: AlertWatch | None = None
    key_prefix: str = "drill"

    marks: list[Mark] = field(default_factory=list)
    _active: list[_Fault] = field(default_factory=list)
    _work: list[Future[None]] = field(default_factory=list)
    _began: float = 0.0
    _loads: list[LoadProcess] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(f"{self.key_prefix}:{at}" for at in range(1, self.drill.streams + 1))

    def run(self) -> Run:
        """Run the drill; an interruption or an error of the set-up is an aborted run.

        Raises:
            DeploymentError, ProxyError, LoadError: it could not begin.
        """
        began_at = datetime.now(UTC)
        problem = unwell = ""
        convergences: list[Convergence] = []
        with contextlib.ExitStack() as stack:
            # It ends last what began first: faults before the load, the load before the samples.
            stack.callback(self._end_loads)
            herd = stack.enter_context(self._herd())
            try:
                self._set_up_streams()
            except redis.RedisError as error:
                raise DeploymentError(f"streams cannot be set up: {error}") from error
            sampler = Sampler(self.deployment)
            stack.callback(sampler.stop)
            load = self._start_load()
            # Now, not only at the end: a herd whose proxies end would run against them.
            stack.callback(self._end_loads)
            # Twice: a step that is under way when the drill ends makes its fault all the same.
            stack.callback(self._take_all_back)
            executor = stack.enter_context(ThreadPoolExecutor(STEPS_AT_ONCE_MAX))
            stack.callback(executor.shutdown, wait=False, cancel_futures=True)
            stack.callback(self._take_all_back)
            self._began = time.monotonic() + 0.3
            self.watcher.began(self.name, self.drill)
            load.say(f"go {self._began}")
            try:
                self._conduct(executor, [load, *herd], sampler)
                convergences = self._settle(load, herd, sampler)
            except StopError:
                problem = INTERRUPTED
            except (DeploymentError, ProxyError, LoadError) as error:
                if self.stop():
                    problem = INTERRUPTED
                elif isinstance(error, UnwellError):
                    unwell = str(error)
                else:
                    problem = str(error)
        return judge(
            self.name,
            self.drill,
            self._record_files(),
            Course(
                began_at=began_at.isoformat(timespec="seconds"),
                began=self._began,
                seconds=time.monotonic() - self._began,
                marks=sorted(self.marks, key=lambda mark: mark.at),
                samples=sorted(sampler.samples, key=lambda sample: sample.at),
                links=list(self.deployment.links),
                regions=self.deployment.regions,
                convergences=convergences,
                digests={} if problem or unwell else digests(self.deployment, stop=self.stop),
                taken_over=taken_over(self.deployment),
                fired=None if self.alert_watch is None else list(self.alert_watch.fired()),
                problem=problem,
                unwell=unwell,
            ),
        )

    # --- Before ---------------------------------------------------------------------------------

    def _set_up_streams(self) -> None:
        """Make streams and groups, in every region before the load begins."""
        first = self.deployment.regions[0]
        deadline = time.monotonic() + READY_SECONDS_MAX
        with self.deployment.connect(first) as client:
            for stream in self.streams:
                for group in self.drill.groups:
                    create = ("XGROUP", "CREATE", stream, group.name, "0", "MKSTREAM")
                    for words in (create, *_mode_words(stream, group)):
                        self._give_until_taken(client, words, deadline)
        target = newest(self.deployment)
        while not have_all(self.deployment, target):
            self._check_stop()
            if time.monotonic() > deadline:
                raise DeploymentError("the regions do not become equal: see crdtstream status")
            time.sleep(TURN_SECONDS)

    def _give_until_taken(self, client: Any, words: Sequence[str], deadline: float) -> None:
        """Give a command that a region which has just started may not take yet.

        Its health page reports that; but a drill is to find out whether that page is right.
        """
        while True:
            try:
                client.execute_command(*words)
            except redis.ResponseError as error:
                if not str(error).startswith(ELSEWHERE) or time.monotonic() > deadline:
                    raise
                self._check_stop()
                time.sleep(TURN_SECONDS)
            else:
                return

    def _start_load(self) -> LoadProcess:
        plan = LoadPlan(
            places=self.deployment.places,
            access=self.deployment.access,
            streams=self.streams,
            entry_bytes=self.drill.entry_bytes,
            seconds=self.drill.seconds,
            items=tuple(item for item in self.drill.load if not isinstance(item, Herd)),
        )
        load = LoadProcess("crdtstream.drill.load", plan, self.folder, "load")
        self._loads.append(load)
        if not load.wait_for("ready", READY_SECONDS_MAX, stop=self.stop):
            self._check_stop()
            raise LoadError("the load's process does not start: this machine is too busy")
        return load

    @contextlib.contextmanager
    def _herd(self) -> Iterator[list[LoadProcess]]:
        """The drill's herds, connected; in parts, each with a toxiproxy-server of its own."""
        with contextlib.ExitStack() as stack:
            parts: list[LoadProcess] = []
            for item in self.drill.load:
                if isinstance(item, Herd):
                    _check_system(item)
                    for first in range(0, item.clients, HERD_PART_MAX):
                        clients = min(HERD_PART_MAX, item.clients - first)
                        server = stack.enter_context(own_server())
                        way = server.create(
                            f"herd-{item.region}-{first}",
                            self.deployment.nodes[item.region].resp,
                            "127.0.0.1:0",
                        )
                        self.deployment.add_client_way(item.region, way)
                        stack.callback(self.deployment.remove_client_way, item.region, way)
                        parts.append(self._herd_part(way, item, first, clients))
            for part in parts:
                if not part.wait_for("connected", HERD_SECONDS_MAX, stop=self.stop):
                    self._check_stop()
                    raise LoadError("the herd could not connect in time: ask for fewer clients")
            yield parts

    def _herd_part(self, way: Way, item: Herd, first: int, clients: int) -> LoadProcess:
        host, port = way.listen.rsplit(":", 1)
        plan = HerdPlan(
            place=Place(
                host=host,
                port=int(port),
                http_port=1,
                resp_tls=self.deployment.places[item.region].resp_tls,
            ),
            access=self.deployment.access,
            region=item.region,
            stream=self.streams[0],
            first=first,
            clients=clients,
        )
        part = LoadProcess("crdtstream.drill.load.herd", plan, self.folder, way.name)
        self._loads.append(part)
        return part

    # --- While ----------------------------------------------------------------------------------

    def _conduct(
        self, executor: ThreadPoolExecutor, loads: Sequence[LoadProcess], sampler: Sampler
    ) -> None:
        """Make steps at their times, until the load has ended and all faults have."""
        steps = sorted(enumerate(self.drill.steps, 1), key=lambda step: step[1].at)
        while True:
            self._check_stop()
            now = time.monotonic() - self._began
            while steps and steps[0][1].at <= now:
                number, step = steps.pop(0)
                self._work.append(executor.submit(self._do, number, step))
            for fault in self._over(now):
                self._work.append(executor.submit(self._take_back, fault))
            self._check_work()
            for load in loads:
                load.check()
            self._tell(now, loads, sampler, "")
            if not steps and now >= self.drill.seconds and not self._work:
                break
            time.sleep(TURN_SECONDS)
        # A fault without an end of its own ends with the load.
        self._take_all_back()
        self.deployment.wait_until_well()

    def _over(self, now: float) -> list[_Fault]:
        with self._lock:
            over = [each for each in self._active if each.ends_at is not None]
            over = [each for each in over if each.ends_at is not None and each.ends_at <= now]
            for each in over:
                self._active.remove(each)
        return over

    def _do(self, number: int, step: Step) -> None:
        what = described(step)
        if isinstance(step, Command):
            self._mark(MarkKind.NOTE, what)
            self._give(step)
            return
        self._mark(MarkKind.FAULT, what)
        end = faults.begin(step, self.deployment, f"drill-{number}")
        if isinstance(step, RollingRestart):
            self._mark(MarkKind.END, f"{what}: done")
            return
        ends_at = None if step.lasts is None else step.at + step.lasts
        with self._lock:
            self._active.append(_Fault(what, end, ends_at))

    def _give(self, step: Command) -> None:
        with self.deployment.connect(step.region) as client:
            for stream in self.streams if "{stream}" in step.words else ("",):
                words = [stream if word == "{stream}" else word for word in step.words]
                try:
                    client.execute_command(*words)
                except redis.RedisError as error:
                    if not step.may_fail:
                        raise DeploymentError(f"{' '.join(words)}: {error}") from error
                    self._mark(MarkKind.NOTE, f"{words[0]}: {error}")

    def _take_back(self, fault: _Fault) -> None:
        fault.end()
        self._mark(MarkKind.END, f"over: {fault.what}")

    def _take_all_back(self) -> None:
        """Take back every fault that lasts, the last one first; if one resists, the others still
        end."""
        with self._lock:
            active, self._active = self._active, []
        with contextlib.ExitStack() as stack:
            for fault in active:
                stack.callback(self._take_back, fault)

    def _check_work(self) -> None:
        """Forget steps that are done; the error of one that failed is the drill's."""
        done = [future for future in self._work if future.done()]
        for future in done:
            self._work.remove(future)
            future.result()

    def _mark(self, kind: MarkKind, what: str) -> None:
        mark = Mark(at=round(time.monotonic() - self._began, 2), kind=kind, what=what)
        with self._lock:
            self.marks.append(mark)
        self.watcher.mark(mark)

    def _tell(self, now: float, loads: Sequence[LoadProcess], sampler: Sampler, note: str) -> None:
        acknowledged: dict[int, int] = {}
        delivered = errors = 0
        for load in loads:
            counts = load.counts
            for region, n in counts.get("acknowledged", {}).items():
                acknowledged[int(region)] = acknowledged.get(int(region), 0) + n
            delivered += counts.get("delivered", 0)
            errors += counts.get("errors", 0)
        newest = list(sampler.newest().values())
        self.watcher.progress(Progress(now, acknowledged, delivered, errors, newest, note))

    def _check_stop(self) -> None:
        if self.stop():
            raise StopError

    # --- After ----------------------------------------------------------------------------------

    def _settle(
        self, load: LoadProcess, herd: Sequence[LoadProcess], sampler: Sampler
    ) -> list[Convergence]:
        """Wait until rows are settled, groups are idle, and regions are equal; then read it all.

        Raises:
            UnwellError: a region could not be read.
        """
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        for process in (load, *herd):
            while not process.has_said("produced") and time.monotonic() < deadline:
                self._turn([load, *herd], sampler, "rows whose outcome is open are tried again")
                process.check()
        ended = time.monotonic()
        equal = self._until_equal(load, sampler)
        seconds = None if equal is None else equal - ended
        convergences = [Convergence(after="the load's end", seconds=seconds)]
        self._until_idle([load, *herd], sampler, deadline)
        self._end_loads()
        for process in self._loads:
            # A client that broke at the last moment has not reported all that it saw.
            process.check()
        if equal is not None:
            # The last acknowledgements of consumers are on their way.
            self._until_equal(load, sampler)
        found = self.folder / "found.records"
        write_found(self.deployment, self.streams, found, check_stop=self._check_stop)
        return convergences

    def _turn(self, loads: Sequence[LoadProcess], sampler: Sampler, note: str) -> None:
        self._check_stop()
        self._tell(time.monotonic() - self._began, loads, sampler, note)
        time.sleep(TURN_SECONDS)

    def _until_equal(self, load: LoadProcess, sampler: Sampler) -> float | None:
        """Wait until every region has what any has now; return that time, or None: not in time."""
        deadline = time.monotonic() + self.drill.must_hold.converges_within_s
        target = newest(self.deployment)
        while time.monotonic() < deadline:
            if have_all(self.deployment, target):
                return time.monotonic()
            self._turn([load], sampler, "regions become equal")
        return None

    def _until_idle(self, loads: Sequence[LoadProcess], sampler: Sampler, deadline: float) -> None:
        """Wait until consumers and readers get nothing more."""
        claims = [item.claim_after_ms for item in self.drill.load if item.kind == "consumer"]
        idle_seconds = IDLE_SECONDS + max(claims, default=0) / 1e3
        count_, since = -1, time.monotonic()
        while time.monotonic() < deadline:
            delivered = loads[0].counts.get("delivered", 0)
            if delivered != count_:
                count_, since = delivered, time.monotonic()
            if time.monotonic() - since > idle_seconds:
                return
            self._turn(loads, sampler, "consumers finish")

    def _record_files(self) -> list[Path]:
        return sorted(self.folder.glob("*.records"))

    def _end_loads(self) -> None:
        """End all loads at once; those that are slow to write their records are waited for."""
        for load in self._loads:
            load.ask_to_end()
        most = INTERRUPTED_END_SECONDS_MAX if self.stop() else END_SECONDS_MAX
        deadline = time.monotonic() + most
        for load in self._loads:
            load.end(max(0.0, deadline - time.monotonic()))


def _mode_words(stream: str, group: Group) -> list[tuple[str, ...]]:
    """The command that sets the group's mode; none for the default."""
    match group.mode:
        case "home":
            return [("CRDT.XGROUP", "SETMODE", stream, group.name, "HOME", str(group.home))]
        case "partitioned":
            return [("CRDT.XGROUP", "SETMODE", stream, group.name, "PARTITIONED")]
        case _:
            return []


def _check_system(herd: Herd) -> None:
    """Check the limits: a client's proxy needs two files, and a port for its way to the region.

    Raises:
        LoadError: this system has too few.
    """
    part = min(herd.clients, HERD_PART_MAX)
    needed = max(2 * part, herd.clients) + FILES_SPARE
    if needed > (most := allow_files()):
        raise LoadError(
            f"{herd.clients} clients need {needed} open files in one process, and"
            f" {most} are allowed here: raise it (ulimit -Hn {needed}), or ask for fewer"
        )
    with contextlib.suppress(FileNotFoundError):
        first, last = map(int, PORT_RANGE.read_text().split())
        if herd.clients + FILES_SPARE > last - first:
            raise LoadError(
                f"{herd.clients} clients need as many ports for outgoing connections, and this"
                f" machine has {last - first} ({PORT_RANGE}): ask for fewer"
            )
