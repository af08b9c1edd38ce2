"""The rows of commands that consist of subcommands: CLIENT, CONFIG, SLOWLOG …"""

from collections.abc import Collection, Iterable
from typing import Final

from crdtstream.commands.reply import Reply
from crdtstream.core.ids import Millis
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand

_FLAGS: Final = frozenset({"noscript", "loading", "stale"})
_ADMIN: Final = _FLAGS | {"admin"}


def container(
    name: bytes,
    rows: Iterable[tuple[bytes, RunSessionCommand, int]],
    *,
    admin: Collection[bytes] = (),
) -> list[SessionCommand]:
    """The command and its subcommands, each given as name, function, arity.

    Args:
        admin: subcommands that are an operator's; MONITOR does not show them.
    """
    return [
        SessionCommand(name, _is_no_command, -2),
        *(
            SessionCommand(name + b"|" + sub, run, arity, _ADMIN if sub in admin else _FLAGS)
            for sub, run, arity in rows
        ),
    ]


def _is_no_command(_session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
    raise AssertionError("dispatch has found a subcommand or refused")
