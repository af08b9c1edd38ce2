"""Programs that must not outlive the drill that started them, kill -9 of it included.

Nodes and the load see the end of their standard input.  Foreign programs do not look there, so the
system is asked to kill them when the thread that started them ends.
"""

import shutil
from typing import Final

PROGRAM: Final = "setpriv"


def tied(command: list[str]) -> list[str]:
    """The command, to be ended with us; unchanged if the system has no ``setpriv``.

    The thread that starts it must live as long as the program is needed.
    """
    path = shutil.which(PROGRAM)
    return command if path is None else [path, "--pdeathsig", "KILL", "--", *command]
