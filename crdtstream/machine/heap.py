"""Memory that the process has and does not use: of the C library, and of Python's allocator.

    the C library     returns free pages to the system when it is told to (``give_back_memory``)
    Python's own      takes *arenas* of 1 MiB from the system for its small objects, and returns one
                      only when nothing is left in it.  What is free in the others serves the next
                      objects (``free_bytes``): it is resident, and not used.

If an allocator does not report it (another C library, ``PYTHONMALLOC=malloc``), nothing counts as
free.
"""

import ctypes
import re
from typing import Final

# ``sys._debugmallocstats`` writes this to stderr; here it goes to memory.  The same in CPython 3.11
# to 3.13.
_AVAILABLE: Final = re.compile(rb"^# bytes in available blocks +=\s+([\d,]+)$", re.MULTILINE)
_UNUSED_POOLS: Final = re.compile(rb"^\d+ unused pools \* \d+ bytes +=\s+([\d,]+)$", re.MULTILINE)


def give_back_memory() -> None:
    """Make the C library return free memory to the system, if it can.

    It takes some milliseconds, and other threads run on unless they ask it for memory.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return
    trim(0)


def free_bytes() -> int:
    """Bytes that Python's allocator has from the system and not in any object; 0: unknown.

    Cost: a walk over its pools of 16 KiB, 1 to 1.5 ms for each GiB.
    """
    text = _allocator_text()
    found = [pattern.search(text) for pattern in (_AVAILABLE, _UNUSED_POOLS)]
    return sum(int(match[1].replace(b",", b"")) for match in found if match is not None)


def _allocator_text() -> bytes:
    """Python's allocator's report on itself; empty where it has none."""
    try:
        libc = ctypes.CDLL(None)
        open_stream, close_stream, free = libc.open_memstream, libc.fclose, libc.free
        # Called with the GIL: no other thread allocates at that time.
        tell = ctypes.pythonapi._PyObject_DebugMallocStats
    except (AttributeError, OSError):
        return b""
    open_stream.restype = ctypes.c_void_p
    tell.argtypes = close_stream.argtypes = free.argtypes = [ctypes.c_void_p]
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = open_stream(ctypes.byref(text), ctypes.byref(size))
    if not stream:
        return b""
    tell(stream)
    close_stream(stream)
    try:
        return ctypes.string_at(text, size.value)
    finally:
        free(text)
