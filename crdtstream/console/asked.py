"""The wishes of a request, checked; and the pages for what cannot be shown."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from crdtstream.console import words
from crdtstream.console.guard import rights_of
from crdtstream.core.ids import Millis, StreamId, parse_id
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.size import Size

MS_PER_SECOND: Final = 1_000
# That of the first ID that is a time.
EPOCH_YEAR: Final = 1970
QUERY_BYTES_MAX: Final = Size(8_192, least=1)
NO_RIGHT: Final = "This user may not read that key."
NO_RIGHT_ADVICE: Final = (
    "It needs a right to read the key (%R~pattern), and to the commands XINFO, XRANGE and CRDT.WHY;"
    " for a group also to XPENDING. See docs/acl.md."
)


class AskedForError(Exception):
    """Nothing can be shown for this request.

    Attributes:
        advice: what to do.
        path: of a page to go on at; empty: none.
    """

    def __init__(self, status: int, title: str, reason: str, advice: str, path: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.title = title
        self.advice = advice
        self.path = path


def parameters(request: Request, *names: str) -> dict[str, bytes]:
    """The parameters of a request, as bytes: a key may be any.

    Raises:
        AskedForError: they are too long, or one is not known or given twice.
    """
    query = request.scope["query_string"]
    if len(query) > QUERY_BYTES_MAX.value:
        raise AskedForError(
            414,
            "The address is too long",
            f"What is asked for has at most {QUERY_BYTES_MAX.value} bytes.",
            "A longer key can be read with redis-cli: CRDT.XINFO STREAM, XRANGE, CRDT.WHY.",
        )
    found: dict[str, bytes] = {}
    # Each byte is a character of Latin-1, and the other way round.
    text = query.decode("latin-1")
    for name, value in parse_qsl(text, keep_blank_values=True, encoding="latin-1"):
        if name not in names or name in found:
            raise AskedForError(
                400,
                "The address is wrong",
                f"This page takes {' and '.join(names)}, each once.",
                "Follow the links of the console.",
            )
        found[name] = value.encode("latin-1")
    return found


def id_of(text: bytes) -> StreamId:
    """
    Raises:
        AskedForError: it is no ID.
    """
    found = parse_id(text, missing_seq=0)
    if found is None:
        raise AskedForError(
            400,
            "No ID",
            "An ID is two numbers with a dash between them, as 1795241607207-1.",
            "Follow the links of the stream's page.",
        )
    return found


def time_of(text: bytes) -> Millis:
    """A time as people write it, in UTC unless it says otherwise, or in milliseconds since 1970.

    Raises:
        AskedForError: it is neither.
    """
    try:
        if text.isdigit():
            found = datetime.fromtimestamp(int(text) / MS_PER_SECOND, UTC)
        else:
            found = datetime.fromisoformat(text.decode().strip())
            if found.tzinfo is None:
                found = found.replace(tzinfo=UTC)
        if found.year < EPOCH_YEAR:
            raise ValueError
    except (ValueError, OverflowError, OSError):
        raise AskedForError(
            400,
            "No time",
            "A time is written as 2026-11-28 18:30, with seconds if you like; it is in UTC.",
            "Go back, and write it so.",
        ) from None
    return Millis(round(found.timestamp() * MS_PER_SECOND))


def no_right(request: Request, argv: list[bytes]) -> AskedForError:
    """The viewer may not run this command, which shows the same; it is noted in ACL LOG."""
    _note_refused(request, argv)
    return AskedForError(403, "No right", NO_RIGHT, NO_RIGHT_ADVICE)


def no_right_to_act(request: Request, argv: list[bytes]) -> AskedForError:
    """The user may not run this command, which changes a key; it is noted in ACL LOG."""
    _note_refused(request, argv)
    command, key = argv[0].decode(), words.name(argv[1])
    return AskedForError(
        403,
        "No right",
        f"This user may not run {command.upper()} on the key {key}.",
        f"It needs +{command}, and a right to read and write the key {key} (%RW~pattern); see"
        " docs/acl.md.",
    )


def _note_refused(request: Request, argv: list[bytes]) -> None:
    address, _ = request.scope.get("client") or ("", 0)
    rights_of(request).note_refused(argv, address, over="http")


def no_group() -> AskedForError:
    return AskedForError(
        404,
        "No such group",
        "There is no group of this name on this stream in this region.",
        "It was destroyed, or this region does not have it yet.",
    )


def no_stream() -> AskedForError:
    return AskedForError(
        404,
        "No such stream",
        "There is no stream with this key in this region.",
        "It was deleted or has expired, or this region does not have it yet.",
    )


def unreadable(error: UnreadableError) -> AskedForError:
    return AskedForError(
        503,
        "Entries cannot be read",
        f"The disk does not give them: {error}",
        "See the log of the node; crdtstream crdb repair replaces a damaged key.",
    )
