"""Connecting to a region node: channels, credentials, errors."""

import base64
from pathlib import Path
from typing import Final

import grpc

from crdtstream.spark.options import Security

# Metadata of a call: the identity of the database that it speaks of.
DATABASE_KEY: Final = "crdtstream-database"

_CHANNEL_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    # Each object its own connection: one that just failed is not waited for.
    ("grpc.use_local_subchannel_pool", 1),
    # Pieces are far smaller; a list of streams' descriptions or a plan may be larger.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Time for one attempt to connect, and until the next one follows.
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A node that vanished without a word is noticed, also while a slow reader asks for nothing.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
)


class NodesError(Exception):
    """The nodes did not do what they were asked.  The text says what to do next."""


class UnansweredError(NodesError):
    """No node did what was asked within ``failoverSeconds``."""


class StaleAppendError(NodesError):
    """An append of a batch that is long committed: the task was overtaken, nothing was done."""


class DataLossError(NodesError):
    """Entries were trimmed before they were read, or what was read exists in no region any more."""


class OtherDatabaseError(NodesError):
    """A node belongs to another database than the one that is meant."""


class UnnamedDatabaseError(NodesError):
    """A node does not know yet to which database it belongs; the text is its reason."""


def credentials_of(security: Security) -> tuple[tuple[str, str], ...]:
    """Metadata of a call with the credentials; none without a password."""
    if not security.password:
        return ()
    pair = f"{security.user or 'default'}:{security.password}".encode()
    return (("authorization", f"Basic {base64.b64encode(pair).decode()}"),)


def channel_to(address: str, security: Security) -> grpc.Channel:
    """
    Raises:
        NodesError: a certificate or key cannot be read.
    """
    if not security.tls:
        return grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_file(security.tls_ca_cert_file, "tlsCaCertFile"),
        private_key=_file(security.tls_key_file, "tlsKeyFile"),
        certificate_chain=_file(security.tls_cert_file, "tlsCertFile"),
    )
    return grpc.secure_channel(address, credentials, options=_CHANNEL_OPTIONS)


def _file(path: str, option: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NodesError(
            f"{option}={path!r}: {error.strerror}; every machine that runs tasks needs this file"
        ) from error
