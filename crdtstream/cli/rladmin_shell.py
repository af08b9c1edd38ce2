"""The shell of ``rladmin``: its commands, one a line, with history and completion.

    rladmin> status nodes
    rladmin> tune db db:1 crdt_xadd_id_uniqueness_mode strict
    rladmin> exit

Each line runs as the command of its own would; an error is told, and the shell goes on, so neither
a node that dies nor a bug ends it.  Options that the shell was started with count for each line
that has none of them.  Without a terminal there is no prompt, and lines are read until they end.

The line editor is readline, from Python's library (docs/decisions/readline-is-enough.md).  It is
loaded at a terminal only.
"""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import typer

from crdtstream.cli.history import History
from crdtstream.cli.region_values import rladmin_values
from crdtstream.command_line.completing import candidates, split_line, typed
from crdtstream.command_line.exit import FAILED, MISUSED
from crdtstream.command_line.printable import printable
from crdtstream.command_line.reach import Reach

PROMPT: Final = "rladmin> "
# Of a bug, told in a line.
ERROR_LENGTH_MAX: Final = 300
# Not at colons: db:1 and NODE:ID are one word.
_DELIMITERS: Final = " \t\n"


def run_shell(app: typer.Typer, reach: Reach) -> int:
    """Read and run lines until `exit` or their end.

    Args:
        reach: options that the shell was started with.

    Returns:
        The exit status of the last command.
    """
    program = typer.main.get_command(app)
    given = option_words(reach)
    status = 0
    lines = _typed_lines(program, given) if _is_at_terminal() else _piped_lines()
    for line in lines:
        try:
            words = shlex.split(line)
        except ValueError:
            typer.echo("error: a quotation mark is not closed", err=True)
            status = MISUSED
            continue
        match words:
            case []:
                continue
            case ["exit"]:
                break
            case ["rladmin"] | ["exit", *_]:
                typer.echo("error: name a command; `help` lists them", err=True)
                status = MISUSED
                continue
            case ["rladmin", *rest]:
                words = rest
            case ["?", *rest]:
                words = ["help", *rest]
        try:
            status = run_line(app, [*words, *missing_options(program, words, given)])
        except Exception as error:  # noqa: BLE001 - a line ends here, and the shell goes on
            typer.echo(
                f"error: the command failed by a bug ({type(error).__name__}:"
                f" {printable(str(error))[:ERROR_LENGTH_MAX]}); please report it",
                err=True,
            )
            status = FAILED
    return status


def run_line(app: typer.Typer, words: Sequence[str]) -> int:
    """Run a command; whatever comes of it, the shell goes on."""
    if words[0].startswith("-"):
        typer.echo("error: a command is missing before the option; `help` lists them", err=True)
        return MISUSED
    try:
        app(list(words), prog_name="rladmin")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def option_words(reach: Reach) -> list[str]:
    """The options as one would type them; a password is in none."""
    shown = reach.presented
    named = (
        ("--dir", reach.folder),
        *(("--address", address) for address in reach.address or ()),
        ("--user", shown.user),
        ("--password-file", shown.password_file),
        ("--tls-cert-file", shown.tls_cert_file),
        ("--tls-key-file", shown.tls_key_file),
        ("--tls-ca-cert-file", shown.tls_ca_cert_file),
    )
    return [f"{name}={value}" for name, value in named if value is not None]


def missing_options(program: Any, words: Sequence[str], given: Sequence[str]) -> list[str]:
    """The shell's options for a line: those that its command takes, and that it does not name.

    A line that names its nodes, by --dir or --address, goes to these alone.
    """
    here = typed(program, words)
    places = {"--dir", "--address"}
    named = here.flags | (places if here.flags & places else set())
    return [
        word
        for word in given
        if (name := word.partition("=")[0]) not in named and here.option(name) is not None
    ]


def _is_at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _piped_lines() -> Iterator[str]:
    for line in sys.stdin:
        if not line.lstrip().startswith("#"):
            yield line


def _typed_lines(program: Any, given: Sequence[str]) -> Iterator[str]:
    """Lines from a terminal, with history and completion, until Ctrl-D; Ctrl-C begins a new one."""
    history = History.of_user("rladmin-history")
    _prepare_editor(program, given, history)
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            typer.echo()
            return
        except KeyboardInterrupt:
            typer.echo("^C")
            continue
        history.add(line)
        yield line


def _prepare_editor(program: Any, given: Sequence[str], history: History) -> None:
    try:
        import readline
    except ImportError:
        # A Python that was built without it; lines can still be typed.
        return
    readline.set_auto_history(False)
    history.on_added = readline.add_history
    for line in history.lines():
        readline.add_history(line)
    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(_completer(program, given, readline))
    is_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")


def _completer(
    program: Any, given: Sequence[str], readline: Any
) -> Callable[[str, int], str | None]:
    """For Tab: readline asks with 0, 1, 2 … until there is none."""
    found: list[str] = []

    def complete(_text: str, at: int) -> str | None:
        nonlocal found
        if at == 0:
            line = readline.get_line_buffer()[: readline.get_endidx()]
            words, begun = split_line(line)
            if words[:1] == ["?"]:
                words[0] = "help"
            found = candidates(program, [*given, *words], begun, rladmin_values)
            if not words:
                found += [one for one in ("exit",) if one.startswith(begun)]
        # A blank behind the only one, as shells do.
        if at < len(found):
            return found[at] + (" " if len(found) == 1 and found[at][-1] != "=" else "")
        return None

    return complete
