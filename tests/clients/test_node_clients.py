"""The clients for Node.js, each with tests of its own in JavaScript, see tests/clients/node."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, program, require
from tests.resp.node import Node

pytestmark = pytest.mark.live

SCRIPTS = Path(__file__).parent / "node"
PACKAGES = ROOT / ".tools" / "node" / "node_modules"


def run_tests(node: Node, script: str, **environ: str) -> None:
    """Run a file of tests with Node's own runner; its report is the message of a failure."""
    executable = program("node", hint="apt-get install nodejs npm, then `make tools`")
    require(PACKAGES.is_dir(), "Node.js clients are missing: run `make tools` (wants npm)")
    done = subprocess.run(
        [executable, "--test", "--test-reporter=tap", SCRIPTS / script],
        env={**os.environ, "NODE_PATH": str(PACKAGES), "PORT": str(node.port), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_node_redis(node: Node, protocol: str) -> None:
    run_tests(node, "node_redis.test.cjs", PROTOCOL=protocol)


@pytest.mark.parametrize("package", ["ioredis", "ioredis-5"])
def test_ioredis(node: Node, package: str) -> None:
    run_tests(node, "ioredis.test.cjs", PACKAGE=package)
