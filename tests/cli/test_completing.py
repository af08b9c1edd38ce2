"""Completion of command lines, and the scripts by which bash, zsh and fish ask for it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from crdtstream.cli.completion import SCRIPTS, Shell
from crdtstream.cli.rladmin import app as rladmin_app
from crdtstream.cli.rladmin import main as rladmin_main
from crdtstream.cli.start import COMMANDS, program
from crdtstream.cli.start import main as start_main
from crdtstream.command_line.completing import (
    VARIABLE,
    Typed,
    candidates,
    print_candidates,
    split_line,
)
from tests.conftest import ROOT
from tests.conftest import program as program_of_the_system
from tests.patience import seconds

CRDTSTREAM = typer.main.get_command(program())
RLADMIN = typer.main.get_command(rladmin_app)


@pytest.mark.parametrize(
    ("line", "words", "begun"),
    [
        ("rladmin ", ["rladmin"], ""),
        ("rladmin st", ["rladmin"], "st"),
        ("rladmin status  nodes ", ["rladmin", "status", "nodes"], ""),
        ("crdtstream dump 'a folder", ["crdtstream", "dump"], "a folder"),
        ('crdtstream dump "a folder" ', ["crdtstream", "dump", "a folder"], ""),
        ("crdtstream dump a\\ b", ["crdtstream", "dump"], "a b"),
        ("crdtstream dump a\\", ["crdtstream", "dump"], "a"),
        ("", [], ""),
    ],
)
def test_a_line_is_split_as_shells_split_it(line: str, words: list[str], begun: str) -> None:
    assert split_line(line) == (words, begun)


def fixed(here: Typed) -> Iterator[str]:
    """Values of a program whose nodes are known; they say what they are values of."""
    yield f"{here.wanted or 'argument'}-{len(here.arguments)}"


@pytest.mark.parametrize(
    ("words", "begun", "expected"),
    [
        ("", "cr", ["crdb"]),
        ("crdb", "ge", ["get"]),
        ("status", "--wi", ["--with-streams"]),
        ("status", "--j", ["--json"]),
        # One that was given already is not offered again, unless it may be repeated.
        ("status --json", "--j", []),
        ("status --address a:1", "--a", ["--address"]),
        ("sync pause --region", "", ["--region-0"]),
        ("sync pause", "--region=", ["--region=--region-0"]),
        ("sync pause --region 1 --peer", "--p", ["--peer-0"]),
        # A value is no command, whatever it looks like.
        ("status --user crdb", "", ["argument-0"]),
        ("status extra", "a", ["argument-1"]),
    ],
)
def test_the_commands_themselves_say_what_may_stand_there(
    words: str, begun: str, expected: list[str]
) -> None:
    assert candidates(CRDTSTREAM, words.split(), begun, fixed) == expected


def test_an_unknown_command_offers_nothing_and_fails_at_nothing() -> None:
    assert candidates(CRDTSTREAM, ["nonsense", "--what"], "", lambda _: ()) == []


def test_names_of_commands_are_offered_without_loading_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def loaded(_words: object) -> object:
        raise AssertionError("they are known")

    print_candidates("crdtstream s", loaded, lambda _: (), COMMANDS)
    assert capsys.readouterr().out == "".join(
        f"{name}\n" for name in sorted(COMMANDS) if name.startswith("s")
    )


# --- Shells ---------------------------------------------------------------------------------------

# What a person has typed, and what the line is after Tab; no node answers.
LINES = [
    ("crdtstream crdb health", "health-report"),
    ("rladmin status nodes sort NODE:", "NODE:ID"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which both programs are found, as if they were installed."""
    folder = tmp_path_factory.mktemp("programs")
    for name, module in (("crdtstream", "crdtstream"), ("rladmin", "crdtstream.cli.rladmin")):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        path.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "CRDTSTREAM_ADMIN": "127.0.0.1:1",
    }


def said(words: list[str | Path], environment: dict[str, str]) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=seconds(), env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.long
def test_bash_completes_both_programs(programs: dict[str, str]) -> None:
    """In the function that bash calls; it replaces what stands behind the last colon of a word."""
    asked = "\n".join(
        f"COMP_LINE='{line}' COMP_POINT={len(line)}\n"
        f"_crdtstream_complete {line.split()[0]}\n"
        'printf "%s " "${COMPREPLY[@]}"; echo'
        for line, _ in LINES
    )
    bash = program_of_the_system("bash")
    shown = said([bash, "--norc", "-c", SCRIPTS[Shell.BASH] + asked], programs).splitlines()
    assert [line.strip() for line in shown] == [word.rpartition(":")[2] for _, word in LINES]


@pytest.mark.long
def test_zsh_completes_both_programs(programs: dict[str, str]) -> None:
    zsh = program_of_the_system("zsh")
    asked = "\n".join(f"words=({line}); CURRENT=$#words; _crdtstream_complete" for line, _ in LINES)
    # Outside of the line editor there is no compadd; it would get the words behind --.
    script = (
        "compdef() { :; }; compadd() { shift; print -- $@; }; _files() { print files; }\n"
        f"{SCRIPTS[Shell.ZSH]}{asked}"
    )
    shown = said([zsh, "-f", "-c", script], programs).splitlines()
    assert shown == [word for _, word in LINES]


@pytest.mark.long
def test_fish_completes_both_programs(programs: dict[str, str]) -> None:
    fish = program_of_the_system("fish")
    asked = "\n".join(f"complete --do-complete '{line}'" for line, _ in LINES)
    shown = said([fish, "--no-config", "-c", SCRIPTS[Shell.FISH] + asked], programs).splitlines()
    assert shown == [word for _, word in LINES]


@pytest.mark.parametrize("main", [start_main, rladmin_main])
def test_a_shell_that_asks_gets_words_and_no_command_runs(
    main: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "no", "such", "command"])
    monkeypatch.setenv(VARIABLE, "program statu")
    main()
    assert capsys.readouterr() == ("status\n", "")


@pytest.mark.parametrize("shell", Shell)
def test_every_shell_has_a_script_for_both_programs(shell: Shell) -> None:
    shown = CliRunner().invoke(program(["completion"]), ["completion", shell])
    assert (shown.exit_code, shown.stdout) == (0, SCRIPTS[shell])
    assert "crdtstream" in shown.stdout
    assert "rladmin" in shown.stdout
