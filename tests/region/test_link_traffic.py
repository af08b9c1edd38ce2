"""Messages that a link needs: counted, on two regions without IO and with a manual clock."""

import pytest

from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import decode_batch
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.link import LinkState
from crdtstream.region.links.messages import Batches, FromServer, Open, Received
from crdtstream.region.links.pull import Connect, Pull
from crdtstream.region.links.pull import Send as SendToServer
from crdtstream.region.links.pull import Sleep as PullSleep
from crdtstream.region.links.serve import Read, Seek, Send, Serve, Sleep
from tests.harness.driven import Driven, make_region

R1, R2 = RegionId(1), RegionId(2)
# Heartbeats are not what is counted.
LIMITS = RegionLimits(heartbeat_interval_ms=60_000, link_silence_ms_max=600_000)
TURN_SECONDS = 0.001


class Traffic:
    """Region 2 pulls from region 1; a turn is a millisecond.

    Attributes:
        batches, acks: messages so far.
        wakes: how often the pulling end of an idle link did something, or looked whether to.
        payload: bytes of batches in them.
    """

    def __init__(self, limits: RegionLimits = LIMITS) -> None:
        self.at = 0.0
        self.batches = self.acks = self.payload = self.wakes = 0
        self.writer = Driven(make_region(1, peers=(2,), limits=limits))
        self.reader = Driven(make_region(2, peers=(1,), limits=limits))
        self.pull: Pull = self.reader.region.links.pulls[R1]
        assert self.pull.next(self.reader.now, self.at) == Connect()
        opening = self.pull.next(self.reader.now, self.at)
        assert isinstance(opening, SendToServer)
        assert isinstance(opening.message, Open)
        serve = self.writer.region.links.accept(opening.message, self.at)
        assert isinstance(serve, Serve)
        self.serve = serve
        self.turn()
        assert self.pull.link.state is LinkState.LIVE
        self.batches = self.acks = self.payload = 0

    def turn(self, entries: int = 0) -> None:
        """Region 1 adds so many entries, and both ends do what they then have to do."""
        for index in range(entries):
            self.writer.write(str(index))
        self.writer.end_tick()
        self.writer.commit()
        self._serve()
        self.reader.region.apply_arrivals(self.reader.now)
        self.reader.end_tick()
        self.reader.commit()
        self._pull()
        self.at += TURN_SECONDS

    def idle(self, seconds: float) -> None:
        """Nothing happens, and each end sleeps for as long as it said it would."""
        ends = self.at + seconds
        while self.at < ends:
            served_until = self._serve()
            pulled_until = self._pull()
            self.wakes += 1
            assert pulled_until is not None
            self.at = min(served_until, pulled_until)

    def _serve(self) -> float:
        while True:
            match self.serve.next(self.writer.now, self.at):
                case Seek():
                    self.serve.begin_at(1)
                case Read(seq, _):
                    self.serve.take(self.writer.log[seq - 1 :])
                case Send(message):
                    self._receive(message)
                case Sleep(until) if until > self.at:
                    return until

    def _receive(self, message: object) -> None:
        if isinstance(message, Batches):
            self.batches += 1
            self.payload += sum(map(len, message.batches))
            message = Received([(decode_batch(encoded), encoded) for encoded in message.batches])
        assert isinstance(message, FromServer)
        self.pull.receive(message, self.reader.now, self.at)

    def _pull(self) -> float | None:
        while not isinstance(action := self.pull.next(self.reader.now, self.at), PullSleep):
            assert isinstance(action, SendToServer)
            assert not isinstance(action.message, Open)
            self.acks += 1
            self.serve.receive(action.message, self.at)
        return action.until


@pytest.mark.parametrize(
    ("per_turn", "batches_max", "acks_max"),
    [(100, 14, 7), (10, 505, 52)],
    ids=["100,000 a second", "10,000 a second"],
)
def test_messages_of_10_000_entries(per_turn: int, batches_max: int, acks_max: int) -> None:
    traffic = Traffic()
    for _ in range(10_000 // per_turn):
        traffic.turn(per_turn)
    for _ in range(30):
        traffic.turn()
    assert traffic.reader.region.replica.vv == {R1: 10_000}
    assert traffic.writer.region.knowledge.of(R2) == {R1: 10_000}
    assert traffic.batches <= batches_max
    assert traffic.acks <= acks_max


def test_a_lone_entry_waits_for_nothing() -> None:
    traffic = Traffic()
    for _ in range(30):
        traffic.turn()
    traffic.turn(1)
    assert (traffic.batches, traffic.acks) == (1, 1)
    assert traffic.writer.region.knowledge.of(R2) == {R1: 1}


def test_bytes_of_a_small_entry_before_compression() -> None:
    traffic = Traffic()
    for _ in range(100):
        traffic.turn(100)
    for _ in range(10):
        traffic.turn()
    fields = sum(len(encode_fields([b"field", b"%d" % index])) for index in range(100)) / 100
    # Two bytes for its ID, one for its length as these differ, and its part of the batch's head.
    assert fields + 3 < traffic.payload / 10_000 <= fields + 3.5


@pytest.mark.parametrize(("peer_pulls", "acks_max"), [(True, 41), (False, 241)])
def test_messages_and_wakes_of_an_idle_minute(peer_pulls: bool, acks_max: int) -> None:
    """A peer that hears this region's heartbeats is not told the same by acks."""
    traffic = Traffic(RegionLimits())
    traffic.pull.peer_pulls = peer_pulls
    traffic.idle(60)
    assert traffic.pull.link.state is LinkState.LIVE
    assert not traffic.serve.is_over
    assert traffic.acks <= acks_max
    # A second apart, and more often until the first ack says that the peer knows of that.
    assert traffic.wakes <= 61 + 6 + acks_max
