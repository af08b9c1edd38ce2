"""Waits of tests: none has a number of seconds of its own; ``tests/patience.py`` says them.

A number that a test is about, as a bound of the product, is written ``exactly(0.5)``.
"""

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.house

TESTS = ROOT / "tests"
# Functions of seconds, and where they stand among the arguments.
POSITIONS = {"settimeout": 0, "wait_for": 1, "join": 0, "communicate": 1, "result": 0}
FIRST = ("asyncio.timeout", "patience.seconds", "seconds")
CLOCKS = frozenset(("monotonic", "perf_counter", "time"))


def number(node: ast.expr | None, constants: Mapping[str, float]) -> float:
    """A number, also by its name or of two others, as the larger of them; else 0."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return constants.get(name, 0)
        case ast.BinOp(left=left, right=right):
            both = number(left, constants), number(right, constants)
            return max(both) if min(both) > 0 else 0
    return 0


def constants_of(tree: ast.Module) -> dict[str, float]:
    """Numbers that have a name in the module."""
    found: dict[str, float] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = number(value, found)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                found[name] = number(value, found)
    return found


def waited(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that are seconds of a wait."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    for keyword in call.keywords:
        is_timeout = keyword.arg is not None and keyword.arg.endswith("timeout")
        if is_timeout or (keyword.arg == "base" and last in ("wait_until", "until")):
            yield keyword.value
    is_first = name in FIRST or name.endswith(("process.wait", ").wait"))
    place = 0 if is_first else POSITIONS.get(last)
    if place is not None and len(call.args) > place:
        yield call.args[place]


def is_time(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in CLOCKS


def own_waits(source: str) -> list[int]:
    """Lines that wait for a number of seconds of their own, one or more."""
    tree = ast.parse(source)
    constants = constants_of(tree)
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call():
                values = list(waited(node))
            case ast.BinOp(left=left, op=ast.Add(), right=right) if is_time(left):
                values = [right]
            case _:
                continue
        found |= {value.lineno for value in values if number(value, constants) >= 1}
    return sorted(found)


def test_no_wait_has_a_time_of_its_own() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != TESTS / "patience.py"
        for line in own_waits(path.read_text())
    ] == [], "take seconds() of tests/patience.py; exactly() if the test is about the number"


@pytest.mark.parametrize(
    "wait",
    [
        "client.settimeout(10)",
        "process.communicate(timeout=1.5)",
        "redis.Redis(socket_timeout=2 * 30)",
        "asyncio.timeout(20)",
        "asyncio.wait_for(work, 20)",
        "thread.join(5)",
        "future.result(20)",
        "node.launch().wait(20)",
        "wait_until(lambda: True, 'what', base=90)",
        "seconds(240)",
        "time.monotonic() + 10",
        "OWN = 10.0\nprocess.wait(timeout=OWN)",
        "OWN: Final = 10\ntime.monotonic() + OWN",
    ],
)
def test_a_number_is_found(wait: str) -> None:
    assert own_waits(wait) == [wait.count("\n") + 1]


@pytest.mark.parametrize(
    "wait",
    [
        "client.settimeout(0.05)",
        "client.settimeout(None)",
        "process.wait(timeout=seconds())",
        "process.wait(timeout=seconds(LONG))",
        "asyncio.timeout(exactly(20))",
        "pytest.mark.timeout(600)",
        "wait_until(lambda: True, 'what', base=12 * LONG)",
        "', '.join(names)",
        "clock.wait(500)",
        "OWN = seconds()\nprocess.wait(timeout=OWN)",
    ],
)
def test_other_waits_pass(wait: str) -> None:
    assert own_waits(wait) == []
