"""A Spark session on this machine, and regions to read and write with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crdtstream.spark.java import SparkMissingError, find_java
from crdtstream.spark.session import JAVA_OPTIONS, check_pyspark, make_session
from tests.conftest import require
from tests.live.cluster import Cluster, running_regions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
# Java starts, then Python workers; the first query alone takes about 15 s.
SECONDS_MAX = 300
# A few small tests at a time on a small machine.
TEST_MASTER = "local[2]"
# Tests are too short for what Java's second compiler would make of them: half the time without.
# Spark's classes need no proof that they are well formed in each process.
_QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
QUICK_JAVA = f"{JAVA_OPTIONS} {_QUICK}"
# For programs that make a session without our options; Java says on stderr that it heeds it.
QUICK_ENVIRONMENT = {"JDK_JAVA_OPTIONS": _QUICK}
TEST_CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "2",
}
# Planning a query again after each stage is a quarter of what one over some hundred rows costs.
# Programs that tests start leave it on, and run every job.
SESSION_CONF = TEST_CONF | {"spark.sql.adaptive.enabled": "false"}


# Of these files the tests that want Spark are for `make test-long` and CI, but for those named.
LONG_FILES: dict[str, frozenset[str]] = {
    "test_archive.py": frozenset(),
    "test_archive_damage.py": frozenset(),
    "test_archive_files.py": frozenset(),
    "test_archive_publishing.py": frozenset(),
    "test_audit.py": frozenset(),
    "test_closed.py": frozenset({"test_a_user_reads_the_streams_that_it_may_read"}),
    "test_cluster.py": frozenset(),
    "test_databases.py": frozenset(),
    "test_failures.py": frozenset(),
    "test_flights.py": frozenset(),
    "test_kills.py": frozenset(),
    "test_lost_folder.py": frozenset(),
    "test_other_readers.py": frozenset(),
    "test_read_back.py": frozenset(),
    "test_replay.py": frozenset(),
    "test_report.py": frozenset(),
    "test_sink.py": frozenset(
        {
            "test_a_query_goes_on_from_its_checkpoint",
            "test_impossible_requests_are_refused",
        }
    ),
    "test_stream_source.py": frozenset({"test_a_late_entry_with_a_low_id_is_not_skipped"}),
    "test_walkthrough.py": frozenset(),
}
# Programs that start a Java of their own.
LONG_TESTS = frozenset(
    {
        "test_audit_of_equal_regions_ends_well",
        "test_job_as_a_program",
        "test_report_is_written",
        "test_spark_submit_decides_before_us",
        "test_start_is_quiet",
        "test_stream_goes_to_an_archive_and_back",
        "test_the_format_is_found_without_registration",
        "test_copies_of_a_task_run_at_once_in_several_regions",
        "test_the_region_that_is_read_may_be_killed",
    }
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE not in item.path.parents:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS_MAX))
        assert isinstance(item, pytest.Function)
        stay = LONG_FILES.get(item.path.name)
        wants_spark = "spark" in item.fixturenames or item.get_closest_marker("live") is not None
        is_drill = stay is not None and wants_spark and item.originalname not in stay
        if is_drill or item.originalname in LONG_TESTS:
            item.add_marker(pytest.mark.long)


def require_spark() -> None:
    """Skips the test, or fails it where all is required, if Spark cannot run here."""
    try:
        check_pyspark()
        find_java()
    except SparkMissingError as error:
        require(False, str(error))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One session for all tests of a run; starting one takes long."""
    require_spark()
    session = make_session("crdtstream-tests", master=TEST_MASTER, conf=SESSION_CONF)
    yield session
    session.stop()


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[Cluster]:
    """Three regions of this test's own.

    ``regions[1].client`` is a redis client of region 1, ``regions[1].grpc_address`` its address;
    ``nodes_of(regions)`` is what the option `nodes` takes.
    """
    with running_regions(3, tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared_regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three regions that the tests of a module share: each takes streams of its own."""
    with running_regions(3, tmp_path_factory.mktemp("regions")) as cluster:
        yield cluster


def nodes_of(cluster: Cluster) -> str:
    """All regions' addresses, for the option `nodes`."""
    return ",".join(node.grpc_address for node in cluster.nodes.values())
