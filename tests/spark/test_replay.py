"""An archive back into streams: whole, in order, each entry once, no faster than told."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from crdtstream.spark.jobs import pace as pace_module
from crdtstream.spark.jobs import replay as replay_module
from crdtstream.spark.jobs.archive import ArchiveOptions, archive
from crdtstream.spark.jobs.archive_layout import FILE_SCHEMA
from crdtstream.spark.jobs.archive_state import State, commit, load
from crdtstream.spark.jobs.folder import LocalFolder
from crdtstream.spark.jobs.pace import LATE_SECONDS_MAX, Pace, Pacing, slices
from crdtstream.spark.jobs.publishing import Merging, publish, write_segment
from crdtstream.spark.jobs.replay import ArchiveError, ReplayError, ReplayOptions, replay
from crdtstream.spark.options import NodesOptions, Security
from crdtstream.spark.vectors import Vector
from tests.live.cluster import Cluster
from tests.patience import LONG, wait_until
from tests.spark.archiving import Replaying
from tests.spark.conftest import nodes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MERGED = Merging(file_bytes=64 << 20, small_files_max=1)
UNMERGED = Merging(file_bytes=64 << 20, small_files_max=1_000)

Row = tuple[Any, ...]


def row(
    dot: int,
    fields: dict[str, str],
    *,
    key: bytes = b"s",
    ms: int | None = None,
    seq: int = 1,
    origin: int = 1,
    **others: Any,
) -> Row:
    """An archived entry; IDs ascend with dots, a second apart, unless told otherwise."""
    ms = 1_000 * dot if ms is None else ms
    return (
        key,
        f"{ms}-{seq}",
        None,
        ms if ms < 2**63 else None,
        Decimal(seq),
        origin,
        dot,
        fields,
        others.get("raw"),
        others.get("producer"),
        others.get("idempotent_id"),
    )


def archived(
    spark: "SparkSession", path: Path, rows: Sequence[Row], merging: Merging = UNMERGED
) -> None:
    """Make an archive of some entries, or add them to it."""
    folder = LocalFolder(path)
    state = load(folder) or State()
    segment = write_segment(folder, spark.createDataFrame(rows, FILE_SCHEMA))
    assert segment is not None
    vector = Vector(state.vector)
    for _, _, _, _, _, origin, dot, *_ in rows:
        vector[origin] = max(vector.get(origin, 0), dot)
    state = commit(folder, replace(state, segments=(segment,), vector=vector))
    publish(spark, folder, state, merging)


@pytest.fixture(scope="module")
def small(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of one entry that nothing changes."""
    path = tmp_path_factory.mktemp("small")
    archived(spark, path, [row(1, {"n": "1"})])
    return path


def options_of(cluster: Cluster, path: Path, **given: Any) -> ReplayOptions:
    addresses = tuple(node.grpc_address for node in cluster.nodes.values())
    nodes = NodesOptions(addresses, Security(), failover_seconds=20.0)
    return ReplayOptions(nodes=nodes, path=str(path), **given)


def numbers(cluster: Cluster, stream: bytes, region: int = 1) -> list[int]:
    return [int(fields[b"n"]) for _, fields in cluster[region].client.xrange(stream)]


def in_small_chunks(monkeypatch: pytest.MonkeyPatch, entries: int = 10) -> None:
    monkeypatch.setattr(replay_module, "CHUNK_ENTRIES", entries)


class Killed(BaseException):
    """The end of a program before its next step."""


# --- What comes back ----------------------------------------------------------------------------


def test_streams_come_back_as_they_were(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    """Written in three regions, archived, and replayed under other names: the same, in order."""
    chance = random.Random(4711)
    streams = [b"back:a", b"back/\xff:b"]
    for number in range(300):
        client = shared_regions[chance.randrange(1, 4)].client
        name = b"text" if chance.random() < 0.8 else b"\xfe"
        command = ["XADD", chance.choice(streams), "*", b"n", number, name, chance.randbytes(3)]
        client.execute_command(*command, *([b"n", b"again"] if number % 10 == 0 else []))
    shared_regions.converge()
    nodes = options_of(shared_regions, tmp_path).nodes
    archive(spark, ArchiveOptions(nodes, str(tmp_path), streams=(b"back*",)))

    outcome = replay(spark, options_of(shared_regions, tmp_path, prefix=b"new:"))

    assert (outcome.entries, outcome.entries_known, outcome.entries_total) == (300, 0, 300)
    shared_regions.converge()
    for stream in streams:
        was = raw_fields(shared_regions, stream)
        assert len(was) > 100
        assert raw_fields(shared_regions, b"new:" + stream) == was


def raw_fields(cluster: Cluster, stream: bytes) -> list[list[bytes]]:
    """Fields and values in turn, of each entry, as a client that makes no dict of them."""
    client = cluster[2].client
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command("XRANGE", stream, "-", "+")
        reply: list[tuple[bytes, list[bytes]]] = connection.read_response()
        return [fields for _, fields in reply]
    finally:
        client.connection_pool.release(connection)


def test_a_replay_can_select_its_entries(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    rows = [
        row(n, {"n": str(n), "to": "LAX" if n % 2 else "SFO"}, key=b"f:%d" % (n % 3))
        for n in range(60)
    ]
    archived(spark, tmp_path, rows)

    def replayed(name: str, **given: Any) -> list[int]:
        given = {"target": f"chosen:{name}".encode()} | given
        replay(spark, options_of(shared_regions, tmp_path, **given))
        return numbers(shared_regions, f"chosen:{name}".encode())

    assert replayed("all") == list(range(60))
    assert replayed("time", start_ms=10_000, end_ms=20_000) == list(range(10, 20))
    assert replayed("stream", streams=(b"f:1",)) == list(range(1, 60, 3))
    assert replayed("pattern", streams=(b"f:[01]",)) == [n for n in range(60) if n % 3 < 2]
    assert replayed("where", where="fields['to'] = 'LAX' AND ms < 9000") == [1, 3, 5, 7]
    assert replayed("none", where="false") == []
    replay(spark, options_of(shared_regions, tmp_path, prefix=b"chosen:own:", end_ms=9_000))
    assert numbers(shared_regions, b"chosen:own:f:2") == [2, 5, 8]


def test_the_old_id_can_be_kept(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    raw = b"*4\r\n$1\r\na\r\n$1\r\n\xff\r\n$1\r\na\r\n$1\r\n2\r\n"
    rows = [row(1, {"n": "1"}), row(2, {"a": "2"}, raw=raw)]
    archived(spark, tmp_path, rows)

    replay(spark, options_of(shared_regions, tmp_path, target=b"kept", id_field="was"))

    shared_regions.converge()
    assert raw_fields(shared_regions, b"kept") == [
        [b"n", b"1", b"was", b"1000-1"],
        [b"a", b"\xff", b"a", b"2", b"was", b"2000-1"],
    ]


def test_entries_come_in_the_order_of_their_ids(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files play no part; the largest IDs, which no LONG holds, come last."""
    in_small_chunks(monkeypatch)
    times = [2**64 - 1, 2**63, *range(7, 5_000, 131), 86_400_000 * 3, 0]
    rows = [
        row(dot, {"n": str(dot)}, ms=ms, seq=seq, origin=1 + dot % 2)
        for dot, (ms, seq) in enumerate((ms, seq) for ms in times for seq in (2**64 - 1, 10, 9))
    ]
    random.Random(4711).shuffle(rows)
    for part in range(3):
        archived(spark, tmp_path, rows[part::3])
    by_id = sorted(rows, key=lambda one: tuple(map(int, one[1].split("-"))))

    ways: dict[bytes, dict[str, Any]] = {b"order:1": {"rate": 1e6}, b"order:2": {"partitions": 2}}
    for name, given in ways.items():
        outcome = replay(spark, options_of(shared_regions, tmp_path, target=name, **given))
        assert outcome.chunks_total > 5
        assert numbers(shared_regions, name) == [one[6] for one in by_id]


def test_a_message_that_stands_in_two_regions_is_replayed_once(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_chunks(monkeypatch)
    named: dict[str, Any] = {"producer": "p", "idempotent_id": "1"}
    rows = [row(n, {"n": str(n)}) for n in range(2, 50)]
    rows += [row(1, {"n": "1"}, **named), row(1, {"n": "1"}, origin=2, ms=90_000, **named)]
    archived(spark, tmp_path, rows)

    replay(spark, options_of(shared_regions, tmp_path, target=b"once"))
    replay(spark, options_of(shared_regions, tmp_path, target=b"twice", each_message_once=False))

    assert numbers(shared_regions, b"once") == list(range(1, 50))
    assert numbers(shared_regions, b"twice") == [*range(1, 50), 1]


# --- Run again ----------------------------------------------------------------------------------


def test_a_replay_that_is_done_adds_nothing(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    """Also if the archive has more by then; under another name it is another replay."""
    archived(spark, tmp_path, [row(n, {"n": str(n)}) for n in range(10)])
    options = options_of(shared_regions, tmp_path, target=b"done")
    first = replay(spark, options)
    archived(spark, tmp_path, [row(n, {"n": str(n)}) for n in range(10, 15)])

    again = replay(spark, options)
    assert (again.entries, again.entries_total, again.chunks) == (0, 10, 0)
    assert again.replay_id == first.replay_id
    assert numbers(shared_regions, b"done") == list(range(10))

    replay(spark, replace(options, replay_id="second"))
    assert numbers(shared_regions, b"done") == [*range(10), *range(15)]


@pytest.mark.parametrize("paced", [{}, {"rate": 1e6}], ids=["fast", "paced"])
def test_killed_in_any_chunk_it_goes_on_there(
    spark: "SparkSession",
    shared_regions: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    paced: dict[str, Any],
) -> None:
    """Killed between appending and noting it, while the archive grows, and is merged, below."""
    in_small_chunks(monkeypatch)
    name = b"chunks:" + (b"paced" if paced else b"fast")
    archived(spark, tmp_path, [row(2 * n, {"n": str(n)}) for n in range(50)])
    options = options_of(shared_regions, tmp_path, target=name, **paced)
    note = replay_module._Replay._note_done

    def killed_before_noting(self: Any, chunk: int, done: Any) -> None:
        if chunk == to_die_in:
            raise Killed
        note(self, chunk, done)

    monkeypatch.setattr(replay_module._Replay, "_note_done", killed_before_noting)
    for to_die_in in (0, 2):
        with pytest.raises(Killed):
            replay(spark, options)
        # Late ones, with IDs in between.
        late = [row(1_000 + n, {"n": "-1"}, ms=3_000 * n) for n in range(to_die_in, to_die_in + 2)]
        archived(spark, tmp_path, late, MERGED)
    to_die_in = -1
    there = len(numbers(shared_regions, name))
    assert 0 < there < 50

    outcome = replay(spark, options)

    assert (outcome.chunks, outcome.chunks_total) == (3, 5)
    assert outcome.entries == 50 - there
    assert outcome.entries_known > 0
    assert numbers(shared_regions, name) == list(range(50))


def test_files_that_are_merged_meanwhile_are_looked_for_again(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived(spark, tmp_path, [row(n, {"n": str(n)}) for n in range(10)])
    archived(spark, tmp_path, [row(n, {"n": str(n)}) for n in range(10, 20)])
    append = replay_module._Replay._append_once
    attempts: list[int] = []

    def merged_before_appending(self: Any, *given: Any) -> Any:
        if not attempts:
            folder = LocalFolder(tmp_path)
            state = load(folder)
            assert state is not None
            publish(spark, folder, state, MERGED, everywhere=True)
        attempts.append(1)
        return append(self, *given)

    monkeypatch.setattr(replay_module._Replay, "_append_once", merged_before_appending)

    replay(spark, options_of(shared_regions, tmp_path, target=b"merged"))

    assert len(attempts) == 2
    assert numbers(shared_regions, b"merged") == list(range(20))


@pytest.mark.parametrize(
    ("entries", "shares"),
    [(600, [0.3]), pytest.param(1_500, [0.2, 0.6], marks=pytest.mark.soak)],
    ids=["once", "twice"],
)
def test_a_program_killed_at_random_moments_replays_each_entry_once(
    spark: "SparkSession", regions: Cluster, tmp_path: Path, entries: int, shares: list[float]
) -> None:
    path = tmp_path / "archive"
    archived(spark, path, [row(n, {"n": str(n)}, key=b"k:%d" % (n % 5)) for n in range(entries)])
    chance = random.Random(4711)
    replaying = Replaying(
        tmp_path / "log", nodes=nodes_of(regions), path=str(path), target="killed", rate="500"
    )
    client = regions[1].client
    try:
        for share in shares:
            replaying.start()
            upto = entries * (share + 0.2 * chance.random())
            _wait(replaying, lambda: client.xlen(b"killed") >= upto)  # noqa: B023 - called at once
            replaying.kill()
        replaying.start()
        _wait(replaying, lambda: False)
    finally:
        if replaying.status() is None:
            replaying.kill()

    assert replaying.status() == 0, replaying.log()
    regions.converge()
    for region in regions.nodes:
        assert numbers(regions, b"killed", region) == list(range(entries))


def _wait(program: Replaying, condition: Callable[[], object]) -> None:
    try:
        wait_until(lambda: condition() or program.status() is not None, "it came so far", base=LONG)
    except AssertionError as error:
        error.add_note(program.log())
        raise


# --- How fast -----------------------------------------------------------------------------------


def test_it_is_never_faster_than_its_rate(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_chunks(monkeypatch, 50)
    archived(spark, tmp_path, [row(n, {"n": str(n)}) for n in range(200)])

    replay(spark, options_of(shared_regions, tmp_path, target=b"rate", rate=100.0))

    assert numbers(shared_regions, b"rate") == list(range(200))
    # Rows due within a tenth of a second go together, hence so much earlier.
    assert_not_faster(shared_regions, b"rate", lambda n: n / 100 - 0.1)


def test_times_between_entries_are_kept(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    times = [0, 10, 5_000, 5_010, 60_000, 100_000]
    archived(spark, tmp_path, [row(n, {"n": str(n)}, ms=ms) for n, ms in enumerate(times)])

    replay(spark, options_of(shared_regions, tmp_path, target=b"times", speedup=50.0))

    assert numbers(shared_regions, b"times") == list(range(6))
    assert_not_faster(shared_regions, b"times", lambda n: times[n] / 50_000 - 0.1)


def assert_not_faster(cluster: Cluster, stream: bytes, due_seconds: Callable[[int], float]) -> None:
    ids = [entry_id for entry_id, _ in cluster[1].client.xrange(stream)]
    ms = [int(entry_id.split(b"-")[0]) for entry_id in ids]
    early = {
        n: (at - ms[0], due_seconds(n))
        for n, at in enumerate(ms)
        if (at - ms[0]) / 1_000 < due_seconds(n) - 0.002
    }
    assert early == {}


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(pace_module, "time", clock)
    return clock


def test_rows_are_cut_by_when_they_are_due() -> None:
    ms = pa.array([0, 50, 99, 100, 150, 1_000, None], pa.int64())
    by_time = Pace(Pacing(1_000, by_time=True), (0.0, 0.0), 0).started()
    assert [part[:2] for part in slices(ms, by_time)] == [(0, 3), (3, 5), (5, 6), (6, 7)]

    by_row = Pace(Pacing(20, by_time=False), (0.0, 0.0), 100).started()
    assert list(slices(ms, by_row)) == [(0, 2, 100), (2, 4, 102), (4, 6, 104), (6, 7, 106)]
    assert next(iter(slices(ms, by_row))).value == 107

    again = Pace(Pacing(20, by_time=False), None, 0).started()
    parts = slices(pa.array(range(60), pa.int64()), again)
    assert next(parts) == (0, 2, 0)
    again.note(0, is_new=False)
    assert next(parts) == (2, 22, 2)
    again.note(2, is_new=True)
    assert next(parts) == (22, 24, 22)

    assert list(slices(ms, Pace(None, None, 0).started())) == [(0, 7, 0.0)]
    assert list(slices(pa.array([], pa.int64()), by_row)) == []


def test_pacing_begins_with_the_first_new_entry(moments: Time) -> None:
    clock = Pace(Pacing(10, by_time=False), None, 0).started()
    assert not clock.is_running
    clock.wait(500)
    assert moments.now == 1_000
    clock.note(490, is_new=False)
    clock.note(500, is_new=True)
    clock.wait(510)
    assert moments.now == 1_001
    assert clock.anchor == (1_000, 500)


def test_a_rate_does_not_make_up_for_a_long_stop(moments: Time) -> None:
    by_row = Pace(Pacing(10, by_time=False), (1_000.0, 0.0), 0).started()
    by_time = Pace(Pacing(1_000, by_time=True), (1_000.0, 0.0), 0).started()
    moments.now += 100
    by_row.wait(10)
    by_row.wait(10 + 10 * LATE_SECONDS_MAX)
    assert moments.now == 1_100
    by_row.wait(20 + 10 * LATE_SECONDS_MAX)
    assert moments.now == 1_101
    # Original times are kept up with.
    by_time.wait(50_000)
    assert moments.now == 1_101
    by_time.wait(102_000)
    assert moments.now == 1_102


# --- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rate": 1.0, "speedup": 1.0}, "a rate or a speedup"),
        ({"rate": 0.0}, "rate must be above 0"),
        ({"speedup": float("nan")}, "speedup must be above 0"),
        ({"target": b"a", "prefix": b"b"}, "a target or a prefix"),
        ({"replay_id": "../x"}, "replay_id: letters"),
        ({"where": "nonsense ("}, "where: "),
        ({"where": "no_such_column = 1"}, "where: .*no_such_column"),
        ({"where": "rand() < 0.5"}, "same of an entry each time"),
    ],
)
def test_options_that_cannot_be_meant(
    spark: "SparkSession",
    shared_regions: Cluster,
    small: Path,
    given: dict[str, Any],
    told: str,
) -> None:
    with pytest.raises(ReplayError, match=told):
        replay(spark, options_of(shared_regions, small, **given))


def test_without_an_archive_nothing_is_begun(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveError, match="no archive"):
        replay(spark, options_of(shared_regions, tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_name_stands_for_one_replay(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    archived(spark, tmp_path, [row(1, {"n": "1"})])
    replay(spark, options_of(shared_regions, tmp_path, target=b"name", replay_id="one"))
    with pytest.raises(ReplayError, match="replay 'one' was begun with other end_ms, target"):
        replay(
            spark,
            options_of(shared_regions, tmp_path, target=b"other", end_ms=5, replay_id="one"),
        )


def test_two_programs_with_one_replay_add_nothing_twice(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_chunks(monkeypatch)
    archived(spark, tmp_path, [row(n, {"n": str(n)}) for n in range(30)])
    options = options_of(shared_regions, tmp_path, target=b"two", replay_id="two")
    append = replay_module._Replay._append_once
    others: list[object] = []

    def another_one_first(self: Any, *given: Any) -> Any:
        if not others:
            others.append("runs")
            others.append(replay(spark, options))
        return append(self, *given)

    monkeypatch.setattr(replay_module._Replay, "_append_once", another_one_first)

    with pytest.raises(ReplayError, match="another program"):
        replay(spark, options)
    assert Counter(numbers(shared_regions, b"two")) == Counter(range(30))


def test_a_copy_of_the_published_files_alone_is_an_archive(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    archived(spark, tmp_path / "a", [row(n, {"n": str(n)}) for n in range(10)])
    (tmp_path / "a" / "stream=s").rename(tmp_path / "stream=s")

    replay(spark, options_of(shared_regions, tmp_path, target=b"copied"))

    assert numbers(shared_regions, b"copied") == list(range(10))
    plan = json.loads(next((tmp_path / "_archive" / "replays").glob("*/plan.json")).read_text())
    assert plan["vector"] == {"1": 9}
