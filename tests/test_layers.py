"""Imports point one way: shells -> commands -> core, and core and commands do no IO."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "crdtstream"

# What core and commands may import besides each other: nothing here reads a clock, a file, a
# socket or a source of randomness, and none of it depends on when or where it runs.
PURE_STDLIB = frozenset(
    {
        "__future__",
        "abc",
        "array",
        "ast",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "math",
        "numbers",
        "operator",
        "re",
        "string",
        "struct",
        "sys",
        "textwrap",
        "types",
        "typing",
        "zlib",
    }
)
PURE_LIBRARIES = (
    "google.protobuf",
    "msgspec",
    "mypy_extensions",
    "sortedcontainers",
    "typing_extensions",
    "zstandard",
)

# Which packages of ours each one may import, besides itself.  Modules that stand alone count as
# packages.  ``v1`` is the generated code; its gRPC half is only for shells.
PURE = frozenset({"core", "commands", "database", "region"})
ALLOWED: dict[str, frozenset[str]] = {
    "core": frozenset({"v1"}),
    "commands": frozenset({"core"}),
    "database": frozenset({"core", "commands"}),
    "region": frozenset({"core", "commands", "database"}),
    # Whether what stands below runs compiled; it knows nothing of it.
    "compiled": frozenset(),
    # What every node has, above the core and below the shells.
    "settings": frozenset({"core"}),
    "open_files": frozenset(),
    "passwords": frozenset(),
    "folder": frozenset({"core", "region", "store"}),
    "cutting": frozenset({"core", "region", "store"}),
    "heap": frozenset(),
    "joining": frozenset({"core", "replication", "settings", "v1"}),
    "storage_watch": frozenset({"core", "cutting", "engine", "heap", "region", "store", "turns"}),
    "machine": frozenset({"core"}),
    "programs": frozenset({"core", "region"}),
    "engine_stats": frozenset({"region"}),
    "health": frozenset({"engine", "v1"}),
    "engine": frozenset(
        {
            *("core", "cutting", "database", "engine_stats", "folder", "machine", "programs"),
            *("region", "store"),
        }
    ),
    "turns": frozenset(),
    "checkpointer": frozenset({"core", "cutting", "region", "store", "turns"}),
    "bootstrapper": frozenset({"checkpointer", "core", "region", "store", "turns"}),
    # Shells: none reaches into another.
    "store": frozenset({"core", "settings"}),
    "resp": frozenset(
        {
            *("compiled", "core", "commands", "database", "engine", "open_files", "region"),
            "settings",
        }
    ),
    "replication": frozenset({"core", "engine", "passwords", "region", "settings", "v1"}),
    "admin": frozenset(
        {
            *("core", "commands", "engine", "passwords", "programs", "region", "replication"),
            *("settings", "turns", "v1"),
        }
    ),
    "query": frozenset({"core", "commands", "engine", "programs", "region", "settings", "v1"}),
    # What pages of figures are made of; it knows of nothing that is shown.
    "page": frozenset(),
    "metrics": frozenset(
        {"core", "commands", "database", "engine", "engine_stats", "region", "settings"}
    ),
    "http": frozenset({"core", "engine", "metrics", "region", "settings"}),
    "spark": frozenset({"page", "v1"}),
    # What is done with a folder beside its node.
    "upkeep": frozenset({"core", "store", "settings", "v1"}),
    "salvage": frozenset({"core", "spark", "upkeep", "v1"}),
    # Regions to experiment with: in one process, on this machine, as a table tells.
    "local_regions": frozenset({"core", "settings", "v1"}),
    "sim": frozenset(
        {
            *("compiled", "core", "commands", "database", "folder", "region", "v1"),
            *("bootstrapper", "checkpointer", "cutting", "turns"),
        }
    ),
    "scenario": frozenset({"core", "commands", "local_regions", "region", "settings", "sim", "v1"}),
    "demo": frozenset({"core", "settings", "spark", "v1"}),
    # It plants bugs on real nodes, where the slip would be made.
    "drill": frozenset(
        {
            *("compiled", "core", "database", "local_regions", "open_files", "page", "region"),
            "settings",
            *("sim", "store", "v1"),
        }
    ),
    "cli": frozenset(
        {
            "compiled",
            "core",
            "demo",
            "drill",
            "joining",
            "local_regions",
            "node",
            "passwords",
            "scenario",
            "settings",
            "sim",
            "salvage",
            "spark",
            "upkeep",
            "v1",
        }
    ),
    "v1": frozenset(),
}
# The face of a shell, which others may use; the rest is its insides.
PUBLIC = frozenset(
    {
        "crdtstream.admin.client",
        "crdtstream.admin.comparing",
        "crdtstream.query.append_rows",
        "crdtstream.query.planning",
        "crdtstream.replication.letters",
        "crdtstream.replication.wire",
        "crdtstream.resp.wire.encode",
        "crdtstream.store.checkpoints",
        "crdtstream.store.errors",
        "crdtstream.store.failpoints",
        "crdtstream.store.log",
        "crdtstream.store.replay",
        "crdtstream.store.staging",
    }
)
# Rooms inside a package, the lowest first: none imports from one above it.
ROOMS: dict[str, tuple[str, ...]] = {"resp": ("wire", "clients", "commands", "server")}
# Wiring: may import everything.
WIRING = frozenset({"node", "__init__", "__main__"})


class Import(NamedTuple):
    """One import statement.

    Attributes:
        module: dotted and absolute; ``a.b`` also for ``from a import b``.
        site: ``file:line``, for the message of a failing test.
        typing_only: below ``if TYPE_CHECKING``.
    """

    module: str
    site: str
    typing_only: bool


def imports_of(path: Path, root: Path = ROOT) -> Iterator[Import]:
    """Every import in a file, wherever it stands in it."""
    tree = ast.parse(path.read_text(), str(path))
    relative = path.relative_to(root)
    package = list(relative.with_suffix("").parts[:-1])
    typing_only = {
        id(node)
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and "TYPE_CHECKING" in ast.unparse(guard.test)
        for statement in guard.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        site = f"{relative}:{getattr(node, 'lineno', 0)}"
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, site, id(node) in typing_only)
            case ast.ImportFrom():
                base = package[: len(package) - node.level + 1] if node.level else []
                prefix = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield Import(f"{prefix}.{alias.name}", site, id(node) in typing_only)
            case _:
                pass


def sources(package: Path = PACKAGE) -> list[Path]:
    return sorted(path for path in package.rglob("*.py") if "v1" not in path.parts)


def layer_of(module: str) -> str:
    """``core`` of ``crdtstream.core.lanes.rax``; ``settings`` of ``crdtstream.settings.load``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def own_layer(path: Path, root: Path = ROOT) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return parts[1]


def is_pure(module: str) -> bool:
    """Whether core and commands may import it."""
    if module.startswith("crdtstream."):
        layer = layer_of(module)
        return layer in PURE or (layer == "v1" and not module.endswith("_grpc"))
    if module.split(".")[0] in PURE_STDLIB:
        return True
    return any(module == name or module.startswith(f"{name}.") for name in PURE_LIBRARIES)


def is_public(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in PUBLIC)


def violations(path: Path, root: Path = ROOT) -> list[str]:
    """What a file imports and must not, one line each."""
    layer = own_layer(path, root)
    if layer in WIRING:
        return []
    found = []
    for imported in imports_of(path, root):
        if layer in PURE and not is_pure(imported.module):
            found.append(f"{imported.site}: {layer} is sans-IO and must not know {imported.module}")
        elif imported.module.startswith("crdtstream."):
            other = layer_of(imported.module)
            allowed = other == layer or other in ALLOWED[layer] or is_public(imported.module)
            if not allowed and not imported.typing_only:
                found.append(f"{imported.site}: {layer} must not import {imported.module}")
    return found


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    assert violations(path) == []


def room_of(module: str) -> int | None:
    """Where a module's room stands in its package; None if the package has no such order."""
    _, layer, room, *_ = [*module.split("."), "", ""]
    rooms = ROOMS.get(layer, ())
    return rooms.index(room) if room in rooms else None


@pytest.mark.parametrize("layer", sorted(ROOMS))
def test_rooms_import_downwards(layer: str) -> None:
    wrong = []
    for path in sources(PACKAGE / layer):
        own = room_of(module_of(path))
        for imported in imports_of(path):
            other = room_of(imported.module) if layer_of(imported.module) == layer else None
            if own is not None and other is not None and other > own and not imported.typing_only:
                wrong.append(f"{imported.site}: {imported.module} stands above")
    assert wrong == []


def test_every_package_has_a_rule() -> None:
    layers = {own_layer(path) for path in sources()}
    assert layers - WIRING <= ALLOWED.keys(), "say in ALLOWED what the new package may import"


@pytest.mark.parametrize("layer", sorted(PURE))
@pytest.mark.parametrize(
    "statement",
    [
        "import asyncio",
        "import os.path",
        "from time import time_ns",
        "def f():\n    import random",
        "import grpc",
        "from crdtstream.v1 import admin_pb2_grpc",
        "from crdtstream.settings import NodeSettings",
        "from ..store import log",
        "from .. import settings",
        "import logging",
        "from pathlib import Path",
        "import secrets, sqlite3",
    ],
)
def test_io_in_a_pure_layer_is_found(tmp_path: Path, layer: str, statement: str) -> None:
    path = tmp_path / "crdtstream" / layer / "planted.py"
    path.parent.mkdir(parents=True)
    path.write_text(statement)
    assert violations(path, tmp_path) != []


def test_core_must_not_know_commands(tmp_path: Path) -> None:
    path = tmp_path / "crdtstream" / "core" / "planted.py"
    path.parent.mkdir(parents=True)
    path.write_text("from crdtstream.commands.reply import Reply")
    assert violations(path, tmp_path) != []


# --- Circles ------------------------------------------------------------------------------------


def module_of(path: Path, root: Path = ROOT) -> str:
    """``crdtstream.core`` of ``crdtstream/core/__init__.py``."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def import_graph(package: Path = PACKAGE, root: Path = ROOT) -> dict[str, set[str]]:
    """The modules of ours that each module imports, anywhere in it and for types only, too."""
    files = {module_of(path, root): path for path in sources(package)}
    graph: dict[str, set[str]] = {module: set() for module in files}
    for module, path in files.items():
        for imported in imports_of(path, root):
            name = imported.module
            # A name in a module, or a module.
            name = name if name in files else name.rpartition(".")[0]
            if name in files and name != module:
                graph[module].add(name)
    return graph


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; empty: there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # Each is imported by the next one.
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def test_nothing_is_imported_in_a_circle() -> None:
    """Imports for types only count: a module that must know another one is not below it."""
    found = circle(import_graph())
    assert found == [], "each imports the next one; give one of them what it needs instead"


@pytest.mark.parametrize(
    "back",
    [
        "from crdtstream.core.one import One",
        "from crdtstream.core import one",
        "import crdtstream.core.one",
        "from .one import One",
        "def f():\n    from crdtstream.core.one import One",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .one import One",
    ],
)
def test_a_circle_is_found(tmp_path: Path, back: str) -> None:
    folder = tmp_path / "crdtstream" / "core"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text("from crdtstream.core.two import Two\n")
    (folder / "two.py").write_text("from crdtstream.core.three import Three\n")
    (folder / "three.py").write_text(back + "\n")
    graph = import_graph(tmp_path / "crdtstream", tmp_path)
    found = circle(graph)
    assert set(found) == {f"crdtstream.core.{name}" for name in ("one", "two", "three")}
    assert all(after in graph[before] for before, after in pairwise(found))


def test_no_circle_is_found_where_there_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "crdtstream" / "core"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text("from . import two, three\n")
    (folder / "two.py").write_text("from . import three\n")
    (folder / "three.py").write_text("import math\n")
    assert circle(import_graph(tmp_path / "crdtstream", tmp_path)) == []
