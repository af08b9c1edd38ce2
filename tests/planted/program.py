"""Programs that have a bug on purpose.

    python -m tests.planted list
    python -m tests.planted simulate BUG …      as `crdtstream simulate …`
    python -m tests.planted drill BUG NAME… …   as `crdtstream drill run NAME… …`, on such nodes
    python -m tests.planted node BUG …          as `crdtstream node …`

They are run in a source tree, at its top, where Python finds both ``crdtstream`` and ``tests``.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import typer

from crdtstream.cli.node import node
from crdtstream.cli.simulate import simulate
from tests.planted.bug import Bug, NodeBug
from tests.planted.planting import BUGS, NODE_BUGS, plant, planted, replaced

PROGRAM: Final = "python -m tests.planted"
USAGE: Final = f"""\
usage: {PROGRAM} list
       {PROGRAM} simulate BUG [OPTIONS]     as crdtstream simulate [OPTIONS]
       {PROGRAM} drill BUG NAMES [OPTIONS]  as crdtstream drill run NAMES [OPTIONS]
       {PROGRAM} node BUG OPTIONS           as crdtstream node OPTIONS"""


def main(words: Sequence[str]) -> int:
    """Run the program that the words name.

    Returns:
        2 if they cannot be understood, or 0.

    Raises:
        SystemExit: the end of a command, with its own status.
    """
    match words:
        case ["list"]:
            _list("simulate", BUGS)
            _list("drill, node", NODE_BUGS)
            return 0
        case ["simulate", name, *options] if name in BUGS:
            with planted(name):
                _run(simulate, f"simulate {name}", options)
        case ["drill", name, *options] if name in NODE_BUGS:
            return _drill(name, options)
        case ["node", name, *options] if name in NODE_BUGS:
            plant(NODE_BUGS[name])
            print(
                f"this node has a bug on purpose ({name}) and will lose data",
                file=sys.stderr,
                flush=True,
            )
            _run(node, f"node {name}", options)
        case ["simulate" | "drill" | "node" as command, name, *_] if not name.startswith("-"):
            return _refuse(f"no bug {name!r} for {command}; `{PROGRAM} list` names them")
        case _:
            return _refuse(USAGE)
    return 0


def node_with(name: str) -> tuple[str, ...]:
    """Words that start a node with a bug, before its options."""
    return (sys.executable, "-m", "tests.planted", "node", name)


def program_of(name: str) -> str:
    """Python code that runs a node with a bug, on the options of its process."""
    arguments = f"['node', {name!r}, *sys.argv[1:]]"
    return f"import sys; from tests.planted.__main__ import main; sys.exit(main({arguments}))"


def _drill(name: str, options: list[str]) -> int:
    if any(option.partition("=")[0] == "--address" for option in options):
        return _refuse("--address: nodes that run already can be given no bug")
    # Here, not above: a node needs no clients and no proxies.
    from crdtstream.drill import run_cli
    from crdtstream.drill.rehearsal import Local

    with replaced([(run_cli, "Local", partial(Local, node=node_with(name)))]):
        _run(run_cli.run_command, f"drill {name}", options)
    return 0


def _run(command: Callable[..., Any], words: str, options: list[str]) -> None:
    """Run a command of the product; ``words`` are those by which it was called here."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(command)
    app(options, prog_name=f"{PROGRAM} {words}")


def _list(commands: str, bugs: Mapping[str, Bug] | Mapping[str, NodeBug]) -> None:
    print(f"{commands}:")
    for bug in bugs.values():
        print(f"    {bug.name:50} {bug.harm}")


def _refuse(text: str) -> int:
    print(text, file=sys.stderr)
    return 2
