"""Parses runs of XADDs, the most frequent requests in pipelines, in one pass over their bytes.

    *5 $4 XADD $1 s $1 * $1 f $ 1 a *5 $4 XADD $1 s $1 * $1 f $ 2 bb …     (blanks for line ends)
    └───────── head ──────────┘└───┘└───────── head ──────────┘└────┘
                               piece                           piece

All commands of a run have the same key and the same field names: they begin with the same head.  So
``bytes.split`` finds the pieces, each of them a value from its length on.  The entries' fields, as
they are kept, are these pieces under another head.  With more than one field, a piece is cut at the
bytes between two values, which are also the same in all of them: the values of each field are a
column.

XADDs for several streams differ in their keys.  They are cut at the bytes between a key and the
first value's length, which are the same in all of them.  A piece is then a value, the beginning of
the next command, and that command's key from its length on:

    *5 $4 XADD $1 s $1 * $1 f $ 1 a *5 $4 XADD $1 t $1 * $1 f $ 2 bb …
    └beginning─┘└─┘└─middle──┘└───┘└beginning─┘└─┘└─middle──┘└────┘
                key           value            key            value

This is a guess: a value may hold the head, or other bytes may stand between two commands.  The
guess is right if each value is as long as its header says; then the bytes can be read in no other
way.  For a whole column that check is a few loops in C (:func:`_are_values`).
"""

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import add
from typing import Final

from crdtstream.commands.streams.mixed_run import MixedRun
from crdtstream.commands.streams.xadd_run import XaddRun
from crdtstream.core.size import Size

# A run is not interrupted, and with more commands it would keep other clients waiting.
COMMANDS_MAX: Final = Size(1024, least=2)
# Of a larger value the bytes cost more than the command.
VALUE_BYTES_MAX: Final = 4096
# A plain XADD up to its key's length.
_BEGINNING: Final = re.compile(
    rb"\*([1-9][0-9]?)\r\n\$4\r\n(XADD|xadd)\r\n\$(0|[1-9][0-9]{0,3})\r\n"
)
_AUTO_ID: Final = b"\r\n$1\r\n*\r\n"
_WORD: Final = re.compile(rb"\$(0|[1-9][0-9]{0,6})\r\n")
_NEXT_REQUEST: Final = b"\r\n*"
# If the first bytes of a command, `*5\r\n$4\r\nXADD`, stand nowhere else, there is no run.
_SAME_BYTES: Final = 12


def _length_lines(*, line_end_bytes: int) -> list[bytes]:
    """The beginning of a value, its length and a line end, by the bytes that the whole value takes.

    Args:
        line_end_bytes: how many bytes of the line end behind the value are counted.
    """
    lines = [b""] * (VALUE_BYTES_MAX + 16)
    for length in range(VALUE_BYTES_MAX + 1):
        line = b"%d\r\n" % length
        lines[len(line) + length + line_end_bytes] = line
    # No value takes just 2 bytes, or 15: these places hold bytes too long to be its beginning.
    # Only they are made: 4,112 of them would take 8 MiB, and leave holes in memory for good.
    return [line or bytes(size + 1) for size, line in enumerate(lines)]


_LINES: Final = _length_lines(line_end_bytes=0)
_LINES_OF_LAST: Final = _length_lines(line_end_bytes=2)


@dataclass(slots=True)
class _Form:
    """Form that the commands of a run have in common.

    Attributes:
        head: from the beginning to the first value's length.
        beginning: up to the length of the key.
        middle: from behind the key to the first value's length.
        between: bytes between two values, from the line end of one to the next one's length.
        fields_head: bytes in the place of ``head`` where entries are kept.
        words: how many stand behind the first value's ``$``.
    """

    name: bytes
    key: bytes
    head: bytes
    beginning: bytes
    middle: bytes
    between: list[bytes]
    fields_head: bytes

    @property
    def words(self) -> int:
        return 2 * len(self.between) + 1


class XaddRuns:
    """The runs in the input of one connection.

    It remembers the form of the last one, and whether it was mixed: a client mostly goes on with
    the same.
    """

    __slots__ = ("_form", "_is_mixed")

    def __init__(self) -> None:
        self._form: _Form | None = None
        self._is_mixed = False

    def take(self, data: bytes) -> tuple[XaddRun | MixedRun, int] | None:
        """The run of two commands or more at the beginning of the input, and where it ends; None
        if there is none."""
        if data.find(data[:_SAME_BYTES], _SAME_BYTES) < 0:
            return None
        form = self._form
        if self._is_mixed and form is not None and data.startswith(form.beginning):
            taken = _mixed(data, form)
            if taken is not None:
                return taken
            # One stream only, or another form.
        self._is_mixed = False
        if form is None or not data.startswith(form.head):
            form = _form_of_first(data)
            if form is None:
                return None
            self._form = form
        alike = _alike(data, form)
        if alike is not None:
            return alike
        mixed = _mixed(data, form)
        self._is_mixed = mixed is not None
        return mixed


def _alike(data: bytes, form: _Form) -> tuple[XaddRun, int] | None:
    """The run of commands with the key of this form."""
    pieces = data.split(form.head, COMMANDS_MAX.value)
    del pieces[0]
    if not _are_values(pieces, form.between):
        _cut(pieces, words=form.words)
        if not pieces or not _are_values(pieces, form.between):
            return None
    if len(pieces) < 2:
        return None
    head, fields_head = form.head, form.fields_head
    lengths = list(map(len, pieces))
    run = XaddRun(
        form.name,
        form.key,
        array("I", map(add, lengths, repeat(len(fields_head)))),
        fields_head + fields_head.join(pieces),
    )
    return run, len(head) * len(pieces) + sum(lengths)


def _mixed(data: bytes, form: _Form) -> tuple[MixedRun, int] | None:
    """The run of commands of this form for several streams; None also if it is for one."""
    beginning, middle = form.beginning, form.middle
    pieces = data.split(middle, COMMANDS_MAX.value)
    if len(pieces) < 3:
        return None
    # The last piece may have anything behind its value.
    last = pieces.pop()
    parts = list(map(bytes.partition, pieces[1:], repeat(beginning)))
    values = [value for value, _, _ in parts]
    key_pieces = [pieces[0][len(beginning) :], *[key for _, _, key in parts]]
    if not (_are_keys(key_pieces) and _are_values(values, form.between)):
        good = _good_ones(key_pieces, values, form.between)
        if not good:
            return None
        last = pieces[good]
        del key_pieces[good:], values[good - 1 :]
    ended = _without_rest(last, words=form.words)
    if ended is not None and _are_values([ended], form.between):
        values.append(ended)
    else:
        # The command is cut off, or is none of this form.
        key_pieces.pop()
    if len(values) < 2:
        return None
    # Its length, a line end, and the key.
    keys = [piece[piece.index(b"\n") + 1 :] for piece in key_pieces]
    if keys.count(keys[0]) == len(keys):
        return None
    fields_head = form.fields_head
    lengths = list(map(len, values))
    run = MixedRun(
        form.name,
        keys,
        array("I", map(add, lengths, repeat(len(fields_head)))),
        fields_head + fields_head.join(values),
    )
    same = (len(beginning) + len(middle)) * len(keys)
    return run, same + sum(map(len, key_pieces)) + sum(lengths)


def _good_ones(keys: Sequence[bytes], values: Sequence[bytes], between: list[bytes]) -> int:
    """Number of keys, from the first on, that are keys, with values between them."""
    for at, key in enumerate(keys):
        if not _are_keys([key]) or (at and not _are_values([values[at - 1]], between)):
            return at
    return len(keys)


def _are_keys(pieces: Sequence[bytes]) -> bool:
    """True if each piece is a key behind its length, and nothing else."""
    try:
        return _begin_with(pieces, _LINES)
    except IndexError:
        # One is too large.
        return False


def _form_of_first(data: bytes) -> _Form | None:
    """The form of the first command if it is a plain XADD."""
    beginning = _BEGINNING.match(data)
    if beginning is None:
        return None
    words = int(beginning[1]) - 3
    key_end = beginning.end() + int(beginning[3])
    fields_at = at = key_end + len(_AUTO_ID)
    if data[key_end:at] != _AUTO_ID or words < 2 or words % 2:
        return None
    # The start of each value's length, and the end of its bytes.
    cuts: list[int] = []
    for _ in range(words):
        word = _WORD.match(data, at)
        if word is None:
            return None
        at = word.end() + int(word[1])
        cuts += (word.start() + 1, at)
        at += 2
    value_cuts = [cuts[index] for index in range(len(cuts)) if index % 4 >= 2]
    head = data[: value_cuts[0]]
    return _Form(
        name=beginning[2],
        key=data[beginning.end() : key_end],
        head=head,
        beginning=data[: beginning.start(3)],
        middle=head[key_end:],
        between=[data[a:b] for a, b in zip(value_cuts[1::2], value_cuts[2::2], strict=False)],
        fields_head=b"*%d\r\n" % words + head[fields_at:],
    )


def _are_values(pieces: Sequence[bytes], between: list[bytes]) -> bool:
    """True if each piece is values with ``between`` between them, and nothing else.

    A value states its length in the only valid form, and takes exactly that number of bytes.
    """
    try:
        for separator in between:
            parts = list(map(bytes.partition, pieces, repeat(separator)))
            values, _, pieces = zip(*parts, strict=True)
            # Without a separator the rest is empty, and no value.
            if not _begin_with(values, _LINES):
                return False
        return _begin_with(pieces, _LINES_OF_LAST) and all(
            map(bytes.endswith, pieces, repeat(b"\r\n"))
        )
    except IndexError:
        # One is too large.
        return False


def _begin_with(values: Sequence[bytes], lines: list[bytes]) -> bool:
    return all(map(bytes.startswith, values, map(lines.__getitem__, map(len, values))))


def _cut(pieces: list[bytes], *, words: int) -> None:
    """End the run where something else begins, or where the input is cut off.

    Args:
        words: how many a piece has, the first one without its ``$``.
    """
    for at, piece in enumerate(pieces):
        if _NEXT_REQUEST in piece:
            del pieces[at + 1 :]
            break
    ended = _without_rest(pieces.pop(), words=words)
    if ended is not None:
        pieces.append(ended)


def _without_rest(piece: bytes, *, words: int) -> bytes | None:
    """A piece without anything behind its words; None if it has not all of them."""
    text = b"$" + piece
    at = 0
    for _ in range(words):
        word = _WORD.match(text, at)
        if word is None:
            return None
        at = word.end() + int(word[1]) + 2
    return text[1:at] if at <= len(text) else None
