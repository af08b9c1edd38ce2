"""Waits of addresses from which wrong logins come."""

import pytest

from crdtstream.access.slowing import (
    ADDRESSES_MAX,
    FORGET_SECONDS,
    FREE_MAX,
    REMEMBERED_MAX,
    SITE_FREE_MAX,
    WAIT_SECONDS_MAX,
    WAIT_SECONDS_MIN,
    Slowing,
    source_of,
)


def wrong(slowing: Slowing, source: str, count: int, at: float = 0.0) -> None:
    for _ in range(count):
        slowing.note_wrong(source, at)


@pytest.mark.parametrize(
    ("count", "seconds"),
    [(0, 0), (1, 0), (10, 0), (11, 0.1), (12, 0.2), (13, 0.4), (15, 1.6), (16, 3), (10_000, 3)],
)
def test_each_wrong_login_beyond_the_free_ones_doubles_the_wait(count: int, seconds: float) -> None:
    slowing = Slowing()
    wrong(slowing, "10.0.0.1", count)
    assert slowing.wait("10.0.0.1", 0.0) == pytest.approx(seconds)


def test_other_addresses_do_not_wait() -> None:
    slowing = Slowing()
    wrong(slowing, "10.0.0.1", 1000)
    assert slowing.wait("10.0.0.2", 0.0) == 0


def test_an_address_is_forgotten_after_a_minute_without_a_wrong_login() -> None:
    slowing = Slowing()
    wrong(slowing, "10.0.0.1", FREE_MAX.value + 5)
    just_before = FORGET_SECONDS.value - 0.001
    assert slowing.wait("10.0.0.1", just_before) > WAIT_SECONDS_MIN.value
    assert slowing.wait("10.0.0.1", FORGET_SECONDS.value) == 0
    slowing.note_wrong("10.0.0.1", FORGET_SECONDS.value)
    assert slowing.wait("10.0.0.1", FORGET_SECONDS.value) == 0


def test_the_table_is_bounded_and_the_oldest_makes_room() -> None:
    slowing = Slowing()
    for index in range(ADDRESSES_MAX.value + 10):
        wrong(slowing, f"source {index}", FREE_MAX.value + 1, at=float(index) / 1000)
        # The first one goes on guessing, and is never the oldest.
        wrong(slowing, "source 0", 1, at=float(index) / 1000)
    assert len(slowing) == ADDRESSES_MAX.value
    assert slowing.wait("source 1", 1.1) == 0
    assert slowing.wait("source 0", 1.1) == WAIT_SECONDS_MAX.value


def test_a_site_of_many_ipv6_networks_has_more_free_guesses_and_not_without_end() -> None:
    slowing = Slowing()
    for number in range(SITE_FREE_MAX.value):
        # One guess of each network: none of them waits by itself.
        wrong(slowing, source_of(f"2001:db8:1:{number:x}::1"), 1)
    other = source_of("2001:db8:1:ffff::1")
    assert slowing.wait(other, 0.0) == 0
    wrong(slowing, other, 1)
    assert slowing.wait(other, 0.0) == WAIT_SECONDS_MIN.value
    assert slowing.wait(source_of("2001:db8:2::1"), 0.0) == 0


def test_a_wrong_login_that_is_repeated_is_one_guess() -> None:
    slowing = Slowing()
    for _ in range(100):
        slowing.note_wrong("10.0.0.1", 0.0, b"digest")
    assert slowing.wait("10.0.0.1", 0.0) == 0
    assert slowing.is_repeated("10.0.0.1", b"digest", 0.0)
    assert not slowing.is_repeated("10.0.0.2", b"digest", 0.0)
    assert not slowing.is_repeated("10.0.0.1", b"digest", FORGET_SECONDS.value)


def test_few_wrong_logins_are_remembered() -> None:
    slowing = Slowing()
    for number in range(10 * REMEMBERED_MAX.value):
        slowing.note_wrong("10.0.0.1", 0.0, b"%d" % number)
    assert not slowing.is_repeated("10.0.0.1", b"0", 0.0)
    assert slowing.wait("10.0.0.1", 0.0) == WAIT_SECONDS_MAX.value


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fd00::1:2:3:4", "fd00::/64"),
        ("fd00::9", "fd00::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix:", "unix:"),
    ],
)
def test_addresses_that_one_user_has_are_one_source(address: str, source: str) -> None:
    assert source_of(address) == source
