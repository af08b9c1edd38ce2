"""Memory that the process has and does not use: of the C library, and of Python's allocator.

    the C library     gives free pages back to the system when it is told to (``give_back_memory``)
    Python's own      takes *arenas* of 1 MiB from the system for its small objects, and gives one
                      back only when nothing is left in it.  What is free in the others serves the
                      next objects (``free_bytes``): it is resident, and not used.

Where an allocator does not say - another C library, ``PYTHONMALLOC=malloc`` - nothing counts as
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
    """Have the C library give free memory back to the system, if it can.

    It takes some milliseconds, and other threads go on unless they ask it for memory.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return
    trim(0)


def free_bytes() -> int:
    """What Python's allocator has from the system and has not given to any object; 0: not known.

    Cost: a walk over its pools of 16 KiB, 1 to 1.5 ms for each GiB.
    """
    text = _allocator_text()
    found = [pattern.search(text) for pattern in (_AVAILABLE, _UNUSED_POOLS)]
    return sum(int(match[1].replace(b",", b"")) for match in found if match is not None)


def _allocator_text() -> bytes:
    """What Python's allocator tells of itself; empty where it does not."""
    try:
        libc = ctypes.CDLL(None)
        open_stream, close_stream, free = libc.open_memstream, libc.fclose, libc.free
        # Called with the GIL: nobody else allocates meanwhile.
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
