"""CONFIG GET and SET: the server's parameters under Redis's names.

What has no meaning here (maxmemory, save) stands there with the value that tells the truth, as
clients ask for it.  A SET counts until the node stops, as without CONFIG REWRITE in Redis.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from crdtstream.commands.arguments import parse_i64, shown
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import OK, CommandError, Reply, RespMap
from crdtstream.commands.session import RunSessionCommand, Session, SessionCommand
from crdtstream.core.ids import IdMode, Millis
from crdtstream.resp.containers import container, help_reply

if TYPE_CHECKING:
    from crdtstream.resp.server import RespServer

HELP: Final = (
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "HELP",
    "    Print this help.",
)
I32_MAX: Final = (1 << 31) - 1


# A text to the change that it asks for.
Check: TypeAlias = Callable[[str], Callable[[], None]]


class BadValueError(Exception):
    """A value that a parameter does not take; the text is Redis's reason."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of CONFIG GET.

    Attributes:
        get: the value.
        check: turns a text into what ``set`` takes, or raises BadValueError; None: it cannot be
            changed while the server runs.
    """

    get: Callable[[], str]
    check: Check | None = None


class Config:
    """CONFIG, and the parameters for whoever else wants them."""

    def __init__(self, server: "RespServer") -> None:
        self._server = server
        self._parameters = self._make_parameters()

    def commands(self) -> list[SessionCommand]:
        rows: tuple[tuple[bytes, RunSessionCommand, int, str], ...] = (
            (b"get", self._get, -3, "2.0.0"),
            (b"set", self._set, -4, "2.0.0"),
            (b"resetstat", self._resetstat, 2, "2.0.0"),
            (b"rewrite", self._rewrite, 2, "2.8.0"),
            (b"help", self._help, 2, "5.0.0"),
        )
        return container(b"config", "server", "2.0.0", rows)

    # --- Subcommands --------------------------------------------------------------------------

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
            raise CommandError("ERR wrong number of arguments for 'config|set' command")
        changes: dict[str, Callable[[], None]] = {}
        for name_given, value in zip(argv[2::2], argv[3::2], strict=True):
            name = shown(name_given).lower()
            parameter = self._parameters.get(name)
            if parameter is None:
                raise CommandError(
                    "ERR Unknown option or number of arguments for CONFIG SET - "
                    f"'{shown(name_given)}'"
                )
            try:
                if parameter.check is None:
                    raise BadValueError("can't set immutable config")
                if name in changes:
                    raise BadValueError("duplicate parameter")
                changes[name] = parameter.check(shown(value))
            except BadValueError as reason:
                raise CommandError(
                    f"ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
                ) from None
        for change in changes.values():
            change()
        return OK

    def _resetstat(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """CONFIG RESETSTAT: the counters of INFO stats begin at 0 again."""
        self._server.reset_counters()
        return OK

    def _rewrite(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """CONFIG REWRITE is refused: the file is the operator's."""
        raise CommandError(
            "ERR CONFIG REWRITE is not supported; put the value into the node's configuration file"
        )

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """CONFIG HELP."""
        return help_reply(HELP)

    # --- Parameters ---------------------------------------------------------------------------

    def _make_parameters(self) -> dict[str, Parameter]:
        server = self._server
        settings, replica = server.settings, server.engine.replica
        limits, nodes = settings.limits, replica.node_limits

        def set_clients_max(value: int) -> None:
            server.limits = replace(server.limits, clients_max=value)

        def set_entries_max(value: int) -> None:
            nodes.entries_max = value

        def set_bytes_max(value: int) -> None:
            nodes.bytes_max = value

        def set_id_mode(value: str) -> None:
            replica.id_mode = IdMode(value)

        def set_mkstream(value: str) -> None:
            replica.implicit_mkstream = value == "implicit"

        return {
            "appendfsync": Parameter(lambda: settings.appendfsync),
            "appendonly": _only("yes"),
            "bind": Parameter(lambda: settings.host),
            "client-output-buffer-limit": Parameter(
                lambda: f"normal {limits.output_buffer_bytes_max} 0 0"
            ),
            "client-query-buffer-limit": Parameter(lambda: str(limits.query_buffer_bytes_max)),
            "crdt_region": Parameter(lambda: str(settings.region)),
            "crdt_xadd_id_uniqueness_mode": Parameter(
                lambda: replica.id_mode.value, _one_of([mode.value for mode in IdMode], set_id_mode)
            ),
            "crdt_xgroup_create_mkstream": Parameter(
                lambda: "implicit" if replica.implicit_mkstream else "explicit",
                _one_of(["explicit", "implicit"], set_mkstream),
            ),
            "databases": Parameter(lambda: "1"),
            "dir": Parameter(lambda: str(settings.dir)),
            "io-threads": Parameter(lambda: "1"),
            "maxclients": Parameter(
                lambda: str(server.limits.clients_max), _number(1, I32_MAX, set_clients_max)
            ),
            "maxmemory": _only("0"),
            "maxmemory-policy": _only("noeviction"),
            "port": Parameter(lambda: str(server.port)),
            "proto-max-bulk-len": Parameter(lambda: str(limits.request_bytes_max)),
            "save": _only(""),
            "stream-node-max-bytes": Parameter(
                lambda: str(nodes.bytes_max), _number(0, I32_MAX, set_bytes_max)
            ),
            "stream-node-max-entries": Parameter(
                lambda: str(nodes.entries_max), _number(0, I32_MAX, set_entries_max)
            ),
            "timeout": _only("0"),
        }


def _only(value: str) -> Parameter:
    """A parameter that may be set to what it is."""
    return Parameter(lambda: value, _one_of([value], lambda _value: None))


def _one_of(values: list[str], change: Callable[[str], None]) -> Check:
    def check(text: str) -> Callable[[], None]:
        if text.lower() not in values:
            words = ", ".join(value or '""' for value in values)
            raise BadValueError(f"argument(s) must be one of the following: {words}")
        return lambda: change(text.lower())

    return check


def _number(least: int, most: int, change: Callable[[int], None]) -> Check:
    def check(text: str) -> Callable[[], None]:
        value = parse_i64(text.encode())
        if value is None:
            raise BadValueError("argument couldn't be parsed into an integer")
        if not least <= value <= most:
            raise BadValueError(f"argument must be between {least} and {most} inclusive")
        return lambda: change(value)

    return check
