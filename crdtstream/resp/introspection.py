"""COMMAND: what commands there are, for clients that complete, hint and route."""

from collections.abc import Iterable
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR
from crdtstream.commands.command import Command
from crdtstream.commands.database import Database
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import CommandError, Null, Reply, RespMap, Status
from crdtstream.commands.session import RunSessionCommand, Session, SessionCommand
from crdtstream.core.ids import Millis
from crdtstream.resp.containers import container, help_reply

HELP: Final = (
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "LIST [FILTERBY PATTERN <pattern>]",
    "    Return a list of all commands in this server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple commands.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple commands.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "HELP",
    "    Print this help.",
)
# Flags of ours that Redis does not know.
PRIVATE_FLAGS: Final = frozenset({"immediate"})

AnyCommand = Command | SessionCommand


class Introspection:
    """COMMAND and its subcommands."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def commands(self) -> list[SessionCommand]:
        rows: tuple[tuple[bytes, RunSessionCommand, int, str], ...] = (
            (b"count", self._count, 2, "2.8.13"),
            (b"docs", self._docs, -2, "7.0.0"),
            (b"info", self._info, -2, "2.8.13"),
            (b"list", self._list, -2, "7.0.0"),
            (b"getkeys", self._getkeys, -3, "2.8.13"),
            (b"help", self._help, 2, "5.0.0"),
        )
        _, *subcommands = container(b"command", "server", "2.8.13", rows)
        summary = "Returns detailed information about all commands."
        flags = frozenset({"loading", "stale"})
        parent = SessionCommand(
            b"command", self._all, -1, flags, group="server", summary=summary, since="2.8.13"
        )
        return [parent, *subcommands]

    # --- Subcommands --------------------------------------------------------------------------

    def _all(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """COMMAND: all, as COMMAND INFO tells of each."""
        return [self._describe(command) for command in self._top_level()]

    def _count(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """COMMAND COUNT: how many there are."""
        return len(self._top_level())

    def _info(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND INFO [name …]: null for one that does not exist."""
        found = self._named(argv[2:]) if len(argv) > 2 else self._top_level()
        return [Null.ARRAY if command is None else self._describe(command) for command in found]

    def _docs(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND DOCS [name …]: those that do not exist are left out."""
        found = self._named(argv[2:]) if len(argv) > 2 else self._top_level()
        return RespMap(
            [(command.name, self._document(command)) for command in found if command is not None]
        )

    def _list(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND LIST [FILTERBY PATTERN pattern]."""
        names = [command.name for command in self._top_level()]
        match [argument.lower() for argument in argv[2:4]], argv[4:]:
            case [], []:
                return list(names)
            case [b"filterby", b"pattern"], [pattern]:
                glob = compile_glob(pattern.lower())
                return [name for name in names if glob(name)]
            case [b"filterby", b"aclcat" | b"module"], [_]:
                return []
            case _:
                raise CommandError(SYNTAX_ERROR)

    def _getkeys(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND GETKEYS command argument …: which of the arguments are keys."""
        command = self._database.commands.get(argv[2].lower())
        if command is None:
            raise CommandError("ERR Invalid command specified")
        arguments = argv[2:]
        arity = command.arity
        if len(arguments) != arity and (arity >= 0 or len(arguments) < -arity):
            raise CommandError("ERR Invalid number of arguments specified for command")
        keys = keys_of(command, arguments)
        if not keys:
            raise CommandError("ERR The command has no key arguments")
        return list(keys)

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """COMMAND HELP."""
        return help_reply(HELP)

    # --- What is said of one ------------------------------------------------------------------

    def _top_level(self) -> list[AnyCommand]:
        commands = self._database.commands
        return [commands[name] for name in sorted(commands) if b"|" not in name]

    def _named(self, names: Iterable[bytes]) -> list[AnyCommand | None]:
        return [self._database.commands.get(name.lower()) for name in names]

    def _subcommands(self, command: AnyCommand) -> list[AnyCommand]:
        prefix = command.name + b"|"
        commands = self._database.commands
        return [commands[name] for name in sorted(commands) if name.startswith(prefix)]

    def _describe(self, command: AnyCommand) -> Reply:
        """Name, arity, flags, key positions, ACL categories, tips, key specs, subcommands."""
        flags = sorted(command.flags - PRIVATE_FLAGS)
        categories = [f"@{flag}" for flag in flags if flag in ("write", "fast", "blocking")]
        categories += ["@read"] * ("readonly" in flags) + ["@slow"] * ("fast" not in flags)
        categories += [f"@{command.group}"]
        return [
            command.name,
            command.arity,
            [Status(flag.encode()) for flag in flags],
            command.first_key,
            command.last_key,
            command.key_step,
            [Status(category.encode()) for category in categories],
            [],
            [],
            [self._describe(sub) for sub in self._subcommands(command)],
        ]

    def _document(self, command: AnyCommand) -> Reply:
        pairs: list[tuple[Reply, Reply]] = [
            (b"summary", command.summary.encode()),
            (b"since", command.since.encode()),
            (b"group", command.group.encode()),
        ]
        subcommands = self._subcommands(command)
        if subcommands:
            documents = [(sub.name, self._document(sub)) for sub in subcommands]
            pairs.append((b"subcommands", RespMap([*documents])))
        return RespMap(pairs)


def keys_of(command: AnyCommand, argv: list[bytes]) -> list[bytes]:
    """The keys among a command's arguments; a command that says STREAMS has them after it."""
    if "movablekeys" in command.flags:
        words = [word.lower() for word in argv]
        if b"streams" not in words:
            return []
        rest = argv[words.index(b"streams") + 1 :]
        return rest[: len(rest) // 2]
    if not command.first_key:
        return []
    last = command.last_key if command.last_key >= 0 else len(argv) + command.last_key
    return argv[command.first_key : last + 1 : command.key_step]
