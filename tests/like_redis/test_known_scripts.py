"""The known scripts, as real Redis runs their texts: same replies, same errors, same keys after.

The texts are those of the installed libraries.  So a library whose script changes fails here, and
its new SHA-1 is to be added (``crdtstream/commands/scripts/known.py``).
"""

from collections.abc import Iterator
from contextlib import closing
from hashlib import sha1
from importlib.resources import files
from typing import Final

import pytest
from redis.asyncio.lock import Lock as AsyncLock
from redis.lock import Lock

from crdtstream.commands.scripts.known import KNOWN_SCRIPTS
from tests.like_redis.oracles import RealServer
from tests.like_redis.sides import OurSide, RealSide, Side
from tests.like_redis.wire import Failure

WALRUS: Final = files("walrus").joinpath("scripts")
# As Redisson 3.45.1 sends them; its classes are no Python package.
PENDING_RANGE: Final = (
    "local pendingData = redis.call('xpending', KEYS[1], %s);local result = {}; for i = 1,"
    " #pendingData, 1 do local value = redis.call('xrange', KEYS[1], pendingData[i][1],"
    " pendingData[i][1]);table.insert(result, value[1]);end; return result;"
)
EXPIRE: Final = (
    "local result = 0;for j = 1, #KEYS, 1 do local expireSet; if ARGV[2] ~= '' then expireSet ="
    " redis.call('%s', KEYS[j], ARGV[1], ARGV[2]); else expireSet = redis.call('%s', KEYS[j],"
    " ARGV[1]); end; if expireSet == 1 then result = expireSet;end; end; return result; "
)
CLEAR_EXPIRE: Final = (
    "local result = 0;for j = 1, #KEYS, 1 do local expireSet = redis.call('persist', KEYS[j]); if"
    " expireSet == 1 then result = expireSet;end; end; return result; "
)
TEXTS: Final = {
    "release": Lock.LUA_RELEASE_SCRIPT.encode(),
    "extend": Lock.LUA_EXTEND_SCRIPT.encode(),
    "reacquire": Lock.LUA_REACQUIRE_SCRIPT.encode(),
    "walrus acquire": WALRUS.joinpath("lock_acquire.lua").read_bytes(),
    "walrus release": WALRUS.joinpath("lock_release.lua").read_bytes(),
    "walrus cas": WALRUS.joinpath("cas.lua").read_bytes(),
    "redisson pending": (PENDING_RANGE % "ARGV[1], ARGV[2], ARGV[3], ARGV[4]").encode(),
    "redisson pending of one": (
        PENDING_RANGE % "ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]"
    ).encode(),
    "redisson idle": (
        PENDING_RANGE % "ARGV[1], 'IDLE', ARGV[2], ARGV[3], ARGV[4], ARGV[5]"
    ).encode(),
    "redisson idle of one": (
        PENDING_RANGE % "ARGV[1], 'IDLE', ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]"
    ).encode(),
    "redisson expire": (EXPIRE % ("pexpire", "pexpire")).encode(),
    "redisson expire at": (EXPIRE % ("pexpireat", "pexpireat")).encode(),
    "redisson clear expire": CLEAR_EXPIRE.encode(),
}
STATES: Final = {
    "missing": ["GET k"],
    "ours": ["SET k token"],
    "ours, ends": ["SET k token PX 600000"],
    "another's": ["SET k other PX 600000"],
    "empty": ["SET k ''"],
    "a stream": ["XADD k 1-1 f v"],
    "pending": [
        *["XADD k 1-1 f v", "XADD k 1-2 f v", "XADD k 1-3 f v g w", "XADD k 2-1 f v"],
        *["XGROUP CREATE k g 0", "XREADGROUP GROUP g c COUNT 3 STREAMS k >"],
        *["XREADGROUP GROUP g d COUNT 1 STREAMS k >", "XDEL k 1-2"],
    ],
    "several": ["XADD k 1-1 f v", "SET j x PX 600000"],
}
ARGUMENTS: Final = {
    "release": ["1 k token", "1 k", "0", "0 token", "1 k ''", "2 k j token"],
    "extend": [
        *["1 k token 500000 0", "1 k token 500000 1", "1 k token 500000", "1 k token 0 0"],
        *["1 k token -700000 0", "1 k token 0 1", "1 k token -1 1", "1 k token x 1", "0"],
        *["1 k token 9223372036854775807 1", "1 k token"],
    ],
    "reacquire": [
        *["1 k token 500000", "1 k token 0", "1 k token -1", "1 k token x", "1 k token", "0"],
        "1 k token 9223372036854775807",
    ],
    "walrus acquire": ["1 k token 0", "1 k token 500000", "1 k token -1", "0"],
    "walrus release": ["2 k e token", "2 k e other", "0"],
    "walrus cas": ["1 k tok new", "1 k token new", "1 k other new", "1 k '' new", "0 x y"],
    "redisson pending": [
        *["1 k g - + 10", "1 k g - + 2", "1 k g (1-1 + 10", "1 k g - + 0", "1 k g - + x"],
        *["1 k g x + 1", "1 k h - + 10", "1 k g - +", "1 k", "0 g - + 10", "1 k g - + 10 c"],
    ],
    "redisson pending of one": ["1 k g - + 10 c", "1 k g - + 10 nobody", "1 k g - + 10"],
    "redisson idle": ["1 k g 0 - + 10", "1 k g 600000 - + 10", "1 k g x - + 10", "1 k g 0 - +"],
    "redisson idle of one": ["1 k g 0 - + 10 d", "1 k g 600000 - + 10 d", "1 k g 0 - + 10"],
    "redisson expire": [
        *["1 k 500000 ''", "1 k 500000", "1 k 500000 NX", "1 k 500000 GT", "1 k 500000 YY"],
        *["1 k x ''", "1 k -1 ''", "1 k '' ''", "2 k j 500000 ''", "2 j i 500000 ''", "0 1 ''"],
    ],
    "redisson expire at": [
        *["1 k 4102444800000 ''", "1 k 4102444800000 NX", "1 k 1 ''", "1 k", "2 j k 1 LT"],
        "1 k 9223372036854775807 ''",
    ],
    "redisson clear expire": ["1 k", "2 k j", "1 j", "0", "1 k extra"],
}
CASES: Final = [
    pytest.param(name, state, arguments, id=f"{name}, {state}, {arguments}")
    for name, lines in ARGUMENTS.items()
    for state in STATES
    for arguments in lines
]


@pytest.fixture(scope="module")
def theirs(redis: RealServer) -> Iterator[Side]:
    with closing(RealSide(redis, 2)) as side:
        yield side


def test_the_libraries_scripts_are_those_that_are_known() -> None:
    assert {sha1(text).hexdigest().encode() for text in TEXTS.values()} == set(KNOWN_SCRIPTS)
    for name in ("LUA_RELEASE_SCRIPT", "LUA_EXTEND_SCRIPT", "LUA_REACQUIRE_SCRIPT"):
        assert getattr(AsyncLock, name) == getattr(Lock, name)


@pytest.mark.parametrize(("name", "state", "arguments"), CASES)
def test_a_known_script_does_what_its_text_does(
    theirs: Side, name: str, state: str, arguments: str
) -> None:
    text = TEXTS[name]
    words = [b"" if word == "''" else word.encode() for word in arguments.split()]
    ours = OurSide(2)
    answers = []
    for side in (ours, theirs):
        side.call("A", [b"FLUSHALL"])
        for line in STATES[state]:
            side.call("A", [b"" if word == "''" else word.encode() for word in line.split()])
        reply = side.call("A", [b"EVAL", text, *words])
        ttl = side.call("A", [b"PTTL", b"k"])
        is_long = isinstance(ttl, int) and ttl > 0
        after = [
            side.call("A", [b"TYPE", b"k"]),
            side.call("A", [b"GET", b"k"]),
            # Of deadlines the second counts: some of it passes between two servers.
            round(ttl, -5) if is_long else ttl,  # type: ignore[arg-type]
        ]
        answers.append([reply, *after])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", TEXTS)
def test_a_known_script_runs_by_its_digest_and_in_multi(name: str) -> None:
    digest = sha1(TEXTS[name]).hexdigest().encode()
    ours = OurSide(2)
    assert ours.call("A", [b"SCRIPT", b"LOAD", TEXTS[name]]) == digest
    assert ours.call("A", [b"SCRIPT", b"EXISTS", digest, digest.upper(), b"x"]) == [1, 1, 0]
    set_key = [b"SET", b"k", b"token", b"PX", b"600000"]
    ours.call("A", set_key)
    alone = ours.call("A", [b"EVALSHA", digest, b"1", b"k", b"another", b"another"])
    ours.call("A", set_key)
    ours.call("A", [b"MULTI"])
    ours.call("A", [b"EVALSHA", digest.upper(), b"1", b"k", b"another", b"another"])
    assert ours.call("A", [b"EXEC"]) == [alone]
    if "redisson" not in name:
        assert alone == 0, "another's lock"


def test_any_other_script_is_refused_with_a_sentence() -> None:
    ours = OurSide(2)
    for argv in ([b"EVAL", b"return 1", b"0"], [b"SCRIPT", b"LOAD", b"return 1"]):
        reply = ours.call("A", argv)
        assert isinstance(reply, Failure)
        assert reply.text.startswith("ERR this script is not among those that run here")
        assert "MULTI" in reply.text
    unknown = sha1(b"return 1").hexdigest().encode()
    reply = ours.call("A", [b"EVALSHA", unknown, b"0"])
    assert reply == Failure("NOSCRIPT No matching script. Please use EVAL.")
