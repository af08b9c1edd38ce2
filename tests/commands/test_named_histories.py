"""Tokens and cursors of a region whose folder was cloned (rule 18): of which effects they are."""

import re

import pytest

from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import Begin, Lineage
from crdtstream.database.database import WAITING
from tests.harness.clients import Clients
from tests.harness.regions import Node

R1 = RegionId(1)
LINEAGE = Lineage((Begin(1000, b"first folder....", 0),))
LOST = "LOST region 1 numbered effects in two copies of one folder, and has other ones here; of its"


def clone(*values: str, common: int = 2) -> Clients:
    """Clients of one copy of the folder, in which each of these was appended in a tick."""
    node = Node(1)
    node.replica.lineages = {R1: LINEAGE}
    for value in ["common"] * common + list(values):
        node.run(f"XADD x * f {value}")
    return Clients(node)


def member(of: Clients) -> Clients:
    """Clients of a region that has what the copy has."""
    node = Node(2)
    node.replica.lineages = {R1: LINEAGE}
    node.pull(of.node)
    return Clients(node)


def token_of(clients: Clients) -> str:
    token = clients.call("CRDT.TOKEN")
    assert isinstance(token, str)
    return token


def text(answer: object) -> str:
    assert isinstance(answer, CommandError)
    return answer.text


def test_a_token_says_of_which_effects_it_is() -> None:
    clients = clone("one")
    token = token_of(clients)
    assert re.fullmatch("1:3~[0-9a-f]{8}", token)
    for same in (clients, member(clients)):
        assert same.call(f"CRDT.WAITFOR {token} 0") == 1
        assert same.call(f"CRDT.XREAD x {token}") == [token, []]


def test_within_a_batch_it_says_so_of_what_was_before() -> None:
    clients = clone("one")
    before = token_of(clients)
    clients.node("XADD x * f open")
    clients.node("XADD x * f open")
    token = token_of(clients)
    assert token == before.replace("1:3", "1:5").replace("~", "~3.")
    clients.node.end_tick()
    assert member(clients).call(f"CRDT.WAITFOR {token} 0") == 1
    assert text(clone("other", "a", "b").call(f"CRDT.WAITFOR {token} 0")).startswith(LOST)


@pytest.mark.parametrize(
    "command", ["CRDT.WAITFOR {} 0", "CRDT.XREAD x {}", "CRDT.XREAD x {} BLOCK 0"]
)
def test_tokens_of_a_clone_are_lost_where_the_other_clone_is_known(command: str) -> None:
    """The number is here, and stands for something else."""
    token = token_of(clone("one"))
    for other in (clone("other"), clone("other", "more"), member(clone("other"))):
        told = text(other.call(command.format(token)))
        assert told == f"{LOST} effects 3… nothing exists"
    # What both have is of no clone.
    assert clone("other").call(f"CRDT.WAITFOR {token_of(clone())} 0") == 1


def test_a_waiting_token_is_lost_when_the_other_clone_s_effects_arrive() -> None:
    token = token_of(clone("one"))
    waiting = member(clone())
    assert waiting.call(f"CRDT.WAITFOR {token} 0") is WAITING
    waiting.node.pull(clone("other").node)
    (answer,) = waiting.served()
    assert text(answer).startswith(LOST)


def test_unknown_histories_are_taken_for_the_same() -> None:
    """The end of that batch may be too long ago to be kept here."""
    clients = member(clone("one"))
    clients.node.replica.histories.set_points(R1, [])
    for token in (token_of(clone("other")), "1:3@1000", "1:3@1000~2.00000000"):
        assert clients.call(f"CRDT.WAITFOR {token} 0") == 1
    assert token_of(clients) == "1:3"


@pytest.mark.parametrize(
    "named",
    [
        *("1:2@5~", "1:2@5~0123456", "1:2@5~012345678", "1:2@5~0123ABCD", "1:2~.01234567"),
        *("1:2~3.01234567", "1:2~0.01234567", "1:2~x.01234567", "1:2~1.2.01234567", "1:0~01234567"),
    ],
)
def test_tokens_with_a_malformed_hash_are_refused(named: str) -> None:
    told = text(clone("one").call(f"CRDT.WAITFOR {named} 0"))
    assert told.startswith("ERR Invalid token: '")
    assert "has no hash of 8 hexadecimal digits" in told
