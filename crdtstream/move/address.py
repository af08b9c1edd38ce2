"""The address of an end: a URL as Redis clients take it, and the login beside it.

redis://[user[:password]@]host[:port][/database]      rediss:// with TLS
valkey://, valkeys://                                 the same
unix:///path/of/socket
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from crdtstream.move.errors import MoveError

PORT_DEFAULT: Final = 6379
_SCHEMES: Final = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}


@dataclass(frozen=True, slots=True)
class Address:
    """An end of a move.

    Attributes:
        host: name or IP address; of a socket file its path.
        port: None: ``host`` is a socket file.
        database: number of Redis's database.
        with_tls: as with rediss://.
        user: None: the default user.
        password: None: no login.
        authorities: file of certificates that may vouch for the server; None: those of the system.
        certificate: file of the own certificate, with ``key``; None: none is presented.
    """

    host: str
    port: int | None
    database: int = 0
    with_tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def name(self) -> str:
        """The URL without user and password, for people and for records."""
        if self.port is None:
            return f"unix://{self.host}?db={self.database}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "rediss" if self.with_tls else "redis"
        return f"{scheme}://{host}:{self.port}/{self.database}"

    def with_login(self, user: str | None, password: str | None) -> "Address":
        """The address with a login from elsewhere; what is None stays as the URL has it."""
        return replace(
            self,
            user=self.user if user is None else user,
            password=self.password if password is None else password,
        )


def parse_address(url: str) -> Address:
    """The address that a URL names.

    Raises:
        MoveError: it is no such URL.  The text does not repeat the URL, which may have a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise MoveError("the URL of the server has no valid host and port") from None
    if parts.scheme == "unix" and parts.path:
        return Address(parts.path, None, database=_database(parts.query.removeprefix("db=")))
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise MoveError(
            "the server is named by a URL: redis://HOST:PORT, rediss://HOST:PORT with TLS, or"
            " unix:///PATH"
        )
    return Address(
        parts.hostname,
        PORT_DEFAULT if port is None else port,
        database=_database(parts.path.strip("/")),
        with_tls=_SCHEMES[parts.scheme],
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )


def _database(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise MoveError(
            "a URL may have the number of a database: redis://HOST:PORT/1, unix:///PATH?db=1"
        )
    return int(text or 0)
