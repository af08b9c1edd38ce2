"""Tokens and cursors of a region that went on in another folder (rule 18): what an earlier folder
had and this one has not is LOST, though its numbers were given again."""

import re

import pytest

from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Begin, Lineage
from crdtstream.core.membership.lost import removed_ends
from crdtstream.database.database import WAITING
from tests.harness.clients import Clients
from tests.harness.regions import Node, plain

R1 = RegionId(1)
FIRST = Begin(1000, b"first folder....", 0)
SECOND = Begin(2000, b"second folder...", 2)
LOST = (
    "LOST region 1 goes on in another folder, which began after its effect 2; of its effects 3…"
    " nothing exists"
)


def clients_of(*begins: Begin, entries: int = 4) -> Clients:
    """A region that began so, and has these entries."""
    clients = Clients(Node(1))
    for n in range(1, entries + 1):
        clients.write(f"XADD x {n}-1 f v")
    lineage = Lineage()
    for begin in begins:
        lineage = lineage.begun(begin)
    if begins:
        clients.node.replica.lineages = {R1: lineage}
    return clients


def served(clients: Clients) -> list[object]:
    """The answers of who was waiting, once the folder knows more of incarnations."""
    return [plain(reply) for _, reply in clients.database.serve_all(Millis(clients.node.now))]


def answer_of(clients: Clients, line: str) -> object:
    """The reply, without the hashes in it."""
    answer = clients.call(line)
    return answer.text if isinstance(answer, CommandError) else unhashed(answer)


def unhashed(answer: object) -> object:
    if isinstance(answer, list):
        return [unhashed(one) for one in answer]
    return re.sub("~[.0-9a-f]+", "", answer) if isinstance(answer, str) else answer


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("CRDT.TOKEN", "1:4@2000"),
        # Of the folder before: 1:1 and 1:2 are here, and 1:3 is another effect.
        ("CRDT.WAITFOR 1:2@1000 0", 1),
        ("CRDT.WAITFOR 1:3@1000 0", LOST),
        ("CRDT.WAITFOR 1:99@1000 10", LOST),
        ("CRDT.WAITFOR 1:4@2000 0", 1),
        # As a person writes it: of the first one.
        ("CRDT.WAITFOR 1:2 0", 1),
        ("CRDT.WAITFOR 1:3 0", LOST),
        ("CRDT.XREAD x 1:3@1000", LOST),
        ("CRDT.XREAD x 1:3@1000 BLOCK 0", LOST),
        ("CRDT.XREAD x 1:2@1000", ["1:4@2000", ["3-1", "4-1"]]),
        ("CRDT.XREAD x 1:2 COUNT 1", ["1:3@2000", ["3-1"]]),
        ("CRDT.XREAD x 1:4@2000", ["1:4@2000", []]),
        ("CRDT.XREAD x $", ["1:4@2000", []]),
        ("CRDT.XREAD x 0 COUNT 1", ["1:1@2000", ["1-1"]]),
        # An incarnation that nobody here knows: a restore of the same backup, and of no more.
        ("CRDT.WAITFOR 1:1@1500 0", LOST.replace("effect 2", "effect 0").replace("3…", "1…")),
    ],
)
def test_effects_of_an_earlier_folder_are_lost(line: str, reply: object) -> None:
    assert answer_of(clients_of(FIRST, SECOND), line) == reply


def test_in_a_first_incarnation_tokens_are_numbers_alone() -> None:
    """And their hashes."""
    clients = clients_of(FIRST)
    assert answer_of(clients, "CRDT.TOKEN") == "1:4"
    assert clients.call("CRDT.WAITFOR 1:4 0") == 1
    assert clients.call("CRDT.WAITFOR 1:4@1000 0") == 1
    clients.node.replica.lineages = {R1: Lineage().begun(FIRST).begun(SECOND)}
    assert answer_of(clients, "CRDT.WAITFOR 1:4 0") == LOST


def test_without_incarnations_tokens_are_as_they_were() -> None:
    clients = clients_of()
    assert clients.call("CRDT.TOKEN") == "1:4"
    assert clients.call("CRDT.WAITFOR 1:4 0") == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("CRDT.WAITFOR 1:2@3000 0", 1),
        ("CRDT.XREAD x 1:2@3000 BLOCK 0", ["1:4@3000", ["3-1", "4-1"]]),
    ],
)
def test_an_incarnation_that_is_not_known_here_is_waited_for(line: str, told: object) -> None:
    """The numbers are here, and may be of other effects."""
    clients = clients_of(FIRST, SECOND)
    assert clients.call(line) is WAITING
    replica = clients.node.replica
    replica.lineages = {R1: replica.lineages[R1].begun(Begin(3000, b"third folder....", 4))}
    assert [unhashed(one) for one in served(clients)] == [told]


def test_a_cursor_of_an_unknown_incarnation_stays_as_it_is() -> None:
    assert clients_of(FIRST).call("CRDT.XREAD x 1:2@3000") == ["1:2@3000", []]


def test_a_waiting_token_is_lost_when_its_incarnation_ends() -> None:
    clients = clients_of(FIRST, entries=2)
    assert clients.call("CRDT.WAITFOR 1:3@1000 0") is WAITING
    replica = clients.node.replica
    replica.lineages = {R1: replica.lineages[R1].begun(SECOND)}
    (answer,) = served(clients)
    assert isinstance(answer, CommandError)
    assert answer.text == LOST


def test_of_a_removed_region_its_cut_is_the_end() -> None:
    """In whatever folder it was; what had ended before is lost from there on."""
    clients = clients_of(FIRST, SECOND)
    clients.node.replica.ends = removed_ends({R1: 4})
    assert "was removed" in str(answer_of(clients, "CRDT.WAITFOR 1:5@2000 0"))
    assert clients.call("CRDT.WAITFOR 1:4@2000 0") == 1
    assert answer_of(clients, "CRDT.WAITFOR 1:4@1000 0") == LOST


@pytest.mark.parametrize(
    "text", ["1:2@", "1:2@-1", "1:2@x", "1:2@1@2", "1@2:2", "1:2@9223372036854775808"]
)
def test_tokens_with_a_malformed_incarnation_are_refused(text: str) -> None:
    answer = answer_of(clients_of(FIRST), f"CRDT.WAITFOR {text} 0")
    assert str(answer).startswith("ERR Invalid token")
