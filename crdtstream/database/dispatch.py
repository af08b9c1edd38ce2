"""Finding the handler of a request, however the client spells its name.

XADD, xadd      one look-up: both spellings that clients use are keys
XaDd            a second one, in lower case
XGROUP CREATE   the container, and then ``xgroup|create``
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from crdtstream.commands.arguments import as_sent
from crdtstream.commands.command import Command
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.commands.subcommands import SHOWN_BYTES_MAX
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.acl.touched import touches_of
from crdtstream.database.session import Handler, SessionCommand
from crdtstream.database.statistics import CallStatistics, Statistics

AnyCommand: TypeAlias = Command | SessionCommand

# A container alone is a request with too few words.
CONTAINER_ARITY: Final = -2


class Dispatch:
    """The commands known.

    Attributes:
        commands: by lower-case name.
        spelled: their handlers by the spellings that clients use, without containers: one look-up
            finds nearly every command.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self.commands: dict[bytes, AnyCommand] = {}
        self.spelled: dict[bytes, Handler] = {}
        self._handlers: dict[bytes, Handler] = {}
        self._containers: set[bytes] = set()

    def register(self, commands: Iterable[AnyCommand]) -> None:
        """Make commands known; of two with one name the later counts.

        What stands before a bar in a name is a container: a command, too, though it only holds
        the others.
        """
        for command in commands:
            self._add(command)
            container, bar, _ = command.name.partition(b"|")
            if bar:
                self._containers.add(container)
            else:
                handler = self._handlers[command.name]
                self.spelled[command.name] = self.spelled[command.name.upper()] = handler
        for name in sorted(self._containers - self._handlers.keys()):
            self._add(Command(name, _hold_subcommands, CONTAINER_ARITY))
        for name in self._containers & self.spelled.keys():
            del self.spelled[name], self.spelled[name.upper()]

    def _add(self, command: AnyCommand) -> None:
        self.commands[command.name] = command
        self._handlers[command.name] = _handler(command, self._statistics.of(command.name))

    def find(self, argv: list[bytes]) -> Handler | CommandError:
        """The command's handler whatever its case, subcommands included; or what to answer."""
        name = argv[0].lower()
        if name in self._containers and len(argv) > 1:
            handler = self._handlers.get(name + b"|" + argv[1].lower())
            if handler is not None:
                return handler
            return CommandError(
                f"ERR unknown subcommand '{as_sent(argv[1][:SHOWN_BYTES_MAX])}'. "
                f"Try {as_sent(name).upper()} HELP."
            )
        handler = self._handlers.get(name)
        return handler if handler is not None and b"|" not in name else _unknown_command(argv)


def _hold_subcommands(_replica: Replica, _now: Millis, _argv: list[bytes]) -> Reply:
    raise AssertionError("dispatch has found a subcommand, or refused")


def _handler(command: AnyCommand, stats: CallStatistics) -> Handler:
    flags = command.flags
    return Handler(
        command.name,
        command.arity,
        on_replica=command.run if isinstance(command, Command) else None,
        on_session=command.run if isinstance(command, SessionCommand) else None,
        writes=bool(flags & {"write", "names_dots", "runs_script"}),
        is_limited=(bool(flags & {"write", "runs_script"}) and "despite_lag" not in flags)
        or command.name == b"exec",
        adds="denyoom" in flags,
        needs_auth="no_auth" not in flags,
        immediate="immediate" in flags,
        no_multi="no_multi" in flags,
        may_write=bool(flags & {"write", "may_replicate", "runs_script"}),
        fast="fast" in flags,
        # EXEC reports itself, after what it ran.  Redis's EVAL does, too, before.
        monitored="runs_script" in flags
        or (not flags & {"admin", "skip_monitor"} and command.name != b"exec"),
        slowlogged="skip_slowlog" not in flags,
        touches=touches_of(command.name),
        stats=stats,
        samples=stats.samples,
    )


def _unknown_command(argv: list[bytes]) -> CommandError:
    """Redis's words: the name and the arguments that fit into 128 bytes."""
    arguments = b""
    for argument in argv[1:]:
        left = SHOWN_BYTES_MAX - len(arguments)
        if left <= 0:
            break
        arguments += b"'%b' " % argument[:left]
    name = as_sent(argv[0][:SHOWN_BYTES_MAX])
    return CommandError(
        f"ERR unknown command '{name}', with args beginning with: {as_sent(arguments)}"
    )
