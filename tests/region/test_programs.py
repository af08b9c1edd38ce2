"""Programs that need entries which are on disk only: they are read, and it is tried again."""

from itertools import islice

import pytest

from crdtstream.core.lanes.cold import TRIES_MAX, ColdError
from crdtstream.engine.programs import attempts
from tests.harness.driven import make_region


def test_an_attempt_follows_each_read_until_nothing_lacks() -> None:
    needs = [(1, 2), (3,)]

    def act() -> None:
        if needs:
            raise ColdError(needs[0])

    read = []
    for images in attempts(make_region().replica, act):
        read.append(tuple(images))
        needs.pop(0)
    assert read == [(1, 2), (3,)]


def test_many_attempts_end_with_one_that_reads_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """With little memory, entries that were read may leave before the next attempt, each time."""
    monkeypatch.setattr(TRIES_MAX, "value", 3)
    replica = make_region().replica
    residency = replica.residency
    residency.loader = lambda _image: b""

    def act() -> None:
        if not residency.reads_in_place:
            raise ColdError((1,))

    assert len(list(islice(attempts(replica, act), 10))) == 3
    assert not residency.reads_in_place
