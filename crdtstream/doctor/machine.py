"""The program and the machine that it runs on: versions, limits, disks, clock."""

import datetime
import importlib.metadata
import os
import platform
import resource
import shutil
import sqlite3
import ssl
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from crdtstream import compiled

# Packages whose versions a bug may depend on.
PACKAGES: Final = (
    *("cryptography", "grpcio", "hiredis", "msgspec", "protobuf", "pydantic", "starlette"),
    *("structlog", "uvicorn", "uvloop", "backports.zstd"),
)
_LIMITS: Final = {
    "core_bytes": resource.RLIMIT_CORE,
    "memory_bytes": resource.RLIMIT_AS,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}
# Files of Linux with one line each, by the name under which the report has them.
_KERNEL: Final = {
    "cgroup_cpu_max": "/sys/fs/cgroup/cpu.max",
    "cgroup_memory_max": "/sys/fs/cgroup/memory.max",
    "overcommit_memory": "/proc/sys/vm/overcommit_memory",
    "somaxconn": "/proc/sys/net/core/somaxconn",
    "swappiness": "/proc/sys/vm/swappiness",
    "transparent_hugepage": "/sys/kernel/mm/transparent_hugepage/enabled",
}
_SYNCHRONISED: Final = Path("/run/systemd/timesync/synchronized")


def program() -> dict[str, Any]:
    """Versions of this program and of all that it is made of."""
    return {
        "version": importlib.metadata.version("crdtstream"),
        "runs": compiled.how(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "sqlite": sqlite3.sqlite_version,
        "openssl": ssl.OPENSSL_VERSION,
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine(folders: Iterable[Path]) -> dict[str, Any]:
    """The machine, and the disks of these folders."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "processor": platform.machine(),
        "cpus": os.cpu_count(),
        "cpus_allowed": _allowed_cpus(),
        "load": list(os.getloadavg()),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "memory_free_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"),
        "limits": {name: _limit(which) for name, which in _LIMITS.items()},
        "kernel": {name: _line(Path(path)) for name, path in _KERNEL.items()},
        "clock": _clock(),
        "disks": {str(folder): _disk(folder) for folder in folders},
    }


def _allowed_cpus() -> int | None:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else None


def _limit(which: int) -> dict[str, int | str]:
    soft, hard = resource.getrlimit(which)
    return {
        name: "unlimited" if value == resource.RLIM_INFINITY else value
        for name, value in (("soft", soft), ("hard", hard))
    }


def _line(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _clock() -> dict[str, Any]:
    """The clock; whether it is synchronised is known of systemd's service only."""
    return {
        "utc": datetime.datetime.now(datetime.UTC).isoformat(),
        "up_seconds": round(time.monotonic()),
        "systemd_synchronised": _SYNCHRONISED.exists(),
    }


def _disk(folder: Path) -> dict[str, Any]:
    """The disk of a folder, or of the nearest folder above that exists."""
    try:
        found = folder.resolve()
        while not found.exists():
            found = found.parent
        usage, inodes = shutil.disk_usage(found), os.statvfs(found)
    except OSError as error:
        return {"error": error.strerror}
    return {
        "exists": folder.exists(),
        "bytes": usage.total,
        "free_bytes": usage.free,
        "free_inodes": inodes.f_favail,
        "filesystem": _filesystem(found),
    }


def _filesystem(folder: Path) -> str | None:
    """The kind of the file system that has a folder; None: this system does not say."""
    mounts = _line(Path("/proc/self/mounts"))
    kinds = {Path(words[1]): words[2] for words in map(str.split, (mounts or "").splitlines())}
    return next((kinds[one] for one in (folder, *folder.parents) if one in kinds), None)
