"""Commands that consist of subcommands: CLIENT, CONFIG, COMMAND."""

from collections.abc import Collection, Iterable
from typing import Final

from crdtstream.commands.reply import Reply, Status
from crdtstream.commands.session import RunSessionCommand, Session, SessionCommand
from crdtstream.core.ids import Millis

_FLAGS: Final = frozenset({"noscript", "loading", "stale"})
_ADMIN: Final = _FLAGS | {"admin"}


def container(
    name: bytes,
    group: str,
    since: str,
    rows: Iterable[tuple[bytes, RunSessionCommand, int, str]],
    *,
    admin: Collection[bytes] = (),
) -> list[SessionCommand]:
    """The command and its subcommands, each given as name, function, arity, since.

    Args:
        admin: subcommands that are an operator's; MONITOR does not show them.
    """
    words = name.decode().upper()
    parent = SessionCommand(
        name, _is_no_command, -2, frozenset(), 0, 0, 0, group, f"A container for {words} commands.",
        since,
    )  # fmt: skip
    return [
        parent,
        *(
            SessionCommand(
                name + b"|" + sub, run, arity, _ADMIN if sub in admin else _FLAGS, 0, 0, 0, group,
                (run.__doc__ or f"{words} {sub.decode().upper()}.").split("\n")[0], sub_since,
            )
            for sub, run, arity, sub_since in rows
        ),
    ]  # fmt: skip


def help_reply(lines: Iterable[str]) -> Reply:
    """HELP's answer: a status line each."""
    return [Status(line.encode()) for line in lines]


def _is_no_command(_session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
    raise AssertionError("dispatch has found a subcommand or refused")
