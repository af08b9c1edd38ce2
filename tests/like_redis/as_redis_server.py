"""A node that is started as redis-server is: ``redis-server FILE``, ``redis-server --user RULES``.

Redis's own tests start it (``redis_files.py``).  Settings of redis.conf that a node has as well are
those of the node; others, such as ``always-show-logo``, change nothing.  The node takes the place
of this process, so each signal reaches it, and ends with the process that started it.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from crdtstream.settings.node_settings import NodeSettings
from tests.patience import seconds

# Settings with another name than that of redis.conf; elsewhere - is _.
NAMES: Final = {"port": "resp_port", "bind": "host", "user": "users"}
# Another meaning, or other values.
IGNORED: Final = frozenset({"dir", "timeout", "tls-replication"})
# The tests wait for these words.
STARTED: Final = "\n PID: {pid}\nServer initialized\nReady to accept connections\n"
# Of prctl.
SET_SIGNAL_AT_PARENTS_END: Final = 1


def directives_of(words: list[str]) -> Iterator[tuple[str, str]]:
    """Directives of the file that the first word may name, then those among the words."""
    if words and not words[0].startswith("--"):
        for line in Path(words.pop(0)).read_text().splitlines():
            directive, _, value = line.partition(" ")
            yield directive, value.strip().strip("'\"")
    for group in " ".join(words).split("--")[1:]:
        directive, _, value = group.strip().partition(" ")
        yield directive, value


def settings_of(directives: list[tuple[str, str]], folder: Path) -> dict[str, str | list[str]]:
    """Settings of a node, each a text; paths are of ``folder`` unless they are absolute."""
    settings: dict[str, str | list[str]] = {}
    users = []
    for directive, value in directives:
        name = NAMES.get(directive, directive.replace("-", "_"))
        if name == "users":
            users.append(value)
        elif name not in NodeSettings.model_fields or directive in IGNORED or not value:
            continue
        elif name.endswith("file"):
            settings[name] = str(folder / value)
        else:
            settings[name] = value
    return {**settings, "users": users} if users else settings


def main(words: list[str]) -> None:
    ctypes.CDLL(None).prctl(SET_SIGNAL_AT_PARENTS_END, signal.SIGKILL)
    directives = list(directives_of(words))
    given = dict(directives)
    folder = Path(given.get("dir") or tempfile.mkdtemp()).resolve()
    settings = {
        "region": "1",
        "dir": str(folder / "node"),
        **{name: str(_free_port()) for name in ("resp_port", "grpc_port", "http_port")},
        **settings_of(directives, folder),
    }
    config = folder / f"node-{settings['resp_port']}.toml"
    # CONFIG REWRITE may have changed the file of a node that is started once more.
    if not config.exists():
        lines = (f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        config.write_text("".join(lines))
    node = os.getpid()
    if os.fork() == 0:
        _announce(node, int(given.get("tls-port") or str(settings["resp_port"])))
    command = (sys.executable, "-m", "crdtstream", "node", "--config", str(config))
    os.execv(sys.executable, command)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _announce(node: int, port: int) -> None:
    """Wait until the node listens, and say so as Redis does; ends this process."""
    ends = time.monotonic() + seconds()
    while os.getppid() == node and time.monotonic() < ends:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                os.write(sys.stdout.fileno(), STARTED.format(pid=node).encode())
                break
        time.sleep(0.02)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
