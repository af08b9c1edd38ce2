"""Signals that ask a command to stop in good order."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STANDARD_ERROR: Final = 2


@contextmanager
def stop_signals(told: str = "") -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and the end of a terminal set while the block runs.

    Args:
        told: a line that the first of them prints on stderr.
    """
    stop = threading.Event()

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            return
        stop.set()
        # Not by ``print``, in the middle of which the program may be; and a terminal that has gone
        # must not keep it from stopping.
        with suppress(OSError):
            os.write(_STANDARD_ERROR, told.encode())

    before = {number: signal.signal(number, set_stop) for number in _STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
