"""Groups of options: a dataclass as a parameter of commands."""

from dataclasses import dataclass, field
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from crdtstream.command_line.groups import with_groups


@dataclass(frozen=True, slots=True)
class Inner:
    colour: Annotated[str, typer.Option("--colour", help="Its colour.")] = "red"


@dataclass(frozen=True, slots=True)
class Outer:
    place: Annotated[str, typer.Option("--place", help="Its place.")]
    inner: Inner = field(default_factory=Inner)
    often: Annotated[list[str] | None, typer.Option("--often", help="Repeated.")] = None


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@with_groups
def show(
    outer: Outer,
    name: Annotated[str, typer.Argument(help="Its name.")],
    loud: Annotated[bool, typer.Option("--loud", help="Of the command itself.")] = False,
) -> None:
    """Show what was given."""
    typer.echo(repr((name, loud, outer)))


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("x --place here", ("x", False, Outer("here"))),
        ("--loud x --place a --colour blue", ("x", True, Outer("a", Inner("blue")))),
        ("x --often 1 --place a --often 2", ("x", False, Outer("a", often=["1", "2"]))),
    ],
)
def test_a_command_gets_one_value_for_each_group(words: str, expected: object) -> None:
    assert run(*words.split()) == (0, f"{expected!r}\n")


def test_a_field_without_a_default_must_be_given() -> None:
    status, output = run("x")
    assert status == 2
    assert "--place" in output


def test_options_of_groups_stand_behind_those_of_the_command_in_their_order() -> None:
    _, output = run("--help")
    found = [output.index(option) for option in ("--loud", "--place", "--colour", "--often")]
    assert found == sorted(found)
    assert "Show what was given." in output
