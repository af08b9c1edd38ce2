"""Commands about connections and the server: HELLO, CLIENT, CONFIG, INFO, WAIT …"""

import contextlib
from typing import Any

import pytest
import redis

from crdtstream.core.ids import RegionId
from tests import patience
from tests.resp.node import Node, RawClient, request, running, settings
from tests.resp.test_protocol import wait_until


def words(line: bytes) -> bytes:
    """A request of the words of a line; ``""`` is an empty one."""
    return request(*(b"" if word == b'""' else word for word in line.split(b" ")))


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PING", b"+PONG"),
        (b"PING hi", b"$2\r\nhi"),
        (b"PING a b", b"-ERR wrong number of arguments for 'ping' command"),
        (b"ECHO", b"-ERR wrong number of arguments for 'echo' command"),
        (b"SELECT 0", b"+OK"),
        (b"SELECT 1", b"-ERR DB index is out of range"),
        (b"SELECT a", b"-ERR value is not an integer or out of range"),
        (
            b"SELECT 2147483648",
            b"-ERR value is out of range, value must between -2147483648 and 2147483647",
        ),
        (b"AUTH default x", b"+OK"),
        (b"AUTH who x", b"-WRONGPASS invalid username-password pair or user is disabled."),
        (b"AUTH a b c", b"-ERR syntax error"),
        (
            b"AUTH x",
            (
                b"-ERR AUTH <password> called without any password configured for the default "
                b"user. Are you sure your configuration is correct?"
            ),
        ),
        (b"HELLO 4", b"-NOPROTO unsupported protocol version"),
        (b"HELLO a", b"-ERR Protocol version is not an integer or out of range"),
        (b"HELLO 3 FOO", b"-ERR Syntax error in HELLO option 'FOO'"),
        (b"HELLO 3 AUTH x", b"-ERR Syntax error in HELLO option 'AUTH'"),
        (b"RESET", b"+RESET"),
        (b"RESET a", b"-ERR wrong number of arguments for 'reset' command"),
        (b"TIME a", b"-ERR wrong number of arguments for 'time' command"),
        (b"CLIENT", b"-ERR wrong number of arguments for 'client' command"),
        (b"CLIENT foo", b"-ERR unknown subcommand 'foo'. Try CLIENT HELP."),
        (b"CLIENT ID x", b"-ERR wrong number of arguments for 'client|id' command"),
        (b"CLIENT GETNAME", b"$-1"),
        (
            b"CLIENT SETNAME a\nb",
            b"-ERR Client names cannot contain spaces, newlines or special characters.",
        ),
        (b"CLIENT SETINFO foo x", b"-ERR Unrecognized option 'foo'"),
        (
            b"CLIENT SETINFO lib-name a\nb",
            b"-ERR lib-name cannot contain spaces, newlines or special characters.",
        ),
        (b"CLIENT LIST TYPE foo", b"-ERR Unknown client type 'foo'"),
        (b"CLIENT LIST ID a", b"-ERR Invalid client ID"),
        (b"CLIENT LIST ID 99999", b"$0\r\n"),
        (b"CLIENT UNBLOCK a", b"-ERR value is not an integer or out of range"),
        (b"CLIENT UNBLOCK 1 foo", b"-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        (b"CLIENT UNBLOCK 99999", b":0"),
        (b"CLIENT KILL 1.2.3.4:5", b"-ERR No such client"),
        (b"CLIENT KILL ID 99999", b":0"),
        (b"CLIENT KILL ID 1 SKIPME", b"-ERR syntax error"),
        (b"CLIENT REPLY foo", b"-ERR syntax error"),
        (b"CLIENT NO-EVICT on", b"+OK"),
        (b"CLIENT NO-TOUCH foo", b"-ERR syntax error"),
        (b"CLIENT TRACKING off", b"+OK"),
        (
            b"CLIENT TRACKING on",
            (
                b"-ERR client-side caching is not supported by this server: TRACKING ON is "
                b"accepted with OPTIN only. Turn the client's cache off"
            ),
        ),
        (
            b"CLIENT MAINT_NOTIFICATIONS ON",
            b"-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
        ),
        (b"COMMAND COUNT x", b"-ERR wrong number of arguments for 'command|count' command"),
        (b"COMMAND FOO", b"-ERR unknown subcommand 'FOO'. Try COMMAND HELP."),
        (b"COMMAND GETKEYS ping", b"-ERR The command has no key arguments"),
        (b"COMMAND GETKEYS foo", b"-ERR Invalid command specified"),
        (b"COMMAND GETKEYS xadd", b"-ERR Invalid number of arguments specified for command"),
        (b"COMMAND LIST FOO", b"-ERR syntax error"),
        (b"CONFIG GET", b"-ERR wrong number of arguments for 'config|get' command"),
        (b"CONFIG GET nosuch", b"*0"),
        (b"CONFIG GET save", b"*2\r\n$4\r\nsave\r\n$0\r\n"),
        (b'CONFIG SET save ""', b"+OK"),
        (b"CONFIG SET foo 1", b"-ERR Unknown option or number of arguments for CONFIG SET - 'foo'"),
        (
            b"CONFIG SET maxclients abc",
            (
                b"-ERR CONFIG SET failed (possibly related to argument 'maxclients') - "
                b"argument couldn't be parsed into an integer"
            ),
        ),
        (
            b"CONFIG SET databases 2",
            (
                b"-ERR CONFIG SET failed (possibly related to argument 'databases') - "
                b"can't set immutable config"
            ),
        ),
        (
            b"CONFIG SET timeout 0 timeout 0",
            (
                b"-ERR CONFIG SET failed (possibly related to argument 'timeout') - "
                b"duplicate parameter"
            ),
        ),
        (
            b"CONFIG SET crdt_xadd_id_uniqueness_mode loose",
            (
                b"-ERR CONFIG SET failed (possibly related to argument "
                b"'crdt_xadd_id_uniqueness_mode') - argument(s) must be one of the "
                b"following: strict, semi-strict, liberal"
            ),
        ),
        (b"WAIT a 0", b"-ERR value is not an integer or out of range"),
        (b"WAIT 0 a", b"-ERR timeout is not an integer or out of range"),
        (b"WAIT 0 -1", b"-ERR timeout is negative"),
        (b"WAIT 0 9223372036854775807", b"-ERR timeout is out of range"),
        (b"WAIT 0 0", b":0"),
        (b"WAIT 1 10", b":0"),
        (b"WAIT -1 10", b":0"),
    ],
)
def test_the_answer_is_redis_s(client: RawClient, line: bytes, reply: bytes) -> None:
    client.ask(words(line), reply + b"\r\n")


# --- HELLO --------------------------------------------------------------------------------------


def test_hello_answers_in_the_protocol_it_chose(client: RawClient) -> None:
    client.send(request(b"HELLO", b"3", b"SETNAME", b"me"))
    client.expect(b"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n")
    rest = b""
    while not rest.endswith(b"$7\r\nmodules\r\n*0\r\n"):
        rest += client.read(1)
    assert b"$5\r\nproto\r\n:3\r\n" in rest
    assert b"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n" in rest
    client.ask(request(b"CLIENT", b"GETNAME"), b"$2\r\nme\r\n")
    client.ask(request(b"XREAD", b"STREAMS", b"none", b"0"), b"_\r\n")
    client.ask(request(b"RESET") + request(b"CLIENT", b"GETNAME"), b"+RESET\r\n$-1\r\n")


def test_a_hello_that_fails_changes_nothing(client: RawClient) -> None:
    client.send(request(b"HELLO", b"3", b"SETNAME", b"me", b"FOO"))
    client.expect(b"-ERR Syntax error in HELLO option 'FOO'\r\n")
    client.ask(request(b"CLIENT", b"GETNAME"), b"$-1\r\n")


def test_hello_without_authentication_says_how() -> None:
    with running(settings(requirepass="secret")) as node, node.client() as client:
        client.send(request(b"HELLO", b"3"))
        client.expect(b"-NOAUTH HELLO must be called with the client already authenticated")


# --- CLIENT -------------------------------------------------------------------------------------


def test_client_list_shows_every_connection_by_id(node: Node, r: Any) -> None:
    with contextlib.closing(redis.Redis(port=node.port, protocol=2, client_name="b")) as other:
        other.ping()
        r.client_setname("a")
        r.execute_command("CLIENT", "SETINFO", "LIB-NAME", "thing")
        rows = r.client_list()
        assert [int(row["id"]) for row in rows] == sorted(int(row["id"]) for row in rows)
        assert {"a", "b"} <= {row["name"] for row in rows}
        (mine,) = (row for row in rows if row["name"] == "a")
        assert mine["lib-name"] == "thing"
        assert mine["cmd"] == "client|list"
        assert int(mine["id"]) == r.client_id() == r.client_info()["id"]


def test_client_unblock_wakes_a_reader(node: Node, r: Any) -> None:
    with node.client() as reader:
        for reason, reply in (
            ("TIMEOUT", b"*-1\r\n"),
            ("ERROR", b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
        ):
            reader.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"wake", b"$"))
            while not r.info("clients")["blocked_clients"]:
                pass
            (blocked,) = (row for row in r.client_list() if row["flags"] == "b")
            assert r.execute_command("CLIENT", "UNBLOCK", blocked["id"], reason) == 1
            reader.expect(reply)


def test_client_kill_hangs_up(node: Node, r: Any) -> None:
    with node.client() as victim:
        victim.send(request(b"CLIENT", b"ID"))
        victim_id = int(victim.read_line()[1:])
        assert r.client_kill_filter(_id=victim_id) == 1
        victim.expect_closed()


def test_client_reply_silences(client: RawClient) -> None:
    client.send(request(b"CLIENT", b"REPLY", b"OFF") + request(b"PING"))
    client.send(request(b"CLIENT", b"REPLY", b"ON"))
    client.expect(b"+OK\r\n")
    client.send(request(b"CLIENT", b"REPLY", b"SKIP") + request(b"PING") + request(b"ECHO", b"x"))
    client.expect(b"$1\r\nx\r\n")


# --- CONFIG, INFO -------------------------------------------------------------------------------


def test_config_get_takes_patterns(r: Any) -> None:
    found = r.config_get("stream-node-*", "maxmemory")
    assert found == {
        "stream-node-max-bytes": "4096",
        "stream-node-max-entries": "100",
        "maxmemory": "0",
    }
    assert {"appendfsync", "databases", "maxclients", "save", "timeout"} <= set(r.config_get("*"))


def test_config_set_is_all_or_nothing() -> None:
    with running() as node, contextlib.closing(redis.Redis(port=node.port)) as r:
        with pytest.raises(redis.ResponseError):
            r.execute_command("CONFIG", "SET", "maxclients", 5, "stream-node-max-bytes", "x")
        assert r.config_get("maxclients") == {"maxclients": "10000"}
        r.execute_command("CONFIG", "SET", "maxclients", 5, "stream-node-max-entries", 7)
        assert node.server.limits.clients_max == 5
        assert node.replica.node_limits.entries_max == 7
        r.config_set("crdt_xadd_id_uniqueness_mode", "liberal")
        assert r.xadd("s", {"f": "v"}, id="5-5") == b"5-5"


def test_info_has_what_clients_look_for(r: Any) -> None:
    r.xadd("info", {"f": "v"})
    everything = r.info()
    assert everything["redis_version"].startswith("8.")
    assert everything["redis_mode"] == "standalone"
    assert everything["role"] == "master"
    assert everything["loading"] == 0
    assert everything["connected_clients"] >= 1
    assert everything["db0"]["keys"] >= 1
    assert everything["crdt_region"] == 1
    assert {"role", "connected_slaves", "master_repl_offset"} <= r.info("replication").keys()
    assert r.info("nosuch") == {}


def test_resetstat_begins_counting_anew(r: Any) -> None:
    r.ping()
    r.config_resetstat()
    assert r.info("stats")["total_commands_processed"] <= 2


# --- WAIT, TIME ---------------------------------------------------------------------------------


def test_wait_counts_peers_that_have_this_client_s_last_write() -> None:
    with running(peers=(2, 3)) as node, node.client() as client, node.client() as other:
        client.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        client.read_reply()
        other.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        other.read_reply()
        client.send(request(b"WAIT", b"2", b"0") + request(b"ECHO", b"done"))
        client.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        client.socket.settimeout(patience.seconds())
        one = RegionId(1)
        node.call(lambda: node.region.stability.learn(RegionId(2), {one: 2}))
        node.call(lambda: node.region.stability.learn(RegionId(3), {one: 1}))
        client.expect(b":2\r\n$4\r\ndone\r\n")
        other.ask(request(b"WAIT", b"2", b"20"), b":1\r\n")
        other.ask(request(b"MULTI") + request(b"WAIT", b"2", b"0"), b"+OK\r\n+QUEUED\r\n")
        other.ask(request(b"EXEC"), b"*1\r\n:1\r\n")


@pytest.mark.parametrize(
    ("line", "counted"),
    [(b"WAIT 2 0", b":1\r\n"), (b"WAITAOF 1 2 0", b"*2\r\n:1\r\n:1\r\n")],
)
def test_an_unblocked_wait_returns_the_count_of_that_moment(line: bytes, counted: bytes) -> None:
    with running(peers=(2, 3)) as node, node.client() as client, node.client() as other:
        client.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        client.read_reply()
        client.ask(request(b"CLIENT", b"ID"), b":1\r\n")
        client.send(request(*line.split()))
        wait_until(node, "database.waiting_count == 1")
        # Learnt without a try in between, as in the turn in which the UNBLOCK arrives.
        node.call(lambda: node.region.knowledge.learn(RegionId(2), {RegionId(1): 1}))
        other.ask(request(b"CLIENT", b"UNBLOCK", b"1"), b":1\r\n")
        client.expect(counted)
        client.send(request(*line.split()))
        wait_until(node, "database.waiting_count == 1")
        other.ask(request(b"CLIENT", b"UNBLOCK", b"1", b"ERROR"), b":1\r\n")
        assert client.read_reply().startswith(b"-UNBLOCKED ")


def test_a_client_that_wrote_nothing_waits_for_nobody() -> None:
    with running(peers=(2, 3)) as node, node.client() as writer, node.client() as client:
        writer.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        writer.read_reply()
        node.call(lambda: node.region.stability.learn(RegionId(2), {}))
        client.ask(request(b"WAIT", b"1", b"0"), b":1\r\n")


def test_time_is_the_node_s_clock(node: Node, r: Any) -> None:
    seconds, micros = r.time()
    assert abs(node.engine.now() - (seconds * 1000 + micros // 1000)) < 10_000
