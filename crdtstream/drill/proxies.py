"""Toxiproxy between regions, and between clients and their region.

Each directed link and each region's clients have a proxy of their own, so that a fault affects only
what a drill names.  Names: ``2-pulls-1``, ``clients-of-1``, ``health-of-1``.

toxiproxy-python keeps the server's address in a class, one for the whole process.  We talk to
several servers, since one cannot hold a herd's connections; so every call goes through
``Server.call``, which sets the address first, and calls come one at a time.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import requests
import toxiproxy.api
from toxiproxy import Proxy, Toxiproxy
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from crdtstream.drill.tied import tied

PROGRAM: Final = "toxiproxy-server"
INSTALL: Final = (
    "make tools, in the sources (wants Go); elsewhere go install"
    " github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0, and call what it makes toxiproxy-server"
)
START_SECONDS_MAX: Final = 10.0
# A proxy that drops a herd's connections takes its time.
CALL_SECONDS_MAX: Final = 30.0

T = TypeVar("T")
_ONE_CALL: Final = threading.Lock()


class _Bounded:
    """``requests`` for toxiproxy-python, which would wait for an answer without end."""

    get = staticmethod(partial(requests.get, timeout=CALL_SECONDS_MAX))
    post = staticmethod(partial(requests.post, timeout=CALL_SECONDS_MAX))
    delete = staticmethod(partial(requests.delete, timeout=CALL_SECONDS_MAX))


toxiproxy.api.requests = _Bounded


class ProxyError(Exception):
    """Toxiproxy is missing, or did not do what it was asked; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Server:
    """A toxiproxy-server's API."""

    host: str
    port: int

    def call(self, function: Callable[[], T]) -> T:
        """Call something of toxiproxy-python, at this server.

        Raises:
            ProxyError: the server does not answer, or refuses.
        """
        with _ONE_CALL:
            APIConsumer.host, APIConsumer.port = self.host, self.port
            try:
                return function()
            except requests.RequestException as error:
                raise ProxyError(
                    f"no toxiproxy-server answers at {self.host}:{self.port}; start it:"
                    f" {PROGRAM} -host {self.host} -port {self.port}"
                ) from error
            except KeyError as error:
                # The library makes this of an error 500.
                raise ProxyError(
                    f"the toxiproxy-server at {self.host}:{self.port} cannot make this proxy:"
                    " its port is taken"
                ) from error
            except (InvalidToxic, NotFound, ProxyExists) as error:
                raise ProxyError(f"toxiproxy: {_said(error)}") from error

    def is_there(self) -> bool:
        return bool(self.call(Toxiproxy().running))

    def proxies(self) -> dict[str, "Way"]:
        found: Mapping[str, Proxy] = self.call(Toxiproxy().proxies)
        return {name: Way(self, proxy) for name, proxy in found.items()}

    def create(self, name: str, upstream: str, listen: str) -> "Way":
        made = self.call(lambda: Toxiproxy().create(upstream, name, listen=listen))
        return Way(self, made)


def _said(error: Exception) -> str:
    """Text of the server's error: the library hands on the bytes of its answer, which are JSON."""
    said = error.args[0] if error.args else ""
    if not isinstance(said, bytes):
        return str(error)
    try:
        return str(json.loads(said)["error"])
    except (ValueError, KeyError, TypeError):
        return said.decode(errors="replace").strip()


class Way:
    """A way through a proxy: one directed link, or the clients of a region.

    Toxics have the name of the fault that put them in, so that no fault takes back another's.
    """

    def __init__(self, server: Server, proxy: Proxy) -> None:
        self._server = server
        self._proxy = proxy
        self._cuts = 0
        self.name: str = proxy.name
        self.upstream: str = proxy.upstream

    @property
    def listen(self) -> str:
        """``host:port``."""
        listen: str = self._proxy.listen
        return listen

    def cut(self) -> None:
        """Drop its connections and accept none; counted, as two faults may do so."""
        self._cuts += 1
        if self._cuts == 1:
            self._server.call(self._proxy.disable)

    def restore(self) -> None:
        """Take one ``cut`` back."""
        assert self._cuts > 0
        self._cuts -= 1
        if self._cuts == 0:
            self._server.call(self._proxy.enable)

    def add_toxic(self, name: str, kind: str, *, stream: str, **attributes: int) -> None:
        self._server.call(
            lambda: self._proxy.add_toxic(
                name=f"{name}-{stream}", type=kind, stream=stream, attributes=attributes
            )
        )

    def remove_toxic(self, name: str, *, stream: str) -> None:
        self._server.call(lambda: self._proxy.destroy_toxic(f"{name}-{stream}"))

    def make_whole(self) -> None:
        """Take back all that was done to it, by any fault."""

        def all_back() -> None:
            for name in list(self._proxy.toxics()):
                self._proxy.destroy_toxic(name)
            self._proxy.enable()

        self._cuts = 0
        self._server.call(all_back)

    def destroy(self) -> None:
        self._server.call(self._proxy.destroy)


@contextlib.contextmanager
def own_server() -> Iterator[Server]:
    """A toxiproxy-server of our own, on a free port; it ends with the block.

    Raises:
        ProxyError: the program is missing, or does not start.
    """
    path = find_server()
    if path is None:
        raise ProxyError(f"{PROGRAM} is missing; install it: {INSTALL}")
    port = free_port()
    with subprocess.Popen(
        tied([str(path), "-host", "127.0.0.1", "-port", str(port)]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is for us: the faults are taken back first.
        start_new_session=True,
    ) as process:
        try:
            server = Server("127.0.0.1", port)
            deadline = time.monotonic() + START_SECONDS_MAX
            while not server.is_there():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise ProxyError(f"{path} does not start; try: {path} -port {port}")
                time.sleep(0.02)
            yield server
        finally:
            process.kill()


def find_server() -> Path | None:
    """Path of toxiproxy-server: beside this Python, or where the system has it."""
    beside = Path(sys.executable).parent / PROGRAM
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(PROGRAM)
    return Path(found) if found else None


def free_port(host: str = "127.0.0.1") -> int:
    """Port on which nothing listens at the moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
