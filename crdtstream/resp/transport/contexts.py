"""The context of new connections: the node's certificate, with the options of the port."""

import ssl

from cryptography import x509
from cryptography.x509.oid import NameOID

from crdtstream.certificates.node_files import CertificateSet
from crdtstream.certificates.options import TlsOptionError, TlsOptions
from crdtstream.certificates.watching import Certificates


class TlsContexts:
    """The context of new connections, made again when the certificates or the options changed.

    Connections that are open go on with theirs.  Sessions that were begun with a former context are
    not resumed, so every client has to show what is demanded now.

    Attributes:
        certificates: None: the node has none, and TLS cannot be had.
        options: may be replaced at any time by such as ``made`` takes.
    """

    def __init__(self, certificates: Certificates | None, options: TlsOptions) -> None:
        self.certificates = certificates
        self.options = options
        self._made: tuple[int, TlsOptions, ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        assert self.certificates is not None, "without certificates no port speaks TLS"
        current = self.certificates.current
        made = self._made
        if made is None or made[0] != current.version or made[1] is not self.options:
            made = current.version, self.options, self.made(current, self.options)
            self._made = made
        return made[2]

    def made(self, current: CertificateSet, options: TlsOptions) -> ssl.SSLContext:
        """A context of these.

        Raises:
            TlsOptionError: an option cannot be had.
        """
        if options.verify is not ssl.CERT_NONE and not current.ca:
            raise TlsOptionError(
                "auth_clients",
                f"{options.auth_clients} needs authorities to check clients' certificates with; set"
                " the file of the CA, or set it to no",
            )
        context = current.server_context(options.verify)
        options.apply(context)
        return context


def common_name(own: ssl.SSLSocket) -> str | None:
    """The one common name of the certificate that the client has shown and OpenSSL has checked.

    Returns:
        None: no certificate was demanded or shown, or there is not exactly one name, or it cannot
        be decoded.  Other names of the certificate are not looked at: ``getpeercert`` decodes all
        of them, and fails if one is not UTF-8.
    """
    try:
        shown = _shown(own)
        subject = None if shown is None else shown.subject
    except (ValueError, x509.InvalidVersion):
        return None
    names = [] if subject is None else subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else None


def serial_of(own: ssl.SSLSocket) -> int | None:
    """Serial number of the certificate that the client has shown and OpenSSL has checked.

    Returns:
        None: no certificate was demanded or shown.

    Raises:
        OSError, ValueError: the connection has gone, or the certificate cannot be read.
    """
    try:
        shown = _shown(own)
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error
    return None if shown is None else shown.serial_number


def _shown(own: ssl.SSLSocket) -> x509.Certificate | None:
    if own.context.verify_mode is ssl.CERT_NONE:
        return None
    shown = own.getpeercert(binary_form=True)
    return None if shown is None else x509.load_der_x509_certificate(shown)
