"""Outcomes of actions, kept for the page behind them: as many as ``OUTCOMES_MAX``, in memory.

A user who does much makes room by their own finished outcomes, so nobody keeps others from acting.
Always so: a form that is sent twice acts once.  Its outcome is found, or it was dropped, and then
``is_spent`` is true of all pages from before it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from crdtstream.console.proofs import SECONDS_MAX
from crdtstream.core.size import Size

OUTCOMES_MAX: Final = Size(256, least=1)
# Of one user: a quarter, so three others can act whatever one does.
USER_OUTCOMES_MAX: Final = Size(64, least=1)
LINES_MAX: Final = 50


class State(Enum):
    """State of an action; the value is shown."""

    RUNNING = "being done"
    DONE = "done"
    FAILED = "not done"
    UNKNOWN = "not known"


class Joining(Enum):
    """State of a region that was added; the value is shown."""

    AWAITED = "Its node has not joined yet. This page follows it, and so does Members."
    JOINED = "Its node has joined. The token is of no more use."
    REMOVED = "It was removed again. The token is of no more use."


@dataclass(frozen=True, slots=True)
class Secret:
    """Part of an outcome that its user sees, and no log has.

    Attributes:
        region: joins with it.
        about: a sentence in front of ``text``.
        then: a sentence in front of ``command``, which is no secret.
    """

    region: int
    about: str
    text: str = field(repr=False)
    then: str
    command: str


class OutcomesFullError(Exception):
    """All actions that might make room are still being done."""


@dataclass(slots=True)
class Outcome:
    """The outcome of one action.

    Attributes:
        number: names it, and cannot be guessed.
        user: who did it; others do not see it.
        title: the action, in words.
        back: path of the page from which it was done.
        lines: sentences about it, the newest last.
        secret: shown behind them.
    """

    number: str
    user: bytes
    title: str
    back: str
    began_s: float
    state: State = State.RUNNING
    lines: list[str] = field(default_factory=list)
    secret: Secret | None = None

    def say(self, line: str) -> None:
        """One more sentence; of many, the oldest go."""
        self.lines.append(line)
        del self.lines[:-LINES_MAX]


class Outcomes:
    """The outcomes of one process."""

    def __init__(self) -> None:
        # The oldest first.
        self._found: dict[str, Outcome] = {}
        # By user, when the last outcome that was dropped had begun.
        self._dropped_s: dict[bytes, float] = {}

    def of(self, number: str, user: bytes) -> Outcome | None:
        """The outcome with a number, if it is this user's."""
        found = self._found.get(number)
        return found if found is not None and found.user == user else None

    def is_spent(self, user: bytes, asked_s: float) -> bool:
        """True if the form of a page may have acted already, though no outcome is found.

        Args:
            asked_s: when the page was made, or earlier.
        """
        dropped_s = self._dropped_s.get(user)
        return dropped_s is not None and asked_s <= dropped_s

    def begin(self, outcome: Outcome) -> None:
        """Keep one that begins; an older one that is finished may be dropped for it.

        Raises:
            OutcomesFullError: there is no such one.
        """
        counts = Counter(one.user for one in self._found.values())
        if counts[outcome.user] >= USER_OUTCOMES_MAX.value:
            self._drop([outcome.user], outcome.began_s)
        elif len(self._found) >= OUTCOMES_MAX.value:
            self._drop([user for user, _ in counts.most_common()], outcome.began_s)
        self._found[outcome.number] = outcome

    def _drop(self, users: Sequence[bytes], now_s: float) -> None:
        """Drop the oldest finished outcome of the first of these users who has one."""
        for user in users:
            for number, one in self._found.items():
                if one.user == user and one.state is not State.RUNNING:
                    del self._found[number]
                    self._note_dropped(one, now_s)
                    return
        raise OutcomesFullError

    def _note_dropped(self, outcome: Outcome, now_s: float) -> None:
        latest = max(outcome.began_s, self._dropped_s.get(outcome.user, outcome.began_s))
        self._dropped_s[outcome.user] = latest
        # Pages from before these prove nothing any more.
        for user, dropped_s in list(self._dropped_s.items()):
            if now_s - dropped_s > SECONDS_MAX.value:
                del self._dropped_s[user]
