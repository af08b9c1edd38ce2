"""Content of the regions, asked of each past all proxies: versions, digests, entries."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import redis

from crdtstream.admin.client import AdminError, vv_of
from crdtstream.drill.deployment import Deployment, UnwellError
from crdtstream.drill.records import Found, encode

DIGEST_SECONDS_MAX: Final = 30.0
# Others may write to a deployment that runs: digests that differ are asked for again for this time.
DIGESTS_EQUAL_SECONDS_MAX: Final = 5.0
PAGE_ENTRIES: Final = 5_000
POLL_SECONDS: Final = 0.1


def newest(deployment: Deployment) -> dict[int, int]:
    """Effects that any region has, of those that answer."""
    found: dict[int, int] = {}
    for vv in _versions(deployment):
        found = {key: max((vv or {}).get(key, 0), found.get(key, 0)) for key in (vv or {}) | found}
    return found


def have_all(deployment: Deployment, target: dict[int, int]) -> bool:
    """True if every region answers, and has the target."""
    return all(
        vv is not None and all(vv.get(origin, 0) >= n for origin, n in target.items())
        for vv in _versions(deployment)
    )


def _versions(deployment: Deployment) -> Iterator[dict[int, int] | None]:
    for region in deployment.regions:
        try:
            reply = deployment.status(region)
        except AdminError:
            yield None
        else:
            yield {int(origin): n for origin, n in vv_of(reply.vv).items()}


def digests(deployment: Deployment, *, stop: Callable[[], bool]) -> dict[int, str]:
    """Digests by region, of those that answer; again for a while if they differ."""
    deadline = time.monotonic() + DIGESTS_EQUAL_SECONDS_MAX
    while True:
        found = {}
        for region in deployment.regions:
            with contextlib.suppress(AdminError):
                found[region] = deployment.status(
                    region, with_digest=True, seconds_max=DIGEST_SECONDS_MAX
                ).digest
        are_equal = len(set(found.values())) == 1 and len(found) == len(deployment.regions)
        if are_equal or stop() or time.monotonic() > deadline:
            return found
        time.sleep(POLL_SECONDS)


def taken_over(deployment: Deployment) -> int:
    """Number of times that the nodes that answer took over another region's state since their
    start."""
    count = 0
    for region in deployment.regions:
        with contextlib.suppress(AdminError):
            count += deployment.status(region).bootstrap.taken_over
    return count


def write_found(
    deployment: Deployment, streams: Sequence[str], path: Path, *, check_stop: Callable[[], None]
) -> None:
    """Read every stream in every region, and write its content down.

    Args:
        check_stop: raises the error that ends it.

    Raises:
        UnwellError: a region does not answer.
    """
    with path.open("w", encoding="utf-8") as file:
        for region in deployment.regions:
            try:
                with deployment.connect(region) as client:
                    for stream in streams:
                        _write_stream(client, region, stream, file, check_stop)
            except redis.RedisError as error:
                raise UnwellError(f"region {region} cannot be read: {error}") from error


def _write_stream(
    client: Any, region: int, stream: str, file: IO[str], check_stop: Callable[[], None]
) -> None:
    start = "-"
    while page := client.xrange(stream, start, "+", PAGE_ENTRIES):
        check_stop()
        for entry_id, row in page:
            file.write(encode(Found(region, stream, entry_id, row["p"], int(row["n"]))))
        start = f"({page[-1][0]}"
