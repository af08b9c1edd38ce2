"""XADD by a user of few rights, beside one who may do everything."""

from functools import partial
from typing import Final

from benchmarks.measured import in_turns
from benchmarks.parts.part import Found, Options, Part
from benchmarks.parts.tls import measure
from benchmarks.parts.xadd import REQUESTS
from benchmarks.systems import regions, scratch, started

FSYNC: Final = "everysec"
ALL: Final = "all rights"
# The last of five patterns matches the key.  Both users log in, which costs as much as many XADDs.
USERS: Final = """\
user root on >password ~* &* +@all
user app on >password ~a:* ~b:* ~c:* ~d:* ~bench* -@all +xadd +@connection
"""
WAYS: Final = {
    ALL: ("--user", "root", "-a", "password"),
    "5 patterns": ("--user", "app", "-a", "password"),
}


def run(options: Options) -> Found:
    with scratch() as folder:
        aclfile = folder / "users.acl"
        aclfile.write_text(USERS)
        with started({"": regions(FSYNC, settings={"aclfile": str(aclfile)})}) as systems:
            [system] = systems.values()
            samples = in_turns(
                options.rounds,
                [
                    (
                        f"-P {pipeline}",
                        way,
                        partial(
                            measure,
                            system,
                            system.ports[0],
                            login,
                            pipeline,
                            options.scaled(requests, least=100),
                        ),
                    )
                    for pipeline, requests in REQUESTS.items()
                    for way, login in WAYS.items()
                ],
            )
    return Found(samples)


PART: Final = Part(
    name="users",
    about="XADD of a small entry by 50 clients of redis-benchmark to one region, by a user whose"
    " rights are one command and five key patterns, beside one who may do everything; appendfsync"
    " everysec, both log in.",
    reference=ALL,
    run=run,
)
