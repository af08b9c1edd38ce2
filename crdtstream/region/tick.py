"""The open tick: what happened since the last Ready."""

from collections.abc import Callable
from typing import Any

from crdtstream.region.ready import Notice, Parcel


class Tick:
    """What the open tick has to tell, and whom it wakes.

    Attributes:
        on_open: called once when a tick opens: somebody has to ask for its Ready.
    """

    __slots__ = ("_is_open", "_links", "_notices", "_parcels", "_woken", "on_open")

    def __init__(self) -> None:
        self.on_open: Callable[[], None] = _nobody_asks
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
        """Something happened."""
        if not self._is_open:
            self._is_open = True
            self.on_open()

    def owe(self, parcel: Parcel) -> None:
        """Tell this when all that was done up to the end of the tick is in the log."""
        self._parcels.append(parcel)
        if not self._is_open:
            self._is_open = True
            self.on_open()

    def wake(self, receiver: object) -> None:
        """Its blocked command is over."""
        self._woken[receiver] = None
        self.open()

    def wake_link(self, link: object) -> None:
        """The link has something to do."""
        self._links[link] = None
        self.open()

    def notice(self, level: str, text: str, **details: object) -> None:
        self._notices.append(Notice(level, text, details))
        self.open()

    def close(self) -> tuple[list[Parcel], list[Any], list[Any], list[Notice]]:
        """End the tick; returns its parcels, whom and which links it wakes, and its notices."""
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
