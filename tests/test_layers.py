"""Imports point one way: shells -> commands -> core, and core and commands do no IO."""

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.house

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
        "hmac",
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
    "backports.zstd",
    "google.protobuf",
    "msgspec",
    "mypy_extensions",
    "typing_extensions",
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
    # Above the core and below the shells: what an operator gives a node, and its machine.
    "secrets": frozenset({"core"}),
    "machine": frozenset({"core"}),
    "settings": frozenset({"certificates", "core", "secrets"}),
    "certificates": frozenset({"core"}),
    # Logins of all callers but Redis clients; shells ask it, and it knows none of them.
    "access": frozenset({"certificates", "core"}),
    "engine": frozenset({"core", "database", "machine", "region", "store"}),
    # A node's parts beside what puts them together: how it joins, and what health checks hear.
    "node": frozenset(
        {"access", "certificates", "core", "database", "engine", "machine", "replication"}
        | {"secrets", "settings", "v1"}
    ),
    # Shells: none reaches into another.
    "store": frozenset({"core", "secrets", "settings"}),
    "resp": frozenset(
        {
            *("access", "certificates", "compiled", "core", "commands", "database"),
            *("engine", "machine", "region", "secrets", "settings"),
        }
    ),
    "replication": frozenset({"access", "core", "engine", "region", "secrets", "settings", "v1"}),
    "admin": frozenset(
        {
            *("access", "certificates", "core", "commands", "engine"),
            *("region", "replication", "secrets", "settings", "v1"),
        }
    ),
    "query": frozenset({"access", "core", "commands", "engine", "region", "settings", "v1"}),
    # What pages of figures are made of; it knows of nothing that is shown.
    "page": frozenset(),
    "metrics": frozenset(
        {
            *("access", "certificates", "core", "commands", "database", "engine", "region"),
            "settings",
        }
    ),
    "http": frozenset(
        {"access", "certificates", "core", "engine", "metrics", "region", "settings"}
    ),
    # For people, on top of the shells whose figures it shows.
    "console": frozenset(
        {
            *("access", "admin", "core", "commands", "database", "engine", "http", "metrics"),
            *("page", "settings", "v1"),
        }
    ),
    "spark": frozenset({"page", "secrets", "v1"}),
    # What is done with a folder beside its node.
    "upkeep": frozenset({"core", "secrets", "settings", "spark", "store", "v1"}),
    # Facts for a bug report.
    "doctor": frozenset(
        {
            *("access", "compiled", "core", "scenario", "secrets", "settings", "upkeep", "v1"),
        }
    ),
    # Between two servers that speak Redis's protocol; it knows nothing of the inside of either.
    "move": frozenset({"core"}),
    # Regions to experiment with: on this machine, in one process, as a table tells.
    "local": frozenset({"access", "certificates", "core", "settings", "v1"}),
    "sim": frozenset(
        {
            *("compiled", "core", "commands", "database", "engine", "region", "v1"),
            *("spark", "upkeep"),
        }
    ),
    "scenario": frozenset(
        {
            *("access", "command_line", "core", "commands", "local", "region", "settings"),
            *("sim", "v1"),
        }
    ),
    "demo": frozenset({"core", "settings", "spark", "v1"}),
    "drill": frozenset(
        {
            *("access", "certificates", "command_line", "core", "local", "machine"),
            *("page", "settings", "v1"),
        }
    ),
    # Reports on pages of the console; no node takes part.
    "replay": frozenset({"command_line", "console", "core", "drill", "http", "page", "scenario"}),
    # Shared by commands, whatever package they are in.
    "command_line": frozenset(
        {
            *("access", "certificates", "core", "local", "secrets", "settings"),
        }
    ),
    "cli": frozenset(
        {
            *("access", "certificates", "command_line", "compiled", "core", "demo", "doctor"),
            *("drill", "local", "move", "node", "scenario", "secrets", "settings", "sim"),
            *("spark", "upkeep", "v1"),
        }
    ),
    "v1": frozenset(),
}
# The face of a shell, which others may use; the rest is its insides.
PUBLIC = frozenset(
    {
        "crdtstream.admin.client",
        "crdtstream.admin.comparing",
        "crdtstream.admin.region_reports",
        "crdtstream.node.log_names",
        "crdtstream.query.append_rows",
        "crdtstream.query.arrow_extra",
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
# Rooms inside a package, folders and modules that stand alone, the lowest first: none imports from
# one above it.
ROOMS: dict[str, tuple[str, ...]] = {
    "core": (
        # Values, and what is common to all.
        *("size", "ids", "clock", "id_columns", "ranges", "intervals", "fields", "uid"),
        *("frames", "redis_version", "xread_mode", "member_changes", "effects", "notifications"),
        # Images and what is known besides keys; effects as bytes.
        *("checkpoint", "incarnations", "bids", "membership", "producers", "wire"),
        # A stream, by its parts, and all keys.
        *("lanes", "groups", "keyspace", "histories"),
        # A replica's state, and how it changes.
        *("whole", "comparing", "applying", "issuing", "merge", "effect_counts", "replica"),
        # About a replica, or many.
        *("footprint", "inbox", "stability", "sizes", "tuning"),
    ),
    "commands": (
        *("reply", "arguments", "glob", "lookup", "subcommands", "pending_rows", "string_room"),
        *("announced", "absent"),
        *("streams", "groups", "keys", "strings", "scripts", "beyond_redis"),
        *("documentation", "command", "table"),
    ),
    "region": (
        *("limits", "histogram", "peers", "answering", "beginning", "durability", "events"),
        *("beats", "deadlines"),
        *("fetching", "pins", "bootstrap_bounds"),
        *("freshness", "knowledge", "lag", "readiness", "retention"),
        *("ready", "tick", "folder_share", "outstanding"),
        # Parts that post events.
        *("bidding", "bootstrap", "checkpointing", "histories", "peer_runs", "write_gate"),
        *("repair", "clients", "wait", "client_table", "runtime", "ground"),
        *("cold_reads", "room", "staleness", "client_side", "storage"),
        *("members", "numbering"),
        *("holding", "stability", "catching_up", "opening", "participation", "others"),
        "assembled",
        *("links", "log_side", "folder_side", "changing_peers", "region", "tuning"),
    ),
    "engine": (
        *("turns", "stats", "programs", "folder", "log_cutting", "assembling"),
        *("backoff", "agenda", "checkpointer", "bootstrapper", "repairer", "engine"),
        "storage_watch",
    ),
    "resp": ("wire", "transport", "accounts", "clients", "commands", "server"),
    "certificates": (
        *("errors", "names", "certificate", "chain", "checking", "showing", "authority", "files"),
        "options",
        *("node_files", "watching"),
    ),
}
# Of the engine, which modules each package may import; the rest of it is for the node's wiring.
OF_ENGINE: dict[str, frozenset[str]] = {
    "admin": frozenset({"engine", "programs", "repairer", "turns"}),
    "console": frozenset({"engine", "programs"}),
    "http": frozenset({"engine"}),
    "metrics": frozenset({"engine", "stats"}),
    "node": frozenset({"engine"}),
    "query": frozenset({"engine", "programs"}),
    "replication": frozenset({"engine", "turns"}),
    "resp": frozenset({"engine"}),
    # The simulator has all of a node, except asyncio, and what measures this machine.
    "sim": frozenset(
        {"agenda", "assembling", "bootstrapper", "checkpointer", "folder", "programs", "turns"}
    ),
}
# Wiring: may import everything.
WIRING = frozenset(
    {
        "crdtstream",
        "crdtstream.__main__",
        "crdtstream.node.console",
        "crdtstream.node.node",
        "crdtstream.node.ports",
        "crdtstream.node.recovery",
        "crdtstream.node.services",
    }
)


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
    """``core`` of ``crdtstream.core.lanes.rax``; ``region`` of ``crdtstream.region.tick``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def own_layer(path: Path, root: Path = ROOT) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return parts[1]


def is_pure(module: str) -> bool:
    """True if core and commands may import it."""
    if module.startswith("crdtstream."):
        layer = layer_of(module)
        return layer in PURE or (layer == "v1" and not module.endswith("_grpc"))
    if module.split(".")[0] in PURE_STDLIB:
        return True
    return any(module == name or module.startswith(f"{name}.") for name in PURE_LIBRARIES)


def is_public(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in PUBLIC)


def violations(path: Path, root: Path = ROOT) -> list[str]:
    """Forbidden imports of a file, one line each."""
    layer = own_layer(path, root)
    if module_of(path, root) in WIRING:
        return []
    found = []
    for imported in imports_of(path, root):
        if layer in PURE and not is_pure(imported.module):
            found.append(f"{imported.site}: {layer} is sans-IO and must not know {imported.module}")
        elif imported.module.startswith("crdtstream."):
            other = layer_of(imported.module)
            allowed = other == layer or other in ALLOWED[layer] or is_public(imported.module)
            if other == "engine" != layer:
                allowed = imported.module.split(".")[2] in OF_ENGINE.get(layer, ())
            if not allowed and not imported.typing_only:
                found.append(f"{imported.site}: {layer} must not import {imported.module}")
    return found


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    assert violations(path) == []


def room_of(module: str) -> int | None:
    """Position of a module's room in its package; None if the package has no such order."""
    _, layer, room, *_ = [*module.split("."), "", ""]
    rooms = ROOMS.get(layer, ())
    return rooms.index(room) if room in rooms else None


def upward_imports(package: Path, root: Path = ROOT) -> list[str]:
    """Of modules of rooms above, one line each."""
    wrong = []
    for path in sources(package):
        own = room_of(module_of(path, root))
        for imported in imports_of(path, root):
            other = room_of(imported.module) if layer_of(imported.module) == package.name else None
            if own is not None and other is not None and other > own and not imported.typing_only:
                wrong.append(f"{imported.site}: {imported.module} stands above")
    return wrong


@pytest.mark.parametrize("layer", sorted(ROOMS))
def test_rooms_import_downwards(layer: str) -> None:
    assert upward_imports(PACKAGE / layer) == []


@pytest.mark.parametrize(
    ("layer", "module"),
    [
        ("core", "lanes.lane"),
        ("commands", "streams.xadd"),
        ("region", "tick"),
        ("engine", "turns"),
        ("resp", "wire.encode"),
    ],
)
def test_an_import_from_a_room_above_is_found(tmp_path: Path, layer: str, module: str) -> None:
    """Of the lowest room but few, the highest one."""
    path = (tmp_path / "crdtstream" / layer / module.replace(".", "/")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    path.write_text(f"def f():\n    from crdtstream.{layer}.{ROOMS[layer][-1]} import x")
    assert upward_imports(tmp_path / "crdtstream" / layer, tmp_path) != []


@pytest.mark.parametrize(
    ("layer", "module"), [("sim", "engine"), ("query", "checkpointer"), ("resp", "repairer")]
)
def test_imports_of_forbidden_engine_modules_are_found(
    tmp_path: Path, layer: str, module: str
) -> None:
    path = tmp_path / "crdtstream" / layer / "planted.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"from crdtstream.engine.{module} import x")
    assert violations(path, tmp_path) != []


@pytest.mark.parametrize("layer", sorted(ROOMS))
def test_every_room_has_a_floor(layer: str) -> None:
    """New folders and modules, too: say in ROOMS where they stand."""
    rooms = {path.relative_to(PACKAGE / layer).parts[0] for path in sources(PACKAGE / layer)}
    assert {room.removesuffix(".py") for room in rooms} - {"__init__"} == set(ROOMS[layer])
    assert len(ROOMS[layer]) == len(set(ROOMS[layer]))


def test_every_package_has_a_rule() -> None:
    layers = {own_layer(path) for path in sources() if module_of(path) not in WIRING}
    assert layers <= ALLOWED.keys(), "say in ALLOWED what the new package may import"


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
        "from crdtstream.settings.node_settings import NodeSettings",
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


def test_no_module_of_the_product_knows_bugs_on_purpose() -> None:
    for path in sources():
        for imported in imports_of(path):
            assert imported.module.split(".")[0] != "tests", imported.site
        # Not of ``PlanTrim``.
        assert re.search("plant|Plant|PLANT", path.read_text()) is None, path
