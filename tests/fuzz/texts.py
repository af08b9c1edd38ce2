"""Texts that programs and people send: cursors, tokens, patterns, logins, names of holders."""

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Final

from crdtstream.access.basic import Login, decode_basic
from crdtstream.certificates.names import parse_uri
from crdtstream.commands.beyond_redis.version_vectors import encode_named, parse_version_vector
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import U64_MAX, format_id, parse_id
from crdtstream.core.incarnations import Begin, Incarnations, encode_incarnations, incarnations_of
from crdtstream.core.redis_version import parse_redis_version
from crdtstream.core.replica import Replica
from crdtstream.core.uid import parse_uid, shown_uid
from crdtstream.resp.wire.parser import RequestError, split_inline
from tests.fuzz.damage import damaged_bytes, one_of
from tests.fuzz.histories import HERE
from tests.fuzz.surface import Surface
from tests.harness.driven import UID


def _vector(text: bytes) -> object:
    try:
        named = parse_version_vector(text, UID, what="token")
    except CommandError as error:
        return error.text
    replica = Replica(HERE)
    replica.database_uid = UID
    again = parse_version_vector(encode_named(replica, named), UID, what="token")
    assert again == named
    return named


def _incarnations(text: bytes) -> object:
    try:
        return incarnations_of(text.decode("utf-8", "replace"))
    except ValueError as error:
        return str(error)


def _id(text: bytes) -> object:
    found = parse_id(text, missing_seq=U64_MAX)
    if found is not None:
        assert parse_id(format_id(found), missing_seq=0) == found
    return found


def _words(text: bytes) -> object:
    try:
        return split_inline(text)
    except RequestError as error:
        return error.text


def _pattern(text: bytes) -> object:
    pattern, _, key = text.partition(b"\0")
    return compile_glob(pattern)(key)


# By first byte.
READERS: Final[dict[bytes, Callable[[bytes], object]]] = {
    b"V": _vector,
    b"I": _incarnations,
    b"D": _id,
    b"W": _words,
    b"P": _pattern,
    b"B": decode_basic,
    b"U": lambda text: parse_uid(text.decode("utf-8", "replace")),
    b"N": lambda text: parse_uri(text.decode("utf-8", "replace")),
    b"R": lambda text: parse_redis_version(text.decode("utf-8", "replace")),
}


def target(data: bytes) -> object:
    """The first byte: the kind of text."""
    read = READERS.get(data[:1])
    return None if read is None else read(data[1:])


@cache
def seeds() -> list[bytes]:
    begin = Begin(7, bytes(16), 3)
    uid = shown_uid(UID).encode()
    return [
        b"V" + uid + b"/1:42@1764012345678~40.9c41e07d9c41e07d,2:17",
        b"V" + uid + b"/1:42~9c41e07d9c41e07d",
        b"V1:1,2:2,1023:9223372036854775807",
        b"V0",
        b"I" + encode_incarnations(Incarnations(begin, {})).hex().encode(),
        *(b"D1-1", b"D18446744073709551615-18446744073709551615", b"D5", b"D-", b"D5-*"),
        b"WSET k \"a\\x00b\\n\" 'it\\'s' plain",
        *(b"Puser:[a-c]?*x\\*\0user:b1-x*", b"P*a*b*c*d*e*\0" + b"abcde" * 9, b"P[^]-a]\0z"),
        b"B" + Login("secret").header.encode(),
        b"U" + uid,
        b"Nspiffe://crdtstream.internal/crdtstream/crdb/region/1",
        b"Nspiffe://crdtstream.internal/crdtstream/crdb/operator/ann",
        b"R8.2.1",
    ]


_MARKS: Final = (b":", b"@", b"~", b",", b"/", b"-", b"*", b"[", b"\\", b"0", b"\xd9\xa1", b"\xff")


def with_a_mark(data: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(_MARKS) + data[at + draw.randrange(2) :]


TEXTS: Final = Surface(
    "texts",
    target,
    seeds,
    one_of(damaged_bytes, with_a_mark),
    "cursors, tokens, IDs, patterns, logins, URIs in certificates",
)
