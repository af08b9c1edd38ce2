"""Commands of Redis clients, with arguments of every kind, by two connections to a whole node."""

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import hiredis

from crdtstream.commands.documentation.manual import TEXTS, pages
from tests.fuzz import served
from tests.fuzz.damage import damaged_bytes, damaging_story, one_of, packed, pieces_of, story
from tests.fuzz.surface import Surface
from tests.resp.node import request

SCRIPTS: Final = Path(__file__).parent.parent / "like_redis" / "scripts"
LINES_OF_A_SEED: Final = 12
SEEDS_OF_A_SCRIPT: Final = 4

# What the keys hold before the first command.
BEFORE: Final = (
    "XADD s 1-1 f v",
    "XADD s 2-1 f v g w",
    "XADD s IDMP p i 3-1 f v",
    "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
    "XACK s g 1-1",
    "SET t value EX 100",
)
WORDS: Final = (
    *(b"s", b"t", b"none", b"g", b"c", b"p", b"f", b"", b"*", b">", b"$", b"+", b"-", b"(1-1"),
    *(b"0", b"1", b"2", b"-1", b"100", b"1-1", b"2-1", b"3-1", b"1-*", b"0-0", b"5-", b"1-1-1"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"1e3", b"0x10"),
    *(b"18446744073709551615-18446744073709551615", b"18446744073709551616", b"nan", b"inf"),
    *(b"1:1", b"1:99999", b"0/1:1", b"1:1@1", b"1:1~00000000", b"\xff\xfe", b"[a", b"[^]", b"\\"),
    *(b"default", b"~*", b"+@all", b"maxmemory", b"*max*", b"appendfsync", b"yes", b"no"),
)


@cache
def options() -> tuple[bytes, ...]:
    """Words in capitals of all commands' syntax."""
    found = {word for text in TEXTS.values() for word in re.findall(r"\b[A-Z][A-Z-]+\b", text)}
    return tuple(sorted(word.encode() for word in found))


@cache
def names() -> tuple[tuple[bytes, ...], ...]:
    """Names of all commands, each in one or two words."""
    return tuple(sorted(tuple(name.upper().encode().split(b"|")) for name in pages()))


def target(data: bytes) -> object:
    """A story: pieces of what the two clients send, in turns."""
    if b"sleep" in data.lower():
        # DEBUG SLEEP does what it says.
        return None
    served.run(_talk(pieces_of(data)))
    return None


async def _talk(pieces: Sequence[bytes]) -> None:
    async with served.running() as node:
        for line in BEFORE:
            node.clients[0][0].data_received(request(*(word.encode() for word in line.split())))
        for number, piece in enumerate(pieces):
            connection, transport = node.clients[number % 2]
            if piece and not transport.is_closing():
                connection.data_received(piece)
                await served.turns(3)
        await served.turns()
        for _, transport in node.clients:
            _check_replies(bytes(transport.written))


def _check_replies(written: bytes) -> None:
    """See that a client can read all that it got."""
    reader = hiredis.Reader()
    reader.feed(written)
    while reader.gets() is not False:
        pass
    assert not reader.has_data(), "a reply that does not end"


@cache
def seeds() -> list[bytes]:
    found = []
    for path in sorted(SCRIPTS.glob("*.txt")):
        draw = Random(path.stem)
        lines = [line for line in path.read_text().splitlines() if line and line[0].isalpha()]
        for _ in range(SEEDS_OF_A_SCRIPT):
            at = draw.randrange(max(1, len(lines) - LINES_OF_A_SEED))
            found.append(story(*map(_request, lines[at : at + LINES_OF_A_SEED])))
    found.append(story(*(request(*name, *[b"s"] * 2) for name in names())))
    return found


def _request(line: str) -> bytes:
    try:
        return request(*(word.encode() for word in shlex.split(line)))
    except ValueError:
        return line.encode() + b"\r\n"


def _drawn(draw: Random) -> bytes:
    """A request of any words."""
    words = [*draw.choice(names())]
    for _ in range(draw.choice((0, 1, 2, 3, 4, 6, 9))):
        words.append(draw.choice(options() if draw.random() < 0.3 else WORDS))
    return request(*words)


def with_a_request(data: bytes, draw: Random) -> bytes:
    pieces = pieces_of(data)
    pieces.insert(draw.randrange(len(pieces) + 1), _drawn(draw))
    return packed(pieces)


def with_another_word(data: bytes, draw: Random) -> bytes:
    pieces = pieces_of(data)
    if not pieces:
        return with_a_request(data, draw)
    at = draw.randrange(len(pieces))
    words = re.split(rb"\r\n\$\d+\r\n", pieces[at].removesuffix(b"\r\n"))[1:]
    if not words:
        return with_a_request(data, draw)
    place = draw.randrange(len(words))
    match draw.randrange(4):
        case 0:
            del words[place]
        case 1:
            words.insert(place, draw.choice(options()))
        case 2:
            words[place] = draw.choice(WORDS)
        case _:
            words[place] = damaged_bytes(words[place], draw)
    pieces[at] = request(*words)
    return packed(pieces)


COMMANDS: Final = Surface(
    "commands",
    target,
    seeds,
    one_of(with_a_request, with_another_word, with_another_word, damaging_story(damaged_bytes)),
    "commands of Redis clients: any words, in any order, by two clients",
)
