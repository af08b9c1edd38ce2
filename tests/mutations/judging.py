"""Planting bugs one after the other, and telling what the tests made of each."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.mutations.mutation import Mutation
from tests.mutations.planting import Outcome, Verdict, copied_tree

# Of what pytest printed, where that has to be shown.
OUTPUT_LINES: Final = 30


def judge_all(mutations: Sequence[Mutation], root: Path) -> list[str]:
    """Plant the bugs one after the other, and tell of each.

    Returns:
        The names of those that no test noticed, or whose tests could not be run; if the tests
        fail without any bug, all names.

    Raises:
        MutationError: one of them does not fit the tree.
    """
    for mutation in mutations:
        mutation.check(root)
    started = time.monotonic()
    with copied_tree(root) as tree:
        without_bug = tree.run_without_bug(mutations)
        if without_bug.outcome is not Outcome.SURVIVED:
            print("the tests fail without any bug; make them pass first")
            _print_end(without_bug)
            return [one.name for one in mutations]
        print(f"all tests pass without a bug: {without_bug.seconds:.1f} s", flush=True)
        verdicts = {}
        for mutation in mutations:
            verdicts[mutation.name] = verdict = tree.judge(mutation)
            print(_line(mutation, verdict), flush=True)
            if verdict.outcome is Outcome.BROKEN:
                _print_end(verdict)
    left = [name for name, one in verdicts.items() if one.outcome is not Outcome.KILLED]
    killed_count = len(mutations) - len(left)
    print(f"{killed_count} of {len(mutations)} killed in {time.monotonic() - started:.0f} s")
    return left


def _line(mutation: Mutation, verdict: Verdict) -> str:
    told = verdict.by if verdict.outcome is Outcome.KILLED else mutation.why
    return f"{verdict.outcome.value:8}  {mutation.name:45} {verdict.seconds:5.1f} s  {told}"


def _print_end(verdict: Verdict) -> None:
    for line in verdict.output.splitlines()[-OUTPUT_LINES:]:
        print(f"    {line}")
