"""Install a wheel in a fresh environment, and see that a node of it runs compiled and answers.

Usage: python tools/try_wheel.py WHEEL

The environment is of the Python that runs this, has nothing but the wheel and what it depends on,
and is removed at the end.

Exit status: 0 if it answered; else 1, or the traceback of what went wrong.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 30.0
PAUSE_SECONDS: Final = 0.1


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 1
    wheel = Path(sys.argv[1]).resolve()
    with TemporaryDirectory(prefix="crdtstream-wheel-") as name:
        folder = Path(name)
        program = _install(wheel, folder / "venv")
        # Here are no sources that Python would find first.
        os.chdir(folder)
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        if "(compiled)" not in version.stdout:
            print(f"{wheel.name} does not run compiled: {version.stdout}", file=sys.stderr)
            return 1
        entry = _ask_node(program, folder)
    print(f"{wheel.name}: {version.stdout.strip()}; PING answered PONG, XADD {entry}")
    return 0


def _install(wheel: Path, folder: Path) -> str:
    """The wheel's program ``crdtstream``."""
    venv.create(folder, with_pip=True)
    again, lock = ROOT / "tools" / "again.sh", ROOT / "requirements.lock"
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    locked = ["--quiet", "--constraint", str(lock), "--only-binary", ":all:", str(wheel)]
    subprocess.run([str(again), *pip, *locked], check=True)
    return str(folder / "bin" / "crdtstream")


def _ask_node(program: str, folder: Path) -> str:
    """The ID that a node gives to an entry."""
    with socket.socket() as resp, socket.socket() as grpc, socket.socket() as http:
        for one in (resp, grpc, http):
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in (resp, grpc, http)]
    lines = ["region = 1", f'dir = "{folder / "data"}"']
    for name, port in zip(("resp_port", "grpc_port", "http_port"), ports, strict=True):
        lines.append(f"{name} = {port}")
    config = folder / "region-1.toml"
    config.write_text("\n".join(lines))
    command = [program, "node", "--config", str(config), "--stop-at-end-of-input"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as node:
        try:
            with _connected(ports[0], node) as connection, connection.makefile("rwb") as stream:
                stream.write(b"PING\r\nXADD s * field value\r\n")
                stream.flush()
                pong, length, entry = (stream.readline().strip() for _ in range(3))
            assert pong == b"+PONG", pong
            assert length.startswith(b"$"), length
            assert b"-" in entry, entry
            # Its pages come with files that are no modules.
            for page in ("/", "/console/static/console.css", "/console/static/console.js"):
                with urllib.request.urlopen(f"http://127.0.0.1:{ports[2]}{page}") as answer:
                    assert answer.status == 200, page
        finally:
            assert node.stdin is not None
            node.stdin.close()
            node.wait(STOP_SECONDS_MAX)
    assert node.returncode == 0, f"the node ended with status {node.returncode}"
    return entry.decode()


def _connected(port: int, node: "subprocess.Popen[bytes]") -> socket.socket:
    """A connection to a node, once it takes one.

    Raises:
        AssertionError: the node ended.
        OSError: it takes none for too long.
    """
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        assert node.poll() is None, f"the node ended with status {node.returncode}"
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS_MAX)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
