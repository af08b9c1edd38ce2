"""Addresses of a node: its ports by default, and hosts that only this machine reaches."""

import ipaddress
from typing import Final

HOST_DEFAULT: Final = "127.0.0.1"
# Hosts at which the default of the other ports is reached as well.
ONLY_HERE: Final = frozenset({HOST_DEFAULT, "localhost"})
# Hosts of a port that listens at every address of the machine.
WILDCARDS: Final = ("0.0.0.0", "::", "[::]")  # noqa: S104 - compared, not listened on

# Region r listens on base + r; `crdtstream up --base-port P` moves all three with P.
RESP_PORT_BASE: Final = 6380
GRPC_PORT_BASE: Final = 7380
HTTP_PORT_BASE: Final = 8380


def endpoint(host: str, port: int) -> str:
    """host:port, with brackets around the address of IPv6."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def address_at(host: str, address: str) -> str:
    """An address; of a node that listens everywhere, at the host by which others know it."""
    own_host, _, port = address.rpartition(":")
    return f"{host}:{port}" if own_host in WILDCARDS else address


def is_loopback(host: str) -> bool:
    """True if only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        ip = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    # Not every Python counts the IPv4 address that one of IPv6 may hold as loopback.
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback
