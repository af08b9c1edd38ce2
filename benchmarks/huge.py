"""One stream larger than memory, of three lanes: loading, seeks, trims, restarts.

The node takes a tenth of the entries as XADDs over a socket, pipelined, and pulls the others from
two regions that only append (``origins.py``).
"""

import signal
import statistics
import threading
import time
from random import Random
from typing import Any, Final

from benchmarks.nodes import KEY, RESP_PORT, RegionNode, region_node, small, write
from benchmarks.origins import BATCH_ENTRIES, origins
from crdtstream.core.ids import RegionId

MAXMEMORY_BYTES: Final = 1 << 30
PEERS: Final = (RegionId(2), RegionId(3))
SEEKS: Final = 300
# So many entries fit into memory anywhere: what seeks in the large stream are compared with.
SMALL_ENTRIES: Final = 100_000
SMALL_KEY: Final = b"small"
RESTARTS: Final = 3
LOOK_SECONDS: Final = 5.0


def huge(entries: int) -> list[dict[str, object]]:
    """One stream of so many small entries in three lanes, with maxmemory 1 GiB."""
    of_peer = entries * 9 // 20 // BATCH_ENTRIES * BATCH_ENTRIES
    with (
        origins(small, of_peer, PEERS) as settings,
        region_node(maxmemory=MAXMEMORY_BYTES, **settings) as node,
    ):
        loaded = load(node, entries, entries - len(PEERS) * of_peer)
        write(RESP_PORT, small, SMALL_ENTRIES, key=SMALL_KEY)
        node.checkpoint()
        row: dict[str, object] = {"entries": entries, **loaded}
        row |= restarts(node)
        row |= seeking(node.client)
        row |= trimming(node.client)
        node.checkpoint()
        row["RSS at the end, MiB"] = node.resident_bytes >> 20
    return [row]


def load(node: RegionNode, entries: int, own: int) -> dict[str, object]:
    """Write and pull everything; what it took."""
    began, cpu_began = time.monotonic(), node.cpu_seconds
    writing = threading.Thread(target=write, args=(RESP_PORT, small, own))
    writing.start()
    resident: list[int] = []
    ratios: list[float] = []
    length = 0
    while length < entries:
        time.sleep(LOOK_SECONDS)
        length = node.client.xlen(KEY)
        resident.append(node.resident_bytes)
        ratios.append(node.client.info("memory")["used_memory"] / resident[-1])
        print(
            f"  {length / 1e6:.1f} million, {time.monotonic() - began:.0f} s, RSS "
            f"{resident[-1] >> 20} MiB, account / RSS {ratios[-1]:.2f}, folder "
            f"{node.disk_bytes >> 20} MiB, CPU {node.cpu_seconds - cpu_began:.0f} s",
            flush=True,
        )
    writing.join()
    seconds = time.monotonic() - began
    return {
        "loaded, per s": round(entries / seconds),
        "of it CPU, us an entry": round((node.cpu_seconds - cpu_began) * 1e6 / entries, 2),
        "RSS max, MiB": max(resident) >> 20,
        "account / RSS": f"{min(ratios):.2f} to {max(ratios):.2f}",
        "folder, B an entry": round(node.disk_bytes / entries, 1),
    }


def restarts(node: RegionNode) -> dict[str, object]:
    """kill -9 and start again, beside a node with an empty folder."""
    took, cpu, empty, empty_cpu = [], [], [], []
    for _ in range(RESTARTS):
        node.end(signal.SIGKILL)
        took.append(node.start())
        cpu.append(node.cpu_seconds)
        node.end(signal.SIGKILL)
        with region_node() as other:
            empty.append(other.started_s)
            empty_cpu.append(other.cpu_seconds)
        node.start()
    return {
        "restart, s": round(statistics.median(took), 2),
        "an empty node, s": round(statistics.median(empty), 2),
        "restart, CPU s": round(statistics.median(cpu), 2),
        "an empty node, CPU s": round(statistics.median(empty_cpu), 2),
        "RSS after it, MiB": node.resident_bytes >> 20,
    }


def seeking(client: Any) -> dict[str, object]:
    """Reads of one entry at random IDs: first, again, and in a stream of 100,000, by turns."""
    large, little = Places(client, KEY), Places(client, SMALL_KEY)
    first = [large.seek(at) for at in large.drawn]
    for at in little.drawn:
        little.seek(at)
    again, of_small = [], []
    for one, other in zip(large.drawn, little.drawn, strict=True):
        again.append(large.seek(one))
        of_small.append(little.seek(other))
    return {
        "first seek p50, ms": round(statistics.median(first), 2),
        "p99": round(sorted(first)[len(first) * 99 // 100], 2),
        "again p50, ms": round(statistics.median(again), 3),
        "of 100,000 p50, ms": round(statistics.median(of_small), 3),
        "ratio": round(statistics.median(again) / statistics.median(of_small), 2),
    }


class Places:
    """Random places of a stream, by time."""

    def __init__(self, client: Any, key: bytes) -> None:
        self._client = client
        self._key = key
        first = int(client.xrange(key, count=1)[0][0].split(b"-")[0])
        last = int(client.xrevrange(key, count=1)[0][0].split(b"-")[0])
        draw = Random(7)
        self.drawn = [draw.randrange(first, last + 1) for _ in range(SEEKS)]

    def seek(self, at: int) -> float:
        """Milliseconds that a read of one entry takes there."""
        began = time.perf_counter()
        found = self._client.xrange(self._key, min=at, count=1)
        took = time.perf_counter() - began
        assert len(found) == 1
        return took * 1e3


def trimming(client: Any) -> dict[str, object]:
    """Half of the stream, and then nearly all of it, at once."""
    length = client.xlen(KEY)
    row: dict[str, object] = {}
    for left in (length // 2, 1_000):
        began = time.perf_counter()
        trimmed = client.xtrim(KEY, maxlen=left, approximate=False)
        row[f"XTRIM of {trimmed / 1e6:.0f} million, ms"] = round(
            (time.perf_counter() - began) * 1e3
        )
        assert client.xlen(KEY) == left
    return row
