"""Runs targets: for long with atheris, or one input again.

Usage: python -m tests.fuzz list
       python -m tests.fuzz run SURFACE [--seconds N] [--corpus FOLDER]
       python -m tests.fuzz again SURFACE INPUT...

``run`` ends when the time is up, or at the first bug, whose input stands in FOLDER as
``crash-…`` or ``timeout-…``; ``again`` shows it.  Once it is mended, keep the input in
``tests/fuzz/found/SURFACE/`` under a name that says what it found.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.surface import INPUT_BYTES_MAX, SURFACES, surface_of

SECONDS: Final = 600
# An input that takes longer, or memory beyond this, is a bug as well.
SECONDS_OF_AN_INPUT: Final = 20
MEMORY_MIB_MAX: Final = 2048
# One in this number of inputs is damaged by libFuzzer: it tries what its coverage suggests.
BY_LIBFUZZER: Final = 4


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz the borders of a node.")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="Print the surfaces.")
    running = actions.add_parser("run", help="Run a target with atheris.")
    running.add_argument("surface", choices=SURFACES)
    running.add_argument("--seconds", type=int, default=SECONDS)
    running.add_argument("--corpus", type=Path, help="Folder of inputs; kept between runs.")
    again = actions.add_parser("again", help="Run a target with these inputs.")
    again.add_argument("surface", choices=SURFACES)
    again.add_argument("inputs", type=Path, nargs="+")
    words = parser.parse_args()
    match words.action:
        case "list":
            for name in SURFACES:
                print(f"{name:14}{surface_of(name).about}")
        case "again":
            for path in words.inputs:
                print(f"{path}: {surface_of(words.surface).target(path.read_bytes())!r}")
        case _:
            with tempfile.TemporaryDirectory(prefix="crdtstream-fuzz-") as folder:
                run(words.surface, words.seconds, words.corpus or Path(folder))


def run(name: str, seconds: int, corpus: Path) -> None:
    """Fuzz until the time is up; ends the process."""
    import atheris

    # First, as it puts its own finder of sources before those that are there.
    import crdtstream  # noqa: F401

    with atheris.instrument_imports(include=["crdtstream"]):
        surface = surface_of(name)
    seeds = corpus / "seeds"
    found = corpus / "corpus"
    for folder in (seeds, found):
        folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(surface.seeds()):
        (seeds / f"seed-{number}").write_bytes(data)
    for kept, data in surface.found():
        (seeds / kept).write_bytes(data)

    def damaged(data: bytes, bytes_max: int, seed: int) -> bytes:
        draw = Random(seed)
        if draw.randrange(BY_LIBFUZZER) == 0:
            mutated: bytes = atheris.Mutate(data, bytes_max)
            return mutated
        for _ in range(draw.choice((1, 1, 2, 4))):
            data = surface.damage(data, draw)
        return data[:bytes_max]

    def target(data: bytes) -> None:
        surface.target(data)

    atheris.Setup(
        [
            sys.argv[0],
            f"-max_total_time={seconds}",
            f"-max_len={INPUT_BYTES_MAX}",
            f"-timeout={SECONDS_OF_AN_INPUT}",
            f"-rss_limit_mb={MEMORY_MIB_MAX}",
            f"-artifact_prefix={corpus}/",
            "-print_final_stats=1",
            str(found),
            str(seeds),
        ],
        target,
        custom_mutator=damaged,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
