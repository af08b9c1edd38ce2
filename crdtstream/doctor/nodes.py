"""Status and INFO of the nodes that answer."""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from crdtstream.access.basic import Login
from crdtstream.admin.client import Survey
from crdtstream.scenario.connection import Connection, ConnectionClosedError
from crdtstream.scenario.replies import ErrorReply
from crdtstream.v1 import admin_pb2

# Fields of the status that are not shown.  A test sees that each field stands in one of both.
HIDDEN: Final[Mapping[str, str]] = {
    "certificate_serial": "names a certificate",
    "histories": "bytes for programs",
    "incarnations": "bytes for programs",
    "password_mark": "tells something of a password",
    "streams": "names keys and groups",
    "users_hash": "tells something of passwords",
}
SHOWN: Final = frozenset(
    {
        *("ack_effects_issued", "acks_by_clients", "bootstrap", "clients", "cuts", "database_id"),
        *("database_uid", "digest", "durable_token", "durable_vv", "effects_issued", "fault"),
        *("grpc_address", "http_address", "http_tls", "inbox_batches", "inbox_bytes"),
        *("incarnation", "keys", "lacks_votes", "leaving", "links", "log_bytes", "machine"),
        *("member_status", "now_ms", "pid", "region", "resp_address", "resp_tls", "started_ms"),
        *("storage", "token", "tunables", "users_epoch", "version", "vv"),
    }
)
INFO_SECONDS_MAX: Final = 10.0


def status_of(reply: admin_pb2.StatusReply) -> dict[str, Any]:
    """The shown fields of a status."""
    return {
        field.name: _plain_field(field, getattr(reply, field.name))
        for field in reply.DESCRIPTOR.fields
        if field.name in SHOWN
    }


def _plain_field(field: Any, value: Any) -> Any:
    if field.is_repeated:
        return [_plain(field, one) for one in value]
    return _plain(field, value)


def _plain(field: Any, value: Any) -> Any:
    match value:
        case Message():
            return {
                one.name: _plain_field(one, getattr(value, one.name))
                for one in value.DESCRIPTOR.fields
            }
        case bytes():
            return value.hex()
        case int() if field.enum_type is not None:
            return field.enum_type.values_by_number[value].name.lower()
    return value


def info_of(reply: admin_pb2.StatusReply, login: Login) -> dict[str, str]:
    """INFO of a node, by name.

    Raises:
        ConnectionClosedError: the node does not answer, or not this login.
    """
    connection = Connection(reply.resp_address, tls=reply.resp_tls, login=login)
    try:
        connection.send((b"INFO", b"everything"))
        answer = connection.read(seconds_max=INFO_SECONDS_MAX)
    finally:
        connection.close()
    if isinstance(answer, ErrorReply):
        raise ConnectionClosedError(f"{reply.resp_address}: {answer.text}")
    if not isinstance(answer, bytes):
        raise ConnectionClosedError(f"{reply.resp_address}: no answer to INFO")
    lines = answer.decode("utf-8", "replace").splitlines()
    pairs = (line.partition(":") for line in lines if not line.startswith("#") and ":" in line)
    return {name: value for name, _, value in pairs}


def regions_of(found: Survey, left_out: list[str]) -> dict[str, Any]:
    """The regions that answer; the others are said to be left out."""
    regions: dict[str, Any] = {}
    for region, reply in found.replies.items():
        regions[str(region)] = about = {"status": status_of(reply), "info": None}
        try:
            about["info"] = info_of(reply, found.login)
        except ConnectionClosedError as error:
            left_out.append(f"INFO of region {region}: {error}")
    left_out += [f"status: {why}" for why in found.unreachable.values()]
    return regions
