"""Rights of programs that have logged in.

A right is named by the command of Redis clients that does the same: a program that may read a
stream by XRANGE may read it by the Query service.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias


class Rights(Protocol):
    """Rights of a program that has logged in."""

    @property
    def user(self) -> bytes | None:
        """Name of the user; None: the program is known by something else, or nobody asked it."""

    @property
    def is_unlimited(self) -> bool:
        """True if it may do everything: nothing needs to be asked."""

    def may_call(self, argv: list[bytes]) -> bool:
        """True if it may run this command with these keys."""

    def note_refused(self, argv: list[bytes], address: str, *, over: str) -> None:
        """Keep for operators that it was refused what this command does.

        Args:
            over: grpc or http.
        """

    def may_administer(self) -> bool:
        """True if it may run all commands of the category ``@admin``."""


class _Unlimited:
    """A caller that nobody asks, or another region."""

    @property
    def user(self) -> bytes | None:
        return None

    @property
    def is_unlimited(self) -> bool:
        return True

    def may_call(self, _argv: list[bytes]) -> bool:
        return True

    def note_refused(self, _argv: list[bytes], _address: str, *, over: str) -> None:
        raise AssertionError("it may do everything")

    def may_administer(self) -> bool:
        return True


# A condition on the caller of a service, a method or a page.
Needs: TypeAlias = Callable[[Rights], bool]

UNLIMITED: Final[Rights] = _Unlimited()
# Rights of the caller of the gRPC call that runs in this task.
CALLER_RIGHTS: Final[ContextVar[Rights]] = ContextVar("caller_rights", default=UNLIMITED)


def administers(caller: Rights) -> bool:
    """The condition of calls that change a node, or show all of it."""
    return caller.may_administer()


def may_see(caller: Rights) -> bool:
    """The condition of calls and pages with figures that name no key."""
    return caller.may_call([b"info"])


def may_see_keys(caller: Rights) -> bool:
    """The condition of pages that also name keys."""
    return may_see(caller) and caller.may_call([b"keys", b"*"])
