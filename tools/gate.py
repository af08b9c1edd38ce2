"""Runs the steps that must pass before a change lands, and names the step and the tests that fail.

Usage:
    python3 tools/gate.py          the gate, for a fresh clone: `.ci/run`
    python3 tools/gate.py --long   the tests that take longer, one kind after the other: `make long`

The first step is `make test` as a newcomer runs it: without the programs that tests use besides.
The tests that were skipped then run in a later step, in the same tree, when these programs exist.
No other test runs twice.

If at most ``FLAKY_MAX`` tests of a step fail, each runs again, alone, in a new process, ``REPEATS``
times, once the machine is quiet.  If it passes each time, the step passes and the last lines report
the test as flaky; one failure is enough to refuse the change.

Reports of the tests, and the list of flaky ones, are in ``ci-report/``.

Exit status: 0 all steps passed; else the status of the first step that failed (``GATE``, ``LONG``),
or 75 if a program or package could not be downloaded.

It needs the standard library only, as at its start nothing is installed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
# Relative to the root, where all commands run.
PYTHON: Final = ".venv/bin/python"
REPORTS: Final = "ci-report"
SKIPPED: Final = f"{REPORTS}/skipped.txt"
FLAKY: Final = f"{REPORTS}/flaky.json"

FLAKY_MAX: Final = 5
REPEATS: Final = 3
# A machine is quiet if less than this part of the last ten seconds passed with a task waiting for a
# processor.
PRESSURE_PERCENT_MAX: Final = 20.0
PRESSURE: Final = Path("/proc/pressure/cpu")
QUIET_SECONDS_MAX: Final = 60.0

# sysexits.h: a temporary failure.  tools/again.sh and .ci/system-packages exit with it.
UNREACHABLE: Final = 75
_MAKE_SAID_UNREACHABLE: Final = re.compile(rf"^make.*\*\*\* .* Error {UNREACHABLE}$")


NOTHING_SKIPPED: Final = {"CRDTSTREAM_REQUIRE_ALL": "1"}


@dataclass(frozen=True, slots=True)
class Step:
    """Commands that run one after the other, until one fails.

    Attributes:
        status: exit status of the gate if this step is the first that fails.
        report: the JUnit file that the last command writes, which is a single run of pytest; None:
            it has no such command.
        runner: the words in front of each command, and of a test that runs again.
        environment: variables of its commands besides those of the gate.
        is_base: no other step can run if this one ends without a report.
    """

    name: str
    status: int
    commands: tuple[tuple[str, ...], ...]
    report: str | None = None
    runner: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: NOTHING_SKIPPED)
    is_base: bool = False


def _tested(name: str, status: int, *target: str, words: str = "", pure: str = "1") -> Step:
    """A target of make whose last command is a run of pytest, which gets ``words`` besides."""
    report = f"{REPORTS}/{name}.xml"
    command = ("make", *target, f"ARGS=--junitxml={report} {words}".rstrip())
    environment = NOTHING_SKIPPED | {"CRDTSTREAM_PURE": pure}
    return Step(name, status, (command,), report, environment=environment)


NEWCOMER: Final = Step(
    "newcomer",
    11,
    ((".ci/system-packages", "least"), ("make", "test", f"ARGS=--junitxml={REPORTS}/newcomer.xml")),
    f"{REPORTS}/newcomer.xml",
    runner=(".ci/as-newcomer",),
    environment={},
    is_base=True,
)
PROGRAMS: Final = Step(
    "programs", UNREACHABLE, ((".ci/system-packages",), ("make", "tools")), is_base=True
)
COMPILED: Final = "tests/test_compiled.py tests/core tests/commands tests/database"
GATE: Final = (
    NEWCOMER,
    PROGRAMS,
    _tested("check", 12, "check"),
    _tested("test", 18, "test", words=f"@{SKIPPED}"),
    _tested(
        "compiled",
        14,
        "test-compiled",
        f"COMPILED_TESTS={COMPILED}",
        words="-m 'not soak and not long'",
        pure="0",
    ),
)
LONG: Final = (
    PROGRAMS,
    _tested("long", 13, "test-long"),
    _tested("compiled", 14, "test-compiled", pure="0"),
    Step("wheel", 15, (("make", "test-wheel"),)),
    Step("pythons", 16, (("make", "test-pythons"),)),
    Step("spark-oldest", 17, (("make", "test-spark-oldest"),)),
)


@dataclass(frozen=True, slots=True)
class Report:
    """Tests of a JUnit file that pytest wrote, by their node IDs, in the file's order.

    Attributes:
        skipped: those that were skipped, but not those that are expected to fail.
        count: all tests, also those that were skipped.
    """

    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    count: int


@dataclass(slots=True)
class Outcome:
    """A step that has ended.

    Attributes:
        reason: why the change is refused; None: the step passed.
        failed: tests for which it is refused.
        flaky: tests that failed, and then passed each time.
        report: of its tests; None: none was written.
    """

    step: Step
    seconds: float
    reason: str | None = None
    status: int = 0
    failed: Sequence[str] = ()
    flaky: Sequence[str] = ()
    report: Report | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description="Run all that must pass before a change lands.")
    parser.add_argument("--long", action="store_true", help="run what takes longer instead")
    outcomes = run(LONG if parser.parse_args().long else GATE)
    print("\n".join(summary(outcomes)))
    return next((one.status for one in outcomes if one.reason is not None), 0)


def run(steps: Sequence[Step]) -> list[Outcome]:
    """Run all steps, also those behind one that failed, unless that is their base."""
    (ROOT / REPORTS).mkdir(exist_ok=True)
    outcomes = []
    for step in steps:
        outcome = run_step(ROOT, step)
        outcomes.append(outcome)
        if step is NEWCOMER and outcome.report is not None:
            (ROOT / SKIPPED).write_text("\n".join(outcome.report.skipped) + "\n")
            if not outcome.report.skipped and outcome.reason is None:
                outcome.reason = "no test was skipped: are programs that tests use still in PATH?"
                outcome.status = step.status
        if outcome.reason is not None and step.is_base and outcome.report is None:
            break
    flaky = {test: outcome.step.name for outcome in outcomes for test in outcome.flaky}
    (ROOT / FLAKY).write_text(json.dumps(flaky, indent=2) + "\n")
    return outcomes


# --- A step ---------------------------------------------------------------------------------------


def run_step(root: Path, step: Step) -> Outcome:
    started = time.monotonic()
    outcome = Outcome(step, 0.0)
    report = root / step.report if step.report else None
    if report is not None:
        report.unlink(missing_ok=True)
    for command in step.commands:
        print(f"\n=== {step.name}: {' '.join(command)}", flush=True)
        status, is_unreachable = _run(root, step, command)
        if status != 0:
            outcome.reason = f"`{' '.join(command)}` exited with {status}"
            outcome.status = UNREACHABLE if is_unreachable else step.status
            break
    if report is not None and report.exists():
        outcome.report = read_report(report, root)
        if outcome.reason is not None and outcome.report.failed:
            _judge(root, outcome, outcome.report.failed)
    outcome.seconds = time.monotonic() - started
    return outcome


def _run(root: Path, step: Step, command: Sequence[str]) -> tuple[int, bool]:
    """Run a command of a step; returns its exit status, and True if a download failed."""
    is_unreachable = False
    with subprocess.Popen(
        [*step.runner, *command],
        cwd=root,
        env=dict(os.environ) | dict(step.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            is_unreachable |= _MAKE_SAID_UNREACHABLE.match(line.rstrip()) is not None
    return process.returncode, is_unreachable or process.returncode == UNREACHABLE


# --- Flaky tests ----------------------------------------------------------------------------------


def _judge(root: Path, outcome: Outcome, failed: Sequence[str]) -> None:
    """Run failed tests again, if they are few, and say in ``outcome`` which are only flaky."""
    if len(failed) > FLAKY_MAX:
        outcome.failed = failed
        return
    _wait_until_quiet()
    outcome.failed = [test for test in failed if not _passes_each_time(root, outcome.step, test)]
    outcome.flaky = [test for test in failed if test not in outcome.failed]
    if not outcome.failed:
        outcome.reason, outcome.status = None, 0


def _passes_each_time(root: Path, step: Step, test: str) -> bool:
    for number in range(1, REPEATS + 1):
        print(f"\n=== again, alone, {number} of {REPEATS}: {test}", flush=True)
        status, _ = _run(root, step, (PYTHON, "-m", "pytest", "-q", test))
        if status != 0:
            return False
    return True


def _wait_until_quiet() -> None:
    """Wait for a quiet machine, but not longer than ``QUIET_SECONDS_MAX``."""
    deadline = time.monotonic() + QUIET_SECONDS_MAX
    while time.monotonic() < deadline and _pressure_percent() > PRESSURE_PERCENT_MAX:
        time.sleep(1)


def _pressure_percent() -> float:
    """Part of the last ten seconds in which a task waited for a processor; 0 if unknown."""
    try:
        found = re.search(r"^some avg10=([0-9.]+)", PRESSURE.read_text())
    except OSError:
        return 0.0
    return float(found[1]) if found else 0.0


# --- Reports --------------------------------------------------------------------------------------


def read_report(path: Path, root: Path) -> Report:
    """Read a JUnit file of pytest.

    Raises:
        ParseError: it is no XML.
    """
    failed: dict[str, None] = {}
    skipped: dict[str, None] = {}
    count = 0
    for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314 -- pytest wrote it
        count += 1
        test = _node_id(case.get("classname", ""), case.get("name", ""), root)
        if case.find("failure") is not None or case.find("error") is not None:
            failed[test] = None
        for skip in case.iter("skipped"):
            if skip.get("type") != "pytest.xfail":
                skipped[test] = None
    return Report(tuple(failed), tuple(skipped), count)


def _node_id(classname: str, name: str, root: Path) -> str:
    """The node ID of a test; a JUnit file names file and class with dots between all words.

    A file that could not be collected, or was skipped whole, has its own name and no class.
    """
    words = (classname or name).split(".")
    for count in range(len(words), 0, -1):
        file = Path(*words[:count]).with_suffix(".py")
        if (root / file).is_file():
            return "::".join([str(file), *words[count:], *([name] if classname else [])])
    return f"{classname}::{name}"


# --- The last lines -------------------------------------------------------------------------------


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Times of the steps, flaky tests, failed steps with their tests, numbers of tests."""
    yield ""
    for outcome in outcomes:
        result = "passed" if outcome.reason is None else "REFUSED"
        yield f"{outcome.step.name:<14} {result:<8} {outcome.seconds:6.0f} s"
    flaky = [(outcome.step.name, test) for outcome in outcomes for test in outcome.flaky]
    if flaky:
        yield f"FLAKY {len(flaky)}: failed once, then passed {REPEATS} times alone ({FLAKY})"
        yield from (f"  flaky in {step}: {test}" for step, test in flaky)
    for outcome in outcomes:
        if outcome.reason is not None:
            yield f"refused by step {outcome.step.name} (exit {outcome.status}): {outcome.reason}"
            yield from (f"FAILED {test}" for test in outcome.failed)
    reports = [outcome.report for outcome in outcomes if outcome.report is not None]
    failed = sum(len(outcome.failed) for outcome in outcomes)
    skipped = sum(len(report.skipped) for report in reports)
    passed = sum(report.count for report in reports) - failed - skipped
    yield f"{passed} passed, {failed} failed, {skipped} skipped"


if __name__ == "__main__":
    sys.exit(main())
