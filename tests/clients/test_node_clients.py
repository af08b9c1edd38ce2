"""The clients for Node.js, each with tests of its own in JavaScript, see tests/clients/node."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.secured import Secured
from tests.conftest import ROOT, program, require
from tests.patience import seconds
from tests.resp.node import Node

SCRIPTS = Path(__file__).parent / "node"
PACKAGES = ROOT / ".tools" / "node" / "node_modules"


def run_tests(script: str, environ: Mapping[str, str]) -> None:
    """Run a file of tests with Node's own runner; its report is the message of a failure."""
    executable = program("node", hint="apt-get install nodejs npm, then `make tools`")
    require(PACKAGES.is_dir(), "Node.js clients are missing: run `make tools` (wants npm)")
    done = subprocess.run(
        [executable, "--test", "--test-reporter=tap", SCRIPTS / script],
        env={**os.environ, "NODE_PATH": str(PACKAGES), **environ},
        capture_output=True,
        text=True,
        timeout=seconds(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE), done.stdout


PROTOCOLS = pytest.mark.parametrize("protocol", ["2", "3"])
PACKAGES_OF_IOREDIS = pytest.mark.parametrize("package", ["ioredis", "ioredis-5"])


@PROTOCOLS
def test_node_redis(node: Node, protocol: str) -> None:
    run_tests("node_redis.test.cjs", {"PORT": str(node.port), "PROTOCOL": protocol})


@PACKAGES_OF_IOREDIS
def test_ioredis(node: Node, package: str) -> None:
    run_tests("ioredis.test.cjs", {"PORT": str(node.port), "PACKAGE": package})


@PROTOCOLS
@pytest.mark.parametrize("script", ["node_redis.test.cjs", "secured_node_redis.test.cjs"])
def test_node_redis_over_tls(secured: Secured, script: str, protocol: str) -> None:
    """The same tests, and those of certificates and users."""
    run_tests(script, secured.environment(PROTOCOL=protocol))


@PACKAGES_OF_IOREDIS
@pytest.mark.parametrize("script", ["ioredis.test.cjs", "secured_ioredis.test.cjs"])
def test_ioredis_over_tls(secured: Secured, script: str, package: str) -> None:
    run_tests(script, secured.environment(PACKAGE=package))
