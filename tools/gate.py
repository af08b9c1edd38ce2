"""Runs the steps that must pass before a change lands, and names the step and the tests that fail.

Usage:
    python3 tools/gate.py          in a fresh clone: `.ci/run`

The first step is `make test` as a newcomer runs it: without the programs that tests use besides.
The tests that were skipped then run in a later step, in the same tree, when these programs exist.
No other test runs twice.

If at most ``FLAKY_MAX`` tests of a step fail, each runs again, alone, in a new process, ``REPEATS``
times, once the machine is quiet.  If it passes each time, the step passes and the last lines report
the test as flaky; one failure is enough to refuse the change.  Three kinds of tests have no second
try: those in files that the change touches, so that no new flaky test gets in; properties, as their
examples are the same in each run; and tests that draw new inputs, of which the next has others.

Of the long tests that take few seconds a twelfth runs; the tree of the commit says which.

The last step runs live tests in touched files ``STRESS_RUNS`` times beside two busy loops.

Reports of the tests, and the list of flaky ones, are in ``ci-report/``.

Exit status: 0 all steps passed; else that of the first step that failed (see ``GATE``); 75 if a
program or package could not be downloaded.

It needs the standard library only, as at its start nothing is installed.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
# Relative to the root, where all commands run.
PYTHON: Final = ".venv/bin/python"
REPORTS: Final = "ci-report"
SKIPPED: Final = f"{REPORTS}/skipped.txt"
FLAKY: Final = f"{REPORTS}/flaky.json"
# Flaky tests that are known; see docs/testing.md.
KNOWN: Final = "tests/flaky.toml"

FLAKY_MAX: Final = 5
REPEATS: Final = 3
# A repeat asks whether something happens at all, so all its waits are longer (tests/patience.py).
PATIENT: Final = {"CRDTSTREAM_PATIENCE": "3"}
# A machine is quiet if less than this part of the last ten seconds passed with a task waiting for a
# processor.
PRESSURE_PERCENT_MAX: Final = 20.0
PRESSURE: Final = Path("/proc/pressure/cpu")
QUIET_SECONDS_MAX: Final = 60.0
STRESS_RUNS: Final = 5
STRESS_SECONDS_MAX: Final = 180.0
# The branch that a change is for, in the clone that is judged.
TARGET: Final = "origin/main"

# sysexits.h: a temporary failure.  tools/again.sh and .ci/system-packages exit with it.
UNREACHABLE: Final = 75
# Of pytest.
NO_TESTS: Final = 5
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


def make_step(name: str, status: int, *target: str, words: str = "", pure: str = "1") -> Step:
    """A target of make that ends with one run of pytest, to which it passes ``words``."""
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
    "programs", UNREACHABLE, ((".ci/system-packages",), ("make", "-j4", "tools")), is_base=True
)
# Of the simulator the histories that use most of what is compiled.
COMPILED: Final = (
    "tests/test_compiled.py tests/core tests/commands tests/database tests/sim/test_folders.py"
)
GATE: Final = (
    NEWCOMER,
    PROGRAMS,
    make_step("check", 12, "check"),
    make_step("test", 18, "test", words=f"@{SKIPPED}"),
    make_step("long", 13, "test-long", words="--twelfth"),
    make_step(
        "compiled",
        14,
        "test-compiled",
        "FAST_ARGS=--quick",
        f"COMPILED_TESTS={COMPILED}",
        words="-m 'not soak and not long'",
        pure="0",
    ),
)
STRESS: Final = Step("stress", 19, ())


@dataclass(frozen=True, slots=True)
class Report:
    """Tests of a JUnit file that pytest wrote, by their node IDs, in the file's order.

    Attributes:
        skipped: those that were skipped, but not those that are expected to fail.
        decisive: those whose failure is no flake, as tests/conftest.py notes them.
        seconds: duration by test.
        count: all tests, also those that were skipped.
    """

    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    decisive: frozenset[str]
    seconds: Mapping[str, float]
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
    outcomes = run(GATE, touched_files(ROOT))
    print("\n".join(summary(outcomes, known={one["test"] for one in known_flaky(ROOT)})))
    return exit_status(outcomes)


def known_flaky(root: Path) -> list[dict[str, str]]:
    """The entries of ``KNOWN``, each with ``test``, ``since`` (a commit) and ``reason``."""
    entries: list[dict[str, str]] = tomllib.loads((root / KNOWN).read_text()).get("flaky", [])
    return entries


def exit_status(outcomes: Sequence[Outcome]) -> int:
    return next((one.status for one in outcomes if one.reason is not None), 0)


def run(steps: Sequence[Step], touched: frozenset[str]) -> list[Outcome]:
    """Run all steps, also those behind one that failed, unless that is their base.

    Args:
        touched: the files that the change touches.
    """
    (ROOT / REPORTS).mkdir(exist_ok=True)
    outcomes = []
    for step in steps:
        outcome = run_step(ROOT, step, touched)
        outcomes.append(outcome)
        if step is NEWCOMER and outcome.report is not None:
            (ROOT / SKIPPED).write_text("\n".join(outcome.report.skipped) + "\n")
            if not outcome.report.skipped and outcome.reason is None:
                outcome.reason = "no test was skipped: are programs that tests use still in PATH?"
                outcome.status = step.status
        if outcome.reason is not None and step.is_base and outcome.report is None:
            break
    else:
        outcomes.append(stress(ROOT, touched))
    flaky = {test: outcome.step.name for outcome in outcomes for test in outcome.flaky}
    (ROOT / FLAKY).write_text(json.dumps(flaky, indent=2) + "\n")
    return outcomes


def touched_files(root: Path, target: str = TARGET) -> frozenset[str]:
    """Files that differ between HEAD and the target of the change; none without a target."""
    found = subprocess.run(
        ["/usr/bin/env", "git", "diff", "--name-only", "--merge-base", target, "HEAD"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return frozenset(found.stdout.splitlines())


# --- A step ---------------------------------------------------------------------------------------


def run_step(root: Path, step: Step, touched: frozenset[str] = frozenset()) -> Outcome:
    """Run a step; see ``run``."""
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
            _judge(root, outcome, outcome.report, touched)
    outcome.seconds = time.monotonic() - started
    return outcome


def _run(
    root: Path, step: Step, command: Sequence[str], *, seconds_max: float | None = None
) -> tuple[int, bool]:
    """Run a command of a step; it gets a Ctrl-C after ``seconds_max``.

    Returns:
        Its exit status, and True if a download failed.

    Raises:
        TimeoutExpired: it has ended by that Ctrl-C.
    """
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
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            process.send_signal(signal.SIGINT)

        alarm = threading.Timer(seconds_max or threading.TIMEOUT_MAX, end)
        alarm.start()
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            is_unreachable |= _MAKE_SAID_UNREACHABLE.match(line.rstrip()) is not None
        alarm.cancel()
    if is_over.is_set():
        assert seconds_max is not None
        raise subprocess.TimeoutExpired(command, seconds_max)
    return process.returncode, is_unreachable or process.returncode == UNREACHABLE


# --- Flaky tests ----------------------------------------------------------------------------------


def _judge(root: Path, outcome: Outcome, report: Report, touched: frozenset[str]) -> None:
    """Run failed tests again, if they are few, and say in ``outcome`` which are only flaky."""

    def has_second_try(test: str) -> bool:
        return test not in report.decisive and test.partition("::")[0] not in touched

    if len(report.failed) > FLAKY_MAX:
        outcome.failed = report.failed
        return
    _wait_until_quiet()
    outcome.flaky = [
        test
        for test in report.failed
        if has_second_try(test) and _passes_each_time(root, outcome.step, test)
    ]
    outcome.failed = [test for test in report.failed if test not in outcome.flaky]
    if not outcome.failed:
        outcome.reason, outcome.status = None, 0


def _passes_each_time(root: Path, step: Step, test: str) -> bool:
    patient = replace(step, environment=dict(step.environment) | PATIENT)
    for number in range(1, REPEATS + 1):
        print(f"\n=== again, alone, {number} of {REPEATS}: {test}", flush=True)
        status, _ = _run(root, patient, (PYTHON, "-m", "pytest", "-q", test))
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


# --- Stress ---------------------------------------------------------------------------------------


def stress(root: Path, touched: frozenset[str]) -> Outcome:
    """Run live tests in touched files beside two busy loops, again and again while time is left."""
    started = time.monotonic()
    outcome = Outcome(STRESS, 0.0)
    files = sorted(
        name
        for name in touched
        if re.fullmatch(r"tests/.*test_\w+\.py", name) and (root / name).is_file()
    )
    marks = "live and not long and not soak and not house"
    command = (PYTHON, "-m", "pytest", "-q", "-x", "-m", marks, *files)
    with _busy(2):
        for number in range(1, STRESS_RUNS + 1):
            left = STRESS_SECONDS_MAX - (time.monotonic() - started)
            if not files or left <= 0:
                break
            print(f"\n=== stress, {number} of {STRESS_RUNS}: {len(files)} files", flush=True)
            try:
                status, _ = _run(root, STRESS, command, seconds_max=left)
            except subprocess.TimeoutExpired:
                print(f"=== stress: its time is over; run {number}, and what it failed by, is void")
                break
            if status not in {0, NO_TESTS}:
                outcome.reason = f"a live test in a touched file failed in run {number} under load"
                outcome.status = STRESS.status
                break
    outcome.seconds = time.monotonic() - started
    return outcome


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """Programs that keep a processor busy each."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


# --- Reports --------------------------------------------------------------------------------------


def read_report(path: Path, root: Path) -> Report:
    """Read a JUnit file of pytest.

    Raises:
        ParseError: it is no XML.
    """
    failed: dict[str, None] = {}
    skipped: dict[str, None] = {}
    decisive = set()
    seconds: dict[str, float] = {}
    count = 0
    for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314 -- pytest wrote it
        count += 1
        test = _node_id(case.get("classname", ""), case.get("name", ""), root)
        if case.find("failure") is not None or case.find("error") is not None:
            failed[test] = None
        # A test has one for its call and one for a fixture that failed.
        seconds[test] = seconds.get(test, 0.0) + float(case.get("time", "0"))
        if case.find("properties/property[@name='no second try']") is not None:
            decisive.add(test)
        for skip in case.iter("skipped"):
            if skip.get("type") != "pytest.xfail":
                skipped[test] = None
    return Report(tuple(failed), tuple(skipped), frozenset(decisive), seconds, count)


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


def summary(outcomes: Sequence[Outcome], known: Container[str] = ()) -> Iterator[str]:
    """Times of the steps, flaky tests, failed steps with their tests, numbers of tests.

    Args:
        known: the flaky tests that are listed as such.
    """
    yield ""
    for outcome in outcomes:
        result = "passed" if outcome.reason is None else "REFUSED"
        yield f"{outcome.step.name:<14} {result:<8} {outcome.seconds:6.0f} s"
    flaky = [(outcome.step.name, test) for outcome in outcomes for test in outcome.flaky]
    if flaky:
        yield f"FLAKY {len(flaky)}: failed once, then passed {REPEATS} times alone ({FLAKY})"
        for step, test in flaky:
            told = f"listed in {KNOWN}" if test in known else f"mend it, or list it in {KNOWN}"
            yield f"  flaky in {step}: {test} ({told})"
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
