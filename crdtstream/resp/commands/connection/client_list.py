"""The lines of CLIENT LIST, and the filters that choose among clients."""

from collections.abc import Callable
from typing import Final

from crdtstream.commands.arguments import I64_MAX, SYNTAX_ERROR, as_sent, integer, parse_i64, shown
from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import Millis
from crdtstream.database.acl.users import Users
from crdtstream.database.database import Database
from crdtstream.database.listening import Kind
from crdtstream.resp.clients.connection import Connection

CLIENT_TYPES: Final = frozenset({b"normal", b"master", b"replica", b"slave", b"pubsub"})

Filter = Callable[[Connection], bool]


def describe(database: Database, connection: Connection, now: Millis, *, is_monitor: bool) -> bytes:
    """One line of CLIENT LIST; the fields are Redis's, those without meaning here are 0."""
    session = connection.session
    names = {kind: database.channels.name_count(session, kind) for kind in Kind}
    states = {
        "O": is_monitor,
        "P": session.subscriptions > 0,
        "x": session.queue is not None,
        "b": database.is_waiting(session) or connection.is_postponed,
        "d": session.dirty,
        "e": connection.no_evict,
        "T": connection.no_touch,
    }
    flags = "".join(flag for flag, is_so in states.items() if is_so)
    pairs = (
        ("id", session.id),
        ("addr", connection.address),
        ("laddr", connection.local_address),
        ("fd", connection.fd),
        ("name", shown(session.name)),
        ("age", max(0, now - connection.connected_ms) // 1000),
        ("idle", max(0, now - connection.active_ms) // 1000),
        ("flags", flags or "N"),
        ("db", 0),
        ("sub", names[Kind.CHANNEL]),
        ("psub", names[Kind.PATTERN]),
        ("ssub", names[Kind.SHARD]),
        ("multi", -1 if session.queue is None else len(session.queue)),
        ("watch", len(session.watched)),
        ("qbuf", connection.held_bytes),
        ("qbuf-free", 0),
        ("argv-mem", 0),
        ("multi-mem", session.queue_bytes),
        ("rbs", 0),
        ("rbp", 0),
        ("obl", 0),
        ("oll", 0),
        ("omem", connection.unsent_bytes),
        ("tot-mem", connection.memory_bytes),
        ("events", "r"),
        ("cmd", shown(session.last_command)),
        ("user", shown(session.user.name)),
        ("redir", -1),
        ("resp", session.protocol),
        ("lib-name", shown(session.library.get(b"lib-name", b""))),
        ("lib-ver", shown(session.library.get(b"lib-ver", b""))),
        ("io-thread", 0),
        ("tot-net-in", connection.bytes_in),
        ("tot-net-out", connection.bytes_out),
        ("tot-cmds", connection.commands),
    )
    return " ".join(f"{name}={value}" for name, value in pairs).encode()


def _client_id(text: bytes) -> int:
    client_id = parse_i64(text)
    if client_id is None or not 0 < client_id <= I64_MAX:
        raise CommandError("ERR Invalid client ID")
    return client_id


def of_ids(texts: list[bytes]) -> Filter:
    ids = {_client_id(text) for text in texts}
    return lambda connection: connection.session.id in ids


def of_type(text: bytes) -> Filter:
    kind = text.lower()
    if kind not in CLIENT_TYPES:
        raise CommandError(f"ERR Unknown client type '{as_sent(text)}'")
    return lambda connection: kind == (b"pubsub" if connection.session.subscriptions else b"normal")


def kill_filter(option: bytes, value: bytes, now: Millis, users: Users) -> Filter:
    """One filter of CLIENT KILL.

    Raises:
        CommandError: there is no such filter, or it does not take this value.
    """
    text = shown(value)
    match option:
        case b"id":
            client_id = parse_i64(value)
            if client_id is None or client_id <= 0:
                raise CommandError("ERR client-id should be greater than 0")
            return lambda connection: connection.session.id == client_id
        case b"addr":
            return lambda connection: connection.address == text
        case b"laddr":
            return lambda connection: connection.local_address == text
        case b"type":
            return of_type(value)
        case b"user":
            user = users.get(value)
            if user is None:
                raise CommandError(f"ERR No such user '{text}'")
            return lambda connection: connection.session.user is user
        case b"maxage":
            seconds = integer(value, error="ERR maxage is not an integer or out of range")
            if seconds <= 0:
                raise CommandError("ERR maxage should be greater than 0")
            return lambda connection: (now - connection.connected_ms) // 1000 >= seconds
        case _:
            raise CommandError(SYNTAX_ERROR)
