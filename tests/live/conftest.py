"""Clusters of real processes, and proxies between them."""

import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import pytest
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer

from tests.conftest import free_base_port, program
from tests.live.cluster import Cluster, running_regions
from tests.patience import wait_until

TOLD_MAX: Final = 5_000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a test that failed what its nodes logged last."""
    report = yield
    clusters = [one for one in item.funcargs.values() if isinstance(one, Cluster)]
    for node in clusters[0].nodes.values() if report.failed and clusters else ():
        text = node.log.read_text()[-TOLD_MAX:]
        report.sections.append((f"log of region {node.region}", text))
    return report


@pytest.fixture
def two_regions(tmp_path: Path) -> Iterator[Cluster]:
    """Two regions, running."""
    with running_regions(2, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def three_regions(tmp_path: Path) -> Iterator[Cluster]:
    """Three regions, running."""
    with running_regions(3, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def cluster(three_regions: Cluster) -> Cluster:
    """The three regions, where a file has no other cluster."""
    return three_regions


@pytest.fixture(scope="module")
def regions_left_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three regions for those tests of a file that end none, and have keys of their own."""
    with running_regions(3, tmp_path_factory.mktemp("regions")) as cluster:
        yield cluster


@contextmanager
def toxiproxy_running() -> Iterator[Toxiproxy]:
    """A toxiproxy-server of its own, which toxiproxy-python asks inside the block.

    The library keeps the address in a class, so of two servers only the inner one is asked.
    """
    path = program("toxiproxy-server")
    port = free_base_port(1)
    with (
        TemporaryFile("w+") as told,
        subprocess.Popen(
            [path, "-host", "127.0.0.1", "-port", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=told,
        ) as process,
    ):
        outer = APIConsumer.host, APIConsumer.port
        APIConsumer.host, APIConsumer.port = "127.0.0.1", port
        try:
            server = Toxiproxy()
            wait_until(server.running, "toxiproxy-server listens")
            yield server
        finally:
            APIConsumer.host, APIConsumer.port = outer
            if process.poll() is not None:
                # Shown with the tests that could not reach it.
                told.seek(0)
                print(f"toxiproxy-server ended with {process.returncode}:", told.read()[-TOLD_MAX:])
            process.kill()


@pytest.fixture(scope="module")
def toxiproxy_server() -> Iterator[Toxiproxy]:
    """A toxiproxy-server of this file's own: the end of one is no other file's."""
    with toxiproxy_running() as server:
        yield server


@pytest.fixture
def toxiproxy(toxiproxy_server: Toxiproxy) -> Iterator[Toxiproxy]:
    """The server, without any proxies before and after."""
    yield toxiproxy_server
    toxiproxy_server.destroy_all()
