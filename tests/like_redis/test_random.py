"""Random commands of several clients, on one region in liberal mode and on a real redis-server 8.

After every command both must have answered the same - to the client, and to those of the others
that were waiting - and XINFO STREAM … FULL must show the same of every stream.  Nothing but times
is normalised (``comparing.py``).  A failure prints the commands that led to it as a script, ready
to be put into ``scripts/``.

Commands whose difference is intended are not generated, or steered around: see ``STEERED_AROUND``.
"""

import os
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import examples
from tests.harness.sizes import SIZES, SizedMachine
from tests.like_redis.oracles import RealServer
from tests.like_redis.script import Difference, Outcome, Runner, Step, command_words
from tests.like_redis.sides import BLOCKED, OurSide, RealSide, Side
from tests.like_redis.wire import Failure, Read
from tests.live.cluster import running_regions
from tests.patience import seconds

# By their names in docs/differences.md, the differences this test could meet, and how it does not.
STEERED_AROUND = {
    "generated-sequence": "no * IDs",
    "id-spelling": "IDs are written in digits",
    "xsetid-lowers": "XSETID only goes up",
    "rename-drops-groups": "no RENAME",
    "rename-packs-again": "no RENAME",
    "group-keeps-key": "the last group of a stream that never had an entry is not destroyed",
    "watch-sees-groups": "nobody watches while a group or the last ID is changed",
    "empty-nodes": "no exact MINID above which something was deleted",
    "approximate-policies": "no ~ with DELREF or ACKED",
    "served-at-any-change": "no XGROUP SETID or DELCONSUMER while a client waits",
}

# --- Commands as text ---------------------------------------------------------------------------
# In them @n is the highest ms added so far less n, so that IDs mean something to the stream.

Text = st.SearchStrategy[str]


def words(*parts: Text | str) -> Text:
    """The parts with blanks between them; empty ones leave none."""
    strategies = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*strategies).map(lambda texts: " ".join(filter(None, texts)))


def of(*texts: str) -> Text:
    """One of the texts; the first is the simplest."""
    return st.sampled_from(texts)


def maybe(*texts: Text | str) -> Text:
    return st.one_of(st.just(""), *[st.just(one) if isinstance(one, str) else one for one in texts])


def several(item: Text, most: int = 3) -> Text:
    return st.lists(item, min_size=1, max_size=most).map(" ".join)


def weighted(**choices: int) -> Text:
    """A name, as often as its number says."""
    return of(*[name for name, weight in choices.items() for _ in range(weight)])


def mixed(*choices: tuple[int, Text]) -> Text:
    """From one of the strategies, as often as its number says (``one_of`` would flatten them)."""
    bag = [strategy for weight, strategy in choices for _ in range(weight)]

    @st.composite
    def one_of_bag(draw: st.DrawFn) -> str:
        return draw(bag[draw(st.integers(0, len(bag) - 1))])

    return one_of_bag()


KEY = weighted(s=7, t=2)
GROUP = weighted(g=8, h=3, none=1)
CONSUMER = of("a", "b", "c")
ID = mixed(
    (9, of("@0", "@1", "@2", "@3", "@4", "@5", "@6")),
    (2, of("@0-1", "@1-1", "@2-3", "@-1", "0", "0-1")),
)
NEW_ID = of("@-1", "@-1", "@-1", "@-2", "@-3-5", "@0-*", "@-1-*", "@0-2", "@0", "@1", "0", "bad")
START = mixed((12, of("-", "@3", "@5")), (3, ID.map("({}".format)), (1, of("+", "bad")))
END = mixed((12, of("+", "@0", "@2")), (3, ID.map("({}".format)), (1, of("-", "bad")))
COUNT = mixed(
    (3, of("")),
    (6, of("COUNT 1", "COUNT 2", "COUNT 3")),
    (1, of("COUNT 0", "COUNT -1", "COUNT x")),
)
MIN_IDLE = mixed((8, of("0")), (4, of("10000000")), (1, of("-1", "9223372036854775807", "x")))

THRESHOLD = st.one_of(
    words("MAXLEN", maybe("="), of("0", "1", "2", "3", "5", "9")),
    words("MINID", maybe("="), ID),
    words("MAXLEN ~", of("0", "1", "2", "4", "7"), maybe("LIMIT 0", "LIMIT 1", "LIMIT 3")),
    words("MINID ~", ID, maybe("LIMIT 0", "LIMIT 2", "LIMIT 5")),
    of("MAXLEN 2 LIMIT 1", "LIMIT 1", "MAXLEN -1", "MAXLEN 1 MINID 1"),
)
FIELDS = of("f v", "f v", "f v g w", f"f {'long' * 30}", "f")

POLICY = mixed((3, of("")), (2, of("KEEPREF", "DELREF", "ACKED")))
XADD = words("XADD", KEY, maybe("NOMKSTREAM", words(THRESHOLD, POLICY)), NEW_ID, FIELDS)
PLAIN_XADD = words("XADD", KEY, of("@-1", "@-1-*", "@-2", "@0-*"), "f v")
IDS = st.one_of(ID.map("IDS 1 {}".format), words("IDS 2", ID, ID), of("IDS 2 @0", "IDS 0"))
REMOVING = mixed(
    (4, words("XDEL", KEY, several(ID))),
    (2, words("XTRIM", KEY, THRESHOLD)),
    (1, words("XTRIM", KEY, THRESHOLD, POLICY)),
    (2, words("XDELEX", KEY, POLICY, IDS)),
)
RANGES = st.one_of(
    words("XRANGE", KEY, START, END, COUNT),
    words("XREVRANGE", KEY, END, START, COUNT),
    words("XREAD", COUNT, "STREAMS", KEY, st.one_of(ID, of("$", "+", ">", "bad"))),
    words("XREAD", COUNT, "STREAMS s t", ID, st.one_of(ID, of("$", "+"))),
    words("XLEN", KEY),
)
ENTRIES_READ = maybe(words("ENTRIESREAD", of("0", "1", "3", "99", "-1", "-2")))
GROUPS = mixed(
    (4, words("XGROUP CREATE", KEY, GROUP, of("0", "$", "@1"), "MKSTREAM")),
    (2, words("XGROUP CREATE", KEY, GROUP, mixed((3, ID), (1, of("$", "bad"))), ENTRIES_READ)),
    (
        3,
        words("XGROUP SETID", KEY, GROUP, mixed((3, ID), (2, of("0", "$", "+")), (1, of("bad")))),
    ),
    (2, words("XGROUP SETID", KEY, GROUP, ID, ENTRIES_READ)),
    (1, words("XGROUP DESTROY", KEY, GROUP)),
    (1, words("XGROUP CREATECONSUMER", KEY, GROUP, CONSUMER)),
    (2, words("XGROUP DELCONSUMER", KEY, GROUP, CONSUMER)),
)
XREADGROUP = words("XREADGROUP GROUP", GROUP, CONSUMER)
NOACK = mixed((4, of("")), (1, of("NOACK")))
READING = mixed(
    (4, words(XREADGROUP, "COUNT", of("1", "2"), "STREAMS", KEY, ">")),
    (3, words(XREADGROUP, COUNT, NOACK, "STREAMS", KEY, of(">", "0", "@3", "@0"))),
    (2, words(XREADGROUP, COUNT, NOACK, "STREAMS s t", of("> >", "> 0", "0 >", "> $", "@2 @2"))),
)
WAITING = mixed(
    (2, words("XREAD BLOCK 0", COUNT, "STREAMS", KEY, of("$", "@0", "+", "0"))),
    (2, words("XREAD BLOCK 100000", COUNT, "STREAMS t s", of("$ $", "@0 $", "+ +"))),
    (6, words(XREADGROUP, "BLOCK 0", COUNT, NOACK, "STREAMS", KEY, ">")),
    (3, words(XREADGROUP, "BLOCK 100000", COUNT, NOACK, "STREAMS", of("s t", "t s"), "> >")),
    (1, words(XREADGROUP, "BLOCK 0", "STREAMS", KEY, of("0", "@1"))),
)
XACK = mixed(
    (3, words("XACK", KEY, GROUP, several(ID))),
    (1, words("XACKDEL", KEY, GROUP, POLICY, IDS)),
)
XPENDING = mixed(
    (1, words("XPENDING", KEY, GROUP)),
    (
        3,
        words(
            "XPENDING",
            KEY,
            GROUP,
            maybe("IDLE 0", "IDLE 10000000"),
            START,
            END,
            of("10", "1", "2", "0", "x"),
            maybe(CONSUMER),
        ),
    ),
)
DISTINCT_IDS = st.lists(ID, min_size=1, max_size=3, unique=True).map(" ".join)
CLAIM_OPTIONS = st.lists(
    of(
        "JUSTID",
        "FORCE",
        "IDLE 0",
        "IDLE 100000000",
        "TIME 1",
        "TIME 9000000000000000",
        "RETRYCOUNT 0",
        "RETRYCOUNT 5",
        "RETRYCOUNT -1",
        "LASTID @0",
        "LASTID @2",
    ),
    max_size=2,
).map(" ".join)
CLAIMING = mixed(
    (3, words("XCLAIM", KEY, GROUP, CONSUMER, MIN_IDLE, DISTINCT_IDS, CLAIM_OPTIONS)),
    (3, words("XCLAIM", KEY, GROUP, CONSUMER, "0", DISTINCT_IDS, of("FORCE", "IDLE 100000000"))),
    (2, words("XAUTOCLAIM", KEY, GROUP, CONSUMER, MIN_IDLE, of("0", "-", "@3", "(@3"), COUNT)),
    (1, words("XAUTOCLAIM", KEY, GROUP, CONSUMER, "0 0", COUNT, "JUSTID")),
)
INFO = st.one_of(
    words("XINFO STREAM", KEY),
    words("XINFO STREAM", KEY, "FULL", maybe("COUNT 0", "COUNT 1", "COUNT 2", "COUNT -1")),
    words("XINFO GROUPS", KEY),
    words("XINFO CONSUMERS", KEY, GROUP),
)
KEYS = mixed(
    (6, of("DBSIZE", "KEYS *", "KEYS s*", "TYPE s", "TYPE none", "EXISTS s t s")),
    (4, words(of("DEL", "UNLINK"), several(KEY, 2))),
    (4, words("EXPIREAT", KEY, of("4102444800", "4102444900", "x"), maybe("NX", "XX", "GT"))),
    (4, words(of("PTTL", "EXPIRETIME", "PERSIST", "OBJECT ENCODING", "TOUCH"), KEY)),
    (1, words("EXPIRE", KEY, of("-1", "0"))),
    (1, of("FLUSHALL", "FLUSHDB")),
)
XSETID = words(
    "XSETID",
    KEY,
    of("@-1", "@-2", "@-4"),
    maybe("ENTRIESADDED 50", "ENTRIESADDED 99", "ENTRIESADDED 0"),
    maybe("MAXDELETEDID @0", "MAXDELETEDID @2", "MAXDELETEDID @-9", "MAXDELETEDID 0-0"),
)
LOOKING = mixed((3, RANGES), (3, XPENDING), (3, INFO))
CHANGING = mixed(
    (4, PLAIN_XADD),
    (2, XADD),
    (3, REMOVING),
    (2, GROUPS),
    (5, READING),
    (3, XACK),
    (4, CLAIMING),
    (1, XSETID),
    (1, KEYS),
)
ANY = mixed((3, CHANGING), (2, LOOKING))


@st.composite
def slightly_wrong(draw: st.DrawFn) -> str:
    """A command with a word too many, too few, or another one."""
    parts = draw(ANY.filter(lambda line: " " in line)).split()
    at = draw(st.integers(1, len(parts) - 1))
    match draw(st.integers(0, 2)):
        case 0:
            del parts[at]
        case 1:
            parts.insert(at, parts[at])
        case _:
            parts[at] = draw(of("x", "1", "-1", "''", "COUNT", "STREAMS", "9223372036854775808"))
    return " ".join(parts)


# Without some entries and groups most commands would have nothing to do.
ALL_GROUPS = tuple(f"XGROUP CREATE {name} 0 MKSTREAM" for name in ("s g", "t g", "s h", "t h"))
BEGINNING = st.tuples(
    st.sampled_from([ALL_GROUPS, ALL_GROUPS[:2], ALL_GROUPS[:3], ()]),
    st.sampled_from([(), ("XADD s @-1 f v",) * 5, ("XADD s @-1 f v", "XADD t @-1 f v") * 6]),
    st.sampled_from([(), ("XREADGROUP GROUP g a COUNT 4 STREAMS s >",)]),
).map(lambda parts: [line for part in parts for line in part])


# --- The machine --------------------------------------------------------------------------------

# Where entries leave memory after each command (``tests/cold_mode.py``), nothing is appended to
# their macro nodes any more.
NODE_ENTRIES = of("1") if "tests.cold_mode" in sys.modules else of("100", "3", "1", "2", "4")
CLIENT = weighted(A=4, B=2, C=1, D=1)
WAITING_CLIENT = weighted(B=1, C=1, D=1)
OBSERVER = "O"
_MARK = re.compile(r"@(-?\d+)")


class OneRegion(SizedMachine):
    """Several clients on both sides."""

    def __init__(self, redis: RealServer) -> None:
        super().__init__()
        self._redis = redis
        self._script: list[str] = []
        self._ms = 0
        self._waiting: set[str] = set()
        self._watching: set[str] = set()
        self._queues: dict[str, list[str]] = {}
        self._sides: list[Side] = []

    def our_side(self, protocol: int) -> Side:
        """One region, without sockets."""
        return OurSide(protocol)

    @initialize(
        protocol=of("2", "3"),
        node_entries=NODE_ENTRIES,
        node_bytes=of("4096", "0"),
        lines=BEGINNING,
        sizes=SIZES,
    )
    def start(
        self,
        protocol: str,
        node_entries: str,
        node_bytes: str,
        lines: list[str],
        sizes: int | None,
    ) -> None:
        self.draw_sizes(sizes, clients=False)
        self._sides = [self.our_side(int(protocol)), RealSide(self._redis, int(protocol))]
        self._ours, self._theirs = map(Runner, self._sides)
        self._run("A", f"CONFIG SET stream-node-max-entries {node_entries}")
        self._run("A", f"CONFIG SET stream-node-max-bytes {node_bytes}")
        for line in lines:
            self._call("A", line)

    def teardown(self) -> None:
        for side in self._sides:
            side.close()
        super().teardown()

    # --- Rules ------------------------------------------------------------------------------------

    @rule(client=CLIENT, line=CHANGING)
    def change(self, client: str, line: str) -> None:
        self._call(client, line)

    @rule(client=CLIENT, line=PLAIN_XADD)
    def add(self, client: str, line: str) -> None:
        self._call(client, line)

    @rule(client=CLIENT, line=READING)
    def deliver(self, client: str, line: str) -> None:
        self._call(client, line)

    @rule(client=CLIENT, line=mixed((2, CLAIMING), (1, XACK)))
    def settle(self, client: str, line: str) -> None:
        self._call(client, line)

    @rule(client=CLIENT, line=mixed((2, REMOVING), (1, GROUPS)))
    def disturb(self, client: str, line: str) -> None:
        self._call(client, line)

    @rule(client=CLIENT, line=LOOKING)
    def look(self, client: str, line: str) -> None:
        self._call(client, line)

    @rule(client=WAITING_CLIENT, line=WAITING)
    def wait(self, client: str, line: str) -> None:
        self._call(client, line)

    @precondition(lambda self: self._waiting)
    @rule(client=WAITING_CLIENT, how=of("unblocked", "unblocked error"))
    def unblock(self, client: str, how: str) -> None:
        if client in self._waiting:
            self._step(Step("", f"~ {client} {how}", client, directive=how))

    @rule(client=CLIENT, line=slightly_wrong())
    def err(self, client: str, line: str) -> None:
        self._call(client, line)

    @rule(
        client=CLIENT,
        lines=st.lists(mixed((6, CHANGING), (2, LOOKING), (1, KEYS), (1, WAITING)), max_size=5),
    )
    def transact(self, client: str, lines: list[str]) -> None:
        for line in ("MULTI", *lines, "EXEC"):
            self._call(client, line)

    @rule(line=of("WATCH s", "WATCH s t", "MULTI", "EXEC", "DISCARD", "UNWATCH"))
    def steer_transaction(self, line: str) -> None:
        self._call("D", line)

    # --- Running ----------------------------------------------------------------------------------

    def _call(self, client: str, template: str) -> None:
        """Run a command on both sides; what would differ on purpose is left out."""
        if client in self._waiting:
            return
        line = _MARK.sub(lambda mark: str(max(0, self._ms - int(mark[1]))), template)
        queue = self._queues.get(client)
        match line.split():
            case ["XGROUP", "DESTROY", key, *_] if queue is not None or self._keeps_key(key):
                return
            case ["XGROUP", "SETID" | "DELCONSUMER", *_] if queue is not None or self._waiting:
                return
            case ["XADD" | "XTRIM", *options] if "~" in options and _goes_by_entry(options):
                return
            case ["XADD" | "XTRIM", key, *options] if minid := _exact_minid(options):
                if queue is not None or self._may_empty_node(key, minid):
                    return
        if queue is None and _is_unsignalled(line):
            self._stop_watching(set(self._watching))
        if line == "EXEC" and queue is not None and any(map(_is_unsignalled, queue)):
            self._stop_watching(self._watching - {client})
        self._run(client, line)

    def _keeps_key(self, key: str) -> bool:
        """True if only its last group keeps this key alive (group-keeps-key)."""
        facts = self._facts(key)
        return facts.get(b"groups") == 1 and facts[b"last-generated-id"] == b"0-0"

    def _may_empty_node(self, key: str, minid: str) -> bool:
        """True if Redis might leave a node without entries behind (empty-nodes)."""
        deleted = self._facts(key).get(b"max-deleted-entry-id", b"0-0")
        assert isinstance(deleted, bytes)
        return deleted != b"0-0" and _id(deleted.decode()) >= _id(minid)

    def _facts(self, key: str) -> dict[Read, Read]:
        """XINFO STREAM as Redis has it, {} without the key."""
        facts = self._sides[1].call(OBSERVER, [b"XINFO", b"STREAM", key.encode()])
        return dict(zip(facts[::2], facts[1::2], strict=True)) if isinstance(facts, list) else {}

    def _stop_watching(self, clients: set[str]) -> None:
        for client in sorted(clients - self._waiting):
            self._run(client, "UNWATCH" if client not in self._queues else "DISCARD")

    def _run(self, client: str, line: str) -> None:
        answer = self._step(Step("", f"{client}: {line}", client, command_words(line)))
        self._note(client, line, answer)
        if answer is BLOCKED:
            self._waiting.add(client)

    def _note(self, client: str, line: str, answer: object) -> None:
        """Keep in mind what steers the next commands."""
        refused = isinstance(answer, Failure)
        match line.split():
            case ["MULTI", *_] if not refused:
                self._queues[client] = []
            case ["EXEC" | "DISCARD"] if client in self._queues:
                del self._queues[client]
                self._watching.discard(client)
            case ["WATCH", *_] if not refused:
                self._watching.add(client)
            case ["UNWATCH"] if client not in self._queues:
                self._watching.discard(client)
            case [*_] if client in self._queues:
                self._queues[client].append(line)
        for number in re.findall(r"\b(\d+)(?:-[\d*]+)?\b", line):
            if line.startswith(("XADD", "XSETID")) and int(number) < self._ms + 10:
                self._ms = max(self._ms, int(number))

    def _step(self, step: Step) -> object:
        self._script.append(step.text)
        step = replace(step, place=f"step {len(self._script)}")
        ours, theirs = self._compare(step)
        self._waiting -= set(ours[1])
        if step.directive:
            self._waiting.discard(step.client)
        for key in ("s", "t"):
            text = f"XINFO STREAM {key} FULL COUNT 0"
            self._compare(Step(step.place, text, OBSERVER, command_words(text)))
        return theirs[0]

    def _compare(self, step: Step) -> tuple[Outcome, Outcome]:
        theirs = self._theirs.run(step)
        ours = self._ours.run(step)
        if ours != theirs:
            script = "\n".join(self._script)
            raise AssertionError(f"after\n{script}\n{Difference(step, ours, theirs, {})}")
        return ours, theirs


def _is_unsignalled(line: str) -> bool:
    """True if Redis does not signal it to watchers (watch-sees-groups)."""
    return line.startswith(("XSETID", "XGROUP CREATE ", "XGROUP DESTROY"))


def _exact_minid(options: list[str]) -> str | None:
    """The threshold of an exact MINID that can be told from 0."""
    if "MINID" not in options:
        return None
    threshold = [*options[options.index("MINID") + 1 :], "", ""]
    if threshold[0] == "~":
        return None
    minid = threshold[threshold[0] == "="]
    return minid if re.fullmatch(r"\d+(-\d+)?", minid) else None


def _goes_by_entry(options: list[str]) -> bool:
    return "DELREF" in options or "ACKED" in options


def _id(text: str) -> tuple[int, int]:
    ms, _, seq = text.partition("-")
    return int(ms), int(seq or 0)


def run_machine(machine: type[RuleBasedStateMachine], wanted: settings, *given: object) -> None:
    class Machine(machine):  # type: ignore[valid-type,misc]
        def __init__(self) -> None:
            super().__init__(*given)

    run_state_machine_as_test(Machine, settings=wanted)


SEEDS = int(os.environ.get("CRDTSTREAM_SEEDS", "1000"))
SHORT = settings(max_examples=examples(100), stateful_step_count=40)
LONG = settings(max_examples=SEEDS, stateful_step_count=60)
LIVE = settings(max_examples=examples(25), stateful_step_count=30)


def test_random_commands(redis: RealServer) -> None:
    run_machine(OneRegion, SHORT, redis)


@pytest.mark.soak
def test_many_random_commands(redis: RealServer) -> None:
    run_machine(OneRegion, LONG, redis)


# --- Over sockets -------------------------------------------------------------------------------


class Process:
    """A region of ours that runs as a process."""

    def __init__(self, port: int) -> None:
        self._port = port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=seconds())


class OneProcess(OneRegion):
    """As OneRegion, with a region that runs as a process."""

    def __init__(self, redis: RealServer, process: Process) -> None:
        super().__init__(redis)
        self._process = process

    def our_side(self, protocol: int) -> Side:
        return RealSide(self._process, protocol)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    with running_regions(1, tmp_path, crdt_xadd_id_uniqueness_mode="liberal") as cluster:
        yield Process(cluster[1].resp_port)


@pytest.mark.live
def test_random_commands_over_sockets(redis: RealServer, process: Process) -> None:
    run_machine(OneProcess, LIVE, redis, process)
