"""iredis, the terminal client with completion: as people use it, and with a script."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.terminal import Terminal, at_terminal, run
from tests.conftest import program
from tests.resp.node import Node


@pytest.fixture
def terminal(node: Node, tmp_path: Path) -> Iterator[Terminal]:
    with at_terminal(program("iredis"), "-p", str(node.port), home=tmp_path) as terminal:
        terminal.expect(f"127.0.0.1:{node.port}>")
        yield terminal


def test_it_greets_with_the_server_s_version(terminal: Terminal) -> None:
    assert "redis-server  8." in terminal.screen


def test_it_completes_a_command_and_tells_its_syntax(terminal: Terminal) -> None:
    terminal.type("xrev")
    terminal.expect("xrevrange")
    terminal.type("\t ")
    terminal.expect("> xrevrange")
    terminal.expect("XREVRANGE key end start")


def test_it_renders_replies(terminal: Terminal) -> None:
    first = terminal.enter("xadd s * text hello").strip('"')
    assert terminal.enter("xrange s - +").split("\n") == [
        f'1) 1) "{first}"', '   2) 1) "text"', '      2) "hello"',
    ]  # fmt: skip
    assert terminal.enter("xgroup create s g 0") == '"OK"'
    assert terminal.enter("xreadgroup group g alice count 1 streams s >").split("\n") == [
        '1) 1) "s"', f'   2) 1) 1) "{first}"', '         2) 1) "text"', '            2) "hello"',
    ]  # fmt: skip
    assert terminal.enter("xpending s g").split("\n")[-2:] == ['4) 1) 1) "alice"', '      2) "1"']
    assert '"last-generated-id"' in terminal.enter("xinfo stream s")
    assert terminal.enter("foo").startswith("(error) ERROR unknown command 'foo'")
    terminal.type("del s\r")
    terminal.expect("Do you want to proceed? (y/n)")
    terminal.type("y\r")
    terminal.expect("(integer) 1")
    terminal.type("exit\r")
    assert terminal.wait() == 0


def test_transactions(terminal: Terminal) -> None:
    assert terminal.enter("multi") == "OK"
    assert terminal.enter("xadd s * a 1") == "QUEUED"
    assert terminal.enter("xlen s") == "QUEUED"
    assert terminal.enter("exec").split("\n")[-1] == '2) "1"'


def test_it_takes_a_script(node: Node, tmp_path: Path) -> None:
    script = (
        "xadd s * text hello\n"
        "xgroup create s g 0\n"
        "xreadgroup group g alice count 1 streams s >\n"
        "xinfo stream s\n"
        "del s\n"
    )
    output = run(program("iredis"), "-p", str(node.port), stdin=script, home=tmp_path)
    assert output.count("hello") >= 2
    assert "OK" in output
    assert "last-generated-id" in output
    assert "rror" not in output
