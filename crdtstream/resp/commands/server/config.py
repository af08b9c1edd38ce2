"""CONFIG: the node's parameters under Redis's names.

A SET holds until the node stops; REWRITE writes the values that were set into the configuration
file.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from crdtstream.commands.arguments import as_sent, shown
from crdtstream.commands.command import documented
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import OK, CommandError, Reply, RespMap
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.resp.commands.server.rewriting import RewriteError, rewrite_file
from crdtstream.resp.commands.server.values import BadValueError, Parameter, Together

HELP: Final = (
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
    "HELP",
    "    Print this help.",
)
NO_FILE: Final = "ERR The server is running without a config file"


class Config:
    """CONFIG and its subcommands.

    Args:
        parameters: by name.
        file: where the settings came from; None: from no file.
        reset_counters: lets the counters of INFO begin at 0.
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        *,
        file: Path | None,
        reset_counters: Callable[[], None],
    ) -> None:
        self._parameters = parameters
        self._file = file
        self._reset_counters = reset_counters
        # Parameters that CONFIG SET changed and REWRITE has not written yet.
        self._changed: set[str] = set()

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"config|get": self._get,
            b"config|set": self._set,
            b"config|resetstat": self._resetstat,
            b"config|rewrite": self._rewrite,
            b"config|help": self._help,
        }
        return documented(SessionCommand, functions)

    def _get(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CONFIG GET pattern …: each parameter once, by name."""
        globs = [compile_glob(pattern.lower()) for pattern in argv[2:]]
        names = [
            name for name in sorted(self._parameters) if any(glob(name.encode()) for glob in globs)
        ]
        return RespMap([(name.encode(), self._parameters[name].get().encode()) for name in names])

    def _set(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CONFIG SET name value …: all, or none and an error that names the one at fault."""
        if len(argv) % 2:
            raise CommandError("ERR syntax error")
        changes: dict[str, Callable[[], None]] = {}
        together: dict[Together, dict[str, str]] = {}
        for name_given, value in zip(argv[2::2], argv[3::2], strict=True):
            name = shown(name_given).lower()
            parameter = self._parameters.get(name)
            if parameter is None:
                raise CommandError(
                    "ERR Unknown option or number of arguments for CONFIG SET - "
                    f"'{as_sent(name_given)}'"
                )
            try:
                if parameter.check is None:
                    raise BadValueError("can't set immutable config")
                if name in changes:
                    raise BadValueError("duplicate parameter")
                if parameter.is_exact and shown(value).encode() != value:
                    raise BadValueError("argument must be UTF-8")
                changes[name] = parameter.check(shown(value))
                if parameter.together is not None:
                    together.setdefault(parameter.together, {})[name] = shown(value)
            except BadValueError as reason:
                raise _failed(name, reason) from None
        wholes = [_checked(group, texts) for group, texts in together.items()]
        for change in (*changes.values(), *wholes):
            change()
        self._changed |= changes.keys()
        return OK

    def _resetstat(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """CONFIG RESETSTAT: the counters of INFO begin at 0 again."""
        self._reset_counters()
        return OK

    def _rewrite(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """CONFIG REWRITE: put what CONFIG SET changed into the file that the node was started
        from; everything else in it stays as it is.  It reads and writes one small file."""
        if self._file is None:
            raise CommandError(NO_FILE)
        values: dict[str, int | str] = {}
        for name in sorted(self._changed):
            parameter = self._parameters[name]
            if parameter.setting is not None and parameter.setting_value is not None:
                values[parameter.setting] = parameter.setting_value()
            if parameter.further_settings is not None:
                values |= parameter.further_settings()
        try:
            rewrite_file(self._file, values)
        except RewriteError as error:
            raise CommandError(f"ERR Rewriting config file: {error}") from error
        self._changed.clear()
        return OK

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """CONFIG HELP."""
        return help_reply(HELP)


def _checked(group: Together, texts: Mapping[str, str]) -> Callable[[], None]:
    try:
        return group.check(texts)
    except BadValueError as reason:
        raise _failed(next(iter(texts)), reason) from None


def _failed(name: str, reason: BadValueError) -> CommandError:
    return CommandError(f"ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
