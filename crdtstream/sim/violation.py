"""Violations of invariants, and the failure of a history by one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class ViolationError(Exception):
    """An invariant does not hold; the text begins with its number."""


class NoStepError(ValueError):
    """A step that does not exist."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A history that violates an invariant.

    Attributes:
        at: the step at which it was seen, counted from 1; the healing after the last one is the
            step behind it.
    """

    at: int
    reason: str

    @property
    def invariant(self) -> str:
        return self.reason.split(":", 1)[0]

    @property
    def kind(self) -> str:
        """The invariant, or the class of an error: no other one explains the failure."""
        return self.reason.split("(", 1)[0] if self.invariant == "error" else self.invariant


@contextmanager
def as_violations() -> Iterator[None]:
    """Turn errors of simulated regions into violations, so that seed and step are reported."""
    try:
        yield
    except (ViolationError, NoStepError):
        raise
    except AssertionError as error:
        raise ViolationError(f"assertion: {error}") from error
    except Exception as error:
        raise ViolationError(f"error: {error!r}") from error
