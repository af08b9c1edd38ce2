"""Log lines of a node: written to standard error, and dropped if that fails.

A node outlives its log.  Standard error is often a pipe whose reader is gone, or a file on the very
disk that the log says is full; neither is a reason to stop serving clients.
"""

import os
import threading
from typing import Final


class LineLogger:
    """Logger to which structlog passes finished lines.

    A line that cannot be written is dropped, and the next one that can be says how many were.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._lock: Final = threading.Lock()
        self._dropped = 0
        self._is_cut = False

    def msg(self, line: str) -> None:
        with self._lock:
            told = f"(log lines that could not be written: {self._dropped})\n"
            text = ("\n" if self._is_cut else "") + (told if self._dropped else "") + line + "\n"
            left = text.encode(errors="backslashreplace")
            is_begun = False
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
                    is_begun = True
            except OSError:
                self._dropped += 1
                self._is_cut = self._is_cut or is_begun
                return
            self._dropped, self._is_cut = 0, False

    log = debug = info = warn = warning = msg
    error = err = critical = fatal = exception = failure = msg
