"""Who may ask: the user and password of a Redis client, in every call's metadata."""

import base64
import binascii
import hmac
from typing import Any, Final

import grpc

USER: Final = "default"
METADATA_KEY: Final = "authorization"


class Credentials:
    """The one user of a node, who has everything; without a password nobody is asked.

    Args:
        password: the setting ``requirepass``.
    """

    def __init__(self, password: str) -> None:
        self._wanted = f"{USER}:{password}".encode() if password else None

    async def check(self, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        """End the call unless its metadata has ``authorization: Basic base64(user:password)``."""
        if self._wanted is None:
            return
        given = dict(context.invocation_metadata() or ()).get(METADATA_KEY, b"")
        if not hmac.compare_digest(_decoded(given), self._wanted):
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "this node wants user and password (the options user, password)"
                if not given
                else "user or password is wrong",
            )


def _decoded(header: str | bytes) -> bytes:
    """What a header of the kind Basic holds; empty if it is none."""
    text = header.encode() if isinstance(header, str) else header
    kind, _, token = text.partition(b" ")
    if kind.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(token.strip(), validate=True)
    except binascii.Error:
        return b""
