"""Finding a request's command: the rows by name, by the spellings of clients, by subcommand."""

from collections.abc import Iterable
from typing import TypeAlias

from crdtstream.commands.arguments import shown
from crdtstream.commands.command import Command
from crdtstream.commands.reply import CommandError
from crdtstream.commands.subcommands import SHOWN_BYTES_MAX
from crdtstream.database.session import Row, SessionCommand
from crdtstream.database.statistics import CallStatistics, Statistics

AnyCommand: TypeAlias = Command | SessionCommand


class Dispatch:
    """The commands known.

    Attributes:
        commands: by lower-case name.
        spelled: their rows by the spellings that clients use, without containers: one look-up
            finds nearly every command.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self.commands: dict[bytes, AnyCommand] = {}
        self.spelled: dict[bytes, Row] = {}
        self._rows: dict[bytes, Row] = {}
        self._containers: set[bytes] = set()

    def register(self, commands: Iterable[AnyCommand]) -> None:
        """Make commands known; of two with one name the later counts."""
        for command in commands:
            self.commands[command.name] = command
            self._rows[command.name] = _row(command, self._statistics.of(command.name))
        self._containers = {name.partition(b"|")[0] for name in self._rows if b"|" in name}
        self.spelled = {
            spelling: row
            for name, row in self._rows.items()
            if b"|" not in name and name not in self._containers
            for spelling in (name, name.upper())
        }

    def find(self, argv: list[bytes]) -> Row | CommandError:
        """The command's row whatever its case, subcommands included; or what to answer."""
        name = argv[0].lower()
        if name in self._containers and len(argv) > 1:
            row = self._rows.get(name + b"|" + argv[1].lower())
            if row is not None:
                return row
            return CommandError(
                f"ERR unknown subcommand '{shown(argv[1][:SHOWN_BYTES_MAX])}'. "
                f"Try {shown(name).upper()} HELP."
            )
        row = self._rows.get(name)
        return row if row is not None and b"|" not in name else _unknown_command(argv)


def _row(command: AnyCommand, stats: CallStatistics) -> Row:
    flags = command.flags
    return Row(
        command.name,
        command.arity,
        on_replica=command.run if isinstance(command, Command) else None,
        on_session=command.run if isinstance(command, SessionCommand) else None,
        writes=bool(flags & {"write", "names_dots"}),
        needs_auth="no_auth" not in flags,
        immediate="immediate" in flags,
        no_multi="no_multi" in flags,
        may_write=bool(flags & {"write", "may_replicate"}),
        fast="fast" in flags,
        # EXEC tells of itself, after what it ran.
        monitored=not flags & {"admin", "skip_monitor"} and command.name != b"exec",
        slowlogged="skip_slowlog" not in flags,
        stats=stats,
        samples=stats.samples,
    )


def _unknown_command(argv: list[bytes]) -> CommandError:
    """Redis's words: the name and as many arguments as fit into 128 bytes."""
    arguments = ""
    for argument in argv[1:]:
        left = SHOWN_BYTES_MAX - len(arguments)
        if left <= 0:
            break
        arguments += f"'{shown(argument[:left])}' "
    name = shown(argv[0][:SHOWN_BYTES_MAX])
    return CommandError(f"ERR unknown command '{name}', with args beginning with: {arguments}")
