"""The reply of COMMAND about a command: complete, and as a real Redis 8 tells it.

Summaries, complexities and histories are our own words; all the rest is compared.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from crdtstream.commands.documentation.key_specs import parse_key_spec
from crdtstream.commands.documentation.manual import pages, usage, usage_markdown
from crdtstream.commands.documentation.pages import parse_pages
from crdtstream.commands.documentation.syntax import BadSyntaxError, parse_syntax, shown
from tests.conftest import ROOT
from tests.like_redis import oracles
from tests.like_redis.sides import Connection
from tests.like_redis.wire import Members, Pairs, Read, Simple
from tests.resp.node import Node, running

REDIS: tuple[int, ...] = (8, 2, 3)
OWN_WORDS = {b"summary", b"complexity", b"history"}

# Documented, and not there.
NOT_REGISTERED: frozenset[str] = frozenset()

# What COMMAND INFO tells otherwise than Redis, and why: nothing so far.
INFO_DIFFERS: dict[str, str] = {}

# Flags that decide something here: what the dispatcher does must be what clients are told.
DECIDING_FLAGS = {"write", "no_auth", "admin"}


def asked(connection: Connection, *words: str) -> Any:
    """A reply; a RESP3 map is a dict."""
    return plain(connection.call([word.encode() for word in words]))


def plain(reply: Read) -> Any:
    if not isinstance(reply, list):
        return reply
    items = list(map(plain, reply))
    if isinstance(reply, Members):
        return Members(items)
    return dict(zip(items[::2], items[1::2], strict=True)) if isinstance(reply, Pairs) else items


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running() as node:
        yield node


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[oracles.RealServer]:
    with oracles.newest(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def redis(real: oracles.RealServer) -> Iterator[Connection]:
    with closing(Connection(real.connect(), 3)) as connection:
        yield connection


@pytest.fixture(scope="module")
def ours(node: Node) -> Iterator[Connection]:
    with closing(Connection(node.connect(), 3)) as connection:
        yield connection


@pytest.fixture(scope="module")
def shared(redis: Connection, ours: Connection) -> list[str]:
    """Names of the commands and subcommands that both have."""
    theirs, own = (asked(one, "COMMAND", "LIST") for one in (redis, ours))
    names = sorted(set(theirs) & set(own))
    assert b"xgroup|create" in names
    return [name.decode() for name in names]


# --- Completeness -------------------------------------------------------------------------------


def test_every_command_is_documented(node: Node) -> None:
    registered = {name.decode() for name in node.database.commands}
    assert registered - pages().keys() == set()


def test_documented_commands_are_registered(node: Node) -> None:
    registered = {name.decode() for name in node.database.commands}
    assert pages().keys() - registered == NOT_REGISTERED


def test_documented_flags_equal_those_of_the_dispatcher(node: Node) -> None:
    """The dispatcher's flags and the documented ones agree where they decide something."""
    containers = {name.partition(b"|")[0] for name in node.database.commands if b"|" in name}
    differing = [
        name.decode()
        for name, command in node.database.commands.items()
        if name not in containers and name.decode() in pages()
        if command.flags & DECIDING_FLAGS != set(pages()[name.decode()].flags) & DECIDING_FLAGS
    ]
    assert differing == []


@pytest.mark.parametrize("name", pages())
def test_a_page_says_what_the_command_is_for(name: str) -> None:
    page = pages()[name]
    assert page.summary[0].isupper()
    assert page.summary.endswith(".")
    assert page.complexity
    assert name.partition("|")[0] in pages()


# --- As Redis tells it --------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
def test_info_is_redis_s(
    real: oracles.RealServer, node: Node, shared: list[str], protocol: int
) -> None:
    """Arity, flags, key positions, categories, tips and key specifications."""
    with (
        closing(Connection(real.connect(), protocol)) as redis,
        closing(Connection(node.connect(), protocol)) as ours,
    ):
        differing = {}
        for name in shared:
            (expected,), (got,) = (asked(one, "COMMAND", "INFO", name) for one in (redis, ours))
            # Subcommands are compared by themselves, as here some are missing.
            expected, got = without_notes(expected[:9]), got[:9]
            if expected != got:
                differing[name] = f"redis: {expected}\nours:  {got}"
    unexpected = {name: text for name, text in differing.items() if name not in INFO_DIFFERS}
    assert not unexpected, "\n".join(f"{name}\n{text}" for name, text in unexpected.items())
    assert differing.keys() == INFO_DIFFERS.keys()


def without_notes(reply: Any) -> Any:
    """The reply without the remarks on key specifications: they are for Redis's developers."""
    if isinstance(reply, dict):
        return {name: value for name, value in reply.items() if name != b"notes"}
    if isinstance(reply, list) and reply[:1] == [b"notes"]:
        return reply[2:]
    if isinstance(reply, list):
        return type(reply)(map(without_notes, reply))
    return reply


def test_docs_are_redis_s(redis: Connection, ours: Connection, shared: list[str]) -> None:
    """Group, version, deprecation and the tree of arguments, without what came after that Redis."""
    differing = []
    for name in shared:
        replies = (asked(one, "COMMAND", "DOCS", name) for one in (redis, ours))
        expected, got = (comparable(document) for reply in replies for document in reply.values())
        if expected != got:
            differing.append(f"{name}\nredis: {expected}\nours:  {got}")
    assert not differing, "\n".join(differing)


def comparable(document: dict[bytes, Any]) -> dict[bytes, Any]:
    facts = {name: fact for name, fact in document.items() if name not in OWN_WORDS}
    facts.pop(b"subcommands", None)
    if b"arguments" in facts:
        facts[b"arguments"] = known_to_redis(facts[b"arguments"])
    return facts


def known_to_redis(arguments: list[dict[bytes, Any]]) -> list[dict[bytes, Any]]:
    """The arguments that the Redis of the comparison has."""
    return [
        argument | ({b"arguments": known_to_redis(inner)} if inner else {})
        for argument in arguments
        if version(argument.get(b"since", b"0.0.0")) <= REDIS
        for inner in [argument.get(b"arguments", [])]
    ]


def version(text: bytes) -> tuple[int, ...]:
    return tuple(map(int, text.split(b".")))


def test_the_redis_is_the_one_that_is_meant(real: oracles.RealServer) -> None:
    assert real.name == "redis " + ".".join(map(str, REDIS))


@pytest.mark.parametrize(
    "chosen",
    ["ACLCAT stream", "ACLCAT DANGEROUS", "PATTERN XGROUP|*", "PATTERN X[ARW]*"],
)
def test_lists_are_redis_s(
    redis: Connection, ours: Connection, shared: list[str], chosen: str
) -> None:
    """Of what both have, the same is chosen."""
    expected, got = (
        {name.decode() for name in asked(one, "COMMAND", "LIST", "FILTERBY", *chosen.split())}
        & set(shared)
        for one in (redis, ours)
    )
    assert got == expected != set()


# --- The notation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notation", "text"),
    [
        ("key", "key"),
        ("[name: key a]", "[key a]"),
        ("[key]", "[key]"),
        ("id...", "id [id ...]"),
        ("[id...]", "[id [id ...]]"),
        ("COUNT count", "COUNT count"),
        ("[COUNT count@6.2.0]", "[COUNT count]"),
        ("[ID client-id...]", "[ID client-id [client-id ...]]"),
        ("[PREFIX prefix]...", "[PREFIX prefix [PREFIX prefix ...]]"),
        ("<id: * | id>", "<* | id>"),
        ("[mode: NX | XX]@7.0.0", "[NX | XX]"),
        ("[TYPE <type: A | B>]", "[TYPE <A | B>]"),
        ("IDS (ids: numids id...)", "IDS numids id [id ...]"),
        ("(data: field value)...", "field value [field value ...]"),
        ("(trim: <strategy: MAXLEN | MINID> [operator: = | ~] n)", "<MAXLEN | MINID> [= | ~] n"),
        ("<how: ALL | HOME region | (some: FROM a TO b)>", "<ALL | HOME region | FROM a TO b>"),
        ("addr/ip:port!2.8.12", "ip:port"),
        ("start=integer", "start"),
    ],
)
def test_syntax_is_shown_as_people_write_it(notation: str, text: str) -> None:
    assert shown(parse_syntax(notation)) == text


def test_a_tree_says_what_the_notation_says() -> None:
    count, keys, prefix = parse_syntax(
        "[COUNT count@6.2.0] STREAMS (streams: key...) [PREFIX prefix]..."
    )
    assert (count.name, count.type, count.token) == ("count", "integer", "COUNT")
    assert (count.flags, count.since) == (["optional"], "6.2.0")
    (key,) = keys.arguments
    assert (keys.name, keys.type, keys.token) == ("streams", "block", "STREAMS")
    assert (key.type, key.flags, key.key_spec) == ("key", ["multiple"], 0)
    assert prefix.flags == ["optional", "multiple", "multiple_token"]


@pytest.mark.parametrize(
    "notation",
    ["[key", "key]", "[a b]", "<a | b>", "(a b)", "<n: a b>", "<n: a | b", "(n: a | b)", "[]", "|"],
)
def test_syntax_that_nobody_can_read_is_refused(notation: str) -> None:
    with pytest.raises(BadSyntaxError):
        parse_syntax(notation)


@pytest.mark.parametrize("text", ["", "1", "RW update", "1. RW", "streams@1 RO", "STREAMS RO"])
def test_key_specs_that_nobody_can_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no key specification"):
        parse_key_spec(text)


@pytest.mark.parametrize(
    "text",
    [
        "XLEN key\n    since 5.0.0\n    Only a summary.",
        "XLEN key\n    flags fast\n    No version.\n    O(1)",
        "XLEN key\n    since 5.0.0; colour red\n    An unknown fact.\n    O(1)",
        "XLEN key\n    since 5.0.0; keys 1 RW access, update\n    Two keys.\n    O(1)",
        "XLEN key\n    since 5.0.0\n    A change without a version.\n    O(1)\n    Changed.",
    ],
)
def test_pages_that_nobody_can_read_are_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="page of XLEN: "):
        list(parse_pages("stream", text))


def test_usage_is_for_people() -> None:
    assert usage("xgroup|setid") == "XGROUP SETID key group <id | $> [ENTRIESREAD entries-read]"
    assert usage("multi") == "MULTI"
    assert usage_markdown("client|reply") == r"`CLIENT REPLY <ON \| OFF \| SKIP>`"


def test_the_page_of_differences_names_every_command() -> None:
    head, _, _ = (ROOT / "docs/differences.md").read_text().partition("\n## ")
    named = " ".join(re.findall("^ {4}(.*)", head, re.MULTILINE))
    assert set(re.findall(r"[A-Z.]+", named)) == {
        name.partition("|")[0].upper() for name in pages()
    }


# --- What follows from a page -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "arity"),
    [
        ("TIME", 1),
        ("XLEN key", 2),
        ("PING [message]", -1),
        ("DEL key...", -2),
        ("XADD key [NOMKSTREAM] <id: * | id> (data: field value)...", -5),
        ("XREAD [COUNT count] STREAMS (streams: key... id...)", -4),
        ("XTRIM key (trim: <strategy: MAXLEN | MINID> [operator: = | ~] threshold)", -4),
        ("XGROUP|DESTROY key group", 4),
        ("CLIENT|REPLY <on-off-skip: ON | OFF | SKIP>", 3),
        ("WAIT <how: a | (both: a b)>", -2),
    ],
)
def test_arity_follows_from_the_syntax(head: str, arity: int) -> None:
    (page,) = parse_pages("generic", f"{head}\n    since 1.0.0\n    Does something.\n    O(1)")
    assert page.arity == arity


def test_a_page_may_know_the_arity_better_than_its_syntax() -> None:
    text = "QUIT\n    since 1.0.0; arity -1\n    Ends the connection.\n    O(1)"
    (page,) = parse_pages("connection", text)
    assert page.arity == -1


def test_flags_of_our_own_are_not_shown(ours: Connection) -> None:
    """They decide something here, and would puzzle clients."""
    assert "immediate" in pages()["exec"].own_flags
    (exec_,) = asked(ours, "COMMAND", "INFO", "exec")
    assert Simple(b"noscript") in exec_[2]
    assert Simple(b"immediate") not in exec_[2]


@pytest.mark.parametrize(
    ("number", "keys"),
    [
        (b"1", (b"k",)),
        (b"0" * 5_000 + b"1", (b"k",)),
        (b"3", None),
        (b"9" * 5_000, None),
        (b"", ()),
        (b"x", ()),
    ],
)
def test_keys_are_counted_by_a_number_of_any_length(
    number: bytes, keys: tuple[bytes, ...] | None
) -> None:
    found = parse_key_spec("2# RW access").find([b"EVAL", b"script", number, b"k", b"l"])
    assert (found if found is None else tuple(found)) == keys
