"""Writes docs/commands.md from the help of the programs, or checks that it is current.

Usage: python tools/commands.py [--check]

Exit status: 0 written, or current; 1 stale (--check).
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from crdtstream.cli.rladmin import app as rladmin_app
from crdtstream.cli.start import program

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
PROGRAMS = {"crdtstream": program(), "rladmin": rladmin_app}
HEAD = """\
# Commands

All commands of the two programs, with the text of `--help`. Results are on stdout, messages and
errors on stderr. `make docs` writes this page.
"""


def page() -> str:
    # Whatever terminal this runs in must not show.
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    parts = [HEAD]
    for name, app in PROGRAMS.items():
        parts.append(f"## {name}\n")
        for words in _commands([], typer.main.get_command(app)):
            shown = runner.invoke(app, [*words, "--help"], prog_name=name)
            heading = " ".join([name, *words])
            parts.append(f"### {heading}\n\n```\n{inspect.cleandoc(shown.stdout)}\n```\n")
    return "\n".join(parts)


def _commands(words: list[str], command: object) -> Iterator[list[str]]:
    """The words of every command, in the order of the help."""
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _commands([*words, name], inner)
    else:
        assert isinstance(command, TyperCommand)
        yield words


def main(check_only: bool) -> int:
    text = page()
    if check_only:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print(f"docs/{PAGE.name} is not current: run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(check_only="--check" in sys.argv[1:]))
