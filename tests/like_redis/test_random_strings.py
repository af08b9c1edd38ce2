"""Random commands on strings, and on streams of the same names, on one region and on Redis 8.

As ``test_random``: after every command both must have answered the same.  Deadlines are far away
or have passed, so nothing expires between two servers.
"""

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.conftest import examples
from tests.harness.sizes import SIZES, SizedMachine
from tests.like_redis.oracles import RealServer
from tests.like_redis.script import Difference, Runner, Step, command_words
from tests.like_redis.sides import OurSide, RealSide, Side
from tests.like_redis.test_random import Text, maybe, mixed, of, run_machine, several, words

KEY = of("k", "k", "k", "j", "s")
VALUE = of("v", "w", "''", "12", "-7", "007", "long" * 30)
TIME = of("EX 1000", "PX 1000000", "EXAT 4102444800", "PXAT 4102444800123", "PXAT 1")
WRONG_TIME = of("EX 0", "EX -1", "PX x", "EX", "EXAT 9223372036854775807", "KEEPTTL EX 1000")
SET = words(
    "SET",
    KEY,
    VALUE,
    maybe("NX", "XX", "GET", "NX GET", "GET XX", "NX XX", "FOO"),
    mixed((3, of("")), (3, TIME), (1, of("KEEPTTL")), (1, WRONG_TIME)),
)
SETTING = st.one_of(
    words(of("SETNX", "GETSET"), KEY, VALUE),
    words(of("SETEX", "PSETEX"), KEY, of("1000000", "1000000", "0", "x"), VALUE),
    words(of("MSET", "MSETNX"), KEY, VALUE, maybe(words(KEY, VALUE), KEY)),
)
COUNTING = st.one_of(
    words(of("INCR", "DECR"), KEY),
    words(
        of("INCRBY", "DECRBY"),
        KEY,
        of("1", "-40", "0", "x", "9223372036854775807", "-9223372036854775808"),
    ),
)
GETTING = st.one_of(
    words(of("GET", "STRLEN", "GETDEL", "TYPE", "EXISTS", "EXPIRETIME"), KEY),
    words("MGET", several(KEY)),
    words("GETEX", KEY, mixed((2, TIME), (1, of("PERSIST", "", "KEEPTTL")), (1, WRONG_TIME))),
)
KEYS = st.one_of(
    words("DEL", several(KEY, 2)),
    words("EXPIREAT", KEY, of("4102444800", "4102444900", "1"), maybe("NX", "XX", "GT", "LT")),
    words("PERSIST", KEY),
    words(of("RENAME", "RENAMENX"), KEY, KEY),
    words("COPY", KEY, KEY, maybe("REPLACE")),
    of("DBSIZE", "KEYS *", "SCAN 0 TYPE string", "FLUSHALL"),
)
STREAMS = st.one_of(
    words("XADD", KEY, of("1-1", "2-1", "3-1"), "f v"),
    words("XLEN", KEY),
    words("XRANGE", KEY, "- +"),
    words("XREAD STREAMS", KEY, of("0", "$")),
)
TRANSACTIONS = st.one_of(of("MULTI", "EXEC", "EXEC", "DISCARD"), words("WATCH", KEY))
LINES: Text = mixed(
    (6, SET), (3, SETTING), (4, COUNTING), (4, GETTING), (3, KEYS), (2, STREAMS), (2, TRANSACTIONS)
)
CLIENT = of("A", "A", "B")


class Strings(SizedMachine):
    """Two clients on both sides."""

    def __init__(self, redis: RealServer) -> None:
        super().__init__()
        self._redis = redis
        self._script: list[str] = []

    @initialize(protocol=of("2", "3"), sizes=SIZES)
    def start(self, protocol: str, sizes: int | None) -> None:
        self.draw_sizes(sizes, clients=False)
        self._sides: list[Side] = [OurSide(int(protocol)), RealSide(self._redis, int(protocol))]
        self._runners = [Runner(side) for side in self._sides]

    def teardown(self) -> None:
        for side in getattr(self, "_sides", []):
            side.close()
        super().teardown()

    @rule(client=CLIENT, line=LINES)
    def call(self, client: str, line: str) -> None:
        if line == "DBSIZE" and any(before.endswith("PXAT 1") for before in self._script):
            # Redis counts a key whose time is over until it happens to come across it.
            return
        self._script.append(f"{client}: {line}")
        step = Step(f"step {len(self._script)}", line, client, command_words(line))
        ours, theirs = [runner.run(step) for runner in self._runners]
        if ours != theirs:
            script = "\n".join(self._script)
            raise AssertionError(f"after\n{script}\n{Difference(step, ours, theirs, {})}")


SEEDS = int(os.environ.get("CRDTSTREAM_SEEDS", "1000"))


def test_random_commands_on_strings(redis: RealServer) -> None:
    run_machine(Strings, settings(max_examples=examples(60), stateful_step_count=40), redis)


@pytest.mark.soak
def test_many_random_commands_on_strings(redis: RealServer) -> None:
    run_machine(Strings, settings(max_examples=SEEDS, stateful_step_count=60), redis)
