"""The recipes for clients on a closed set-up: certificate, user, and health pages by https."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import ROOT, program, require
from tests.live.closed import PASSWORD, Closed, closed_regions
from tests.live.cluster import Node
from tests.patience import wait_until

pytestmark = pytest.mark.live

PACKAGES: Final = ROOT / ".tools" / "node" / "node_modules"
DOCS: Final = ROOT / "docs"


def outlives_a_restart(
    closed: Closed, stream: str, words: Sequence[str | Path], environ: Mapping[str, str]
) -> None:
    """Run a recipe, which prints a line for each entry; kill its region, and start it again."""
    one = closed[1]
    with subprocess.Popen(
        words,
        env={**os.environ, "REDIS_PASSWORD": PASSWORD, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = iter(process.stdout.readline, "")

        def writes() -> bool:
            line = next(told)
            print(line, end="")
            # The ID of an entry of region 1.
            return line.rstrip().endswith("-1")

        try:
            wait_until(writes, "it writes")
            one.end(signal.SIGKILL)
            wait_until(lambda: next(told).startswith("no region"), "it notices the loss")
            one.start()
            wait_until(writes, "it writes again")
        finally:
            process.kill()
    assert one.client.xlen(stream) > 0


def test_the_recipe_for_node_redis_gets_in_and_outlives_a_restart(tmp_path: Path) -> None:
    node = program("node", hint="apt-get install nodejs npm, then `make tools`")
    require(PACKAGES.exists(), "node-redis is missing: run `make tools`")
    with closed_regions(1, tmp_path) as closed:
        one, paths = closed[1], closed.authority.client("app").paths
        outlives_a_restart(
            closed,
            "messages",
            (node, DOCS / "failover_node_redis.cjs", str(one.http_port), at(one)),
            {
                "NODE_PATH": str(PACKAGES),
                "NODE_EXTRA_CA_CERTS": str(closed.authority.ca),
                "EVERY_MS": "100",
                "REDIS_USERNAME": "root",
                "REDIS_CA": str(paths.ca),
                "REDIS_CERT": str(paths.certificate),
                "REDIS_KEY": str(paths.key),
            },
        )


def test_the_recipe_for_redis_py_gets_in_with_two_users_of_few_rights(tmp_path: Path) -> None:
    """One user appends, and another one reads the health pages."""
    with closed_regions(1, tmp_path) as closed:
        one, files = closed[1], closed.authority.client("app")
        outlives_a_restart(
            closed,
            "orders:1",
            (
                *(sys.executable, DOCS / "failover_redis_py.py", at(one), "--stream", "orders:1"),
                *("--http-port", str(one.http_port), "--https", *files.options),
            ),
            {
                "REDIS_USERNAME": "app",
                "PAGES_USERNAME": "prometheus",
                "PAGES_PASSWORD": PASSWORD,
            },
        )


def at(node: Node) -> str:
    return f"localhost:{node.resp_port}"
