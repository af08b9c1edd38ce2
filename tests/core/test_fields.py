"""Fields as RESP: what a client library reads back is what was written, however long."""

import hiredis
import pytest

from crdtstream.core.fields import encode_fields


@pytest.mark.parametrize("count", [2, 4, 64, 66, 300])
def test_fields_are_one_resp_array(count: int) -> None:
    arguments = [bytes([number % 256]) * (number % 7) + b"\r\n$" for number in range(count)]
    reader = hiredis.Reader()
    reader.feed(encode_fields(arguments))
    assert reader.gets() == arguments
    assert reader.gets() is False
