"""The side of a region that its log sees: how far the log is, and what follows from that.

records of a tick ──> the log ─┬─ note_logged ──> parcels that waited for it may leave
                               ├─ note_durable ─> acknowledgements, WAITAOF, stability
                               └─ note_refused ─> parcels that waited: the outcome is unknown;
                                                  further writes are refused
the log is cut ──────────────────  note_beginning ─> links hear what they can be sent
"""

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis
from crdtstream.region.assembled import Assembled
from crdtstream.region.links.links import Links
from crdtstream.region.outstanding import Mark
from crdtstream.region.ready import Parcel, made_uncertain
from crdtstream.region.write_gate import Cause


class LogSide:
    """See the module's text.

    Attributes:
        told: parcels that may leave in the next Ready.
    """

    def __init__(self, made: Assembled, links: Links) -> None:
        self.told: list[Parcel] = []
        self._tick = made.ground.tick
        self._clients, self._gate = made.client_side.clients, made.client_side.gate
        self._outstanding, self._retention = made.storage.outstanding, made.storage.retention
        self._membership, self._opening = made.participation.membership, made.participation.opening
        self._stability = made.others.stability
        self._links = links

    def note_logged(self, seq: int, now: Millis, *, durable: bool) -> None:
        """Note that the log has every record up to ``seq``.

        Args:
            durable: a power cut cannot take them back either.
        """
        outstanding = self._outstanding
        self.told += outstanding.note_logged(seq)
        if durable:
            self.note_durable(outstanding.mark(), now)
        if self._gate.fault is not None:
            self._accept_again()
        if outstanding.is_congested and outstanding.relieve():
            self._clients.wake_all()
        opening = self._opening
        if opening.readiness.is_recovering:
            opening.note_logged()
        if not opening.catching_up.is_level:
            opening.note_time(now)
        self._links.note_logged(seq, now)
        self._tick.open()

    def note_durable(self, mark: Mark, now: Millis) -> None:
        """Note that a sync that began at ``mark`` is done."""
        self._outstanding.note_durable(mark)
        self._membership.note_durable(self._outstanding.durable_seq, now)
        if self._gate.fault is not None:
            self._accept_again()
        self._stability.forget_stable()
        # WAITAOF may wait for just this.
        self._clients.settle_acks(now)
        self._tick.open()

    def note_synced(self, mark: Mark, now: Millis) -> None:
        """Do as ``note_durable``, and wake links at both ends: waiting clients there do not have
        to wait for the next message of a quiet link."""
        before = self._outstanding.durable_vv
        self.note_durable(mark, now)
        self._opening.note_logged()
        self._links.wake_serves_with_news()
        if self._outstanding.durable_vv != before:
            self._links.ack_soon()

    def note_beginning(self, first_seq: int, begins: VersionVector) -> None:
        """Note where the log begins: it was opened, or cutting it came to an end."""
        self._retention.note_beginning(first_seq, begins)
        self._retention.cutting_seq = 0
        self._links.wake_serves()
        self._tick.open()

    def note_refused(self, reason: str) -> None:
        """Note that the disk refused commits or a sync: waiting clients hear that the outcome is
        unknown."""
        if self._gate.fault is None:
            self._tick.notice(
                "error", "the log cannot be written; writes are refused", reason=reason
            )
        self._gate.refuse(Cause.DISK, reason)
        self.told += made_uncertain(self._outstanding.take_parcels())
        # Their writes are refused from here on, and their reads are answered.
        self._clients.wake_all()
        self._tick.open()

    @property
    def is_congested(self) -> bool:
        """True if more waits for the disk than should: take nothing new from clients."""
        return self._outstanding.is_congested and self._gate.fault is None

    def _accept_again(self) -> None:
        self._tick.notice("info", "the log can be written again; writes are accepted")
        self._gate.refuse(Cause.DISK, None)
