"""Both ways of checking a peer's appends accept the same bytes."""

from array import array
from itertools import accumulate
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.fields import encode_fields
from crdtstream.replication import appends
from crdtstream.replication.appends import SHORT_BYTES_MAX, SHORT_STRINGS_MAX, wrong_append

SENSOR = [
    b"sensor",
    b"s-17",
    b"temperature",
    b"-21.53",
    b"humidity",
    b"40",
    b"at",
    b"1795365010470",
]

# What RESP is made of, and what may stand within a string.
PIECES = [
    b"*2\r\n",
    b"*4\r\n",
    b"$0\r\n",
    b"$1\r\n",
    b"$3\r\n",
    b"\r\n",
    b"a",
    b"abc",
    b"$",
    b"*",
    b"\n",
]


def by_parsing(lengths: list[int], fields: bytes) -> int | None:
    """The slow way alone."""
    with patch.object(appends, "_are_short_appends", lambda *_: False):
        return wrong_append(array("I", lengths), fields)


@given(
    st.lists(
        st.one_of(
            st.builds(encode_fields, st.sampled_from([[b"a", b""], [b"k", b"$3"], SENSOR])),
            st.builds(b"".join, st.lists(st.sampled_from(PIECES), max_size=9)),
        ),
        max_size=12,
    )
)
def test_both_ways_find_the_same(entries: list[bytes]) -> None:
    lengths = list(map(len, entries))
    assert wrong_append(array("I", lengths), b"".join(entries)) == by_parsing(
        lengths, b"".join(entries)
    )


@given(
    st.integers(1, 5),
    st.lists(st.integers(0, 200), min_size=1, max_size=4),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_lengths_that_do_not_cut_between_appends_are_found_by_both(
    pairs: int, sizes: list[int], cuts: list[int]
) -> None:
    fields = b"".join(encode_fields([b"x" * size] * (2 * pairs)) for size in sizes)
    ends = sorted(min(cut, len(fields)) for cut in cuts)
    lengths = [end - start for start, end in zip([0, *ends], [*ends, len(fields)], strict=True)]
    assert sum(lengths) == len(fields)
    assert wrong_append(array("I", lengths), fields) == by_parsing(lengths, fields)


@pytest.mark.parametrize("at", range(len(encode_fields(SENSOR))))
def test_any_changed_byte_is_found_unless_it_is_within_a_string(at: int) -> None:
    good = encode_fields(SENSOR)
    strings = [b"$%d\r\n%b\r\n" % (len(word), word) for word in SENSOR]
    starts = list(accumulate(map(len, strings[:-1]), initial=len(good) - sum(map(len, strings))))
    spans = [
        range(start + len(one) - 2 - len(word), start + len(one) - 2)
        for start, one, word in zip(starts, strings, SENSOR, strict=True)
    ]
    is_content = any(at in span for span in spans)
    changed = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
    lengths = array("I", [len(good), len(good)])
    assert wrong_append(lengths, good + changed) == (None if is_content else 1)
    assert wrong_append(lengths, changed + good) == (None if is_content else 0)


@pytest.mark.parametrize("strings", range(2, SHORT_STRINGS_MAX.value + 1, 2))
def test_entries_with_short_strings_are_never_parsed(strings: int) -> None:
    words = [b"x" * (n * 7 % (SHORT_BYTES_MAX.value + 1)) for n in range(strings)]
    entry = encode_fields(words)
    with patch.object(appends, "_first_wrong", side_effect=AssertionError("parsed")):
        assert wrong_append(array("I", [len(entry)] * 1000), entry * 1000) is None


@pytest.mark.parametrize("size", range(SHORT_BYTES_MAX.value + 1))
def test_a_string_of_each_short_length_is_matched(size: int) -> None:
    entry = encode_fields([b"f", b"\n" * size])
    with patch.object(appends, "_first_wrong", side_effect=AssertionError("parsed")):
        assert wrong_append(array("I", [len(entry)]), entry) is None
