"""Run one program of the generator; what it found goes to stdout as JSON."""

import gc
import json
import resource
import sys
from collections.abc import Callable
from typing import Any, Final

from benchmarks.load import nats, paced, programs

PROGRAMS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    one.__name__: one
    for one in (
        programs.fill,
        programs.fill_random,
        programs.fill_streams,
        programs.groups,
        programs.deliver,
        programs.consume,
        programs.produce_read_acknowledge,
        programs.acknowledge_at_random,
        programs.read_at_random,
        programs.block,
        programs.pings,
        paced.through_redis,
        paced.through_nats,
        nats.publish,
    )
}


def main() -> None:
    name, settings = sys.argv[1:]
    gc.disable()
    before = resource.getrusage(resource.RUSAGE_SELF)
    found = PROGRAMS[name](**json.loads(settings))
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    print(json.dumps({**found, "generator_seconds": spent}))


main()
