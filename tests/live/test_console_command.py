"""``crdtstream console``: the address of each region's console, and a browser that opens one."""

from pathlib import Path

import pytest

from tests.live.cluster import Cluster
from tests.live.forked import completed


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a browser of ours writes what it opens."""
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{program} %s")
    return opened


def console(cluster: Cluster, *words: str) -> list[str]:
    """The lines that the command prints."""
    address = cluster[2].grpc_address
    done = completed(["crdtstream", "console", "--address", address, *words])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def urls_of(cluster: Cluster) -> list[str]:
    return [f"http://127.0.0.1:{node.http_port}/" for node in cluster.nodes.values()]


def test_all_addresses_are_printed_and_the_first_is_opened(
    two_regions: Cluster, browser: Path
) -> None:
    assert console(two_regions) == urls_of(two_regions)
    assert browser.read_text().split() == urls_of(two_regions)[:1]


def test_nothing_is_opened_without_a_display_or_on_request(
    two_regions: Cluster, browser: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert console(two_regions, "--print") == urls_of(two_regions)
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert console(two_regions) == urls_of(two_regions)
    assert not browser.exists()


def test_no_region_is_told_as_by_other_commands(two_regions: Cluster) -> None:
    address = two_regions[1].grpc_address
    two_regions.end()
    done = completed(["crdtstream", "console", "--address", address])
    assert done.returncode == 1
    assert address in done.stderr
