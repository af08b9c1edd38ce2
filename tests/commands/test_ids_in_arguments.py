"""Many IDs are parsed at once, and mean what they mean one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.arguments import ascending_ids, strict_ids
from crdtstream.commands.reply import CommandError

NUMBER = st.one_of(
    st.integers(0, 30),
    st.integers((1 << 64) - 2, (1 << 64) + 1),
    st.sampled_from([1_700_000_000_000]),
).map(b"%d".__mod__)
# With zeros in front up to more digits than a number of 64 bits has.
PADDED = st.builds(lambda zeros, number: b"0" * zeros + number, st.integers(0, 21), NUMBER)
ID = st.builds(lambda ms, seq: ms + b"-" + seq, NUMBER, NUMBER)
ODD = st.one_of(
    NUMBER,
    st.builds(lambda ms, seq: ms + b"-" + seq, PADDED, PADDED),
    st.sampled_from([b"", b"-", b"+", b"1-", b"-1", b"1-1 2-2", b"1 1-1", b"1--1", b"1-1-1"]),
    st.sampled_from([b" 1-1", b"1-1 ", b"1_0-1", b"+1-1", b"1-x", b"\xb2-1", b"1-1\n", b"1\t-1"]),
)


def _parsed(texts: list[bytes]) -> list[int] | str:
    try:
        return sorted(set(strict_ids(texts)))
    except CommandError as error:
        return error.text


@given(texts=st.lists(ID | ID | ID | ODD, min_size=1, max_size=6))
def test_ids_parsed_together_are_those_parsed_one_by_one(texts: list[bytes]) -> None:
    expected = _parsed(texts)
    if isinstance(expected, str):
        with pytest.raises(CommandError) as error:
            ascending_ids(texts)
        assert error.value.text == expected
    else:
        assert list(ascending_ids(texts)) == expected


@pytest.mark.parametrize(
    "texts",
    [
        [b"1-1 2-2", b""],
        [b"", b"1-1 2-2"],
        [b"1-1-1", b"1"],
        [b"5-", b"-5"],
        [b"0" * 20 + b"1-1", b"2-1"],
        [b"2-1", b"3-" + b"0" * 20 + b"1"],
        # More digits than Python makes a number of.
        [b"2-1", b"9" * 5_000 + b"-1"],
        [b"2-1", b"3-" + b"9" * 5_000],
    ],
)
def test_malformed_rows_of_ids_are_refused(texts: list[bytes]) -> None:
    with pytest.raises(CommandError, match="Invalid stream ID"):
        ascending_ids(texts)
