"""Memory that the process has and does not use is known, and given back where it can be."""

import subprocess
import sys

MIB = 1 << 20
# Lists by themselves are no small objects; one in fifty stays, so that hardly an arena is empty.
PROGRAM = """
from crdtstream.machine.heap import free_bytes, give_back_memory
give_back_memory()
before = free_bytes()
kept = [[n] for n in range(1_000_000)]
full = free_bytes()
kept = kept[::50]
give_back_memory()
print(before, full, free_bytes())
"""


def free_in_a_process(**environment: str) -> list[int]:
    """At the start, with a million lists, and with each fiftieth of them."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True, text=True
    )
    return [int(word) for word in found.stdout.split()]


def test_memory_of_deleted_objects_is_free_although_arenas_are_pinned() -> None:
    before, full, after = free_in_a_process()
    assert before < 8 * MIB
    assert full < 8 * MIB
    assert after > 50 * MIB


def test_an_allocator_that_does_not_say_has_nothing_free() -> None:
    assert free_in_a_process(PYTHONMALLOC="malloc") == [0, 0, 0]
