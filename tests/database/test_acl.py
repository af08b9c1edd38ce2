"""Rights of users, without sockets: rules, selectors, and when requests are judged."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.reply import OK, CommandError
from crdtstream.commands.streams.read_options import parse_read, streams_at
from crdtstream.core.ids import Millis
from crdtstream.database.acl.known import all_categories, commands_of, known_commands
from crdtstream.database.acl.lines import LinesError, line_of, new_user, text_of, users_in
from crdtstream.database.acl.log import (
    CLIENT_BYTES_MAX,
    GROUPED_MS_MAX,
    NAME_BYTES_MAX,
    NOTED_PER_SECOND_MAX,
    AclLog,
    Context,
    Refused,
)
from crdtstream.database.acl.rules import RuleError, UnmatchedError
from crdtstream.database.acl.selectors import KEYS_REMEMBERED_MAX, Reason
from crdtstream.database.acl.touched import READ, WRITE, touches_of
from crdtstream.database.acl.users import User, Users, password_hash
from crdtstream.database.database import WAITING
from tests.database.clients import Clients, text

# `Clients` have a Database of their own, and compiled classes have no heirs.
pytestmark = pytest.mark.pure

NO_KEY: Final = "NOPERM No permissions to access a key"
NO_CHANNEL: Final = "NOPERM No permissions to access a channel"


def made(*rules: str, users: Users | None = None) -> User:
    """A new user ``u`` with these rules."""
    return new_user(users or Users(), b"u", [rule.encode() for rule in rules])


def allows(user: User, line: str) -> bool:
    argv = line.encode().split()
    name = argv[0].lower()
    if known_commands()[name].subcommands:
        name += b"|" + argv[1].lower()
    return user.denial(name, touches_of(name), argv) is None


@pytest.fixture
def clients() -> Clients:
    return Clients()


def give(clients: Clients, name: str, *rules: str) -> User:
    """Give a client a user with these rules, which later calls change."""
    users = clients.database.users
    user = users.put(new_user(users, name.encode(), [rule.encode() for rule in rules]))
    clients.session(name).user = user
    return user


# --- Rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        ("", "off sanitize-payload resetchannels -@all"),
        ("on >a nopass", "on nopass sanitize-payload resetchannels -@all"),
        ("nopass >a", f"off sanitize-payload #{password_hash(b'a').decode()} resetchannels -@all"),
        (">a >b <a", f"off sanitize-payload #{password_hash(b'b').decode()} resetchannels -@all"),
        ("%R~a %W~a %RW~b", "off sanitize-payload ~a ~b resetchannels -@all"),
        ("~a allkeys", "off sanitize-payload ~* resetchannels -@all"),
        ("~* resetkeys ~b", "off sanitize-payload ~b resetchannels -@all"),
        ("&a &a &b", "off sanitize-payload resetchannels &a &b -@all"),
        ("+@all -get", "off sanitize-payload resetchannels +@all -get"),
        ("+GET -set +@Read", "off sanitize-payload resetchannels -@all +get -set +@read"),
        ("+client|id +client", "off sanitize-payload resetchannels -@all +client"),
        ("+select|0 +select|1", "off sanitize-payload resetchannels -@all +select|0 +select|1"),
        (
            "(+get ~a) (%R~b +set)",
            (
                "off sanitize-payload resetchannels -@all"
                " (~a resetchannels -@all +get) (%R~b resetchannels -@all +set)"
            ),
        ),
        ("( +get ~a )", "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get)"),
        ("(+get) clearselectors", "off sanitize-payload resetchannels -@all"),
        ("on >a ~a &b +get (+set) reset", "off sanitize-payload resetchannels -@all"),
        ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"),
    ],
)
def test_rules_become_a_line_from_which_the_same_user_is_made(rules: str, line: str) -> None:
    user = made(*rules.split())
    assert line_of(user).decode() == f"user u {line}"
    [again] = users_in(Users(), line_of(user), "file")
    assert line_of(again) == line_of(user)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (["bogus"], "Syntax error"),
        (["+nosuch"], "Unknown command or category name in ACL"),
        (["+@nosuch"], "Unknown command or category name in ACL"),
        (["-config|nosuch"], "Unknown command or category name in ACL"),
        (["+config|get|x"], "Allowing first-arg of a subcommand is not supported"),
        (["+get|"], "Syntax error"),
        (["+select|0 1"], "Syntax error"),
        (["~*", "~a"], "Adding a pattern after the * pattern (or the 'allkeys' flag)"),
        (["&*", "&a"], "Adding a pattern after the * pattern (or the 'allchannels' flag)"),
        (["%X~a"], "Syntax error"),
        (["%~a"], "Syntax error"),
        (["~a b"], "Syntax error"),
        (["<a"], "The password you are trying to remove from the user does not exist"),
        (["#abc"], "The password hash must be exactly 64 characters"),
        (["#" + "A" * 64], "The password hash must be exactly 64 characters"),
        (["(on)"], "Syntax error"),
        ([")"], "Syntax error"),
        (["(~a) +get)"], "Syntax error"),
        (["(+get ~a) )"], "Syntax error"),
    ],
)
def test_a_wrong_rule_is_refused_in_redis_words(rules: list[str], error: str) -> None:
    with pytest.raises(RuleError) as caught:
        made(*rules)
    assert str(caught.value).startswith(error)


def test_a_selector_that_is_not_closed_is_refused() -> None:
    with pytest.raises(UnmatchedError, match=r"Unmatched parenthesis .* starting at '\(\+get'"):
        made("(+get", "~a")


def test_a_failed_rule_changes_nothing_of_a_user_in_use() -> None:
    users = Users()
    users.put(made("on", "~a", "+get", users=users))
    before = text_of(users.all())
    with pytest.raises(RuleError):
        made("~b", "+set", "bogus", users=users)
    assert text_of(users.all()) == before


@pytest.mark.parametrize("category", all_categories())
def test_a_category_allows_its_commands_and_their_subcommands(category: bytes) -> None:
    root = made(f"+@{category.decode()}").selectors[0]
    assert root.has_commands(commands_of(category))
    left = made("+@all", f"-@{category.decode()}").selectors[0]
    assert not any(left.has_commands([name]) for name in commands_of(category))


def test_our_own_commands_have_categories_and_keys() -> None:
    assert b"crdt.xread" in commands_of(b"read")
    for category in (b"stream", b"write", b"admin", b"dangerous"):
        assert b"crdt.xgroup|setmode" in commands_of(category)
    reader = made("+@all", "%R~a")
    for line in ("crdt.xread a 0", "crdt.why a 1-1", "crdt.xinfo groups a", "crdt.digest a"):
        assert allows(reader, line)
        assert not allows(reader, line.replace(" a", " b"))
    assert not allows(reader, "crdt.xgroup setmode a g at-least-once")
    assert allows(made("+@all", "~a"), "crdt.xgroup setmode a g at-least-once")


# --- Keys and channels --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "line", "allowed"),
    [
        ("%R~a", "get a", True),
        ("%W~a", "get a", False),
        ("%R~a", "set a x", False),
        ("%W~a", "set a x", True),
        # With GET it also reads.
        ("%W~a", "set a x get", False),
        ("~a", "set a x get", True),
        # A test of existence needs any right.
        ("%R~a", "exists a", True),
        ("%W~a", "exists a", True),
        ("~b", "exists a", False),
        ("%W~a", "xlen a", True),
        ("%R~a %W~b", "copy a b", True),
        ("%R~a %W~b", "copy b a", False),
        ("%R~a %W~b", "rename a b", False),
        ("~a %W~b", "rename a b", True),
        ("%R~a", "restore a 0 x", False),
        ("%W~a", "restore a 0 x", True),
        ("%W~a", "xadd a * f v", True),
        ("%R~a", "xadd a * f v", False),
        ("~a", "xadd a * f v", True),
        ("%R~a", "xreadgroup group g c streams a >", True),
        ("%R~a", "xreadgroup group b c streams b >", False),
        # The name of a group or a consumer is no key.
        ("~a", "xreadgroup group g b streams a >", True),
        ("~a ~b", "mget a b", True),
        ("~a", "mget a b", False),
        ("~a", "mset a b c d", False),
        ("~a ~c", "mset a b c d", True),
        ("~a", "eval x 1 a b", True),
        ("~a", "eval x 2 a b", False),
        # Malformed: the command answers an error.
        ("~a", "eval x 3 b b", True),
        ("~a", "blpop a b 0", False),
        ("~a", "blpop a 0", True),
        ("~o[rst]d*", "get oxders", False),
        ("~or?er*", "get orders", True),
        ("~a", "publish a x", False),
        ("~* &a", "publish a x", True),
        ("~* &a*", "subscribe ab ac", True),
        ("~* &a*", "subscribe ab b", False),
        ("~* &a*", "psubscribe a*", True),
        # A pattern to listen to must be written as in the rule.
        ("~* &a*", "psubscribe ab*", False),
        ("~*", "unsubscribe a", True),
    ],
)
def test_keys_and_channels_need_the_rights_of_what_is_done(
    rules: str, line: str, allowed: bool
) -> None:
    assert allows(made("+@all", *rules.split()), line) is allowed


def test_two_selectors_do_not_add_up() -> None:
    user = made("(%R~a +@all)", "(%W~b +@all)")
    assert allows(user, "get a")
    assert not allows(user, "copy a b")


def test_the_selector_that_came_furthest_tells_what_is_forbidden() -> None:
    user = made("+mget", "~k", "(+mget ~k ~other)")
    argv = [b"mget", b"k", b"other", b"third"]
    denial = user.denial(b"mget", touches_of(b"mget"), argv)
    assert denial is not None
    assert (denial.reason, argv[denial.at]) == (Reason.KEY, b"third")


def test_only_the_first_argument_that_is_named_is_allowed() -> None:
    user = made("+select|0")
    assert allows(user, "select 0")
    assert not allows(user, "select 1")


@pytest.mark.parametrize(
    "line",
    [
        "xreadgroup count 1 group g STREAMS streams secret >",
        "xreadgroup group streams STREAMS streams secret >",
        "xreadgroup noack group g c streams secret >",
        "xread block 1 streams secret 0",
    ],
)
def test_a_consumer_named_streams_does_not_hide_a_key(line: str) -> None:
    user = made("+@all", "~streams", "~STREAMS", "~g", "~c")
    assert not allows(user, line)


WORDS: Final = st.sampled_from(
    [b"STREAMS", b"streams", b"GROUP", b"COUNT", b"NOACK", b"BLOCK", b"CLAIM", b"1", b"k", b">"]
)


@given(st.lists(WORDS, max_size=9))
def test_keys_are_found_where_the_command_finds_them(words: list[bytes]) -> None:
    argv = [b"XREADGROUP", *words]
    try:
        keys = parse_read(argv, Millis(0), command="XREADGROUP").keys
    except CommandError:
        return
    first = streams_at(argv)
    assert argv[first : first + len(keys)] == keys
    found = touches_of(b"xreadgroup").keys(argv)
    assert [(one.key, one.needs) for one in found] == [(key, READ) for key in keys]


def test_memory_of_keys_is_bounded_and_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KEYS_REMEMBERED_MAX, "value", 3)
    root = made("%R~a*", "~b*").selectors[0]
    for _ in range(2):
        for number in range(10):
            assert root.has_key(b"a%d" % number, READ)
            assert not root.has_key(b"a%d" % number, WRITE)
            assert root.has_key(b"b%d" % number, WRITE)
            assert not root.has_key(b"c%d" % number, READ)
    assert len(root._remembered) <= 3
    user = made("+xlen", "~a*")
    for number in range(10):
        assert allows(user, f"xlen a{number}")
    assert len(user.allowed_calls) <= 3


# --- When requests are judged -------------------------------------------------------------------


def test_errors_say_what_is_forbidden_and_name_no_key(clients: Clients) -> None:
    give(clients, "a", "on", "+get", "+publish", "~k", "&c")
    assert text(clients.say("a", "SET k v")) == (
        "NOPERM User a has no permissions to run the 'set' command"
    )
    assert text(clients.say("a", "XGROUP CREATE k g $")) == (
        "NOPERM User a has no permissions to run the 'xgroup|create' command"
    )
    assert text(clients.say("a", "GET secret")) == NO_KEY
    assert text(clients.say("a", "PUBLISH d x")) == NO_CHANNEL


def test_a_change_of_rights_counts_at_once(clients: Clients) -> None:
    give(clients, "a", "on", "+@all", "~k")
    for line in ("EXISTS k", "XLEN k", "XLEN k"):
        assert clients.say("a", line) == 0
    give(clients, "a", "resetkeys", "~j")
    for line in ("EXISTS k", "XLEN k"):
        assert text(clients.say("a", line)) == NO_KEY
    give(clients, "a", "-@all")
    assert isinstance(clients.say("a", "XLEN j"), CommandError)


def test_a_removed_user_may_do_nothing(clients: Clients) -> None:
    give(clients, "a", "on", "+@all", "~*", "&*")
    clients.database.users.remove(b"a")
    assert isinstance(clients.say("a", "EXISTS k"), CommandError)


def test_a_command_that_is_forbidden_when_it_is_queued_aborts(clients: Clients) -> None:
    give(clients, "a", "on", "+@all", "~k")
    clients.say("a", "MULTI")
    assert text(clients.say("a", "SET secret v")) == NO_KEY
    assert text(clients.say("a", "EXEC")).startswith("EXECABORT")


def test_queued_commands_are_judged_again_when_they_run(clients: Clients) -> None:
    give(clients, "a", "on", "+@all", "~*", "&*")
    clients.say("a", "MULTI")
    for line in ("SET k v", "GET k", "PUBLISH c x"):
        clients.say("a", line)
    give(clients, "a", "-set", "resetkeys", "resetchannels")
    replies = clients.say("a", "EXEC")
    assert isinstance(replies, list)
    beginning = (
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC "
        "call. This command is no longer allowed for the following reason: "
    )
    assert [text(reply) for reply in replies] == [
        beginning + "no permission to execute the command or subcommand",
        beginning + "no permission to touch the specified keys",
        beginning + "no permission to access one of the channels used as arguments to the command",
    ]
    assert clients.replica.stream(b"k") is None


def test_a_blocked_command_is_judged_again_when_it_wakes(clients: Clients) -> None:
    give(clients, "a", "on", "+@all", "~s")
    assert clients.say("a", "XREAD BLOCK 0 STREAMS s $") is WAITING
    give(clients, "a", "resetkeys")
    clients.say("b", "XADD s * f v")
    assert [(name, text(reply)) for name, reply in clients.served] == [("a", NO_KEY)]
    stats = dict(clients.database.statistics.used())[b"xread"]
    assert (stats.calls, stats.rejected, stats.failed) == (0, 1, 0)


def test_scripts_need_the_right_to_what_they_run(clients: Clients) -> None:
    release = "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k t"
    give(clients, "a", "on", "+evalsha", "+get", "~k")
    assert text(clients.say("a", release)) == (
        "ERR ACL failure in script: User a has no permissions to run the 'del' command script: "
        "c3f8721cbb97f72bc19e972846bd7aaf91901658, on @user_script:6."
    )
    give(clients, "a", "+del")
    assert clients.say("a", release) == 0
    assert text(clients.say("a", release.replace(" k ", " j "))) == NO_KEY


def test_refusals_are_told_with_their_context(clients: Clients) -> None:
    told: list[Refused] = []
    clients.database.on_refused = lambda _session, refused: told.append(refused)
    give(clients, "a", "on", "+multi", "+get", "+evalsha", "~k")
    clients.say("a", "SET k v")
    clients.say("a", "GET secret")
    clients.say("a", "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k t")
    clients.say("a", "MULTI")
    clients.say("a", "DEL k")
    assert told == [
        Refused(Reason.COMMAND, Context.TOPLEVEL, b"set", b"a"),
        Refused(Reason.KEY, Context.TOPLEVEL, b"secret", b"a"),
        Refused(Reason.COMMAND, Context.LUA, b"del", b"a"),
        Refused(Reason.COMMAND, Context.MULTI, b"del", b"a"),
    ]


# --- Logging in ---------------------------------------------------------------------------------


def test_only_users_that_are_on_log_in_with_their_passwords() -> None:
    users = Users()
    users.put(made("on", ">one", ">two", users=users))
    assert users.log_in(b"u", b"one") is users.log_in(b"u", b"two") is users.get(b"u")
    assert users.log_in(b"u", b"three") is None
    assert users.log_in(b"nobody", b"one") is None
    users.put(made("off", users=users))
    assert users.log_in(b"u", b"one") is None
    users.put(made("on", "nopass", users=users))
    assert users.log_in(b"u", b"whatever") is not None
    users.put(made("off", users=users))
    assert users.log_in(b"u", b"whatever") is None


# --- Files --------------------------------------------------------------------------------------


def test_all_that_is_wrong_with_a_file_is_reported() -> None:
    lines = [
        b"user a on +nope +bogus ~x >p <q !zz foo",
        b"user b",
        b"user a on",
        b"usr x",
        b"",
        b"# a comment",
        b"user c (+get",
        b"\v",
    ]
    with pytest.raises(LinesError) as caught:
        users_in(Users(), b"\n".join(lines), "f")
    unknown = "Unknown command or category name in ACL."
    assert caught.value.problems == (
        f"f:1: Error in applying operation '+nope': {unknown}",
        f"f:1: Error in applying operation '+bogus': {unknown}",
        "f:1: The password you are trying to remove from the user does not exist.",
        "WARNING: Duplicate user 'a' found on line 3.",
        "f:4 should start with user keyword followed by the username.",
        "f:7: Unmatched parenthesis in selector definition.",
        "f:8 should start with user keyword followed by the username.",
    )


# --- ACL LOG ------------------------------------------------------------------------------------

SET: Final = Refused(Reason.COMMAND, Context.TOPLEVEL, b"set", b"a")
GET: Final = Refused(Reason.COMMAND, Context.TOPLEVEL, b"get", b"a")


def test_alike_refusals_are_one_entry_for_a_minute() -> None:
    log = AclLog(128)
    log.note(SET, b"x", Millis(0))
    log.note(GET, b"x", Millis(1))
    log.note(SET, b"y", Millis(GROUPED_MS_MAX))
    assert [(one.refused, one.count, one.number) for one in log.entries] == [
        (SET, 2, 0),
        (GET, 1, 1),
    ]
    assert (log.entries[0].client, log.entries[0].created_ms) == (b"y", 0)
    log.note(SET, b"z", Millis(2 * GROUPED_MS_MAX + 1))
    assert [(one.refused, one.number) for one in log.entries] == [(SET, 2), (SET, 0), (GET, 1)]
    assert log.denied[Reason.COMMAND] == 4


def test_the_log_keeps_the_beginnings_of_long_names() -> None:
    log = AclLog(128)
    long = b"x" * 10_000
    for end in (b"1", b"2"):
        refused = Refused(Reason.KEY, Context.TOPLEVEL, long + end, b"u" + long + end)
        log.note(refused, b"c" + long + end, Millis(0))
    # Alike in what is kept, so they are one entry.
    [entry] = log.entries
    assert entry.count == 2
    kept = (entry.refused.subject, entry.refused.user)
    assert kept == (long[: NAME_BYTES_MAX.value], (b"u" + long)[: NAME_BYTES_MAX.value])
    assert entry.client == (b"c" + long)[: CLIENT_BYTES_MAX.value]


def test_programs_do_not_push_out_what_clients_were_refused() -> None:
    log = AclLog(128)
    log.note(SET, b"x", Millis(0))
    for number in range(200):
        refused = Refused(Reason.AUTH, Context.GRPC, b"Admin/Status", b"u%d" % number)
        log.note_program(refused, "10.0.0.9", Millis(900))
    assert len(log.entries) == 1 + NOTED_PER_SECOND_MAX.value
    assert log.entries[-1].refused == SET
    # All are counted, and the next second has room again.
    assert log.denied[Reason.AUTH] == 200
    log.note_program(refused, "10.0.0.9", Millis(1_000))
    assert log.entries[0].refused == refused


def test_a_program_is_described_in_words_that_can_be_told_apart() -> None:
    log = AclLog(128)
    refused = Refused(Reason.COMMAND, Context.HTTP, b"/metrics", b"a b\nid=7")
    log.note_program(refused, "10.0.0.9", Millis(0))
    [entry] = log.entries
    assert entry.client == b"id=0 addr=10.0.0.9 name= user=a?b?id=7 cmd=/metrics"


def test_the_log_is_bounded_when_something_is_added() -> None:
    log = AclLog(2)
    for number in range(4):
        log.note(Refused(Reason.KEY, Context.MULTI, b"%d" % number, b"a"), b"", Millis(0))
    assert [one.refused.subject for one in log.entries] == [b"3", b"2"]
    log.length_max = 0
    log.note(SET, b"", Millis(0))
    assert len(log.entries) == 2


def test_nothing_is_judged_for_a_user_that_may_do_everything(clients: Clients) -> None:
    clients.database.users.default.selectors = []
    assert clients.say("a", "SET k v") is OK


def test_a_wrong_line_does_not_steer_the_terminal() -> None:
    """The problems are printed by commands and at a start, and an operator may push any file."""
    with pytest.raises(LinesError) as caught:
        users_in(Users(), b"user a +\x1b[2J\x00get\nuser \x1b]0;x on\n", "users.acl")
    assert all(problem.isprintable() for problem in caught.value.problems)
    assert "\\x1b[2J" in str(caught.value)
