"""Calls that go on, and end before their time when their certificates do."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Callable, Iterable


class RunningCalls:
    """The calls that go on at a port, by the certificates that they came with."""

    def __init__(self) -> None:
        # The scope that ends each, and the serial number of its certificate.
        self._scopes: dict[asyncio.Timeout, int] = {}

    def __len__(self) -> int:
        return len(self._scopes)

    @contextlib.asynccontextmanager
    async def bounded(self, serial: int, *, until: datetime.datetime) -> AsyncIterator[None]:
        """The block is a call that ends at a moment, or before.

        Args:
            serial: of its certificate.
            until: the end of that certificate.

        Raises:
            TimeoutError: it was ended so.
        """
        seconds = (until - datetime.datetime.now(datetime.UTC)).total_seconds()
        async with asyncio.timeout(seconds) as scope:
            self._scopes[scope] = serial
            try:
                yield
            finally:
                del self._scopes[scope]

    def end_all(self, *, within: float) -> None:
        """End all of them.

        Args:
            within: seconds that they have to end by themselves.
        """
        self._end(self._scopes, within)

    def end_of(self, is_revoked: Callable[[int], bool]) -> None:
        """End those whose certificates have one of these serial numbers, at once."""
        self._end([one for one, serial in self._scopes.items() if is_revoked(serial)], within=0)

    def _end(self, scopes: Iterable[asyncio.Timeout], within: float) -> None:
        at = asyncio.get_running_loop().time() + within
        # One that is ending cannot be changed any more.
        for scope in [one for one in scopes if not one.expired()]:
            before = scope.when()
            scope.reschedule(at if before is None else min(at, before))
