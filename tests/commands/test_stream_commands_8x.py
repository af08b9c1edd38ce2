"""Redis 8.4 to 8.10: words and shapes, as its documentation and its tests have them.

No server of these versions is at hand to be compared with; what 8.2 has already is compared in
``tests/like_redis/scripts/references.txt``.
"""

import pytest

from crdtstream.core.ids import IdMode
from crdtstream.core.tuning import REDIS_VERSION
from tests.harness.regions import Node
from tests.harness.replies import list_of, of_type
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


STREAM = [
    "length",
    "radix-tree-keys",
    "radix-tree-nodes",
    "last-generated-id",
    "max-deleted-entry-id",
    "entries-added",
    "recorded-first-entry-id",
]
IDEMPOTENT = [
    "idmp-duration",
    "idmp-maxsize",
    "pids-tracked",
    "iids-tracked",
    "iids-added",
    "iids-duplicates",
]
GROUP = ["name", "last-delivered-id", "entries-read", "lag", "pel-count", "pending", "consumers"]


@pytest.mark.parametrize(
    ("announced", "stream", "group"),
    [
        ("7.4.0", STREAM, GROUP),
        ("8.2.3", STREAM, GROUP),
        ("8.5.9", STREAM, GROUP),
        ("8.6.0", [*STREAM, *IDEMPOTENT], GROUP),
        ("8.7.4", [*STREAM, *IDEMPOTENT], GROUP),
        ("8.8.0", [*STREAM, *IDEMPOTENT], [*GROUP, "nacked-count"]),
        ("8.10.1", [*STREAM, *IDEMPOTENT], [*GROUP, "nacked-count"]),
    ],
)
def test_xinfo_has_the_keys_of_the_announced_version(
    announced: str, stream: list[str], group: list[str]
) -> None:
    node = filled()
    node.run("XNACK s g FAIL IDS 1 2")
    REDIS_VERSION.put(node.replica, announced)
    clients = Clients(node.replica)
    assert clients("XINFO STREAM s")[::2] == [*stream, "groups", "first-entry", "last-entry"]
    full = clients("XINFO STREAM s FULL")
    assert full[::2] == [*stream, "entries", "groups"]
    assert full[-1][0][::2] == group
    assert full[-1][0][11] == [["1-0", "a", 1000, 1], ["2-0", "", 0, 1]]
    assert clients("XINFO GROUPS s")[0][::2] == [
        "name",
        "consumers",
        "pending",
        "last-delivered-id",
        "entries-read",
        "lag",
    ]


def test_commands_newer_than_the_announced_version_work() -> None:
    node = filled()
    REDIS_VERSION.put(node.replica, "7.4.0")
    assert node("XNACK s g FAIL IDS 1 2") == 1
    assert node("XDELEX s IDS 1 1") == [1]


def test_crdt_xinfo_tells_the_same_whatever_version_is_announced() -> None:
    node = filled()
    node.run("XNACK s g FAIL IDS 1 2", "XADD s IDMP p 1 * f v")
    replies = []
    for announced in ("7.4.0", "8.10.0"):
        REDIS_VERSION.put(node.replica, announced)
        groups = list_of(dict, node("CRDT.XINFO GROUPS s"))
        replies.append((groups, of_type(dict, node("CRDT.XINFO STREAM s"))))
    assert replies[0] == replies[1]
    (group,), stream = replies[0]
    assert group == {
        "name": "g",
        "consumers": 1,
        "pending": 2,
        "nacked-count": 1,
        "entries-read": 2,
        "lag": 2,
        "undelivered": 2,
        "mode": "at-least-once",
        "home": None,
    }
    assert stream["iids-tracked"] == 1
    assert stream["lanes"] == [
        {
            "region": 1,
            "length": 4,
            "first-id": "1-0",
            "last-id": stream["last-generated-id"],
            "entries-added": 4,
        }
    ]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        *[(text, True) for text in ("7.4.0", "7.4.2", "8.0.0", "8.2.3", "8.10.0", "8.10.12")],
        *[(text, False) for text in ("7.2.9", "8.11.0", "9.0.0", "8.2", "8.2.3.1", "8.2.x", "")],
        *[(text, False) for text in (" 8.2.3", "8.2.3\n", "-8.2.3", "٨.2.3")],
    ],
)
def test_versions_that_can_be_announced(text: str, is_one: bool) -> None:
    assert REDIS_VERSION.takes(text) is is_one


def test_strict_mode_takes_them_too() -> None:
    node = Node(3, IdMode.STRICT)
    first = node("XADD s IDMP p a * f v")
    assert node("XADD s IDMP p a * f other") == first == "1000-3"
    assert node("XDELEX s IDS 1 1000-3") == [1]
