"""Reading entries that are on disk, for commands and batches that wait for them.

    Fetching   what is asked for, and who waits for it
    Pins       what came stays in memory until those have run
    rest       after a failure, nothing is read for a moment for work that no client waits for:
               acknowledgements, expiry, batches of peers

The engine reads; here is what follows when it has.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.region.client_table import ClientTable
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.fetching import Fetching, GoOn
from crdtstream.region.pins import Pins
from crdtstream.region.tick import Tick

REST_MS: Final = Size(1_000, least=1)


class ColdReads:
    """See the module's text.

    Attributes:
        rests_until: when the rest after a failure ends; not set: it does not rest.
        pins: what came a moment ago.
    """

    def __init__(
        self,
        replica: Replica,
        tick: Tick,
        fetching: Fetching,
        clients: ClientTable,
        deadlines: Deadlines,
    ) -> None:
        self.rests_until = deadlines.new()
        self.pins = Pins(replica.residency)
        self._replica = replica
        self._tick = tick
        self._fetching = fetching
        self._clients = clients

    def note_fetched(self, asked: Sequence[int], bodies: Mapping[int, bytes], now: Millis) -> None:
        """Take the bodies of images that a request of ``Ready.fetch`` has read, as they are kept.

        Images that were read ahead may be missing.
        """
        residency = self._replica.residency
        for number, body in bodies.items():
            residency.arrive(number, body)
        self.pins.add(bodies)
        self._go_on(self._fetching.note_fetched(asked, len(bodies)), now)

    def note_failed(self, asked: Sequence[int], reason: str, now: Millis) -> None:
        """Note that the image in front of a request cannot be read."""
        if self._fetching.fault is None:
            self._tick.notice("error", "entries cannot be read from disk", reason=reason)
        waiters = self._fetching.note_failed(asked, reason)
        if self._go_on_in_background in waiters:
            self.rests_until.set(Millis(now + REST_MS.value))
        self._go_on([one for one in waiters if one != self._go_on_in_background], now)

    def ask_in_background(self, images: Sequence[int]) -> None:
        """Ask for images that no client waits for, unless reading failed a moment ago."""
        if self.rests_until.at is None:
            # Failures before this were reported then.
            while self._fetching.ask(images, self._go_on_in_background) is not None:
                pass
            self._tick.open()

    def pass_time(self, now: Millis) -> None:
        """End the rest, if its time has passed."""
        rests_until = self.rests_until.at
        if rests_until is not None and rests_until <= now:
            self.rests_until.set(None)
            self._go_on_in_background()

    def _go_on(self, waiters: Sequence[GoOn], now: Millis) -> None:
        for go_on in waiters:
            go_on()
        self._clients.serve_fetched(now)
        self._tick.open()

    def _go_on_in_background(self) -> None:
        """Try again what stood still for want of entries; acknowledgements do so each tick."""
        self._tick.may_apply = True
        self._replica.expiry_is_held = False
