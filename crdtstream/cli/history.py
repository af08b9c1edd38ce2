"""Lines that a person typed into a shell of ours, kept for the next time.

    ~/.local/state/crdtstream/rladmin-history     mode 0600; XDG_STATE_HOME may name another folder

Always so: the file is for its owner alone, has at most `LINES_MAX` lines after a start, and no line
that may have a secret.  A history that cannot be read or written is none; the shell works without.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Self

from crdtstream.secrets.private_files import FOLDER_MODE

STATE_VARIABLE: Final = "XDG_STATE_HOME"
FILE_MODE: Final = 0o600
LINES_MAX: Final = 1000
LINE_CHARACTERS_MAX: Final = 1000
_SECRET: Final = re.compile(r"pass|secret|token|credential", re.IGNORECASE)
# Names of files, and not what is in them.
_NO_SECRETS: Final = re.compile(r"--(?:password|token)-file(?:=|\s+)\S+")


class History:
    """The lines of one file.

    Attributes:
        on_added: called with each line that is kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.on_added: Callable[[str], object] = lambda _line: None

    @classmethod
    def of_user(cls, name: str) -> Self:
        """The history of this name, in the user's folder for the state of programs."""
        # A relative folder would be another one in each place; the rules of XDG ignore it too.
        named = os.environ.get(STATE_VARIABLE, "")
        try:
            folder = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"
        except RuntimeError:
            # There is no home; nothing can be written there either.
            folder = Path(os.devnull)
        return cls(folder / "crdtstream" / name)

    def lines(self) -> list[str]:
        """The last lines, the oldest first; a file that has grown is made shorter."""
        try:
            found = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        kept = found[-LINES_MAX:]
        if len(found) > len(kept):
            with contextlib.suppress(OSError):
                self._replace(kept)
        return kept

    def add(self, line: str) -> None:
        """Keep a line, if it says something and may be kept."""
        line = line.rstrip()
        if not is_kept(line):
            return
        self.on_added(line)
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            with open(os.open(self._path, flags, FILE_MODE), "a", encoding="utf-8") as file:
                # One that others could read, from elsewhere, is closed before anything is added.
                os.fchmod(file.fileno(), FILE_MODE)
                file.write(f"{line}\n")

    def _replace(self, lines: Iterable[str]) -> None:
        """Write all of the file; a shell that appends meanwhile may lose a line."""
        number, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        with open(number, "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        os.replace(name, self._path)


def is_kept(line: str) -> bool:
    """False for a line that is empty, very long, may have a secret, or begins with a blank."""
    if not line.strip() or line[0].isspace() or len(line) > LINE_CHARACTERS_MAX:
        return False
    return not (_SECRET.search(_NO_SECRETS.sub("", line)) or not line.isprintable())
