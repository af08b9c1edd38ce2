"""A FastStream program that takes a job and never ends it, until somebody kills it.

Run as ``python -m tests.clients.stuck_consumer PORT``.
"""

import asyncio
import sys
from typing import Any

from faststream import FastStream
from faststream.redis import RedisBroker, StreamSub

# That there may be no logger, its types do not say.
QUIET: Any = None

broker = RedisBroker(f"redis://127.0.0.1:{sys.argv[1]}", logger=QUIET)


@broker.subscriber(stream=StreamSub("jobs", group="workers", consumer="stuck", last_id=">"))
async def work(job: dict[str, int]) -> None:
    print("took", job["number"], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(FastStream(broker).run())
