"""Traces of effects that come and go: three regions, memory and disk over millions of them.

    python -m benchmarks.churn [--effects 10000000] [--json FILE] [--plot FILE.svg]
    python -m benchmarks.churn --from FILE --plot FILE.svg

Three real nodes replicate to each other, and clients of all three do what leaves something behind:

    streams under names never used again   trimmed, idempotent and plain appends, groups with
                                           consumers and pending entries; deleted, or left to expire
    streams under names that all share     the same, so that deletes, creates and destroys of
                                           regions meet
    streams that stay                      trimmed, read by a group and acknowledged; consumers
                                           come and go

What must be flat is taken at equal numbers of effects: memory and folder of each node, and what it
keeps only until it is causally stable, once the regions are level.
"""

import argparse
import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import redis

from benchmarks.plots import lines
from benchmarks.processes import machine
from crdtstream.local_regions import LocalRegion, LocalRegions, Settings
from crdtstream.page.plots import Series

REGIONS: Final = 3
BASE_PORT: Final = 21_600
SAMPLES: Final = 40
# Names in one round of a region, each with a whole life.
LIVES: Final = 100
SHARED_KEYS: Final = 2_000
STAYING_KEYS: Final = 10
RECORDS: Final = "crdtstream_idempotency_records"
LEVEL_SECONDS_MAX: Final = 300.0
# A log that is small enough to be cut often.
SETTINGS: Final[Settings] = {"checkpoint_log_bytes": 16 << 20, "appendfsync": "everysec"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One region, when this many effects were issued by all.

    Attributes:
        tombstones, records: what waits for causal stability: tombstones, and idempotent appends
            that are remembered.
    """

    effects: int
    region: int
    seconds: float
    rss_bytes: int
    used_bytes: int
    folder_bytes: int
    tombstones: int
    records: int
    keys: int


# --- What clients do ----------------------------------------------------------------------------


def life(draw: Random, key: str) -> Iterator[tuple[object, ...]]:
    """The commands of a stream's whole life; about a dozen effects."""
    yield "XGROUP", "CREATE", key, "g", "0", "MKSTREAM"
    for _ in range(3):
        yield "XADD", key, "MAXLEN", 2, "*", "field", "value"
    yield "XADD", key, "IDMP", f"p{draw.randrange(3)}", draw.randrange(1_000), "*", "field", "value"
    yield "XREADGROUP", "GROUP", "g", f"c{draw.randrange(5)}", "COUNT", 2, "STREAMS", key, ">"
    yield "XGROUP", "DESTROY", key, "g"
    yield "XGROUP", "CREATE", key, "h", "$"
    if draw.random() < 0.5:
        yield "PEXPIRE", key, draw.randint(1, 2_000)
    else:
        yield "DEL", key


def stay(draw: Random, region: int, acks: Sequence[bytes]) -> Iterator[tuple[object, ...]]:
    """A stream that a group reads; ``acks`` is what it was given last."""
    key, consumer = f"stays:{region}:{draw.randrange(STAYING_KEYS)}", f"c{draw.randrange(100)}"
    yield "XGROUP", "CREATE", key, "g", "0", "MKSTREAM"
    for _ in range(50):
        yield "XADD", key, "MAXLEN", "~", 1_000, "*", "field", "value"
    if acks:
        yield "XACK", acks[0], "g", *acks[1:]
    yield "XGROUP", "DELCONSUMER", key, "g", consumer
    yield "XREADGROUP", "GROUP", "g", consumer, "COUNT", 100, "STREAMS", key, ">"


class Writer:
    """The client of one region."""

    def __init__(self, own: LocalRegion) -> None:
        self.client: Any = redis.Redis(port=own.resp_port, socket_timeout=600)
        self.own = own
        self._draw = Random(own.region)
        self._names = 0
        self._acks: list[bytes] = []

    def round(self) -> None:
        """A pipeline of ``LIVES`` lives, half of them under shared names, and a group's turn."""
        draw, region = self._draw, self.own.region
        pipe = self.client.pipeline(transaction=False)
        for n in range(LIVES):
            self._names += 1
            shared = f"shared:{draw.randrange(SHARED_KEYS)}"
            for words in life(draw, shared if n % 2 else f"once:{region}:{self._names}"):
                pipe.execute_command(*words)
        for words in stay(draw, region, self._acks):
            pipe.execute_command(*words)
        # A group that is there already is an error that nobody minds.
        replies = pipe.execute(raise_on_error=False)
        self._acks = _read_ids(replies[-1])

    def applied(self) -> dict[int, int]:
        """By origin how many effects this region has."""
        # redis-py makes a list of what has commas.
        told = self.client.info("crdt")["crdt_vv"]
        parts = told if isinstance(told, list) else [told]
        return {int(part.split(":")[0]): int(part.split(":")[1]) for part in parts if part}


def _read_ids(reply: object) -> list[bytes]:
    """The key, and the IDs that XREADGROUP gave."""
    if not isinstance(reply, list) or not reply:
        return []
    ((key, entries),) = reply
    return [key, *(entry_id for entry_id, _ in entries)]


# --- What is looked at --------------------------------------------------------------------------


def sample(
    regions: LocalRegions, writers: Sequence[Writer], began: float, label: int
) -> list[Sample]:
    """Wait until all are level and have a checkpoint, and look."""
    wait_until_level(writers)
    for writer in writers:
        writer.client.bgsave()
    return [look(regions, writer, began, label) for writer in writers]


def wait_until_level(writers: Sequence[Writer]) -> None:
    """Until all regions have the same effects, and nothing waits for stability any more."""
    ends = time.monotonic() + LEVEL_SECONDS_MAX
    while True:
        applied = [writer.applied() for writer in writers]
        if all(vv == applied[0] for vv in applied) and not any(map(_unstable, writers)):
            return
        if time.monotonic() > ends:
            # It shows in the figures.
            return
        time.sleep(0.1)


def _unstable(writer: Writer) -> int:
    """Facts that the region keeps only until it is causally stable."""
    return _metric(writer.own, "crdtstream_tombstones") + _metric(writer.own, RECORDS)


def _metric(own: LocalRegion, name: str) -> int:
    with urllib.request.urlopen(f"http://{own.http_address}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    (value,) = [
        line.split()[-1] for line in text.splitlines() if line.startswith((name + " ", name + "{"))
    ]
    return int(float(value))


def look(regions: LocalRegions, writer: Writer, began: float, label: int) -> Sample:
    client, own = writer.client, writer.own
    while client.info("persistence")["rdb_bgsave_in_progress"]:
        time.sleep(0.05)
    info = client.info("everything")
    status = Path(f"/proc/{regions.pid(own.region)}/status").read_text()
    (rss,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
    return Sample(
        effects=label,
        region=own.region,
        seconds=round(time.monotonic() - began, 1),
        rss_bytes=int(rss) * 1024,
        used_bytes=info["used_memory"],
        folder_bytes=sum(path.stat().st_size for path in own.data.iterdir()),
        tombstones=info["crdt_tombstones"],
        records=_metric(own, RECORDS),
        keys=client.dbsize(),
    )


def churn(effects: int) -> Iterator[list[Sample]]:
    """Bring effects about until there are ``effects`` of them; samples on the way."""
    with tempfile.TemporaryDirectory(prefix="crdtstream-churn-") as folder:
        regions = LocalRegions(REGIONS, Path(folder), base_port=BASE_PORT, settings=SETTINGS)
        try:
            regions.start_all()
            regions.wait_until_healthy()
            yield from run(regions, [Writer(own) for own in regions.regions], effects)
        finally:
            regions.stop_all()
            regions.close()


def run(regions: LocalRegions, writers: Sequence[Writer], effects: int) -> Iterator[list[Sample]]:
    for writer in writers:
        wait_until_writable(writer)
    began, issued = time.monotonic(), 0
    yield sample(regions, writers, began, issued)
    for at in range(1, SAMPLES + 1):
        while issued < effects * at // SAMPLES:
            for writer in writers:
                writer.round()
            issued = sum(writers[0].applied().values())
        yield sample(regions, writers, began, issued)


def wait_until_writable(writer: Writer) -> None:
    ends = time.monotonic() + LEVEL_SECONDS_MAX
    while True:
        try:
            writer.client.xadd("begins", {"field": "value"})
            return
        except redis.RedisError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


# --- Output -------------------------------------------------------------------------------------


def mib(size: float) -> float:
    return round(size / (1 << 20), 1)


def line(samples: Sequence[Sample]) -> str:
    """A row of the table: of what each region has, the highest."""
    effects, seconds = samples[0].effects, samples[-1].seconds
    parts = [
        f"{effects:,}",
        f"{mib(max(one.rss_bytes for one in samples))}",
        f"{mib(max(one.used_bytes for one in samples))}",
        f"{mib(max(one.folder_bytes for one in samples))}",
        f"{max(one.tombstones for one in samples)}",
        f"{max(one.keys for one in samples):,}",
        f"{seconds:.0f}",
    ]
    return "| " + " | ".join(parts) + " |"


HEADER: Final = (
    "| effects | RSS, MiB | used_memory, MiB | folder, MiB | tombstones | keys | after, s |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def plot(samples: Sequence[Sample], about: str) -> str:
    """Memory and folder of each region over the effects, as SVG."""
    panels = {"resident memory, MiB": "rss_bytes", "folder, MiB": "folder_bytes"}
    regions = {
        f"region {region}": [one for one in samples if one.region == region]
        for region in range(1, REGIONS + 1)
    }
    return lines(
        about,
        # Thousands: of millions, labels would be those of hours.
        [one.effects // 1_000 for one in samples if one.region == 1],
        {
            title: [
                Series(region, [mib(getattr(one, name)) for one in found])
                for region, found in regions.items()
            ]
            for title, name in panels.items()
        },
        lambda thousands, _: f"{thousands / 1e3:g} M effects",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--effects", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, help="where the figures go, too")
    parser.add_argument("--plot", type=Path, help="where a plot of them goes, as SVG")
    parser.add_argument("--from", dest="source", type=Path, help="plot these figures; run nothing")
    options = parser.parse_args()
    if options.effects < 1:
        parser.error("--effects must be above 0")
    if options.source is not None:
        figures = json.loads(options.source.read_text())
        about, samples = figures["about"], [Sample(**one) for one in figures["samples"]]
    else:
        about, samples = f"{machine()}, load {os.getloadavg()[0]:.1f} at the start", []
        print(f"{about}\n\n{HEADER}", flush=True)
        for some in churn(options.effects):
            samples += some
            print(line(some), flush=True)
            if options.json is not None:
                # A run takes long: what it has found so far is not lost with it.
                figures = {"about": about, "samples": [asdict(one) for one in samples]}
                options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if options.plot is not None:
        options.plot.write_text(plot(samples, about))


if __name__ == "__main__":
    main()
