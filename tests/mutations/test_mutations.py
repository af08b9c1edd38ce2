"""The planted bugs fit the tree, and the program that plants them tells right from wrong."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mutations.catalogue import MUTATIONS
from tests.mutations.edits import Edit, read
from tests.mutations.judging import judge_all
from tests.mutations.mutation import Mutation, MutationError
from tests.mutations.planting import Outcome, Tree, copied_tree

pytestmark = pytest.mark.house

MUTATIONS_MIN = 55


def test_every_planted_bug_fits_the_tree() -> None:
    """The code that it changes and the tests that it names are still there."""
    wrong = []
    for mutation in MUTATIONS:
        try:
            mutation.check(ROOT)
        except MutationError as error:
            wrong.append(str(error))
    assert wrong == []


def test_there_are_many_and_each_has_a_name_of_its_own() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names) >= MUTATIONS_MIN


@pytest.mark.soak
def test_every_planted_bug_is_noticed() -> None:
    left = judge_all(MUTATIONS, ROOT)
    assert left == [], f"again: python -m tests.mutations {' '.join(left)}"


# --- The program itself, on a tree of a few lines ------------------------------------------------

CODE = "def low(a, b):\n    return a if a < b else b\n"
TESTS = """
from crdtstream.code import low

def test_low():
    assert low(1, 2) == 1

def test_little():
    assert low(2, 2) == 2
"""


def mutation(
    old: str, new: str, test: str = "test_low", file: str = "tests/test_it.py"
) -> Mutation:
    return Mutation("name", "crdtstream/code.py", old, new, (f"{file}::{test}",), "a reason")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "crdtstream/__init__.py": "",
        "crdtstream/code.py": CODE,
        "tests/__init__.py": "",
        "tests/test_it.py": TESTS,
        "pyproject.toml": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_bug_is_killed_by_a_test_that_fails_and_survives_one_that_does_not(root: Path) -> None:
    tree = Tree(root)
    killed = tree.judge(mutation("a < b", "a > b"))
    assert (killed.outcome, killed.by) == (Outcome.KILLED, "tests/test_it.py::test_low")
    assert tree.judge(mutation("a < b", "a > b", "test_little")).outcome is Outcome.SURVIVED
    assert (root / "crdtstream/code.py").read_text() == CODE, "it was taken out"


def test_a_bug_that_no_test_can_import_is_not_killed(root: Path) -> None:
    assert Tree(root).judge(mutation("def low", "def high")).outcome is Outcome.BROKEN


def test_code_of_another_tree_is_noticed(tmp_path: Path) -> None:
    """Without a package of its own in the tree, an installed one would be tested."""
    verdict = Tree(tmp_path).run_without_bug([mutation("a", "b")])
    assert verdict.outcome is Outcome.BROKEN
    assert "not from the copy" in verdict.output


@pytest.mark.parametrize(
    ("bug", "reason"),
    [
        (mutation("a <= b", "a > b"), "is there 0 times, not once; correct `old`"),
        (mutation("a", "c"), "times, not once; correct `old`"),
        (mutation("a < b", "a <"), "is no Python"),
        (mutation("a < b", "a > b", "test_gone"), "there is no test tests/test_it.py::test_gone"),
        (mutation("a < b", "a > b", file="tests/gone.py"), "there is no test tests/gone.py"),
    ],
)
def test_a_mutation_that_does_not_fit_is_refused(root: Path, bug: Mutation, reason: str) -> None:
    with pytest.raises(MutationError, match=reason):
        bug.check(root)


def test_the_copy_is_as_the_tree_and_goes_away() -> None:
    files = ("crdtstream/core/replica.py", "tests/conftest.py", "pyproject.toml")
    with copied_tree(ROOT) as tree:
        folder = tree.folder
        for file in files:
            assert (folder / file).read_bytes() == (ROOT / file).read_bytes()
    assert not folder.exists()


# --- Bugs of a line -------------------------------------------------------------------------------

SOURCE = """
class Lane:
    @property
    def low(self):
        '''Text of low < high.'''
        return self.a if self.a < self.b else self.b

    @low.setter
    def low(self, value):
        self.a = value
        self.note(value)  # a comment

def low(a, b):
    if a < b:
        return a
    if a < b + 1:
        return b
    a = b
"""
HEAD = "# crdtstream/code.py\n"


def edit(line: str) -> Edit:
    (found,) = read(f"{HEAD}{line} :: tests/test_it.py::test_low :: a-name: a reason: two", "x.txt")
    return found


def test_a_line_says_file_change_tests_name_and_reason() -> None:
    line = "Lane.low :: a < b -> b < a :: tests/x.py::test[a, b], tests/y.py::test :: n: why: so\n"
    assert list(read(HEAD + line, "x.txt")) == [
        Edit(
            name="n",
            file="crdtstream/code.py",
            old="a < b",
            new="b < a",
            tests=("tests/x.py::test[a, b]", "tests/y.py::test"),
            why="why: so",
            function="Lane.low",
        )
    ]


@pytest.mark.parametrize(
    "text",
    [
        "low :: a -> b :: tests/x.py :: n: why",
        f"{HEAD}low :: a -> b :: tests/x.py",
        f"{HEAD}low :: a = b :: tests/x.py :: n: why",
        f"{HEAD}low :: a -> b :: tests/x.py :: no reason",
    ],
)
def test_a_line_that_is_none_is_named(text: str) -> None:
    with pytest.raises(MutationError, match=r"x.txt:\d: a line is: function :: old -> new"):
        list(read(text, "x.txt"))


@pytest.mark.parametrize(
    ("line", "planted"),
    [
        ("Lane.low :: self.a < self.b -> True", "return self.a if True else self.b"),
        ("Lane.low :: self.note(value) -> pass", "self.a = value\n        pass\n"),
        ("Lane.low :: self.a = value; self.note(value) -> pass", "(self, value):\n        pass\n"),
        (
            "Lane.low :: self.a = value -> self.b = value; self.c = 1",
            "self.b = value\n        self.c = 1",
        ),
        ("Lane.low :: self.a = value -> raise ValueError", "raise ValueError\n        self.note"),
        ("low :: a < b -> a <= b", "if a <= b:\n        return a"),
        ("low :: return b -> return a", "if a < b + 1:\n        return a"),
        ("low#1 :: return b -> return a", "return a\n    a = b"),
    ],
)
def test_a_bug_is_planted_where_its_code_is(line: str, planted: str) -> None:
    assert planted in edit(line).planted(SOURCE)


def test_moved_and_formatted_code_is_found_all_the_same() -> None:
    moved = "# a comment\n\ndef low(\n    a, b,\n):\n    if (a  <\n        b):\n        return b\n"
    assert "if a > b:" in edit("low :: a < b -> a > b").planted(moved)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("low :: a > b -> True", "low has this code 0 times"),
        ("high :: a < b -> True", "high has this code 0 times"),
        ("low :: b -> c", "low has this code [3-9] times"),
        ("low#9 :: b -> c", "low has this code [3-9] times"),
        (" :: self.b -> c", "the module has this code 2 times"),
        ("low :: a < b -> a <", "no code"),
    ],
)
def test_a_line_that_does_not_fit_is_refused(root: Path, line: str, reason: str) -> None:
    (root / "crdtstream/code.py").write_text(SOURCE)
    with pytest.raises(MutationError, match=reason):
        edit(line).check(root)
