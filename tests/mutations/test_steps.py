"""Steps of the fast paths, and how they are planted away."""

import ast

import pytest

from tests.mutations.steps import FAST_PATHS, ROOT, UNNOTICED, steps, steps_of

pytestmark = pytest.mark.house

SOURCE = """\
def f(a, b, c):
    if a and b:
        a.x = 1
        b[0] += 1
    elif c or d:
        del b[0]
    d = g(a)
    g(d)
    if e:
        return 1 if h else 2
    if i:
        d = [k for k in b if k > 3]
    return d
"""


def test_each_step_is_planted_away_once() -> None:
    planted = {
        step.name.partition(" ")[2]: step.planted(SOURCE) for step in steps_of("f.py", SOURCE, ())
    }
    assert planted == {
        "a -> True": SOURCE.replace("if a and b", "if True and b"),
        "b -> True": SOURCE.replace("if a and b", "if a and True"),
        "c -> False": SOURCE.replace("elif c or d", "elif False or d"),
        "d -> False": SOURCE.replace("elif c or d", "elif c or False"),
        "e -> False": SOURCE.replace("if e", "if False"),
        "h -> True": SOURCE.replace("if h else", "if True else"),
        "h -> False": SOURCE.replace("if h else", "if False else"),
        "i -> True": SOURCE.replace("if i", "if True"),
        "k > 3 -> True": SOURCE.replace("if k > 3", "if True"),
        "a.x = 1": SOURCE.replace("a.x = 1", "pass"),
        "b[0] += 1": SOURCE.replace("b[0] += 1", "pass"),
        "del b[0]": SOURCE.replace("del b[0]", "pass"),
        "g(d)": SOURCE.replace("    g(d)", "    pass"),
    }


def test_the_fast_paths_and_their_tests_are_there() -> None:
    for file, tests in FAST_PATHS.items():
        for path in (file, *tests):
            assert (ROOT / path).is_file(), path
        planted = steps([file])
        assert planted
        for step in planted:
            ast.parse(step.planted((ROOT / file).read_text()))
            assert step.name.partition(" ")[2] not in UNNOTICED


def test_each_step_that_is_left_out_is_there() -> None:
    found = {
        step.name.partition(" ")[2]
        for file in FAST_PATHS
        for step in steps_of(file, (ROOT / file).read_text(), ())
    }
    assert UNNOTICED.keys() <= found
