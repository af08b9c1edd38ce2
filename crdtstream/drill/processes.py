"""Processes of the load, as the runner uses them: a line in, lines of counts out."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

END_SECONDS_MAX: Final = 30.0
# Interval of looks whether to go on waiting.
POLL_SECONDS: Final = 0.1


class LoadError(Exception):
    """A process of the load ended by itself; the text is the end of what it printed."""


class LoadProcess:
    """One process of ``crdtstream.drill.load`` or ``…load.herd``; ends with its standard input."""

    def __init__(self, module: str, plan: BaseModel, folder: Path, name: str) -> None:
        self.records = folder / f"{name}.records"
        self._errors = folder / f"{name}.errors"
        plan_file = folder / f"{name}.plan"
        # It has the password.
        plan_file.touch(mode=0o600)
        plan_file.write_text(plan.model_dump_json())
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(plan_file), str(self.records)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Ctrl-C is for us: the faults are taken back first, then the load ends.
                start_new_session=True,
            )
        self.counts: dict[str, Any] = {}
        self._words: set[str] = set()
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def say(self, line: str) -> None:
        """Raises:
        LoadError: it has ended with an error.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.check()

    def has_said(self, word: str) -> bool:
        """True if it has said this word of itself: ready, connected, produced."""
        return word in self._words

    def wait_for(self, word: str, seconds_max: float, *, stop: Callable[[], bool]) -> bool:
        """Wait until it says the word; False if it did not in time, or ``stop`` said to give up.

        Raises:
            LoadError: it ended with an error.
        """
        deadline = time.monotonic() + seconds_max
        with self._changed:
            while word not in self._words and self._process.poll() is None:
                if stop() or time.monotonic() > deadline:
                    break
                self._changed.wait(POLL_SECONDS)
        self.check()
        return word in self._words

    def check(self) -> None:
        """Raises:
        LoadError: it has ended with an error, or was killed.
        """
        status = self._process.poll()
        if status:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with {status}"
            tail = self._errors.read_text(errors="replace")[-2_000:]
            raise LoadError(f"the load's process {how}:\n{tail}".rstrip(":\n"))

    def ask_to_end(self) -> None:
        """Let it finish, without waiting for it."""
        if self._process.poll() is None:
            with contextlib.suppress(LoadError):
                self.say("end")

    def end(self, seconds_max: float = END_SECONDS_MAX) -> None:
        """Let it finish, and wait; it is killed if it does not finish, and ``check`` says so."""
        self.ask_to_end()
        try:
            self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                # It was killed at this word.
                break
            told: dict[str, Any] = json.loads(line)
            with self._changed:
                if "at" in told:
                    self.counts = told
                else:
                    self._words.update(told)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
