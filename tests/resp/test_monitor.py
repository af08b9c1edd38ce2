"""MONITOR: what watchers are shown, in which order, and how they end."""

import re
from collections.abc import Iterator

import pytest

from crdtstream.resp.commands.server.monitor import monitor_line
from tests.resp.node import Node, RawClient, request, running, settings
from tests.resp.test_protocol import wait_until


@pytest.fixture
def watcher(node: Node) -> Iterator[RawClient]:
    with node.client() as watcher:
        watcher.ask(request(b"MONITOR"), b"+OK\r\n")
        yield watcher
    wait_until(node, "server.database.on_call is None")


def read_line(watcher: RawClient) -> bytes:
    line = b""
    while not line.endswith(b"\r\n"):
        line += watcher.read(1)
    return line[:-2]


def shown(watcher: RawClient, until: bytes) -> list[bytes]:
    """The commands that it is shown, up to ``ECHO until``."""
    found: list[bytes] = []
    while True:
        line = read_line(watcher)
        match = re.fullmatch(rb"\+\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] (.*)", line)
        assert match is not None, line
        if match[1] == b'"ECHO" "%b"' % until:
            return found
        found.append(match[1])


def ask_all(client: RawClient, *lines: bytes, until: bytes = b"end") -> None:
    """Send these commands and ``ECHO until``, and wait for that to be answered."""
    client.send(b"".join(request(*line.split()) for line in lines) + request(b"ECHO", until))
    data = b""
    while not data.endswith(b"$%d\r\n%b\r\n" % (len(until), until)):
        data += client.read(1)


def test_a_watcher_sees_who_sends_what(node: Node, watcher: RawClient, client: RawClient) -> None:
    ask_all(client, b"XADD seen * f v")
    line = read_line(watcher)
    address = b"%s:%d" % (b"127.0.0.1", client.socket.getsockname()[1])
    assert line.endswith(b' [0 %b] "XADD" "seen" "*" "f" "v"' % address)
    seconds = float(line[1:].split(b" ")[0])
    assert abs(seconds - node.engine.now() / 1000) < 100


@pytest.mark.parametrize("line", [b"CONFIG GET save", b"SLOWLOG LEN", b"CLIENT LIST", b"ROLE"])
def test_operators_commands_are_not_shown(
    watcher: RawClient, client: RawClient, line: bytes
) -> None:
    ask_all(client, line)
    assert shown(watcher, b"end") == ([b'"ROLE"'] if line == b"ROLE" else [])


def test_refused_commands_are_not_shown_and_failed_ones_are(
    watcher: RawClient, client: RawClient
) -> None:
    ask_all(client, b"NOSUCH", b"XADD", b"XADD s bad f v")
    assert shown(watcher, b"end") == [b'"XADD" "s" "bad" "f" "v"']


def test_exec_is_shown_after_what_it_ran(watcher: RawClient, client: RawClient) -> None:
    ask_all(client, b"MULTI", b"XLEN a", b"CONFIG GET save", b"XLEN b", b"EXEC", b"EXEC")
    assert shown(watcher, b"end") == [
        *[b'"MULTI"', b'"XLEN" "a"', b'"XLEN" "b"', b'"EXEC"'],
        b'"EXEC"',
    ]


def test_a_blocked_command_is_shown_once(node: Node, watcher: RawClient, client: RawClient) -> None:
    with node.client() as reader:
        reader.send(request(*b"XREAD BLOCK 0 STREAMS once $".split()))
        wait_until(node, "database.waiting_count == 1")
        ask_all(client, b"XADD once * f v")
        reader.read(1)
    assert shown(watcher, b"end") == [
        b'"XREAD" "BLOCK" "0" "STREAMS" "once" "$"',
        b'"XADD" "once" "*" "f" "v"',
    ]


def test_passwords_are_not_shown() -> None:
    with running(settings(requirepass="secret")) as node:
        with node.client() as refused:
            refused.ask(request(b"MONITOR"), b"-NOAUTH Authentication required.\r\n")
        with node.client() as watcher, node.client() as client:
            watcher.ask(request(b"AUTH", b"secret") + request(b"MONITOR"), b"+OK\r\n+OK\r\n")
            ask_all(client, b"AUTH secret", b"AUTH default wrong", b"HELLO 2 AUTH default secret")
            assert shown(watcher, b"end") == [
                b'"AUTH" "(redacted)"',
                b'"AUTH" "(redacted)" "(redacted)"',
                b'"HELLO" "2" "AUTH" "(redacted)" "(redacted)"',
            ]


def test_bytes_are_escaped_as_redis_does() -> None:
    argv = [b"ECHO", b'a"b\\\x01\x80\n\r\t\x07\x08 ~']
    line = monitor_line(1_339_518_083_107_412_999, "127.0.0.1:60866", argv)
    escaped = rb'"a\"b\\\x01\x80\n\r\t\a\b ~"'
    assert line == b'+1339518083.107412 [0 127.0.0.1:60866] "ECHO" %b\r\n' % escaped


def test_a_second_monitor_goes_unanswered(watcher: RawClient) -> None:
    watcher.send(request(b"MONITOR") + request(b"ECHO", b"x"))
    assert read_line(watcher).endswith(b' "ECHO" "x"')
    watcher.expect(b"$1\r\nx\r\n")


def test_a_watcher_goes_on_running_commands(
    node: Node, watcher: RawClient, client: RawClient
) -> None:
    watcher.send(request(*b"XREAD BLOCK 20 STREAMS own $".split()))
    assert read_line(watcher).endswith(b'"XREAD" "BLOCK" "20" "STREAMS" "own" "$"')
    watcher.expect(b"*-1\r\n")


def test_monitor_within_a_transaction_is_refused(client: RawClient) -> None:
    client.ask(request(b"MULTI") + request(b"MONITOR"), b"+OK\r\n+QUEUED\r\n")
    client.ask(request(b"EXEC"), b"*1\r\n-ERR MONITOR isn't allowed for DENY BLOCKING client\r\n")


def test_reset_ends_it_and_so_does_quit(node: Node, client: RawClient) -> None:
    with node.client() as other:
        other.ask(request(b"MONITOR"), b"+OK\r\n")
        wait_until(node, "database.on_call is not None")
        other.send(request(b"RESET"))
        assert read_line(other).endswith(b' "RESET"')
        assert read_line(other) == b"+RESET"
        wait_until(node, "database.on_call is None")
        ask_all(client, b"XLEN a")
        other.ask(request(b"ECHO", b"quiet"), b"$5\r\nquiet\r\n")
        other.ask(request(b"MONITOR") + request(b"QUIT"), b"+OK\r\n")
        assert read_line(other).endswith(b' "QUIT"')
        other.expect(b"+OK\r\n")
        other.expect_closed()
    wait_until(node, "database.on_call is None")


def test_watchers_are_listed_as_such(node: Node, watcher: RawClient, client: RawClient) -> None:
    client.send(request(b"CLIENT", b"LIST"))
    listed = client.read_reply()
    assert listed.count(b" flags=O ") == 1


def test_a_watcher_who_does_not_read_is_cut_off() -> None:
    few = settings(output_buffer_bytes_max=1 << 20)
    with running(few) as node, node.client() as watcher, node.client() as client:
        watcher.ask(request(b"MONITOR"), b"+OK\r\n")
        value = b"v" * 100_000
        for _ in range(400):
            client.ask(request(b"ECHO", value), b"$100000\r\n%b\r\n" % value)
            if node.call(lambda: len(node.server.connections)) == 1:
                break
        assert node.call(lambda: len(node.server.connections)) == 1
        assert node.call(lambda: node.server.traffic.cut_off_unread) == 1
        assert node.call(lambda: node.database.on_call) is None
