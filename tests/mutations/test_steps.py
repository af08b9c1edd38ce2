"""Steps of the fast paths, and how they are planted away."""

import ast

from tests.mutations.steps import FAST_PATHS, ROOT, UNNOTICED, steps, steps_of

SOURCE = """\
def f(a, b, c):
    if a and b:
        a.x = 1
        b[0] += 1
    elif b or c:
        del b[0]
    d = g(a)
    g(d)
    return d
"""


def test_each_step_is_planted_away_once() -> None:
    planted = {
        step.name.partition(" ")[2]: step.planted(SOURCE) for step in steps_of("f.py", SOURCE, ())
    }
    assert planted == {
        "a": SOURCE.replace("if a and b", "if True and b", 1),
        "b": SOURCE.replace("elif b or c", "elif False or c"),
        "c": SOURCE.replace("elif b or c", "elif b or False"),
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
