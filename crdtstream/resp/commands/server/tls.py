"""The parameters of CONFIG about TLS and about the two ports, which depend on each other.

The values of one CONFIG SET are tried together: files are read and checked, a context is made of
them, and ports are bound, before anything changes.  So a certificate and its key can be replaced in
one command, and after a refusal everything goes on as it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.node_files import CertificateSet, Paths
from crdtstream.certificates.options import VERIFY, TlsOptionError, TlsOptions
from crdtstream.certificates.watching import Certificates
from crdtstream.resp.commands.server.values import (
    BadValueError,
    Parameter,
    number_parameter,
    one_of,
)
from crdtstream.resp.transport.contexts import TlsContexts
from crdtstream.resp.transport.ports import PLAIN, TLS, ClientPorts, PortError

PORT_MAX: Final = 65_535
# Files by their names in CONFIG, and the fields of ``Paths``.
FILES: Final[Mapping[str, str]] = {
    "tls-cert-file": "certificate",
    "tls-key-file": "key",
    "tls-key-file-pass-file": "key_password",
    "tls-ca-cert-file": "ca",
    "tls-ca-cert-dir": "ca_folder",
}
# Options by their names in CONFIG, and the fields of ``TlsOptions``.
TEXTS: Final[Mapping[str, str]] = {
    "tls-auth-clients": "auth_clients",
    "tls-protocols": "protocols",
    "tls-ciphers": "ciphers",
    "tls-ciphersuites": "ciphersuites",
}
SWITCHES: Final[Mapping[str, str]] = {
    "tls-prefer-server-ciphers": "prefer_server_ciphers",
    "tls-session-caching": "session_caching",
}
SETTINGS: Final[Mapping[str, str]] = {PLAIN: "resp_port", TLS: "tls_port"}
# As OpenSSL has them; Python's ssl can change neither.
SESSIONS_MAX: Final = "20480"
SESSION_SECONDS: Final = "7200"

NOT_CHANGED: Final = "Unable to update TLS configuration: "
NO_LISTENING: Final = (
    "Unable to listen on this port: another process has it; stop that process or choose another"
)
NO_CERTIFICATE: Final = (
    NOT_CHANGED + "the node was started without a certificate; set tls_cert_file and tls_key_file"
    " in its settings, and start it again"
)
NO_PASSWORDS: Final = (
    "a password does not belong into a command; write it into a file of mode 0600, and set"
    " tls-key-file-pass-file"
)


class CertificateLogins(Protocol):
    """Logins by certificate.

    Attributes:
        logs_in_by_certificate: a client is the user that its certificate names.
    """

    logs_in_by_certificate: bool


class TlsParameters:
    """The parameters, and what checks those of one CONFIG SET together."""

    def __init__(self, ports: ClientPorts, logins: CertificateLogins) -> None:
        self._ports = ports
        self._contexts: TlsContexts = ports.contexts
        self._logins = logins

    def parameters(self) -> dict[str, Parameter]:
        """By name."""
        return {
            **{name: self._port(name) for name in (PLAIN, TLS)},
            **{name: self._file(name) for name in FILES},
            **{name: self._text(name) for name in TEXTS},
            **{name: self._switch(name) for name in SWITCHES},
            "tls-auth-clients-user": self._logins_parameter(),
            "tls-session-cache-size": _fixed(SESSIONS_MAX),
            "tls-session-cache-timeout": _fixed(SESSION_SECONDS),
            "tls-key-file-pass": Parameter(lambda: "", _refuse_password),
            "tls-cluster": _fixed("no"),
        }

    # --- One by one ---------------------------------------------------------------------------

    def _port(self, name: str) -> Parameter:
        bounds = number_parameter(
            lambda: self._ports.number(name), lambda _value: None, SETTINGS[name], most=PORT_MAX
        )
        return replace(bounds, together=self)

    def _file(self, name: str) -> Parameter:
        def get() -> str:
            certificates = self._contexts.certificates
            path = None if certificates is None else getattr(certificates.paths, FILES[name])
            return "" if path is None else str(path)

        return Parameter(get, _any_text, _setting(name), get, together=self)

    def _text(self, name: str) -> Parameter:
        def get() -> str:
            return str(getattr(self._contexts.options, TEXTS[name]))

        is_word = name == "tls-auth-clients"
        check = one_of(list(VERIFY), lambda _word: None) if is_word else _any_text
        return Parameter(get, check, _setting(name), get, together=self)

    def _switch(self, name: str) -> Parameter:
        def is_on() -> bool:
            return bool(getattr(self._contexts.options, SWITCHES[name]))

        return Parameter(
            lambda: "yes" if is_on() else "no",
            one_of(["yes", "no"], lambda _word: None),
            _setting(name),
            is_on,
            together=self,
        )

    def _logins_parameter(self) -> Parameter:
        def get() -> str:
            return "CN" if self._logins.logs_in_by_certificate else "off"

        def change(word: str) -> None:
            self._logins.logs_in_by_certificate = word == "cn"

        check = one_of(["off", "CN"], change)
        return Parameter(get, check, "tls_auth_clients_user", get)

    # --- Together -----------------------------------------------------------------------------

    def check(self, texts: Mapping[str, str]) -> Callable[[], None]:
        """See ``Together``."""
        options = self._options_with(texts)
        current, use_files = self._certificates_with(texts)
        numbers = {
            name: int(texts[name])
            for name in (PLAIN, TLS)
            if name in texts and int(texts[name]) != self._ports.number(name)
        }
        self._try(options, current, has_port=bool(numbers.get(TLS, self._ports.number(TLS))))
        try:
            sockets = self._ports.bound({name: at for name, at in numbers.items() if at})
        except PortError as error:
            raise BadValueError(NO_LISTENING) from error

        def change() -> None:
            self._contexts.options = options
            use_files()
            self._ports.move({name: sockets.get(name, []) for name in numbers})

        return change

    def _options_with(self, texts: Mapping[str, str]) -> TlsOptions:
        changes: dict[str, Any] = {
            field: texts[name].lower() if name == "tls-auth-clients" else texts[name]
            for name, field in TEXTS.items()
            if name in texts
        }
        changes |= {
            field: texts[name].lower() == "yes" for name, field in SWITCHES.items() if name in texts
        }
        return replace(self._contexts.options, **changes)

    def _certificates_with(
        self, texts: Mapping[str, str]
    ) -> tuple[CertificateSet | None, Callable[[], None]]:
        """The set of the files that are named, and what makes them the node's."""
        certificates = self._contexts.certificates
        named = {
            FILES[name]: Path(text) if text else None
            for name, text in texts.items()
            if name in FILES
        }
        if certificates is None:
            if any(named.values()):
                raise BadValueError(NO_CERTIFICATE)
            return None, _nothing
        if not named:
            return certificates.current, _nothing
        return _tried(certificates, named)

    def _try(self, options: TlsOptions, current: CertificateSet | None, *, has_port: bool) -> None:
        if has_port and current is None:
            raise BadValueError(NO_CERTIFICATE)
        try:
            if has_port and current is not None:
                self._contexts.made(current, options)
            else:
                options.check()
        except TlsOptionError as error:
            raise BadValueError(NOT_CHANGED + error.reason) from error


def _tried(
    certificates: Certificates, named: Mapping[str, Path | None]
) -> tuple[CertificateSet, Callable[[], None]]:
    before = certificates.paths
    paths = Paths(
        certificate=named.get("certificate", before.certificate) or Path(),
        key=named.get("key", before.key) or Path(),
        ca=named.get("ca", before.ca),
        key_password=named.get("key_password", before.key_password),
        ca_folder=named.get("ca_folder", before.ca_folder),
    )
    try:
        return certificates.tried(paths)
    except CertificateError as error:
        raise BadValueError(NOT_CHANGED + str(error)) from error


def _setting(name: str) -> str:
    return name.replace("-", "_")


def _any_text(_text: str) -> Callable[[], None]:
    return _nothing


def _nothing() -> None:
    """No change."""


def _fixed(value: str) -> Parameter:
    """A parameter that has one value here."""

    def check(text: str) -> Callable[[], None]:
        if text != value:
            raise BadValueError(f"it is {value} here, and cannot be changed")
        return _nothing

    return Parameter(lambda: value, check)


def _refuse_password(text: str) -> Callable[[], None]:
    if text:
        raise BadValueError(NO_PASSWORDS)
    return _nothing
