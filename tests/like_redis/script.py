"""Scripts: commands in a text file, run side by side on ours and on real servers.

== name                  a script; it begins with no keys
# text                   a remark
XADD s 1-1 f v           a command of the client A, words quoted as in a shell
B: XREAD BLOCK 0 …       a command of another client
3: SUBSCRIBE c           … that speaks RESP3, whatever the others speak; ``2`` speaks RESP2
MULTI ; XLEN s ; EXEC    commands that are sent at once; only in ``node/``
~ B runs out             B, which waits, waits until its time is over
~ B unblocked            CLIENT UNBLOCK of B, as if its time were over
~ B unblocked error      … with an error
XSETID s 3  #! name      here ours differs on purpose: a name from docs/differences.md
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from tests.like_redis.comparing import comparable
from tests.like_redis.sides import Answer, Blocked, Side, shown
from tests.like_redis.wire import Failure, Simple

FOLDER = Path(__file__).parent / "scripts"
# How many parts of a reply a report shows.
UNLIKE_PARTS_MAX = 10
_QUEUED = Simple(b"QUEUED")
_READS = {b"XINFO", b"XPENDING", b"XRANGE", b"XREVRANGE", b"XREAD", b"XLEN", b"OBJECT", b"TTL"}

# What a step led to: the answer, and who else was answered.
Outcome: TypeAlias = tuple[Answer, dict[str, Answer]]


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a script.

    Attributes:
        place: file and line number.
        text: as it stands in the file.
        client: whose command it is, or who is to be unblocked.
        argv: the command; empty for a ``~`` line.
        directive: what a ``~`` line says after the client's name.
        intended: the name of the difference that is expected here.
    """

    place: str
    text: str
    client: str
    argv: tuple[bytes, ...] = ()
    directive: str = ""
    intended: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """A sequence of steps on an empty database."""

    name: str
    steps: Sequence[Step]


def load(file: Path) -> list[Script]:
    """The scripts of a file."""
    scripts: list[Script] = []
    steps: list[Step] = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        place = f"{file.name}:{number}"
        if line.startswith("== "):
            steps = []
            scripts.append(Script(line[3:], steps))
        elif line.strip() and not line.startswith("#"):
            assert scripts, f"{place}: before the first script"
            steps.append(_step(place, line.strip()))
    assert scripts, f"no scripts in {file}"
    assert all(script.steps for script in scripts), f"an empty script in {file}"
    return scripts


def _step(place: str, line: str) -> Step:
    command, _, intended = line.partition("  #! ")
    if command.startswith("~ "):
        client, _, directive = command[2:].partition(" ")
        assert directive in ("runs out", "unblocked", "unblocked error"), place
        return Step(place, line, client, directive=directive, intended=intended)
    client = "A"
    if command[1:3] == ": ":
        client, command = command[0], command[3:]
    return Step(place, line, client, argv=command_words(command), intended=intended)


def command_words(command: str) -> tuple[bytes, ...]:
    return tuple(word.encode() for word in shlex.split(command))


class Runner:
    """Runs steps on one side and gives what can be compared of their outcome."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._queues: dict[str, list[Sequence[bytes]]] = {}
        self._waits: dict[str, Sequence[bytes]] = {}

    def run(self, step: Step) -> Outcome:
        answer = self._answer(step)
        return answer, dict(sorted(self._side.woken().items()))

    def _answer(self, step: Step) -> Answer:
        match step.directive:
            case "runs out":
                return self._side.run_out(step.client)
            case "unblocked":
                return self._side.unblock(step.client, with_error=False)
            case "unblocked error":
                return self._side.unblock(step.client, with_error=True)
        answer = self._side.call(step.client, step.argv)
        queue = self._queues.setdefault(step.client, [])
        if answer == _QUEUED:
            queue.append(step.argv)
        elif step.argv[0].upper() == b"EXEC":
            queued, self._queues[step.client] = queue, []
            if isinstance(answer, list):
                return [
                    comparable(argv, reply)  # type: ignore[misc]
                    for argv, reply in zip(queued, answer, strict=True)
                ]
        elif step.argv[0].upper() == b"DISCARD":
            queue.clear()
        return comparable(step.argv, answer)


@dataclass(frozen=True, slots=True)
class Difference:
    """A step at which ours did otherwise than the server that counts.

    Attributes:
        others: what further servers did, by their name.
    """

    step: Step
    ours: Outcome
    theirs: Outcome
    others: Mapping[str, Outcome]

    def __str__(self) -> str:
        lines = [f"{self.step.place}: {self.step.text}"]
        lines += [f"    {name} {text}" for name, text in _unlike(self.ours, self.theirs)]
        for name, outcome in self.others.items():
            if outcome == self.theirs:
                lines.append(f"    {name} agrees with redis")
            elif outcome == self.ours:
                lines.append(f"    {name} agrees with ours")
            else:
                lines.append(f"    {name}: {_shown(outcome)}")
        return "\n".join(lines)


def _unlike(ours: Outcome, theirs: Outcome) -> list[tuple[str, str]]:
    """Differences between two outcomes, as (who, what)."""
    if ours[1] != theirs[1]:
        return [("ours: ", _shown(ours)), ("redis:", _shown(theirs))]
    return [
        (who, f"{path}{shown(answer)}")
        for path, mine, other in islice(_unlike_parts(ours[0], theirs[0], ""), UNLIKE_PARTS_MAX)
        for who, answer in (("ours: ", mine), ("redis:", other))
    ]


def _unlike_parts(ours: Answer, theirs: Answer, path: str) -> Iterator[tuple[str, Answer, Answer]]:
    """The smallest parts that differ, each with the way to it; lists must be of one length."""
    if not isinstance(ours, list) or not isinstance(theirs, list) or len(ours) != len(theirs):
        yield path, ours, theirs
        return
    if type(ours) is not type(theirs):
        yield path, ours, theirs
        return
    name = ""
    for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if mine != other:
            yield from _unlike_parts(mine, other, f"{path}[{name or index}] ")
        name = mine.decode("utf-8", "replace") if isinstance(mine, bytes) else ""


def _shown(outcome: Outcome) -> str:
    answer, woken = outcome
    return shown(answer) + "".join(f"; {name} gets {shown(got)}" for name, got in woken.items())


@dataclass(slots=True)
class Report:
    """The result of a script.

    Attributes:
        unintended: differences that have no name.
        missing: steps that were to differ on purpose and did not.
        disputed: lines about which the real servers themselves disagree; ours is held to the
            first of them.
    """

    unintended: list[Difference]
    missing: list[Step]
    disputed: list[str]


def compare(script: Script, ours: Side, reference: Side, others: Mapping[str, Side]) -> Report:
    """Run a script everywhere, step by step.

    A server that has gone another way than the reference is no longer asked: what it would say
    next comes from another state.
    """
    our_runner, their_runner = Runner(ours), Runner(reference)
    runners = {name: Runner(side) for name, side in others.items()}
    report = Report([], [], [])
    for step in script.steps:
        theirs = their_runner.run(step)
        mine = our_runner.run(step)
        said = {name: runner.run(step) for name, runner in runners.items()}
        if mine == theirs and step.intended:
            report.missing.append(step)
        elif mine != theirs and not step.intended:
            report.unintended.append(Difference(step, mine, theirs, said))
        for name, outcome in said.items():
            if outcome != theirs:
                report.disputed.append(
                    f"{script.name}: {step.text}: {_shown(theirs)}; {name}: {_shown(outcome)}"
                )
                if _may_have_parted(step, theirs, outcome):
                    del runners[name]
    return report


def _may_have_parted(step: Step, theirs: Outcome, other: Outcome) -> bool:
    """True if the two may be in different states now.

    Different texts of one refusal are no sign of that, nor replies of commands that change nothing.
    """
    if isinstance(theirs[0], Blocked) or isinstance(other[0], Blocked) or theirs[1] != other[1]:
        return True
    if isinstance(theirs[0], Failure) and isinstance(other[0], Failure):
        return False
    return step.argv[0].upper() not in _READS
