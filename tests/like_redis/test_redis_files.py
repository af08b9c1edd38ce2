"""Nodes pass Redis's own test files on users, passwords and TLS."""

import os
from pathlib import Path

import pytest

from tests.like_redis.redis_files import OTHER_SOURCE, UNITS, RedisFiles, listed, outcomes_of
from tests.patience import LONG


@pytest.mark.long
@pytest.mark.live
@pytest.mark.timeout(2 * LONG)
@pytest.mark.parametrize("unit", UNITS)
def test_a_node_passes_the_tests_of_redis_that_apply(unit: str, tmp_path: Path) -> None:
    """A test of the list that passes is an error too, so the list says what is true."""
    exceptions = listed(unit)
    skipped = [one.name for one in exceptions.values() if not one.runs]

    outcomes = RedisFiles(tmp_path).run(unit, skipped=skipped)

    failed = {name: text for name, text in outcomes.items() if text not in ("ok", "skip")}
    assert {name: text for name, text in failed.items() if name not in exceptions} == {}
    # Another source than that of the list may lack some of these tests.
    expected = {one.name for one in exceptions.values() if one.runs}
    assert failed.keys() == (expected & outcomes.keys() if OTHER_SOURCE in os.environ else expected)
    passed = [name for name, text in outcomes.items() if text == "ok"]
    assert len(passed) > len(exceptions), f"the file was read to its end: {outcomes}"


def test_outcomes_are_read_from_what_the_harness_prints() -> None:
    output = (
        "[\x1b[0;32;49mok\x1b[0m]: AUTH (twice) works (12 ms)\n"
        "[\x1b[0;31;49merr\x1b[0m]: ACL LOG in tests/unit/acl.tcl\nkey not known\n    while\n"
        "[\x1b[0;33;49mskip\x1b[0m]: never\n"
        "[\x1b[0;31;49merr\x1b[0m]: Can't start the Redis server\nport 1\n"
        "[1/1 done]: unit/acl (3 seconds)\n"
        "!!! WARNING The following tests failed:\n[err]: ACL LOG in tests/unit/acl.tcl\n"
    )
    assert outcomes_of(output) == {
        "AUTH (twice) works": "ok",
        "ACL LOG": "key not known\n    while",
        "never": "skip",
        "Can't start the Redis server": "port 1\n[1/1 done]: unit/acl (3 seconds)\n!!! WARNING",
    }
