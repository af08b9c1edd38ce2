"""A planted bug: a small patch, and tests.  One of these must fail with it."""

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


class MutationError(Exception):
    """A mutation that cannot be planted or judged; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A plausible slip.

    Attributes:
        name: short, in words with dashes; unique.
        file: the file to change, from the root of the tree.
        old: what the slip replaces; stands exactly once in the file.
        new: what stands there with the bug.
        tests: node ids as pytest takes them.  They pass without the bug; with it at least one of
            them fails.
        why: what goes wrong for users, or the rule that is broken.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str

    def planted(self, source: str) -> str:
        """The file's text with the bug.

        Raises:
            MutationError: the text to replace is not there exactly once.
        """
        found = source.count(self.old)
        if found != 1:
            raise MutationError(
                f"{self.name}: in {self.file} the text to replace is there {found} times, not once;"
                f" correct `old`, which is {self.old!r}"
            )
        return source.replace(self.old, self.new)

    def check(self, root: Path) -> None:
        """See that the mutation fits the tree.

        Raises:
            MutationError: the patch does not apply, gives no Python, or a test is not there.
        """
        path = root / self.file
        if not path.is_file():
            raise MutationError(f"{self.name}: {self.file} is not there; correct `file`")
        self.check_change(path.read_text())
        if not self.tests:
            raise MutationError(f"{self.name}: no tests; name those that notice the bug")
        for node_id in self.tests:
            if not _is_there(root, node_id):
                raise MutationError(
                    f"{self.name}: there is no test {node_id}; name one that notices the bug"
                )

    def check_change(self, source: str) -> None:
        """See that the code to change is in the file, and that Python comes of it.

        Raises:
            MutationError: it is not, or no Python comes of it.
        """
        planted = self.planted(source)
        try:
            if self.file.endswith(".py"):
                ast.parse(planted, self.file)
        except SyntaxError as error:
            raise MutationError(
                f"{self.name}: with the bug {self.file} is no Python: {error}; correct `new`"
            ) from error


def _is_there(root: Path, node_id: str) -> bool:
    """True if file and function exist; pytest checks the parameters."""
    file, _, inside = node_id.partition("::")
    path = root / file
    if not path.is_file():
        return False
    name = inside.partition("[")[0].partition("::")[0]
    return not name or name in _names(path.read_text())


@lru_cache(maxsize=256)
def _names(source: str) -> frozenset[str]:
    """The functions and classes of a module's top level, and the names it assigns."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
            case _:
                pass
    return frozenset(names)
