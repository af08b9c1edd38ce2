"""Users over sockets: logging in, ACL and its file, and what happens to connected clients.

The behaviours are those of Redis's own tests unit/acl, unit/acl-v2 and unit/auth; docs/acl.md lists
which of them do not apply here.
"""

import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry
from structlog.testing import capture_logs

from crdtstream.access.slowing import FREE_MAX, WAIT_SECONDS_MAX, WAIT_SECONDS_MIN
from crdtstream.database.acl.lines import NOTHING_CHANGED
from crdtstream.database.acl.selectors import EVERYTHING, key_pattern
from crdtstream.database.acl.users import Users
from crdtstream.resp.accounts import Accounts, AccountsError, hash_of
from crdtstream.secrets.aclfiles import EPOCH_MAX, FILE_BYTES_MAX, Fault
from crdtstream.settings.node_settings import NodeSettings
from tests.patience import seconds
from tests.resp.node import Node, RawClient, request, running

WRONG: Final = "invalid username-password pair or user is disabled."
SHA256: Final = re.compile(r"#[0-9a-f]{64}")
Connect = Callable[..., Any]


def settings_of(**given: Any) -> NodeSettings:
    return NodeSettings(region=1, dir=Path("unused"), **given)


@pytest.fixture
def aclfile(tmp_path: Path) -> Path:
    path = tmp_path / "users.acl"
    path.write_text(
        "user alice on allcommands allkeys &* >alice\n"
        "user bob on -@all +@stream +acl ~set* &* >bob\n"
        "user default on nopass ~* &* +@all\n"
    )
    return path


@pytest.fixture
def node(aclfile: Path) -> Iterator[Node]:
    with running(settings_of(aclfile=aclfile)) as node:
        yield node


@pytest.fixture
def connect(node: Node) -> Iterator[Connect]:
    """Makes clients of redis-py, each with one connection; ``user`` logs in with any password."""
    with ExitStack() as stack:

        def make(user: str = "", password: str = "x", **more: Any) -> Any:
            client = redis.Redis(
                port=node.port,
                protocol=2,
                single_connection_client=True,
                username=user or None,
                password=password if user else None,
                decode_responses=True,
                lib_name=None,
                lib_version=None,
                retry=Retry(NoBackoff(), 0),
                **more,
            )
            stack.callback(client.close)
            return client

        yield make


@pytest.fixture
def r(connect: Connect) -> Any:
    return connect()


def acl(client: Any, *words: str) -> Any:
    return client.execute_command("ACL", *words)


def getuser(client: Any, name: str) -> dict[str, Any]:
    """ACL GETUSER as a dict."""
    flat = acl(client, "GETUSER", name)
    return dict(zip(flat[::2], flat[1::2], strict=True))


# --- Logging in ---------------------------------------------------------------------------------


def test_a_new_user_is_off_and_may_do_nothing(r: Any, connect: Connect) -> None:
    acl(r, "SETUSER", "eve", ">one", ">two")
    with pytest.raises(redis.AuthenticationError, match=WRONG):
        connect("eve", "one").ping()
    acl(r, "SETUSER", "eve", "on", "+acl|whoami")
    eve = connect("eve", "two")
    assert acl(eve, "WHOAMI") == "eve"
    with pytest.raises(NoPermissionError, match="User eve has no permissions to run the 'pi"):
        eve.ping()
    with pytest.raises(redis.AuthenticationError, match=WRONG):
        connect("eve", "three").ping()


def test_the_last_auth_of_a_hello_counts(node: Node, r: Any) -> None:
    for name in ("one", "two"):
        acl(r, "SETUSER", name, "on", f">{name}", "+@all")
    hello, right, wrong = b"HELLO 2 AUTH nobody x", b" AUTH one one", b" AUTH one x"
    with node.client() as client:
        client.send(request(*(hello + right).split()))
        client.expect(b"*14\r\n")
        client.send(request(*(hello + right + wrong + b" SETNAME c").split()))
        while (line := client.read_line())[:1] != b"-":
            pass
        assert line.startswith(b"-WRONGPASS")
        client.ask(request(b"ACL", b"WHOAMI"), b"$3\r\none\r\n")
        client.ask(request(b"CLIENT", b"GETNAME"), b"$-1\r\n")


def test_hello_logs_in_although_default_may_run_nothing(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "default", "-@all")
    with node.client() as client:
        client.send(request(b"PING"))
        assert client.read_line().startswith(b"-NOPERM User default has no permissions")
        client.send(request(b"HELLO", b"2", b"AUTH", b"alice", b"alice"))
        client.expect(b"*14\r\n")


def test_clients_must_log_in_while_default_is_off(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "default", "off")
    with node.client() as client:
        client.ask(request(b"PING"), b"-NOAUTH Authentication required.\r\n")
        # One that came before goes on, as in Redis.
        assert r.ping() is True
        acl(r, "SETUSER", "default", "on")
        client.ask(request(b"PING"), b"+PONG\r\n")


def test_requirepass_is_the_password_of_default() -> None:
    with running(settings_of(requirepass="first")) as node:
        r = redis.Redis(port=node.port, password="first", single_connection_client=True)
        user = r.acl_getuser("default")
        assert user is not None
        assert user["flags"] == ["on", "sanitize-payload"]
        r.config_set("requirepass", "second")
        assert r.config_get("requirepass") == {"requirepass": ""}
        with node.client() as client:
            wrong = f"-WRONGPASS {WRONG}\r\n".encode()
            client.ask(request(b"AUTH", b"first"), wrong)
            client.ask(request(b"AUTH", b"second"), b"+OK\r\n")
            client.ask(request(b"CONFIG", b"SET", b"requirepass", b""), b"+OK\r\n")
            client.send(request(b"AUTH", b"second"))
            assert client.read_line().startswith(b"-ERR AUTH <password> called without any")
        r.close()


def test_wrong_logins_make_their_address_wait_and_nothing_else(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "default", ">right")
    with node.client() as guesser, node.client() as other:
        other.ask(request(b"AUTH", b"right"), b"+OK\r\n")
        for number in range(FREE_MAX.value + 1):
            guesser.send(request(b"AUTH", b"wrong%d" % number))
            assert guesser.read_line().startswith(b"-WRONGPASS")
        began = node.call(node.loop.time)
        guesser.send(request(b"AUTH", b"right") + request(b"PING"))
        # Clients that are logged in are served meanwhile, at once.
        other.ask(request(b"PING"), b"+PONG\r\n")
        guesser.expect(b"+OK\r\n+PONG\r\n")
        # The loop's clock counts whole milliseconds, as a float: their difference may be below it.
        waited_ms = round(1000 * (node.call(node.loop.time) - began))
        assert waited_ms >= 1000 * WAIT_SECONDS_MIN.value


def test_only_some_attempts_of_an_address_wait(
    node: Node, r: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtstream.access.logins.WAITING_MAX.value", 1)
    monkeypatch.setattr(WAIT_SECONDS_MIN, "value", WAIT_SECONDS_MAX.value)
    with node.client() as first, node.client() as second:
        for number in range(FREE_MAX.value + 1):
            first.send(request(b"AUTH", b"eve", b"wrong%d" % number))
            assert first.read_line().startswith(b"-WRONGPASS")
        first.send(request(b"AUTH", b"alice", b"alice"))
        # It is read once the first one waits.
        assert r.ping() is True
        second.send(request(b"AUTH", b"alice", b"alice"))
        assert second.read_line().startswith(b"-ERR too many wrong logins")


# --- Showing users ------------------------------------------------------------------------------


def test_users_are_shown_without_passwords(r: Any) -> None:
    rules = "on >secret %R~a %W~b ~c &d -@all +get ( +set ~e )"
    acl(r, "SETUSER", "u", *rules.split())
    raw = getuser(r, "u")
    assert raw["commands"] == "-@all +get"
    assert (raw["keys"], raw["channels"]) == ("%R~a %W~b ~c", "&d")
    assert raw["selectors"] == [["commands", "-@all +set", "keys", "~e", "channels", ""]]
    [line] = [line for line in acl(r, "LIST") if line.startswith("user u ")]
    assert SHA256.sub("#…", line) == (
        "user u on sanitize-payload #… %R~a %W~b ~c resetchannels &d -@all +get"
        " (~e resetchannels -@all +set)"
    )
    assert acl(r, "USERS") == ["alice", "bob", "default", "u"]
    assert acl(r, "GETUSER", "nobody") is None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["CAT", "nosuch"], "Unknown category 'nosuch'"),
        (["CAT", "a", "b"], "unknown subcommand or wrong number of arguments for 'CAT'"),
        (["GENPASS", "-236"], "ACL GENPASS argument must be the number of bits"),
        (["GENPASS", "5000"], "ACL GENPASS argument must be the number of bits"),
        (["SETUSER", "a b"], "Usernames can't contain spaces or null characters"),
        (["SETUSER", ""], "Usernames can't be empty"),
        (["SETUSER", "u", "+get", "bogus"], "Error in ACL SETUSER modifier 'bogus': Syntax error"),
        (["SETUSER", "u", "(+get"], "Unmatched parenthesis in acl selector starting at '(+get'."),
        (["SETUSER", "u", "(nope)"], "Error in ACL SETUSER modifier '(nope)': Syntax error"),
        (["DELUSER", "alice", "default"], "The 'default' user cannot be removed"),
        (["DRYRUN", "nobody", "get", "a"], "User 'nobody' not found"),
        (["DRYRUN", "alice", "nosuch"], "Command 'nosuch' not found"),
        (["DRYRUN", "alice", "get"], "wrong number of arguments for 'get' command"),
        (["HELP", "xxx"], "wrong number of arguments for 'acl|help' command"),
    ],
)
def test_wrong_requests_change_nothing(r: Any, words: list[str], error: str) -> None:
    before = acl(r, "LIST")
    with pytest.raises(redis.ResponseError, match=re.escape(error)):
        acl(r, *words)
    assert acl(r, "LIST") == before


def test_dry_runs_name_what_is_forbidden(r: Any) -> None:
    acl(r, "SETUSER", "u", "+get", "+publish", "~a")
    assert acl(r, "DRYRUN", "u", "get", "a") == "OK"
    told = "User u has no permissions to "
    assert acl(r, "DRYRUN", "u", "set", "a", "b") == told + "run the 'set' command"
    assert acl(r, "DRYRUN", "u", "get", "b") == told + "access the 'b' key"
    assert acl(r, "DRYRUN", "u", "publish", "c", "x") == told + "access the 'c' channel"


def test_passwords_are_made_of_chance(r: Any) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", acl(r, "GENPASS"))
    assert len(acl(r, "GENPASS", "5")) == 2
    assert acl(r, "GENPASS") != acl(r, "GENPASS")


def test_clients_are_listed_and_killed_by_user(r: Any, connect: Connect) -> None:
    alice = connect("alice", "alice")
    alice.ping()
    assert [one["user"] for one in r.client_list()] == ["default", "alice"]
    with pytest.raises(redis.ResponseError, match="No such user 'nobody'"):
        r.client_kill_filter(user="nobody")
    assert r.client_kill_filter(user="alice") == 1


def test_slowlog_shows_no_users_and_no_passwords(r: Any) -> None:
    r.config_set("slowlog-log-slower-than", 0)
    acl(r, "SETUSER", "topsecret", ">topsecret")
    acl(r, "GETUSER", "topsecret")
    acl(r, "DELUSER", "topsecret")
    for times in (1, 3, 1_000):
        with suppress(redis.ResponseError):
            acl(r, *["DRYRUN", "alice", "ACL"] * times, "SETUSER", "topsecret", ">topsecret")
        with suppress(redis.ResponseError):
            acl(r, *["DRYRUN", "alice", "ACL"] * times, "DRYRUN", "alice", "AUTH", "topsecret")
    assert "topsecret" not in str(r.slowlog_get(128))


# --- Clients of changed users -------------------------------------------------------------------


def logged_in(node: Node, user: bytes) -> RawClient:
    client = node.client()
    client.send(request(b"AUTH", user, b"x"))
    client.expect(b"+OK\r\n")
    return client


SUBSCRIBED: Final = {
    b"SUBSCRIBE": b"foo:1",
    b"SSUBSCRIBE": b"foo:1",
    b"PSUBSCRIBE": b"bar:*",
}


@pytest.mark.parametrize("command", SUBSCRIBED)
def test_subscribers_end_with_their_right_and_stay_while_they_have_it(
    node: Node, r: Any, command: bytes
) -> None:
    acl(r, "SETUSER", "sub", "on", "nopass", "+@all", "&foo:1", "&bar:*")
    with logged_in(node, b"sub") as client:
        client.send(request(command, SUBSCRIBED[command]))
        client.expect(b"*3\r\n")
        acl(r, "SETUSER", "sub", "resetchannels", "&foo:1", "&bar:*", "&more")
        acl(r, "SETUSER", "sub", "allchannels")
        assert len(r.client_list()) == 2
        acl(r, "SETUSER", "sub", "resetchannels", "&else")
        assert len(r.client_list()) == 1
        rest = client.read(1000)
        assert rest.count(b"\r\n") == 5, rest


def test_a_subscriber_that_takes_its_own_right_gets_its_reply(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "sub", "on", "nopass", "+@all", "&foo")
    with node.client() as client:
        client.send(request(b"HELLO", b"3", b"AUTH", b"sub", b"x") + request(b"SUBSCRIBE", b"foo"))
        while client.read_line() != b"subscribe":
            pass
        client.expect(b"$3\r\nfoo\r\n:1\r\n")
        client.ask(request(b"ACL", b"SETUSER", b"sub", b"resetchannels"), b"+OK\r\n")
        client.expect_closed()


def test_clients_of_a_removed_user_are_hung_up_on(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "gone", "on", "nopass", "+@all", "~*")
    with (
        logged_in(node, b"gone") as idle,
        logged_in(node, b"gone") as blocked,
        logged_in(node, b"gone") as caller,
    ):
        blocked.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"))
        while r.info("clients")["blocked_clients"] != 1:
            pass
        caller.ask(request(b"ACL", b"DELUSER", b"gone", b"nobody"), b":1\r\n")
        for client in (idle, blocked, caller):
            client.expect_closed()
    assert r.ping() is True
    assert r.info("clients")["blocked_clients"] == 0


def test_a_client_of_a_user_that_was_switched_off_goes_on(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "off", "on", "nopass", "+ping")
    with logged_in(node, b"off") as client:
        acl(r, "SETUSER", "off", "off")
        client.ask(request(b"PING"), b"+PONG\r\n")
        client.send(request(b"AUTH", b"off", b"x"))
        assert client.read_line().startswith(b"-WRONGPASS")


# --- Refusals -----------------------------------------------------------------------------------


def test_refusals_are_counted_and_kept(r: Any, connect: Connect) -> None:
    acl(r, "SETUSER", "u", "on", "nopass", "+set", "+publish", "+multi", "+exec", "~a")
    u = connect("u")
    for line in ("GET a", "SET b x", "PUBLISH c x", "GET a"):
        with pytest.raises(NoPermissionError):
            u.execute_command(*line.split())
    with pytest.raises(redis.AuthenticationError):
        connect("u2").ping()
    entries = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in acl(r, "LOG")]
    keys = ("count", "reason", "context", "object", "username", "entry-id")
    assert [tuple(entry[key] for key in keys) for entry in entries] == [
        (1, "auth", "toplevel", "AUTH", "u2", 3),
        (2, "command", "toplevel", "get", "u", 0),
        (1, "channel", "toplevel", "c", "u", 2),
        (1, "key", "toplevel", "b", "u", 1),
    ]
    assert " cmd=get user=u " in entries[1]["client-info"]
    assert entries[1]["timestamp-last-updated"] >= entries[1]["timestamp-created"]
    assert len(acl(r, "LOG", "2")) == 2
    stats = r.info("stats")
    names = ("auth", "cmd", "key", "channel")
    assert [stats[f"acl_access_denied_{name}"] for name in names] == [1, 2, 1, 1]
    acl(r, "LOG", "RESET")
    assert acl(r, "LOG") == []
    r.config_resetstat()
    assert r.info("stats")["acl_access_denied_cmd"] == 0


def test_age_is_a_double(node: Node) -> None:
    with node.client() as client:
        client.send(request(b"HELLO", b"3", b"AUTH", b"eve", b"x"))
        client.read_line()
        client.send(request(b"HELLO", b"3") + request(b"ACL", b"LOG"))
        while client.read_line() != b"age-seconds":
            pass
        assert re.fullmatch(rb",[0-9.]+", client.read_line())


# --- The aclfile --------------------------------------------------------------------------------


def test_users_are_saved_and_loaded(r: Any, connect: Connect, aclfile: Path) -> None:
    acl(r, "SETUSER", "eve", "+get", "allkeys", ">eve", "on")
    acl(r, "SAVE")
    assert aclfile.read_text().splitlines() == acl(r, "LIST")
    assert aclfile.stat().st_mode & 0o777 == 0o600
    assert list(aclfile.parent.iterdir()) == [aclfile]
    before = acl(r, "LIST")
    eve = connect("eve", "eve")
    assert eve.get("k") is None
    acl(r, "SETUSER", "eve", "nocommands")
    acl(r, "SETUSER", "more")
    acl(r, "LOAD")
    assert acl(r, "LIST") == before
    # The same client, with the rights that it had before.
    assert eve.get("k") is None


def test_a_wrong_file_changes_nothing(r: Any, aclfile: Path) -> None:
    before = acl(r, "LIST")
    with aclfile.open("a") as file:
        file.write("user eve on +get ~*\nuser alice on nopass ~* -@all\nuser mallory +nosuch\n")
    with pytest.raises(redis.ResponseError) as caught:
        acl(r, "LOAD")
    assert str(caught.value) == (
        "WARNING: Duplicate user 'alice' found on line 5. "
        f"{aclfile}:6: Error in applying operation '+nosuch': Unknown command or category name in"
        " ACL. WARNING: ACL errors detected, no change to the previously active ACL rules was"
        " performed"
    )
    assert acl(r, "LIST") == before


def test_loading_hangs_up_on_those_who_lost_something(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "alice", "nopass")
    acl(r, "SETUSER", "doug", "on", "nopass", "+@all", "~*", "&test*")
    with logged_in(node, b"alice") as alice, logged_in(node, b"doug") as doug:
        for client in (alice, doug):
            client.send(request(b"SUBSCRIBE", b"test1"))
            client.expect(b"*3\r\n$9\r\nsubscribe\r\n$5\r\ntest1\r\n:1\r\n")
        acl(r, "LOAD")
        doug.expect_closed()
        r.publish("test1", "hello")
        alice.expect(b"*3\r\n$7\r\nmessage\r\n$5\r\ntest1\r\n$5\r\nhello\r\n")


def test_a_file_that_cannot_be_written_stays_as_it_was(
    r: Any, aclfile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = aclfile.read_bytes()
    acl(r, "SETUSER", "eve")

    def read_wrong(_path: Path) -> bytes:
        return b"something else"

    monkeypatch.setattr(Path, "read_bytes", read_wrong)
    with pytest.raises(redis.ResponseError, match="There was an error trying to save the ACLs"):
        acl(r, "SAVE")
    monkeypatch.undo()
    assert aclfile.read_bytes() == before
    assert list(aclfile.parent.iterdir()) == [aclfile]


def test_users_that_would_be_read_differently_are_not_saved(
    r: Any, node: Node, aclfile: Path
) -> None:
    """No rule makes such users; if one ever does, the file stays good."""
    before = aclfile.read_bytes()
    users = node.database.users
    for name, pattern in ((b"eve", b"a +@all"), (b"", b"a"), (b"eve", b"a)")):
        acl(r, "SETUSER", "eve", "on", "(~a)")
        eve = users.new(name)
        eve.selectors += [users.default.selectors[0].copied()]
        eve.selectors[1].all_keys = False
        eve.selectors[1].key_patterns = [key_pattern(pattern, EVERYTHING)]
        node.call(partial(users.put, eve))
        with pytest.raises(redis.ResponseError, match="would not be the same when the file is"):
            acl(r, "SAVE")
        node.call(partial(users.remove, name))
        assert aclfile.read_bytes() == before
    acl(r, "SAVE")


def test_an_aclfile_has_a_bound_wherever_it_comes_from(
    aclfile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FILE_BYTES_MAX, "value", 300)
    content = b"user eve on >e +get ~a\n"
    fits = content + b"#" * (300 - len(content))
    aclfile.write_bytes(fits)
    settings = settings_of(aclfile=aclfile)
    accounts = Accounts(Users(), settings)
    accounts.load()
    before = accounts.count_and_hash()
    told = "larger than an aclfile may be (300 bytes)"
    # The comment with the epoch counts: a start reads it, too.
    for pushed in (fits + b"#", fits):
        for only_check in (True, False):
            with pytest.raises(AccountsError, match=re.escape(told)):
                accounts.push(pushed, 1, only_check=only_check)
    aclfile.write_bytes(fits + b"#")
    with pytest.raises(AccountsError, match=re.escape(told)):
        accounts.load()
    with pytest.raises(AccountsError, match=re.escape(told)):
        Accounts(Users(), settings)
    assert accounts.count_and_hash() == before
    accounts.set_user(b"long", [b"~" + b"x" * 300])
    with pytest.raises(AccountsError, match=re.escape(told)):
        accounts.save()
    assert aclfile.read_bytes() == fits + b"#"


def test_a_pipe_is_no_aclfile(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Opened for reading and writing, as nothing waits then if it is read after all.
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    os.write(descriptor, b"user eve on\n" * 3)
    try:
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(Accounts, Users(), settings_of(aclfile=pipe))
            try:
                with pytest.raises(AccountsError, match="pipe': it is no file; create it, or ch"):
                    found.result(seconds())
            finally:
                # Its reader gets to an end.
                os.write(descriptor, b"#" * 1000)
                os.close(descriptor)
    finally:
        pipe.unlink()


def test_a_missing_aclfile_is_told_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(
        AccountsError, match=r"No such file .*; create it, or check path and rights"
    ):
        Accounts(Users(), settings_of(aclfile=tmp_path / "none.acl"))


def test_without_a_file_there_is_nothing_to_load() -> None:
    with running(settings_of()) as node, node.client() as client:
        for word in (b"LOAD", b"SAVE"):
            client.send(request(b"ACL", word))
            told = client.read_line()
            assert told.startswith(b"-ERR This Redis instance is not configured to use an ACL file")


def test_a_file_without_default_leaves_it_as_the_settings_make_it(aclfile: Path) -> None:
    aclfile.write_text("user alice on >alice +@all\n")
    users = Users()
    Accounts(users, settings_of(aclfile=aclfile, requirepass="secret"))
    assert users.log_in(b"default", b"wrong") is None
    assert users.log_in(b"default", b"secret") is users.default


# --- Settings -----------------------------------------------------------------------------------


def test_users_beside_requirepass_leave_default_its_password() -> None:
    users = Users()
    Accounts(users, settings_of(users=("eve on >e",), requirepass="secret"))
    assert users.log_in(b"default", b"wrong") is None
    assert users.log_in(b"default", b"secret") is users.default


def test_users_of_the_settings_are_made_from_nothing() -> None:
    users = Users()
    Accounts(users, settings_of(users=("default on nopass ~* +@all -flushdb", "eve on >e +get ~a")))
    assert not users.default.selectors[0].all_channels
    assert users.log_in(b"eve", b"e") is not None


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("foo", "foo"), "Duplicate user 'foo' found in entry 2 of the setting users"),
        (
            ("eve\n+get", "foo +nosuch"),
            "entry 2 of the setting users: Error in applying operation '+nosuch'",
        ),
    ],
)
def test_wrong_users_of_the_settings_are_refused(lines: tuple[str, ...], problem: str) -> None:
    with pytest.raises(AccountsError, match=re.escape(problem)) as caught:
        Accounts(Users(), settings_of(users=lines))
    # Nothing was active before a start.
    assert NOTHING_CHANGED not in caught.value.problems


def test_new_users_have_channels_as_the_settings_say(r: Any) -> None:
    acl(r, "SETUSER", "before")
    r.config_set("acl-pubsub-default", "allchannels")
    acl(r, "SETUSER", "behind", "(+get)")
    assert getuser(r, "before")["channels"] == ""
    behind = getuser(r, "behind")
    assert (behind["channels"], behind["selectors"][0][-1]) == ("&*", "&*")
    with pytest.raises(redis.ResponseError, match="start with an empty list of channels"):
        acl(r, "SETUSER", "one", "&test")


OPEN: Final[dict[str, Any]] = {"host": "0.0.0.0", "requirepass": "a-password-of-24-letters"}


@pytest.mark.parametrize(
    "given", [{"users": ("default off", "eve on nopass +@all")}, {"users": ("eve off",)}]
)
def test_a_node_that_others_reach_wants_passwords_of_all(given: dict[str, Any]) -> None:
    """Of ``default``, too: without a line of its own, it is as requirepass says."""
    settings = settings_of(host="0.0.0.0", **given)
    with pytest.raises(AccountsError, match="is on and needs no password"):
        Accounts(Users(), settings)


def test_an_open_default_is_told_with_the_line_that_closes_it(aclfile: Path) -> None:
    aclfile.write_text("user eve on >a-password-of-24-letters\n")
    for given, line in (
        ({"aclfile": aclfile}, "user default off"),
        ({"users": ("e",)}, "default o"),
    ):
        with pytest.raises(AccountsError, match=f"set requirepass, or add the line `{line}"):
            Accounts(Users(), settings_of(host="0.0.0.0", **given))


@pytest.mark.parametrize("rule", [">", "#" + hashlib.sha256().hexdigest()])
def test_an_empty_password_is_none_where_others_reach_the_node(rule: str) -> None:
    line = f"default on {rule} ~* &* +@all"
    with pytest.raises(AccountsError, match="user 'default' is on and has an empty password"):
        Accounts(Users(), settings_of(host="0.0.0.0", users=(line,)))
    accounts = Accounts(Users(), settings_of(**OPEN))
    with pytest.raises(AccountsError, match="user 'eve' is on and has an empty password"):
        accounts.set_user(b"eve", [b"on", rule.encode()])
    accounts.set_user(b"eve", [b"off", rule.encode()])
    Accounts(Users(), settings_of(users=(line,)))


def test_a_user_cannot_be_opened_to_other_machines() -> None:
    users = Users()
    accounts = Accounts(users, settings_of(**OPEN))
    with pytest.raises(AccountsError, match="user 'eve' is on and needs no password"):
        accounts.set_user(b"eve", [b"on", b"nopass"])
    assert users.get(b"eve") is None
    accounts.set_user(b"eve", [b"off", b"nopass"])
    with pytest.raises(AccountsError, match="user 'default' is on and needs no password"):
        accounts.check_default_password(b"")


def test_a_short_password_is_told_once_where_others_can_guess_it() -> None:
    with capture_logs() as lines:
        Accounts(Users(), settings_of()).set_user(b"eve", [b">short"])
        assert lines == []
        accounts = Accounts(Users(), settings_of(**OPEN))
        assert lines == []
        accounts.set_user(b"carol", [b">short"])
        accounts.set_user(b"bob", [b">short"])
    assert len(lines) == 1
    assert "short" in lines[0]["event"]
    assert "carol" not in str(lines)


def test_only_users_that_come_into_use_have_short_passwords(aclfile: Path) -> None:
    with capture_logs() as lines:
        aclfile.write_text("user root on >short +@all\nuser default on nopass +@all\n")
        with pytest.raises(AccountsError, match="needs no password"):
            Accounts(Users(), settings_of(aclfile=aclfile, **OPEN))
        aclfile.write_text(f"# was >short\nuser default off\nuser root {ADMIN}\n")
        accounts = Accounts(Users(), settings_of(aclfile=aclfile, **OPEN))
        assert lines == []
        aclfile.write_text("user default off\nuser root on >short +@all\n")
        accounts.load()
    assert [one["event"].partition(",")[0] for one in lines] == [
        "a password is short (fewer than 16 bytes)"
    ]


# --- One file for all regions -------------------------------------------------------------------


def test_a_pushed_file_is_kept_with_its_epoch(aclfile: Path) -> None:
    accounts = Accounts(Users(), settings_of(aclfile=aclfile))
    content = b"user eve on >e +get ~a\n"
    checked = accounts.push(content, 3, only_check=True)
    assert (accounts.epoch, len(accounts.users)) == (0, 3)
    assert accounts.push(content, 3, only_check=False) == checked == accounts.count_and_hash()
    with pytest.raises(AccountsError, match="epoch 3 is not above 3"):
        accounts.push(content, 3, only_check=False)
    again = Accounts(Users(), settings_of(aclfile=aclfile))
    assert (again.epoch, again.count_and_hash()) == (3, checked)
    again.save()
    assert Accounts(Users(), settings_of(aclfile=aclfile)).epoch == 3


ADMIN: Final = "on >a-password-of-24-letters ~* &* +@all"


@pytest.mark.parametrize(
    "root",
    [
        "",
        f"user root {ADMIN} off",
        f"user root {ADMIN} resetpass",
        f"user root {ADMIN} -config",
        "user root on >a-password-of-24-letters (~* &* +@all -acl) (+@read)",
    ],
)
def test_a_push_that_would_leave_no_way_in_is_refused(aclfile: Path, root: str) -> None:
    accounts = Accounts(Users(), settings_of(aclfile=aclfile))
    before = accounts.count_and_hash(), aclfile.read_bytes()
    content = f"user default off\nuser eve on >e +@read\n{root}\n".encode()
    for only_check in (True, False):
        with pytest.raises(AccountsError, match="nobody could administer") as caught:
            accounts.push(content, 1, only_check=only_check)
        assert caught.value.fault is Fault.CONTENT
    assert (accounts.count_and_hash(), aclfile.read_bytes()) == before
    accounts.push(content, 1, only_check=False, may_lock_out=True)
    assert accounts.epoch == 1


def test_users_of_a_push_need_no_administrator_beside_operators_with_certificates(
    aclfile: Path,
) -> None:
    files = dict.fromkeys(("tls_cert_file", "tls_key_file", "tls_ca_cert_file"), aclfile)
    settings = settings_of(aclfile=aclfile, tls_replication=True, **files)
    content = b"user default off\nuser eve on >e +@read\n"
    Accounts(Users(), settings).push(content, 1, only_check=False)
    assert Accounts(Users(), settings).users.get(b"eve") is not None


def test_nobody_pushes_away_the_own_right(aclfile: Path) -> None:
    accounts = Accounts(Users(), settings_of(aclfile=aclfile))
    both = f"user default off\nuser root {ADMIN}\nuser ann {ADMIN}\n".encode()
    # A user that needed no password may give that up.
    accounts.push(both, 1, only_check=False, caller=b"default")
    for line in (b"", b"user root on >e +@read\n"):
        content = f"user default off\nuser ann {ADMIN}\n".encode() + line
        for only_check in (True, False):
            with pytest.raises(AccountsError, match="user 'root', which pushes the file"):
                accounts.push(content, 2, only_check=only_check, caller=b"root")
    assert accounts.users.get(b"root") is not None
    accounts.push(content, 2, only_check=True, caller=b"ann")
    accounts.push(content, 2, only_check=True, caller=b"root", may_lock_out=True)
    with pytest.raises(AccountsError, match="user 'default', which pushes the file"):
        accounts.push(content, 2, only_check=True, caller=b"default")


def test_problems_of_a_push_are_those_of_the_pushed_file(aclfile: Path) -> None:
    accounts = Accounts(Users(), settings_of(aclfile=aclfile))
    with pytest.raises(AccountsError, match=r"^the pushed file:2: Error in applying") as caught:
        accounts.push(b"user ann on\nuser eve on +nosuch\n", 1, only_check=True)
    assert str(aclfile) not in str(caught.value)


def test_an_epoch_has_a_bound_that_its_comment_can_say(aclfile: Path) -> None:
    accounts = Accounts(Users(), settings_of(aclfile=aclfile))
    content = b"user eve on >e +get ~a\n"
    for epoch in (EPOCH_MAX + 1, 2**64 - 1):
        for only_check in (True, False):
            with pytest.raises(AccountsError, match=f"epoch {epoch} is above"):
                accounts.push(content, epoch, only_check=only_check)
    accounts.push(content, EPOCH_MAX, only_check=False)
    again = Accounts(Users(), settings_of(aclfile=aclfile))
    assert again.epoch == EPOCH_MAX
    # The cure that crdb acl push tells: without the comment pushes begin anew.
    aclfile.write_bytes(content)
    again.load()
    again.push(content, 1, only_check=False)


def test_a_refused_push_says_where_the_fault_lies(aclfile: Path) -> None:
    def fault(accounts: Accounts, content: bytes, epoch: int) -> Fault:
        with pytest.raises(AccountsError) as caught:
            accounts.push(content, epoch, only_check=False)
        assert "server logs" not in str(caught.value)
        return caught.value.fault

    accounts = Accounts(Users(), settings_of(aclfile=aclfile))
    before = accounts.count_and_hash()
    assert fault(Accounts(Users(), settings_of()), b"user a\n", 1) is Fault.NODE
    assert fault(accounts, b"user a\n", 0) is Fault.NODE
    assert fault(accounts, b"user a +nosuch\n", 1) is Fault.CONTENT
    aclfile.unlink()
    aclfile.parent.rename(aclfile.parent.with_suffix(".away"))
    assert fault(accounts, b"user a\n", 1) is Fault.DISK
    assert accounts.count_and_hash() == before


@pytest.mark.long
def test_a_hash_shows_a_difference_and_eight_bits_of_a_password() -> None:
    def hashed(*rules: bytes) -> str:
        accounts = Accounts(Users(), settings_of())
        accounts.set_user(b"eve", list(rules))
        return hash_of(accounts.users.all())

    assert hashed(b"+get") == hashed(b"+get") != hashed(b"+set")
    # Of 256 values, 600 draws are expected to find 231.
    assert 200 < len({hashed(b">%d" % number) for number in range(600)}) <= 256


# --- Pipelines ----------------------------------------------------------------------------------


def piped(node: Node, keys: list[bytes]) -> list[bytes]:
    """First byte of each reply to XADDs of one pipeline."""
    with logged_in(node, b"w") as client:
        client.send(b"".join(request(b"XADD", key, b"*", b"f", b"v") for key in keys))
        return [client.read_reply()[:1] for _ in keys]


def test_a_pipeline_of_one_stream_needs_the_right_to_it(node: Node, r: Any) -> None:
    for key in ("mine", "other"):
        r.xadd(key, {"f": "v"})
    acl(r, "SETUSER", "w", "on", "nopass", "+xadd", "~mine")
    runs = node.database.runs
    before = runs.xadds_called
    assert b"-" not in piped(node, [b"mine"] * 20)
    assert runs.xadds_called > before
    assert piped(node, [b"other"] * 20) == [b"-"] * 20
    assert r.xlen("other") == 1


def test_a_pipeline_of_many_streams_needs_the_rights_to_all(node: Node, r: Any) -> None:
    for key in ("mine", "other"):
        r.xadd(key, {"f": "v"})
    acl(r, "SETUSER", "w", "on", "nopass", "+xadd", "~mine")
    told = piped(node, [b"mine", b"other"] * 10)
    assert [reply == b"-" for reply in told] == [False, True] * 10
    assert r.xlen("other") == 1


# --- Rights that change while a client is at work -------------------------------------------------


def test_a_blocked_client_that_lost_its_right_is_refused_when_it_wakes(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "w", "on", "nopass", "+xread", "~s")
    with logged_in(node, b"w") as blocked:
        blocked.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"))
        while r.info("clients")["blocked_clients"] != 1:
            pass
        acl(r, "SETUSER", "w", "resetkeys")
        r.xadd("s", {"f": "v"})
        assert blocked.read_line().startswith(b"-NOPERM")


def test_a_transaction_is_judged_when_it_is_executed(node: Node, r: Any) -> None:
    acl(r, "SETUSER", "w", "on", "nopass", "+xadd", "+multi", "+exec", "~s")
    with logged_in(node, b"w") as client:
        client.ask(request(b"MULTI"), b"+OK\r\n")
        client.ask(request(b"XADD", b"s", b"*", b"f", b"v"), b"+QUEUED\r\n")
        acl(r, "SETUSER", "w", "-xadd")
        client.send(request(b"EXEC"))
        assert client.read_line() == b"*1"
        assert client.read_line().startswith(b"-NOPERM")
    assert r.exists("s") == 0


def test_a_pipeline_that_takes_its_own_right_away_is_refused_from_there_on(
    node: Node, r: Any
) -> None:
    acl(r, "SETUSER", "w", "on", "nopass", "+xadd", "+acl", "~mine")
    runs = node.database.runs
    before = runs.xadds_called
    xadds = request(b"XADD", b"mine", b"*", b"f", b"v") * 20
    with logged_in(node, b"w") as client:
        client.send(xadds + request(b"ACL", b"SETUSER", b"w", b"resetkeys") + xadds)
        replies = [client.read_reply()[:1] for _ in range(41)]
    assert replies == [b"1"] * 20 + [b"+"] + [b"-"] * 20
    # They came in runs, which are judged together.
    assert runs.xadds_called > before
    assert r.xlen("mine") == 20


def test_a_wrong_password_costs_as_much_as_a_wrong_user(
    r: Any, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each digest is compared, in constant time, whether or not such a user exists."""
    acl(r, "SETUSER", "eve", "on", ">right", "+ping")
    compared: list[int] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append(len(a))
        return compare_digest(a, b)

    compare_digest = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    costs = []
    for user, password in (("eve", "right"), ("eve", "wrong"), ("nobody", "wrong")):
        compared.clear()
        with suppress(redis.AuthenticationError):
            connect(user, password).ping()
        costs.append(list(compared))
    assert costs[0] == costs[1] == costs[2] != []


def test_monitor_needs_both_rights_of_an_admin(r: Any, connect: Connect) -> None:
    for name, lacks in (("one", "-@admin"), ("two", "-@dangerous")):
        acl(r, "SETUSER", name, "on", "nopass", "+@all", lacks)
        with pytest.raises(NoPermissionError):
            connect(name).execute_command("MONITOR")


def test_acl_help_names_its_subcommands(r: Any) -> None:
    found = acl(r, "HELP")
    assert found[0].startswith("ACL <subcommand>")
    assert any(line.startswith("GETUSER") for line in found)


def test_the_length_of_acl_log_is_set_while_it_runs(r: Any, connect: Connect) -> None:
    r.config_set("acllog-max-len", 2)
    for name in ("one", "two", "three"):
        with suppress(redis.AuthenticationError):
            connect(name).ping()
    assert [entry["username"] for entry in r.acl_log()] == ["three", "two"]
