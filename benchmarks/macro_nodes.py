"""Bytes that an entry takes: in memory, warm, packed and on disk only; and the cost to get there.

python -m benchmarks.macro_nodes           times, and what Residency counts
python -m benchmarks.macro_nodes memory    what the process holds (tracemalloc); times are longer
"""

import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable

from crdtstream.core.fields import encode_fields
from crdtstream.core.frames import FramePacker
from crdtstream.core.ids import Millis, RegionId, make_id
from crdtstream.core.lanes.compaction import compact
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.node import MacroNode
from crdtstream.core.lanes.packing import pack
from crdtstream.core.whole.digest import digest_key
from crdtstream.core.whole.state import State

LEVELS = (1, 3, 6, 9)
HEADS = 62_500
MEMORY = sys.argv[1:] == ["memory"]
WORDS = [f"{number:x}".encode() for number in range(1 << 12, 1 << 13)]


def small(_draw: random.Random, _n: int) -> bytes:
    return encode_fields([b"field", b"value"])


def sensor(draw: random.Random, n: int) -> bytes:
    values = [b"%d" % (n % 50), b"%.2f" % draw.gauss(20, 3), b"%.1f" % draw.gauss(50, 9)]
    return encode_fields([b"sensor", values[0], b"temp", values[1], b"hum", values[2], b"ok", b"1"])


def text(draw: random.Random, _n: int) -> bytes:
    return encode_fields([b"text", b" ".join(draw.choices(WORDS, k=205))[:1024]])


def measure(name: str, make: Callable[[random.Random, int], bytes], count: int) -> None:
    draw = random.Random(12)
    fields = [make(draw, n) for n in range(1, 2001)]
    gc.collect()
    if MEMORY:
        tracemalloc.start()
    base = tracemalloc.get_traced_memory()[0]
    limits = NodeLimits()
    stream = State(RegionId(1), (), limits).keys.stream_or_new(b"s")
    lane = stream.lane(RegionId(1))
    ms = 1_700_000_000_000
    for n in range(1, count + 1):
        ms += n % 3
        lane.append(make_id(ms, 1024 * n + 1), n, fields[n % 2000], Millis(ms))

    def held() -> float:
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - base) / count

    def counted() -> float:
        residency = limits.residency
        return (residency.warm_bytes + residency.packed_bytes + residency.absent_bytes) / count

    print(f"\n{name}: {sum(map(len, fields)) / 2000:.0f} B of RESP an entry, {count} entries")
    print(f"  warm, as appended   {held():8.1f} B  counted {counted():8.1f}")
    clock = time.perf_counter()
    while compact(limits):
        pass
    spent = (time.perf_counter() - clock) / count * 1e9
    line = f"  warm, compacted     {held():8.1f} B  counted {counted():8.1f}"
    print(f"{line}  {spent:5.0f} ns/entry")
    clock = time.perf_counter()
    digest_key(stream, None, None)
    spent = (time.perf_counter() - clock) / count * 1e9
    print(f"  digest                                             {spent:5.0f} ns/entry")
    cut = limits.changes.cut()
    bodies = []
    images = []
    slowest = 0.0
    clock = time.perf_counter()
    while True:
        began = time.perf_counter()
        taken = cut.take()
        slowest = max(slowest, time.perf_counter() - began)
        if taken is None:
            break
        # Besides them the key is written.
        part, image = taken
        if isinstance(part, MacroNode):
            images.append((part, image))
            bodies.append(image.body)
    cut.finish()
    spent = (time.perf_counter() - clock) / count * 1e9
    print(
        f"  encode  slowest node {slowest * 1e3:.1f} ms                     {spent:5.0f} ns/entry"
    )
    for level in LEVELS:
        packer = FramePacker(level=level, has_checksum=True)
        clock = time.perf_counter()
        size = sum(len(packer.pack(body)) for body in bodies)
        spent = (time.perf_counter() - clock) / count * 1e9
        print(
            f"  zstd level {level}: {size / count:8.1f} B on disk           {spent:5.0f} ns/entry"
        )
    heads = sum(len(image.head) for _, image in images) / count
    packed = {image.number: pack(image.body) for _, image in images}
    for node, image in images:
        limits.residency.note_saved(node, image.number)
    del bodies, images, cut, node, part, image, taken
    packed.clear()
    limits.residency.evict(1)
    for node in lane.macro_nodes():
        node.used = False
    for node in list(lane.macro_nodes()):
        limits.residency._pack(node)
    print(f"  packed in memory    {held():8.1f} B  counted {counted():8.1f}  heads {heads:.2f} B")
    clock = time.perf_counter()
    for node in lane.macro_nodes():
        node.warm()
    spent = (time.perf_counter() - clock) / count * 1e9
    print(f"  unpacked            {held():8.1f} B  counted {counted():8.1f}  {spent:5.0f} ns/entry")
    limits.residency.drop_all()
    print(f"  on disk only        {held():8.2f} B  counted {counted():8.2f}")
    tracemalloc.stop()


def restore() -> None:
    """Time that the macro nodes of 100 million entries take at a restart."""
    limits = NodeLimits(entries_max=0, bytes_max=0)
    lane = Lane(RegionId(1), limits)
    heads = []
    for number in range(HEADS):
        n = number * 1600 + 1
        lane.append(make_id(n, 1), n, b"x", Millis(n))
        tail = lane.tail
        assert tail is not None
        heads.append((number + 1, tail.encode().head))
        limits.changes.epoch += 1
    other = Lane(RegionId(1), NodeLimits())
    clock = time.perf_counter()
    other.restore(heads)
    print(f"\n{HEADS} heads restored in {time.perf_counter() - clock:.2f} s")
    clock = time.perf_counter()
    other.count_above(make_id(HEADS * 800, 1))
    print(f"counted from the middle in {(time.perf_counter() - clock) * 1e3:.1f} ms")
    clock = time.perf_counter()
    stream = State(RegionId(1), (), NodeLimits()).keys.stream_or_new(b"s")
    stream.lanes[RegionId(1)] = other
    digest_key(stream, None, None)
    print(f"digest in {time.perf_counter() - clock:.2f} s")
    clock = time.perf_counter()
    other.remove_prefix(up_to=other.last_id, n_max=HEADS * 1600)
    print(f"all removed in {time.perf_counter() - clock:.2f} s")


if __name__ == "__main__":
    measure("field value", small, 200_000)
    measure("sensor", sensor, 200_000)
    measure("text of 1 KiB", text, 20_000)
    restore()
