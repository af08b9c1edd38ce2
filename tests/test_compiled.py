"""Compiled modules: their list, their use, and that they mean what the sources mean."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crdtstream import compiled
from tests.conftest import ROOT, require
from tests.programs import module_at

fast = module_at(compiled.BUILDER)

# Another reason than those that `fast.LEFT_OUT` gives is a construct that mypyc gets wrong.
NOT_COMPILED = {
    "crdtstream/core/bids.py",
    "crdtstream/core/incarnations.py",
    "crdtstream/core/checkpoint/contents.py",
    "crdtstream/core/member_changes.py",
    "crdtstream/core/membership/contents.py",
    "crdtstream/core/tuning.py",
    "crdtstream/region/tuning.py",
    "crdtstream/resp/accounts.py",
    "crdtstream/resp/server.py",
    "crdtstream/resp/transport/listening.py",
    "crdtstream/resp/transport/ports.py",
}
HOW = "from crdtstream import compiled; print(compiled.how())"
SIMULATION = """
import sys
from crdtstream import compiled
from crdtstream.sim.history import History
from crdtstream.sim.making import Maker
print(compiled.how())
for seed in range(int(sys.argv[1])):
    maker = Maker(seed)
    steps, failure = maker.run(int(sys.argv[2]))
    assert failure is None, (seed, failure)
    print(seed, steps)
    # The same steps once more, as the maker keeps no regions.
    history = History(maker.plan)
    for step in steps:
        history.do(step)
        with history.world.looking():
            for node in history.world.up():
                print(sorted(node.region.replica.vv.items()), node.region.replica.digest())
"""


def run(*words: str, tree: Path = ROOT, pure: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree), compiled.PURE: pure}
    return subprocess.run(
        [sys.executable, "-c", *words],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


# --- Which modules --------------------------------------------------------------------------------


@pytest.mark.house
def test_new_modules_are_compiled_or_named_here() -> None:
    """A construct that mypyc gets wrong keeps its module out: on a hot path, write it another
    way."""
    candidates = set(fast._candidates())
    assert candidates - set(fast.modules()) == NOT_COMPILED
    assert candidates >= fast.LEFT_OUT.keys()


@pytest.mark.house
def test_a_class_that_sources_derive_from_says_so() -> None:
    """Without the mark compiled code takes an object of the derived class for something else: of
    an error that the store raises a clause caught the base, and then was no such thing."""
    made = set(fast.modules())
    paths = sorted((ROOT / "crdtstream").rglob("*.py"))
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}
    classes = {
        f"{path.removesuffix('.py').replace('/', '.')}.{node.name}": node
        for path in made
        for node in ast.walk(trees[path])
        if isinstance(node, ast.ClassDef)
    }
    bases = {
        f"{node.module}.{alias.name}"
        for path, tree in trees.items()
        if path not in made
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name) in map(ast.unparse, kind.bases)
    }
    derived = classes.keys() & bases
    assert "crdtstream.core.lanes.cold.UnreadableError" in derived
    for name in derived:
        marks = map(ast.unparse, classes[name].decorator_list)
        assert "mypyc_attr(allow_interpreted_subclasses=True)" in marks, name


@pytest.mark.parametrize(
    "text",
    [
        "async def f(): ...",
        "class C:\n    async def f(self): ...",
        "def f():\n    try:\n        yield 1\n    finally:\n        g()",
        "def f():\n    with g():\n        yield from h()",
        "match x:\n    case [(bytes() | None) as y, int()]:\n        pass",
        "def f():\n    return (x for x in y)",
        "z = (x for x in y)",
        "def f():\n    yield from (x for x in y)",
        "class C(NamedTuple):\n    x: int\n    def __len__(self): return 7",
        "def f():\n try:\n  g()\n except A as e:\n  h()\n except B as e:\n  h()",
    ],
)
def test_modules_that_mypyc_gets_wrong_are_not_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "planted.py").write_text(text)
    monkeypatch.setattr(fast, "ROOT", tmp_path)
    assert fast.why_not("planted.py") is not None


def test_a_generator_beside_a_try_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "def f():\n    try:\n        g()\n    finally:\n        h()\n    yield sum(x for x in y)"
    (tmp_path / "planted.py").write_text(text)
    monkeypatch.setattr(fast, "ROOT", tmp_path)
    assert fast.why_not("planted.py") is None


def test_a_build_of_another_mypy_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But not where there is none to do it."""
    (tmp_path / fast.MAKER_OF_BUILD).write_text("2.3.0")
    for version, serves in (("2.3.0", True), ("2.4.0", False), ("", True)):
        monkeypatch.setattr(fast, "_mypy", lambda version=version: version)
        assert fast._serves(tmp_path, fast.OPTIMIZED) == serves


def test_a_quick_build_is_for_those_alone_who_ask_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fast, "_mypy", lambda: "2.3.0")
    (tmp_path / fast.MAKER_OF_BUILD).write_text(fast._maker(fast.QUICK))
    assert fast._serves(tmp_path, fast.QUICK)
    assert not fast._serves(tmp_path, fast.OPTIMIZED)
    (tmp_path / fast.MAKER_OF_BUILD).write_text(fast._maker(fast.OPTIMIZED))
    assert fast._serves(tmp_path, fast.QUICK)


# --- When it is used ------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources, with a build that says so when it is used: one module, which is
    made of Python here, as finding it is what is tested."""
    shutil.copytree(
        ROOT / "crdtstream", tmp_path / "crdtstream", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "fast.py", tmp_path / "tools")
    name = run(
        "from crdtstream import compiled; print(compiled.build_of_now())", tree=tmp_path, pure="0"
    )
    module = Path(name.strip(), "crdtstream", "core", f"replica{compiled.SUFFIX}")
    module.parent.mkdir(parents=True)
    module.touch()
    return tmp_path


def test_a_build_of_these_sources_is_used(tree: Path) -> None:
    assert run(HOW, tree=tree, pure="0") == "compiled\n"


def test_the_environment_may_ask_for_the_sources(tree: Path) -> None:
    assert run(HOW, tree=tree, pure="1") == "pure\n"


@pytest.mark.parametrize(
    "path", ["core/ids.py", "resp/wire/parser.py", "settings/node_settings.py"]
)
def test_a_build_is_not_used_once_a_source_changed(tree: Path, path: str) -> None:
    source = tree / "crdtstream" / path
    text = source.read_text()
    source.write_text(f"{text}\n")
    assert run(HOW, tree=tree, pure="0") == "pure\n"
    source.write_text(text)
    assert run(HOW, tree=tree, pure="0") == "compiled\n"


def test_a_build_is_not_used_once_a_source_came_or_went(tree: Path) -> None:
    new = tree / "crdtstream" / "core" / "new.py"
    new.touch()
    assert run(HOW, tree=tree, pure="0") == "pure\n"
    new.unlink()
    (tree / "crdtstream" / "core" / "uid.py").unlink()
    assert run(HOW, tree=tree, pure="0") == "pure\n"


def test_compiled_modules_of_a_wheel_stand_beside_their_sources(tree: Path) -> None:
    beside = tree / "crdtstream" / "core" / f"replica{compiled.SUFFIX}"
    beside.touch()
    shutil.rmtree(tree / ".fast")
    assert run(HOW, tree=tree, pure="0") == "compiled\n"
    assert run(HOW, tree=tree, pure="1") == "pure\n"


def test_the_hint_tells_what_to_do(tree: Path) -> None:
    def hint() -> str:
        return subprocess.run(
            [sys.executable, "tools/fast.py", "--hint"],
            cwd=tree,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert hint() == ""
    with (tree / "crdtstream" / "core" / "ids.py").open("a") as source:
        source.write("\n")
    assert hint() == f"{fast.STALE}\n"
    shutil.rmtree(tree / ".fast")
    assert hint() == f"{fast.HINT}\n"


# --- What it means --------------------------------------------------------------------------------


on_compiled = pytest.mark.skipif(
    os.environ.get(compiled.PURE) != "0",
    reason="it is about what is compiled: make test-compiled",
)


@on_compiled
def test_pure_and_compiled_regions_have_the_same_digests() -> None:
    """The same histories, with all faults the simulator has, on the same seeds."""
    require(compiled.build_of_now().is_dir(), "the sources are not compiled: make fast")
    pure, fast_one = (run(SIMULATION, "9", "200", pure=each).splitlines() for each in "10")
    assert (pure[0], fast_one[0]) == ("pure", "compiled")
    assert len(pure) > 9 * 200
    assert fast_one[1:] == pure[1:]


@on_compiled
@pytest.mark.long  # it compiles once more
def test_a_wheel_runs_compiled_without_the_tree(tmp_path: Path) -> None:
    """Built as `pip wheel .` builds it, and installed beside the packages that it wants."""

    def pip(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "pip", "--quiet", *words], cwd=ROOT, check=True)

    locked = ("--build-constraint", "requirements.lock")
    pip("wheel", "--no-deps", *locked, "--wheel-dir", str(tmp_path), ".")
    (wheel,) = tmp_path.glob("crdtstream-*.whl")
    assert not wheel.name.endswith("-any.whl")
    site = tmp_path / "site"
    pip("install", "--no-deps", "--target", str(site), str(wheel))
    here = "import crdtstream; print(crdtstream.__file__)"
    assert run(here, tree=site, pure="0") == f"{site / 'crdtstream' / '__init__.py'}\n"
    found = [run(SIMULATION, "1", "100", tree=site, pure=pure).splitlines() for pure in "10"]
    assert [lines.pop(0) for lines in found] == ["pure", "compiled"]
    assert found[0] == found[1] != []
