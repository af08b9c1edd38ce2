"""Report of a check of a folder."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from crdtstream.core.clock import VersionVector

# Of one kind of damage, this many are listed one by one.
TOLD_MAX: Final = 5


class Verdict(Enum):
    """Result of one check; the value is printed."""

    SOUND = "ok"
    # Worth knowing, and nothing is lost by it.
    NOTE = "note"
    DAMAGE = "DAMAGE"
    # Sound, and not the state that was asked for.
    DIFFERS = "differs"
    # The part to check could not be read.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """One check and what it found."""

    name: str
    verdict: Verdict
    found: str


@dataclass(slots=True)
class Report:
    """All checks of a folder, in order.

    Attributes:
        digest: of the state that the folder holds; empty if that could not be rebuilt.
        vv: effects in that state.
        is_index_lost: the index of the log is missing or wrong, and nothing else.
        goes_back_to: the generation from which the state can be read though a newer checkpoint is
            damaged, and nothing else is, 0 for none and the whole log; None: nothing is to be
            deleted.  Where nothing is damaged, but a checkpoint that was not committed has left
            something, the newest.
    """

    checks: list[Check] = field(default_factory=list)
    digest: str = ""
    vv: VersionVector = field(default_factory=dict)
    is_index_lost: bool = False
    goes_back_to: int | None = None

    @property
    def is_mendable(self) -> bool:
        """True if a repair mends it without losing anything."""
        return self.is_index_lost or self.goes_back_to is not None

    def note(self, name: str, verdict: Verdict, found: str) -> None:
        self.checks.append(Check(name, verdict, found))

    @property
    def is_sound(self) -> bool:
        return all(check.verdict is not Verdict.DAMAGE for check in self.checks)

    @property
    def is_as_expected(self) -> bool:
        return all(check.verdict is not Verdict.DIFFERS for check in self.checks)


class Progress(Protocol):
    """Function that shows the progress of something."""

    def __call__(self, what: str, done: int, total: int) -> None: ...


def no_progress(what: str, done: int, total: int) -> None:
    """Nobody looks."""


def verdict_on(problems: list[str], sound: str) -> tuple[Verdict, str]:
    """Damage with a text about some of the problems; or the text ``sound`` if there are none."""
    return (Verdict.DAMAGE, several(problems)) if problems else (Verdict.SOUND, sound)


def several(texts: list[str]) -> str:
    """The first ones, and how many more."""
    more = len(texts) - TOLD_MAX
    return "\n".join([*texts[:TOLD_MAX], *([f"and {more} more"] if more > 0 else [])])
