"""``Region.ready`` calls a part only if it has marked something.

The simulator judges the same with all parts at once (``sim/tick_check.py``).
"""

import sys
from collections.abc import Callable
from types import FrameType

from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.lag import RATE_MS
from tests.harness.driven import Driven
from tests.region.test_serve import quiet_link

R2 = RegionId(2)


def called_in(work: Callable[[], object]) -> list[str]:
    """Files of the product's functions that are called, in order."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _arg: object) -> None:
        _, package, file = frame.f_code.co_filename.rpartition("crdtstream/")
        if event == "call" and package:
            files.append(file)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return files


def test_a_tick_that_only_tells_replies_calls_no_part() -> None:
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    driven.commit()
    driven.clock += 1
    driven.write("b")
    driven.end_tick()
    driven.region.log.note_logged(2, driven.now, durable=True)
    files = called_in(lambda: driven.region.ready(driven.now))
    assert set(files) <= {
        "region/region.py",
        "region/tick.py",
        "region/ready.py",
        "core/replica.py",
    }, "records are asked for, and nothing else"
    assert len(files) <= 4


def test_each_of_two_quiet_links_is_looked_at_while_the_other_is_busy() -> None:
    driven, serve = quiet_link()
    assert driven.region.tick.has_quiet_links
    driven.end_tick()
    assert driven.region.tick.has_quiet_links, "it stays quiet, and is looked at again"
    driven.write("b")
    driven.end_tick()
    driven.commit()
    assert not serve.is_quiet
    assert not driven.region.tick.has_quiet_links


def test_a_waiting_client_is_told_to_links_that_are_not_quiet() -> None:
    driven, serve = quiet_link()
    serve.is_quiet = driven.region.tick.has_quiet_links = False
    driven.call("WAIT", "2", "0")
    driven.end_tick()
    assert serve.told_awaited


def test_a_key_that_expires_is_a_deadline_and_one_without_is_none() -> None:
    driven = Driven()
    before = driven.end_tick().deadline
    driven.call("SET", "k", "v", "PX", "1")
    driven.call("XADD", "t", "*", "f", "v")
    driven.call("PEXPIRE", "t", "2")
    string, stream = (
        driven.region.replica.string_deadlines,
        driven.region.replica.stream_deadlines,
    )
    assert [at for at, _ in string.values()] == [driven.clock + 1]
    assert driven.end_tick().deadline == driven.clock + 1
    driven.call("PERSIST", "k")
    assert [at for at, _ in stream.values()] == [driven.clock + 2]
    assert driven.end_tick().deadline is not None
    driven.call("PERSIST", "t")
    assert driven.end_tick().deadline == before


def test_a_stream_alone_sets_a_deadline() -> None:
    driven = Driven()
    driven.call("XADD", "t", "*", "f", "v")
    driven.call("PEXPIRE", "t", "2")
    assert driven.end_tick().deadline == driven.clock + 2


def test_a_string_alone_sets_a_deadline() -> None:
    driven = Driven()
    driven.call("SET", "k", "v", "PX", "1")
    assert driven.end_tick().deadline == driven.clock + 1


def test_the_record_of_an_acknowledgement_is_measured_as_its_tick_ends() -> None:
    driven = Driven()
    driven.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    driven.write("a")
    driven.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    driven.end_tick()
    driven.commit()
    stream = driven.region.replica.stream(b"s")
    assert stream is not None
    (entry_id,) = [nack.id for nack in stream.groups[b"g"].pending()]
    session = driven.client.client.session
    driven.call("XACK", "s", "g", f"{entry_id >> 64}-{entry_id & (1 << 64) - 1}")
    assert driven.region.database.open_writes.sessions == [session]
    driven.end_tick()
    assert driven.region.database.open_writes.sessions == []
    assert session.wrote_n == driven.region.replica.issued


def test_the_rate_of_acknowledgements_is_sampled_when_it_is_due() -> None:
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    driven.commit()
    lag = driven.region.staleness.lag
    lag.note_durable(R2, 1)
    due = lag.sample_at
    driven.clock = due
    driven.end_tick()
    assert lag.sample_at == due + RATE_MS.value
    assert lag.acknowledged_per_second(Millis(due + 1)) > 0


def test_a_clock_that_is_set_back_is_noticed_by_the_lag_without_a_bound() -> None:
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    lag = driven.region.staleness.lag
    assert lag.since_ms == driven.clock
    driven.clock -= 500
    driven.end_tick()
    assert (lag.since_ms, lag.now) == (driven.clock, driven.clock)
