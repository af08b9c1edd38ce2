"""Key patterns match as Redis's do, and never take long."""

import pytest

from crdtstream.commands.glob import compile_glob

MANY_STARS = b"*a" * 40 + b"*b"


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (b"*", [b"", b"any"], []),
        (b"", [b""], [b"a"]),
        (b"a?c", [b"abc", b"a\nc"], [b"ac", b"abbc"]),
        (b"user:*", [b"user:", b"user:1"], [b"use", b"auser:1"]),
        (b"*:end", [b":end", b"a:end:end"], [b":end1"]),
        (b"a*b*c", [b"abc", b"aXbYc", b"abcbc"], [b"acb", b"ab", b"abcd"]),
        (b"ab*ba", [b"abba", b"abXba"], [b"aba"]),
        (b"[a-c]x", [b"ax", b"cx"], [b"dx", b"x"]),
        (b"[c-a]x", [b"bx"], [b"dx"]),
        (b"[^a-c]x", [b"dx"], [b"ax"]),
        (b"[\\]]", [b"]"], [b"\\"]),
        (b"\\*", [b"*"], [b"a"]),
        (b"a[", [], [b"a", b"a["]),
        (b"[]a", [], [b"a", b"]a"]),
        (b"[^]a", [b"xa"], [b"a"]),
        (MANY_STARS, [b"a" * 40 + b"b"], [b"a" * 39 + b"b", b"a" * 5000]),
    ],
)
def test_patterns(pattern: bytes, matching: list[bytes], other: list[bytes]) -> None:
    matches = compile_glob(pattern)
    assert [key for key in [*matching, *other] if matches(key)] == matching
