"""Bytes to requests: the quick way and the exact way give the same, however the bytes are cut."""

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.resp.wire.parser import RequestError, RequestLimits, RequestParser, split_inline
from tests.harness.calls import calls_of
from tests.resp.node import request

LIMITS = RequestLimits(
    bulk_bytes_max=100_000,
    arguments_max=1000,
    request_bytes_max=150_000,
    inline_bytes_max=65_536,
)
# Values that look like protocol: the places where a careless parser would lose its way.
TREACHEROUS = [
    b"PING",
    b"",
    b"\r\n",
    b"\r\n*",
    b"\r\n$1",
    b"*1\r\n$4\r\nPING",
    b"\r\n*1\r\n$8\r\nFLUSHALL\r\n",
    b"B\r\n*",
    b"$\r\nB\r\n*",
    b"%1",
    b"*100000000\r\n",
    b"\r\n*100000000\r\n",
    b"x" * 5000,
]
ARGUMENTS = st.lists(st.sampled_from(TREACHEROUS) | st.binary(max_size=40), min_size=1, max_size=6)


def parse_all(*pieces: bytes, trusted: bool = True) -> tuple[list[list[bytes]], str | None]:
    """The requests, and the error that ended them if one did."""
    parser = RequestParser(LIMITS)
    parser.trusted = trusted
    requests: list[list[bytes]] = []
    try:
        for piece in pieces:
            for request in parser.parse(piece):
                requests += [request] if isinstance(request, list) else request.requests()
    except RequestError as error:
        return requests, error.text.removeprefix("ERR Protocol error: ")
    return requests, None


@given(requests=st.lists(ARGUMENTS, min_size=1, max_size=6), data=st.data())
def test_cuts_do_not_change_what_is_read(requests: list[list[bytes]], data: st.DataObject) -> None:
    sent = b"".join(request(*arguments) for arguments in requests)
    cuts = sorted(data.draw(st.lists(st.integers(1, len(sent)), max_size=6), label="cuts"))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True) if b > a]
    assert parse_all(*pieces) == (requests, None)


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=5), st.data())
def test_a_short_request_alone_with_a_mistake_reads_as_it_does_byte_by_byte(
    arguments: list[bytes], data: st.DataObject
) -> None:
    sent = bytearray(request(*arguments))
    at = data.draw(st.integers(0, len(sent) - 1), label="where")
    sent[at] = data.draw(st.sampled_from(b"*$0123456789\r\na"), label="what stands there instead")
    pieces = [bytes(sent[at : at + 1]) for at in range(len(sent))]
    assert parse_all(bytes(sent)) == parse_all(*pieces)


@pytest.mark.parametrize(
    "sent",
    [
        # A value that looks like a header stands in for the line end that is missing elsewhere.
        b"*3\r\n$0\r\n\r\n$0\r\n*\n$1\r\n$\r\n",
        b"*2\r\n$2\r\n\r\n$a$1\r\nb\r\n",
        # What stands for the line end of an empty value does, as it comes behind a header.
        b"*1\r\n$0\r\n*\n*1\r\n$0\r\n\r\n",
        b"*3\r\n$0\r\n$\n$0\r\n\r\n$0\r\n\r\n",
        b"*2\r\n$2\r\na\r\n$$1\r\nb\r\n",
        b"*2\r\n$4\r\nPING\r\n$1\r\n*ab*1\r\n$4\r\nPING\r\n",
        b"*2\r\n$1\r\nabc$1\r\n$\r\n",
        b"*1\r\n$1\r\nabc*2\r\n$1\r\n*\r\n$1\r\n$\r\n",
    ],
)
def test_no_value_stands_in_for_a_line_end(sent: bytes) -> None:
    found = parse_all(sent)
    assert found == parse_all(*(sent[at : at + 1] for at in range(len(sent))))
    assert found[1] is not None


@given(
    st.lists(
        st.lists(st.text("*$\r\n1a", max_size=4).map(str.encode), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_mistakes_among_values_like_headers_read_as_they_do_byte_by_byte(
    requests: list[list[bytes]], data: st.DataObject
) -> None:
    sent = bytearray(b"".join(request(*arguments) for arguments in requests))
    for _ in range(data.draw(st.integers(0, 2), label="mistakes")):
        at = data.draw(st.integers(0, len(sent) - 1), label="where")
        sent[at] = data.draw(st.sampled_from(b"*$1\r\na"), label="what stands there instead")
    pieces = [bytes(sent[at : at + 1]) for at in range(len(sent))]
    assert parse_all(bytes(sent)) == parse_all(*pieces)


@given(
    st.lists(st.text("*$\r\n1a", max_size=4).map(str.encode) | st.just(b"x" * 1_500), min_size=40),
    st.data(),
)
def test_many_arguments_that_are_cut_read_as_they_do_byte_by_byte(
    some: list[bytes], data: st.DataObject
) -> None:
    plain = [b"%d-%d" % (n, n * 7) for n in range(data.draw(st.integers(0, 200), label="plain"))]
    sent = bytearray(request(b"XACK", *plain, *some, *plain))
    for _ in range(data.draw(st.integers(0, 2), label="mistakes")):
        at = data.draw(st.integers(0, len(sent) - 1), label="where")
        sent[at] = data.draw(st.sampled_from(b"*$1\r\na"), label="what stands there instead")
    at = data.draw(st.integers(1, len(sent) - 1), label="cut")
    pieces = [bytes(sent[at : at + 1]) for at in range(len(sent))]
    assert parse_all(bytes(sent[:at]), bytes(sent[at:])) == parse_all(*pieces)


def test_arguments_of_a_request_that_is_cut_are_read_together() -> None:
    sent = request(b"XACK", *[b"1700000000000-%d" % n for n in range(900)])
    calls = calls_of(lambda: parse_all(sent[:100], sent[100:]))
    assert calls < 300, calls


@pytest.mark.parametrize("sent", [b"\r\n" * 256, b"*1\r\n" * 128, b"*127\r\n" + b"\r\n" * 253])
def test_nothing_but_line_ends_is_no_short_request(sent: bytes) -> None:
    assert parse_all(sent) == parse_all(*(sent[at : at + 1] for at in range(len(sent))))


def test_a_request_may_come_byte_by_byte() -> None:
    sent = request(b"ECHO", b"a\r\nb") + b"PING\r\n" + request(b"PING")
    pieces = [sent[at : at + 1] for at in range(len(sent))]
    assert parse_all(*pieces) == ([[b"ECHO", b"a\r\nb"], [b"PING"], [b"PING"]], None)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_give_requests_or_one_error(noise: bytes, cut: int) -> None:
    pieces = [piece for piece in (noise[:cut], noise[cut:]) if piece]
    requests, _ = parse_all(*pieces)
    assert all(
        arguments and all(type(argument) is bytes for argument in arguments)
        for arguments in requests
    )


@given(st.lists(st.sampled_from([b"*1\r\n", b"$4\r\n", b"PING", b"\r\n", b"*", b":1\r\n", b"%1\r\n",
                                 b"+OK\r\n", b"~2\r\n", b"_\r\n", b"*-1\r\n", b"$-1\r\n"]),
                max_size=12), st.integers(0, 30))  # fmt: skip
def test_bits_of_protocol_read_the_same_in_one_piece_and_in_two(
    bits: list[bytes], cut: int
) -> None:
    sent = b"".join(bits)
    pieces = [piece for piece in (sent[:cut], sent[cut:]) if piece]
    assert parse_all(*pieces) == parse_all(*([sent] if sent else []))


@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize(("begin", "end"), [(b"PING ", b"\r\n"), (b"*", b"1\r\n$4\r\nPING\r\n")])
def test_cuts_do_not_change_how_long_a_line_may_be(begin: bytes, end: bytes, excess: int) -> None:
    """A line of the greatest length was refused if the input ended within its line end."""
    length = LIMITS.inline_bytes_max + 1 + excess
    line = begin.ljust(length - end.index(b"\r"), b"0") + end
    found = parse_all(line)
    for cut in range(length - 1, len(line)):
        assert parse_all(line[:cut], line[cut:]) == found


MALFORMED = [
    (b"*a\r\n", "invalid multibulk length"),
    (b"*1 \r\n", "invalid multibulk length"),
    (b"*+1\r\n$4\r\nPING\r\n", "invalid multibulk length"),
    (b"*01\r\n$4\r\nPING\r\n", "invalid multibulk length"),
    (b"*1\n$4\r\nPING\r\n", "invalid multibulk length"),
    (b"*1001\r\n", "invalid multibulk length"),
    (b"*100000000\r\n$1\r\na\r\n", "invalid multibulk length"),
    (b"*99999999999999999999999\r\n", "invalid multibulk length"),
    (b"*" + b"1" * 70_000, "too big mbulk count string"),
    (b"*1\r\n:5\r\n", "expected '$', got ':'"),
    (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
    (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
    (b"*1\r\n%1\r\n", "expected '$', got '%'"),
    (b"*1\r\n\r\n", "expected '$', got ' '"),
    (b"*1\r\n\xff\r\n", "expected '$', got '\\xff'"),
    (b"*1\r\n~1000000000\r\n", "expected '$', got '~'"),
    (b"*1\r\n$-1\r\n", "invalid bulk length"),
    (b"*1\r\n$a\r\n", "invalid bulk length"),
    (b"*1\r\n$4x\r\nPING\r\n", "invalid bulk length"),
    (b"*1\r\n$\r\nPING\r\n", "invalid bulk length"),
    (b"*1\r\n$100001\r\n", "invalid bulk length"),
    (b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
    (b"*1\r\n$" + b"1" * 70_000, "too big bulk count string"),
    (b"*1\r\n$4\r\nPINGxx", "expected a line end after a bulk string of its length"),
    (b"*1\r\n$3\r\nPING\r\n", "expected a line end after a bulk string of its length"),
    (b"*2\r\n$90000\r\n" + b"x" * 90_000 + b"\r\n$90000\r\n", "too big request"),
    (b"a" * 70_000, "too big inline request"),
    (b'PING "abc\r\n', "unbalanced quotes in request"),
    (b'PING "a"b\r\n', "unbalanced quotes in request"),
    (b"PING 'a\\'\r\n", "unbalanced quotes in request"),
    (b'PING a"b\r\n', "unbalanced quotes in request"),
]


@pytest.mark.parametrize(("sent", "error"), MALFORMED, ids=lambda value: repr(value)[:40])
def test_malformed_input_ends_with_a_clear_error(sent: bytes, error: str) -> None:
    assert parse_all(sent) == ([], error)


@pytest.mark.parametrize(("sent", "error"), MALFORMED, ids=lambda value: repr(value)[:40])
def test_requests_before_the_malformed_one_count(sent: bytes, error: str) -> None:
    assert parse_all(request(b"PING") + sent) == ([[b"PING"]], error)


@pytest.mark.parametrize(
    "sent",
    [b"*4294967295\r\n", b"*1\r\n*4294967295\r\n", b">4294967295\r\n", b"~4294967295\r\n",
     b"*1000\r\n", b"*1\r\n$99999\r\n", b"*1\r\n" * 20],
)  # fmt: skip
def test_a_claimed_length_reserves_no_memory(sent: bytes) -> None:
    parser = RequestParser(LIMITS)
    tracemalloc.start()
    with contextlib.suppress(RequestError):
        list(parser.parse(request(b"PING") + sent))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("sent", [b"*0\r\n", b"*-1\r\n", b"*-5\r\n", b"\r\n", b"   \r\n", b"\n"])
def test_empty_requests_are_skipped(sent: bytes) -> None:
    assert parse_all(sent + request(b"PING")) == ([[b"PING"]], None)
    assert parse_all(request(b"PING") + sent) == ([[b"PING"]], None)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ],
)
def test_a_client_that_has_not_authenticated_may_send_little(sent: bytes, error: str) -> None:
    assert parse_all(sent, trusted=False) == ([], error)
    assert parse_all(sent, trusted=True) == ([], None)


def test_authenticating_lifts_the_limit_for_the_next_request() -> None:
    parser = RequestParser(LIMITS)
    parser.trusted = False
    large = [b"x" * 20_000]
    read = []
    for arguments in parser.parse(request(b"AUTH", b"secret") + request(*large)):
        read.append(arguments)
        parser.trusted = True
    assert read == [[b"AUTH", b"secret"], large]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"PING", [b"PING"]),
        (b"  PING \t a  ", [b"PING", b"a"]),
        (b'SET k ""', [b"SET", b"k", b""]),
        (b'ECHO "a b"', [b"ECHO", b"a b"]),
        (b'ECHO "\\x41\\n\\r\\t\\b\\a\\\\\\"\\q"', [b"ECHO", b'A\n\r\t\b\a\\"q']),
        (b'ECHO "\\xzz"', [b"ECHO", b"xzz"]),
        (b"ECHO 'it\\'s \\n'", [b"ECHO", b"it's \\n"]),
        (b"ECHO a\\", [b"ECHO", b"a\\"]),
        (b"%1", [b"%1"]),
        (b"", []),
    ],
)
def test_inline_words_are_quoted_as_in_redis(line: bytes, words: list[bytes]) -> None:
    assert split_inline(line) == words


def test_long_unbalanced_line_is_refused_in_no_time() -> None:
    with pytest.raises(RequestError):
        split_inline(b"x '" + b"\\" * 60_000)
