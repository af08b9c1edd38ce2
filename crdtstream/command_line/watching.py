"""``--watch``: a command shows its result again and again, until Ctrl-C.

    on a terminal       the result is redrawn in place, cut to the height of the terminal
    elsewhere           results follow one another, each below the time; no escape codes
    with --json         each result is one line of JSON

Always so: a result that cannot be had is told in its place, and asked for again.  A node that dies
and starts again ends no watch; misuse of the command does.
"""

import io
import json
import math
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from os import terminal_size
from typing import Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperCommand

from crdtstream.command_line.exit import MISUSED

OPTION: Final = "--watch"
SECONDS_DEFAULT: Final = 2.0
SECONDS_MIN: Final = 0.1
SECONDS_MAX: Final = 86_400.0
_HOME_AND_CLEAR: Final = "\x1b[H\x1b[J"

WatchOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        OPTION,
        metavar="[SECONDS]",
        min=SECONDS_MIN,
        max=SECONDS_MAX,
        help=f"Show it again every SECONDS until Ctrl-C; {SECONDS_DEFAULT:g} if no number follows.",
    ),
]


class Watchable(TyperCommand):
    """A command whose --watch may stand without a number, if it has that option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(OPTION in one.opts for one in self.params):
            args = with_seconds(args)
        return super().parse_args(ctx, args)


def with_seconds(words: list[str]) -> list[str]:
    """The words with a number behind each --watch that has none."""
    found: list[str] = []
    for at, word in enumerate(words):
        found.append(word)
        if word == "--":
            return [*found, *words[at + 1 :]]
        if word == OPTION and not _is_number(words[at + 1 : at + 2]):
            found.append(f"{SECONDS_DEFAULT:g}")
    return found


def _is_number(words: list[str]) -> bool:
    try:
        return bool(words) and float(words[0]) is not None
    except ValueError:
        return False


def watched(seconds: float | None, show: Callable[[], None], *, as_json: bool = False) -> None:
    """Call ``show`` once; with ``seconds`` again and again, until Ctrl-C.

    Args:
        show: prints the result; may end by ``typer.Exit``.
        as_json: it prints a line of JSON, and nothing is added to it.
    """
    if seconds is None:
        show()
        return
    rounds = _on_terminal if sys.stdout.isatty() else _in_turn
    try:
        rounds(seconds, show, as_json=as_json)
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            # The shell's prompt must not stand behind ^C.
            typer.echo()
    raise typer.Exit


def print_json(value: object, *, watch: float | None) -> None:
    """A document in lines for people; while it is watched, in one line for programs."""
    typer.echo(json.dumps(value, indent=2 if watch is None else None))


def cut(text: str, size: terminal_size) -> str:
    """The lines that fit on a terminal; the last row says how many do not."""
    # Here, not above: commands start faster without it.
    from rich.text import Text

    lines = text.splitlines()
    rows = 0
    for at, line in enumerate(lines):
        rows += max(1, math.ceil(Text.from_ansi(line).cell_len / size.columns))
        # The cursor stands in a row of its own.
        if rows > size.lines - 1:
            kept = lines[: max(0, at - 1)]
            return "\n".join([*kept, f"… {len(lines) - len(kept)} lines more"]) + "\n"
    return text


def _in_turn(seconds: float, show: Callable[[], None], *, as_json: bool) -> None:
    while True:
        began = time.monotonic()
        if not as_json:
            typer.echo(_now())
        _show_once(show)
        if not as_json:
            typer.echo()
        _sleep_until(began + seconds)


def _on_terminal(seconds: float, show: Callable[[], None], *, as_json: bool) -> None:
    # The terminal can still be scrolled to what it shows now.
    sys.stdout.write("\n" * shutil.get_terminal_size().lines)
    while True:
        began = time.monotonic()
        head = "" if as_json else f"Every {seconds:g} s, {_now()}; Ctrl-C ends\n\n"
        shown, errors = _Shown(), _Shown()
        try:
            with ExitStack() as redirected:
                redirected.enter_context(redirect_stdout(shown))
                if sys.stderr.isatty():
                    redirected.enter_context(redirect_stderr(errors))
                _show_once(show)
        except typer.Exit:
            _draw(head, errors, shown)
            raise
        _draw(head, errors, shown)
        _sleep_until(began + seconds)


def _draw(head: str, errors: io.StringIO, shown: io.StringIO) -> None:
    """Errors stand first: the end of a result may not fit on the terminal."""
    text = head + errors.getvalue() + shown.getvalue()
    # In one piece: the terminal never shows half of it.
    sys.stdout.write(_HOME_AND_CLEAR + cut(text, shutil.get_terminal_size()))
    sys.stdout.flush()


class _Shown(io.StringIO):
    """A result that will be on the terminal: it gets the terminal's colours and width."""

    def isatty(self) -> bool:
        return True


def _show_once(show: Callable[[], None]) -> None:
    """One result; only misuse ends the watch, as it would be misuse again."""
    try:
        show()
    except typer.Exit as end:
        if end.exit_code == MISUSED:
            raise


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
