"""Programs as a person starts them: with arguments, with a script, or at a terminal."""

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte

from tests import patience

# Tall, so that nothing scrolls away and no program calls for a pager.
COLUMNS, LINES = 120, 400


def environment(home: Path) -> dict[str, str]:
    """The environment of a program: nothing that a person has configured."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm", "HOME": str(home)}


def run(*command: str | Path, stdin: bytes | str = "", home: Path = Path("/nonexistent")) -> str:
    """Output of a program, on both streams, until it ends by itself."""
    done = subprocess.run(
        command,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=patience.seconds(),
        check=False,
        env=environment(home),
    )
    return done.stdout.decode(errors="backslashreplace")


class _Screen(pyte.Screen):
    """A screen that answers what a program asks of a terminal, like where the cursor stands."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, LINES)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class Terminal:
    """A program at a terminal of its own, whose screen a test sees."""

    def __init__(self, master: int, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._master = master
        self._display = _Screen(self.type)
        self._stream = pyte.ByteStream(self._display)

    @property
    def screen(self) -> str:
        """The lines of the screen as they are now, without the empty ones."""
        self._read(0)
        return "\n".join(line for line in self._lines() if line)

    @property
    def line(self) -> str:
        """The text left of the cursor; hints may stand right of it."""
        self._read(0)
        cursor = self._display.cursor
        line: str = self._display.display[cursor.y]
        return line[: cursor.x].rstrip()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def enter(self, command: str) -> str:
        """Type a command at the prompt, wait for the next prompt; returns what stands between.

        Typed earlier it might get lost: line editors drop what came before they asked.
        """
        self._until(lambda: self.line.endswith(">"), "a prompt")
        self.type(command)
        self._until(lambda: self.line.endswith(command), command)
        typed_at = self._display.cursor.y
        self.type("\r")
        self._until(
            lambda: self.line.endswith(">") and self._display.cursor.y > typed_at, "another prompt"
        )
        return "\n".join(self._lines()[typed_at + 1 : self._display.cursor.y])

    def expect(self, text: str, *, count: int = 1) -> None:
        """Wait until the screen shows ``text``, at least so often."""
        self._until(lambda: self.screen.count(text) >= count, f"{text!r} on the screen")

    def wait(self) -> int:
        """Wait until the program ends by itself; returns its exit status."""
        while self._read(patience.seconds()):
            pass
        return self.process.wait(patience.seconds())

    def _lines(self) -> list[str]:
        return [line.rstrip() for line in self._display.display]

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + patience.seconds()
        while not holds():
            left = deadline - time.monotonic()
            assert left > 0, f"never {what}, but:\n{self.screen}"
            assert self._read(left) or holds(), f"ended without {what}:\n{self.screen}"

    def _read(self, seconds: float) -> bool:
        """Show what the program wrote within that time; False if it has ended."""
        while select.select([self._master], [], [], seconds)[0]:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:  # Linux says so when the other side has closed.
                return False
            if not data:
                return False
            self._stream.feed(data)
            seconds = 0
        return True


@contextmanager
def at_terminal(*command: str | Path, home: Path) -> Iterator[Terminal]:
    """Start a program at a terminal; it is killed if it has not ended with the block."""
    master, slave = pty.openpty()
    try:
        termios.tcsetwinsize(slave, (LINES, COLUMNS))
        process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=environment(home),
        )
    finally:
        os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(patience.seconds())
        os.close(master)
