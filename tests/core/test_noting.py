"""Notifications of what other regions did, by what it changed here; and of nothing else.

What commands of this region notify is compared with Redis in ``like_redis/scripts/node``.
"""

from itertools import product

import pytest

from crdtstream.core.notifications import (
    ALL,
    CLASS_OF,
    Notification,
    parse_classes,
    shown_classes,
    whole_text,
)
from tests.harness.regions import Node, nodes_of, sync


def noting(*regions: int) -> list[Node]:
    nodes = nodes_of(*regions)
    for node in nodes:
        node.replica.begin_noting()
    return nodes


def noted(node: Node) -> list[str]:
    """``name key`` of each since the last call."""
    return [f"{name.decode()} {key.decode()}" for name, key in node.replica.take_noted()]


# --- Effects of other regions -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "lines", "told"),
    [
        ([], ["XADD s 5-1 a 1"], ["new s", "xadd s"]),
        (["XADD s 5-1 a 1"], ["XADD s 6-1 a 1", "XADD s 7-1 a 1"], ["xadd s", "xadd s"]),
        (["XADD s 5-1 a 1"], ["XDEL s 5-1"], ["xdel s"]),
        (["XADD s 5-1 a 1"], ["XTRIM s MAXLEN 0"], ["xtrim s"]),
        (["XADD s 5-1 a 1"], ["XTRIM s MAXLEN 0 DELREF"], ["xtrim s"]),
        (["XADD s 5-1 a 1"], ["DEL s"], ["del s"]),
        (["XADD s 5-1 a 1"], ["XSETID s 9-1"], ["xsetid s"]),
        (["XADD s 5-1 a 1"], ["EXPIRE s 100"], ["expire s"]),
        (["XADD s 5-1 a 1", "EXPIRE s 100"], ["PERSIST s"], ["persist s"]),
        ([], ["XGROUP CREATE s g 0 MKSTREAM"], ["new s", "xgroup-create s"]),
        (["XADD s 5-1 a 1", "XGROUP CREATE s g 0"], ["XGROUP DESTROY s g"], ["xgroup-destroy s"]),
        (
            ["XGROUP CREATE s g 0 MKSTREAM"],
            ["XGROUP DESTROY s g"],
            ["xgroup-destroy s", "del s"],
        ),
        ([], ["SET k v"], ["new k", "set k"]),
        (["SET k v"], ["SET k w EX 9"], ["overwritten k", "set k", "expire k"]),
        (["SET k v"], ["EXPIRE k 100"], ["expire k"]),
        (["SET k v EX 100"], ["PERSIST k"], ["persist k"]),
        (["SET k v"], ["DEL k"], ["del k"]),
        # A region hears of effects, not of commands.
        (["SET k v"], ["RENAME k l"], ["del k", "new l", "set l"]),
        (["SET k v"], ["FLUSHALL"], ["del k"]),
        ([], ["INCR k"], ["new k", "incrby k"]),
        (["SET k 1"], ["DECRBY k 5"], ["incrby k"]),
        (["INCR k"], ["SET k 1"], ["overwritten k", "set k"]),
        (["INCR k"], ["EXPIRE k 100"], ["expire k"]),
        (["INCR k"], ["DEL k"], ["del k"]),
        (
            ["XADD s 5-1 a 1", "XADD s 6-1 a 1"],
            ["RENAME s t"],
            ["del s", "new t", "xadd t", "xadd t", "xsetid t"],
        ),
        (["SET k v", "XADD s 5-1 a 1"], ["SET s v"], ["del s", "new s", "set s"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_effects_of_another_region_are_noted_where_they_are_applied(
    before: list[str], lines: list[str], told: list[str]
) -> None:
    one, other = noting(1, 2)
    for line in before:
        other.run(line)
    one.pull(other)
    noted(one)
    for line in lines:
        other.run(line)
    one.pull(other)
    assert noted(one) == told


def test_an_expired_stream_and_string_of_another_region_are_noted_as_expired() -> None:
    one, other = noting(1, 2)
    other.run("XADD s 5-1 a 1", "PEXPIRE s 10", "SET k v PX 10")
    one.pull(other)
    noted(one)
    noted(other)
    for node in (one, other):
        node.now += 20
    other.expire()
    assert sorted(noted(other)) == ["expired k", "expired s"]
    one.expire()
    assert noted(one) == [], "the region that set the deadline deletes the key"
    one.pull(other)
    assert sorted(noted(one)) == ["expired k", "expired s"]


def test_an_effect_that_changes_nothing_here_is_not_noted() -> None:
    one, other = noting(1, 2)
    other.run("XADD s 5-1 a 1", "SET k v")
    one.pull(other)
    one.run("XDEL s 5-1", "DEL k")
    other.run("XDEL s 5-1", "DEL k")
    noted(one)
    one.pull(other)
    assert noted(one) == []


def test_a_key_that_outlives_a_delete_is_noted_as_having_fewer_entries() -> None:
    one, other = noting(1, 2)
    other.run("XADD s 5-1 a 1")
    one.pull(other)
    one.run("XADD s 6-1 b 2")
    other.run("DEL s")
    noted(one)
    one.pull(other)
    assert noted(one) == ["xdel s"]


def test_a_string_that_loses_to_a_concurrent_one_is_not_noted() -> None:
    one, other = noting(1, 2)
    one.run("SET k mine")
    other.run("SET k theirs")
    noted(one)
    noted(other)
    sync(one, other)
    assert one("GET k") == "mine"
    assert noted(one) == []
    assert noted(other) == ["overwritten k", "set k"]


def test_additions_to_a_number_that_a_concurrent_set_replaced_are_not_noted() -> None:
    one, other = noting(1, 2)
    one.run("SET k 1")
    sync(one, other)
    one.run("SET k 100")
    other.run("INCR k")
    noted(one)
    noted(other)
    sync(one, other)
    assert one("GET k") == "100"
    assert noted(one) == []
    assert noted(other) == ["overwritten k", "set k"]


def test_a_retry_that_gives_way_to_the_same_message_is_not_noted() -> None:
    one, other = noting(1, 2)
    for node in (one, other):
        node.run("XADD s IDMP p 1 * a 1")
    assert noted(one) == noted(other) == ["new s", "xadd s"]
    sync(one, other)
    assert one("XLEN s") == 1
    assert noted(one) == [], "the lower dot stays, and is known here"
    assert noted(other) == ["xadd s"]


def test_consumers_and_positions_are_noted_in_their_region_only() -> None:
    one, other = noting(1, 2)
    other.run("XADD s 5-1 a 1", "XGROUP CREATE s g 0")
    one.pull(other)
    noted(one)
    noted(other)
    other.run("XREADGROUP GROUP g c STREAMS s >", "XGROUP SETID s g 0", "XGROUP DELCONSUMER s g c")
    assert noted(other) == ["xgroup-createconsumer s", "xgroup-setid s", "xgroup-delconsumer s"]
    one.pull(other)
    assert noted(one) == []


# --- When nothing is noted ----------------------------------------------------------------------


def test_without_being_asked_a_replica_notes_nothing_and_calls_the_issuer_itself() -> None:
    [node] = nodes_of(1)
    issuer = node.replica._issuer
    assert node.replica.append == issuer.append
    node.replica.begin_noting()
    assert node.replica.append != issuer.append
    node.run("XADD s 5-1 a 1")
    node.replica.end_noting()
    assert node.replica.append == issuer.append
    assert noted(node) == []


def test_a_state_that_is_taken_over_and_a_restart_are_not_noted() -> None:
    one, other = noting(1, 2)
    other.run("XADD s 5-1 a 1", "SET k v")
    one.merge(other)
    assert one("XLEN s") == 1
    assert noted(one) == []
    one.run("SET l v")
    one.restart()
    one.replica.begin_noting()
    assert one("GET l") == "v"
    assert noted(one) == []


def test_a_command_that_fails_announces_nothing() -> None:
    [node] = noting(1)
    node.run("XADD s 5-1 a 1")
    noted(node)
    with (
        pytest.raises(ValueError, match="broken"),
        node.replica.announcing(Notification(b"del", b"s")),
    ):
        raise ValueError("broken")
    node.run("XADD s 6-1 a 1")
    assert noted(node) == ["xadd s"]


def test_announced_notifications_replace_those_of_the_effects() -> None:
    [node] = noting(1)
    with node.replica.announcing(Notification(b"restore", b"s")):
        node("XADD s 5-1 a 1")
        with node.replica.announcing(Notification(b"copy_to", b"s")):
            node("XADD s 6-1 a 1")
    assert noted(node) == ["restore s"]


def test_a_trial_notes_nothing() -> None:
    """A transaction that looks ahead runs its commands twice."""
    [node] = noting(1)
    node.run("SET k v")
    noted(node)
    with node.replica.on_trial(), node.replica.announcing(Notification(b"del", b"k")):
        pass
    assert noted(node) == []
    node.run("XADD s 5-1 a 1")
    assert noted(node) == ["new s", "xadd s"], "it notes again after the trial"


# --- Classes ------------------------------------------------------------------------------------


def test_the_configuration_file_keeps_what_config_get_leaves_out() -> None:
    letters = ["A", "g$", "o", "c", "n", "KE", "m"]
    for chosen in product(*(("", letter) for letter in letters)):
        classes = parse_classes("".join(chosen))
        assert classes is not None
        assert parse_classes(whole_text(classes)) == classes
        shown = parse_classes(shown_classes(classes))
        assert shown is not None
        assert shown <= classes


def test_every_name_has_a_class_that_can_be_asked_for() -> None:
    assert all(parse_classes(one) == frozenset(one) for one in CLASS_OF.values())
    assert {"g", "$", "x", "t"} <= set(ALL)
