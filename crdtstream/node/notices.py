"""Notices at the start of a node: what its settings make dangerous, or cannot have."""

import os
from pathlib import Path
from typing import Final

import structlog

from crdtstream.machine.open_files import FILES_SPARE, allow_clients
from crdtstream.secrets.private_files import others_may_enter
from crdtstream.secrets.secret_files import others_may_read
from crdtstream.settings.addresses import is_loopback
from crdtstream.settings.node_settings import ENV_PREFIX, NodeSettings

PASSWORD_VARIABLE: Final = f"{ENV_PREFIX}REQUIREPASS"

logger = structlog.get_logger(__name__)


def tell_drill(settings: NodeSettings) -> None:
    """Warn of what a rehearsal makes wrong with this node."""
    drill = settings.drill
    if drill.clock_offset_ms:
        logger.warning(
            "rehearsal: this node's clock is wrong on purpose (drill.clock_offset_ms)",
            region=settings.region,
            offset_ms=drill.clock_offset_ms,
        )
    if drill.failpoint:
        logger.warning(
            "rehearsal: this node dies, or its disk refuses, on purpose (drill.failpoint)",
            region=settings.region,
            failpoint=drill.failpoint,
        )


def tell_openness(settings: NodeSettings) -> None:
    """Warn of a port that peers share with strangers, and say which ports stay closed."""
    if not is_loopback(settings.grpc_host) and not settings.tls_replication:
        logger.warning(
            "peers are not authenticated, and their links not encrypted (insecure_peers): any"
            " program that reaches the gRPC port can pose as a region",
            region=settings.region,
            grpc=settings.grpc_address,
        )
    if not is_loopback(settings.host) and (
        is_loopback(settings.grpc_host) and is_loopback(settings.http_host)
    ):
        logger.info(
            "other machines reach the port for Redis clients only; grpc_host and http_host open the"
            " others",
            region=settings.region,
        )


def tell_readable_secrets(settings: NodeSettings, config_file: Path | None) -> None:
    """Warn of passwords that other users of this machine may read."""
    _tell_readable_password(settings, config_file)
    if settings.aclfile is not None and others_may_read(settings.aclfile):
        # A hash is no password, and tells whether a guess is one.
        logger.warning(
            "all users of this machine can read the passwords of users, or their hashes; chmod 600"
            " the file",
            region=settings.region,
            aclfile=str(settings.aclfile),
        )


def _tell_readable_password(settings: NodeSettings, config_file: Path | None) -> None:
    in_file = settings.requirepass_file
    if in_file is not None:
        if others_may_read(in_file):
            logger.warning(
                "all users of this machine can read the password; chmod 600 the file",
                region=settings.region,
                requirepass_file=str(in_file),
            )
    elif os.environ.get(PASSWORD_VARIABLE):
        logger.warning(
            f"the password is in the environment ({PASSWORD_VARIABLE}), which programs of this user"
            " can read and pass on; write it into a file, and name that by requirepass_file",
            region=settings.region,
        )
    elif settings.requirepass and config_file is not None and others_may_read(config_file):
        logger.warning(
            "all users of this machine can read the settings, which have the password; chmod 600"
            " the file, or set requirepass_file",
            region=settings.region,
            config=str(config_file),
        )


def tell_open_folder(settings: NodeSettings) -> None:
    """Warn of a folder that other users of this machine may read."""
    if others_may_enter(settings.dir):
        logger.warning(
            "all users of this machine can open the folder of this region, which has all entries;"
            " chmod 700 it",
            region=settings.region,
            dir=str(settings.dir),
        )


def with_files_for_clients(settings: NodeSettings) -> NodeSettings:
    """Settings with as many clients as this process may open files for, as Redis does it."""
    wanted = settings.limits.clients_max
    allowed = allow_clients(wanted)
    if allowed == wanted:
        return settings
    logger.warning(
        "clients_max is lowered to what this process may open files for; raise the hard limit of "
        "open files (ulimit -Hn, LimitNOFILE in systemd), or set limits.clients_max",
        region=settings.region,
        clients_max=allowed,
        wanted=wanted,
        files_wanted=wanted + FILES_SPARE,
    )
    limits = settings.limits.model_copy(update={"clients_max": allowed})
    return settings.model_copy(update={"limits": limits})
