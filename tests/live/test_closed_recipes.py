"""The recipe for node-redis on a closed set-up: certificate, user, and health pages by https."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, require
from tests.live.closed import PASSWORD, closed_regions
from tests.patience import wait_until

pytestmark = pytest.mark.live

PACKAGES = ROOT / ".tools" / "node" / "node_modules"


def test_the_recipe_for_node_redis_gets_in_and_outlives_a_restart(tmp_path: Path) -> None:
    node = shutil.which("node")
    require(node is not None and PACKAGES.exists(), "node-redis is missing: run `make tools`")
    with closed_regions(1, tmp_path) as closed:
        one, paths = closed[1], closed.authority.query("app").paths
        with subprocess.Popen(
            [
                *(str(node), str(ROOT / "docs" / "failover_node_redis.cjs"), str(one.http_port)),
                f"localhost:{one.resp_port}",
            ],
            env={
                **os.environ,
                "NODE_PATH": str(PACKAGES),
                "NODE_EXTRA_CA_CERTS": str(closed.authority.ca),
                "EVERY_MS": "100",
                "REDIS_USERNAME": "root",
                "REDIS_PASSWORD": PASSWORD,
                "REDIS_CA": str(paths.ca),
                "REDIS_CERT": str(paths.certificate),
                "REDIS_KEY": str(paths.key),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            told = iter(process.stdout.readline, "")

            def writes() -> bool:
                line = next(told)
                print(line, end="")
                return line.rstrip().endswith("-1")

            try:
                wait_until(writes, "it writes")
                one.end(signal.SIGKILL)
                wait_until(lambda: next(told).startswith("no region"), "it notices the loss")
                one.start()
                wait_until(writes, "it writes again")
            finally:
                process.kill()
        assert one.client.xlen("messages") > 0
