"""COMMAND: describes all commands, for clients that complete, hint and route.

It returns what a command's page in the manual says.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, shown
from crdtstream.commands.command import documented
from crdtstream.commands.documentation.key_specs import KeySpec, flags_in, key_range
from crdtstream.commands.documentation.manual import pages
from crdtstream.commands.documentation.pages import Page
from crdtstream.commands.documentation.syntax import Argument
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import CommandError, Reply, RespMap, RespSet, Status
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.dispatch import AnyCommand
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand

HELP: Final = (
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "LIST [FILTERBY (MODULE <module-name>|ACLCAT <category>|PATTERN <pattern>)]",
    "    Return the names of all commands in this server, or of some.",
    "INFO [<command-name> ...]",
    "    Return details about multiple commands, or about all.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple commands, or about all.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys from a full command, and what it does to them.",
    "HELP",
    "    Print this help.",
)


class Introspection:
    """COMMAND and its subcommands.

    Args:
        commands: every command by name; complete when the first client comes.
    """

    def __init__(self, commands: Mapping[bytes, AnyCommand]) -> None:
        self._commands = commands

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"command": self._all,
            b"command|count": self._count,
            b"command|docs": self._docs,
            b"command|info": self._info,
            b"command|list": self._list,
            b"command|getkeys": self._getkeys,
            b"command|getkeysandflags": self._getkeysandflags,
            b"command|help": self._help,
        }
        return documented(SessionCommand, functions)

    # --- Subcommands --------------------------------------------------------------------------

    def _all(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """COMMAND: all commands, each as COMMAND INFO describes it."""
        return [self._describe(command) for command in self._top_level()]

    def _count(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """COMMAND COUNT: how many there are, without subcommands."""
        return len(self._top_level())

    def _info(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND INFO [name …]: null for one that does not exist."""
        found = self._named(argv[2:]) if len(argv) > 2 else self._top_level()
        return [None if command is None else self._describe(command) for command in found]

    def _docs(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND DOCS [name …]: those that do not exist are left out."""
        found = self._named(argv[2:]) if len(argv) > 2 else self._top_level()
        return RespMap(
            [(command.name, self._document(command)) for command in found if command is not None]
        )

    def _list(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND LIST [FILTERBY …]: names, those of subcommands too."""
        match [argument.lower() for argument in argv[2:4]], argv[4:]:
            case [], []:
                return [*self._known]
            case [b"filterby", b"pattern"], [pattern]:
                matches = compile_glob(pattern.lower())
                return [name for name in self._known if matches(name)]
            case [b"filterby", b"aclcat"], [category]:
                wanted = shown(category).lower()
                return [name for name in self._known if wanted in _page(name).categories]
            case [b"filterby", b"module"], [_]:
                return []
            case _:
                raise CommandError(SYNTAX_ERROR)

    def _getkeys(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND GETKEYS command argument …: which of the arguments are keys."""
        return [key for key, _ in self._keys(argv[2:])]

    def _getkeysandflags(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """COMMAND GETKEYSANDFLAGS command argument …: and what the command does to them."""
        return [[key, _statuses(flags_in(spec, argv[2:]))] for key, spec in self._keys(argv[2:])]

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """COMMAND HELP."""
        return help_reply(HELP)

    # --- Looking up ---------------------------------------------------------------------------

    @cached_property
    def _known(self) -> dict[bytes, AnyCommand]:
        """Commands that have a page, by name, subcommands too."""
        commands = self._commands
        return {name: commands[name] for name in sorted(commands) if name.decode() in pages()}

    @cached_property
    def _subcommands(self) -> dict[bytes, list[AnyCommand]]:
        found: dict[bytes, list[AnyCommand]] = {}
        for name, command in self._known.items():
            parent, bar, _ = name.partition(b"|")
            if bar:
                found.setdefault(parent, []).append(command)
        return found

    def _top_level(self) -> list[AnyCommand]:
        return [command for name, command in self._known.items() if b"|" not in name]

    def _named(self, names: Iterable[bytes]) -> list[AnyCommand | None]:
        return [self._known.get(name.lower()) for name in names]

    def _called(self, argv: list[bytes]) -> AnyCommand | None:
        """The command, or subcommand, that such a request would run."""
        name = argv[0].lower()
        if b"|" in name:
            return None
        if name in self._subcommands and len(argv) > 1:
            name += b"|" + argv[1].lower()
        return self._known.get(name)

    def _keys(self, argv: list[bytes]) -> list[tuple[bytes, KeySpec]]:
        """The keys of a request.  Raises what Redis answers where there are none."""
        command = self._called(argv)
        if command is None:
            raise CommandError("ERR Invalid command specified")
        specs = [spec for spec in _page(command.name).key_specs if spec.finds_keys]
        if not specs:
            raise CommandError("ERR The command has no key arguments")
        arity = command.arity
        if len(argv) != arity and (arity >= 0 or len(argv) < -arity):
            raise CommandError("ERR Invalid number of arguments specified for command")
        found: list[tuple[bytes, KeySpec]] = []
        for spec in specs:
            keys = spec.find(argv)
            if not keys and "no_mandatory_keys" in _page(command.name).flags:
                continue
            if not keys:
                raise CommandError("ERR Invalid arguments specified for command")
            found += [(key, spec) for key in keys]
        return found

    # --- What is said of one ------------------------------------------------------------------

    def _describe(self, command: AnyCommand) -> Reply:
        """Name, arity, flags, key positions, ACL categories, tips, key specs, subcommands."""
        page = _page(command.name)
        return [
            command.name,
            command.arity,
            _statuses(page.flags),
            *key_range(page.key_specs),
            _statuses(f"@{category}" for category in page.categories),
            RespSet([tip.encode() for tip in page.tips]),
            RespSet([_key_spec(spec) for spec in page.key_specs]),
            [self._describe(one) for one in self._subcommands.get(command.name, ())],
        ]

    def _document(self, command: AnyCommand) -> Reply:
        page = _page(command.name)
        subcommands = self._subcommands.get(command.name, ())
        return _map(
            summary=page.summary,
            since=page.since,
            group=page.group,
            complexity=page.complexity,
            doc_flags=_statuses(page.doc_flags),
            deprecated_since=page.deprecated_since,
            replaced_by=page.replaced_by,
            history=RespSet([[at.encode(), change.encode()] for at, change in page.history]),
            arguments=[_argument(argument) for argument in page.arguments],
            subcommands=RespMap([(one.name, self._document(one)) for one in subcommands]),
        )


def _page(name: bytes) -> Page:
    return pages()[name.decode()]


def _argument(argument: Argument) -> Reply:
    return _map(
        name=argument.name,
        type=argument.type,
        display_text="" if argument.is_composed else argument.display or argument.name,
        key_spec_index=argument.key_spec,
        token=argument.token,
        since=argument.since,
        deprecated_since=argument.deprecated_since,
        flags=_statuses(argument.flags),
        arguments=[_argument(one) for one in argument.arguments],
    )


def _key_spec(spec: KeySpec) -> Reply:
    """Description of finding keys, in Redis's two steps: where they begin, and how far they go."""
    if spec.word:
        begin = _map(type="keyword", spec=_map(keyword=spec.word, startfrom=spec.start))
    else:
        begin = _map(type="index", spec=_map(index=spec.start))
    if spec.is_counted:
        find = _map(type="keynum", spec=_map(keynumidx=0, firstkey=1, keystep=spec.step))
    else:
        reach = _map(lastkey=spec.last, keystep=spec.step, limit=spec.share)
        find = _map(type="range", spec=reach)
    return _map(flags=_statuses(spec.flags), begin_search=begin, find_keys=find)


def _map(**fields: str | Reply) -> RespMap:
    """A map of the fields that say something."""
    return RespMap(
        [
            (name.encode(), value.encode() if isinstance(value, str) else value)
            for name, value in fields.items()
            if value not in _NOTHING
        ]
    )


def _statuses(words: Iterable[str]) -> RespSet:
    return RespSet([Status(word.encode()) for word in words])


_NOTHING: Final[tuple[str | Reply, ...]] = (None, "", [], RespSet([]), RespMap([]))
