"""What a serving link picks from the log: the origins asked for, each batch once."""

from crdtstream.core.effects import Record
from crdtstream.core.ids import Region
from crdtstream.region.links.stats import ServeStats
from crdtstream.replication.server import Session
from crdtstream.store.log import Logged

R1, R2, R3 = Region(1), Region(2), Region(3)


def session(*origins: Region, **has: int) -> Session:
    """A puller that asks for these origins; ``r1=3``: it has three effects of region 1."""
    sent_vv = {Region(int(name.removeprefix("r"))): n for name, n in has.items()}
    return Session(R3, 1, frozenset(origins), sent_vv, ServeStats(), {})


def rows(*records: Record) -> list[Logged]:
    return [Logged(seq, record) for seq, record in enumerate(records, start=1)]


LOG = rows(
    Record(R1, 1, 1, b"1:1", None),
    Record(R2, 1, 3, b"2:1-3", None),
    Record(R1, 2, 1, None, b"local changes only"),
    Record(R1, 2, 4, b"1:2-4", b"and local changes"),
    Record(R2, 4, 4, b"2:4", None),
)


def test_only_the_origins_asked_for_are_sent() -> None:
    assert session(R1).pick(LOG) == [b"1:1", b"1:2-4"]
    assert session(R2).pick(LOG) == [b"2:1-3", b"2:4"]
    assert session(R1, R2).pick(LOG) == [b"1:1", b"2:1-3", b"1:2-4", b"2:4"]


def test_what_the_puller_has_is_not_sent_and_the_very_next_effect_is() -> None:
    assert session(R1, r1=1).pick(LOG) == [b"1:2-4"]
    assert session(R2, r2=3).pick(LOG) == [b"2:4"]
    assert session(R2, r2=4).pick(LOG) == []


def test_a_batch_is_sent_once() -> None:
    one = session(R1, R2)
    one.pick(LOG)
    assert one.pick(LOG) == []
    assert one.sent_vv == {R1: 4, R2: 4}
