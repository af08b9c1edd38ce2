"""An idempotent message that was deleted with its key, and comes again from another region."""

from tests.harness.regions import Node, sync

ADD = "XADD x IDMP p a * f v"


def deleted_while_another_comes() -> tuple[Node, Node]:
    """Region 1 appended the message and deleted its key; region 2 appends it, unaware of both."""
    r1, r2 = Node(1), Node(2)
    r1.run(ADD)
    r1.run("DEL x")
    r2.run(ADD)
    return r1, r2


def test_a_retry_is_a_new_entry_if_all_that_had_its_id_went_with_the_key() -> None:
    r1, r2 = deleted_while_another_comes()
    sync(r1, r2)
    for node in (r1, r2):
        assert node("XLEN x") == 0
    r1.now += 1
    again = r1.run(ADD)
    sync(r1, r2)
    assert [node("XRANGE x - +") for node in (r1, r2)] == [[again]] * 2


def test_a_retry_is_taken_for_what_was_appended_since() -> None:
    r1, r2 = deleted_while_another_comes()
    r1.now += 1
    again = r1.run(ADD)
    r1.pull(r2)
    assert r1.run(ADD) == again


def test_a_retry_is_taken_for_the_last_of_several() -> None:
    """Two stayed, as the window had forgotten the first; region 3 deletes the first alone."""
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run(ADD)
    r3.pull(r1)
    r1.run("XCFGSET x IDMP-DURATION 1")
    r1.now += 2000
    second = r1.run(ADD)
    r2.run(ADD)
    r3.run("DEL x")
    r1.pull(r2)
    r1.pull(r3)
    assert r1("XRANGE x - +") == [second]
    assert r1.run(ADD) == second


def test_a_message_that_gave_way_to_one_that_gave_way_is_recognised_no_more() -> None:
    """Region 1's went with its key; region 2's gave way to it, and region 3's to region 2's."""
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run(ADD)
    r1.run("DEL x")
    r3.pull(r1)
    r3.now += 1
    r3.run(ADD)
    r2.run(ADD)
    r3.pull(r2)
    assert r3("XLEN x") == 0
    r3.now += 1
    again = r3.run(ADD)
    assert r3("XRANGE x - +") == [again]


def test_a_checkpoint_has_what_a_delete_took() -> None:
    r1, r2 = deleted_while_another_comes()
    r1.cut()
    r1.checkpoints.finish(r1.replica)
    r1.restart()
    r1.pull(r2)
    r1.now += 1
    assert r1.run(ADD) == f"{r1.now}-1"
