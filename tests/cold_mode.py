"""A pytest plugin: whatever a test does, it finds its entries on disk.

    python -m pytest -p tests.cold_mode tests/commands

Before each command, batch and look at the clock every macro node leaves memory.  What then needs
entries says which, they come, and it is tried again: replies, their order and digests must be as if
all had been warm, so the tests that say so are run as they are.

What is read in place is counted by the name of what read it: ``IN_PLACE``; the end of the session
prints it, and ``tests/database/test_cold_suites.py`` holds it against what may be.
"""

import os
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import Millis
from crdtstream.core.issuing.issuer import Issuer
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.database.serving import Served
from crdtstream.database.session import Session
from tests.cold_nodes import freeze
from tests.harness.regions import Node

IN_PLACE: Counter[str] = Counter()
FETCHED: Counter[str] = Counter()


class _Disk:
    """The images of one replica."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.images: dict[int, bytes] = {}
        self.called: list[Callable[[], None]] = []
        self.doing = ""
        replica.residency.loader = self._read_in_place

    def _read_in_place(self, image: int) -> bytes:
        IN_PLACE[self.doing] += 1
        if os.environ.get("COLD_TRACE"):
            traceback.print_stack(limit=14)
        return self.images[image]

    def freeze(self, doing: str) -> None:
        self.doing = doing
        self.images |= freeze(self.replica.node_limits)

    def fetch(self, images: Sequence[int]) -> None:
        FETCHED[self.doing] += 1
        for image in images:
            self.replica.residency.arrive(image, self.images[image])

    def ask_for(self, images: Sequence[int], go_on: Callable[[], None]) -> None:
        self.fetch(images)
        self.called.append(go_on)


DISKS: dict[int, _Disk] = {}


def disk_of(replica: Replica) -> _Disk:
    found = DISKS.get(id(replica))
    if found is None or found.replica is not replica:
        DISKS[id(replica)] = found = _Disk(replica)
    return found


def _patch(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    setattr(owner, name, make(getattr(owner, name)))


def _call(real: Any) -> Any:
    def call(self: Database, session: Session, now: Millis, argv: list[bytes]) -> Any:
        disk = disk_of(self.replica)
        disk.freeze(argv[0].decode(errors="replace").upper())
        issued, changes = self.replica.issued, self.replica._issuer.changes
        while True:
            try:
                return real(self, session, now, argv)
            except ColdError as error:
                # I10: nothing has happened.
                assert (issued, changes) == (self.replica.issued, self.replica._issuer.changes)
                disk.fetch(error.images)

    return call


def _serving(real: Any) -> Any:
    def serve(self: Database, now: Millis) -> list[Served]:
        disk = disk_of(self.replica)
        self.ask_for = disk.ask_for
        disk.freeze("serving")
        served: list[Served] = real(self, now)
        while disk.called:
            called, disk.called = disk.called, []
            for go_on in called:
                go_on()
            served += self.serve_fetched(now)
        return served

    return serve


def _receive(real: Any) -> Any:
    def receive(self: Replica, batch: EffectBatch, encoded: bytes, now: Millis) -> None:
        disk = disk_of(self)
        disk.freeze("applying")
        while self.ready(batch) and (images := self.needs_of(batch)):
            disk.fetch(images)
        real(self, batch, encoded, now)

    return receive


def _replay(real: Any) -> Any:
    def replay(self: Replica, record: Any) -> None:
        disk_of(self).freeze("replaying")
        real(self, record)

    return replay


def _frontiers(real: Any) -> Any:
    def issue_warm_frontiers(self: Issuer) -> None:
        real(self)
        while self.cold:
            disk = next(one for one in DISKS.values() if one.replica._issuer is self)
            disk.doing = "telling what was acknowledged"
            disk.fetch(self.cold)
            self.cold.clear()
            real(self)

    return issue_warm_frontiers


def _expire_due(real: Any) -> Any:
    def expire_due(self: Replica) -> None:
        disk = disk_of(self)
        disk.freeze("expiring")
        real(self)
        while self.expiry_is_held:
            self.expiry_is_held = False
            disk.fetch(self.take_cold())
            real(self)

    return expire_due


def _digest(real: Any) -> Any:
    def digest(self: Replica, key: bytes | None = None) -> bytes:
        disk = disk_of(self)
        while True:
            try:
                result: bytes = real(self, key)
            except ColdError as error:
                disk.doing = "digest"
                disk.fetch(error.images)
            else:
                return result

    return digest


def _begin(real: Any) -> Any:
    def begin(self: Node) -> None:
        real(self)
        # Here somebody does look ahead.
        self.reading.close()

    return begin


def pytest_configure() -> None:
    _patch(Node, "_begin", _begin)
    _patch(Database, "call", _call)
    for name in ("settle", "settle_acks", "serve_all", "expire"):
        _patch(Database, name, _serving)
    _patch(Replica, "receive", _receive)
    _patch(Replica, "replay", _replay)
    _patch(Replica, "expire_due", _expire_due)
    _patch(Replica, "digest", _digest)
    _patch(Issuer, "issue_warm_frontiers", _frontiers)


def pytest_runtest_teardown() -> None:
    DISKS.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"fetched: {dict(FETCHED)}")
    terminalreporter.write_line(f"in place: {dict(IN_PLACE)}")
