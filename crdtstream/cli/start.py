"""The first lines of the program ``crdtstream``.

A node starts without what only other commands need: three of them start at once on a laptop, and
a region that comes back is waited for.
"""

import sys
from typing import Final

# As shells tell it of a program that SIGINT ended.
INTERRUPTED: Final = 130


def main() -> None:
    try:
        if sys.argv[1:2] == ["node"]:
            _node()
        else:
            from crdtstream.cli.main import app

            app()
    except KeyboardInterrupt:
        # Ctrl-C before the command had begun to listen for it.
        raise SystemExit(INTERRUPTED) from None


def _node() -> None:
    import typer

    from crdtstream.cli.node import node

    app = typer.Typer(
        name="crdtstream",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.command()(node)
    # With a callback a single command keeps its name.
    app.callback()(lambda: None)
    app()


if __name__ == "__main__":
    main()
