"""The planted bugs fit the tree, and the program that plants them tells right from wrong."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mutations.catalogue import MUTATIONS
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
