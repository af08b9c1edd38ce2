"""``python -m tests.planted``, and that the product has no way to a bug on purpose."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from crdtstream.cli.rladmin import app as rladmin
from crdtstream.cli.start import program
from crdtstream.settings.node_settings import NodeSettings
from tests.conftest import ROOT
from tests.planted.planting import BUGS, NODE_BUGS
from tests.planted.program import main

BUG = "heartbeats-from-applied"


# --- The program ----------------------------------------------------------------------------------


def run(*words: str) -> int:
    """The exit status."""
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)


def test_it_lists_all_bugs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    named = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert named >= BUGS.keys() | NODE_BUGS.keys()
    assert not BUGS.keys() & NODE_BUGS.keys()


@pytest.mark.pure
def test_a_history_that_fails_with_a_bug_is_saved_and_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.json"
    assert run("simulate", BUG, "--seed", "0", "--save", str(path)) == 1
    again = f"python -m tests.planted simulate {BUG} --replay {path}"
    assert f"again: {again}\n" in capsys.readouterr().out
    assert run(*again.split()[3:]) == 1
    assert "I3: region" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "usage: "),
        (("dance",), "usage: "),
        (("simulate", "--seed", "1"), "usage: "),
        (("simulate", "nonsense"), "no bug 'nonsense' for simulate; `python -m tests.planted list"),
        (("drill", BUG, "region-loss"), f"no bug {BUG!r} for drill"),
        (("node", BUG, "--config", "c"), f"no bug {BUG!r} for node"),
        (("drill", "ack-before-commit", "disk-full", "--address=a:1"), "can be given no bug"),
    ],
)
def test_words_that_it_does_not_understand_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert run(*words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.pure
@pytest.mark.parametrize("name", sorted(NODE_BUGS))
def test_a_bug_of_a_node_replaces_what_is_there(name: str) -> None:
    patches = NODE_BUGS[name].patches()
    assert patches
    for owner, attribute, wrong in patches:
        assert owner.__dict__[attribute] is not wrong


def test_a_program_of_its_own_runs_the_sources() -> None:
    code = "from tests.planted import __main__; from crdtstream import compiled; "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print(compiled.how())"],
        cwd=ROOT,
        env={**os.environ, "CRDTSTREAM_PURE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "pure\n"


# --- The product ----------------------------------------------------------------------------------

WORDS = re.compile("plant|bug", re.IGNORECASE)


@pytest.mark.parametrize("app", [program(), rladmin], ids=["crdtstream", "rladmin"])
def test_no_command_of_the_product_takes_a_bug(app: typer.Typer) -> None:
    taken = set(words_of(typer.main.get_command(app)))
    assert taken >= ({"simulate", "--replay", "--keep"} if app is not rladmin else {"status"})
    assert not {word for word in taken if WORDS.search(word)}


def words_of(command: object) -> Iterator[str]:
    """All names of commands and of their options."""
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield name
            yield from words_of(inner)
    else:
        assert isinstance(command, TyperCommand)
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)


def test_no_setting_of_a_node_is_a_bug() -> None:
    schema = NodeSettings.model_json_schema()
    names = {*schema["properties"], *(n for one in schema["$defs"].values() for n in fields(one))}
    assert names >= {"drill", "failpoint"}
    assert not {name for name in names if WORDS.search(name)}


def fields(schema: dict[str, Any]) -> set[str]:
    return {*schema.get("properties", ())}
