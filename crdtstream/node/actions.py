"""Actions that the console began: in the node's group of tasks, and ended with it.

An action goes on when the browser that asked for it has left, so no request waits for it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Actions:
    """Actions that run.

    Args:
        tasks: the group that they run in.
    """

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run an action."""
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """Have all end; each says in the log that its outcome is not known."""
        for task in self._running:
            task.cancel()
