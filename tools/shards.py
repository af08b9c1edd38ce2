"""Runs the tests that take longer than the gate, in shards of some minutes each: `make long`.

Usage:
    python3 tools/shards.py                    those that the change since origin/main concerns
    python3 tools/shards.py --changed BRANCH   the same since another branch
    python3 tools/shards.py --all              all shards
    python3 tools/shards.py NAME ...           these shards
    python3 tools/shards.py --list             their names, and the files on which each depends
    python3 tools/shards.py --durations        write how long each long test took to DURATIONS

Each shard writes ``ci-report/long-NAME.json``: its result and time, the tests that failed or are
flaky, and a hash of the tracked files on which it depends.  A shard that has passed with the same
hash would ask the same, and runs again only if it is named.

Exit status: 0 all passed; else that of the first shard that failed (see ``SHARDS``).
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import gate
from gate import ROOT, Outcome, Step, make_step

# How long each long test took when it last ran: seconds, node ID.
DURATIONS: Final = "tests/durations.txt"

# Every shard depends on these.
ALWAYS: Final = ("pyproject.toml", "requirements.lock", "Makefile", "tests/conftest.py", "proto")
PRODUCT: Final = ("crdtstream", "scenarios", "deploy", "docs")
SPARK: Final = ("crdtstream", "tests/spark", "tests/query", "pyspark_crdtstream.py")
CORE: Final = tuple(
    f"{top}/{name}"
    for top in ("crdtstream", "tests")
    for name in ("core", "commands", "database", "engine", "region", "resp", "scenario", "sim")
)
COMPILED: Final = (*CORE, "tools/fast.py", "tools/wheel", "crdtstream/compiled.py")
MARKS: Final = "not long and not soak and not house"
# How make hands its variables on: `make long ARGS=--all` is not for the makes that shards run.
OF_MAKE: Final = ("ARGS", "MAKEFLAGS")


@dataclass(frozen=True, slots=True)
class Shard:
    """A step, and the files that it depends on.

    Attributes:
        paths: files and folders from the root; a change of one of them concerns the shard.
    """

    step: Step
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.step.name


def _long(name: str, words: str, *paths: str) -> Shard:
    return Shard(make_step(name, 13, "test-long", words=words), paths)


def _compiled(name: str, folders: str) -> Shard:
    tests = f"COMPILED_TESTS={folders}"
    return Shard(make_step(name, 14, "test-compiled", tests, pure="0"), (*COMPILED, "tests/fuzz"))


def _commands(name: str, status: int, *command: str, paths: tuple[str, ...]) -> Shard:
    return Shard(Step(name, status, (command,)), paths)


SHARDS: Final = (
    _long("live-1", "tests/live --part 1/3", *PRODUCT, "tests/live"),
    _long("live-2", "tests/live --part 2/3", *PRODUCT, "tests/live"),
    _long("live-3", "tests/live --part 3/3", *PRODUCT, "tests/live"),
    _long("drills", "tests/drill tests/planted tests/cli", *PRODUCT, "tests"),
    _long("spark-1", "tests/spark tests/query --part 1/2", *SPARK),
    _long("spark-2", "tests/spark tests/query --part 2/2", *SPARK),
    _long(
        "others",
        "tests "
        + " ".join(
            f"--ignore=tests/{name}"
            for name in ("live", "drill", "planted", "cli", "spark", "query", "fuzz")
        ),
        *PRODUCT,
        "tests",
    ),
    # A minute for each border, all of which are in one file.
    _long("fuzz", "tests/fuzz --dist load", *PRODUCT, "tests/fuzz"),
    # The gate draws an eighth of the examples.
    Shard(
        make_step("examples", 18, "test", words=f"-m 'hypothesis and {MARKS}'"), (*CORE, "tests")
    ),
    _compiled(
        "compiled-1",
        "tests/test_compiled.py tests/core tests/commands tests/database tests/fuzz tests/resp",
    ),
    _compiled("compiled-2", "tests/region tests/scenario tests/sim"),
    _commands("wheel", 15, "make", "test-wheel", paths=COMPILED),
    _commands("python-3.12", 16, "make", "test-pythons", "ONLY=3.12", paths=COMPILED),
    _commands("python-3.13", 16, "make", "test-pythons", "ONLY=3.13", paths=COMPILED),
    _commands("spark-oldest", 17, "make", "test-spark-oldest", paths=SPARK),
)


def main() -> int:
    options = _options()
    if options.list:
        for shard in SHARDS:
            print(f"{shard.name:<14} {' '.join(shard.paths)}")
        return 0
    if options.durations:
        write_durations(ROOT)
        return 0
    chosen = _chosen(options)
    if not chosen:
        print("the change concerns no shard; --all runs them all")
        return 0
    if not options.names:
        passed = [shard.name for shard in chosen if has_passed(ROOT, shard)]
        print(f"passed already, with the same files: {', '.join(passed) or 'none'}")
        chosen = [shard for shard in chosen if shard.name not in passed]
    if not chosen:
        return 0
    print(f"shards: {', '.join(shard.name for shard in chosen)}", flush=True)
    for name in OF_MAKE:
        os.environ.pop(name, None)
    (ROOT / gate.REPORTS).mkdir(exist_ok=True)
    outcomes = [gate.run_step(ROOT, gate.PROGRAMS)]
    if outcomes[0].reason is None:
        for shard in chosen:
            outcome = gate.run_step(ROOT, shard.step)
            outcomes.append(outcome)
            _write_report(shard, outcome)
    known = {one["test"] for one in gate.known_flaky(ROOT)}
    print("\n".join(gate.summary(outcomes, known)))
    return gate.exit_status(outcomes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the tests that take longer than the gate.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these shards")
    parser.add_argument("--all", action="store_true", help="all shards")
    parser.add_argument("--changed", metavar="BRANCH", default=gate.TARGET, help="since this one")
    parser.add_argument("--list", action="store_true", help="name the shards, and run none")
    parser.add_argument(
        "--durations",
        action="store_true",
        help=f"write {DURATIONS} from the reports that are there",
    )
    options = parser.parse_args()
    unknown = set(options.names) - {shard.name for shard in SHARDS}
    if unknown:
        parser.error(f"no shard {', '.join(sorted(unknown))}; --list names all")
    return options


def _chosen(options: argparse.Namespace) -> list[Shard]:
    if options.names:
        return [shard for shard in SHARDS if shard.name in options.names]
    if options.all:
        return list(SHARDS)
    touched = gate.touched_files(ROOT, options.changed)
    return [shard for shard in SHARDS if concerns(touched, shard)]


def concerns(touched: Iterable[str], shard: Shard) -> bool:
    """True if a shard depends on one of these files."""
    roots = tuple(Path(path) for path in (*ALWAYS, *shard.paths))
    return any(Path(name).is_relative_to(root) for name in touched for root in roots)


def has_passed(root: Path, shard: Shard) -> bool:
    """True if a shard's last run passed, and its files are the same."""
    path = _report_of(root, shard)
    if not path.is_file():
        return False
    facts = json.loads(path.read_text())
    return facts["passed"] is True and facts["files"] == hash_of(root, (*ALWAYS, *shard.paths))


def _report_of(root: Path, shard: Shard) -> Path:
    return root / gate.REPORTS / f"long-{shard.name}.json"


def _write_report(shard: Shard, outcome: Outcome) -> None:
    report = outcome.report
    facts = {
        "shard": shard.name,
        "passed": outcome.reason is None,
        "reason": outcome.reason,
        "seconds": round(outcome.seconds),
        "tests": report.count if report else None,
        "skipped": len(report.skipped) if report else None,
        "failed": list(outcome.failed),
        "flaky": list(outcome.flaky),
        "files": hash_of(ROOT, (*ALWAYS, *shard.paths)),
    }
    _report_of(ROOT, shard).write_text(json.dumps(facts, indent=2) + "\n")


def write_durations(root: Path) -> None:
    """Update the durations of long tests from the JUnit files of shards.

    Tests of which there is no report keep the time that they had.
    """
    path = root / DURATIONS
    lines = path.read_text().splitlines() if path.exists() else []
    seconds = {test: float(duration) for duration, _, test in (x.partition(" ") for x in lines)}
    for shard in SHARDS:
        report = root / (shard.step.report or "")
        if shard.step.commands[-1][1] == "test-long" and report.is_file():
            found = gate.read_report(report, root)
            gone = set(found.skipped) | set(found.failed)
            seconds |= {test: s for test, s in found.seconds.items() if test not in gone}
    there = [test for test in sorted(seconds) if (root / test.partition("::")[0]).is_file()]
    path.write_text("".join(f"{seconds[test]:.1f} {test}\n" for test in there))


def hash_of(root: Path, paths: Iterable[str]) -> str:
    """A hash of the tracked files under these paths, as they are in the tree now."""
    listed = subprocess.run(
        ["/usr/bin/env", "git", "ls-files", "-z", "--", *paths],
        cwd=root,
        stdout=subprocess.PIPE,
        check=True,
    )
    found = hashlib.sha256()
    for name in sorted(set(listed.stdout.split(b"\0")) - {b""}):
        path = root / name.decode()
        content = path.read_bytes() if path.is_file() else b""
        found.update(b"%s %d\n" % (name, len(content)))
        found.update(content)
    return found.hexdigest()[:32]


if __name__ == "__main__":
    sys.exit(main())
