"""Lines between the load's processes and the runner: words of theirs; its ``go`` and ``end``."""

import asyncio
import json
import sys


def say(word: str) -> None:
    """Send the runner a word of ourselves: ready, connected, produced."""
    sys.stdout.write(json.dumps({word: True}) + "\n")
    sys.stdout.flush()


async def standard_input() -> asyncio.StreamReader:
    """The runner's lines; they end when it does."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader
