"""Choice between compiled code and the plain sources, at the start of a process.

mypyc compiles the sources in ``PACKAGES`` to C, which does the same faster.  A wheel has the
compiled modules beside their sources, where Python prefers them by itself.  In a source tree they
are kept apart, in a folder whose name is the fingerprint of the sources that they were made from:

    .fast/3f0c9a…/crdtstream/core/ids.cpython-311-x86_64-linux-gnu.so
    .fast/3f0c9a…/crdtstream__mypyc.cpython-311-x86_64-linux-gnu.so     the code of them all

``make fast`` makes that folder.  If a source changes, the fingerprint changes too and has no
folder, so the sources run.  Compiled code is used as a whole and is never out of date.

With ``CRDTSTREAM_PURE=1`` in the environment the sources always run.
"""

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent
# The compiled modules of a source tree are here, in a folder for each state of the sources.
BUILDS: Final = PACKAGE.parent / ".fast"
# The program that makes them; it exists in a source tree only.
BUILDER: Final = PACKAGE.parent / "tools" / "fast.py"

# The compiled packages, except what ``tools/fast.py`` leaves out.  Nothing in here waits: it is
# all called by the event loop, for every command, effect and reply.
PACKAGES: Final = ("core", "commands", "database", "region", "resp")

# Of this Python, and of no other: ".cpython-311-x86_64-linux-gnu.so".
SUFFIX: Final = EXTENSION_SUFFIXES[0]
PURE: Final = "CRDTSTREAM_PURE"

# A module that is compiled if any is.
_ONE_OF_THEM: Final = "crdtstream.core.replica"


def is_compiled() -> bool:
    """True if this process runs compiled code."""
    spec = find_spec(_ONE_OF_THEM)
    return spec is not None and str(spec.origin).endswith(SUFFIX)


def how() -> str:
    """``compiled`` or ``pure``, as INFO and ``--version`` show it."""
    return "compiled" if is_compiled() else "pure"


def choose() -> None:
    """Have compiled code imported, if it is there and may be used; before anything else of ours is
    imported."""
    if os.environ.get(PURE) == "1":
        sys.meta_path.insert(0, _Sources())
    elif BUILDS.is_dir() and (build := build_of_now()).is_dir():
        use(build)


def use(build: Path) -> None:
    """Have compiled modules imported from this folder."""
    sys.meta_path.insert(0, _Compiled(build))


def build_of_now() -> Path:
    """Folder for the compiled modules of the present sources; it need not exist."""
    return BUILDS / _fingerprint()


def _fingerprint() -> str:
    """Of all our sources, of how they are compiled, and for which Python.

    Of all: constants and layouts of modules that stay Python are part of what imports them.

    Cost: some 14 ms, most of it for reading files.
    """
    found = hashlib.sha256(SUFFIX.encode())
    for path in _sources():
        content = path.read_bytes()
        found.update(b"\n%s %d\n" % (str(path.relative_to(PACKAGE.parent)).encode(), len(content)))
        found.update(content)
    return found.hexdigest()[:32]


def _sources() -> Iterator[Path]:
    if BUILDER.is_file():
        yield BUILDER
    yield from sorted(PACKAGE.rglob("*.py"))


class _Compiled(MetaPathFinder):
    """Finds the modules of a build, before Python looks for their sources."""

    def __init__(self, build: Path) -> None:
        self._build = build
        self._names = {
            str(path.relative_to(build)).removesuffix(SUFFIX).replace(os.sep, ".")
            for path in build.rglob(f"*{SUFFIX}")
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        file = self._build.joinpath(*fullname.split(".")).with_suffix(SUFFIX)
        return spec_from_file_location(fullname, file)


class _Sources(MetaPathFinder):
    """Finds our sources, also where compiled modules stand beside them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("crdtstream."):
            return None
        for folder in path or ():
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname)
            if spec is not None:
                return spec
        return None
