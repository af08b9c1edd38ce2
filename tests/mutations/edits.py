"""Planted bugs by the syntax tree: a line says which code of a function becomes which.

    # crdtstream/core/groups/reading.py
    Reading.keep :: progress.leave_out() -> pass :: tests/rules/test_x.py::test_y :: a-name: reason

A line has four parts: the function (classes and functions with dots between them; empty: the
module), the change, the tests, and name and reason.  Two tests have ``, `` between them.  The
heading above names the file.

An expression becomes another one, or statements become others: ``pass`` leaves them out.  The code
is looked for in the tree of the function, so it may stand on other lines, or be formatted in
another way; comments do not count.  It is there exactly once, or the function has ``#2`` behind it
for the second place.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from tests.mutations.mutation import Mutation, MutationError

FOLDER: Final = Path(__file__).parent / "bugs"
PARTS: Final = " :: "
BECOMES: Final = " -> "
# Code of a list of statements, or an expression in a field of its parent: the list and its first
# index, or the parent, the field, and the index if that is a list.
Place: TypeAlias = tuple[list[ast.stmt], int] | tuple[ast.AST, str, int | None]


@dataclass(frozen=True, slots=True)
class Edit(Mutation):
    """A bug that is found by the tree; ``old`` and ``new`` are code.

    Attributes:
        function: see above.
    """

    function: str

    def planted(self, source: str) -> str:
        """The file with the bug: its tree as text, so without comments."""
        tree = ast.parse(source, self.file)
        place = self._place(tree)
        new = _code(self.new)
        if len(place) == 2:
            statements, at = place
            statements[at : at + len(_code(self.old))] = new
        else:
            parent, field, index = place
            old = getattr(parent, field) if index is None else getattr(parent, field)[index]
            (statement,) = new
            assert isinstance(statement, ast.Expr)
            for node in ast.walk(statement.value):
                if node is statement.value and hasattr(node, "ctx"):
                    node.ctx = old.ctx if hasattr(old, "ctx") else ast.Load()
            if index is None:
                setattr(parent, field, statement.value)
            else:
                getattr(parent, field)[index] = statement.value
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"

    def check_change(self, source: str) -> None:
        try:
            _code(self.new)
            self._place(_parsed(source))
        except SyntaxError as error:
            raise MutationError(f"{self.name}: no code: {error}; correct it") from error

    def _place(self, tree: ast.Module) -> Place:
        function, _, number = self.function.partition("#")
        places = list(self._places(_scopes(tree, function)))
        if number:
            if int(number) <= len(places):
                return places[int(number) - 1]
        elif len(places) == 1:
            return places[0]
        raise MutationError(
            f"{self.name}: in {self.file}, {function or 'the module'} has this code {len(places)}"
            f" times, not once; correct {self.old!r}"
        )

    def _places(self, scopes: Iterator[ast.AST]) -> Iterator[Place]:
        old, new = _code(self.old), _code(self.new)
        if _is_expression(old) and _is_expression(new):
            (statement,) = old
            assert isinstance(statement, ast.Expr)
            yield from _expressions(scopes, statement.value)
        else:
            yield from _statements(scopes, [_shape(one) for one in old])


@lru_cache(maxsize=8)
def _parsed(source: str) -> ast.Module:
    """A tree that nobody may change."""
    return ast.parse(source)


def _code(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def _is_expression(statements: list[ast.stmt]) -> bool:
    return len(statements) == 1 and isinstance(statements[0], ast.Expr)


def _shape(node: ast.AST) -> str:
    """The node as text that says nothing of its place, nor whether a value is read or written."""
    return re.sub(r"ctx=(?:Store|Del)\(\)", "ctx=Load()", ast.dump(node))


def _is_shaped(node: object, shape: str) -> bool:
    return isinstance(node, ast.stmt) and _shape(node) == shape


def _scopes(tree: ast.AST, function: str) -> Iterator[ast.AST]:
    """All functions and classes of this name, of which there may be several: a property has two."""
    name, _, rest = function.partition(".")
    if not name:
        yield tree
        return
    for node in _defined(tree):
        if node.name == name:
            yield from _scopes(node, rest)


def _defined(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes in a scope, but not those in one of them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        else:
            yield from _defined(node)


def _expressions(scopes: Iterator[ast.AST], wanted: ast.expr) -> Iterator[Place]:
    shape = _shape(wanted)
    for scope in scopes:
        for parent in ast.walk(scope):
            for field, value in ast.iter_fields(parent):
                found = value if isinstance(value, list) else [value]
                for index, one in enumerate(found):
                    # By its class first: a shape takes time.
                    if type(one) is type(wanted) and _shape(one) == shape:
                        yield parent, field, index if isinstance(value, list) else None


def _statements(scopes: Iterator[ast.AST], shapes: list[str]) -> Iterator[Place]:
    for scope in scopes:
        for parent in ast.walk(scope):
            for _, value in ast.iter_fields(parent):
                if not isinstance(value, list):
                    continue
                for at in range(len(value) - len(shapes) + 1):
                    ours = value[at : at + len(shapes)]
                    if all(map(_is_shaped, ours, shapes)):
                        yield value, at


# --- Files of bugs --------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def edits() -> tuple[Edit, ...]:
    """The bugs of all files in ``bugs``."""
    return tuple(
        edit for path in sorted(FOLDER.glob("*.txt")) for edit in read(path.read_text(), path.name)
    )


def read(text: str, name: str) -> Iterator[Edit]:
    """The bugs of one file.

    Raises:
        MutationError: a line is none of these; the text names it.
    """
    file = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("# "):
            file = line.removeprefix("# ")
        elif line:
            parts = line.split(PARTS)
            if len(parts) != 4 or BECOMES not in parts[1] or ": " not in parts[3] or not file:
                raise MutationError(
                    f"{name}:{number}: a line is: function :: old -> new :: tests :: name: reason,"
                    " and the file stands above it"
                )
            function, change, tests, about = parts
            old, _, new = change.partition(BECOMES)
            title, _, why = about.partition(": ")
            yield Edit(
                name=title,
                file=file,
                old=old,
                new=new,
                tests=tuple(re.split(r", (?=tests/)", tests)),
                why=why,
                function=function,
            )
