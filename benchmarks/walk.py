"""Python calls of a lone request at a node: from the bytes that arrive to the reply that leaves.

    python -m benchmarks.walk [XADD | XREADGROUP | XACK] [--list]

Three regions run on the sources.  Each probe is a request for one entry with nothing else under way
beside it.  The
periodic sample of the statistics is left out, and the shortest of several walks is shown.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from crdtstream.compiled import PURE
from crdtstream.local.regions import LocalRegions

BASE_PORT: Final = 27_300
WARM: Final = 500
PROBES: Final = 9
# The acks of earlier effects have come by then, and the links are not quiet yet.
PAUSE_SECONDS: Final = 0.3
PROBE: Final = b"benchmarks.walk"
# File that the node writes the calls of each probe to, a line each.
OUTPUT: Final = "CRDTSTREAM_WALK"
# The command whose calls it writes.
COMMAND: Final = "CRDTSTREAM_WALK_OF"
COMMANDS: Final = ("XADD", "XREADGROUP", "XACK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("command", nargs="?", choices=COMMANDS, default="XADD")
    parser.add_argument("--list", action="store_true", help="list the calls, in order")
    wants = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walks = measure(Path(folder), wants.command)
    shortest = min(walks, key=len)
    files = {call.partition(":")[0] for call in shortest}
    print(f"{len(shortest)} calls in {len(files)} files")
    if wants.list:
        print("\n".join(shortest))


def measure(folder: Path, command: str) -> list[list[str]]:
    """The calls of each probe, as ``file:function``."""
    output = folder / "walks"
    local = LocalRegions(
        3,
        folder,
        base_port=BASE_PORT,
        environment={PURE: "1", OUTPUT: str(output), COMMAND: command},
        node=(sys.executable, "-m", "benchmarks.walk", "node"),
    )
    try:
        local.start_all()
        local.wait_until_healthy()
        client = redis.Redis(port=local.regions[0].resp_port, retry=Retry(ExponentialBackoff(), 20))
        for group, count, pause in (("warm", WARM, 0), (PROBE.decode(), PROBES, PAUSE_SECONDS)):
            client.xgroup_create("x", group, "$", mkstream=True)
            for _ in range(count):
                _add_read_acknowledge(client, group, pause)
    finally:
        local.stop_all()
        local.close()
    return [json.loads(line) for line in output.read_text().splitlines()]


def _add_read_acknowledge(client: redis.Redis, group: str, pause: float) -> None:
    """Send the three requests of a message, each alone."""
    time.sleep(pause)
    entry_id = client.xadd("x", {"field": group})
    time.sleep(pause)
    client.xreadgroup(group, "c", {"x": ">"})
    time.sleep(pause)
    client.xack("x", group, entry_id)


def node() -> None:
    """Run a node that records the calls of each probe."""
    from crdtstream.cli.start import program
    from crdtstream.resp.clients.connection import Connection

    right: Callable[[Connection, bytes], None] = Connection.data_received
    calls: list[str] = []
    is_sampling = False
    command = b"\r\n" + os.environ[COMMAND].encode() + b"\r\n"

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal is_sampling
        code = frame.f_code
        file = code.co_filename.rpartition("crdtstream/")[2]
        if (file, code.co_name) == SAMPLES:
            is_sampling = event == "call"
        elif event == "call" and not is_sampling:
            calls.append(f"{file}:{code.co_name}")
        elif event == "return" and (file, code.co_name) == REPLIES:
            sys.setprofile(None)
            with Path(os.environ[OUTPUT]).open("a") as output:
                print(json.dumps(calls), file=output)

    def data_received(self: Connection, data: bytes) -> None:
        if PROBE in data and command in data:
            calls.clear()
            sys.setprofile(note)
        right(self, data)

    Connection.data_received = data_received  # type: ignore[method-assign]
    program(["node"])(sys.argv[1:])


SAMPLES: Final = ("resp/clients/traffic.py", "sample")
# Where the reply has been given to the transport.
REPLIES: Final = ("resp/clients/connection.py", "receive")


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


if __name__ == "__main__":
    if sys.argv[1:2] == ["node"]:
        node()
    else:
        main()
