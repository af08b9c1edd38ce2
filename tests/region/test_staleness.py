"""Effects that a lost region would take with it: their measurement, and the rules at the bound."""

from itertools import pairwise

import pytest

from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.region.lag import MARKS_MAX, ReplicationLag
from crdtstream.region.links.messages import Open, Standing
from crdtstream.region.links.serve import Serve
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.region.ready import Notice, Parcel
from crdtstream.region.region import Region
from crdtstream.region.staleness import STEADY_MS, WAIT_MS, LagAction
from tests.harness.driven import SAID, UID, Driven, Told, make_region
from tests.harness.peers import peers_of

R2, R3 = RegionId(2), RegionId(3)


class Bounded(Driven):
    """A region with bounds, whose peers say what the test has them say."""

    def __init__(
        self,
        region: Region | None = None,
        *,
        effects: int = 0,
        ms: int = 0,
        action: LagAction = LagAction.REFUSE,
    ) -> None:
        super().__init__(region)
        self.staleness = self.region.staleness
        self.notices: list[Notice] = []
        self.staleness.tune(lag_effects_max=effects, lag_ms_max=ms, action=action)
        self.tick()

    def tick(self) -> None:
        self.notices += self.end_tick().notices
        if self.queue:
            self.notices += self.commit().notices

    def hear(self, n: int, peer: RegionId = R2) -> None:
        """A peer says how many effects of the region it durably has."""
        self.staleness.lag.note_durable(peer, n)
        self.tick()

    def later(self, ms: int) -> None:
        """Time goes on, and is passed to the region whenever it asked for it."""
        end = self.clock + ms
        for _ in range(100):
            if self.last.deadline is None or self.last.deadline > end:
                break
            self.clock = max(self.clock, self.last.deadline)
            self.region.pass_time(self.now)
            self.tick()
        else:
            pytest.fail("it asks for a time that has passed, again and again")
        self.clock = end

    def xadd(self) -> str:
        return self.told("XADD", "s", "*", "f", "v")

    def told(self, *argv: str) -> str:
        """The reply, or the first word of an error; empty: there is none yet."""
        self.call(*argv)
        self.tick()
        replies = self.client.replies
        if not replies:
            return ""
        (reply,) = replies
        return str(reply).split()[0] if isinstance(reply, Exception) else "ok"


# --- Measuring ------------------------------------------------------------------------------------


def test_the_lag_is_what_the_peer_that_has_most_lacks() -> None:
    driven = Bounded()
    for _ in range(5):
        driven.xadd()
    assert driven.staleness.lag.effects == 5
    driven.hear(2, R2)
    driven.hear(4, R3)
    assert driven.staleness.lag.effects == 1
    driven.hear(5, R2)
    assert driven.staleness.lag.effects == 0


def test_the_age_is_that_of_the_oldest_effect_that_no_other_region_has() -> None:
    driven = Bounded()
    for _ in range(3):
        driven.xadd()
        driven.later(100)
    found = []
    for n in range(4):
        driven.hear(n)
        found.append(driven.staleness.lag.ms(driven.now))
    assert found == [300, 200, 100, 0]


def test_effects_of_the_open_tick_count() -> None:
    driven = Bounded()
    driven.write("a")
    assert driven.staleness.lag.effects == 1


def test_a_region_without_others_lags_behind_nobody() -> None:
    driven = Bounded(make_region(peers=()), effects=1)
    assert [driven.xadd() for _ in range(3)] == ["ok"] * 3
    assert driven.staleness.state == "alone"
    assert (driven.staleness.lag.effects, driven.staleness.lag.ms(driven.now)) == (0, 0)


def test_a_peer_that_lost_its_disk_is_taken_at_its_new_word() -> None:
    driven = Bounded(effects=2)
    driven.xadd()
    driven.xadd()
    driven.hear(2)
    driven.later(500)
    driven.staleness.lag.note_lost(R2, 0)
    assert driven.staleness.lag.effects == 2
    assert driven.xadd() == "LAGGED"
    driven.hear(1)
    assert driven.staleness.lag.effects == 1


def test_a_peer_that_links_with_less_than_before_is_taken_at_its_new_word() -> None:
    """It pulls from here before anybody could pull from it."""
    driven = Bounded(effects=2)
    driven.xadd()
    driven.xadd()
    driven.hear(2)
    standing = Standing(DatabaseIdentity(UID), recovering=False, regains=False)
    opening = Open(
        R2, "crdb", 9, frozenset({RegionId(1)}), {RegionId(1): 1}, standing, membership=SAID
    )
    assert isinstance(driven.region.links.accept(opening, 0.0), Serve)
    assert driven.staleness.lag.effects == 1


def test_effects_that_another_peer_still_has_are_no_lag() -> None:
    driven = Bounded(effects=2)
    driven.xadd()
    driven.hear(1, R2)
    driven.hear(1, R3)
    driven.staleness.lag.note_lost(R2, 0)
    assert driven.staleness.lag.effects == 0


def test_effects_of_an_earlier_run_count_as_lag_until_a_peer_reports() -> None:
    before = Bounded()
    before.xadd()
    driven = Bounded(make_region(log=before.log), effects=100, ms=60_000)
    driven.log += before.log
    assert driven.staleness.state == "unknown"
    assert driven.xadd() == "LAGGED"
    driven.hear(0)
    assert driven.staleness.state == "within"
    assert driven.xadd() == "ok"
    assert driven.staleness.lag.effects == 2


def test_the_age_survives_more_marks_than_are_kept() -> None:
    """It may be told too high, never too low, and memory is bounded."""
    replica = Replica(RegionId(1), peers=[R2])
    lag = ReplicationLag(replica, peers_of(RegionId(1), R2), now=Millis(0))
    issued_at = {}
    for n in range(1, 3 * MARKS_MAX.value):
        replica.vv[RegionId(1)] = n  # as issuing an effect does
        issued_at[n] = Millis(10 * n)
        lag.note_issued(issued_at[n])
    assert len(lag._marks) <= MARKS_MAX.value
    now = Millis(100 * MARKS_MAX.value)
    ages = []
    for n in range(0, 3 * MARKS_MAX.value - 2, 97):
        lag.note_durable(R2, n)
        ages.append(lag.ms(now))
        assert ages[-1] >= now - issued_at[n + 1]
    assert all(later <= earlier for earlier, later in pairwise(ages))


def test_a_clock_that_is_set_back_does_not_make_effects_younger_for_long() -> None:
    driven = Bounded(ms=1000)
    driven.clock = 10_000_000
    driven.xadd()
    driven.clock = 1_000
    driven.xadd()
    driven.later(1001)
    assert driven.xadd() == "LAGGED"


# --- Refusing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 7])
def test_no_more_writes_are_acknowledged_than_the_bound(bound: int) -> None:
    driven = Bounded(effects=bound)
    assert [driven.xadd() for _ in range(bound + 2)] == ["ok"] * bound + ["LAGGED"] * 2
    driven.hear(1)
    assert [driven.xadd() for _ in range(2)] == ["ok", "LAGGED"]


def test_a_pipeline_in_one_tick_does_not_pass_the_bound() -> None:
    driven = Bounded(effects=3)
    clients = [Told(driven.region) for _ in range(10)]
    for client in clients:
        driven.call("XADD", "s", "*", "f", "v", client=client)
        driven.call("XADD", "t", "*", "f", "v", client=client)
    driven.tick()
    replies = [reply for client in clients for reply in client.replies]
    assert sum(not isinstance(reply, Exception) for reply in replies) == 3
    assert driven.region.replica.issued == 3


def test_a_transaction_is_admitted_whole_or_not_at_all() -> None:
    driven = Bounded(effects=3)
    driven.xadd()
    driven.told("MULTI")
    for _ in range(3):
        driven.told("XADD", "s", "*", "f", "v")
    assert driven.told("EXEC") == "EXECABORT"
    assert driven.region.replica.issued == 1
    assert driven.told("DISCARD") == "ERR", "the transaction has ended"
    driven.told("MULTI")
    for _ in range(2):
        driven.told("XADD", "s", "*", "f", "v")
    driven.told("XLEN", "s")
    assert driven.told("EXEC") == "ok"


def test_a_transaction_that_only_reads_goes_on() -> None:
    driven = Bounded(effects=1)
    driven.xadd()
    driven.told("MULTI")
    driven.told("XLEN", "s")
    assert driven.told("EXEC") == "ok"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("XADD s * f v", "LAGGED"),
        ("XDEL s 1-1", "LAGGED"),
        ("XTRIM s MAXLEN 0", "LAGGED"),
        ("DEL s", "LAGGED"),
        ("EXPIRE s 100", "LAGGED"),
        ("XGROUP CREATE s h 0", "LAGGED"),
        ("XGROUP SETID s g 0", "LAGGED"),
        ("XACKDEL s g IDS 1 1-1", "LAGGED"),
        ("FLUSHALL", "LAGGED"),
        ("XRANGE s - +", "ok"),
        ("XREAD STREAMS s 0", "ok"),
        ("XREADGROUP GROUP g c STREAMS s >", "ok"),
        ("XACK s g 1-1", "ok"),
        ("XCLAIM s g c 0 1-1", "ok"),
        ("XAUTOCLAIM s g c 0 0", "ok"),
        ("XGROUP CREATECONSUMER s g d", "ok"),
        ("XGROUP DELCONSUMER s g d", "ok"),
        ("CRDT.XGROUP SETMODE s g AT-LEAST-ONCE", "ok"),
        ("CRDT.TOKEN", "ok"),
        ("PUBLISH channel message", "ok"),
        ("WAIT 0 0", "ok"),
    ],
)
def test_writes_of_data_are_refused_at_the_bound_and_other_commands_run(
    words: str, expected: str
) -> None:
    driven = Bounded()
    driven.told("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    driven.staleness.tune(lag_effects_max=1)
    issued = driven.region.replica.issued
    assert driven.told(*words.split()) == expected
    if expected == "LAGGED":
        assert driven.region.replica.issued == issued


def test_the_bound_in_time_refuses_what_comes_later() -> None:
    driven = Bounded(ms=1000)
    driven.xadd()
    driven.later(1000)
    assert driven.xadd() == "ok"
    driven.later(1)
    assert driven.xadd() == "LAGGED"
    driven.hear(1)
    assert driven.xadd() == "ok", "the oldest that lacks is 1 ms old now"


def test_the_error_says_how_much_lags_and_what_to_do() -> None:
    driven = Bounded(effects=2, ms=5000)
    driven.xadd()
    driven.later(300)
    driven.xadd()
    driven.call("XADD", "s", "*", "f", "v")
    driven.tick()
    (reply,) = driven.client.replies
    assert str(reply) == (
        "LAGGED region 1 has 2 effects that no other region durably has, the oldest for 300 ms; "
        "max_replication_lag_effects is 2, max_replication_lag_ms is 5000. Try again when the "
        "others have caught up, or write in another region"
    )
    assert driven.staleness.refused == 1


def test_writes_that_never_fit_are_told_so() -> None:
    driven = Bounded(effects=2)
    with pytest.raises(CommandError, match=r"LAGGED 3 writes at once never fit .* 2: divide them"):
        driven.region.change(driven.now, lambda _replica, _now: 0, Nobody(), writes=3)


def test_a_program_is_refused_for_as_many_writes_as_it_says() -> None:
    driven = Bounded(effects=4)
    driven.xadd()
    driven.region.change(driven.now, lambda _replica, _now: 0, Nobody(), writes=3)
    driven.xadd()
    with pytest.raises(CommandError, match="LAGGED region 1 has 2 effects"):
        driven.region.change(driven.now, lambda _replica, _now: 0, Nobody(), writes=3)


def test_a_disk_that_refuses_comes_first() -> None:
    driven = Bounded(effects=1)
    driven.xadd()
    driven.refuse("disk full")
    assert driven.xadd() == "MISCONF"


# --- Warning --------------------------------------------------------------------------------------


def test_warn_lets_writes_pass_and_says_so_once() -> None:
    driven = Bounded(effects=1, action=LagAction.WARN)
    assert [driven.xadd() for _ in range(5)] == ["ok"] * 5
    assert driven.notices == []
    driven.later(STEADY_MS.value)
    (notice,) = driven.notices
    assert notice.level == "warning"
    assert "region 1 has 5 effects that no other region durably has" in str(notice.details)
    driven.later(60_000)
    driven.xadd()
    assert len(driven.notices) == 1
    assert driven.staleness.exceeded_count == 1
    driven.hear(6)
    assert [notice.level for notice in driven.notices] == ["warning", "info"]


def test_a_bound_that_is_left_at_once_is_not_worth_a_word() -> None:
    driven = Bounded(effects=1, action=LagAction.WARN)
    for n in range(1, 20):
        driven.xadd()
        driven.later(STEADY_MS.value - 1)
        driven.hear(n)
    assert driven.notices == []


def test_the_region_is_not_well_while_it_refuses_for_longer_than_a_moment() -> None:
    driven = Bounded(effects=1)
    driven.xadd()
    driven.xadd()
    found = [driven.region.refuses_writes]
    driven.later(STEADY_MS.value)
    found.append(driven.region.refuses_writes)
    driven.hear(1)
    found.append(driven.region.refuses_writes)
    assert [reason is not None for reason in found] == [False, True, False]


def test_an_idle_region_that_is_cut_off_says_so_when_the_time_has_come() -> None:
    driven = Bounded(ms=5_000, action=LagAction.WARN)
    driven.xadd()
    driven.later(5_000 + STEADY_MS.value)
    assert driven.notices == []
    driven.later(1)
    assert [notice.level for notice in driven.notices] == ["warning"]


# --- Throttling -----------------------------------------------------------------------------------


def test_a_throttled_write_waits_until_others_have_caught_up() -> None:
    driven = Bounded(effects=2, action=LagAction.THROTTLE)
    resuming(driven)
    assert [driven.xadd() for _ in range(3)] == ["ok", "ok", ""]
    assert driven.staleness.waiting_count == 1
    driven.later(WAIT_MS.value - 1)
    assert driven.client.replies == []
    driven.hear(1)
    driven.tick()
    assert len(driven.client.replies) == 1
    assert (driven.staleness.waiting_count, driven.staleness.throttled) == (0, 1)


def test_a_throttled_write_waits_no_longer_than_its_time() -> None:
    driven = Bounded(effects=1, action=LagAction.THROTTLE)
    resuming(driven)
    driven.xadd()
    for _ in range(3):
        assert driven.xadd() == ""
        driven.later(WAIT_MS.value - 1)
        assert driven.client.replies == []
        driven.later(1)
        driven.tick()
        assert len(driven.client.replies) == 1
    assert driven.staleness.refused == 0


def test_others_have_room_for_as_many_of_those_who_wait_as_they_took() -> None:
    driven = Bounded(effects=3, action=LagAction.THROTTLE)
    clients = [resuming(driven, Told(driven.region)) for _ in range(9)]
    for client in clients:
        driven.call("XADD", "s", "*", "f", "v", client=client)
    driven.tick()
    assert [len(client.replies) for client in clients] == [1] * 3 + [0] * 6
    driven.hear(2)
    driven.tick()
    assert [len(client.replies) for client in clients] == [0] * 3 + [1] * 2 + [0] * 4


def test_reads_of_others_go_on_while_writes_are_throttled() -> None:
    driven = Bounded(effects=1, action=LagAction.THROTTLE)
    resuming(driven)
    driven.xadd()
    driven.xadd()
    reader = Told(driven.region)
    driven.call("XLEN", "s", client=reader)
    driven.tick()
    assert reader.replies == [1]


def test_a_throttled_client_goes_on_when_the_bound_is_removed() -> None:
    driven = Bounded(effects=1, action=LagAction.THROTTLE)
    resuming(driven)
    driven.xadd()
    assert driven.xadd() == ""
    driven.staleness.tune(lag_effects_max=0)
    driven.tick()
    driven.tick()
    assert len(driven.client.replies) == 1
    assert driven.region.database.limit is None


def test_a_throttled_client_is_refused_when_the_action_becomes_refuse() -> None:
    driven = Bounded(effects=1, action=LagAction.THROTTLE)
    resuming(driven)
    driven.xadd()
    assert driven.xadd() == ""
    driven.staleness.tune(action=LagAction.REFUSE)
    driven.tick()
    driven.tick()
    (reply,) = driven.client.replies
    assert str(reply).startswith("LAGGED ")


def test_a_throttled_client_that_goes_leaves_nothing() -> None:
    driven = Bounded(effects=1, action=LagAction.THROTTLE)
    driven.xadd()
    driven.xadd()
    assert driven.staleness.waiting_count == 1
    driven.region.clients.disconnect(driven.client.client)
    assert driven.staleness.waiting_count == 0
    assert driven.end_tick().deadline is not None, "only what says that the bound is reached"
    driven.later(STEADY_MS.value)
    assert driven.end_tick().deadline is None


def test_a_throttled_program_is_held_back_for_its_time() -> None:
    driven = Bounded(effects=1, action=LagAction.THROTTLE)
    driven.xadd()
    asked = driven.now
    found = [
        driven.staleness.holds_back(1, asked, Millis(asked + ms))
        for ms in (0, WAIT_MS.value - 1, WAIT_MS.value)
    ]
    assert found == [True, True, False]
    driven.region.change(driven.now, lambda _replica, _now: 0, Nobody())


def test_the_rate_is_what_others_acknowledge() -> None:
    driven = Bounded(effects=10, action=LagAction.THROTTLE)
    n = 0
    for _ in range(30):
        driven.clock += 100
        for _ in range(5):
            driven.xadd()
        n += 5
        driven.hear(n)
    assert driven.staleness.lag.acknowledged_per_second(driven.now) == pytest.approx(50, abs=5)
    driven.clock += 10_000
    assert driven.staleness.lag.acknowledged_per_second(driven.now) < 10
    driven.staleness.lag.note_lost(R2, 0)
    assert driven.staleness.lag.acknowledged_per_second(driven.now) == 0


class Nobody:
    """A program that does not look at its result."""

    def receive(self, parcel: Parcel) -> None:
        pass

    def resume(self) -> None:
        raise AssertionError("a program's change never blocks")


def resuming(driven: Driven, told: Told | None = None) -> Told:
    """Have a client run what was postponed when it may go on, as a connection does."""
    told = told or driven.client

    def resume() -> None:
        client = told.client
        if client.postponed is not None and not client.is_postponed:
            again, client.postponed = client.postponed, None
            client.run(iter([again]), driven.now, bytes_max=1 << 20)

    told.resume = resume  # type: ignore[method-assign]
    return told


def test_a_record_that_comes_back_to_its_region_is_in_another_one() -> None:
    """A region that recovers takes its own effects back: they are not missing elsewhere."""
    before = Bounded()
    before.xadd()
    driven = Bounded(make_region(), effects=1)
    driven.hear(1)
    for record in before.log:
        assert record.batch is not None
        batch = decode_batch(record.batch)
        driven.region.replica.receive(batch, record.batch, driven.now)
    driven.tick()
    assert driven.staleness.lag.effects == 0
    assert driven.xadd() == "ok"


def test_health_says_no_before_a_refused_client_has_looked_twice() -> None:
    """Found by the drill disk-loss-bounded: clients came back to a region that still refused.

    docs/failover.md lets them come home after two good looks, half a second apart.
    """
    driven = Bounded(effects=1)
    driven.xadd()
    assert driven.xadd() == "LAGGED"
    driven.later(500)
    assert "LAGGED" not in str(driven.region.refuses_writes)
    assert driven.region.refuses_writes is not None
