"""A client that may wait, and one that writes, on one region under test."""

import shlex

from crdtstream.core.ids import Millis
from crdtstream.database.database import Database, Waiting
from tests.harness.regions import Node, plain


class Clients:
    """Two clients of a node: who calls may be left waiting, who writes may satisfy it.

    Replies are as those of ``Node``, but for errors, which stay CommandErrors.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.database = Database(node.replica)
        self.reader = self.database.open_session()
        self.writer = self.database.open_session()

    def call(self, line: str) -> object:
        """Run a command; WAITING: the answer comes from one of the others."""
        argv = [word.encode() for word in shlex.split(line)]
        reply = self.database.call(self.reader, Millis(self.node.now), argv)
        return reply if isinstance(reply, Waiting) else plain(reply)

    def write(self, line: str) -> list[object]:
        """Run a command as the other client; the answers of who was waiting for it."""
        argv = [word.encode() for word in shlex.split(line)]
        self.database.call(self.writer, Millis(self.node.now), argv)
        return self.served()

    def served(self) -> list[object]:
        """The answers of who was waiting for what has happened."""
        now = Millis(self.node.now)
        served = self.database.settle(now) + self.database.settle_acks(now)
        self.node.end_tick()
        return [plain(reply) for _, reply in served]

    def wait(self, ms: int) -> list[object]:
        """Let time pass; the answers that it brings."""
        self.node.now += ms
        served = self.database.expire(Millis(self.node.now))
        self.node.end_tick()
        return [plain(reply) for _, reply in served]
