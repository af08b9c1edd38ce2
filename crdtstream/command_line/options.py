"""Options that many commands have, besides those by which they reach nodes (``reach.py``)."""

from typing import Annotated, TypeAlias

import typer

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
