"""Clients that take a token in one region and wait for it in another one (I22).

A token outlives the region that issued it.  A client that waits for one is told that its effects
have arrived, or at once that it names effects which exist nowhere: those of a removed region beyond
its cut, or of a folder in which its region did not go on (I23 is about whether these are lost,
``folders.py``).

A token counts once its client has got it: before that its region may lose what it names, and use
the numbers again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import Marked, lost, marked_by, unheard
from crdtstream.core.uid import DatabaseUid
from crdtstream.sim.simulated_node import SimClient, SimNode
from crdtstream.sim.violation import ViolationError

# Longer than it takes until all is well again: a waiting client must get its answer before.
PATIENT_MS: Final = 300_000
# Waits of one process.
WAITING_MAX: Final = 3
# Number of tokens, of which the newest are kept.
TOKENS_MAX: Final = 30


@dataclass(frozen=True, slots=True, eq=False)
class _Token:
    text: bytes
    vv: VersionVector
    marked: Mapping[RegionId, Marked]
    database: DatabaseUid


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    node: SimNode
    run_id: int
    token: _Token
    client: SimClient


class Tokens:
    """All tokens of a world, and the clients that wait for one."""

    def __init__(self) -> None:
        self._tokens: list[_Token] = []
        # Answers that no client has got yet.
        self._untold: list[tuple[SimClient, bytes, _Token]] = []
        self._waiting: list[_Waiting] = []

    def take(self, node: SimNode) -> None:
        """Run CRDT.TOKEN, whose reply leaves with the next commit."""
        replica = node.region.replica
        called = node.call("tokens", (b"CRDT.TOKEN",))
        if called.is_waiting or not node.last_reply.startswith(b"$"):
            return
        text = node.last_reply.split(b"\r\n")[1]
        marked = marked_by(replica.lineages, replica.vv)
        token = _Token(text, dict(replica.vv), marked, replica.database_uid)
        self._untold.append((called, node.last_reply, token))
        del self._untold[:-TOKENS_MAX]
        node.settle()
        self._look_at_told()

    def _look_at_told(self) -> None:
        """Look at tokens that clients have got by now, or whose processes died."""
        untold = self._untold
        self._untold = []
        for client, reply, token in untold:
            if reply in client.received:
                self._tokens.append(token)
            else:
                self._untold.append((client, reply, token))
        del self._tokens[:-TOKENS_MAX]

    def wait_for(self, node: SimNode, at: int) -> None:
        """Run CRDT.WAITFOR, with a timeout that never ends the wait.

        Args:
            at: index of the token.
        """
        self._look_at_told()
        self._waiting = [one for one in self._waiting if _is_under_way(one)]
        mine = sum(one.node is node for one in self._waiting)
        if not self._tokens or mine >= WAITING_MAX:
            return
        token = self._tokens[at % len(self._tokens)]
        client = node.call(f"waits {mine}", (b"CRDT.WAITFOR", token.text, b"%d" % PATIENT_MS))
        self._waiting.append(_Waiting(node, node.run_id, token, client))

    def look_at_end(self, nodes: list[SimNode]) -> None:
        """Check that every token is answered as it must be, and that no client waits for ever.

        Raises:
            ViolationError: it is not.
        """
        self._look_at_told()
        for one in self._waiting:
            expected = _expected(one.node, one.token)
            if _is_under_way(one) and one.node in nodes and expected:
                raise ViolationError(
                    f"I22: a client waits in region {one.node.number} for {one.token.text!r}, and"
                    f" should have been told {expected!r}"
                )
        for node in nodes:
            for token in self._tokens:
                self._ask(node, token)

    def _ask(self, node: SimNode, token: _Token) -> None:
        expected = _expected(node, token)
        if not expected or node.region.replica.database_uid != token.database:
            return
        node.call("asks", (b"CRDT.WAITFOR", token.text, b"1"))
        if not node.last_reply.startswith(expected):
            raise ViolationError(
                f"I22: region {node.number} answers {node.last_reply!r} for {token.text!r}, and"
                f" should have told {expected!r}"
            )


def _is_under_way(one: _Waiting) -> bool:
    node = one.node
    return node.is_up and node.run_id == one.run_id and one.client.is_waiting


def _expected(node: SimNode, token: _Token) -> bytes:
    """Expected beginning of an answer; empty: its effects may still come."""
    replica = node.region.replica
    if lost(replica.lineages, token.marked):
        return b"-LOST"
    if unheard(replica.lineages, token.marked):
        return b""
    if covers(replica.vv, token.vv):
        return b":1"
    cuts = node.region.membership.members.cuts.final
    if any(token.vv.get(region, 0) > cut for region, cut in cuts.items()):
        return b"-LOST"
    return b""
