"""A region of whose state every image says something in each of its fields."""

from tests.harness.members import decide, members
from tests.harness.regions import Node, sync
from tests.membership.world import renamed
from tests.rules.test_convergence import append_rows


def known() -> Node:
    """Commands of two regions, as far as they take; a field that is new wants more of them."""
    r1, r2 = members(2)
    # A floor below what is appended, and a group that keeps it.
    r1.run("XADD x 5 f v", "PEXPIRE x 10", "INCR some")
    r2.run("XADD other 1 f v")
    sync(r1, r2)
    for node in (r1, r2):
        node.now += 20
    r1.expire()
    sync(r1, r2)
    # Entries, what was lost and removed of them, registers.
    r1.run(*[f"XADD x {ms} f v" for ms in range(11, 31)], "XTRIM x MAXLEN 18", "XDEL x 15")
    # Rows that are causally stable; the group keeps the floor.
    r1.run("XGROUP CREATE x e 0", "XREADGROUP GROUP e c COUNT 1 STREAMS x >")
    append_rows(r1, 1, 1, 3)
    r1.end_tick()
    r1.replica.forget_stable(dict(r1.replica.vv))
    r1.run("PEXPIRE x 100000", "XCFGSET x IDMP-DURATION 50 IDMP-MAXSIZE 60")
    # What is gone, with tombstones; strings.
    r1.run("XADD d 1 f v", "XADD d IDMP p a * f v", "SET s v PX 90000", "SET t v")
    r1.run("DEL d")
    # Counters: added to a value, taken in part, taken as a whole.
    r1.run("SET n 5 PX 90000", "INCR n", "INCR all", "DEL all", "INCR some")
    r2.run("DEL some")
    r1.run("XGROUP CREATE x k 0", "XGROUP DESTROY x k")
    # Producers: retries, concurrent appends of one message, numbered rows.
    r1.run(*["XADD x IDMP p a * f v"] * 2)
    r2.run("XADD x IDMP p b * f v")
    r1.run("XADD x IDMP p b * f v")
    append_rows(r1, 2, 1, 3)
    r1.end_tick()
    # A group: read, acknowledged, jumped, set back, given back, with a home.
    r1.run("XGROUP CREATE x g 12 ENTRIESREAD 2")
    r1.run("XREADGROUP GROUP g c COUNT 4 STREAMS x >")
    r1.run("XACK x g 13 14")
    r1.run("XGROUP SETID x g 20 ENTRIESREAD 9", "XREADGROUP GROUP g c COUNT 4 STREAMS x >")
    r1.run("XACK x g 21 22")
    r1.run("XNACK x g FAIL IDS 1 23", "XGROUP SETID x g 21 ENTRIESREAD 7")
    r1.run("XREADGROUP GROUP g c COUNT 1 STREAMS x >")
    r1.run("CRDT.XGROUP SETMODE x g HOME 1")
    # A home that went elsewhere, with what it had read.
    r1.run("XGROUP CREATE x w 0", "XREADGROUP GROUP w c COUNT 6 STREAMS x >", "XACK x w 12")
    r1.run("CRDT.XGROUP SETMODE x w HOME 1", "XGROUP SETID x w 25")
    r1.run("XREADGROUP GROUP w c COUNT 2 STREAMS x >", "XACK x w 26")
    r1.run("XGROUP SETID x w 20 ENTRIESREAD 7")
    r1.run("CRDT.XGROUP SETMODE x w HOME 2")
    # Pending entries with high IDs: far beyond the first day, and with a long sequence.
    for key, entry_id in (("far", "3000000000-1"), ("long", "5-4294967296")):
        r1.run(f"XADD {key} {entry_id} f v", f"XGROUP CREATE {key} g 0")
        r1.run(f"XREADGROUP GROUP g c STREAMS {key} >")
    # One whose position says something, as its home is nowhere.
    r1.run("XGROUP CREATE x m 20 ENTRIESREAD 2", "XGROUP SETID x m 22 ENTRIESREAD 3")
    r1.run("CRDT.XGROUP SETMODE x m HOME 2", "CRDT.XGROUP SETMODE x m HOME 1 FORCE")
    # One that begins lower elsewhere.
    r1.run("XGROUP CREATE x h 20", "XREADGROUP GROUP h c COUNT 4 STREAMS x >")
    r2.run("XGROUP CREATE x h 0 MKSTREAM")
    r1.pull(r2)
    # Members that were decided.
    decide(r1, renamed(1, "eu"))
    return r1
