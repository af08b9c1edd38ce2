"""Connections that a failed test left open are closed when the session ends.

A connection of a store has a thread, and Python waits for threads before it ends: a test that
failed before it closed its log would keep pytest, and whoever waits for it, for ever.
"""

import gc

import aiosqlite


def end() -> None:
    """End the threads of the connections that are still open."""
    for value in gc.get_objects():
        # By its class: ``isinstance`` would ask proxies, and they ask what is gone.
        if type(value) is aiosqlite.Connection:
            value.stop()
