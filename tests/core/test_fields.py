"""Fields as RESP: what a client library reads back is what was written, however long."""

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.fields import are_fields, encode_fields


@pytest.mark.parametrize("count", [2, 4, 64, 66, 300])
def test_fields_are_one_resp_array(count: int) -> None:
    arguments = [bytes([number % 256]) * (number % 7) + b"\r\n$" for number in range(count)]
    reader = hiredis.Reader()
    reader.feed(encode_fields(arguments))
    assert reader.gets() == arguments
    assert reader.gets() is False


@given(st.lists(st.binary(max_size=5), max_size=6), st.binary(max_size=3), st.binary(max_size=3))
def test_encoded_fields_are_recognised_between_other_bytes(
    arguments: list[bytes], before: bytes, behind: bytes
) -> None:
    fields = encode_fields(arguments)
    start, stop = len(before), len(before) + len(fields)
    assert are_fields(before + fields + behind, start, stop) is (
        len(arguments) > 0 and len(arguments) % 2 == 0
    )


@given(st.lists(st.binary(max_size=3) | st.just(b"x" * 1_200), min_size=64), st.data())
def test_many_fields_are_recognised_together_or_not_at_all(
    some: list[bytes], data: st.DataObject
) -> None:
    fields = encode_fields(some)
    assert are_fields(fields, 0, len(fields)) is (len(some) % 2 == 0)
    at = data.draw(st.integers(0, len(fields) - 1))
    other = fields[:at] + data.draw(st.sampled_from([b"", b"0", b"$", b"\r"])) + fields[at + 1 :]
    reader = hiredis.Reader()
    reader.feed(other)
    try:
        read = reader.gets()
    except hiredis.ProtocolError:
        read = None
    is_same = isinstance(read, list) and len(read) % 2 == 0 and all(type(a) is bytes for a in read)
    assert are_fields(other, 0, len(other)) is (is_same and encode_fields(read) == other)


@given(st.data())
def test_only_bytes_that_would_be_encoded_are_recognised_as_fields(data: st.DataObject) -> None:
    """A byte here or there makes other fields, or none."""
    some = data.draw(st.lists(st.binary(max_size=3), min_size=2, max_size=4))
    fields = bytearray(encode_fields(some))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(fields) - 1))
        fields[at : at + data.draw(st.integers(0, 1))] = data.draw(
            st.sampled_from(
                [b"", b"0", b"1", b"2", b"9", b"+", b"-", b"*", b"$", b"\r", b"\n", b" "]
            )
        )
    reader = hiredis.Reader()
    is_same = False
    try:
        reader.feed(bytes(fields))
        arguments = reader.gets()
        is_same = (
            isinstance(arguments, list)
            and len(arguments) > 0
            and len(arguments) % 2 == 0
            and all(isinstance(argument, bytes) for argument in arguments)
            and encode_fields(arguments) == fields
        )
    except hiredis.HiredisError:
        pass
    assert are_fields(bytes(fields), 0, len(fields)) is is_same
