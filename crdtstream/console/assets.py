"""Scripts, styles and images of the console: files of this package, nothing from elsewhere.

Browsers keep them and ask each time whether they are current, by an ETag of the content.  So a page
never has a script of another version than the node's.
"""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

TYPES: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "replay.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
ETAG_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    content: bytes
    content_type: str
    etag: str


class Assets:
    """All files, read once.

    Attributes:
        digest: names the version of all of them.
    """

    def __init__(self) -> None:
        folder = files("crdtstream.console") / "static"
        self._found: dict[str, Asset] = {}
        for name, content_type in TYPES.items():
            content = (folder / name).read_bytes()
            self._found[name] = Asset(content, content_type, f'"{_digest(content)}"')
        self.digest = _digest(b"".join(one.content for one in self._found.values()))

    def answer(self, request: Request) -> Response:
        """A file, or word that the browser's copy is current."""
        asset = self._found.get(request.path_params["name"])
        if asset is None:
            return Response("no such file\n", status_code=404, media_type="text/plain")
        headers = {"etag": asset.etag, "cache-control": "no-cache"}
        if asset.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        headers["content-type"] = asset.content_type
        return Response(asset.content, headers=headers)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:ETAG_DIGITS]
