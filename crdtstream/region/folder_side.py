"""The side of a region that its folder sees: what the folder is to say, and what follows then.

    opening, numbering, membership ── next_change ──> the folder, durably
                                                         │
    the part that wanted it, then all that waits for it <┘ note_written

One change is written at a time: the next one is chosen once the last one is written.
"""

from collections.abc import Mapping

from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.assembled import Assembled
from crdtstream.region.links.links import Links
from crdtstream.region.ready import Confirm, FolderChange, StoreIncarnations, StoreMembership


class FolderSide:
    """See the module's text.

    Attributes:
        now: time of its last news; at first the start.
    """

    def __init__(self, made: Assembled, links: Links) -> None:
        part = made.participation
        self.now = made.ground.now
        self._replica, self._tick = made.ground.replica, made.ground.tick
        self._clients = made.client_side.clients
        self._bootstrap, self._retention = made.storage.bootstrap, made.storage.retention
        self._membership, self._numbering = part.membership, part.numbering
        self._opening = part.opening
        self._knowledge, self._lags = made.others.knowledge, made.others.lags
        self._stability = made.others.stability
        self._links = links

    def note_written(self, change: FolderChange, now: Millis) -> None:
        """Note that the folder says it, durably."""
        self.now = now
        if isinstance(change, StoreMembership):
            self._membership.note_folder(change, now)
            return
        if isinstance(change, StoreIncarnations):
            self._numbering.note_folder(change)
            self._tick.may_apply = True
            self._opening.look()
            # A database of one region has no peer to ask, and confirms before the first tick.
            self.note_recovered(now)
            # Its wait may have ended.
            self._opening.note_time(now)
            self._stability.forget_stable()
            # Clients that wait for effects which are lost by it are told so.
            self._clients.serve_all(self._replica.keys.now)
            self._tick.open()
            return
        self._opening.note_folder(change)
        # Its peers answered while it recovered: it may be level with them already.
        self._opening.note_time(now)
        # It may have recovered.
        self._stability.forget_stable()
        self._tick.open()

    def note_recovered(self, now: Millis) -> None:
        """Vote again, if all that a folder which lost votes waits for was heard."""
        if isinstance(self._opening.folder_change, Confirm):
            self._membership.note_recovered(now)

    @property
    def next_change(self) -> FolderChange | None:
        """The next thing that the folder is to say; None: it says what it should."""
        change = self._opening.folder_change
        heard = self._numbering.folder_change or self._membership.folder_change
        if isinstance(change, Confirm):
            # A folder that is confirmed proves its votes, and does not ask: it must have what the
            # members answered.
            confirm = None if self._membership.lacks_votes else change
            return heard or confirm
        return change or heard

    def due_change(self) -> FolderChange | None:
        change = self.next_change
        # A confirmation may wait for votes, and is due again when something else happens.  A region
        # that recovers waits for an event that may come by anything.
        self._tick.folder_is_due = (
            change is not None
            or self._opening.readiness.is_recovering
            or self._opening.folder_change is not None
        )
        return change

    def follow_newer(self, region: RegionId, *, has_begun: bool) -> None:
        if not self._numbering.is_newest(region):
            self._opening.note_earlier_folder(region)
        if has_begun:
            # A state that was copied before may have effects of it that do not count any more.
            self._bootstrap.held.add(region)
        self._links.note_incarnation(region, has_begun=has_begun)

    def follow_ends(self, ends: Mapping[RegionId, int]) -> None:
        """Note that effects beyond these ends do not count any more, and that their numbers are
        used again: no region has the new ones, whatever it was known to have."""
        self._knowledge.note_ends(ends)
        self._retention.note_ends(ends)
        self._lags.note_ends(ends)
        self._opening.catching_up.note_ends(ends)
        self._tick.open()
