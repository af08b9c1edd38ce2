"""redis-cli and redis-benchmark: one command, scripts, a person at a terminal, the modes."""

import csv
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest

from tests.clients.conftest import wait_until_blocked
from tests.clients.terminal import Terminal, at_terminal, environment, run
from tests.conftest import program
from tests.resp.node import Node, running, settings

Cli = Callable[..., str]


@pytest.fixture
def command(node: Node) -> list[str | Path]:
    return [program("redis-cli"), "-p", str(node.port)]


@pytest.fixture
def cli(command: list[str | Path]) -> Cli:
    """Runs redis-cli with these words; returns what it prints, less the last line break."""

    def run_cli(*words: str, stdin: bytes | str = "") -> str:
        return run(*command, *words, stdin=stdin).removesuffix("\n")

    return run_cli


# --- One command --------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["-2"], ["-3"]], ids=["default", "resp2", "resp3"])
def test_one_command(cli: Cli, flags: list[str]) -> None:
    assert cli(*flags, "ping") == "PONG"
    entry_id = cli(*flags, "xadd", "s", "*", "text", "hello world")
    assert cli(*flags, "xrange", "s", "-", "+").split("\n") == [entry_id, "text", "hello world"]
    assert cli(*flags, "xgroup", "create", "s", "g", "0") == "OK"
    assert entry_id in cli(*flags, "xreadgroup", "group", "g", "c", "streams", "s", ">")
    assert cli(*flags, "xack", "s", "g", entry_id) == "1"
    assert "redis_version:8" in cli(*flags, "info", "server")
    assert cli(*flags, "foo").startswith("ERR unknown command 'foo'")
    assert cli(*flags, "xgroup", "create", "s", "g", "0").startswith("BUSYGROUP ")
    assert cli(*flags, "del", "s") == "1"


def test_replies_are_printed_in_each_format(cli: Cli) -> None:
    first = cli("xadd", "s", "*", "text", 'say "hi"')
    cli("xgroup", "create", "s", "g", "0")
    assert cli("--no-raw", "xrange", "s", "-", "+") == (
        f'1) 1) "{first}"\n   2) 1) "text"\n      2) "say \\"hi\\""'
    )
    assert cli("--raw", "xrange", "s", "-", "+") == f'{first}\ntext\nsay "hi"'
    (row,) = csv.reader(
        StringIO(cli("--csv", "xrange", "s", "-", "+")), doublequote=False, escapechar="\\"
    )
    assert row == [first, "text", 'say "hi"']

    stream = json.loads(cli("--json", "-3", "xinfo", "stream", "s"))
    assert (stream["length"], stream["groups"]) == (1, 1)
    assert stream["first-entry"] == [first, ["text", 'say "hi"']]
    assert json.loads(cli("--json", "-3", "xread", "streams", "s", "0")) == {
        "s": [[first, ["text", 'say "hi"']]]
    }
    (group,) = json.loads(cli("--json", "-3", "xinfo", "groups", "s"))
    assert (group["name"], group["lag"]) == ("g", 1)
    shown = cli("--no-raw", "-3", "xinfo", "stream", "s").split("\n")
    assert '1# "length" => (integer) 1' in [line.strip() for line in shown]


def test_values_of_any_bytes(cli: Cli) -> None:
    value = bytes(range(256))
    assert cli("-x", "xadd", "s", "*", "field", stdin=value)
    escaped = "".join(f"\\x{byte:02x}" for byte in value)
    assert cli("--quoted-input", "xadd", "s", "*", "field", f'"{escaped}"')
    # Each entry has three lines: its ID, the field, the value.
    lines = cli("--no-raw", "xrange", "s", "-", "+").split("\n")
    assert len(lines) == 6
    assert lines[2] == lines[5]
    assert lines[2].endswith('\\xfe\\xff"')


def test_a_command_again_and_again(cli: Cli) -> None:
    ids = cli("-r", "5", "-i", "0.01", "xadd", "s", "*", "a", "1").split("\n")
    assert len(set(ids)) == 5
    assert cli("xlen", "s") == "5"


def test_an_address_and_a_password() -> None:
    cli = program("redis-cli")
    with running(settings(requirepass="secret")) as node:
        port = str(node.port)
        address = f"redis://default:secret@127.0.0.1:{port}/0"
        assert run(cli, "--no-auth-warning", "-u", address, "ping") == "PONG\n"
        assert run(cli, "--no-auth-warning", "-p", port, "-a", "secret", "ping") == "PONG\n"
        assert "NOAUTH" in run(cli, "-p", port, "ping")
        assert "WRONGPASS" in run(cli, "-p", port, "-a", "wrong", "ping")


# --- Scripts ------------------------------------------------------------------------------------


def test_commands_from_standard_input(cli: Cli) -> None:
    script = "MULTI\nXADD s * a 1\nXADD s * a 2\nEXEC\nXLEN s\nfoo\nDEL s\n"
    lines = cli(stdin=script).split("\n")
    assert lines[:3] == ["OK", "QUEUED", "QUEUED"]
    first, second, length, error = lines[3:7]
    assert first < second
    assert length == "2"
    assert error.startswith("ERR unknown command 'foo'")
    assert lines[-1] == "1"


@pytest.mark.parametrize("is_inline", [True, False], ids=["inline", "resp"])
def test_mass_insertion(cli: Cli, is_inline: bool) -> None:
    def line(n: int) -> str:
        words = ["XADD", f"bulk{n % 7}", "*", "n", str(n)]
        if is_inline:
            return " ".join(words) + "\r\n"
        return f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)

    output = cli("--pipe", stdin="".join(map(line, range(10_000))))
    assert output.endswith("errors: 0, replies: 10000")
    assert sum(int(cli("xlen", f"bulk{n}")) for n in range(7)) == 10_000


def test_mass_insertion_counts_errors(cli: Cli) -> None:
    output = cli("--pipe", stdin="XADD s * a 1\r\nXADD s * a\r\nXADD s * a 2\r\n")
    assert output.endswith("errors: 1, replies: 3")
    assert cli("xlen", "s") == "2"


# --- A person at a terminal ---------------------------------------------------------------------


@pytest.fixture
def terminal(command: list[str | Path], tmp_path: Path) -> Iterator[Terminal]:
    with at_terminal(*command, home=tmp_path) as terminal:
        terminal.expect(">")
        yield terminal


def test_a_session(terminal: Terminal, node: Node) -> None:
    first = terminal.enter(r'xadd s * a "b\x00\"c"').strip('"')
    assert terminal.enter("xrange s - +").split("\n") == [
        f'1) 1) "{first}"', '   2) 1) "a"', r'      2) "b\x00\"c"',
    ]  # fmt: skip
    assert terminal.enter("xlen s") == "(integer) 1"
    assert terminal.enter("xread streams none 0") == "(nil)"
    assert terminal.enter("xrange none - +") == "(empty array)"
    assert terminal.enter("foo").startswith("(error) ERR unknown command 'foo'")

    assert terminal.enter("multi") == "OK"
    assert terminal.line == f"127.0.0.1:{node.port}(TX)>"
    assert terminal.enter("xadd s * a 2") == "QUEUED"
    assert terminal.enter("exec").startswith('1) "')
    assert terminal.enter("hello 3").startswith('1# "server" => "redis"')
    assert terminal.enter("xinfo groups s") == "(empty array)"
    terminal.type("quit\r")
    assert terminal.wait() == 0


def test_the_tab_key_completes(terminal: Terminal) -> None:
    terminal.type("xrev\t")
    terminal.expect("> XREVRANGE")


def test_hints_and_help(terminal: Terminal) -> None:
    """redis-cli knows a command's arguments from COMMAND DOCS."""
    terminal.type("XLEN ")
    terminal.expect("> XLEN key")
    # The hint is no input: XLEN without a key is what gets sent.
    terminal.type("\r")
    terminal.expect("wrong number of arguments for 'xlen' command")
    told = terminal.enter("help xreadgroup")
    assert "XREADGROUP GROUP group consumer" in told
    assert "since: 5.0.0" in told
    assert "XPENDING key group" in terminal.enter("help @stream")


def test_a_blocking_read_waits_at_the_terminal(terminal: Terminal, node: Node, cli: Cli) -> None:
    terminal.type("xread block 0 streams s $\r")
    wait_until_blocked(node)
    entry_id = cli("xadd", "s", "*", "text", "wake up")
    terminal.expect(entry_id)
    terminal.expect('"wake up"')


def test_a_blocked_redis_cli_that_is_killed(
    command: list[str | Path], node: Node, cli: Cli
) -> None:
    cli("xgroup", "create", "s", "g", "$", "mkstream")
    words = ["xreadgroup", "group", "g", "gone", "block", "0", "streams", "s", ">"]
    process = subprocess.Popen([*command, *words], env=environment(Path("/nonexistent")))
    try:
        wait_until_blocked(node)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_until_blocked(node, 0)
    cli("xadd", "s", "*", "a", "1")
    assert cli("xpending", "s", "g").split("\n")[0] == "0"


# --- Modes --------------------------------------------------------------------------------------


def fill(cli: Cli, count: int) -> None:
    script = "".join(f"XADD k{n} * a b\n" for n in range(count))
    cli(stdin=script + "XADD k1 * a 1\nXADD k1 * a 2\n")


def test_scan(cli: Cli) -> None:
    fill(cli, 30)
    assert set(cli("--scan").split("\n")) == {f"k{n}" for n in range(30)}
    assert set(cli("--scan", "--pattern", "k2?").split("\n")) == {f"k2{n}" for n in range(10)}
    assert cli("--scan", "--pattern", "none*") == ""


def test_big_keys(cli: Cli) -> None:
    fill(cli, 30)
    output = cli("--bigkeys")
    assert "Biggest stream found '\"k1\"' has 3 entries" in output
    assert "30 streams with 32 entries (100.00% of keys, avg size 1.07)" in output


def test_memory_of_keys(cli: Cli) -> None:
    fill(cli, 10)
    cli("xadd", "large", "*", "field", "x" * 100_000)
    output = cli("--memkeys")
    assert "Warning" not in output
    assert "Biggest stream found '\"large\"' has" in output
    assert "11 streams with" in output


def test_statistics(command: list[str | Path], cli: Cli, tmp_path: Path) -> None:
    fill(cli, 3)
    with at_terminal(*command, "--stat", "-i", "0.05", home=tmp_path) as terminal:
        terminal.expect("- load -")
        terminal.expect("\n3 ", count=4)
        cli("xadd", "another", "*", "a", "1")
        terminal.expect("\n4 ")


def test_latency(cli: Cli) -> None:
    shortest, longest, average, samples = cli("--latency", "-i", "0.2").split()
    assert 0 <= int(shortest) <= float(average) <= int(longest)
    assert int(samples) > 0


# --- redis-benchmark ----------------------------------------------------------------------------


@pytest.fixture
def benchmark(node: Node) -> Cli:
    def run_benchmark(*words: str) -> str:
        return run(program("redis-benchmark"), "-p", str(node.port), "-n", "2000", *words)

    return run_benchmark


@pytest.mark.parametrize("depth", ["1", "16"])
def test_benchmark_of_a_command(benchmark: Cli, cli: Cli, depth: str) -> None:
    output = benchmark("-q", "-P", depth, "xadd", "bench", "*", "f", "v")
    assert "requests per second" in output
    assert "rror" not in output
    assert cli("xlen", "bench") == "2000"


def test_benchmark_of_its_own_tests(benchmark: Cli) -> None:
    output = benchmark("-t", "ping", "-P", "8", "--csv")
    rows = list(csv.reader(StringIO(output[output.index('"test"') :])))
    assert [row[0] for row in rows[1:]] == ["PING_INLINE", "PING_MBULK"]
    assert all(float(row[1]) > 0 for row in rows[1:])


def test_benchmark_with_random_keys_in_resp3(benchmark: Cli, cli: Cli) -> None:
    output = benchmark("-q", "-3", "-r", "10", "-c", "20", "xadd", "k__rand_int__", "*", "f", "v")
    assert "rror" not in output
    keys = cli("keys", "*").split("\n")
    assert len(keys) == 10
    assert sum(int(cli("xlen", key)) for key in keys) == 2000
