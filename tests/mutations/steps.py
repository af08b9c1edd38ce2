"""Plant away each step of the fast paths once, and list those whose loss no test notices.

    python -m tests.mutations.steps [FILE ...]

A *step* is a statement that changes something, or a condition.  A statement is left out; of
conditions joined by ``and`` each is taken for true once, by ``or`` for false.  One that stands
alone is taken for false where a ``return`` or the like depends on it, else for true; that of a
choice between two values, for each once.  What differs then is not always wrong: a step may be
there for speed or memory alone.  Those stand in ``UNNOTICED`` with the reason, and are not planted;
whatever is listed wants a test.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.mutations.judging import judge_all
from tests.mutations.mutation import Mutation

ROOT: Final = Path(__file__).resolve().parents[2]
_XADDS: Final = ("tests/resp/test_xadd_runs.py",)
_IDS: Final = ("tests/resp/test_id_runs.py",)
_COLD: Final = (
    *("tests/core/test_residency.py", "tests/core/test_cold_nodes.py"),
    *("tests/core/test_cold_lane.py", "tests/region/test_cold_entries.py"),
    "tests/region/test_idle_entries.py",
)
_IMAGES: Final = ("tests/core/test_packing.py", "tests/core/test_cold_nodes.py")
# The modules of the fast paths, and the tests that are to notice what happens to them.
FAST_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "crdtstream/resp/wire/xadd_runs.py": _XADDS,
    "crdtstream/resp/wire/id_runs.py": _IDS,
    "crdtstream/commands/streams/xadd_run.py": _XADDS,
    "crdtstream/commands/streams/mixed_run.py": _XADDS,
    "crdtstream/commands/streams/xdel_run.py": _IDS,
    "crdtstream/commands/groups/xack_run.py": _IDS,
    "crdtstream/database/runs.py": (*_XADDS, *_IDS),
    "crdtstream/core/lanes/compaction.py": ("tests/core/test_compaction.py", *_COLD),
    "crdtstream/core/lanes/packing.py": _IMAGES,
    "crdtstream/core/lanes/header.py": _IMAGES,
    "crdtstream/core/lanes/body.py": _IMAGES,
    "crdtstream/core/lanes/residency.py": _COLD,
    "crdtstream/region/fetching.py": (*_COLD, "tests/region/test_unreadable.py"),
}
_LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# Steps without which a test cannot tell a difference, and why.
UNNOTICED: Final = {
    "column.byteswap()": "it is for machines that begin with the highest byte",
    "None -> False": "nothing, or an empty column: both say that there are no names",
    "host.on_slow is not None -> True": "without it no command counts as slow",
    "ns >= host.slow_ns -> True": "who is told looks at the duration, too",
    "replica.has_floors -> True": "speed alone: then each floor is 0-0",
    "form is not None -> True": "a run was mixed, so there is its form; mypy does not know",
    "self.loader is None -> False": "`reads_in_place` says so, too; mypy does not know",
    "loader is None -> False": "`reads_in_place` says so, too; mypy does not know",
    "now != host.replica.keys.now -> True": "speed alone: it says the same again",
    "len(handler.samples) >= SAMPLES_MAX.value -> True": "speed alone: they are added up sooner",
    "is_any_seen -> True": "speed alone: then no key is seen",
    "run.ids.ascend() -> False": "speed alone: they are sorted again",
    "stop - start == len(self) -> False": "memory alone: all of the run is copied",
    "data.find(data[:_SAME_BYTES], _SAME_BYTES) < 0 -> False": "speed alone",
    "state is State.ABSENT -> True": "speed alone: of others no image is wanted",
    "state is not before -> True": "speed alone: what is counted then is 0",
    "self.streams = []": "nobody reads them before they are found",
    "words % 2 -> False": "a name without a value is behind the last value, where nothing may be",
    "len(requests) < 2 -> False": "speed alone: one request is no run",
    "_NAMES.isdisjoint(map(_NAME_OF, requests)) -> False": "speed alone",
    "not arrivals -> False": "a node has arrivals; without any there is nothing to compare",
}


def steps_of(file: str, source: str, tests: tuple[str, ...]) -> Iterator[Mutation]:
    """Every step of a module, planted away."""
    for node in ast.walk(ast.parse(source, file)):
        for field in ("body", "orelse", "finalbody"):
            for statement in _statements(getattr(node, field, None)):
                yield _without(file, source, statement, None, tests)
        for condition, instead in _conditions(node):
            yield _without(file, source, condition, instead, tests)


def _statements(body: object) -> Iterator[ast.stmt]:
    for statement in body if isinstance(body, list) else ():
        match statement:
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
                yield statement
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield statement
            case _:
                pass


def _conditions(node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """The conditions of a node, and what each is taken for."""
    match node:
        case ast.BoolOp(op=op, values=values):
            for value in values:
                yield value, isinstance(op, ast.And)
        case ast.If(test=test, body=body) if not isinstance(test, ast.BoolOp):
            yield test, not isinstance(body[-1], _LEAVING)
        case ast.IfExp(test=test) if not isinstance(test, ast.BoolOp):
            yield test, True
            yield test, False
        case ast.comprehension(ifs=ifs):
            for one in ifs:
                if not isinstance(one, ast.BoolOp):
                    yield one, True
        case _:
            pass


def _without(
    file: str, source: str, node: ast.stmt | ast.expr, instead: bool | None, tests: tuple[str, ...]
) -> Mutation:
    """The step planted away: a condition taken for ``instead``, a statement left out."""
    data = source.encode()
    lines = data.splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    text = " ".join(data[start:end].decode().split())
    new = "pass" if instead is None else str(instead)
    planted = (data[:start] + new.encode() + data[end:]).decode()
    place = f"{file.removeprefix('crdtstream/')}:{node.lineno}:{node.col_offset}"
    name = f"{place} {text}" if instead is None else f"{place} {text} -> {instead}"
    return Mutation(name, file, source, planted, tests, "no test notices that it is missing")


def steps(files: Sequence[str]) -> list[Mutation]:
    """Every step of these modules."""
    return [
        step
        for file in files
        for step in steps_of(file, (ROOT / file).read_text(), FAST_PATHS[file])
        if step.name.partition(" ")[2] not in UNNOTICED
    ]


def main() -> int:
    """Exit status: 0 each step is noticed, 1 one is not, 2 a file is no fast path."""
    files = sys.argv[1:] or list(FAST_PATHS)
    unknown = sorted({*files} - FAST_PATHS.keys())
    if unknown:
        print(f"{', '.join(unknown)}: no fast path; there are {', '.join(FAST_PATHS)}")
        return 2
    return 1 if judge_all(steps(files), ROOT) else 0


if __name__ == "__main__":
    sys.exit(main())
