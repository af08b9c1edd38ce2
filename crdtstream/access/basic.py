"""User and password as calls and requests carry them: ``Authorization: Basic``, RFC 7617."""

import base64
import binascii
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    # Programs without certificates start faster without it.
    from crdtstream.certificates.node_files import CertificateSet

DEFAULT_USER: Final = "default"
REGION_USER: Final = "region"
HEADER: Final = "authorization"

Metadata: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Login:
    """User and password that a program presents, and its certificate.

    Attributes:
        password: empty: it presents none.
        certificates: for mutual TLS; they name a holder.  None: its connections are plain.
    """

    password: str = field(default="", repr=False)
    user: str = DEFAULT_USER
    certificates: "CertificateSet | None" = field(default=None, repr=False)

    @property
    def metadata(self) -> Metadata:
        """Metadata of a gRPC call; none without a password."""
        return ((HEADER, self.header),) if self.password else ()

    @property
    def header(self) -> str:
        """Value of the header."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


NO_LOGIN: Final = Login()


def login_of_region(requirepass: str, database_id: str) -> Login:
    """The login that a region presents to another one; none without a password.

    It is derived from the password, which is never sent: the address of a region is learned from
    others, and may be anybody's.  It opens nothing but what regions call of each other.
    """
    if not requirepass:
        return NO_LOGIN
    text = f"crdtstream: a region of {database_id}"
    return Login(hmac.new(requirepass.encode(), text.encode(), "sha256").hexdigest(), REGION_USER)


# In the place of several headers: none of the kind Basic, so it is wrong at every port.
_SEVERAL: Final = b"several"


def single_header(values: Sequence[str | bytes]) -> bytes:
    """The value of the header in a call or request; empty if there is none.

    Two of them are a wrong login: a proxy may check one, and a server another.
    """
    if not values:
        return b""
    if len(values) > 1:
        return _SEVERAL
    value = values[0]
    return value.encode("latin-1", "replace") if isinstance(value, str) else value


def decode_basic(header: bytes) -> tuple[bytes, bytes] | None:
    """User and password in the value of a header; None if it is not of the kind Basic."""
    kind, _, token = header.partition(b" ")
    if kind.lower() != b"basic":
        return None
    try:
        user, colon, password = base64.b64decode(token.strip(), validate=True).partition(b":")
    except binascii.Error:
        return None
    return (user, password) if colon else None
