"""The page: figures of a region as text, without a socket."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import isnan
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from crdtstream.access.callers import Callers
from crdtstream.access.logins import Logins, one_user
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.watching import Certificates
from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.session import Session
from crdtstream.engine.engine import Engine
from crdtstream.metrics.definitions import DEFINITIONS
from crdtstream.metrics.figure_sources import ClientFigures, FigureSources
from crdtstream.metrics.figures import shown_name
from crdtstream.metrics.page import MetricsPage
from crdtstream.metrics.stalls import (
    INTERVAL_SECONDS,
    QUIET_SECONDS,
    WINDOW_NS,
    StallWatch,
    next_interval,
)
from crdtstream.region.opening import FolderState
from crdtstream.region.staleness import LagAction
from crdtstream.settings.node_settings import make_settings
from crdtstream.store.errors import StoreError
from crdtstream.store.log import MemoryLog
from tests.certificates.making import DAY, NOW, make, make_authority
from tests.certificates.node_folder import NodeFolder
from tests.harness.driven import make_region
from tests.harness.regions import Node
from tests.patience import seconds, until

CLIENTS = ClientFigures(
    connected=3,
    clients_max=10,
    blocked=1,
    connections=7,
    rejected=2,
    cut_off_unread=1,
    cut_off_newcomers=2,
    received_bytes=100,
    sent_bytes=200,
    handshakes_done=5,
    handshakes_failed=3,
    handshakes_late=1,
)


class Refusing(MemoryLog):
    """A log whose disk refuses, if it is told to."""

    refuses = False

    def _put(self, records: Sequence[Record]) -> None:
        if self.refuses:
            raise StoreError("no space left")
        super()._put(records)


class Page:
    """A region with one peer, and its page."""

    def __init__(
        self, engine: Engine, log: Refusing, page: MetricsPage, callers: Callers | None
    ) -> None:
        self.engine = engine
        self.log = log
        self.page = page
        self.callers = callers
        self.database = engine.region.database
        self.session: Session = self.database.open_session()

    def call(self, line: str) -> object:
        argv = [word.encode() for word in line.split()]
        reply = self.database.call(self.session, self.engine.now(), argv)
        self.database.settle(self.engine.now())
        self.engine.region.tick.open()
        return reply

    async def values(self) -> dict[str, float]:
        """Every sample, by its name and labels but the region."""
        text = (await self.page.text()).decode()
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = dict(sample.labels)
                assert labels.pop("region") == "1"
                shown = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
                name = f"{sample.name}{{{shown}}}" if shown else sample.name
                assert name not in found, f"told twice: {name}"
                found[name] = sample.value
        return found

    async def committed(self) -> None:
        outstanding = self.engine.region.outstanding
        await until(
            lambda: (
                not (
                    self.engine.region.tick.is_open
                    or self.engine.region.replica.has_open_record
                    or outstanding.logged_seq != outstanding.left_seq
                )
            ),
            "all is committed",
        )


@asynccontextmanager
async def serving(
    path: Path,
    *,
    names_max: int = 100,
    folder: FolderState | None = None,
    certificates: Certificates | None = None,
) -> AsyncIterator[Page]:
    region = make_region(1, (2,), clock=time.perf_counter_ns, folder=folder)
    log = Refusing()
    region.database.clock = time.perf_counter_ns
    engine = Engine(region, log)
    settings = make_settings(
        {"region": 1, "dir": str(path), "limits": {"metrics_names_max": names_max}},
        source="test",
    )
    callers = None if certificates is None else Callers(certificates, {7}.__contains__)
    parts = FigureSources(
        settings=settings,
        engine=engine,
        version="1.2.3",
        clients=lambda: CLIENTS,
        log_bytes=lambda: 4096,
        logins=Logins(one_user(""), asks=lambda: False),
        certificates=certificates,
        callers=callers,
    )
    page = MetricsPage(parts)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(engine.run())
        watching = [tasks.create_task(one.run()) for one in (page.walker, page.stalls)]
        await engine.begin()
        yield Page(engine, log, page, callers)
        for task in watching:
            task.cancel()
        log.refuses = False
        engine.stop()
        await running


async def certificates_in(path: Path) -> Certificates:
    files = NodeFolder(path)
    files.put_all(make(make_authority()))
    return await Certificates.open(files.paths, Wanted())


async def test_a_certificate_is_told_with_its_dates_and_changes(tmp_path: Path) -> None:
    certificates = await certificates_in(tmp_path)
    async with serving(tmp_path, certificates=certificates) as page:
        NodeFolder(tmp_path).put("key.pem", make(None).key_pem)
        await certificates.reload()
        values = await page.values()
    handshakes = [
        values[f"crdtstream_tls_handshakes_total{{outcome={outcome}}}"]
        for outcome in ("done", "failed", "late")
    ]
    assert handshakes == [5, 3, 1]
    about = "crdtstream_tls_certificate"
    assert values[f"{about}_not_before_timestamp_seconds"] == (NOW - DAY).timestamp()
    assert values[f"{about}_not_after_timestamp_seconds"] == (NOW + 10 * DAY).timestamp()
    assert values[f"{about}_reloads_total{{result=used}}"] == 0
    assert values[f"{about}_reloads_total{{result=refused}}"] == 1
    assert values[f"{about}_refused"] == 1
    assert values["crdtstream_peer_auth_failures_total"] == 0


async def test_callers_that_are_refused_for_their_certificate_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path, certificates=await certificates_in(tmp_path)) as page:
        assert page.callers is not None
        page.callers.failures = 3
        values = await page.values()
    assert values["crdtstream_peer_auth_failures_total"] == 3


async def test_every_definition_is_on_the_page_and_nothing_else(tmp_path: Path) -> None:
    async with serving(tmp_path, certificates=await certificates_in(tmp_path)) as page:
        page.call("XGROUP CREATE s g 0 MKSTREAM")
        page.call("XADD s * f v")
        page.call("NOSUCH")
        await page.committed()
        text = (await page.page.text()).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    defined = {one.name.removesuffix("_total"): one for one in DEFINITIONS}
    ours = {name for name in families if not name.startswith("process_")}
    assert ours == set(defined)
    for name, definition in defined.items():
        family = families[name]
        assert (family.type, family.documentation) == (definition.kind, definition.help)
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == {"region", *definition.labels}


async def test_commands_are_told_by_name_with_their_durations(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        for _ in range(5):
            page.call("XADD s * f v")
        page.call("XADD s 0-0 f v")
        page.call("XADD s")
        page.call("XGROUP CREATE s g 0")
        values = await page.values()
    about = "crdtstream_command_duration_seconds"
    assert values[f"{about}_count{{command=xadd}}"] == 6
    assert values[f"{about}_bucket{{command=xadd,le=+Inf}}"] == 6
    assert values[f"{about}_count{{command=xgroup|create}}"] == 1
    assert values["crdtstream_commands_failed_total{command=xadd}"] == 1
    assert values["crdtstream_commands_rejected_total{command=xadd}"] == 1
    assert values["crdtstream_errors_total{kind=ERR}"] == 2
    buckets = [value for name, value in values.items() if f"{about}_bucket{{command=xadd" in name]
    assert buckets == sorted(buckets)


@pytest.mark.parametrize(
    ("us", "le"),
    [(0, "2.5e-05"), (20, "2.5e-05"), (60, "0.0001"), (9_000, "0.01"), (2_000_000, "+Inf")],
)
async def test_a_duration_stands_in_the_bucket_that_holds_it(
    tmp_path: Path, us: int, le: str
) -> None:
    async with serving(tmp_path) as page:
        page.database.statistics.of(b"xadd").samples.append(us * 1000)
        values = await page.values()
    about = "crdtstream_command_duration_seconds"
    names = [name for name in values if name.startswith(f"{about}_bucket{{command=xadd,")]
    first = next(name for name in names if values[name] == 1)
    assert first == f"{about}_bucket{{command=xadd,le={le}}}"
    assert values[f"{about}_sum{{command=xadd}}"] == pytest.approx(us / 1e6)


async def test_effects_and_commits_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        page.call("XGROUP CREATE s g 0 MKSTREAM")
        for _ in range(3):
            page.call("XADD s * f v")
        await page.committed()
        values = await page.values()
    assert values["crdtstream_effects_issued_total{kind=Append}"] == 3
    assert values["crdtstream_effects_issued_total{kind=CreateGroup}"] == 1
    assert values["crdtstream_effects_issued_total{kind=Remove}"] == 0
    assert values["crdtstream_effects_applied_total{kind=Append}"] == 0
    assert values["crdtstream_version_vector{origin=1}"] == 4
    assert values["crdtstream_committed_batches_total"] == 1
    assert values["crdtstream_commit_records_sum"] == 1
    assert values["crdtstream_commit_duration_seconds_count"] == 1
    assert values["crdtstream_log_records"] == 1
    assert values["crdtstream_log_bytes"] == 4096
    # The peer has never said that it has any of it.
    assert values["crdtstream_peer_lag_effects{peer=2}"] == 4


async def test_refusals_are_told_by_reason(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        page.log.refuses = True
        page.call("XADD s * f v")
        await until(lambda: page.engine.region.fault is not None, "a fault")
        page.call("XADD s * f v")
        page.call("XADD s * f v")
        values = await page.values()
    assert values["crdtstream_writes_refused{reason=disk}"] == 1
    assert values["crdtstream_writes_refused{reason=stale}"] == 0
    assert values["crdtstream_refusals_total{reason=disk}"] == 2
    assert values["crdtstream_refusals_total{reason=stale}"] == 0
    assert values["crdtstream_refusals_total{reason=clients_max}"] == CLIENTS.rejected
    assert values["crdtstream_commit_failures_total"] >= 1


async def test_writes_that_a_stale_region_refuses_are_told_as_such(tmp_path: Path) -> None:
    async with serving(tmp_path, folder=FolderState()) as page:
        page.call("XADD s * f v")
        values = await page.values()
    assert values["crdtstream_writes_refused{reason=stale}"] == 1
    assert values["crdtstream_refusals_total{reason=stale}"] == 1
    assert values["crdtstream_refusals_total{reason=disk}"] == 0


async def test_a_state_that_is_copied_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        bootstrap = page.engine.region.bootstrap
        bootstrap.note_begun(RegionId(2), Millis(1_000))
        bootstrap.progress.bytes, bootstrap.progress.bytes_done = 1_000, 430
        waiting = await page.values()
        bootstrap.progress.rate = 95.0
        copying = await page.values()
        bootstrap.note_failed("gone", Millis(2_000))
        failed = await page.values()
    assert copying["crdtstream_bootstrap_phase{phase=copying}"] == 1
    assert copying["crdtstream_bootstrap_phase{phase=idle}"] == 0
    assert copying["crdtstream_bootstrap_size_bytes"] == 1_000
    assert copying["crdtstream_bootstrap_done_bytes"] == 430
    assert copying["crdtstream_bootstrap_bytes_per_second"] == 95
    assert copying["crdtstream_bootstrap_left_seconds"] == 6
    assert failed["crdtstream_bootstrap_phase{phase=idle}"] == 1
    assert failed["crdtstream_bootstrap_bytes_per_second"] == 0
    for unknown in (waiting, failed):
        assert isnan(unknown["crdtstream_bootstrap_left_seconds"])
    assert failed["crdtstream_bootstrap_failures_total"] == 1
    assert failed["crdtstream_bootstraps_total"] == 0


async def test_replication_lag_and_its_bounds_are_in_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        staleness = page.engine.region.staleness
        staleness.tune(lag_effects_max=2, lag_ms_max=5_000, action=LagAction.REFUSE)
        began = time.time()
        for _ in range(3):
            page.call("XADD s * f v")
        page.call("MULTI")
        page.call("XADD s * f v")
        page.call("EXEC")
        await until(lambda: staleness.obstacle is not None, "it is stale")
        values = await page.values()
    about = "crdtstream_replication_lag"
    assert values[f"{about}_effects"] == 2
    # The bound has been reached for a moment, and no peer has spoken.
    assert 0.1 < values[f"{about}_seconds"] < time.time() - began + 0.01
    assert values[f"{about}_bound_effects"] == 2
    assert values[f"{about}_bound_seconds"] == 5
    assert labelled_one(values, f"{about}_action") == "action=refuse"
    assert labelled_one(values, f"{about}_state") == "state=exceeded"
    assert values[f"{about}_exceeded_total"] == 1
    assert values["crdtstream_refusals_total{reason=lagged}"] == 2, "the transaction, too"
    assert labelled_one(values, "crdtstream_writes_refused") == "reason=lagged"


async def test_throttled_writes_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        staleness = page.engine.region.staleness
        staleness.tune(lag_effects_max=1, action=LagAction.THROTTLE)
        page.call("XADD s * f v")
        for _ in range(2):
            assert not staleness.admits(page.session.id, 1, page.engine.now())
        values = await page.values()
    assert values["crdtstream_writes_throttled_total"] == 1
    assert values["crdtstream_clients_throttled"] == 1
    assert labelled_one(values, "crdtstream_replication_lag_action") == "action=throttle"


async def test_without_bounds_the_lag_is_told_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        page.call("XADD s * f v")
        await page.committed()
        values = await page.values()
    assert values["crdtstream_replication_lag_effects"] == 1
    assert values["crdtstream_replication_lag_bound_effects"] == 0
    assert labelled_one(values, "crdtstream_replication_lag_state") == "state=off"


def labelled_one(values: dict[str, float], name: str) -> str:
    """The labels of the only series of a metric that is 1, the others being 0."""
    (found,) = [
        series.removeprefix(name)[1:-1]
        for series, value in values.items()
        if series.startswith(f"{name}{{") and value
    ]
    return found


async def test_effects_of_peers_are_told_as_applied(tmp_path: Path) -> None:
    peer = Node(2)
    peer.run("XADD s 1-1 f v", "XADD s 1-2 f v", "XDEL s 1-1")
    async with serving(tmp_path) as page:
        for record in peer.log:
            assert record.batch is not None
            batch = decode_batch(record.batch)
            page.engine.region.replica.receive(batch, record.batch, Millis(5))
        values = await page.values()
    assert values["crdtstream_effects_applied_total{kind=Append}"] == 2
    assert values["crdtstream_effects_applied_total{kind=Remove}"] == 1
    assert values["crdtstream_effects_issued_total{kind=Append}"] == 0


async def test_a_peer_that_was_never_heard_lags_since_the_start(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        values = await page.values()
    # The region began at the millisecond 1000 of the epoch.
    assert values["crdtstream_link_lag_seconds{peer=2}"] > 1e9
    assert values["crdtstream_link_silence_seconds{peer=2}"] > 1e9
    assert values["crdtstream_link_up{peer=2}"] == 0
    assert values["crdtstream_peers_heard"] == 0


async def test_a_metric_of_many_samples_has_one_heading(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        for number in range(300):
            page.call(f"XADD s{number} * f v")
        text = ""
        # A page does not wait for long until the streams were walked.
        async with asyncio.timeout(seconds()):
            while "crdtstream_stream_entries" not in text:
                text = (await page.page.text()).decode()
    assert text.count("# TYPE crdtstream_stream_entries ") == 1
    assert text.count("\ncrdtstream_stream_entries{") == 100


async def test_clients_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        values = await page.values()
    assert values["crdtstream_clients"] == 3
    assert values["crdtstream_clients_blocked"] == 1
    assert values["crdtstream_client_sent_bytes_total"] == 200


async def test_streams_and_groups_are_named_up_to_the_bound(tmp_path: Path) -> None:
    async with serving(tmp_path, names_max=2) as page:
        for number in (1, 2, 3):
            page.call(f"XGROUP CREATE s{number} g 0 MKSTREAM")
            for _ in range(number):
                page.call(f"XADD s{number} * f v")
        values = await page.values()
    named = {name: value for name, value in values.items() if "_stream_entries" in name}
    assert named == {
        "crdtstream_stream_entries{key=s3}": 3,
        "crdtstream_stream_entries{key=s2}": 2,
    }
    assert values["crdtstream_group_lag_entries{group=g,key=s3}"] == 3
    assert values["crdtstream_entries"] == 6
    assert values["crdtstream_groups_lag_entries"] == 6


async def test_scrapes_that_come_at_once_share_a_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        first, second = await asyncio.gather(page.page.text(), page.page.text())
    assert first is second


async def test_others_have_their_turn_while_a_page_is_written(tmp_path: Path) -> None:
    """By the processor's time, so a page that blocked on a disk would go unseen."""
    async with serving(tmp_path) as page:
        for number in range(2_000):
            page.database.statistics.of(b"command-%d" % number).samples.append(1)
        # Of the processor: what other processes take meanwhile is nobody's turn.
        began = last = time.thread_time()
        longest = 0.0
        scrape = asyncio.create_task(page.page.text())
        while not scrape.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now
        size = len(scrape.result())
    # 30,000 samples take some hundred milliseconds; a slice, one.
    assert size > 2_000_000
    assert longest < (last - began) / 3


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"orders", "orders"),
        ("größe".encode(), "größe"),
        (b"\xff\x00", "\\xff\x00"),
        (b"\\xff", "\\\\xff"),
        (b"", ""),
    ],
)
def test_names_are_shown_as_text(name: bytes, shown: str) -> None:
    assert shown_name(name) == shown


def test_long_names_stay_apart() -> None:
    long, other = b"k" * 500, b"k" * 501
    assert len(shown_name(long)) < 200
    assert shown_name(long) != shown_name(other)


async def test_a_name_of_any_bytes_makes_a_page_that_can_be_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        for key in (b'quo"te', b"new\nline", b"back\\slash", b"\xff\xfe"):
            page.database.call(page.session, Millis(5), [b"XADD", key, b"*", b"f", b"v"])
        values = await page.values()
    assert values['crdtstream_stream_entries{key=quo"te}'] == 1
    assert values["crdtstream_stream_entries{key=new\nline}"] == 1


def test_the_longest_stall_is_forgotten_after_a_while() -> None:
    now = [0]
    watch = StallWatch(lambda: now[0])
    for late_ms in (1, 250, 3):
        watch.note(late_ms * 1_000_000)
    watch.note(-5)
    assert watch.longest_us == 250_000
    assert watch.stall_us.count == 4
    now[0] += WINDOW_NS
    assert watch.longest_us == 250_000
    now[0] += WINDOW_NS
    assert watch.longest_us == 0


async def test_a_stall_of_the_loop_is_noticed() -> None:
    watch = StallWatch()
    task = asyncio.create_task(watch.run())
    await until(lambda: watch.stall_us.count, "a first look")
    time.sleep(0.15)
    before = watch.stall_us.count
    await until(lambda: watch.stall_us.count != before, "another look")
    task.cancel()
    assert watch.longest_us >= 100_000


def test_stalls_are_looked_for_less_often_while_nothing_happens() -> None:
    intervals = [INTERVAL_SECONDS]
    for _ in range(7):
        intervals.append(next_interval(intervals[-1], worked_ns=100_000, late_ns=200_000))
    assert intervals == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 0.64, 0.64]
    assert next_interval(QUIET_SECONDS, worked_ns=20_000_000, late_ns=0) == INTERVAL_SECONDS
    assert next_interval(QUIET_SECONDS, worked_ns=0, late_ns=30_000_000) == INTERVAL_SECONDS


async def test_the_series_of_a_removed_peer_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        before = {name for name in await page.values() if "peer=2" in name}
        page.engine.region.changing_peers.change(page.engine.now(), {}, gone=[RegionId(2)])
        after = await page.values()
    assert any("log_kept" in name for name in before)
    assert any("link_" in name for name in before)
    assert [name for name in after if "peer=2" in name] == []
