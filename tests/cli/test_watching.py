"""``--watch``: the same result again and again."""

import io
import json
import os
import sys
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner, Result

from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.watching import (
    Watchable,
    WatchOption,
    cut,
    print_json,
    watched,
    with_seconds,
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--watch", "--watch 2"),
        ("--watch 5", "--watch 5"),
        ("--watch 0.5 --json", "--watch 0.5 --json"),
        ("--watch --json", "--watch 2 --json"),
        ("--watch nodes", "--watch 2 nodes"),
        ("--watch=3 nodes", "--watch=3 nodes"),
        ("nodes --json", "nodes --json"),
        ("-- --watch", "-- --watch"),
    ],
)
def test_a_watch_without_a_number_gets_one(words: str, expected: str) -> None:
    assert with_seconds(words.split()) == expected.split()


def watching(*steps: Callable[[], object], as_json: bool = False) -> Result:
    """A command that is watched while it does one step after another; then comes Ctrl-C."""
    app = typer.Typer(rich_markup_mode=None)
    left = list(steps)

    @app.command(cls=Watchable)
    def show(watch: WatchOption = None) -> None:
        def step() -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        watched(watch, step, as_json=as_json)

    return CliRunner().invoke(app, ["--watch", "0.1"])


def test_a_result_that_cannot_be_had_ends_no_watch() -> None:
    done = watching(
        lambda: typer.echo("first"), lambda: fail("it died"), lambda: typer.echo("second")
    )
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if line and "-" not in line] == [
        "first",
        "second",
    ]
    assert done.stderr == "error: it died\n"


def test_misuse_ends_a_watch() -> None:
    done = watching(lambda: refuse("no such table"), lambda: typer.echo("never"))
    assert (done.exit_code, done.stderr) == (2, "error: no such table\n")
    assert "never" not in done.stdout


def test_documents_that_are_watched_are_a_line_each() -> None:
    value = {"a": [1, {"b": None}]}
    done = watching(*[lambda: print_json(value, watch=0.1)] * 3, as_json=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [value] * 3


def test_without_a_terminal_there_are_no_escape_codes() -> None:
    assert "\x1b" not in watching(lambda: typer.echo("first")).output


class TerminalText(io.StringIO):
    """All that is written to a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_errors_stand_above_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = TerminalText()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    rounds = iter(range(2))

    def show() -> None:
        if next(rounds) == 1:
            raise KeyboardInterrupt
        typer.echo("the table")
        fail("node 3 is down")

    with pytest.raises(typer.Exit):
        watched(0.1, show)
    (_, picture) = terminal.getvalue().split("\x1b[H\x1b[J")
    assert picture.splitlines()[2:] == ["error: node 3 is down", "the table", ""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\n", "a\nb\n"),
        ("a\nb\nc\n", "a\nb\nc\n"),
        ("a\nb\nc\nd\n", "a\nb\n… 2 lines more\n"),
        # A line that is wrapped takes two rows; colours take none.
        ("a\n" + "b" * 11 + "\nc\n", "a\n… 2 lines more\n"),
        ("a\n\x1b[1m" + "b" * 10 + "\x1b[0m\nc\n", "a\n\x1b[1m" + "b" * 10 + "\x1b[0m\nc\n"),
    ],
)
def test_a_result_is_cut_to_the_height_of_the_terminal(text: str, expected: str) -> None:
    assert cut(text, os.terminal_size((10, 4))) == expected
