"""Runs a script on a target: row by row, comparing every answer, and digests at the end.

IDs that XADD generates come from the clock, so a file can only write them for a clock that it
sets.  On a target with a real clock they are *stand-ins*: when ``XADD … *`` is expected to return
1589929244828-1 and returns another ID, the pair is noted.  From then on the runner sends the real
ID where a command writes 1589929244828-1 (also its milliseconds alone) and reads the written one
where a reply holds the real one.  Only the milliseconds are exchanged freely: the real sequence
must belong to the same region as the written one.

Cursors, tokens and dots count from the beginning of the scenario: on regions that had issued
effects before, the runner adds and subtracts the number of these effects.
"""

import re
from typing import Final, assert_never

from crdtstream.core.clock import VersionVector, format_vv
from crdtstream.core.ids import SEQ_STRIDE, RegionId, id_ms, id_seq, parse_id
from crdtstream.scenario.expected import Special, Text, satisfies
from crdtstream.scenario.outcome import Mismatch, Outcome
from crdtstream.scenario.replies import Answer, ErrorReply, Value, show
from crdtstream.scenario.rows import (
    Call,
    Calls,
    Crash,
    Heal,
    Partition,
    Restart,
    Row,
    Script,
    Skew,
    Step,
    Sync,
    Wait,
)
from crdtstream.scenario.target import Target


def run(script: Script, target: Target) -> Outcome:
    """Run every row, then heal, restart and sync whatever is apart, and compare digests."""
    outcome = Outcome(script)
    outcome.skipped = target.refusal(script)
    if outcome.skipped:
        return outcome
    target.begin(script.settings, tuple(script.columns.values()))
    try:
        _Run(script, target, outcome).run()
    finally:
        target.end()
    return outcome


class _Run:
    """One run in progress."""

    def __init__(self, script: Script, target: Target, outcome: Outcome) -> None:
        self._columns = script.columns
        self._script = script
        self._target = target
        self._outcome = outcome
        self._down: list[RegionId] = []
        # The last command of each client: an answer that comes later is still an answer to it.
        self._sent: dict[tuple[RegionId, str], list[str]] = {}
        self._stand_ins = StandIns(target.vv_before) if target.has_real_clock else None

    def run(self) -> None:
        for row in self._script.rows:
            if row.clocks:
                self._target.set_clocks(
                    {self._columns[name]: ms for name, ms in row.clocks.items()}
                )
            if row.step is not None:
                self._take(row, row.step)
        self._target.heal()
        for region in self._down:
            self._target.restart(region)
        regions = tuple(self._columns.values())
        self._target.sync(regions)
        self._outcome.digests = {region: self._target.digest(region) for region in regions}

    def _take(self, row: Row, step: Step) -> None:
        target, columns = self._target, self._columns
        match step:
            case Calls(cells):
                for name, calls in cells.items():
                    for call in calls:
                        self._call(row, name, call)
            case Sync(names):
                target.sync([columns[name] for name in names])
            case Partition(pairs):
                target.partition([(columns[a], columns[b]) for a, b in pairs])
            case Heal():
                target.heal()
            case Crash(name):
                self._down.append(columns[name])
                target.crash(columns[name])
            case Restart(name):
                self._down.remove(columns[name])
                target.restart(columns[name])
            case Skew(by_ms):
                target.skew({columns[name]: ms for name, ms in by_ms.items()})
            case Wait(ms):
                target.wait(ms)
            case unreachable:
                assert_never(unreachable)

    def _call(self, row: Row, name: str, call: Call) -> None:
        region = self._columns[name]
        answer = self._ask(region, call)
        if self._stand_ins is not None:
            self._stand_ins.learn(call, answer)
            answer = self._stand_ins.incoming(answer)
        self._outcome.answers[call] = answer
        expected = call.expected
        if expected is None:
            is_right = not isinstance(answer, ErrorReply)
        else:
            is_right = satisfies(expected, answer, self._sent.get((region, call.client), []))
        if not is_right:
            self._outcome.mismatches.append(Mismatch(call, row.label, name, show(answer)))

    def _ask(self, region: RegionId, call: Call) -> Answer:
        may_wait = call.expected is Special.WAITS
        if not call.argv:
            return self._target.answer(region, call.client, may_wait=may_wait)
        self._sent[region, call.client] = list(call.argv)
        argv = tuple(word.encode() for word in call.argv)
        if self._stand_ins is not None:
            argv = self._stand_ins.outgoing(argv)
        return self._target.call(region, call.client, argv, may_wait=may_wait)


_WRITTEN_ID: Final = re.compile(rb"(\(?)(\d+)(-\d+)?")
_VERSION_VECTOR: Final = re.compile(rb"\d+:\d+(,\d+:\d+)*")
# Live nodes put the identity of the database, incarnations and hashes into tokens and cursors.
_DATABASE: Final = re.compile(rb"[0-9a-f]{32}/(?=\d)")
_INCARNATION: Final = re.compile(rb"(?<=\d)(@\d+|~[.0-9a-f]+)")


class StandIns:
    """Written IDs, version vectors and dots, and the real ones that they stand for."""

    def __init__(self, vv_before: VersionVector) -> None:
        self._vv_before = vv_before
        self._real: dict[bytes, bytes] = {}
        self._written: dict[bytes, bytes] = {}
        self._real_ms: dict[bytes, bytes] = {}

    def learn(self, call: Call, answer: Answer) -> None:
        """Note the pair if this is an ``XADD … *`` that gave a new ID of the right region."""
        if call.argv[:1] != ("XADD",) or "*" not in call.argv[2:]:
            return
        if not isinstance(call.expected, Text) or not isinstance(answer, bytes):
            return
        written = call.expected.text.encode()
        written_id = parse_id(written, missing_seq=0)
        real_id = parse_id(answer, missing_seq=0)
        if written_id is None or real_id is None or answer in self._written:
            return
        if id_seq(written_id) % SEQ_STRIDE != id_seq(real_id) % SEQ_STRIDE:
            return
        self._real[written] = answer
        self._written[answer] = written
        self._real_ms[b"%d" % id_ms(written_id)] = b"%d" % id_ms(real_id)

    def outgoing(self, argv: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The command with real IDs in it."""
        return tuple(self._to_real(word) for word in argv)

    def _to_real(self, word: bytes) -> bytes:
        if _VERSION_VECTOR.fullmatch(word):
            written = _parse_vv(word)
            regions = written.keys() | self._vv_before.keys()
            return _encode_vv(
                {region: written.get(region, 0) + self._before(region) for region in regions}
            )
        found = _WRITTEN_ID.fullmatch(word)
        if found is None:
            return word
        bare = word.removeprefix(b"(")
        real = self._real if found[3] else self._real_ms
        return found[1] + real.get(bare, bare)

    def incoming(self, answer: Answer) -> Answer:
        """The answer with the written IDs in it."""
        if isinstance(answer, bytes):
            return self._to_written(answer)
        if isinstance(answer, list):
            return [self._item(item) for item in answer]
        return answer

    def _to_written(self, word: bytes) -> bytes:
        word = _DATABASE.sub(b"", word)
        bare = _INCARNATION.sub(b"", word)
        if not _VERSION_VECTOR.fullmatch(bare):
            return self._written.get(word, word)
        real = _parse_vv(bare)
        written = {region: n - self._before(region) for region, n in real.items()}
        # A vector from before the beginning is no version vector of these regions.
        return word if min(written.values()) < 0 else _encode_vv(written)

    def _before(self, region: RegionId) -> int:
        return self._vv_before.get(region, 0)

    def _item(self, item: Value) -> Value:
        if isinstance(item, bytes):
            return self._to_written(item)
        if isinstance(item, list):
            return [self._item(inner) for inner in item]
        return item


def _parse_vv(text: bytes) -> dict[RegionId, int]:
    pairs = [component.split(b":") for component in text.split(b",")]
    return {RegionId(int(region)): int(n) for region, n in pairs}


def _encode_vv(vv: VersionVector) -> bytes:
    return format_vv({region: n for region, n in vv.items() if n}).encode() or b"0"
