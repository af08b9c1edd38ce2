"""go-redis, with tests of its own in Go, see tests/clients/go.

Its releases up to 9.18 end in an error at a field of XINFO that they do not know.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.secured import Secured
from tests.conftest import program
from tests.patience import seconds
from tests.resp.node import Node


def compiled() -> Path:
    """The tests, compiled by ``make tools``."""
    return program("go-redis-tests", hint="run `make tools` (wants Go)")


def run_tests(environ: Mapping[str, str]) -> str:
    """Run them all; their report is the message of a failure."""
    done = subprocess.run(
        [compiled(), "-test.v", "-test.count=1"],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=seconds(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def passed(report: str) -> int:
    return len(re.findall(r"^--- PASS", report, re.MULTILINE))


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_go_redis(node: Node, protocol: str) -> None:
    report = run_tests({"PORT": str(node.port), "PROTOCOL": protocol})
    assert passed(report) == 7, report


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_go_redis_over_tls(secured: Secured, protocol: str) -> None:
    """The same tests, and those of certificates and users."""
    report = run_tests(secured.environment(PROTOCOL=protocol))
    assert passed(report) == 7 + 10, report


def test_a_version_with_fields_that_go_redis_does_not_know_is_for_other_clients(
    node: Node,
) -> None:
    """The test above would not notice it if the tests in Go asked for nothing."""
    executable = compiled()
    with node.client() as client:
        client.ask(b"CONFIG SET redis-version 8.8.0\r\n", b"+OK\r\n")
        done = subprocess.run(
            [executable, "-test.run", "XInfo", "-test.count=1"],
            env={**os.environ, "PORT": str(node.port), "PROTOCOL": "3"},
            capture_output=True,
            text=True,
            timeout=seconds(),
            check=False,
        )
        client.ask(b"CONFIG SET redis-version 8.2.3\r\n", b"+OK\r\n")
    assert done.returncode == 1
    assert 'unexpected key "idmp-duration"' in done.stdout
