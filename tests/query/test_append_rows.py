"""Rows that a program appends: which of them are refused, and why."""

from array import array

import pytest

from crdtstream.commands.streams.xadd import ENTRY_BYTES_MAX
from crdtstream.core.effects import Numbered
from crdtstream.core.wire.codec import BatchError
from crdtstream.query.append_rows import ROWS_MAX, checked_rows

FIRST = Numbered(b"p", 0, 0)
ROW = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def check(*rows: bytes) -> None:
    checked_rows(FIRST, array("I", map(len, rows)), b"".join(rows))


def test_a_row_that_is_too_large_is_refused_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENTRY_BYTES_MAX, "value", len(ROW))
    check(ROW, ROW)
    too_large = b"*2\r\n$1\r\nf\r\n$2\r\nvv\r\n"
    with pytest.raises(BatchError, match=rf"row 1 .* has {len(too_large)} bytes.* {len(ROW)}"):
        check(ROW, too_large)


def test_more_rows_than_one_call_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ROWS_MAX, "value", 2)
    check(ROW, ROW)
    with pytest.raises(BatchError, match="1 to 2 rows, not 3"):
        check(ROW, ROW, ROW)


def test_a_row_that_is_no_array_is_refused_by_its_place() -> None:
    with pytest.raises(BatchError, match=r"row 1 .* no array"):
        check(ROW, b"*1\r\n$1\r\nf\r\n")
