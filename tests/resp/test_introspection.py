"""COMMAND, and the programs that ask it: redis-cli's hints and help, iredis."""

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crdtstream.commands.documentation.manual import pages
from tests.conftest import program
from tests.patience import seconds
from tests.resp.node import Node, RawClient, request

_ESCAPE = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")


# --- Replies ------------------------------------------------------------------------------------


def test_command_describes_what_there_is(r: Any) -> None:
    names = r.command_list()
    assert {b"xadd", b"client", b"exec", b"info", b"wait", b"xgroup|create"} <= set(names)
    top = [name for name in names if b"|" not in name]
    assert len(top) == r.command_count() == len(r.command())
    (xadd, nothing) = r.execute_command("COMMAND INFO", "XADD", "nosuch")
    assert xadd[:2] == [b"xadd", -5]
    assert xadd[3:6] == [1, 1, 1]
    assert nothing is None


def test_docs_without_names_are_of_all_commands(r: Any) -> None:
    docs = r.execute_command("COMMAND DOCS")
    assert set(docs[::2]) == {name for name in r.command_list() if b"|" not in name}


def test_subcommands_stand_in_their_container(r: Any) -> None:
    name, document = r.execute_command("COMMAND DOCS", "xgroup")
    assert name == b"xgroup"
    facts = dict(zip(document[::2], document[1::2], strict=True))
    subcommands = facts[b"subcommands"][::2]
    assert {b"xgroup|create", b"xgroup|destroy"} <= set(subcommands)
    ((*_, described),) = r.execute_command("COMMAND INFO", "xgroup")
    assert [subcommand[0] for subcommand in described] == subcommands


def test_resp3_tells_sets_and_maps(client: RawClient) -> None:
    client.send(request(b"HELLO", b"3"))
    client.expect(b"%7\r\n")
    while client.read(1) != b"*":
        pass
    client.expect(b"0\r\n")
    client.ask(
        request(b"COMMAND", b"INFO", b"xlen", b"nosuch"),
        b"*2\r\n*10\r\n$4\r\nxlen\r\n:2\r\n~2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"
        b"~3\r\n+@read\r\n+@stream\r\n+@fast\r\n~0\r\n"
        b"~1\r\n%3\r\n$5\r\nflags\r\n~1\r\n+RO\r\n"
        b"$12\r\nbegin_search\r\n%2\r\n$4\r\ntype\r\n$5\r\nindex\r\n"
        b"$4\r\nspec\r\n%1\r\n$5\r\nindex\r\n:1\r\n"
        b"$9\r\nfind_keys\r\n%2\r\n$4\r\ntype\r\n$5\r\nrange\r\n"
        b"$4\r\nspec\r\n%3\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n"
        b"*0\r\n_\r\n",
    )


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("XADD k * f v", "k"),
        ("DEL a b c", "a b c"),
        ("RENAME a b", "a b"),
        ("XREAD COUNT 1 STREAMS a b 0 0", "a b"),
        ("XREADGROUP GROUP streams c STREAMS a >", "a"),
        ("XGROUP CREATE k g 0", "k"),
    ],
)
def test_getkeys_finds_the_keys(r: Any, line: str, keys: str) -> None:
    assert r.execute_command("COMMAND GETKEYS", *line.split()) == keys.split()


def test_getkeysandflags_tells_what_is_done_to_each(client: RawClient) -> None:
    client.ask(
        request(b"COMMAND", b"GETKEYSANDFLAGS", b"RENAME", b"a", b"b"),
        b"*2\r\n*2\r\n$1\r\na\r\n*3\r\n+RW\r\n+access\r\n+delete\r\n"
        b"*2\r\n$1\r\nb\r\n*2\r\n+OW\r\n+update\r\n",
    )


def test_lists_choose_by_category_and_pattern(r: Any) -> None:
    def chosen(*filters: str) -> set[bytes]:
        return set(r.execute_command("COMMAND LIST", "FILTERBY", *filters))

    everything = set(r.command_list())
    assert chosen("PATTERN", "XGROUP|C*") == {b"xgroup|create", b"xgroup|createconsumer"}
    assert chosen("ACLCAT", "Fast") | chosen("ACLCAT", "slow") == everything
    assert chosen("ACLCAT", "fast") & chosen("ACLCAT", "slow") == set()
    assert {b"xadd", b"xgroup|create"} <= chosen("ACLCAT", "stream")
    assert chosen("MODULE", "nosuch") == set()


def test_help_names_every_subcommand(r: Any) -> None:
    lines = [line.decode() for line in r.execute_command("COMMAND HELP")]
    subcommands = {
        name.partition("|")[2].upper() for name in pages() if name.startswith("command|")
    }
    assert subcommands <= {line.split()[0] for line in lines}


# --- Programs -----------------------------------------------------------------------------------


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, *command: str | Path, home: Path) -> None:
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": str(home)}
        self._master, slave = pty.openpty()
        try:
            # As wide as the longest syntax, since a hint is cut at the edge.
            termios.tcsetwinsize(slave, (50, 400))
            self._process = subprocess.Popen(
                command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=home
            )
        finally:
            os.close(slave)
        self._printed = b""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(seconds())
        os.close(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, text: str) -> str:
        """Wait until it prints ``text``; returns all that came up to there, without colours."""
        deadline = time.monotonic() + seconds()
        while text.encode() not in self._printed:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._master], [], [], max(0.0, left))
            assert ready, f"never printed: {text!r}, but: {self._printed!r}"
            data = os.read(self._master, 1 << 16)
            self._printed = _ESCAPE.sub(b"", self._printed + data)
        before, _, self._printed = self._printed.partition(text.encode())
        return before.decode(errors="replace")


@pytest.fixture
def redis_cli(node: Node, tmp_path: Path) -> Iterator[Terminal]:
    """redis-cli at its prompt; it has asked for COMMAND DOCS by then, and has not complained."""
    with Terminal(program("redis-cli"), "-p", str(node.port), home=tmp_path) as terminal:
        started = terminal.expect(f"127.0.0.1:{node.port}> ")
        assert started.strip() == ""
        yield terminal


@pytest.mark.live
@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("xlen ", "key"),
        ("xpending ", "key group [[IDLE min-idle-time] start end count [consumer]]"),
        (
            "xadd ",
            (
                "key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] "
                "[IDMPAUTO producer-id|IDMP producer-id idempotent-id] "
                "[MAXLEN|MINID [=|~] threshold [LIMIT count]] *|id field value [field value ...]"
            ),
        ),
        ("xgroup create ", "key group id|$ [MKSTREAM] [ENTRIESREAD entriesread]"),
        ("client unblock 5 ", "[TIMEOUT|ERROR]"),
        ("crdt.digest ", "[key]"),
    ],
)
def test_redis_cli_hints_at_the_arguments(redis_cli: Terminal, typed: str, hint: str) -> None:
    redis_cli.type(typed)
    # It draws the line anew with every letter, and the hint behind it.
    redis_cli.expect(f"> {typed}{hint}\r")


@pytest.mark.live
def test_redis_cli_explains_a_command(redis_cli: Terminal) -> None:
    redis_cli.type("help xtrim\r")
    redis_cli.expect(
        "  XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED]\r"
    )
    told = redis_cli.expect("group: stream")
    assert f"summary: {pages()['xtrim'].summary}" in told
    assert "since: 5.0.0" in told


@pytest.mark.live
def test_redis_cli_lists_our_own_commands(redis_cli: Terminal) -> None:
    redis_cli.type("help @crdt\r")
    redis_cli.expect("CRDT.DIGEST [key]")
