"""The format of scenario files: the notation of replies, and errors that name line and key."""

import pytest

from crdtstream.core.ids import IdMode, RegionId
from crdtstream.scenario.expected import NotationError, parse_expected, satisfies
from crdtstream.scenario.markdown import markdown
from crdtstream.scenario.parse import ScenarioError, parse
from crdtstream.scenario.replies import WAITING, Answer, ErrorReply, ReplyReader, show
from crdtstream.scenario.rows import Calls, Crash, Heal, Partition, Restart, Skew, Sync, Wait

ENTRIES: Answer = [[b"110-1", [b"f1", b"v1"]], [b"120-1", [b"f1", b"v1"]]]
GROUPS: Answer = [[b"name", b"mygroup", b"consumers", 2], [b"name", b"other", b"consumers", 0]]


@pytest.mark.parametrize(
    ("expected", "command", "answer"),
    [
        ("OK", "XGROUP CREATE x g 0", b"OK"),
        ("3", "XLEN x", 3),
        ("-1", "XLEN x", -1),
        ('"3"', "GET x", b"3"),
        ("'a b'", "GET x", b"a b"),
        ("a b", "GET x", b"a b"),
        ("nil", "XREAD STREAMS x 0", None),
        ("any", "XLEN x", 5),
        ("any", "XLEN x", None),
        ("waits", "XREAD BLOCK 0 STREAMS x $", WAITING),
        ("error BUSYGROUP", "XGROUP CREATE x g 0", ErrorReply("BUSYGROUP Consumer Group name")),
        ("error", "XGROUP CREATE x g 0", ErrorReply("ERR whatever")),
        ("[110-1, 120-1]", "XRANGE x - +", ENTRIES),
        ("[110-1, 120-1]", "xrevrange x + -", ENTRIES),
        ("[110-1, ...]", "XRANGE x - +", ENTRIES),
        ("[any, 120-1]", "XRANGE x - +", ENTRIES),
        ("[110-1, 120-1]", "XREAD STREAMS x 0", [[b"x", ENTRIES]]),
        ("[110-1, 120-1]", "XREADGROUP GROUP g c STREAMS x >", [[b"x", ENTRIES]]),
        ("[]", "XREADGROUP GROUP g c STREAMS x 0", [[b"x", []]]),
        ("[[x, []]]", "XREADGROUP GROUP g c STREAMS x 0", [[b"x", []]]),
        ("[[x, [[110-1, nil]]]]", "XREADGROUP GROUP g c STREAMS x 0", [[b"x", [[b"110-1", None]]]]),
        ("[110-1]", "XPENDING x g - + 1", [[b"110-1", b"Alice", 4, 1]]),
        ("[[110-1, Alice, any, 1]]", "XPENDING x g - + 1", [[b"110-1", b"Alice", 4, 1]]),
        ("[0, nil, nil, nil]", "XPENDING x g", [0, None, None, None]),
        ("[110-1]", "XCLAIM x g c 0 110-1 JUSTID", [b"110-1"]),
        ("[110-1, 120-1]", "XAUTOCLAIM x g c 0 0", [b"0-0", ENTRIES, []]),
        ("[mygroup, other]", "XINFO GROUPS x", GROUPS),
        ("[{consumers=2}, {name=other, consumers=0}]", "XINFO GROUPS x", GROUPS),
        ("{length=2}", "XINFO STREAM x", [b"length", 2, b"groups", 0]),
        ("[1, OK, [a, [b]]]", "EXEC", [1, b"OK", [b"a", [b"b"]]]),
        ("[error ERR, 1]", "EXEC", [ErrorReply("ERR x"), 1]),
        ('["say \\"hi\\"", "a,b"]', "EXEC", [b'say "hi"', b"a,b"]),
    ],
)
def test_expectations_that_hold(expected: str, command: str, answer: Answer) -> None:
    assert satisfies(parse_expected(expected), answer, command.split())


@pytest.mark.parametrize(
    ("expected", "command", "answer"),
    [
        ("3", "XLEN x", b"3"),
        ('"3"', "XLEN x", 3),
        ("nil", "XREAD STREAMS x 0", []),
        ("[]", "XREAD STREAMS x 0", None),
        ("[]", "XRANGE x - +", ErrorReply("ERR x")),
        ("any", "XLEN x", ErrorReply("ERR x")),
        ("any", "XREAD BLOCK 0 STREAMS x $", WAITING),
        ("waits", "XREAD BLOCK 0 STREAMS x $", None),
        ("OK", "PING", ErrorReply("OK")),
        ("error NOGROUP", "XLEN x", b"NOGROUP"),
        ("[110-1]", "XRANGE x - +", ENTRIES),
        ("[120-1, 110-1]", "XRANGE x - +", ENTRIES),
        ("[110-1, 120-1, ...]", "XRANGE x - +", [[b"110-1", []]]),
        ("[[110-1, [f1, v2]], any]", "XRANGE x - +", ENTRIES),
        ("[110-1, 120-1]", "LRANGE x 0 -1", ENTRIES),
        ("{length=3}", "XINFO STREAM x", [b"length", 2]),
        ("{missing=2}", "XINFO STREAM x", [b"length", 2]),
        ("[mygroup]", "XINFO GROUPS x", GROUPS),
    ],
)
def test_expectations_that_do_not_hold(expected: str, command: str, answer: Answer) -> None:
    assert not satisfies(parse_expected(expected), answer, command.split())


@pytest.mark.parametrize("text", ["", "[", "[a", "[a b]", "[a]]", "{a}", "{=1}", "[,]", '"a', "{}"])
def test_bad_notation_is_refused(text: str) -> None:
    with pytest.raises(NotationError):
        parse_expected(text)


@pytest.mark.parametrize(
    "answer",
    [None, 3, b"3", b"OK", b"", b'a "b"', [b"110-1", [b"f", 1, None]], [[]], b"any", b"a\nb"],
)
def test_replies_shown_in_a_table_can_be_copied_into_a_file(answer: Answer) -> None:
    assert satisfies(parse_expected(show(answer)), answer, ["EXEC"])


def test_replies_are_what_a_client_parses() -> None:
    reader = ReplyReader()
    reader.feed(b"*3\r\n:1\r\n$-1\r\n-ERR x\r\n+OK\r\n*-1\r\n$2")
    assert [reader.next() for _ in range(4)] == [
        [1, None, ErrorReply("ERR x")],
        b"OK",
        None,
        WAITING,
    ]


# --- Files ------------------------------------------------------------------------------------

FULL = """\
about: All there is.
source: this test
regions: {r1: 1, "Region 2": 7}
settings: {id_mode: semi-strict, mkstream: implicit}
simulator only: clocks move
rows:
  - t: noon
    at: {r1: 1600000000000}
    explain: two remarks
    r1:
      - XADD x 110 "a field" v      -> 110-1
      - (alice) XREAD BLOCK 0 STREAMS x $ -> waits
    Region 2: DEL x
  - sync
  - sync: [r1, Region 2]
  - sync:
    explain: all
  - partition: [[r1, Region 2]]
  - heal
  - crash: r1
  - restart: r1
  - skew: {r1: -5000, Region 2: +5000}
  - wait: 20
  - at: 1600000000001
  - r1: (alice) -> nil
"""


def test_everything_that_a_file_can_say() -> None:
    script = parse(FULL)
    steps = [row.step for row in script.rows]
    first = steps[0]

    assert script.columns == {"r1": 1, "Region 2": 7}
    assert script.settings.id_mode is IdMode.SEMI_STRICT
    assert script.settings.implicit_mkstream
    assert script.simulator_only == "clocks move"
    assert [row.label for row in script.rows[:3]] == ["noon", "t2", "t3"]
    assert script.rows[0].clocks == {"r1": 1600000000000}
    assert isinstance(first, Calls)
    assert first.cells["r1"][0].argv == ("XADD", "x", "110", "a field", "v")
    assert first.cells["r1"][1].client == "alice"
    assert first.cells["Region 2"][0].expected is None
    assert steps[1:] == [
        Sync(("r1", "Region 2")),
        Sync(("r1", "Region 2")),
        Sync(("r1", "Region 2")),
        Partition((("r1", "Region 2"),)),
        Heal(),
        Crash("r1"),
        Restart("r1"),
        Skew({"r1": -5000, "Region 2": 5000}),
        Wait(20),  # type: ignore[arg-type]
        None,
        steps[-1],
    ]
    assert script.rows[-2].clocks == dict.fromkeys(script.columns, 1600000000001)
    assert RegionId(7) in script.columns.values()
    assert "| noon |" in markdown(script)


def test_replies_in_a_markdown_table_are_text() -> None:
    """No tag and no link comes of them; a command is in backticks, and needs no care."""
    script = parse(f'{HEAD}  - r1: XINFO HELP <a> -> ["<arg> [value] [opt]", ...]\n')
    table = markdown(script)
    assert '→ ["&lt;arg> [value] \\[opt]", ...]' in table
    assert "`XINFO HELP <a>`" in table


HEAD = "about: a\nsource: b\nregions: {r1: 1, r2: 2}\nrows:\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file is empty"),
        ("- a", 1, "a scenario must be a mapping"),
        ("about: a\nsource: b\nrows: [sync]", 1, "'regions' is missing"),
        ("about: a\nabout: b", 2, "'about' stands twice"),
        ("about: a\nsauce: b", 2, "a scenario has no 'sauce'; allowed: about, source, regions"),
        ("about: a\n  b: [", 2, "not YAML"),
        ("about:\nsource: b\nregions: {r1: 1}\nrows: [sync]", 1, "about must be text"),
        ("about: a\nsource: b\nregions: {r1: 0}\nrows: [sync]", 3, "a region number is from 1"),
        ("about: a\nsource: b\nregions: {r1: one}\nrows: [sync]", 3, "must be a whole number"),
        ("about: a\nsource: b\nregions: {r1: 1, r2: 1}\nrows: [sync]", 3, "region 1 has two"),
        ("about: a\nsource: b\nregions: {sync: 1}\nrows: [sync]", 3, "no region can be called"),
        ("about: a\nsource: b\nregions: {}\nrows: [sync]", 3, "'regions' names none"),
        (f"settings: {{mode: strict}}\n{HEAD}  - sync", 1, "settings has no 'mode'; allowed: id_m"),
        (f"settings: {{id_mode: lax}}\n{HEAD}  - sync", 1, "id_mode is one of strict, semi-strict"),
        (f"settings: {{mkstream: yes}}\n{HEAD}  - sync", 1, "mkstream is one of explicit, implic"),
        (f"{HEAD}  []", 5, "'rows' has none"),
        (f"{HEAD}  - sink", 5, "a row is one of sync, heal, not 'sink'"),
        (f"{HEAD}  - sync\n  - r3: XLEN x", 6, "a row has no 'r3'; allowed: r1, r2, sync"),
        (f"{HEAD}  - explain: nothing", 5, "nothing happens in this row"),
        (f"{HEAD}  - r1: XLEN x\n    heal:", 5, "commands or one step, not both"),
        (f"{HEAD}  - sync: [r1]", 5, "'sync' needs two regions"),
        (f"{HEAD}  - sync: [r1, r3]", 5, "a region is one of r1, r2, not 'r3'"),
        (f"{HEAD}  - partition: [[r1, r1]]", 5, "a link has two ends"),
        (f"{HEAD}  - partition: r1", 5, "partition must be a list"),
        (f"{HEAD}  - heal: r1", 5, "'heal' mends all links"),
        (f"{HEAD}  - crash: [r1]", 5, "a region must be text"),
        (f"{HEAD}  - wait: soon", 5, "wait must be a whole number, not 'soon'"),
        (f"{HEAD}  - wait: -1", 5, "time does not go back"),
        (f"{HEAD}  - at: {{r3: 1}}", 5, "at has no 'r3'; allowed: r1, r2"),
        (f"{HEAD}  - skew: {{r1: 1}}", 5, "add 'simulator only'"),
        (f"{HEAD}  - r1: XLEN x ->", 5, "bad expectation: nothing stands after the arrow"),
        (f"{HEAD}  - r1: XLEN x -> [1", 5, "bad expectation: ',' is missing"),
        (f"{HEAD}  - r1:\n    - XLEN x\n    - XLEN 'x", 7, "bad command: No closing quotation"),
        (f"{HEAD}  - r1: (alice)", 5, "a cell needs a command"),
        (f"{HEAD}  - r1: {{a: b}}", 5, "a command must be text"),
    ],
)
def test_problems_name_line_and_key(text: str, line: int, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.line == line
