"""The start of a node, and its memory: of this tree and of another one, in turns.

    python -m benchmarks.start [--rounds 10] [--against TREE] [--python PROGRAM]

A round begins a node in an empty folder, from its sources, and asks it until it answers a PING.
Python has compiled the sources by then: the first round of each tree does not count.

Output for each tree, medians of the rounds:

    answers    seconds from the start of the process to its answer
    processor  seconds of processor time that it had taken by then; a busy machine changes them less
    memory     MiB that are resident two seconds later
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

TREE: Final = Path(__file__).resolve().parent.parent
PAUSE_SECONDS: Final = 0.002
REST_SECONDS: Final = 2.0
ANSWER_SECONDS_MAX: Final = 60.0
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
MIB: Final = 1 << 20


class Start(NamedTuple):
    """Figures of one start."""

    answer_s: float
    processor_s: float
    memory_mib: float


def start(tree: Path, python: str) -> Start:
    with tempfile.TemporaryDirectory(prefix="crdtstream-start-") as folder:
        port, config = configured(Path(folder))
        environment = {**os.environ, "PYTHONPATH": str(tree), "CRDTSTREAM_PURE": "1"}
        # Python may keep what it makes of the sources.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [python, "-m", "crdtstream", "node", "--config", str(config)]
        clock = time.perf_counter()
        node = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        try:
            wait_for_answer(port, node)
            answer_s = time.perf_counter() - clock
            fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
            processor_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
            time.sleep(REST_SECONDS)
            pages = int(Path(f"/proc/{node.pid}/statm").read_text().split()[1])
            return Start(answer_s, processor_s, pages * os.sysconf("SC_PAGE_SIZE") / MIB)
        finally:
            node.terminate()
            node.wait()


def configured(folder: Path) -> tuple[int, Path]:
    """The port for Redis clients, and the settings of a node in this folder."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    names = ("resp_port", "grpc_port", "http_port")
    lines = [f"{name} = {port}" for name, port in zip(names, ports, strict=True)]
    config = folder / "region-1.toml"
    config.write_text("\n".join(["region = 1", f'dir = "{folder / "region-1"}"', *lines]))
    return ports[0], config


def wait_for_answer(port: int, node: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX) as client:
                client.sendall(b"PING\r\n")
                if client.recv(64) == b"+PONG\r\n":
                    return
        except ConnectionRefusedError:
            pass
        assert node.poll() is None, f"the node ended with status {node.returncode}"
        assert time.monotonic() < deadline, "the node does not answer"
        time.sleep(PAUSE_SECONDS)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--python", default=sys.executable, help="with a node's packages")
    options = parser.parse_args(words)
    trees = [TREE] if options.against is None else [options.against.resolve(), TREE]
    found: dict[Path, list[Start]] = {tree: [] for tree in trees}
    for number in range(options.rounds + 1):
        for tree in trees:
            one = start(tree, options.python)
            if number:
                found[tree].append(one)
    for tree, starts in found.items():
        answer = statistics.median(one.answer_s for one in starts)
        best = min(one.answer_s for one in starts)
        processor = statistics.median(one.processor_s for one in starts)
        memory = statistics.median(one.memory_mib for one in starts)
        print(
            f"{tree}: answers {answer:.2f} s (best {best:.2f}), processor {processor:.2f} s,"
            f" memory {memory:.1f} MiB"
        )


if __name__ == "__main__":
    main()
