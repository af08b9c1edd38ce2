"""Parses requests from bytes: fast where the input is plain, exact where it is not.

A request is an array of bulk strings, or a line typed by hand ("inline"):

    *2\\r\\n $4\\r\\n ECHO\\r\\n $2\\r\\n hi\\r\\n            ECHO hi\\r\\n

Nearly all input is plain: it begins at a request and holds nothing but arrays of bulk strings.
hiredis reads that in C. But hiredis is a parser of *replies*: it takes integers, maps and nested
arrays as well, it reserves memory for as many elements as a header claims, it knows no inline
commands, and it does not tell where in the input it stands. So it only gets input without a large
count in it. Its result is used only after counting, or encoding it again, shows that the input was
plain (:meth:`RequestParser._parse_plain`). Everything else - a request that is cut by the end of
the input, inline commands, malformed input - is read by :class:`ExactParser`, which follows Redis
byte for byte and has all the error texts.

A short request that arrives alone, as from a client that waits for each reply, is first cut at its
line ends.  It is that request if each header fits the bytes behind it (:func:`_alone`).

Runs of XADDs at the beginning of the input are taken out first, and stay together
(``xadd_runs.py``); runs of XACKs and XDELs are found among the requests (``id_runs.py``).

Always so: hiredis is between two requests whenever ``parse`` has returned; memory grows with the
bytes received, never with a number that a client wrote.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import hiredis

from crdtstream.commands.arguments import parse_i64
from crdtstream.core.size import Size
from crdtstream.resp.wire.id_runs import Request, with_id_runs
from crdtstream.resp.wire.xadd_runs import XaddRuns

STAR: Final = ord("*")
# A client that has not authenticated cannot make the server hold more than these (as in Redis).
UNTRUSTED_ARGUMENTS_MAX: Final = 10
UNTRUSTED_BULK_BYTES_MAX: Final = 16_384
# The smallest argument, ``$0\r\n\r\n``.
ARGUMENT_BYTES_MIN: Final = 6

# Runs that are looked for in one input: each is found by going through all of it.
RUNS_MAX: Final = Size(8, least=0)

# Input so short may be one request; what is longer, or does not turn out to be one, loses nothing.
ALONE_BYTES_MAX: Final = Size(512, least=0, most=512)
_LENGTHS: Final = [b"$%d" % length for length in range(ALONE_BYTES_MAX.most)]
# As many as line ends allow: two for each argument.
_COUNTS: Final = [b"*%d" % count for count in range(ALONE_BYTES_MAX.most // 4)]

# A request that was cut may be long, so many of its arguments are read at once: those in the next
# bytes of its input.  At least some of these bytes have to be missing.
WINDOW_BYTES: Final = Size(1 << 16, least=1)
MANY_ARGUMENTS: Final = Size(32, least=1)
_WINDOW_LENGTHS: Final = [b"$%d" % length for length in range(1024)]

# Six digits after a mark that makes hiredis reserve memory at once.
_LARGE_COUNT: Final = re.compile(rb"\r\n[*>~%|]\d{6}")

# Bytes of a bulk string of each length, with header and line ends, and of the header of an array of
# each count: adding up has to be quick.
_ENCODED_BYTES: Final = [len(b"$%d\r\n\r\n" % length) + length for length in range(4096)]
_COUNT_BYTES: Final = [len(b"*%d\r\n" % count) for count in range(4096)]
_LISTS: Final = {list}
_BYTES: Final = {bytes}


class RequestError(Exception):
    """The input is no request, and the connection ends.  The text is the error reply's."""

    def __init__(self, what: str) -> None:
        self.text = f"ERR Protocol error: {what}"
        super().__init__(self.text)


class RequestTooBigError(RequestError):
    """A request exceeds all that one connection may have sent; it ends without an answer."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Greatest sizes of a request.

    Attributes:
        bulk_bytes_max: one argument.
        arguments_max: arguments of one request.
        request_bytes_max: one request, all in all.
        inline_bytes_max: a line; also the line of a length header.
    """

    bulk_bytes_max: int = 512 << 20
    arguments_max: int = (1 << 31) - 1
    request_bytes_max: int = 1 << 30
    inline_bytes_max: int = 64 << 10


class RequestParser:
    """The requests of one connection.

    Attributes:
        trusted: the client has authenticated; until then smaller limits hold.
        limits: see ``set_limits``.
        has_begun: a part of a request may be here (``pending_bytes``); the caller resets it
            after a look.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self.trusted = True
        self._exact = ExactParser(limits)
        self.limits = limits
        self.has_begun = False
        self._reader = hiredis.Reader()
        self._runs = XaddRuns()
        self._plain_bytes_max = _plain_bytes_max(limits)

    def set_limits(self, limits: RequestLimits) -> None:
        """Parse by other limits from the next header on."""
        self.limits = limits
        self._exact.limits = limits
        self._plain_bytes_max = _plain_bytes_max(limits)

    @property
    def pending_bytes(self) -> int:
        """Bytes of a request that is not complete, as far as they have come."""
        return self._exact.pending_bytes

    def parse(self, data: bytes) -> Iterable[Request]:
        """The requests that are complete with ``data``; never an empty one.

        To be iterated to its end before the next call.  It may be lazy: run each request before
        asking for the next, as AUTH changes what may follow.

        Raises:
            RequestError: while iterating, after the requests before the mistake.
        """
        if not self._exact.is_idle:
            return self._finish_then_parse(data)
        runs: list[Request] = []
        if self.trusted and len(data) <= self._plain_bytes_max:
            if len(data) <= ALONE_BYTES_MAX.value and (request := _alone(data)) is not None:
                return [request]
            while len(runs) < RUNS_MAX.value and (taken := self._runs.take(data)) is not None:
                run, end = taken
                runs.append(run)
                data = data[end:]
                if not data:
                    return runs
        parsed, rest = self._parse_plain(data)
        requests = with_id_runs(parsed)
        if not runs and not rest:
            return requests
        return chain(runs, requests, self._parse_exactly(rest) if rest else ())

    def _parse_exactly(self, data: bytes) -> Iterator[list[bytes]]:
        self.has_begun = True
        self._exact.trusted = self.trusted
        self._exact.feed(data)
        while (request := self._exact.take()) is not None:
            yield request
            self._exact.trusted = self.trusted

    def _finish_then_parse(self, data: bytes) -> Iterator[Request]:
        """First the request that the last input had begun."""
        self.has_begun = True
        self._exact.trusted = self.trusted
        self._exact.feed(data)
        request = self._exact.take()
        if request is not None:
            yield request
            rest = self._exact.take_rest()
            if rest:
                yield from self.parse(rest)

    def _parse_plain(self, data: bytes) -> tuple[list[list[bytes]], bytes]:
        """The whole requests at the beginning of ``data``, and the rest, which is for the exact
        parser.  If anything is odd, everything is rest.

        Lengths have one spelling only, so the requests show how many bytes they came from, and
        thereby where the rest begins, exactly, whatever bytes the values hold.
        """
        nothing: list[list[bytes]] = []
        if (
            not self.trusted
            or len(data) > self._plain_bytes_max
            or data[0] != STAR
            or data[1:7].isdigit()
            or _LARGE_COUNT.search(data)
        ):
            return nothing, data

        reader = self._reader
        requests: list[list[bytes]] = []
        try:
            reader.feed(data)
            while (request := reader.gets()) is not False:
                requests.append(request)
        except (hiredis.HiredisError, TypeError, ValueError):
            # The latter two are about values that only replies have (a map with a list as key).
            self._reader = hiredis.Reader()
            return nothing, data

        if _are_plain(requests):
            end = _encoded_bytes(requests)
            if _has_its_line_ends(data, end, requests) or _spelled(requests) == data[:end]:
                if end < len(data):
                    self._reader = hiredis.Reader()
                return requests, data[end:]
        self._reader = hiredis.Reader()
        return nothing, data


def _plain_bytes_max(limits: RequestLimits) -> int:
    """Size of input that can break no limit."""
    return min(
        limits.bulk_bytes_max,
        limits.request_bytes_max,
        limits.arguments_max * ARGUMENT_BYTES_MIN,
    )


def _alone(data: bytes) -> list[bytes] | None:
    """The request that ``data``, of ALONE_BYTES_MAX at most, is; None if it is anything else, or an
    argument has a line end in it.

    A request has one spelling, so whatever is spelled as it is, is it.
    """
    lines = data.split(b"\r\n")
    count, odd = divmod(len(lines) - 2, 2)
    if odd or count < 1 or lines[-1] or lines[0] != _COUNTS[count]:
        return None
    arguments = lines[2:-1:2]
    fit = lines[1:-1:2] == [_LENGTHS[len(argument)] for argument in arguments]
    return arguments if fit else None


def _are_plain(requests: list[list[bytes]]) -> bool:
    """True if they are lists of bytes, none empty."""
    return (
        all(requests)
        and set(map(type, requests)) == _LISTS
        and set(map(type, chain.from_iterable(requests))) == _BYTES
    )


def _has_its_line_ends(data: bytes, end: int, requests: list[list[bytes]]) -> bool:
    """True if every header follows a line end, and a line end is last.

    False also where counting cannot decide, as a value is empty or has a carriage return.

    hiredis takes a simple string (``+OK``) for a bulk string, and any two bytes for the line end
    behind one.  In either case there are fewer marks ``\\r\\n$`` and ``\\r\\n*`` than arguments,
    requests, and values that begin with the mark's last byte: those stand after their own header.
    """
    arguments = list(chain.from_iterable(requests))
    values = b"\n" + b"\n".join(arguments)
    if b"\r" in values or not all(arguments) or data[end - 2 : end] != b"\r\n":
        return False
    # Looking for a byte that is not there takes a tenth of counting two of them.
    like_headers = values.count(b"\n$") if b"$" in values else 0
    return data.count(b"\r\n$", 0, end) >= len(arguments) + like_headers and (
        len(requests) == 1
        or data.count(b"\r\n*", 0, end) >= len(requests) - 1 + values.count(b"\n*")
    )


def _spelled(requests: list[list[bytes]]) -> bytes:
    """Plain requests as they are sent."""
    return b"".join(
        b"*%d\r\n" % len(request) + b"".join([b"$%d\r\n%b\r\n" % (len(a), a) for a in request])
        for request in requests
    )


def _encoded_bytes(requests: list[list[bytes]]) -> int:
    """Number of bytes of plain requests in the input."""
    try:
        return sum(
            map(_ENCODED_BYTES.__getitem__, map(len, chain.from_iterable(requests))),
            sum(map(_COUNT_BYTES.__getitem__, map(len, requests))),
        )
    except IndexError:
        counts = sum(len(b"*%d\r\n" % len(request)) for request in requests)
        lengths = map(len, chain.from_iterable(requests))
        return counts + sum(len(b"$%d\r\n\r\n" % length) + length for length in lengths)


class ExactParser:
    """Requests as Redis reads them, byte by byte if need be, with Redis's error texts.

    It is stricter in one thing: after each header and bulk string ``\\r\\n`` must follow, which
    Redis skips without looking.  A length that is wrong is then an error at once.

    Attributes:
        trusted, limits: see RequestParser.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self.trusted = True
        self.limits = limits
        self._buffer = bytearray()
        self._at = 0
        # The array being read: what is there, how many arguments are missing (0: between two
        # requests), and the length of the next if its header has been read.
        self._arguments: list[bytes] = []
        self._missing = 0
        self._bulk_bytes: int | None = None
        self._request_bytes = 0
        # The rest of the input was looked at, and is read argument by argument.
        self._is_odd = False

    @property
    def is_idle(self) -> bool:
        """True if it stands between two requests, with nothing unread."""
        return not self._missing and self._at == len(self._buffer)

    @property
    def pending_bytes(self) -> int:
        """Bytes that were fed and are no whole request yet."""
        unread = len(self._buffer) - self._at
        if not self._missing:
            return unread
        # The length that the last header says has been added already.
        return unread + self._request_bytes - (self._bulk_bytes or 0)

    def feed(self, data: bytes) -> None:
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data
        self._is_odd = False

    def take(self) -> list[bytes] | None:
        """The next request, None if it is not complete.

        Raises:
            RequestError: it never will be.
        """
        while not self._missing:
            if self._at == len(self._buffer):
                return None
            if self._buffer[self._at] == STAR:
                if not self._read_count():
                    return None
            else:
                line = self._read_line("too big inline request", line_end=b"\n")
                if line is None:
                    return None
                words = split_inline(line.removesuffix(b"\r"))
                if words:
                    return words
        while self._missing:
            if (
                self._missing >= MANY_ARGUMENTS.value
                and self._bulk_bytes is None
                and self._take_many()
            ):
                continue
            if not self._read_argument():
                return None
        request, self._arguments = self._arguments, []
        return request

    def _take_many(self) -> bool:
        """Read plain arguments that are next, all of some bytes of input at once.

        As in ``_alone``: what stands at every other line end is a header that fits what follows it.

        Returns:
            Whether enough were read to look for more; else the next one is read by itself, and
            says what is wrong if anything is.
        """
        if not self.trusted or self._is_odd:
            return False
        lines = bytes(memoryview(self._buffer)[self._at : self._at + WINDOW_BYTES.value]).split(
            b"\r\n"
        )
        count = min((len(lines) - 1) // 2, self._missing)
        arguments = lines[1 : 2 * count : 2]
        headers = lines[0 : 2 * count : 2]
        lengths = list(map(len, arguments))
        longest = max(lengths, default=0)
        size = sum(lengths) + sum(map(len, headers)) + 2 * count
        if (
            count < MANY_ARGUMENTS.value
            or longest >= len(_WINDOW_LENGTHS)
            or longest > self.limits.bulk_bytes_max
            or self._request_bytes + size > self.limits.request_bytes_max
            or headers != list(map(_WINDOW_LENGTHS.__getitem__, lengths))
        ):
            # The next look would be at much of the same.
            self._is_odd = True
            return False
        self._arguments += arguments
        self._at += size + 2 * count
        # Counted as by ``_read_bulk_header``: without line ends.
        self._request_bytes += size - 2 * count
        self._missing -= count
        return True

    def take_rest(self) -> bytes:
        """Take the bytes that were fed and not read; only between two requests."""
        assert not self._missing
        rest = bytes(memoryview(self._buffer)[self._at :])
        self._buffer = bytearray()
        self._at = 0
        return rest

    def _read_count(self) -> bool:
        """``*3``; a count of 0 or less is no request and skipped."""
        line = self._read_line("too big mbulk count string")
        if line is None:
            return False
        count = parse_i64(line[1:])
        if count is None or count > self.limits.arguments_max:
            raise RequestError("invalid multibulk length")
        if not self.trusted and count > UNTRUSTED_ARGUMENTS_MAX:
            raise RequestError("unauthenticated multibulk length")
        self._missing = max(0, count)
        self._request_bytes = len(line)
        return True

    def _read_argument(self) -> bool:
        """``$4``, the bytes, and a line end."""
        if self._bulk_bytes is None and not self._read_bulk_header():
            return False
        assert self._bulk_bytes is not None
        end = self._at + self._bulk_bytes
        if len(self._buffer) < end + 2:
            return False
        if self._buffer[end : end + 2] != b"\r\n":
            raise RequestError("expected a line end after a bulk string of its length")
        self._arguments.append(bytes(memoryview(self._buffer)[self._at : end]))
        self._at = end + 2
        self._bulk_bytes = None
        self._missing -= 1
        return True

    def _read_bulk_header(self) -> bool:
        if self._at < len(self._buffer) and self._buffer[self._at] != ord("$"):
            raise RequestError(f"expected '$', got '{_shown_byte(self._buffer[self._at])}'")
        line = self._read_line("too big bulk count string")
        if line is None:
            return False
        length = parse_i64(line[1:])
        if length is None or length < 0 or length > self.limits.bulk_bytes_max:
            raise RequestError("invalid bulk length")
        if not self.trusted and length > UNTRUSTED_BULK_BYTES_MAX:
            raise RequestError("unauthenticated bulk length")
        self._request_bytes += len(line) + length
        if self._request_bytes > self.limits.request_bytes_max:
            raise RequestTooBigError("too big request")
        self._bulk_bytes = length
        return True

    def _read_line(self, too_long: str, *, line_end: bytes = b"\r\n") -> bytes | None:
        """The bytes up to the line end, which is consumed; None if it is not there yet."""
        end = self._buffer.find(line_end, self._at)
        if end < 0:
            # A part of the line end may have come: it must not decide where the input is cut.
            if len(self._buffer) - self._at > self.limits.inline_bytes_max + len(line_end):
                raise RequestError(too_long)
            return None
        line = bytes(memoryview(self._buffer)[self._at : end])
        self._at = end + len(line_end)
        if len(line) > self.limits.inline_bytes_max + 1:
            raise RequestError(too_long)
        return line


def _shown_byte(byte: int) -> str:
    """A byte inside an error line: printable as it is, line ends as a blank, others escaped."""
    if byte in b"\r\n":
        return " "
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


# --- Inline commands ----------------------------------------------------------------------------

_BLANKS: Final = b" \t\n\r\v\f\0"
_ESCAPES: Final = {ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("a"): 7}
_UNBALANCED: Final = "unbalanced quotes in request"
# One word: pieces in double quotes with escapes, in single quotes with \', or bare.
_WORD: Final = re.compile(
    rb"""(?P<bare>[^\s\0"']*)(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:\\'|\\(?!')|[^'\\])*)')?""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)


def split_inline(line: bytes) -> list[bytes]:
    """The words of a line, with the quoting of redis-cli: ``SET k "a\\x00b\\n" 'it\\'s'``.

    Raises:
        RequestError: a quote is not closed, or something follows directly after a closing one.
    """
    words: list[bytes] = []
    at = 0
    while True:
        while at < len(line) and line[at] in _BLANKS:
            at += 1
        if at == len(line):
            return words
        match = _WORD.match(line, at)
        assert match is not None
        at = match.end()
        if at < len(line) and line[at] not in _BLANKS:
            raise RequestError(_UNBALANCED)
        word = match["bare"]
        if match["double"] is not None:
            word += _ESCAPE.sub(_unescape, match["double"])
        elif match["single"] is not None:
            word += match["single"].replace(b"\\'", b"'")
        words.append(word)


def _unescape(match: re.Match[bytes]) -> bytes:
    what = match[1]
    if len(what) == 3:
        return bytes([int(what[1:], 16)])
    return bytes([_ESCAPES.get(what[0], what[0])])
