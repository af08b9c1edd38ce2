"""Compiles the sources that are called for every command, with mypyc; see crdtstream/compiled.py.

Usage:
    python tools/fast.py              compile this tree, unless that was done: `make fast`
    python tools/fast.py --quick      the same without optimization, which takes less time
    python tools/fast.py --hint       tell how to compile it, unless that was done
    python tools/fast.py --list       the modules that are compiled, and why others are not
    python tools/fast.py --into DIR   put what is compiled into a folder, for a wheel

Exit status: 0 done; 1 it cannot be compiled here, with the reason on stderr.
"""

import argparse
import ast
import contextlib
import importlib
import importlib.metadata
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from crdtstream import compiled  # noqa: E402

# Shared objects of one build, and nothing else, have names that begin so.
GROUP: Final = "crdtstream"

# The file of a build that says which mypy made it, and how.  It is not part of the fingerprint,
# which a node computes at its start, also where there is no mypy.
MAKER_OF_BUILD: Final = "mypy-version"
# Levels of optimization, as compilers have them.
OPTIMIZED: Final = "2"
QUICK: Final = "0"

# What mypyc would compile and Python could not import, or what would mean something else.
LEFT_OUT: Final = {
    "crdtstream/core/checkpoint/contents.py": "msgspec takes types from annotations, and those of "
    "compiled classes are `type`, whatever the sources say",
    "crdtstream/core/member_changes.py": "as that one: msgspec decodes into it",
    "crdtstream/core/membership/contents.py": "as that one",
    "crdtstream/core/incarnations.py": "as that one; and nothing in it is hot",
    "crdtstream/core/bids.py": "as that one",
    "crdtstream/core/tuning.py": "a generic dataclass with slots fails when it is imported",
    "crdtstream/region/tuning.py": "is made of such dataclasses",
}
HINT: Final = (
    "crdtstream runs as pure Python here; `make fast` compiles it once, in about five minutes on "
    "two cores, and that is used from the next start on."
)
STALE: Final = (
    "Its sources changed since `make fast`, so crdtstream runs as pure Python; again: make fast"
)


class CannotCompileError(Exception):
    """The message says what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile crdtstream with mypyc.")
    parser.add_argument("--hint", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--into", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    try:
        if arguments.hint:
            _hint()
        elif arguments.list:
            _list()
        elif arguments.into is not None:
            _put_into(arguments.into.resolve())
        else:
            _compile_tree(QUICK if arguments.quick else OPTIMIZED)
    except CannotCompileError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


# --- Which modules --------------------------------------------------------------------------------


def modules() -> list[str]:
    """The sources to compile, as paths from the root."""
    return [path for path in _candidates() if why_not(path) is None]


def _candidates() -> Iterator[str]:
    for package in compiled.PACKAGES:
        for path in sorted((ROOT / "crdtstream" / package).rglob("*.py")):
            # Of a package there is nothing to compile but its docstring.
            if path.name != "__init__.py":
                yield str(path.relative_to(ROOT))


def why_not(path: str) -> str | None:
    """Why a source is not compiled; None: it is.

    Constructs that mypyc 2.4 gets wrong keep a module out by themselves, so that a new module is
    either compiled to what it means, or not at all; `tests/test_compiled.py` has the list.
    """
    if path in LEFT_OUT:
        return LEFT_OUT[path]
    tree = ast.parse((ROOT / path).read_text(), path)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.AsyncFunctionDef():
                return f"line {line}: a coroutine"
            case ast.FunctionDef() if _yields_in_try(node):
                return f"line {line}: a generator with a yield inside a try or with"
            case ast.ClassDef() if _is_tuple_with_length(node):
                return f"line {line}: a NamedTuple with a length of its own"
            case ast.FunctionDef() if _names_two_kinds(node):
                return f"line {line}: one name for exceptions of two kinds"
            case ast.MatchAs(pattern=ast.MatchOr()):
                return f"line {line}: a pattern (… | …) as name"
            case (
                ast.Return(value=ast.GeneratorExp())
                | ast.Assign(value=ast.GeneratorExp())
                | ast.YieldFrom(value=ast.GeneratorExp())
            ):
                return f"line {line}: a generator expression that would be a list"
    return None


def _yields_in_try(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(inner, ast.Yield | ast.YieldFrom)
        for node in _own(function)
        if isinstance(node, ast.Try | ast.With)
        for inner in _own(node)
    )


def _is_tuple_with_length(kind: ast.ClassDef) -> bool:
    """True if ``len`` of its values would be how many fields they have."""
    return any(ast.unparse(base) == "NamedTuple" for base in kind.bases) and any(
        isinstance(one, ast.FunctionDef) and one.name == "__len__" for one in kind.body
    )


def _names_two_kinds(function: ast.FunctionDef) -> bool:
    """True if a name of an except clause is that of another one, of another kind: for mypyc a
    variable has one type."""
    kinds: dict[str, str] = {}
    for node in _own(function):
        if isinstance(node, ast.ExceptHandler) and node.name and node.type:
            kind = ast.unparse(node.type)
            if kinds.setdefault(node.name, kind) != kind:
                return True
    return False


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield child
            yield from _own(child)


def _list() -> None:
    for path in _candidates():
        reason = why_not(path)
        print(path if reason is None else f"{path}  not compiled: {reason}")


# --- A source tree --------------------------------------------------------------------------------


def _hint() -> None:
    if not compiled.build_of_now().is_dir():
        print(STALE if _builds() else HINT)


def _builds() -> list[Path]:
    """Builds of any sources, for this Python; those for others stay as they are."""
    if not compiled.BUILDS.is_dir():
        return []
    return [
        path
        for path in compiled.BUILDS.iterdir()
        if not path.name.startswith("making-") and any(path.rglob(f"*{compiled.SUFFIX}"))
    ]


def _compile_tree(level: str) -> None:
    build = compiled.build_of_now()
    if _serves(build, level):
        print("compiled already, of the sources as they are")
        return
    compiled.BUILDS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=compiled.BUILDS) as folder:
        made = Path(folder) / build.name
        _compile_into(made, level)
        (made / MAKER_OF_BUILD).write_text(_maker(level))
        _try_out(made)
        if compiled.build_of_now() != build:
            raise CannotCompileError("the sources changed meanwhile; again: make fast")
        if build.is_dir():
            # What another mypy made of the same sources.
            shutil.rmtree(build)
        made.rename(build)
    for other in _builds():
        if other != build:
            shutil.rmtree(other)
    print("crdtstream runs compiled from the next start on")


def _mypy() -> str:
    """The version of mypy, and so of mypyc, that compiles; empty without any."""
    try:
        return importlib.metadata.version("mypy")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _maker(level: str) -> str:
    """The mypy of now with a level, if it is not the usual one; it identifies a build."""
    return _mypy() if level == OPTIMIZED else f"{_mypy()} -O{level}"


def _serves(build: Path, level: str) -> bool:
    """True if a build exists that the present mypy made with this level, or with the usual one.

    Without a mypy nothing else can be made, so any build serves.
    """
    if not build.is_dir() or not _mypy():
        return build.is_dir()
    written = build / MAKER_OF_BUILD
    return written.is_file() and written.read_text() in {_maker(level), _maker(OPTIMIZED)}


def _try_out(build: Path) -> None:
    """Import each compiled module, in a process of its own.

    Raises:
        CannotCompileError: one cannot be imported.
    """
    program = (
        "import importlib, sys; from pathlib import Path; from crdtstream import compiled\n"
        "compiled.use(Path(sys.argv[1]))\n"
        "for name in sys.argv[2:]:\n"
        "    module = importlib.import_module(name)\n"
        "    assert module.__file__.endswith(compiled.SUFFIX), module.__file__\n"
    )
    names = [path.removesuffix(".py").replace("/", ".") for path in modules()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), compiled.PURE: "0"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(build), *names],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotCompileError(f"what was compiled cannot be imported:\n{done.stderr}")


def _put_into(folder: Path) -> None:
    """Put in the product of `make fast` of these very sources, else what is compiled now."""
    build = compiled.build_of_now()
    if _serves(build, OPTIMIZED):
        shutil.copytree(build, folder)
    else:
        _compile_into(folder, OPTIMIZED)


# --- Compiling ------------------------------------------------------------------------------------


def _compile_into(folder: Path, level: str) -> None:
    """Compile all modules; the folder is there when all of them are.

    Raises:
        CannotCompileError: there is no compiler, or it failed.
    """
    _require_compiler()
    started = time.monotonic()
    _progress("translating to C …")
    with tempfile.TemporaryDirectory(prefix="crdtstream-c-") as work:
        extensions = _translated(Path(work) / "c", level)
        made = Path(work) / "made"
        _build(extensions, made, Path(work) / "objects")
        shutil.copytree(made, folder)
    _progress(
        f"{len(extensions) - 1} modules compiled in {time.monotonic() - started:.0f} s", end=True
    )


def _require_compiler() -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which(compiler) is None or not header.is_file():
        missing = compiler if shutil.which(compiler) is None else str(header)
        raise CannotCompileError(
            f"{missing} is missing, which compiling wants; on Debian: apt-get install gcc "
            "python3-dev.  Without it crdtstream runs as pure Python."
        )
    try:
        importlib.import_module("mypyc.build")
    except ImportError as error:
        raise CannotCompileError(
            f"{error}; `make fast` installs what compiling wants: pip install '.[compile]'"
        ) from error


def _translated(folder: Path, level: str) -> list[Any]:
    """C sources in ``folder``, as extensions for setuptools: one with all code, and a small one for
    each module.  They are compiled with this level of optimization."""
    mypycify: Any = importlib.import_module("mypyc.build").mypycify
    told = io.StringIO()
    try:
        # What mypy warns of, `make check` and the list above know better.
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            extensions = mypycify(
                [
                    "--config-file=",
                    "--ignore-missing-imports",
                    "--follow-imports=silent",
                    f"--cache-dir={folder.parent / 'mypy'}",
                    *modules(),
                ],
                opt_level=level,
                debug_level="0",
                multi_file=True,
                group_name=GROUP,
                target_dir=str(folder),
            )
    except SystemExit as error:
        raise CannotCompileError(f"mypyc refuses:\n{told.getvalue()}") from error
    return list(extensions)


def _build(extensions: list[Any], made: Path, objects: Path) -> None:
    errors: Any = importlib.import_module("setuptools.errors")
    distribution: Any = importlib.import_module("setuptools").Distribution
    extension: Any = importlib.import_module("setuptools.command.build_ext").build_ext

    class Build(extension):  # type: ignore[misc]  # setuptools has no types
        """As setuptools has it, but several files at a time, and telling how far it is."""

        def build_extension(self, ext: Any) -> None:
            sizes = {source: Path(source).stat().st_size for source in ext.sources}
            total, done = sum(sizes.values()), 0
            if len(sizes) > 1:
                ext.extra_compile_args = [*ext.extra_compile_args, *self._headers_once(ext)]
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                for source, files in pool.map(self._object_of, [ext] * len(sizes), sizes):
                    ext.extra_objects += files
                    done += sizes[source]
                    if len(sizes) > 1:
                        _progress(f"compiling … {100 * done // total} %")
            ext.sources = []
            # No symbols: a quarter less to load.
            ext.extra_link_args += ["-Wl,-s"]
            super().build_extension(ext)

        def _headers_once(self, ext: Any) -> list[str]:
            """Words that have the compiler parse the headers of all sources once.

            They are 1.7 MB: without optimization half of the work for a small source.  None for a
            compiler that cannot do so, as one that compiles for two architectures.
            """
            folder = Path(ext.sources[0]).resolve().parent
            header = Path(self.build_temp, "headers.h").resolve()
            header.parent.mkdir(parents=True, exist_ok=True)
            names = (f"__native_{GROUP}.h", f"__native_internal_{GROUP}.h")
            header.write_text("".join(f'#include "{folder / name}"\n' for name in names))
            includes = [f"-I{one}" for one in (*ext.include_dirs, *self.compiler.include_dirs)]
            words = [*self.compiler.compiler_so, *includes, *ext.extra_compile_args]
            try:
                self.compiler.spawn([*words, "-x", "c-header", str(header), "-o", f"{header}.gch"])
            except errors.ExecError:
                return []
            return ["-include", str(header)]

        def _object_of(self, ext: Any, source: str) -> tuple[str, list[str]]:
            files: list[str] = self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                include_dirs=ext.include_dirs,
                extra_postargs=ext.extra_compile_args,
                depends=ext.depends,
            )
            return source, files

    command = Build(distribution({"name": GROUP, "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(made), str(objects)
    # Each module has a small source besides; these are compiled and linked beside each other, too.
    command.parallel = len(os.sched_getaffinity(0))
    command.ensure_finalized()
    try:
        command.run()
    except errors.BaseError as error:
        raise CannotCompileError(f"the C compiler failed: {error}") from error


def _progress(text: str, *, end: bool = False) -> None:
    """One line that changes on a terminal; elsewhere, only how it ended."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="\n" if end else "", file=sys.stderr, flush=True)
    elif end:
        print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
