"""The error of this package."""


class CertificateError(Exception):
    """A name, a file or a request that cannot be used; the text says what to do about it."""
