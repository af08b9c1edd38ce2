"""Processes of the program that are forked from one that has imported it: a start costs little.

Importing is most of what a command or a node costs, and tests begin thousands.  A server process
imports the program once, and forks.  A forked process has its own memory and descriptors, may be
killed, and ends with a status.  It differs from a process that a shell starts: it shares the
server's hash seed, resource limits and umask, and it ends without ``atexit`` and without taking
the interpreter apart.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Final

from crdtstream.cli.start import main
from crdtstream.compiled import PURE
from tests.patience import seconds

_CONTEXT: Final = get_context("forkserver")
# Modules that a node, and the commands that operate one, import when they are asked for.
_CONTEXT.set_forkserver_preload(
    [
        "crdtstream.cli.crdb_verbs",
        "crdtstream.cli.moving",
        "crdtstream.cli.node",
        "crdtstream.node.joining",
        "crdtstream.node.node",
        "tests.live.forked",
    ]
)
# As the server sees it: it imports the sources, or compiled modules, once for all processes.
_PURE: Final = os.environ.get(PURE)
# A status is read once, from a pipe, by whichever thread polls first; a start polls all processes.
_POLLING: Final = threading.Lock()


class Forked:
    """A process of the program, with the part of ``subprocess.Popen`` that tests use.

    Attributes:
        args: its command line.
        pid: its number.
    """

    def __init__(self, args: Sequence[str], output: Path, errors: Path | None = None) -> None:
        """Start it.

        Args:
            args: the command line, as of ``crdtstream``.
            output: the file to which it appends what it says.
            errors: the same of its standard error; None: that file as well.
        """
        assert os.environ.get(PURE) == _PURE, "the server has imported something else"
        self.args = list(args)
        given = (self.args, dict(os.environ), str(output), str(errors or output))
        # A daemon: multiprocessing ends it when the process that started it exits.
        self._process = _CONTEXT.Process(target=_run, args=given, daemon=True)
        with _POLLING:
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The status with which it ended; None: it runs."""
        return self.poll()

    def poll(self) -> int | None:
        """See ``returncode``."""
        with _POLLING:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """
        Raises:
            TimeoutExpired: it still runs after ``timeout`` seconds.
        """
        connection.wait([self._process.sentinel], timeout)
        status = self.poll()
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def send_signal(self, number: int) -> None:
        """Nothing if it has ended."""
        if self.poll() is None:
            # The server may have reaped it in between.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def completed(
    args: Sequence[str], *, timeout: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command of the program to its end; what it printed, and its status.

    Args:
        timeout: seconds of a command that takes long; None: as any wait.

    Raises:
        TimeoutExpired: it still runs after that time; it is killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = Forked(args, output, errors)
        try:
            status = process.wait(seconds() if timeout is None else timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(
            process.args, status, output.read_text(), errors.read_text()
        )


def _run(args: list[str], environment: dict[str, str], output: str, errors: str) -> None:
    """The program, in the process that was forked for it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for path, descriptor in ((output, 1), (errors, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = args
    main()


def _end_with_parent() -> None:
    """Kill this process when the one that started it has ended, even by SIGKILL."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)
