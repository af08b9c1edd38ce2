"""The open tick: what happened since the last Ready."""

from collections.abc import Callable, Iterable
from typing import Any

from crdtstream.region.events import Event
from crdtstream.region.ready import AnyLetter, Notice, Parcel


class Tick:
    """Output of the open tick, and the receivers and links that it wakes.

    Attributes:
        letters: messages that may leave for other regions.
        may_apply: something arrived that may be applied; it stays so until it was tried.
        folder_is_due: the folder may have to say something new; it stays so while that is open.
        has_quiet_links: a link to a peer is quiet, so news may end that; it stays so until none is.
        on_open: called once when a tick opens: its Ready has to be asked for.
        follow: follows the events that parts post; the region sets it.
    """

    __slots__ = (
        "_is_open",
        "_links",
        "_notices",
        "_parcels",
        "_woken",
        "folder_is_due",
        "follow",
        "has_quiet_links",
        "letters",
        "may_apply",
        "on_open",
    )

    def __init__(self) -> None:
        self.on_open: Callable[[], None] = _nobody_asks
        self.follow: Callable[[Event], None] = _nobody_follows
        self.letters: list[AnyLetter] = []
        self.folder_is_due = True
        self.has_quiet_links = False
        self.may_apply = False
        self._is_open = False
        self._parcels: list[Parcel] = []
        # Dicts for sets: they keep the order.
        self._woken: dict[Any, None] = {}
        self._links: dict[Any, None] = {}
        self._notices: list[Notice] = []

    @property
    def is_open(self) -> bool:
        return self._is_open

    def open(self) -> None:
        """Note that something happened."""
        if not self._is_open:
            self._is_open = True
            self.on_open()

    def owe(self, parcel: Parcel) -> None:
        """Owe a parcel until all that was done up to the end of the tick is in the log."""
        self._parcels.append(parcel)
        if not self._is_open:
            self._is_open = True
            self.on_open()

    def wake(self, receiver: object) -> None:
        """Wake a receiver: its blocked command has ended."""
        self._woken[receiver] = None
        self.open()

    def wake_link(self, link: object) -> None:
        """Wake a link: it has something to do."""
        self._links[link] = None
        if not self._is_open:
            self.open()

    def send(self, letters: Iterable[AnyLetter]) -> None:
        """Send letters; each may be lost."""
        self.letters += letters
        self.open()

    def post(self, event: Event) -> None:
        """Have the other parts follow an event, at once; see ``events.py``."""
        self.follow(event)

    def want_folder(self) -> None:
        """Note that the folder is to say something new."""
        self.folder_is_due = True
        self.open()

    def take_letters(self) -> list[AnyLetter]:
        """The letters that leave now."""
        letters, self.letters = self.letters, []
        return letters

    def notice(self, level: str, text: str, **details: object) -> None:
        self._notices.append(Notice(level, text, details))
        self.open()

    def close(self) -> tuple[list[Parcel], list[Any], list[Any], list[Notice]]:
        """End the tick; return its parcels, receivers and links to wake, and its notices."""
        self._is_open = False
        parcels, self._parcels = self._parcels, []
        woken, links, notices = [], [], []
        if self._woken:
            woken = list(self._woken)
            self._woken.clear()
        if self._links:
            links = list(self._links)
            self._links.clear()
        if self._notices:
            notices, self._notices = self._notices, []
        return parcels, woken, links, notices


def _nobody_asks() -> None:
    pass


def _nobody_follows(_event: Event) -> None:
    pass
