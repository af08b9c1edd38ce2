"""M17: a token or a cursor that names lost effects of a removed region is answered at once."""

import pytest

from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.lost import removed_ends
from crdtstream.database.database import WAITING
from tests.harness.clients import Clients
from tests.harness.regions import Node

LOST = "LOST region 3 was removed; of its effects 8… nothing exists"
R3_ENDS_AT_7 = removed_ends({RegionId(3): 7})


def clients_where(*, ends_known: bool, has_n: int = 7) -> Clients:
    """A region that has 1:1 and effects of region 3, which was removed and ends at 3:7."""
    clients = Clients(Node(1))
    clients.write("XADD x 1-1 f v")
    clients.node.replica.vv[RegionId(3)] = has_n
    if ends_known:
        clients.node.replica.ends = R3_ENDS_AT_7
    return clients


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("CRDT.WAITFOR 1:1,3:7 0", 1),
        ("CRDT.WAITFOR 1:1,3:8 0", LOST),
        ("CRDT.WAITFOR 3:8 10", LOST),
        # Also if it would wait for another region as well.
        ("CRDT.WAITFOR 2:9,3:8 0", LOST),
        ("CRDT.XREAD x 1:1,3:7", ["1:1,3:7", []]),
        ("CRDT.XREAD x 1:1,3:8", LOST),
        ("CRDT.XREAD x 1:1,3:8 BLOCK 0", LOST),
        # A cursor is refused as a whole, or its reader would carry it on.
        ("CRDT.XREAD x 3:8 COUNT 1", LOST),
        ("CRDT.XREAD missing 3:8", LOST),
        ("CRDT.XREAD x $", ["1:1,3:7", []]),
    ],
)
def test_tokens_and_cursors_of_lost_effects_are_answered_at_once(line: str, reply: object) -> None:
    answer = clients_where(ends_known=True).call(line)
    assert (answer.text if isinstance(answer, CommandError) else answer) == reply


@pytest.mark.parametrize(
    "line", ["CRDT.WAITFOR 3:8 0", "CRDT.WAITFOR 3:7 0", "CRDT.XREAD x 1:1,3:8 BLOCK 0"]
)
def test_until_the_end_is_known_a_wait_waits(line: str) -> None:
    assert clients_where(ends_known=False, has_n=6).call(line) is WAITING


def test_waitfor_waits_for_effects_that_still_exist() -> None:
    clients = clients_where(ends_known=True, has_n=6)
    assert clients.call("CRDT.WAITFOR 3:7 0") is WAITING
    clients.node.replica.vv[RegionId(3)] = 7
    assert clients.served() == [1]


def test_a_lost_token_fails_in_a_transaction_too() -> None:
    clients = clients_where(ends_known=True)
    for line in ("MULTI", "CRDT.WAITFOR 3:8 0", "XADD x 2-1 f v"):
        clients.call(line)
    reply = clients.call("EXEC")
    assert isinstance(reply, list)
    assert [getattr(one, "text", one) for one in reply] == [LOST, "2-1"]
