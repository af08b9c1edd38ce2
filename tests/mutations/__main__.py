"""``python -m tests.mutations``: plant bugs in a copy of the tree, and see that tests notice."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.judging import judge_all
from tests.mutations.mutation import Mutation, MutationError

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Exit status: 0 all bugs were noticed, 1 one was not, or the tests fail without any bug, 2 a
    mutation does not fit the tree."""
    options = _options()
    chosen = [one for one in MUTATIONS if not options.names or one.name in options.names]
    unknown = set(options.names) - {one.name for one in chosen}
    try:
        if unknown:
            raise MutationError(f"no mutation {', '.join(sorted(unknown))}; --list names all")
        if options.list:
            _print_list(chosen)
            return 0
        return 1 if judge_all(chosen, ROOT) else 0
    except MutationError as error:
        print(error, file=sys.stderr)
        return 2


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations",
        description="Plant bugs, one at a time, in a copy of the tree; the tests must notice each.",
        epilog="example: python -m tests.mutations digest-without-lane",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="these only; all if none is given")
    parser.add_argument("--list", action="store_true", help="name them, and do nothing")
    return parser.parse_args()


def _print_list(mutations: Sequence[Mutation]) -> None:
    for one in mutations:
        print(f"{one.name}\n    {one.file}: {one.why}")


if __name__ == "__main__":
    sys.exit(main())
