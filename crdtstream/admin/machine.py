"""The machine that a node runs on, as ``rladmin status nodes`` shows it: cores and memory."""

import os
from typing import Final

from crdtstream.v1 import admin_pb2 as pb

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_MEMORY: Final = "/proc/meminfo"


def machine_status() -> pb.Machine:
    """Cores and memory now; 0 for what the system does not say."""
    return pb.Machine(
        cores=os.cpu_count() or 0,
        memory=_PAGE_BYTES * os.sysconf("SC_PHYS_PAGES"),
        memory_free=available_bytes(),
    )


def available_bytes(path: str = _MEMORY) -> int:
    """Memory that programs may still take, files that can be dropped from RAM included.

    Args:
        path: where Linux says it; a system without this file says only how much is unused.
    """
    try:
        with open(path, encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return _PAGE_BYTES * os.sysconf("SC_AVPHYS_PAGES")
