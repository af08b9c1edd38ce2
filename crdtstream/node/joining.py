"""``node --join``: a node with a token becomes the region that the token is for.

It gets a settings file of its own and an empty folder.  What it is told is written there again at
its first start (``Joined``).  Until then a file in the folder has its uid, so that the same command
can be repeated after a crash.
"""

import asyncio
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crdtstream.access.peer_calls import PLAIN_CALLS, PeerCalls
from crdtstream.access.probing import region_at
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.node_files import Paths
from crdtstream.certificates.watching import Certificates
from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import INSTANCE_BYTES, Contact, MembersError
from crdtstream.core.membership.encoding import Kept, decode_members
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.replication.membership_client import CALL_SECONDS_MAX, called
from crdtstream.secrets.private_files import FOLDER_MODE
from crdtstream.secrets.secret_files import SecretError, read_secret
from crdtstream.settings.addresses import (
    GRPC_PORT_BASE,
    HOST_DEFAULT,
    HTTP_PORT_BASE,
    RESP_PORT_BASE,
)
from crdtstream.settings.node_settings import NodeSettings, SettingsError, make_settings
from crdtstream.v1 import membership_pb2 as pb

# The uid of a folder whose node has not begun yet.
JOINING_FILE: Final = "joining"


@dataclass(frozen=True, slots=True)
class Joined:
    """Content for the folder of a node that joins."""

    database_uid: DatabaseUid
    kept: Kept


class JoinError(Exception):
    """The node cannot join; the text says why and what to do.  Nothing has changed."""


def is_joining(folder: Path) -> bool:
    """True if a node still has to join with this folder: it is empty, or a join began and did not
    get any further."""
    if not folder.exists() or (folder / JOINING_FILE).exists():
        return True
    return all(path.name.startswith(JOINING_FILE) for path in folder.iterdir())


def read_token(path: Path) -> bytes:
    """The secret of a token file.

    Raises:
        JoinError: it has none.
    """
    try:
        secret = bytes.fromhex(read_secret(path))
    except SecretError as error:
        raise JoinError(str(error)) from None
    except ValueError:
        raise JoinError(f"{path}: no token, which `crdtstream crdb add-instance` writes") from None
    return secret


async def join(
    address: str, secret: bytes, config: Path, folder: Path, tls: Paths | None = None
) -> Joined:
    """Ask a member for admission, and write the settings file.

    Args:
        address: host:port of a member's gRPC service.
        config: path of the settings; an existing file must say what would be written.
        folder: of the log; empty.
        tls: files of the region's certificate; None: the members speak no TLS.

    Raises:
        JoinError: it is not admitted, or a file cannot be written.
    """
    if not is_joining(folder):
        raise JoinError(f"{folder} is not empty; a node joins with an empty folder")
    # Before any member is asked: a token is bound to the first folder that shows it.
    _check_config(config, folder)
    instance = _instance(folder)
    try:
        calls, asked = await _way_to(address, tls)
        async with called(calls, address, asked) as stub:
            request = pb.JoinRequest(secret=secret, instance=instance)
            reply: pb.JoinReply = await stub.Join(request, timeout=CALL_SECONDS_MAX.value)
        members = decode_members(reply.members)
    except (MembersError, ContentError, CertificateError) as error:
        raise JoinError(str(error)) from error
    region = RegionId(reply.region)
    member = members.find(region)
    if member is None or len(reply.database_uid) != UID_BYTES:
        raise JoinError(f"{address} let this node in as region {region}, and names no such region")
    # The member that was asked does not name its own address, if it stands in the others' files.
    peers = {RegionId(one.region): one.address or address for one in reply.peers}
    text = settings_text(region, reply.database_id, member.contact, peers, folder, tls)
    # Of the others, changes of the members name the addresses.
    in_files = [one.region for one in members.regions if not one.contact.grpc]
    _write_settings(config, text, wanted={one: peers[one] for one in in_files if one in peers})
    return Joined(DatabaseUid(reply.database_uid), Kept(instance, members=members, secret=secret))


async def _way_to(address: str, tls: Paths | None) -> tuple[PeerCalls, RegionId | None]:
    """The way to a member, and the region that it is by its certificate.

    Raises:
        CertificateError: the files of this region cannot be used, or the member cannot be reached,
            or is no region of the same database.
    """
    if tls is None:
        return PLAIN_CALLS, None
    certificates = await Certificates.open(tls, Wanted())
    holder = certificates.current.holder
    assert holder is not None, "a certificate without a name would have been refused"
    if holder.region is None:
        raise CertificateError(
            f"{tls.certificate} is of {holder.title}; a node joins with the certificate of its"
            " region"
        )
    asked = await asyncio.to_thread(
        region_at, address, certificates.current, CALL_SECONDS_MAX.value
    )
    return PeerCalls(holder.database_id, certificates=certificates), asked


def settings_text(
    region: RegionId,
    database_id: str,
    contact: Contact,
    peers: Mapping[RegionId, str],
    folder: Path,
    tls: Paths | None = None,
) -> str:
    """Settings file of a region that joins: it listens where it is reached.

    Args:
        peers: active regions, and where this one reaches them.
    """
    host = contact.grpc.rpartition(":")[0].strip("[]")
    lines = [
        "# Written by `crdtstream node --join`.  Who is a member, and where, the folder knows;",
        "# [[peers]] are whom this node asks first.",
        f"region = {region}",
        f"database_id = {json.dumps(database_id)}",
        f"dir = {json.dumps(str(folder.absolute()))}",
        f"host = {json.dumps(host)}",
        f"grpc_host = {json.dumps(host)}",
        # Only if others were told of it is it for them.
        f"http_host = {json.dumps(host if contact.http else HOST_DEFAULT)}",
        f"resp_port = {_port(contact.resp, RESP_PORT_BASE + region)}",
        f"grpc_port = {_port(contact.grpc, GRPC_PORT_BASE + region)}",
        f"http_port = {_port(contact.http, HTTP_PORT_BASE + region)}",
    ]
    if tls is not None:
        files = {
            "tls_cert_file": tls.certificate,
            "tls_key_file": tls.key,
            "tls_key_file_pass_file": tls.key_password,
            "tls_ca_cert_file": tls.ca,
        }
        lines += [
            f"{key} = {json.dumps(str(path.absolute()))}"
            for key, path in files.items()
            if path is not None
        ]
        lines.append("tls_replication = true")
    return "\n".join([*lines, "", *_peer_lines(peers)]) + "\n"


def _peer_lines(peers: Mapping[RegionId, str]) -> list[str]:
    lines: list[str] = []
    for peer, address in sorted(peers.items()):
        lines += ["[[peers]]", f"region = {peer}", f"address = {json.dumps(address)}", ""]
    return lines[:-1]


def _port(address: str, default: int) -> int:
    return int(address.rpartition(":")[2]) if address else default


def _check_config(path: Path, folder: Path) -> None:
    """
    Raises:
        JoinError: the settings cannot be written there, or are of another node.
    """
    if not path.exists():
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise JoinError(f"{path} cannot be written; name a file in a folder that is there")
        return
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise JoinError(f"{path} is there and cannot be read: {error}") from error
    if found.get("dir") != str(folder.absolute()):
        raise JoinError(
            f"{path} is the file of region {found.get('region')}, with another folder; name a new"
            " file"
        )


def _write_settings(path: Path, text: str, *, wanted: Mapping[RegionId, str]) -> None:
    """Write the file; an existing one stays if it is of the same region.

    Args:
        wanted: regions whose addresses only files have; an existing one must name them.

    Raises:
        JoinError: it is of another one, or cannot be written, or a variable makes it wrong.
    """
    try:
        made = tomllib.loads(text)
        if path.exists():
            found = tomllib.loads(path.read_text(encoding="utf-8"))
            if found.get("region") != made["region"]:
                raise JoinError(
                    f"{path} is the file of region {found.get('region')}; name a new file for"
                    f" region {made['region']}"
                )
            named = {peer.region for peer in check_settings(found, path).peers}
            lacking = {one: address for one, address in wanted.items() if one not in named}
            if lacking:
                raise JoinError(
                    f"{path} has no address of region {', '.join(map(str, lacking))}, and no"
                    " change of the members named one; add\n\n" + "\n".join(_peer_lines(lacking))
                )
            return
        check_settings(made, path)
        _write_whole(path, text)
    except OSError as error:
        raise JoinError(f"{path} cannot be written: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise JoinError(f"{path} is no TOML: {error}") from error


def check_settings(given: dict[str, object], path: Path) -> NodeSettings:
    """The settings, with what the environment says.

    Raises:
        JoinError: they are wrong together.
    """
    try:
        return make_settings(given, source=str(path))
    except SettingsError as error:
        raise JoinError(
            f"{error}\nSet it by a variable (CRDTSTREAM_<KEY>=…, for example"
            " CRDTSTREAM_REQUIREPASS_FILE=… and CRDTSTREAM_INSECURE_PEERS=true), and run this again"
        ) from error


def _instance(folder: Path) -> bytes:
    """The uid of a folder that joins; made at the first attempt.

    Raises:
        JoinError: it cannot be written.
    """
    path = folder / JOINING_FILE
    try:
        folder.mkdir(FOLDER_MODE, exist_ok=True)
        if not path.exists():
            _write_whole(path, os.urandom(INSTANCE_BYTES).hex())
        instance = bytes.fromhex(path.read_text(encoding="ascii"))
    except OSError as error:
        raise JoinError(f"{path} cannot be written: {error.strerror}") from error
    except ValueError:
        instance = b""
    if len(instance) != INSTANCE_BYTES:
        raise JoinError(f"{path} is damaged; remove it, and add the region once more")
    return instance


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that a crash leaves all of it or nothing."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def note_joined(folder: Path) -> None:
    """Note that the folder has what it was told: the command is not needed any more."""
    (folder / JOINING_FILE).unlink(missing_ok=True)
