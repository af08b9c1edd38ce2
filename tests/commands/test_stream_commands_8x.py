"""Redis 8.4 to 8.10: words and shapes, as its documentation and its tests have them.

No server of these versions is at hand to be compared with; what 8.2 has already is compared in
``tests/like_redis/scripts/references.txt``.
"""

import pytest

from crdtstream.core.ids import IdMode
from tests.harness.regions import Node
from tests.harness.waiting_clients import Clients

READ = "XREADGROUP GROUP g c"
UNBALANCED = (
    "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be "
    "specified."
)

ERRORS = [
    # XADD IDMP
    ("XADD s IDMP p1 * f v", "ERR Invalid stream ID specified as stream command argument"),
    ("XADD s IDMP p1 a 1-1 f v", "ERR IDMP/IDMPAUTO can be used only with auto-generated IDs"),
    ("XADD s IDMP p1 a 1-* f v", "ERR IDMP/IDMPAUTO can be used only with auto-generated IDs"),
    ("XADD s IDMP p1 a IDMP p2 b * f v", "ERR IDMP/IDMPAUTO specified multiple times"),
    ("XADD s IDMPAUTO p1 IDMP p2 b * f v", "ERR IDMP/IDMPAUTO specified multiple times"),
    ("XADD s IDMP '' a * f v", "ERR IDMP requires a non-empty producer ID"),
    ("XADD s IDMP p1 '' * f v", "ERR IDMP requires a non-empty idempotent ID"),
    ("XADD s IDMPAUTO '' * f v", "ERR IDMPAUTO requires a non-empty producer ID"),
    ("XADD s IDMP p1 a * f", "ERR wrong number of arguments for 'xadd' command"),
    # XCFGSET
    (
        "XCFGSET s",
        "ERR At least one parameter must be specified: IDMP-DURATION or IDMP-MAXSIZE",
    ),
    ("XCFGSET s IDMP-DURATION", "ERR syntax error"),
    ("XCFGSET s FOO 1", "ERR syntax error"),
    ("XCFGSET s IDMP-DURATION 000", "ERR value is not an integer or out of range"),
    ("XCFGSET s IDMP-DURATION 3.14", "ERR value is not an integer or out of range"),
    ("XCFGSET s IDMP-DURATION x IDMP-MAXSIZE", "ERR value is not an integer or out of range"),
    ("XCFGSET s IDMP-DURATION 0", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
    ("XCFGSET s IDMP-DURATION 86401", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
    ("XCFGSET s IDMP-MAXSIZE -1", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
    ("XCFGSET s IDMP-MAXSIZE 10001", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
    ("XCFGSET none IDMP-MAXSIZE 5", "ERR no such key"),
    # CLAIM
    *(
        (f"{READ} CLAIM {text} STREAMS s >", "ERR min-idle-time is not an integer")
        for text in ("test", "5.5", "+10", "-0", "-5.5", "10e")
    ),
    (f"{READ} CLAIM -10 STREAMS s >", "ERR min-idle-time must be a positive integer"),
    (f"{READ} CLAIM STREAMS s >", "ERR min-idle-time is not an integer"),
    ("XREADGROUP CLAIM GROUP g c STREAMS s >", "ERR min-idle-time is not an integer"),
    ("XREADGROUP GROUP g CLAIM 50 c STREAMS s >", "ERR syntax error"),
    (
        f"{READ} STREAMS s CLAIM >",
        UNBALANCED,
    ),
    (
        f"{READ} STREAMS s > CLAIM 50",
        "ERR Invalid stream ID specified as stream command argument",
    ),
    (
        f"{READ} STREAMS s CLAIM 0 >",
        "NOGROUP No such key 'CLAIM' or consumer group 'g' in XREADGROUP with GROUP option",
    ),
    (
        "XREAD COUNT 2 CLAIM 10 STREAMS s 0",
        "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
    ),
    # MAXCOUNT, MAXSIZE
    *(
        (f"{read} {option} {value} STREAMS s 0", f"ERR {option} must be a positive integer")
        for read in ("XREAD", READ)
        for option in ("MAXCOUNT", "MAXSIZE")
        for value in ("0", "-1", "x")
    ),
    (
        "XREAD MAXCOUNT 2 COUNT 3 STREAMS s 0",
        "ERR MAXCOUNT must be greater than or equal to COUNT",
    ),
    ("XREAD MAXCOUNT STREAMS s 0", "ERR MAXCOUNT must be a positive integer"),
    # XNACK
    ("XNACK s g SILENT IDS 1", "ERR wrong number of arguments for 'xnack' command"),
    ("XNACK none g SILENT IDS 1 1", "NOGROUP No such key 'none' or consumer group 'g'"),
    ("XNACK s none BAD IDS 1 1", "NOGROUP No such key 's' or consumer group 'none'"),
    ("XNACK s g BAD IDS 1 1", "ERR mode must be SILENT, FAIL, or FATAL"),
    ("XNACK s g FAIL FATAL IDS 1 1", "ERR Unrecognized XNACK option 'FATAL'"),
    ("XNACK s g SILENT NOTIDS 1 1", "ERR Unrecognized XNACK option 'NOTIDS'"),
    ("XNACK s g FAIL IDS 1 1 2", "ERR Unrecognized XNACK option '2'"),
    ("XNACK s g FAIL IDS 1 1 RETRYCOUNT", "ERR Unrecognized XNACK option 'RETRYCOUNT'"),
    ("XNACK s g SILENT FORCE RETRYCOUNT 5", "ERR syntax error, expected IDS keyword"),
    ("XNACK s g SILENT IDS abc 1", "ERR numids must be a positive integer"),
    ("XNACK s g SILENT IDS 0 1", "ERR numids must be a positive integer"),
    ("XNACK s g SILENT IDS 2 1", "ERR number of IDs doesn't match numids"),
    ("XNACK s g FAIL IDS 1 bad", "ERR Invalid stream ID specified as stream command argument"),
    ("XNACK s g FAIL IDS 1 1 RETRYCOUNT x", "ERR value is not an integer or out of range"),
    ("XNACK s g FAIL IDS 1 1 RETRYCOUNT -1", "ERR Invalid RETRYCOUNT value, must be >= 0"),
]


def filled() -> Node:
    """Three entries in s; two of them are pending for a in group g."""
    node = Node(1)
    node.run(
        *(f"XADD s {ms} f v{ms}" for ms in (1, 2, 3)),
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g a COUNT 2 STREAMS s >",
    )
    return node


@pytest.mark.parametrize(("line", "error"), ERRORS)
def test_an_error_in_redis_words_changes_nothing(line: str, error: str) -> None:
    node = filled()
    before = node("XINFO STREAM s FULL")
    assert node(line) == error
    assert not node.replica.has_open_record
    assert node("XINFO STREAM s FULL") == before


def test_xinfo_stream_gains_fields_before_groups() -> None:
    clients = Clients(filled().replica)
    reply = clients("XINFO STREAM s")
    assert reply[::2] == [
        "length",
        "radix-tree-keys",
        "radix-tree-nodes",
        "last-generated-id",
        "max-deleted-entry-id",
        "entries-added",
        "recorded-first-entry-id",
        "idmp-duration",
        "idmp-maxsize",
        "pids-tracked",
        "iids-tracked",
        "iids-added",
        "iids-duplicates",
        "groups",
        "first-entry",
        "last-entry",
    ]
    assert reply[15:26:2] == [100, 100, 0, 0, 0, 0]


def test_xinfo_stream_full_has_thirty_elements_and_groups_end_in_the_new_ones() -> None:
    clients = Clients(filled().replica)
    clients("XNACK s g FAIL IDS 1 2")
    reply = clients("XINFO STREAM s FULL")
    assert len(reply) == 30
    assert reply[26::2] == ["entries", "groups"]
    (group,) = reply[29]
    assert group[::2] == [
        "name",
        "last-delivered-id",
        "entries-read",
        "lag",
        "pel-count",
        "pending",
        "consumers",
        "nacked-count",
        "undelivered",
    ]
    assert group[-4:] == ["nacked-count", 1, "undelivered", 1]
    assert group[11] == [["1-0", "a", 1000, 1], ["2-0", "", 0, 1]]


def test_xinfo_groups_ends_in_undelivered() -> None:
    clients = Clients(filled().replica)
    (group,) = clients("XINFO GROUPS s")
    assert group[-4:] == ["lag", 1, "undelivered", 1]
    clients("XDEL s 3")
    (group,) = clients("XINFO GROUPS s")
    assert group[-2:] == ["undelivered", 0]


def test_strict_mode_takes_them_too() -> None:
    node = Node(3, IdMode.STRICT)
    first = node("XADD s IDMP p a * f v")
    assert node("XADD s IDMP p a * f other") == first == "1000-3"
    assert node("XDELEX s IDS 1 1000-3") == [1]
